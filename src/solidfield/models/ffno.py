"""FFNO: a neural operator whose Fourier layers act along one axis at a time.

Reference: Tran, Mathews, Xie, Ong, "Factorized Fourier neural operators" (2023), in the size of the paper's
table: 535,746 parameters, 24 modes, width 64, four layers.

    K(x)  = F_x^-1 [ R_x . F_x(x) ] + F_y^-1 [ R_y . F_y(x) ]      lowest modes only, R shared by all layers
    b_l   = W2 relu(W1 K(x_l))                                     a feed-forward on channels, one per layer
    x_l+1 = x_l + b_l
    u     = H2 H1 b_L                                              linear; of the last branch, not the sum

Inputs are the zero-filled readings and the coordinates of the cell; linear maps are weight-normalised.

Where we depart from it: masked squared error instead of the relative L2 norm, no running normaliser and no
input noise (values arrive standardised); modes are clamped to the bins that each axis has; an axis that is
not periodic is extended by `margin` zero cells on its far side before the layers and cropped after them, as
in the reference's mesh variant.
Learning rate: 1e-3, cosine (2.5e-3 in the reference).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..fields import Source
from ..forecast import Spec
from ..nn.coords import unit_coordinates
from .regression import Regression, input_channels, input_width


class FFNO(Regression):
    name = "ffno"
    reference = "Tran et al., Factorized Fourier neural operators, ICLR 2023"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 12, "modes": 6, "layers": 2},
        "laptop": {"width": 32, "modes": 16, "layers": 4},  # the reference's own number of modes
        "paper": {"width": 64, "modes": 24, "layers": 4},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        width: int = 64,
        modes: int = 24,
        layers: int = 4,
        margin: int = 8,
    ):
        super().__init__(spec, mask_channel)
        self.margins = [0 if wraps else margin for wraps in spec.grid.periodic]  # (y, x)
        lengths = [n + extra for n, extra in zip(spec.grid.shape, self.margins, strict=True)]
        self.lift = NormedLinear(input_width(spec, mask_channel) + 2, width)
        self.spectral = nn.ParameterList(spectral_weight(width, min(modes, n // 2 + 1)) for n in lengths)
        self.feeds = nn.ModuleList(
            nn.Sequential(NormedLinear(width, 4 * width), nn.ReLU(), NormedLinear(4 * width, width))
            for _ in range(layers)
        )
        self.head = nn.Sequential(NormedLinear(width, 128), NormedLinear(128, spec.channels))
        self.register_buffer("coordinates", unit_coordinates(spec.grid), persistent=False)  # (H, W, 2)
        self.coordinates: Tensor

    def forecast(
        self, source: Source, cells: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:  # (B, C, H, W)
        height, width = self.spec.grid.shape
        inputs = input_channels(source, self.spec, self.mask_channel).permute(0, 2, 3, 1)  # (B, H, W, F)
        place = self.coordinates.expand(len(source), -1, -1, -1)
        x = self.lift(torch.cat([inputs, place], dim=-1))
        x = F.pad(x, (0, 0, 0, self.margins[1], 0, self.margins[0]))
        branch = x
        for feed in self.feeds:
            branch = feed(factorised(x, self.spectral[0], self.spectral[1]))
            x = x + branch
        return self.head(branch[:, :height, :width]).permute(0, 3, 1, 2)


def factorised(
    x: Tensor,  # (B, H, W, I)
    r_y: Tensor,  # (I, O, m_y, 2)
    r_x: Tensor,  # (I, O, m_x, 2)
) -> Tensor:  # (B, H, W, O)
    """The sum of a spectral map along each axis."""
    return spectral_map(x, r_y, axis=1) + spectral_map(x, r_x, axis=2)


def spectral_map(
    x: Tensor,  # (B, H, W, I)
    weight: Tensor,  # (I, O, m, 2), real and imaginary parts
    axis: int,  # 1 or 2
) -> Tensor:  # (B, H, W, O)
    """Multiply the lowest m Fourier coefficients along an axis by matrices over the channels, drop the rest.

    Few modes are wanted, so both transforms are products with a small matrix: half the time of an FFT.
    """
    lines = x.movedim(axis, 0)  # (L, B, L', I)
    modes = weight.shape[2]
    waves, count = partial_waves(x.shape[axis], modes)
    waves, count = waves.to(x), count.to(x)
    spectrum = (waves.flatten(0, 1) @ lines.flatten(1)).view(2, modes, -1, x.shape[-1])
    re, im = spectrum.unbind(0)  # (m, B L', I)
    r, i = weight.permute(3, 2, 0, 1).unbind(0)  # (m, I, O)
    mixed = torch.stack([re @ r - im @ i, re @ i + im @ r])  # (2, m, B L', O)
    back = (waves * count[:, None]).flatten(0, 1).T @ mixed.view(2 * modes, -1)  # (L, B L' O)
    return back.view(*lines.shape[:-1], weight.shape[1]).movedim(0, axis)


def partial_waves(length: int, modes: int) -> tuple[Tensor, Tensor]:
    """cos and -sin of the lowest modes, (2, m, L), orthonormal scale, and how often each mode counts, (m,).

    A mode counts with its mirror image; the mean and, for an even length, the fastest mode are their own.
    """
    k = torch.arange(modes)
    angles = 2 * math.pi / length * (k[:, None] * torch.arange(length) % length).double()
    count = torch.where((k == 0) | (2 * k == length), 1.0, 2.0)
    return torch.stack([angles.cos(), -angles.sin()]) / math.sqrt(length), count


def spectral_weight(width: int, modes: int) -> nn.Parameter:  # (width, width, modes, 2)
    return nn.Parameter(nn.init.xavier_normal_(torch.empty(width, width, modes, 2), gain=0.1))


class NormedLinear(nn.Module):
    """A linear map with its rows' lengths as parameters of their own: y = g (v / |v|) x + b."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        plain = nn.Linear(inputs, outputs)
        self.direction = nn.Parameter(plain.weight.detach().clone())  # (O, I)
        self.gain = nn.Parameter(plain.weight.detach().norm(dim=1))  # (O,)
        self.bias = nn.Parameter(plain.bias.detach().clone())  # (O,)

    def forward(self, x: Tensor) -> Tensor:  # (..., I) -> (..., O)
        return F.linear(x, self.direction * (self.gain / self.direction.norm(dim=1))[:, None], self.bias)
