"""Are ranks uniform? A chi-square that sees bias, spread and skewness, whatever cells of a case owe to each other.

Where the truth is one more draw of the law that the K members come from, its rank r among them is uniform on 0 .. K.
With u = (r + 1/2) / (K + 1) and Legendre's polynomials

    phi_1 = sqrt(3) (2 u - 1)      phi_2 = sqrt(5) (6 u^2 - 6 u + 1)      phi_3 = sqrt(7) (20 u^3 - 30 u^2 + 12 u - 1)

(bias, spread, skewness; their means over the ranks taken off) a case n has  s_n = mean over its cells of phi,  and

    T = N s' S^-1 s      with the mean s and the covariance S of s_n over cases

is Hotelling's: chi-square with 3 degrees of freedom for many cases. Cells of one case may depend on each other in any
way; cases may not. A normal law that is too wide by a small share d shifts phi_2 by sqrt(15) / pi d, which tells the
smallest bias of spread that so many cases show.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from scipy.optimize import brentq
from scipy.stats import f, ncf

from ..errors import SolidError

DEGREES = 3
LEVEL, POWER = 0.01, 0.9  # of a test that is said to see a bias
PER_SPREAD = np.sqrt(15) / np.pi  # of phi_2, for a spread that is wrong by 1


class Uniformity(NamedTuple):
    p: float  # the chance of a T this large if ranks were uniform
    statistic: float  # T
    bias: float  # mean of phi_1: below 0 the truth lies low among the members
    spread: float  # how much too wide the members are, as a share: below 0 too narrow
    sees: float  # the least such share that 9 of 10 tests of this size find at 1 %
    cases: int


def rank_scores(
    below: np.ndarray,  # (...) members below the truth
    equal: np.ndarray,  # (...) members equal to it: ranks are shared among them
    members: int,  # K
) -> np.ndarray:  # (..., 3)
    """phi_1 to phi_3 of each rank."""
    u = (np.arange(members + 1) + 0.5) / (members + 1)
    phi = np.stack([np.sqrt(2 * n + 1) * legendre.legval(2 * u - 1, np.eye(DEGREES + 1)[n]) for n in (1, 2, 3)], 1)
    total = np.concatenate([np.zeros((1, DEGREES)), np.cumsum(phi - phi.mean(0), axis=0)])
    return (total[below + equal + 1] - total[below]) / (equal + 1)[..., None]


def uniformity(scores: np.ndarray) -> Uniformity:  # (N, 3) of independent cases
    """The test of cases, each the mean of the `rank_scores` of its cells."""
    N = len(scores)
    if N < 4 * DEGREES:
        raise SolidError(f"{N} cases are too few to test ranks by; give {4 * DEGREES} or more")
    mean, covariance = scores.mean(0), np.cov(scores.T)
    statistic = N * mean @ np.linalg.solve(covariance, mean)
    share = (N - DEGREES) / (DEGREES * (N - 1))  # Hotelling's statistic times this is F
    critical = f.isf(LEVEL, DEGREES, N - DEGREES)
    needed = brentq(lambda at: ncf.sf(critical, DEGREES, N - DEGREES, at) - POWER, 1e-6, 1e4)
    sees = np.sqrt(needed / N * covariance[1, 1]) / PER_SPREAD
    p = f.sf(statistic * share, DEGREES, N - DEGREES)
    return Uniformity(float(p), float(statistic), float(mean[0]), float(-mean[1] / PER_SPREAD), float(sees), N)
