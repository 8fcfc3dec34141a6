"""A mean and its error bar, by resampling whole groups of cases.

Cases of one group (the hours of a day, the frames of a trajectory) depend on each other and are drawn together:
neighbours in time and in space are no independent evidence. The mean of a resample is
sum_g n_g S_g / sum_g n_g N_g, with n_g how often group g was drawn, S_g the sum over its cases and N_g their number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import SolidError
from ..keys import numpy_generator
from .metrics import Array, to_floats, to_numpy


class Estimate(NamedTuple):
    """A mean over cases with its error bar, which is NaN for a single group."""

    mean: float
    low: float = np.nan  # of the central 95 % interval
    high: float = np.nan
    error: float = np.nan  # standard error

    @property
    def has_bar(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def over(self, unit: float) -> Estimate:
        """In multiples of a unit.

        >>> Estimate(3.0, 2.0, 4.0, 0.5).over(2.0)
        Estimate(mean=1.5, low=1.0, high=2.0, error=0.25)
        """
        return Estimate(*(value / unit for value in self))


def bootstrap(
    values: Array,  # (N,) one value per case, or (N, S) several; a case with NaN has no cells and is left out
    seed: int = 0,
    draws: int = 1000,
    level: float = 0.95,
    of: Callable[[np.ndarray], np.ndarray] | None = None,  # (..., S) means -> (...), for instance their ratio
    groups: Array | None = None,  # (N,) labels: cases that depend on each other share one; None: none do
) -> Estimate:
    """Resample whole groups with replacement: the mean over cases, its central interval, its standard error.

    Two models scored on the same cases are compared by `bootstrap(scores_a - scores_b)`, which keeps the
    pairs.
    """
    table = to_floats(values).astype(np.float64)
    label = np.arange(len(table)) if groups is None else to_numpy(groups)
    if label.shape != (len(table),):
        raise SolidError(f"{len(table)} cases have {label.size} group labels; give one for each case")
    known = np.isfinite(table.reshape(len(table), -1)).all(axis=1)
    if not known.any():
        raise SolidError("no case to resample: every value is NaN; score at least one case with marked cells")
    table = table[known]
    _, group, size = np.unique(label[known], return_inverse=True, return_counts=True)
    score = of or (lambda means: means)
    centre = table.mean(axis=0)
    best = float(score(centre))
    G = len(size)
    if G == 1:
        return Estimate(best)
    away = (table - centre).reshape(len(table), -1)  # about the centre: equal cases give no width
    sums = np.stack([np.bincount(group, column) for column in away.T], axis=1)  # (G, S)
    times = _resampled(seed, G, draws)  # (draws, G)
    moved = (times @ sums) / (times @ size)[:, None]
    means = centre + moved.reshape(draws, *table.shape[1:])
    resampled = score(np.clip(means, table.min(0), table.max(0)))  # rounding takes no mean beyond its cases
    if not np.isfinite(resampled).all():  # a ratio to nothing: of members that vary, and of errors that are all zero
        return Estimate(best)
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(best, float(low), float(high), float(np.std(resampled, ddof=1)))


@lru_cache(maxsize=8)  # the many scores of one table resample the same groups
def _resampled(seed: int, groups: int, draws: int) -> np.ndarray:  # (draws, groups): how often each is drawn
    return numpy_generator(seed, "bootstrap").multinomial(groups, np.full(groups, 1 / groups), size=draws)
