"""One image with gaps: learned from itself, filled, and judged by parts of itself that were hidden.

There is one frame and no other to learn from, so examples are made: the shape of the gaps is laid over other places of
the image, and what was read there is hidden. Given the readings that are left, a cell has the law

    x(p) = m(p) + s(p) r(p)^g T(z(p)),       z = (g(p) - w_p' g(near)) / sd(p)

with kriging of the readings near it, m and s under C(d) = sum_j a_j e^{-d/l_j} + nugget, where the lengths l_j go from
neighbouring cells to half the image, so that no scale is left out; r(p), how rough the image is around p; and T from
N(0, 1) to a Student law, since errors have longer tails. All of it (a_j, nugget, g, the law) is fitted to half of the
hidden cells, and the other half says how honest it is; what is hidden has no part in the roughness around it. Near are
the nearest readings, and the nearest on two coarser lattices, so that a wide gap is seen from all sides (Vecchia 1988;
Katzfuss and Guinness 2021). Members have z of one field each, by Matheron's rule, so that means of areas have honest
laws, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

from ..errors import SolidError
from ..keys import numpy_generator

NEAR = ((1, 24), (4, 12), (16, 12))  # step of a lattice in cells, and readings of it that a cell hears
PLACES, HIDDEN = 24, 500  # where the gaps are laid, and cells hidden by each that are used
SCALES = (1 / 512, 1 / 128, 1 / 32, 1 / 8, 1 / 2)  # lengths of the covariance, as parts of the image's diagonal
STEPS, SAMPLE, RATE = 150, 600, 0.15  # of the descent to the covariance: steps, cells of each, size of the first
ROUGH = 12.0  # cells over which roughness is smoothed
AT_ONCE = 2048  # cells whose matrices are in memory together
LEAST = 500  # readings of an image from which anything can be learned


@dataclass(frozen=True)
class Image:
    """What was learned of an image."""

    mean: float
    rough: np.ndarray  # (H, W), 1 on average
    lengths: tuple[float, ...]  # l, in cells
    covariance: Tensor  # a and, last, the nugget
    power: float  # g
    freedom: float  # of the Student law
    stretch: float
    honesty: dict[str, float]  # at hidden cells that nothing was fitted to

    @property
    def variance(self) -> Tensor:
        return self.covariance[:-1].sum()

    def correlation(self, apart: Tensor) -> Tensor:
        terms = (size * torch.exp(-apart / length) for size, length in zip(self.covariance, self.lengths, strict=False))
        return sum(terms, torch.zeros_like(apart))


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
    image: Image, cells: Cells, residual: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # residual (H, W) -> (n,) mean, (n,) variance, (n, m) weights
    parts = [solve(image, cells, residual, slice(i, i + AT_ONCE)) for i in range(0, len(cells.cell), AT_ONCE)]
    mean, variance, weight = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return mean, variance, weight


def solve(image: Image, cells: Cells, residual: np.ndarray, rows: slice | np.ndarray) -> tuple[Tensor, ...]:
    near, valid, width = cells.near[rows], torch.from_numpy(cells.valid[rows]), residual.shape[1]
    place = torch.from_numpy(np.stack([near // width, near % width], -1)).double()  # (n, m, 2)
    total = image.variance + image.covariance[-1]
    k = image.correlation(torch.cdist(place, place)) * (valid[:, :, None] & valid[:, None])
    k = k + torch.diag_embed(torch.where(valid, image.covariance[-1], 1.0))
    apart = torch.cdist(place, torch.from_numpy(cells.cell[rows]).double()[:, None])[..., 0]
    across = image.correlation(apart) * valid
    weight = torch.cholesky_solve(across[..., None], torch.linalg.cholesky(k))[..., 0]
    value = torch.from_numpy(residual.ravel()[near]) * valid
    left = torch.maximum(total - (weight * across).sum(1), 1e-6 * total)
    return (weight * value).sum(1), left, weight


def learn(values: np.ndarray, seed: int = 0) -> Image:  # (H, W), NaN in the gaps
    """Lay the gaps over other places of the image, and fit what predicts the cells hidden there."""
    mask = np.isfinite(values)
    if mask.sum() < LEAST or mask.all():
        raise SolidError(
            f"the image has {mask.sum():,} readings and {(~mask).sum():,} cells without; give one with at least "
            f"{LEAST} readings and some gap"
        )
    examples = [_hide(values, numpy_generator(seed, "hide", place)) for place in range(PLACES)]
    fitted, judged = (_together(examples[start::2]) for start in (0, 1))
    mean, side = float(values[mask].mean()), float(np.hypot(*mask.shape))
    residual = np.where(mask, values - mean, 0.0)
    lengths = tuple(side * scale for scale in SCALES)
    image = Image(mean, _roughness(values), lengths, _covariance(lengths, fitted[0], residual, seed), 0.0, 1e9, 1.0, {})
    power, freedom, stretch = _law(*_errors(image, fitted[0], residual), fitted[1])
    image = replace(image, power=power, freedom=freedom, stretch=stretch)
    error, sd = _errors(image, judged[0], residual)
    scale = sd * judged[1] ** image.power
    return replace(image, honesty=scores(error, lambda level: scale * student_quantile(image, level)))


def _covariance(lengths: tuple[float, ...], cells: Cells, residual: np.ndarray, seed: int) -> Tensor:
    """Sizes of the terms of the covariance, and the nugget, under which the hidden cells are likeliest."""
    truth, draws = torch.from_numpy(residual[tuple(cells.cell.T)]), numpy_generator(seed, "covariance")
    start = torch.tensor([*(1 / len(lengths) for _ in lengths), 0.01], dtype=torch.float64)
    logs = torch.log(truth.var() * start).requires_grad_()
    optimiser = torch.optim.Adam([logs], RATE)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        rows = draws.choice(len(truth), min(SAMPLE, len(truth)), replace=False)
        image = Image(0.0, residual, lengths, logs.exp(), 0.0, 1e9, 1.0, {})
        mean, variance, _ = solve(image, cells, residual, rows)
        surprise = 0.5 * (variance.log() + (truth[rows] - mean).square() / variance).mean()
        optimiser.zero_grad()
        surprise.backward()
        optimiser.step()
    return logs.detach().exp()


def student_quantile(image: Image, level: np.ndarray | float) -> np.ndarray:
    return image.stretch * student.ppf(level, image.freedom)


def scores(error: np.ndarray, quantile: Callable[[float], np.ndarray]) -> dict[str, float]:
    """MAE, RMSE, CRPS, and the 95 % interval's score and coverage, of laws around their mean."""
    levels = (np.arange(99) + 0.5) / 99
    pinball = [np.mean((error - (q := quantile(p))) * (p - (error < q))) for p in levels]
    low, high = quantile(0.025), quantile(0.975)
    outside = np.maximum(low - error, 0) + np.maximum(error - high, 0)
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "crps": float(2 * np.mean(pinball)),
        "interval_score": float(np.mean(high - low + outside * 2 / 0.05)),
        "coverage": float(np.mean(outside == 0)),
    }


def fill_image(
    values: np.ndarray,  # (H, W), NaN in the gaps
    members: int = 100,
    seed: int = 0,
) -> tuple[Image, np.ndarray, np.ndarray, np.ndarray]:
    """What was learned; (H, W) mean and scale, where the scale is 0 at readings; and (K, H, W) members."""
    image, mask = learn(values, seed), np.isfinite(values)
    cells = near_cells(mask, np.argwhere(~mask))
    residual = np.where(mask, values - image.mean, 0.0)
    mean, variance, weight = krige(image, cells, residual)
    where = tuple(cells.cell.T)
    sd = np.sqrt(variance)
    centre, scale = values.copy(), np.zeros_like(values)
    centre[where] = image.mean + mean
    scale[where] = sd * image.rough[where] ** image.power
    drawn = np.repeat(centre[None].astype(np.float32), members, 0)
    for k in range(members):
        field = _field(image, values.shape, numpy_generator(seed, "image", k))
        z = (field[where] - (weight * field.ravel()[cells.near] * cells.valid).sum(1)) / sd
        drawn[k][where] += scale[where] * student_quantile(image, norm.cdf(z))
    return image, centre, scale, drawn


def _field(image: Image, shape: tuple[int, int], generator: np.random.Generator) -> np.ndarray:  # (H, W)
    """A field with this covariance and nugget, on a torus twice as long."""
    y, x = (np.minimum(np.arange(2 * n), 2 * n - np.arange(2 * n)) for n in shape)
    kernel = image.correlation(torch.from_numpy(np.hypot(y[:, None], x))).numpy()
    power = np.maximum(np.fft.rfft2(kernel).real, 0)
    white = np.fft.rfft2(generator.standard_normal(kernel.shape))
    field = np.fft.irfft2(white * np.sqrt(power), s=kernel.shape)[: shape[0], : shape[1]]
    return field + np.sqrt(float(image.covariance[-1])) * generator.standard_normal(shape)


def _hide(values: np.ndarray, generator: np.random.Generator) -> tuple[Cells, np.ndarray]:  # and roughness (n,)
    """Some of the readings that the gaps would hide elsewhere, given those that are left."""
    mask = np.isfinite(values)
    for _ in range(100):
        shift = [int(generator.integers(0, n)) for n in mask.shape]
        hidden = mask & np.roll(~mask, shift, (0, 1))
        if hidden.sum() >= 50 and (mask & ~hidden).sum() >= LEAST // 2:
            break
    cell = np.argwhere(hidden)
    some = cell[generator.choice(len(cell), min(HIDDEN, len(cell)), replace=False)]
    return near_cells(mask & ~hidden, some), _roughness(np.where(hidden, np.nan, values))[tuple(some.T)]


def _together(examples: list[tuple[Cells, np.ndarray]]) -> tuple[Cells, np.ndarray]:
    cells = [vars(cells).values() for cells, _ in examples]
    return Cells(*(np.concatenate(part) for part in zip(*cells, strict=True))), np.concatenate([r for _, r in examples])


def _errors(image: Image, cells: Cells, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n,) twice
    mean, variance, _ = krige(image, cells, residual)
    return residual[tuple(cells.cell.T)] - mean, np.sqrt(variance)


def _law(error: np.ndarray, sd: np.ndarray, rough: np.ndarray) -> tuple[float, float, float]:
    """Power of the roughness, degrees of freedom and stretch that make the hidden errors likeliest."""

    def surprise(x: np.ndarray) -> float:
        scale = sd * rough ** x[0] * np.exp(x[2])
        return float(np.mean(np.log(scale) - student.logpdf(error / scale, 2.1 + np.exp(x[1]))))

    power, freedom, stretch = minimize(surprise, [0.5, 1.5, 0.0], method="Nelder-Mead").x
    return float(power), float(2.1 + np.exp(freedom)), float(np.exp(stretch))


def _roughness(values: np.ndarray) -> np.ndarray:  # (H, W)
    """The size of steps from cell to cell around each cell, against that of the whole image."""
    squares, counts = np.zeros_like(values), np.zeros_like(values)
    for axis in (0, 1):
        step = np.diff(values, axis=axis)
        known = np.isfinite(step)
        for ends in (slice(1, None), slice(None, -1)):
            at = (ends, slice(None)) if axis == 0 else (slice(None), ends)
            squares[at] += np.where(known, step, 0) ** 2
            counts[at] += known
    typical = squares.sum() / max(counts.sum(), 1)
    total, seen = (gaussian_filter(part, ROUGH, truncate=8) for part in (squares, counts))
    prior = 0.05 * counts.mean()  # where nothing is near, the image's own
    return np.sqrt((total + prior * typical) / (seen + prior) / max(typical, 1e-12))
