"""Reliability: does the ensemble know what it does not know? Spread that matches error, ranks that are flat.

If the truth is drawn from the same law as the K members, its rank among them (how many lie below) is
uniform on 0 .. K. Everything here is measured from that law and from

    E (mean - truth)^2 = (1 + 1/K) E variance,

so a perfect ensemble scores perfectly at any K: coverage at its nominal level, spread / skill 1, flat ranks.

Coverage. Between member j and member K + 1 - j lies the truth with probability 1 - 2 j / (K + 1). A level
in between is the interpolation of the two nearest such intervals: a rank on the boundary counts in part. A
level above (K - 1) / (K + 1) is wider than the members reach: a perfect ensemble still measures it, but a
collapsed one is flattered, since its outermost ranks count in part; `resolved` tells, and tables leave such
a level out.

Ties. A truth equal to t members has t + 1 possible ranks and counts 1 / (t + 1) in each: what breaking ties
at random would give on average, without the dice. A pinned sensor, where all members equal the truth, is
neutral.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import SolidError
from .metrics import Array, Cells, deviations, documented, like, moments, must_be_finite, select, to_numpy


def _several(cells: Cells, what: str) -> int:
    K = cells.members.shape[0]
    if K < 2:
        raise SolidError(f"{what} needs at least 2 members, got {K}; a point forecast has no spread to measure")
    return K


def ranks(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Members below the truth (P,) and members equal to it (P,)."""
    below, equal = np.empty((2, cells.truth.size), dtype=int)
    for here, d in deviations(cells.members, cells.truth):
        must_be_finite(d)  # NaN has no rank
        below[here] = (d < 0).sum(axis=1)
        equal[here] = (d == 0).sum(axis=1)
    return below, equal


def resolved(members: int, level: float) -> bool:
    """Do so many members span an interval of this level?

    >>> resolved(19, 0.9), resolved(18, 0.9)
    (True, False)
    """
    return level <= (members - 1) / (members + 1) + 1e-12


def covered(
    below: np.ndarray,  # (P,)
    equal: np.ndarray,  # (P,)
    members: int,  # K
    level: float,
) -> np.ndarray:  # (P,) in [0, 1]
    """How much of each truth lies inside the central interval of this level."""
    if not 0 < level < 1:
        raise SolidError(f"level {level} is not between 0 and 1; a 90 % interval is level 0.9")
    outside = (1 - level) * (members + 1) / 2  # ranks cut off on each side, a fraction of one included
    rank = np.arange(members + 1)
    cut = np.clip(outside - rank, 0, 1) + np.clip(outside - rank[::-1], 0, 1)  # how much of each rank is outside
    total = np.concatenate([[0.0], np.cumsum(1 - cut)])
    return (total[below + equal + 1] - total[below]) / (equal + 1)


def counted(below: np.ndarray, equal: np.ndarray, members: int) -> np.ndarray:
    """The rank histogram (K + 1,): each cell adds 1 in all, shared among the ranks that its ties allow."""
    share = 1.0 / (equal + 1)
    steps = np.bincount(below, share, members + 2) - np.bincount(below + equal + 1, share, members + 2)
    return np.cumsum(steps)[:-1]


@documented("level : float, default 0.9\n    Nominal level of the central interval, between 0 and 1.\n", fewest=2)
def coverage(ensemble: Array, truth: Array, level: float = 0.9, mask: Array | None = None) -> Any:
    """Share of truths inside the central interval of this level, averaged as every score is.

    Returns
    -------
    scalar float64, or tensor if the ensemble is one
        Between 0 and 1; a perfect ensemble of any size has `level`.

    Examples
    --------
    >>> ensemble = np.arange(1.0, 20.0)[:, None]  # 1 .. 19 span a 90 % interval
    >>> float(coverage(ensemble, np.array([10.0]))), float(coverage(ensemble, np.array([25.0])))
    (1.0, 0.0)
    """
    cells = select(ensemble, truth, mask)
    K = _several(cells, "coverage")
    return like(cells.mean(covered(*ranks(cells), K, level)), ensemble)


@documented(fewest=2)
def rank_histogram(ensemble: Array, truth: Array, mask: Array | None = None) -> Any:
    """How often the truth has each rank among the members; flat for a perfect ensemble.

    Returns
    -------
    array or tensor (K + 1,) of float64
        Counts of cells; a truth that ties with members is shared among the ranks it may have.

    Examples
    --------
    >>> rank_histogram(np.array([[1.0, 1.0], [3.0, 3.0]]), np.array([0.0, 2.0]))
    array([1., 1., 0.])
    """
    cells = select(ensemble, truth, mask)
    K = _several(cells, "a rank histogram")
    return like(counted(*ranks(cells), K), ensemble)


def fold_ranks(
    histogram: Array,  # (K + 1,)
    bins: int,
) -> np.ndarray:  # (bins,)
    """Fewer, wider bins; a rank on a boundary is shared, so a flat histogram stays exactly flat."""
    counts = to_numpy(histogram)
    edges = np.linspace(0, counts.size, bins + 1)
    return np.diff(np.interp(edges, np.arange(counts.size + 1), np.concatenate([[0.0], np.cumsum(counts)])))


@documented(fewest=2)
def spread_skill(ensemble: Array, truth: Array, mask: Array | None = None) -> Any:
    """Root mean variance times sqrt((K + 1) / K), over the root mean square error of the ensemble mean.

    Returns
    -------
    scalar float64, or tensor if the ensemble is one
        1 for a perfect ensemble, below 1 if overconfident; NaN where there is neither error nor spread.

    Examples
    --------
    >>> ensemble = np.array([[0.0], [2.0]])  # variance 2, mean 1
    >>> float(spread_skill(ensemble, np.array([1 + 3**0.5])).round(6))
    1.0
    """
    cells = select(ensemble, truth, mask)
    K = _several(cells, "spread / skill")
    error, variance = moments(cells)
    return like(ratio(cells.mean((K + 1) / K * variance), cells.mean(error**2)), ensemble)


def ratio(variance: Any, square: Any) -> Any:
    """sqrt(variance / square), 0 / 0 being NaN, without a warning."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(np.divide(variance, square))


class Correlation(NamedTuple):
    """Pearson's rho between spread and error; NaN where either does not vary or there are too few to say."""

    pixel: float
    sample: float


def correlate(cells: Cells, error: np.ndarray, variance: np.ndarray) -> Correlation:
    """Is spread large where the error is? From the moments (P,) of the cells.

    Per pixel: standard deviation against |mean - truth| over all cells. Per sample: the root mean squares of both over
    each case; not against the CRPS, which contains the spread itself. Even a perfect ensemble stays far below 1 per
    pixel: one error is a single draw of what the spread describes.
    """
    errors, spreads = np.sqrt(cells.per_case(error**2)), np.sqrt(cells.per_case(variance))
    some = np.isfinite(errors)
    return Correlation(_pearson(np.sqrt(variance), np.abs(error)), _pearson(spreads[some], errors[some]))


def _pearson(a: np.ndarray, b: np.ndarray) -> float:
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def error_by_spread(
    cells: Cells, groups: int = 12
) -> tuple[np.ndarray, np.ndarray]:  # spread (G,), root mean square error (G,)
    """Spread and error in groups of equally many cells, from sure to unsure; equal for a perfect ensemble.

    Half of the members sort the cells, the others are measured: sorting by the very spread that is measured
    would bend the line, since a small ensemble looks sure by chance. Fewer than four members are one group.
    """
    K = _several(cells, "error against spread")
    half = K // 2 if K > 3 else 0
    sure = moments(replace(cells, members=cells.members[:half]))[1] if half else np.zeros(cells.truth.size)
    parts = np.array_split(np.argsort(sure), min(groups, max(sure.size // 20, 1)) if half else 1)
    error, variance = moments(replace(cells, members=cells.members[half:]))
    factor = 1 + 1 / (K - half)
    spread = [np.sqrt(factor * variance[part].mean()) for part in parts]
    return np.array(spread), np.array([np.sqrt((error[part] ** 2).mean()) for part in parts])
