"""Fields in the frequency domain: smooth noise as a filter of white noise, and spectral convolutions.

An axis of n cells has a real orthonormal basis Q of waves: the cosines of the DCT-II where it ends, sines and
cosines of the Fourier series where it wraps around; row k has the angular frequency omega_k per cell. A
filter g acts as

    (G eps)(p) = Q_y' [ g * (Q_y eps Q_x') ] Q_x,        Cov(G eps) = Q' diag(g^2) Q   for white eps,

which is both infinity-Diff's mollifier, g = exp(-|omega|^2 std^2 / 2), a Gaussian blur, and a Gaussian random
field of spectrum g^2: (1 + |omega l|^2)^(-alpha) (Matern-like) or exp(-|omega l|^2 / 2) (squared exponential)
for the length l, scaled to unit variance on average over the cells.

A spectral convolution multiplies the lowest m x m Fourier coefficients by a matrix over channels each and
drops the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import SolidError
from ..grid import Grid

Gain = Callable[[np.ndarray], np.ndarray]  # |omega|^2 (H, W), radians per cell -> gain (H, W)


def axis_basis(size: int, periodic: bool) -> tuple[np.ndarray, np.ndarray]:  # (n, n), (n,)
    """Rows are waves of unit length, and their angular frequencies per cell."""
    cells = np.arange(size)
    if periodic:
        order = (np.arange(size) + 1) // 2  # 0, 1, 1, 2, 2, ...
        shift = np.where(np.arange(size) % 2 == 0, 0.5 * np.pi, 0.0)  # odd rows cos, even rows sin
        shift[0] = 0.0
        omega = 2 * np.pi * order / size
        rows = np.cos(omega[:, None] * cells - shift[:, None])
    else:
        omega = np.pi * np.arange(size) / size
        rows = np.cos(omega[:, None] * (cells + 0.5))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), omega


class FieldFilter(nn.Module):
    """G of the equation above; it acts on the last two axes and has no parameters."""

    rows: Tensor
    columns: Tensor
    gain: Tensor

    def __init__(self, grid: Grid, gain: Gain):
        super().__init__()
        (rows, omega_y), (columns, omega_x) = (
            axis_basis(size, wraps) for size, wraps in zip(grid.shape, grid.periodic, strict=True)
        )
        squared = omega_y[:, None] ** 2 + omega_x[None, :] ** 2
        for name, array in (("rows", rows), ("columns", columns), ("gain", gain(squared))):
            self.register_buffer(name, torch.tensor(array, dtype=torch.float32), persistent=False)

    def forward(self, eps: Tensor) -> Tensor:  # (..., H, W) -> (..., H, W)
        waves = self.rows @ eps @ self.columns.T
        return self.rows.T @ (self.gain * waves) @ self.columns


def mollifier(std: float) -> Gain:
    """A Gaussian blur; std in cells."""
    return lambda squared: np.exp(-0.5 * squared * std**2)


def random_field(spectrum: str, lengthscale: float, alpha: float) -> Gain:
    """The square root of a spectrum of mean one; lengthscale in cells."""

    def gain(squared: np.ndarray) -> np.ndarray:
        scaled = squared * lengthscale**2
        if spectrum == "matern":
            power = (1 + scaled) ** -alpha
        elif spectrum == "rbf":
            power = np.exp(-0.5 * scaled)
        else:
            raise SolidError(f"spectrum '{spectrum}' is unknown; choose matern or rbf")
        return np.sqrt(power / power.mean())

    return gain


def low_modes(spectrum: Tensor, modes: tuple[int, int]) -> Tensor:  # (..., H, W // 2 + 1) -> (..., m, m' // 2 + 1)
    """The lowest coefficients of an rfft2: rows 0, 1, .. and then .., -2, -1, of the first columns."""
    upper, lower = _halves(modes[0])
    kept = spectrum[..., : modes[1] // 2 + 1]
    return torch.cat([kept[..., :upper, :], kept[..., kept.shape[-2] - lower :, :]], dim=-2)


def from_low_modes(low: Tensor, shape: tuple[int, int]) -> Tensor:  # (..., m, m' // 2 + 1) -> (..., H, W)
    """The field that has these coefficients and no others (rfft2 with norm 'forward')."""
    upper, lower = _halves(low.shape[-2])
    gap = low.new_zeros(*low.shape[:-2], shape[0] - upper - lower, low.shape[-1])
    full = torch.cat([low[..., :upper, :], gap, low[..., upper:, :]], dim=-2)
    return torch.fft.irfft2(full, s=shape, norm="forward")  # missing columns are zeros


def _halves(modes: int) -> tuple[int, int]:
    return (modes + 1) // 2, modes // 2


class SpectralConv2d(nn.Module):
    """y = F^-1 [ R . F x ] + P x + b, with R a matrix over channels for each of the lowest modes."""

    def __init__(self, inputs: int, outputs: int, modes: tuple[int, int]):
        super().__init__()
        self.modes = modes
        # Kept modes leave with the power they came with.
        std = math.sqrt(0.5 / inputs)
        self.weight = nn.Parameter(std * torch.randn(2, modes[0], modes[1] // 2 + 1, inputs, outputs))
        self.point = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs, 1, 1))

    def forward(self, x: Tensor) -> Tensor:  # (B, I, H, W) -> (B, O, H, W)
        low = low_modes(torch.fft.rfft2(x, norm="forward"), self.modes)  # (B, I, m, m')
        # Complex products of many small matrices are slow on a CPU: (a + ib)(c + id) in real numbers.
        a, b = (part.permute(2, 3, 0, 1) for part in (low.real, low.imag))  # each (m, m', B, I)
        c, d = self.weight  # each (m, m', I, O)
        mixed = torch.complex(a @ c - b @ d, a @ d + b @ c).permute(2, 3, 0, 1)  # (B, O, m, m')
        return from_low_modes(mixed, (x.shape[-2], x.shape[-1])) + self.point(x) + self.bias


def spectral_norm(
    x: Tensor,  # (B, C, H, W)
    modes: tuple[int, int],
    groups: int,
) -> Tensor:  # (B, C, H, W)
    """Drop all but the lowest modes, and divide each group of channels by its root mean square."""
    shape = (x.shape[-2], x.shape[-1])
    low = from_low_modes(low_modes(torch.fft.rfft2(x, norm="forward"), modes), shape)
    power = low.unflatten(1, (groups, -1)).square().mean(dim=(2, 3, 4), keepdim=True)  # (B, groups, 1, 1, 1)
    return (low.unflatten(1, (groups, -1)) * (power + 1e-6).rsqrt()).flatten(1, 2)


def clamp_modes(modes: int, shape: tuple[int, int]) -> tuple[int, int]:
    """No more modes than the grid has."""
    return min(modes, shape[0]), min(modes, shape[1])
