"""Where a cell lies, and the codes by which a network reads it.

Coordinates are on the unit square, (y, x): i / n along a periodic axis, where cell n is cell 0 again, and (i
+ 1/2) / n along one that ends. Codes of a coordinate u:

    dyadic      sin(2^k pi u), cos(2^k pi u), k = 0 .. bands - 1
    Gaussian    sin(u B), cos(u B), entries of B drawn once from N(0, scale^2) and kept
    rotary      a vector turned in the planes (j, j + m) by the angle u * scale * 10000^(-j / m): products of
                two such vectors depend on the difference of their coordinates only
    sinusoidal  the fixed codes of the positions 0 .. n - 1 of a sequence

Leads are divided by `HORIZON` before they are coded, so that the leads in use lie within a period of the
slowest wave.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..grid import Grid
from ..keys import torch_generator

HORIZON = 8.0  # steps; leads beyond it are coded as well, they are only less distinct


def unit_coordinates(grid: Grid) -> Tensor:  # (H, W, 2)
    """(y, x) of every cell on the unit square.

    >>> unit_coordinates(Grid((2, 2), periodic=(True, False)))[:, 0]
    tensor([[0.0000, 0.2500],
            [0.5000, 0.2500]])
    """
    axes = [
        (torch.arange(length) + (0.0 if wraps else 0.5)) / length
        for length, wraps in zip(grid.shape, grid.periodic, strict=True)
    ]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)


def dyadic_features(
    u: Tensor,  # (..., D)
    bands: int,
) -> Tensor:  # (..., 2 * D * bands)
    frequencies = math.pi * 2.0 ** torch.arange(bands, device=u.device)
    angles = (u[..., None] * frequencies).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class GaussianFeatures(nn.Module):
    """Random Fourier features; the fixed matrix is a function of its name and counts as a weight."""

    def __init__(self, name: str, dims: int, waves: int, scale: float):
        super().__init__()
        draw = torch.randn(dims, waves, generator=torch_generator(name, "gaussian features"))
        self.waves = nn.Parameter(scale * draw, requires_grad=False)  # (D, waves)

    def forward(self, u: Tensor) -> Tensor:  # (..., D) -> (..., 2 * waves)
        angles = u @ self.waves
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


def rotary(
    x: Tensor,  # (B, heads, N, d), d divisible by 4: the first half turns with y, the second with x
    positions: Tensor,  # (B, N, 2)
    scale: float,
) -> Tensor:  # (B, heads, N, d)
    planes = x.shape[-1] // 4
    rates = scale * 10000.0 ** (-torch.arange(planes, device=x.device) / planes)  # (planes,)
    angles = positions[:, None, :, :, None] * rates  # (B, 1, N, 2, planes)
    a, b = x.unflatten(-1, (2, 2, planes)).unbind(-2)  # each (B, heads, N, 2, planes)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-2).flatten(-3)


def sinusoidal_codes(count: int, width: int) -> Tensor:  # (count, width), width even
    """The codes of the positions of a sequence: sin and cos at wavelengths from 2 pi to 10000 * 2 pi."""
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
