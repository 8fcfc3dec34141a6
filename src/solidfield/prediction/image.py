"""One image with gaps: learned from itself, filled, and judged by parts of itself that were hidden.

There is one frame and no other to learn from, so examples are made. A cell has the law

    x(p) = f(p)' b + m(p) + s(p) r(p)^g T(z(p)),       z = (e(p) - w_p' e(near)) / s(p)

where f holds a plane and how much of the surroundings is gap, and m and s are kriging of what b leaves, by the readings
near p, under

    C(d) = W(|d| / R) (a_1 exp(-|e^{B_1} d| / l_1) + a_2 M(|e^{B_2} d| / l_2)) + nugget,

M(u) = (1 + sqrt(3) u) e^{-sqrt(3) u}: a rough term for what is far, which does not run on beyond what was read, and a
smooth one for details. B = [[b, c], [c, -b]] stretches one direction and shrinks the other: streaks go on into a gap.
W(u) = (1 - u)^4 (4 u + 1) is 0 beyond the image's diagonal R (Wendland 1995), so that fields can be drawn exactly on a
torus. Gaps are no accident: clouds stand over some ground more than over other, and readings beside a gap tell how what
it hides differs from what is seen far from any. Covariance and b maximise the likelihood of readings given sparser ones
(Vecchia 1988), from a few hundred in the whole image to nearly all, so that every scale has its say.

r(p) is how rough the image is around p, and T leads from N(0, 1) to a Student law, since errors have longer tails. Both
are fitted where the gaps, mirrored and moved, are laid over other places of the image, to cells as far from readings as
those of the real gaps are; half of these places are left out of it and say how honest it is. What is hidden has no part
in the roughness around it. Near are the nearest readings, and the nearest on three coarser lattices, so that a wide gap
is seen from all sides (Katzfuss and Guinness 2021). Members have e and b of one draw each, by Matheron's rule, so that
means of areas have honest laws, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.fft import next_fast_len
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

from ..errors import SolidError
from ..keys import numpy_generator

NEAR = ((1, 16), (3, 16), (9, 16), (27, 16))  # step of a lattice in cells, and readings of it that a cell hears
LEVELS, READ = 24, 250  # shares of the readings that are kept, and readings predicted from each
LENGTHS = (1 / 8, 1 / 256)  # where the fit of the two lengths begins, as parts of the image's diagonal
STEPS, SAMPLE, RATE = 120, 250, 0.1  # of the descent to the covariance: steps, readings of each, size of the first
BLURS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # cells over which a gap is felt; the readings choose
PLACES, HIDDEN, TRIES = 24, 500, 6  # where the gaps are laid, cells hidden by each that are used, moves tried for each
ROUGH = 12.0  # cells over which roughness is smoothed
AT_ONCE = 2048  # cells whose matrices are in memory together
LEAST = 500  # readings of an image from which anything can be learned


@dataclass(frozen=True)
class Covariance:
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
class Image:
    """What was learned of an image."""

    rough: np.ndarray  # (H, W), 1 on average
    covariance: Covariance
    blur: float | None  # cells over which a gap is felt; None: readings beside gaps are like others
    slopes: np.ndarray  # (q,) b
    doubt: np.ndarray  # (q, q) covariance of b
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
    covariance: Covariance, cells: Cells, layers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # layers (H, W, k) -> (n, k) means, (n,) variance, (n, m) weights
    """Each layer at the cells, by the readings near them; the weights are the same for all."""
    parts = [solve(covariance, cells, layers, slice(i, i + AT_ONCE)) for i in range(0, len(cells.cell), AT_ONCE)]
    mean, variance, weight = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return mean, variance, weight


def solve(covariance: Covariance, cells: Cells, layers: np.ndarray, rows: slice | np.ndarray) -> tuple[Tensor, ...]:
    near, valid, width = cells.near[rows], torch.from_numpy(cells.valid[rows]), layers.shape[1]
    place = torch.from_numpy(np.stack([near // width, near % width], -1)).double()  # (n, m, 2)
    k = covariance(place[:, :, None] - place[:, None]) * (valid[:, :, None] & valid[:, None])
    k = k + torch.diag_embed(torch.where(valid, covariance.sizes[-1], 1.0))
    across = covariance(place - torch.from_numpy(cells.cell[rows]).double()[:, None]) * valid
    weight = torch.cholesky_solve(across[..., None], torch.linalg.cholesky(k))[..., 0]
    value = torch.from_numpy(layers.reshape(-1, layers.shape[-1])[near])  # (n, m, k)
    left = torch.maximum(covariance.total - (weight * across).sum(1), 1e-6 * covariance.total)
    return (weight[:, None] @ value)[:, 0], left, weight


def layers_of(values: np.ndarray, blurs: tuple[float, ...]) -> np.ndarray:  # (H, W, 1 + 3 + blurs)
    """The readings around their mean, and f: a plane, and how much of the surroundings of a cell is gap."""
    mask = np.isfinite(values)
    y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in mask.shape), indexing="ij")
    gaps = (gaussian_filter((~mask).astype(float), blur, mode="nearest") for blur in blurs)
    return np.stack([np.where(mask, values - values[mask].mean(), 0.0), np.ones_like(y), y, x, *gaps], -1)


def learn(values: np.ndarray, seed: int = 0) -> Image:  # (H, W), NaN in the gaps
    """Fit covariance and slopes to the readings, and the law to cells hidden where gaps are laid over other places."""
    mask = np.isfinite(values)
    if mask.sum() < LEAST or mask.all():
        raise SolidError(
            f"the image has {mask.sum():,} readings and {(~mask).sum():,} cells without; give one with at least "
            f"{LEAST} readings and some gap"
        )
    if np.ptp(values[mask]) == 0:
        raise SolidError(
            "all readings of the image are equal, so that there is nothing to learn; fill the gaps with them"
        )
    image = Image(_roughness(values), *_likeliest(values, seed))
    examples = [_hide(values, numpy_generator(seed, "hide", place)) for place in range(PLACES)]
    fitted, judged = (_together([cells for cells, _ in examples[start::2]]) for start in (0, 1))
    rough = [np.concatenate([rough for _, rough in examples[start::2]]) for start in (0, 1)]
    power, freedom, stretch = _law(*_errors(image, fitted, values), rough[0])
    image = replace(image, power=power, freedom=freedom, stretch=stretch)
    error, sd = _errors(image, judged, values)
    scale = sd * rough[1] ** image.power
    return replace(image, honesty=scores(error, lambda level: scale * student_quantile(image, level)))


def _likeliest(values: np.ndarray, seed: int) -> tuple[Covariance, float | None, np.ndarray, np.ndarray]:
    """Covariance, blur, slopes and their doubt under which readings are likeliest, given sparser ones."""
    mask = np.isfinite(values)
    layers = layers_of(values, BLURS)
    shares = np.geomspace(LEAST / 2 / mask.sum(), 0.9, LEVELS)
    count = min(READ, mask.sum() // (2 * LEVELS))  # few readings twice: evidence counts once
    cells = _together([_thin(mask, share, count, seed) for share in shares])
    at = layers[tuple(cells.cell.T)]
    spread = float(values[mask].std())
    draws, reach = numpy_generator(seed, "covariance"), float(np.hypot(*mask.shape))
    logs = torch.log(torch.tensor([0.5 * spread**2, 0.2 * spread**2, 0.01 * spread**2], dtype=torch.float64))
    lengths = torch.log(reach * torch.tensor(LENGTHS, dtype=torch.float64))
    bends = torch.zeros(2, 2, dtype=torch.float64)
    optimiser = torch.optim.Adam([x.requires_grad_() for x in (logs, lengths, bends)], RATE)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        rows = draws.choice(len(at), min(SAMPLE, len(at)), replace=False)
        covariance = Covariance(reach, lengths.exp(), logs.exp(), bends)
        mean, variance, _ = solve(covariance, cells, layers, rows)
        left = (torch.from_numpy(at[rows]) - mean) / variance.sqrt()[:, None]
        slopes, _ = _regress(left[:, 0].detach(), left[:, 1:].detach(), spread)  # the best ones have no gradient
        surprise = 0.5 * (variance.log() + (left[:, 0] - left[:, 1:] @ slopes).square()).mean()
        optimiser.zero_grad()
        surprise.backward()
        optimiser.step()
    covariance = Covariance(reach, lengths.detach().exp(), logs.detach().exp(), bends.detach())
    found, spare, _ = krige(covariance, cells, layers)
    return covariance, *_slopes(torch.from_numpy((at - found) / np.sqrt(spare)[:, None]), spread)


def _slopes(left: Tensor, spread: float) -> tuple[float | None, np.ndarray, np.ndarray]:  # left (n, 1 + 3 + blurs)
    """The blur that makes the readings likeliest, if they ask for any, with its slopes and their doubt."""
    found = []
    for blur in (None, *BLURS):
        chosen = [1, 2, 3] if blur is None else [1, 2, 3, 4 + BLURS.index(blur)]
        slopes, doubt = _regress(left[:, 0], left[:, chosen], spread)
        surprise = 0.5 * (left[:, 0] - left[:, chosen] @ slopes).square().sum() + 0.5 * len(chosen) * np.log(len(left))
        found.append((float(surprise), blur, slopes.numpy(), doubt.numpy()))
    return min(found, key=lambda x: x[0])[1:]


def _regress(y: Tensor, f: Tensor, spread: float) -> tuple[Tensor, Tensor]:  # (n,), (n, q) -> (q,), (q, q)
    """Slopes and their covariance, under a vague prior for those that the readings do not see."""
    doubt = torch.linalg.inv(f.T @ f + torch.eye(f.shape[1], dtype=f.dtype) / (10 * spread) ** 2)
    return doubt @ (f.T @ y), doubt


def predict(
    image: Image, cells: Cells, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # (n,) mean, (n,) deviation, (n, m) weights, (n, q) pull
    """Kriging around f' b; `pull` is what a change of b does to a cell, given the readings."""
    layers = layers_of(values, () if image.blur is None else (image.blur,))
    mean, variance, weight = krige(image.covariance, cells, layers)
    pull = layers[tuple(cells.cell.T)][:, 1:] - mean[:, 1:]
    variance = variance + ((pull @ image.doubt) * pull).sum(1)
    return np.nanmean(values) + mean[:, 0] + pull @ image.slopes, np.sqrt(variance), weight, pull


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
    where = tuple(cells.cell.T)
    centre, scale = values.copy(), np.zeros_like(values)
    centre[where], scale[where], errors = draw(image, cells, values, image.rough, members, seed)
    drawn = np.repeat(centre[None].astype(np.float32), members, 0)
    for member, error in zip(drawn, errors, strict=True):
        member[where] += error
    return image, centre, scale, drawn


def draw(
    image: Image, cells: Cells, values: np.ndarray, rough: np.ndarray, members: int, seed: int
) -> tuple[np.ndarray, np.ndarray, Iterator[np.ndarray]]:  # (n,) mean, (n,) scale, members (n,) around the mean
    """The laws of cells, and draws of them together."""
    mean, sd, weight, pull = predict(image, cells, values)
    where = tuple(cells.cell.T)
    scale = sd * rough[where] ** image.power
    field_of, root = fields(image.covariance, values.shape), np.linalg.cholesky(image.doubt)

    def error(member: int) -> np.ndarray:
        generator = numpy_generator(seed, "image", member)
        noise = field_of(generator)
        slopes = root @ generator.standard_normal(len(root))
        z = noise[where] - (weight * noise.ravel()[cells.near]).sum(1) + pull @ slopes
        return scale * student_quantile(image, norm.cdf(z / sd))

    return mean, scale, map(error, range(members))


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


def _thin(mask: np.ndarray, share: float, count: int, seed: int) -> Cells:
    """Some of the readings, given a share of the others."""
    generator = numpy_generator(seed, "thin", round(1e6 * share))
    kept = mask & (generator.random(mask.shape) < share)
    cell = np.argwhere(mask & ~kept)
    return near_cells(kept, cell[generator.choice(len(cell), min(count, len(cell)), replace=False)])


def _hide(values: np.ndarray, generator: np.random.Generator) -> tuple[Cells, np.ndarray]:  # and roughness (n,)
    """Some readings that the gaps would hide elsewhere, as far from those that are left as the gaps' own cells are."""
    mask = np.isfinite(values)
    wanted = generator.choice(distance_transform_edt(~mask)[~mask], HIDDEN)
    moves = (_moved(mask, wanted, generator) for _ in range(TRIES))
    _, hidden, cell = min(moves, key=lambda move: move[0])
    return near_cells(mask & ~hidden, cell), _roughness(np.where(hidden, np.nan, values))[tuple(cell.T)]


def _moved(
    mask: np.ndarray, wanted: np.ndarray, generator: np.random.Generator
) -> tuple[float, np.ndarray, np.ndarray]:  # how far off, (H, W) hidden, (n, 2) cells
    """The gaps mirrored and moved at random, and readings under them at the wanted distances from what is left."""
    gap = ~mask
    for axis in (0, 1):
        gap = np.flip(gap, axis) if generator.random() < 0.5 else gap
        gap = np.roll(gap, int(generator.integers(mask.shape[axis])), axis)
    hidden = mask & gap
    left = mask & ~hidden
    if hidden.sum() < len(wanted) // 10 or left.sum() < LEAST // 2:
        return np.inf, hidden, np.argwhere(hidden)
    distance = distance_transform_edt(~left)[hidden]
    distance, wanted = (x + 1e-3 * generator.random(len(x)) for x in (distance, wanted))  # equal ones in any order
    order = np.argsort(distance)
    place = np.minimum(np.searchsorted(distance[order], wanted), len(order) - 1)
    off = np.abs(distance[order[place]] - wanted).mean()
    return float(off), hidden, np.argwhere(hidden)[np.unique(order[place])]


def _together(parts: list[Cells]) -> Cells:
    return Cells(*(np.concatenate(part) for part in zip(*(vars(cells).values() for cells in parts), strict=True)))


def _errors(image: Image, cells: Cells, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n,) twice
    mean, sd, _, _ = predict(image, cells, values)
    return values[tuple(cells.cell.T)] - mean, sd


def _law(error: np.ndarray, sd: np.ndarray, rough: np.ndarray) -> tuple[float, float, float]:
    """Power of the roughness, degrees of freedom and stretch that make the hidden errors likeliest."""

    def surprise(x: np.ndarray) -> float:
        scale = sd * rough ** x[0] * np.exp(x[2])
        return float(np.mean(np.log(scale) - student.logpdf(error / scale, 2.1 + np.exp(x[1]))))

    bounds = ((0.0, 2.0), (-3.0, 5.0), (-3.0, 3.0))
    power, freedom, stretch = minimize(surprise, [0.5, 1.5, 0.0], method="Nelder-Mead", bounds=bounds).x
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
