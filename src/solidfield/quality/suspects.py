"""Who is out of line: family-wise tests on standardised errors z of S sensors over F frames.

Each sensor has three numbers, robust against single wild readings:

    bias = median z (0 if sound),   spread = 1.4826 median |z - bias| (1),   tail = share of readings with
    |z - bias| > 2.576 max(1, spread) (0.01: beyond the 99 % interval once bias and spread are known).

Their sampling errors are 1.2533 / sqrt(n) for the bias and 1.1664 / sqrt(n) for the log spread of n independent
readings; n is shortened by how z, or |z|, persists: n / (1 + 2 sum_k rho_k). Places also differ for good reasons, so
the robust scatter of a number over all sensors, as far as it exceeds the sampling error, is added to it in squares, and
the quotient follows Student's t with the degrees of freedom of that scatter (Satterthwaite). A whole network may vary
less or more than a model says: spreads are compared with the median sensor's. The tail is a binomial count.
With three tests and S sensors, p = min(1, 3 S min_j p_j) bounds the chance that a family of sound sensors sees any
p below the level by that level.

Offsets of sensors, shrunk, say how far each reads above what the others imply, and how sure that is. The residuals r_st
of sensor s, what it read less what the others imply, have the median m_s with a sampling error v_s, that of n_s
readings shortened by how residuals persist. Offsets are taken for draws of N(0, t^2), where
t^2 is what medians scatter by beyond their sampling errors. Given its readings, the offset of a sensor is Gaussian,

    mean   m_s t^2 / (t^2 + v_s),        variance   t^2 v_s / (t^2 + v_s):

a sensor that was read rarely is hardly told apart from a sound one. A place that differs from its surroundings for good
reasons has such an offset, too: what it is must be known from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

OUTSIDE = 0.01  # share of sound readings beyond the 99 % interval
BOUND = float(stats.norm.ppf(1 - OUTSIDE / 2))
SCALE = 1.4826  # from the median absolute deviation to a normal standard deviation
EFFICIENCY = 0.37  # of that estimate: S sensors give it as many degrees of freedom as 0.37 S would with squares
MEDIAN_ERROR, SPREAD_ERROR = 1.2533, 1.1664  # of median z and of log spread, times 1 / sqrt(n)


@dataclass(frozen=True)
class Judgement:
    """Per sensor, (S,) each."""

    bias: np.ndarray  # in standard deviations of what the others leave open
    spread: np.ndarray  # 1: as the others imply
    outside: np.ndarray  # share beyond the 99 % interval
    log_p: np.ndarray  # (3, S) of bias, spread, tail; natural logarithm, before the family is counted
    suspect: np.ndarray  # bool

    @property
    def p(self) -> np.ndarray:
        """Family-wise."""
        return np.exp(np.minimum(0.0, self.log_p.min(0) + np.log(self.log_p.size)))

    @property
    def order(self) -> np.ndarray:
        """The least likely first."""
        return np.argsort(self.log_p.min(0), kind="stable")


def judge(
    z: np.ndarray,  # (F, S), NaN = not read
    level: float = 0.05,
) -> Judgement:
    read = np.isfinite(z)
    count = read.sum(0)
    bias = np.nanmedian(z, 0)
    spread = SCALE * np.nanmedian(np.abs(z - bias), 0)
    outside = (np.abs(z) > BOUND).sum(0) / count
    tail = (np.abs(z - bias) > BOUND * np.maximum(spread, 1.0)).sum(0) / count
    n = np.maximum(count / persistence(z - bias), 2.0)
    n_size = np.maximum(count / persistence(np.abs(z - bias)), 2.0)
    width = np.log(np.maximum(spread, 1e-3))
    usual = max(OUTSIDE, float(np.median(tail)))  # where the model's tails are too light, they are so for all
    log_p = np.stack(
        [
            _unlikely(bias, MEDIAN_ERROR / np.sqrt(n)),
            _unlikely(width - np.median(width), SPREAD_ERROR / np.sqrt(n_size)),
            stats.binom.logsf(np.ceil(tail * n_size) - 1, np.ceil(n_size), usual),
        ]
    )
    log_p = np.maximum(log_p, -1e6)  # where the tail underflows
    return Judgement(bias, spread, outside, log_p, log_p.min(0) + np.log(log_p.size) < np.log(level))


def _unlikely(
    number: np.ndarray,  # (S,)
    error: np.ndarray,  # (S,) of sampling
) -> np.ndarray:  # (S,) log of a two-sided p
    scatter = (SCALE * np.median(np.abs(number - np.median(number)))) ** 2
    between = max(0.0, scatter - float(np.median(error**2)))
    total = error**2 + between
    freedom = EFFICIENCY * len(number) * (total / max(between, 1e-12)) ** 2
    return np.log(2) + stats.t.logsf(np.abs(number) / np.sqrt(total), np.clip(freedom, 2.0, 1e6))


def persistence(
    z: np.ndarray,  # (F, S), NaN = not read
) -> float:
    """1 + 2 sum of the pooled autocorrelation up to its first value that is not positive: how many readings in a
    row say what one independent reading would."""
    z = np.clip(z, -BOUND, BOUND)  # one wild reading is no persistence
    z = z - np.nanmean(z, 0)
    variance = np.nanmean(z**2)
    total = 1.0
    for lag in range(1, len(z) // 4):
        products = z[lag:] * z[:-lag]
        if not np.isfinite(products).any():
            continue
        rho = np.nanmean(products) / variance if variance > 0 else 0.0
        if rho <= 0:
            break
        total += 2 * rho
    return float(total)


def verdict(bias: float, spread: float, outside: float, log_p: np.ndarray, suspect: bool, shift: str) -> str:
    """In words; `shift` is the bias in units of the readings."""
    if not suspect:
        return "in line with the others"
    which = int(np.argmin(log_p))
    if which == 0:
        return f"reads too {'high' if bias > 0 else 'low'} by {shift} ({abs(bias):.1f} standard deviations)"
    if which == 1 and spread > 1:
        return f"scatters {spread:.1f} times as much as the others imply"
    if which == 1:
        return f"varies only {spread:.2f} times as much as the others imply: stuck or smoothed?"
    return f"erratic: {100 * outside:.0f} % of its readings lie outside the 99 % interval of the others"


USUAL = 10  # readings


def shrunk_offsets(residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (F, S), NaN = not read -> two of (S,)
    """Offsets of sensors and their standard deviations, in the units of the residuals."""
    median = np.nanmedian(residual, 0)
    variance = (SCALE * np.nanmedian(np.abs(residual - median), 0)) ** 2
    count = np.maximum(np.isfinite(residual).sum(0) / persistence(residual - median), 1.0)
    # Few readings say little of their own spread: the usual one counts like so many more.
    variance = (count * variance + USUAL * np.median(variance)) / (count + USUAL)
    sampling = MEDIAN_ERROR**2 * variance / count
    between = max(0.0, (SCALE * float(np.median(np.abs(median)))) ** 2 - float(np.median(sampling)))
    share = between / np.maximum(between + sampling, 1e-300)
    return share * median, np.sqrt(share * sampling)
