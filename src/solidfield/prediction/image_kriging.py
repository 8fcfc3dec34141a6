"""Kriging of one image by the readings near each cell, and fields with its covariance.

    C(d) = W(|d| / R) (a_1 exp(-|e^{B_1} d| / l_1) + a_2 M(|e^{B_2} d| / l_2)) + nugget,

M(u) = (1 + sqrt(3) u) e^{-sqrt(3) u}: a rough term for what is far, which does not run on beyond what was read, and a
smooth one for details. B = [[b, c], [c, -b]] stretches one direction and shrinks the other: streaks go on into a gap.
W(u) = (1 - u)^4 (4 u + 1) is 0 beyond the image's diagonal R (Wendland 1995), so that fields can be drawn exactly on a
torus. Near are the nearest readings, and the nearest on three coarser lattices, so that a wide gap is seen from all
sides (Katzfuss and Guinness 2021).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import next_fast_len
from scipy.spatial import cKDTree
from torch import Tensor

NEAR = ((1, 16), (3, 16), (9, 16), (27, 16))  # step of a lattice in cells, and readings of it that a cell hears
AT_ONCE = 2048  # cells whose matrices are in memory together


@dataclass(frozen=True)
class ImageCovariance:
    """C of two cells, by the way from one to the other."""

    reach: float  # R, in cells
    lengths: Tensor  # (2,) l, in cells
    sizes: Tensor  # (3,) a and, last, the nugget
    bends: Tensor  # (2, 2) b and c of each term

    @property
    def total(self) -> Tensor:
        return self.sizes.sum()

    def __call__(self, way: Tensor) -> Tensor:  # (..., 2) -> (...)
        """Without the nugget."""
        rough, smooth = (_bent(way, *bend) / length for bend, length in zip(self.bends, self.lengths, strict=True))
        smooth = 3**0.5 * smooth
        found = self.sizes[0] * torch.exp(-rough) + self.sizes[1] * (1 + smooth) * torch.exp(-smooth)
        u = (way.norm(dim=-1) / self.reach).clamp(max=1)
        return found * (1 - u) ** 4 * (4 * u + 1)


def _bent(way: Tensor, b: Tensor, c: Tensor) -> Tensor:  # (..., 2) -> (...)
    """|e^B d|."""
    r = (b**2 + c**2 + 1e-12).sqrt()  # e^B = cosh r + B sinh(r) / r, since B^2 = r^2
    even, odd = r.cosh(), r.sinh() / r
    y, x = way[..., 0], way[..., 1]
    bent = ((even + odd * b) * y + odd * c * x).square() + (odd * c * y + (even - odd * b) * x).square()
    return (bent + 1e-12).sqrt()


@dataclass(frozen=True)
class Cells:
    """Cells to be predicted, and the readings near each."""

    cell: np.ndarray  # (n, 2)
    near: np.ndarray  # (n, m) flat
    valid: np.ndarray  # (n, m) bool; False: named twice


def near_cells(mask: np.ndarray, cell: np.ndarray) -> Cells:
    """The readings that each cell hears."""
    found = []
    for step, count in NEAR:
        lattice = np.zeros_like(mask)
        lattice[::step, ::step] = mask[::step, ::step]
        sites = np.argwhere(lattice if lattice.any() else mask)
        _, which = cKDTree(sites).query(cell, k=list(range(1, min(count, len(sites)) + 1)))
        found.append(sites[which] @ [mask.shape[1], 1])
    near = np.sort(np.concatenate(found, 1), 1)
    near = np.pad(near, ((0, 0), (0, sum(count for _, count in NEAR) - near.shape[1])), "edge")
    return Cells(cell, near, np.diff(near, axis=1, prepend=-1) > 0)


def krige(
    covariance: ImageCovariance, cells: Cells, layers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # layers (H, W, k) -> (n, k) means, (n,) variance, (n, m) weights
    """Each layer at the cells, by the readings near them; the weights are the same for all."""
    parts = [solve(covariance, cells, layers, slice(i, i + AT_ONCE)) for i in range(0, len(cells.cell), AT_ONCE)]
    mean, variance, weight = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return mean, variance, weight


def solve(
    covariance: ImageCovariance, cells: Cells, layers: np.ndarray, rows: slice | np.ndarray
) -> tuple[Tensor, ...]:
    near, valid, width = cells.near[rows], torch.from_numpy(cells.valid[rows]), layers.shape[1]
    place = torch.from_numpy(np.stack([near // width, near % width], -1)).double()  # (n, m, 2)
    k = covariance(place[:, :, None] - place[:, None]) * (valid[:, :, None] & valid[:, None])
    k = k + torch.diag_embed(torch.where(valid, covariance.sizes[-1], 1.0))
    across = covariance(place - torch.from_numpy(cells.cell[rows]).double()[:, None]) * valid
    weight = torch.cholesky_solve(across[..., None], torch.linalg.cholesky(k))[..., 0]
    value = torch.from_numpy(layers.reshape(-1, layers.shape[-1])[near])  # (n, m, k)
    left = torch.maximum(covariance.total - (weight * across).sum(1), 1e-6 * covariance.total)
    return (weight[:, None] @ value)[:, 0], left, weight


def together(parts: list[Cells]) -> Cells:
    return Cells(*(np.concatenate(part) for part in zip(*(vars(cells).values() for cells in parts), strict=True)))


def fields(
    covariance: ImageCovariance, shape: tuple[int, int]
) -> Callable[[np.random.Generator], np.ndarray]:  # a generator -> (H, W)
    """Draws of a field with this covariance and nugget: exact, on a torus whose far side is out of reach."""
    around = [next_fast_len(n + int(np.ceil(covariance.reach)), real=True) for n in shape]
    kernel = torch.zeros(*around, dtype=torch.float64)
    for ends in itertools.product(*((0, n) for n in around)):  # both ways round
        steps = [torch.arange(n, dtype=torch.float64) - end for n, end in zip(around, ends, strict=True)]
        kernel += covariance(torch.stack(torch.meshgrid(*steps, indexing="ij"), -1))
    root = np.sqrt(np.maximum(np.fft.rfft2(kernel.numpy()).real, 0))
    nugget = float(covariance.sizes[-1]) ** 0.5

    def draw(generator: np.random.Generator) -> np.ndarray:
        smooth = np.fft.irfft2(root * np.fft.rfft2(generator.standard_normal(around)), s=around)
        return smooth[: shape[0], : shape[1]] + nugget * generator.standard_normal(shape)

    return draw
