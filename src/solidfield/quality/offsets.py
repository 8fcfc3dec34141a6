"""Offsets of sensors, shrunk: how far each reads above what the others imply, and how sure that is.

The residuals r_st of sensor s, what it read less what the others imply, have the median m_s with a sampling error v_s,
that of n_s readings shortened by how residuals persist (`suspects.py`). Offsets are taken for draws of N(0, t^2), where
t^2 is what medians scatter by beyond their sampling errors. Given its readings, the offset of a sensor is Gaussian,

    mean   m_s t^2 / (t^2 + v_s),        variance   t^2 v_s / (t^2 + v_s):

a sensor that was read rarely is hardly told apart from a sound one. A place that differs from its surroundings for good
reasons has such an offset, too: what it is must be known from elsewhere.
"""

from __future__ import annotations

import numpy as np

from .suspects import MEDIAN_ERROR, SCALE, persistence

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
