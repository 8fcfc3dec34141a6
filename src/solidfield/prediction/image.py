"""One image with gaps: learned from itself, filled, and judged by parts of itself that were hidden.

There is one frame and no other to learn from, so examples are made. A cell has the law

    x(p) = G(f(p)' b + m(p) + s(p) r(p)^g T(z(p))),       z = (e(p) - w_p' e(near)) / s(p)

where f holds a plane and how much of the surroundings is gap, and m and s are kriging of what b leaves, by the readings
near p (`image_kriging.py`). Gaps are no accident: clouds stand over some ground more than over other, and readings
beside a gap tell how what it hides differs from what is seen far from any. Covariance and b maximise the likelihood of
readings given sparser ones (Vecchia 1988), from a few hundred in the whole image to nearly all, so that every scale has
its say.

r(p) is how rough the image is around p, and T leads from N(0, 1) to a Student law, since errors have longer tails. Both
are fitted where the gaps, mirrored and moved, are laid over other places of the image, to cells as far from readings as
those of the real gaps are; half of these places are left out of it and say how honest it is. What is hidden has no part
in the roughness around it. Members have e and b of one draw each, by Matheron's rule, so that means of areas have
honest laws, too.

G leads back from what is modelled: the readings, or their square roots or logarithms where that predicts hidden cells
clearly better, in the units of the readings (`image_laws.py`). Under a transform T goes on as a straight line where z
is beyond what thousands of hidden cells can tell, and has more degrees of freedom: the exponential of a Student law has
no mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats import t as student
from torch import Tensor

from ..errors import SolidError
from ..keys import numpy_generator
from .ensemble import Summary, summarise
from .image_kriging import Cells, ImageCovariance, fields, krige, near_cells, solve, together
from .image_laws import ImageLaws, changed, check_possible, log_slope, possible, restored, scores

LEVELS, READ = 24, 250  # shares of the readings that are kept, and readings predicted from each
LENGTHS = (1 / 8, 1 / 256)  # where the fit of the two lengths begins, as parts of the image's diagonal
STEPS, SAMPLE, RATE = 120, 250, 0.1  # of the descent to the covariance: steps, readings of each, size of the first
BLURS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # cells over which a gap is felt; the readings choose
PLACES, HIDDEN, TRIES = 24, 500, 6  # where the gaps are laid, cells hidden by each that are used, moves tried for each
ROUGH = 12.0  # cells over which roughness is smoothed
LEAST = 500  # readings of an image from which anything can be learned
MARGIN = 0.01  # of the CRPS, by which a transform must be better than none
TAME = 10.0  # least degrees of freedom under a transform
KNOWN = 3.5  # z beyond which hidden cells tell nothing: one in four thousand


@dataclass(frozen=True)
class Image:
    """What was learned of an image."""

    rough: np.ndarray  # (H, W), 1 on average
    covariance: ImageCovariance
    blur: float | None  # cells over which a gap is felt; None: readings beside gaps are like others
    slopes: np.ndarray  # (q,) b
    doubt: np.ndarray  # (q, q) covariance of b
    power: float = 0.0  # g
    freedom: float = 1e9  # of the Student law
    stretch: float = 1.0
    honesty: dict[str, float] = field(default_factory=dict)  # at hidden cells that nothing was fitted to
    transform: str = "none"  # under which all this holds
    why: str = ""  # this transform, in words


def layers_of(values: np.ndarray, blurs: tuple[float, ...]) -> np.ndarray:  # (H, W, 1 + 3 + blurs)
    """The readings around their mean, and f: a plane, and how much of the surroundings of a cell is gap."""
    mask = np.isfinite(values)
    y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in mask.shape), indexing="ij")
    gaps = (gaussian_filter((~mask).astype(float), blur, mode="nearest") for blur in blurs)
    return np.stack([np.where(mask, values - values[mask].mean(), 0.0), np.ones_like(y), y, x, *gaps], -1)


def learn(
    values: np.ndarray,  # (H, W), NaN in the gaps
    seed: int = 0,
    transform: str | None = None,  # none, sqrt or log; None: the one under which hidden cells are predicted best
) -> Image:
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
    first = "none" if transform is None else transform
    check_possible(values, first)
    image = _fit(values, seed, first)
    if transform is None:
        best, why = _best_transform(image, values, seed)
        image = replace(image if best == "none" else _fit(values, seed, best), why=why)
    else:
        image = replace(image, why=f"transform {transform}: as was asked")
    seen = changed(values, image.transform)
    cells, rough = _hidden(seen, seed, range(1, PLACES, 2))
    mean, sd, _, _ = predict(image, cells, seen)
    return replace(image, honesty=_scores(image, cells, mean, sd * rough**image.power, values))


def _fit(values: np.ndarray, seed: int, transform: str) -> Image:
    """All but the honesty, under a transform."""
    seen = changed(values, transform)
    image = Image(_roughness(seen), *_likeliest(seen, seed), transform=transform)
    cells, rough = _hidden(seen, seed, range(0, PLACES, 2))
    mean, sd, _, _ = predict(image, cells, seen)
    return _with_law(image, seen[tuple(cells.cell.T)] - mean, sd, rough)


def _best_transform(image: Image, values: np.ndarray, seed: int) -> tuple[str, str]:  # and why, in words
    """None, or of those that clearly lower the CRPS of hidden cells, in the units of the readings, the likeliest.

    The weights of kriging are those found without a transform: no covariance is fitted for the comparison.
    """
    names = possible(values)
    if len(names) == 1:
        return "none", "transform none: not all readings are positive"
    cells, _ = _hidden(values, seed, range(0, PLACES, 2))
    _, sd, weight, pull = predict(image, cells, values)
    where, crps, surprise = tuple(cells.cell.T), {}, {}
    for name in names:
        seen = changed(values, name)
        _, rough = _hidden(seen, seed, range(0, PLACES, 2))
        middle, spread = np.nanmean(seen), float(np.nanstd(seen))
        wide = sd * spread / np.nanstd(values)
        kriged = middle + (weight * (seen.ravel()[cells.near] - middle)).sum(1)
        standard = torch.from_numpy(np.column_stack([seen[where] - kriged, pull]) / wide[:, None])
        centre = kriged + pull @ _regress(standard[:, 0], standard[:, 1:], spread)[0].numpy()
        tried = _with_law(replace(image, transform=name), seen[where] - centre, wide, rough)
        scale = wide * rough**tried.power
        crps[name] = _scores(tried, cells, centre, scale, values)["crps"]
        law = student(tried.freedom, scale=scale * tried.stretch)
        surprise[name] = -np.mean(law.logpdf(seen[where] - centre) + log_slope(values[where], name))
    better = [name for name in names if crps[name] < (1 - MARGIN) * crps["none"]]
    best = min(better, key=lambda name: surprise[name], default="none")
    reason = "cells hidden for a trial are predicted better under it" if better else "no other is clearly better"
    return best, f"transform {best}: {reason} (CRPS {', '.join(f'{name} {x:.3g}' for name, x in crps.items())})"


def _with_law(image: Image, error: np.ndarray, sd: np.ndarray, rough: np.ndarray) -> Image:
    power, freedom, stretch = _law(error, sd, rough, tame=image.transform != "none")
    return replace(image, power=power, freedom=freedom, stretch=stretch)


def _scores(image: Image, cells: Cells, centre: np.ndarray, scale: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Of the cells' laws, in the units of the readings."""
    laws, here = _laws(image, centre, scale), values[tuple(cells.cell.T)]
    error = here - laws.mean
    if image.transform == "none":
        return scores(error, laws.around)
    mean = {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean()))}
    return scores(here, laws.quantile) | mean  # a mean may lie so far off that differences from it have no digits


def _laws(image: Image, centre: np.ndarray, scale: np.ndarray) -> ImageLaws:
    return ImageLaws(centre, scale, partial(student_quantile, image), image.transform)


def _likeliest(values: np.ndarray, seed: int) -> tuple[ImageCovariance, float | None, np.ndarray, np.ndarray]:
    """Covariance, blur, slopes and their doubt under which readings are likeliest, given sparser ones."""
    mask = np.isfinite(values)
    layers = layers_of(values, BLURS)
    shares = np.geomspace(LEAST / 2 / mask.sum(), 0.9, LEVELS)
    count = min(READ, mask.sum() // (2 * LEVELS))  # few readings twice: evidence counts once
    cells = together([_thin(mask, share, count, seed) for share in shares])
    spread = float(values[mask].std())
    covariance = _descend(layers, cells, spread, seed)
    found, spare, _ = krige(covariance, cells, layers)
    at = layers[tuple(cells.cell.T)]
    return covariance, *_slopes(torch.from_numpy((at - found) / np.sqrt(spare)[:, None]), spread)


def _descend(layers: np.ndarray, cells: Cells, spread: float, seed: int) -> ImageCovariance:
    """The covariance under which these cells are likeliest, each with the best slopes."""
    at = layers[tuple(cells.cell.T)]
    draws, reach = numpy_generator(seed, "covariance"), float(np.hypot(*layers.shape[:2]))
    logs = torch.log(torch.tensor([0.5 * spread**2, 0.2 * spread**2, 0.01 * spread**2], dtype=torch.float64))
    lengths = torch.log(reach * torch.tensor(LENGTHS, dtype=torch.float64))
    bends = torch.zeros(2, 2, dtype=torch.float64)
    optimiser = torch.optim.Adam([x.requires_grad_() for x in (logs, lengths, bends)], RATE)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        rows = draws.choice(len(at), min(SAMPLE, len(at)), replace=False)
        covariance = ImageCovariance(reach, lengths.exp(), logs.exp(), bends)
        mean, variance, _ = solve(covariance, cells, layers, rows)
        left = (torch.from_numpy(at[rows]) - mean) / variance.sqrt()[:, None]
        slopes, _ = _regress(left[:, 0].detach(), left[:, 1:].detach(), spread)  # the best ones have no gradient
        surprise = 0.5 * (variance.log() + (left[:, 0] - left[:, 1:] @ slopes).square()).mean()
        optimiser.zero_grad()
        surprise.backward()
        optimiser.step()
    return ImageCovariance(reach, lengths.detach().exp(), logs.detach().exp(), bends.detach())


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
    """T, by the level of z."""
    if image.transform == "none":
        return image.stretch * student.ppf(level, image.freedom)
    z = norm.ppf(level)
    inside = np.clip(z, -KNOWN, KNOWN)
    steep = norm.pdf(KNOWN) / student.pdf(student.ppf(norm.cdf(KNOWN), image.freedom), image.freedom)  # dT / dz
    return image.stretch * (student.ppf(norm.cdf(inside), image.freedom) + steep * (z - inside))


@dataclass(frozen=True)
class Filled:
    """An image without gaps, in the units of its readings."""

    image: Image
    mean: np.ndarray  # (H, W); the readings where there are any
    spread: np.ndarray  # (H, W) standard deviation; 0 at readings
    members: np.ndarray  # (K, H, W)
    laws: ImageLaws  # of the gaps' cells
    gaps: tuple[np.ndarray, ...]  # where these are

    def around(self, level: float) -> np.ndarray:  # (H, W)
        """Quantiles from the mean on; 0 at readings."""
        found = np.zeros_like(self.mean)
        found[self.gaps] = self.laws.around(level)
        return found

    def summary(self, quantiles: Sequence[float]) -> Summary:
        """For maps. Under a transform of the laws: of a skewed one a hundred members have a mean of chance."""
        members = self.members[:, None, None, None]
        if self.image.transform == "none":
            return summarise(members, quantiles)
        at = [self.mean, self.spread, *(self.mean + self.around(q) for q in quantiles)]
        mean, spread, *rest = (layer.astype(np.float32)[None, None, None] for layer in at)
        return Summary(mean, spread, dict(zip(quantiles, rest, strict=True)), members, "law")


def fill_image(
    values: np.ndarray,  # (H, W), NaN in the gaps
    members: int = 100,
    seed: int = 0,
    transform: str | None = None,  # none, sqrt or log; None: the one under which hidden cells are predicted best
) -> Filled:
    """What was learned, and the image with laws and members in its gaps."""
    image, mask = learn(values, seed, transform), np.isfinite(values)
    seen = changed(values, image.transform)
    cells = near_cells(mask, np.argwhere(~mask))
    where = tuple(cells.cell.T)
    centre, scale, errors = draw(image, cells, seen, image.rough, members, seed)
    laws = _laws(image, centre, scale)
    mean, spread = values.copy(), np.zeros_like(values)
    mean[where], spread[where] = laws.mean, laws.spread
    drawn = np.repeat(mean[None].astype(np.float32), members, 0)
    for member, error in zip(drawn, errors, strict=True):
        if image.transform == "none":
            member[where] += error
        else:
            member[where] = restored(centre + error, image.transform)
    return Filled(image, mean, spread, drawn, laws, where)


def draw(
    image: Image, cells: Cells, values: np.ndarray, rough: np.ndarray, members: int, seed: int
) -> tuple[np.ndarray, np.ndarray, Iterator[np.ndarray]]:  # (n,) centre, (n,) scale, members (n,) around the centre
    """The laws of cells as they are modelled, and draws of them together."""
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


def _thin(mask: np.ndarray, share: float, count: int, seed: int) -> Cells:
    """Some of the readings, given a share of the others."""
    generator = numpy_generator(seed, "thin", round(1e6 * share))
    kept = mask & (generator.random(mask.shape) < share)
    cell = np.argwhere(mask & ~kept)
    return near_cells(kept, cell[generator.choice(len(cell), min(count, len(cell)), replace=False)])


def _hidden(values: np.ndarray, seed: int, places: range) -> tuple[Cells, np.ndarray]:  # and roughness (n,)
    """Readings that the gaps would hide, were they laid over these places."""
    examples = [_hide(values, numpy_generator(seed, "hide", place)) for place in places]
    return together([cells for cells, _ in examples]), np.concatenate([rough for _, rough in examples])


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


def _law(error: np.ndarray, sd: np.ndarray, rough: np.ndarray, tame: bool) -> tuple[float, float, float]:
    """Power of the roughness, degrees of freedom and stretch that make the hidden errors likeliest."""

    def surprise(x: np.ndarray) -> float:
        scale = sd * rough ** x[0] * np.exp(x[2])
        return float(np.mean(np.log(scale) - student.logpdf(error / scale, 2.1 + np.exp(x[1]))))

    least = float(np.log(TAME - 2.1)) if tame else -3.0
    bounds = ((0.0, 2.0), (least, 5.0), (-3.0, 3.0))
    power, freedom, stretch = minimize(
        surprise, [0.5, max(1.5, least + 0.5), 0.0], method="Nelder-Mead", bounds=bounds
    ).x
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
