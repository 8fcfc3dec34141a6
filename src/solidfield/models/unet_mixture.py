"""UNet with a mixture head: at every cell a few Gaussians, fitted by likelihood at observed targets.

Reference: Bishop, "Mixture density networks" (1994), on the network of `unet.py`. It is the rival that the
paper lacks: as cheap as the point forecast, and a full distribution of any shape at each cell.

    p(u | cell) = sum_m w_m N(u; mu_m, s_m^2),     L = mean over M_o of -log p(u)

Members are independent draws at each cell: marginals are meant to be right, the joint law is not modelled.

Where we depart from it: scales are softplus(.) + 1e-3 rather than exponentials, so that a single repeated
value cannot drive the likelihood to infinity; the mask is an input by default, since no published way is to
be matched.
Learning rate: 1e-3, cosine.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..fields import Pair, Source
from ..forecast import Forecaster, Spec
from ..noise import Noise
from ..theory.objective import masked_mean
from .regression import input_channels, input_width
from .unet import PlainUNet, wrapped_axes

FLOOR = 1e-3  # smallest scale, in standard deviations of the data


class UNetMixture(Forecaster):
    name = "unet-mixture"
    family = "distribution"
    reference = "Bishop, Mixture density networks, 1994; network of Ronneberger et al., 2015"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 8},
        "laptop": {"width": 32},
        "paper": {"width": 32},
    }
    mask_channel: bool

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = True,
        width: int = 32,
        components: int = 3,
        periodic: bool = False,
    ):
        super().__init__(spec)
        self.mask_channel = mask_channel
        self.components = components
        outputs = 3 * components * spec.channels
        self.net = PlainUNet(input_width(spec, mask_channel), outputs, width, wrapped_axes(spec, periodic))

    def mixture(self, source: Source) -> tuple[Tensor, Tensor, Tensor]:
        """Log weights, means and scales of the components, each (B, M, C, H, W)."""
        raw = self.net(input_channels(source, self.spec, self.mask_channel))
        logits, mu, s = raw.unflatten(1, (3, self.components, self.spec.channels)).unbind(1)
        return logits.log_softmax(1), mu, F.softplus(s) + FLOOR

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        nll = -mixture_log_density(pair.target.values, *self.mixture(pair.source))
        return masked_mean(nll, pair.target.mask, pair.source.mask)

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        log_w, mu, s = self.mixture(source)
        shape = mu.shape[2:]
        uniform = torch.special.ndtr(noise(shape))  # (K, B, C, H, W): which component
        passed = uniform[:, :, None] > log_w.exp().cumsum(1)  # (K, B, M, C, H, W)
        m = passed.sum(2, keepdim=True).clamp(max=self.components - 1)
        mu, s = (t[None].expand_as(passed).gather(2, m).squeeze(2) for t in (mu, s))
        return mu + s * noise(shape)


def mixture_log_density(
    u: Tensor,  # (B, C, H, W)
    log_w: Tensor,  # (B, M, C, H, W)
    mu: Tensor,  # (B, M, C, H, W)
    s: Tensor,  # (B, M, C, H, W)
) -> Tensor:  # (B, C, H, W)
    z = (u[:, None] - mu) / s
    log_normal = -0.5 * z.square() - s.log() - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(log_w + log_normal, dim=1)
