"""Repairing calibration after training: a scale of spread by distance to the sensor, from held-out observed targets.

Split-conformal: at each held-out target the ensemble's central interval [l, u] of a level around its median m would
have had to be stretched by

    s = max((y - m) / (u - m), (m - y) / (m - l))

to hold the reading y. The scale of a distance bin is the ceil((n + 1) level) / n quantile of its n stretches, so
that a new exchangeable target of the bin is covered with at least the level. Members are stretched about their
median by it; ranks of members stay, and so does the dependence between cells.

What it promises is marginal: coverage over all targets of a bin, not in every weather. It is off unless asked for,
and maps that had it say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import SolidError
from ..scores.conformal import FEWEST, conformal_quantile

EDGES = (0.0, 0.5, 1.5, 2.5, 4.0, math.inf)  # distance to the nearest sensor, in cells


@dataclass(frozen=True)
class Recalibration:
    """The stretch of every distance bin, for one lead."""

    scales: tuple[float, ...]
    counts: tuple[int, ...]  # held-out targets behind each
    level: float
    edges: tuple[float, ...] = EDGES

    def apply(
        self,
        members: np.ndarray,  # (K, N, ..., H, W)
        distance: np.ndarray,  # (N, H, W), in cells
    ) -> np.ndarray:
        """Stretch the members about their median."""
        scale = np.asarray(self.scales, np.float32)[self._bin(distance)]  # (N, H, W)
        scale = scale.reshape(scale.shape[0], *[1] * (members.ndim - 4), *scale.shape[1:])
        median = np.median(members, axis=0)
        return (median + scale * (members - median)).astype(members.dtype)

    def attributes(self) -> dict[str, Any]:
        """What the maps say of it."""
        return {
            "recalibrated": f"marginal: split-conformal stretch at level {self.level:g} by distance to the sensor",
            "recalibration_scales": list(self.scales),
            "recalibration_edges_cells": [edge if math.isfinite(edge) else 1e9 for edge in self.edges],
        }

    def _bin(self, distance: np.ndarray) -> np.ndarray:
        return np.clip(np.digitize(distance, self.edges) - 1, 0, len(self.scales) - 1)


def fit_recalibration(
    members: np.ndarray,  # (K, N, C, H, W) of held-out examples
    values: np.ndarray,  # (N, C, H, W)
    mask: np.ndarray,  # (N, C, H, W) bool: held-out targets
    distance: np.ndarray,  # (N, H, W), in cells
    level: float = 0.9,
) -> Recalibration:
    """Estimate the stretches; all variables share them, since a stretch has no units."""
    if not mask.any():
        raise SolidError("no held-out target to recalibrate with; observe with a validation share")
    if len(members) < 20:
        raise SolidError(
            f"{len(members)} members do not show a {100 * level:g} % interval; draw at least 20 to recalibrate"
        )
    low, median, high = np.quantile(members[:, mask], [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    y = values[mask]
    tiny = 1e-9 * (np.abs(median) + 1)  # a pinned cell has no width
    stretch = np.maximum((y - median) / np.maximum(high - median, tiny), (median - y) / np.maximum(median - low, tiny))
    where = np.broadcast_to(distance[:, None], mask.shape)[mask]
    together = conformal_quantile(stretch, level)
    scales, counts = [], []
    for lower, upper in pairwise(EDGES):
        here = stretch[(where >= lower) & (where < upper)]
        counts.append(len(here))
        scales.append(conformal_quantile(here, level) if len(here) >= FEWEST else together)
    return Recalibration(tuple(scales), tuple(counts), level)
