"""One image with gaps: learned from itself, filled, and judged by parts of itself that were hidden.

There is one frame and no other to learn from, so examples are made: the shape of the gaps is laid over other places of
the image, and what was read there is hidden. Given the readings that are left, a cell has the law

    x(p) = m(p) + s(p) r(p)^g T(z(p)),       z = (g(p) - w_p' g(near)) / sd(p)

with kriging of the readings near it, m and s under

    C(d) = W(|d| / R) sum_j a_j M(|e^{B_j} d| / l_j) + nugget,      M(u) = (1 + sqrt(3) u) e^{-sqrt(3) u},

where the lengths l_j go from neighbouring cells to half the image, so that no scale is left out, and B_j = [[b, c],
[c, -b]] stretches one direction and shrinks the other: streaks go on into a gap. W(u) = (1 - u)^4 (4 u + 1) is 0 beyond
the image's diagonal R (Wendland 1995), so that fields can be drawn exactly on a torus. r(p) is how rough the image is
around p, and T leads from N(0, 1) to a Student law, since errors have longer tails. All of it (a_j, B_j, nugget, g, the
law) is fitted to half of the hidden cells, and the other half says how honest it is; what is hidden has no part in the
roughness around it. Near are the nearest readings, and the nearest on three coarser lattices, so that a wide gap is
seen from all sides (Vecchia 1988; Katzfuss and Guinness 2021). Members have z of one field each, by Matheron's rule,
so that means of areas have honest laws, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.fft import next_fast_len
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

from ..errors import SolidError
from ..keys import numpy_generator

NEAR = ((1, 16), (3, 16), (9, 16), (27, 16))  # step of a lattice in cells, and readings of it that a cell hears
PLACES, HIDDEN = 24, 500  # where the gaps are laid, and cells hidden by each that are used
SCALES = (1 / 512, 1 / 128, 1 / 32, 1 / 8, 1 / 2)  # lengths of the covariance, as parts of the image's diagonal
STEPS, SAMPLE, RATE = 150, 600, 0.15  # of the descent to the covariance: steps, cells of each, size of the first
ROUGH = 12.0  # cells over which roughness is smoothed
AT_ONCE = 2048  # cells whose matrices are in memory together
LEAST = 500  # readings of an image from which anything can be learned


@dataclass(frozen=True)
class Covariance:
    """C of two cells, by the way from one to the other."""

    reach: float  # R, in cells
    lengths: Tensor  # (J,) l
    sizes: Tensor  # (J + 1,) a and, last, the nugget
    bends: Tensor  # (J, 2) b and c

    @property
    def total(self) -> Tensor:
        return self.sizes.sum()

    def __call__(self, way: Tensor) -> Tensor:  # (..., 2) -> (...)
        """Without the nugget."""
        found = torch.zeros_like(way[..., 0])
        for size, length, (b, c) in zip(self.sizes, self.lengths, self.bends, strict=False):
            r = (b**2 + c**2 + 1e-12).sqrt()  # e^B = cosh r + B sinh(r) / r, since B^2 = r^2
            even, odd = r.cosh(), r.sinh() / r
            y, x = way[..., 0], way[..., 1]
            bent = torch.stack([(even + odd * b) * y + odd * c * x, odd * c * y + (even - odd * b) * x], -1)
            u = 3**0.5 * (bent.square().sum(-1) + 1e-12).sqrt() / length
            found = found + size * (1 + u) * torch.exp(-u)
        u = (way.norm(dim=-1) / self.reach).clamp(max=1)
        return found * (1 - u) ** 4 * (4 * u + 1)


@dataclass(frozen=True)
class Image:
    """What was learned of an image."""

    mean: float
    rough: np.ndarray  # (H, W), 1 on average
    covariance: Covariance
    power: float = 0.0  # g
    freedom: float = 1e9  # of the Student law
    stretch: float = 1.0
    honesty: dict[str, float] = field(default_factory=dict)  # at hidden cells that nothing was fitted to


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
    covariance: Covariance, cells: Cells, residual: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # residual (H, W) -> (n,) mean, (n,) variance, (n, m) weights
    parts = [solve(covariance, cells, residual, slice(i, i + AT_ONCE)) for i in range(0, len(cells.cell), AT_ONCE)]
    mean, variance, weight = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return mean, variance, weight


def solve(covariance: Covariance, cells: Cells, residual: np.ndarray, rows: slice | np.ndarray) -> tuple[Tensor, ...]:
    near, valid, width = cells.near[rows], torch.from_numpy(cells.valid[rows]), residual.shape[1]
    place = torch.from_numpy(np.stack([near // width, near % width], -1)).double()  # (n, m, 2)
    k = covariance(place[:, :, None] - place[:, None]) * (valid[:, :, None] & valid[:, None])
    k = k + torch.diag_embed(torch.where(valid, covariance.sizes[-1], 1.0))
    across = covariance(place - torch.from_numpy(cells.cell[rows]).double()[:, None]) * valid
    weight = torch.cholesky_solve(across[..., None], torch.linalg.cholesky(k))[..., 0]
    value = torch.from_numpy(residual.ravel()[near]) * valid
    left = torch.maximum(covariance.total - (weight * across).sum(1), 1e-6 * covariance.total)
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
    mean, rough = float(values[mask].mean()), _roughness(values)
    residual = np.where(mask, values - mean, 0.0)
    covariance = _fitted(fitted[0], residual, numpy_generator(seed, "covariance"))
    image = Image(mean, rough, covariance, *_law(*_errors(covariance, fitted[0], residual), fitted[1]))
    error, sd = _errors(covariance, judged[0], residual)
    scale = sd * judged[1] ** image.power
    return replace(image, honesty=scores(error, lambda level: scale * student_quantile(image, level)))


def _fitted(cells: Cells, residual: np.ndarray, draws: np.random.Generator) -> Covariance:
    """The covariance under which the hidden cells are likeliest."""
    truth = torch.from_numpy(residual[tuple(cells.cell.T)])
    reach = float(np.hypot(*residual.shape))
    lengths = reach * torch.tensor(SCALES, dtype=torch.float64)
    start = torch.tensor([*(1 / len(lengths) for _ in lengths), 0.01], dtype=torch.float64)
    logs, bends = torch.log(truth.var() * start), torch.zeros(len(lengths), 2, dtype=torch.float64)
    optimiser = torch.optim.Adam([logs.requires_grad_(), bends.requires_grad_()], RATE)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        rows = draws.choice(len(truth), min(SAMPLE, len(truth)), replace=False)
        mean, variance, _ = solve(Covariance(reach, lengths, logs.exp(), bends), cells, residual, rows)
        surprise = 0.5 * (variance.log() + (truth[rows] - mean).square() / variance).mean()
        optimiser.zero_grad()
        surprise.backward()
        optimiser.step()
    return Covariance(reach, lengths, logs.detach().exp(), bends.detach())


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
    mean, variance, weight = krige(image.covariance, cells, residual)
    where = tuple(cells.cell.T)
    sd = np.sqrt(variance)
    centre, scale = values.copy(), np.zeros_like(values)
    centre[where] = image.mean + mean
    scale[where] = sd * image.rough[where] ** image.power
    drawn = np.repeat(centre[None].astype(np.float32), members, 0)
    draw = fields(image.covariance, values.shape)
    for k in range(members):
        noise = draw(numpy_generator(seed, "image", k))
        z = (noise[where] - (weight * noise.ravel()[cells.near] * cells.valid).sum(1)) / sd
        drawn[k][where] += scale[where] * student_quantile(image, norm.cdf(z))
    return image, centre, scale, drawn


def fields(
    covariance: Covariance, shape: tuple[int, int]
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


def _errors(covariance: Covariance, cells: Cells, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n,) twice
    mean, variance, _ = krige(covariance, cells, residual)
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
