"""UNet with a mixture head: at every cell a few Gaussians, fitted by likelihood at observed targets.

Reference: Bishop, "Mixture density networks" (1994), on the network of `unet.py`. It is the rival that the
paper lacks: as cheap as the point forecast, and a full distribution of any shape at each cell.

    p(u | cell) = sum_m w_m N(u; mu_m, s_m^2),     L = mean over M_o of -log p(u)

The mixture is that of `solid` (`theory/mixture_law.py`): the same head, the same smallest scale, so that neither can
win by being sharper than the other may be. Members are independent draws at each cell: marginals are meant to be right,
the joint law is not modelled.

Where we depart from it: scales are a softplus above a smallest one rather than exponentials, so that a single repeated
value cannot drive the likelihood to infinity; the mask is an input by default, since no published way is to be matched.
Learning rate: 1e-3, cosine.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..fields import Pair, Source
from ..forecast import Forecaster, Spec
from ..noise import Noise
from ..theory.law import Observed
from ..theory.mixture_law import MixtureLaw
from ..theory.objective import masked_mean
from .regression import input_channels, input_width
from .unet import PlainUNet, wrapped_axes


class UNetMixture(Forecaster):
    name = "unet-mixture"
    family = "distribution"
    reference = "Bishop, Mixture density networks, 1994; network of Ronneberger et al., 2015"
    revision = 2  # 1: a smallest scale of 0.001 and a head of its own
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 8},
        "laptop": {"width": 32},
        "paper": {"width": 32},
    }
    mask_channel: bool

    def __init__(
        self, spec: Spec, *, mask_channel: bool = True, width: int = 32, components: int = 3, periodic: bool = False
    ):
        super().__init__(spec)
        self.mask_channel = mask_channel
        self.net = PlainUNet(input_width(spec, mask_channel), width, width, wrapped_axes(spec, periodic))
        self.law = MixtureLaw(width, spec.channels, components)

    def encode(self, source: Source) -> Tensor:  # (B, F, H, W)
        return F.silu(self.net(input_channels(source, self.spec, self.mask_channel)))

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        target = pair.target
        b, c, y, x = where = target.mask.nonzero(as_tuple=True)
        features = self.encode(pair.source).movedim(1, -1)[b, y, x]
        each = self.law.loss(Observed(features, target.values[where], c), generator)
        return masked_mean(torch.zeros_like(target.values).index_put(where, each), target.mask)

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        return self.law.quantiles(self.encode(source), noise(source.values.shape[1:]))

    def sample_few(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        return self.law.quantiles(self.encode(source), noise(source.values.shape[1:]), few=True)
