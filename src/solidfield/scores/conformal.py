"""Split-conformal quantiles: how far an interval must be stretched to hold a new exchangeable value."""

from __future__ import annotations

import math

import numpy as np

FEWEST = 100  # values that a group needs for a quantile of its own


def conformal_quantile(stretch: np.ndarray, level: float) -> float:  # (n,)
    """The ceil((n + 1) level)-th smallest of n values; the largest where n is too small for the level."""
    n = len(stretch)
    rank = min(n, math.ceil((n + 1) * level))
    return float(np.sort(stretch)[rank - 1])
