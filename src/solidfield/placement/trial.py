"""Candidates that were tried: their own errors from what they read, and choices by measurement instead of a law.

Under a covariance K of what sensors see at one time, with variances e of their errors, A = (K + diag(e))^-1 gives what
hiding each reading shows (Dubrule 1983): its residual (A y)_i / A_ii and the variance 1 / A_ii that it should have.
Where a sensor's residuals are larger than that, its own error is; e moves by the excess until both agree.

Where readings were kept aside elsewhere, the score of a set of candidates can be measured as it will be used, with
any map-maker. `choose_by` takes the candidate of the best score again and again, then exchanges, as `gain.choose` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from .gain import SWEEPS

ROUNDS = 4  # of errors and residuals: they hardly move after that
LEAST = 0.05  # of the first guess: no sensor is exact

Snapshot = tuple[np.ndarray, np.ndarray, np.ndarray]  # (n, n) covariance, (n,) readings, (n,) which sensor read each


def own_errors(snapshots: Sequence[Snapshot], count: int, guess: float) -> np.ndarray:  # (count,) variances
    """Of each sensor's readings, from what the others say at the same times; `guess` is that of all."""
    error = np.full(count, guess)
    for _ in range(ROUNDS):
        excess, seen = np.zeros(count), np.zeros(count)
        for covariance, values, who in snapshots:
            precision = np.linalg.inv(covariance + np.diag(error[who]))
            variance = 1 / precision.diagonal()
            residual = variance * (precision @ values)
            excess += np.bincount(who, residual**2 - variance, count)
            seen += np.bincount(who, minlength=count)
        error = np.maximum(error + excess / np.maximum(seen, 1), LEAST * guess)
    return error


def choose_by(score: Callable[[tuple[int, ...]], float], candidates: int, count: int) -> list[int]:
    """The candidates whose set has the lowest score, by greedy steps and exchanges; each set is measured once."""
    measured = cache(score)

    def best(others: list[int]) -> int:
        free = [c for c in range(candidates) if c not in others]
        return min(free, key=lambda c: measured(tuple(sorted([*others, c]))))

    chosen: list[int] = []
    while len(chosen) < min(count, candidates):
        chosen.append(best(chosen))
    for _ in range(SWEEPS):
        before = list(chosen)
        for place in range(len(chosen)):
            chosen[place] = best(chosen[:place] + chosen[place + 1 :])
        if chosen == before:
            break
    return chosen
