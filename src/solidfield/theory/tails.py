"""How far a law may go beyond the readings: no farther than their own tails.

    x > M   becomes   M + t (1 - exp(-(x - M) / t))

for the largest reading M and t, the way to it from the 99 % quantile; likewise below the smallest. The inverse of a
transform could otherwise turn a wide law into members that no reading supports. Nothing is cut off: what is bent stays
in order, and comes back by `unbounded`.
"""

from __future__ import annotations

import torch
from torch import Tensor

FULL = 0.999  # of a tail: beyond, nothing is told apart
FLAT = 0.05  # standard deviations: the shortest tail
TAIL = 0.99  # the quantile of the readings where their tail begins


def ends_of(readings: Tensor) -> Tensor:  # (n,) standardised -> (4,)
    """The smallest reading and the length of the tail there; the largest, and the length there."""
    ordered = readings.double().sort().values
    inner = [float(ordered[round(p * (len(ordered) - 1))]) for p in (1 - TAIL, TAIL)]
    low, high = float(ordered[0]), float(ordered[-1])
    return torch.tensor([low, max(inner[0] - low, FLAT), high, max(high - inner[1], FLAT)])


def bounded(values: Tensor, ends: Tensor) -> Tensor:  # (..., B), (B, 4)
    """Values whose way beyond the ends of the readings is bent to stop at the length of their tails."""
    low, below, high, above = ends.T
    over, under = (values - high).clamp_min(0), (low - values).clamp_min(0)
    return values.clamp(low, high) + above * -torch.expm1(-over / above) - below * -torch.expm1(-under / below)


def unbounded(values: Tensor, ends: Tensor) -> Tensor:  # the inverse; (B,), (B, 4)
    """What `bounded` bends to these values; beyond all it can reach, the farthest."""
    low, below, high, above = ends.T
    over, under = ((values - high) / above).clamp(0, FULL), ((low - values) / below).clamp(0, FULL)
    return values.clamp(low, high) - above * torch.log1p(-over) + below * torch.log1p(-under)
