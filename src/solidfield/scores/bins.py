"""Bins by distance to the nearest sensor: the sensors themselves, then rings of about equally many cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..errors import SolidError
from .metrics import Array, to_numpy

BINS = 6  # beyond the sensors themselves
PER_BIN = 50  # cells that a bin should have
APART = 1.1  # times the edge before: cells of a map are not quite square, and nearer rings would bear one label


@dataclass(frozen=True)
class Bin:
    """A part of a region: cells of some distances to a sensor, or of one hour of the day."""

    kind: str  # distance or hour
    low: float  # the least and the largest value in it
    high: float
    mean: float


def distance_bins(
    distance: np.ndarray,  # (P,) infinite where there is no sensor at all
    rows: np.ndarray,  # (P,) bool, the cells to put into bins
) -> Iterator[tuple[Bin, np.ndarray]]:  # a bin, and (P,) bool: its cells
    """Fewer bins where cells are few; cells without a finite distance are in none."""
    here = distance[rows & np.isfinite(distance)]
    away = here[here > 0]
    edges = [0.0] if len(away) < len(here) else []
    if len(away):
        edges += distance_edges(away, int(np.clip(len(away) // PER_BIN, 1, BINS))).tolist()
    elif len(here):
        edges.append(float(np.nextafter(0.0, 1.0)))
    for low, high in pairwise(edges):
        inside = rows & (distance >= low) & (distance < high)
        if inside.any():
            far = distance[inside]
            yield Bin("distance", float(far.min()), float(far.max()), float(far.mean())), inside


def distance_edges(
    distance: Array,  # any shape; infinite where there is no sensor at all
    bins: int = 8,
) -> np.ndarray:  # (at most bins + 1,)
    """Edges of bins with about equally many cells; fewer bins where many cells have nearly the same distance."""
    finite = to_numpy(distance).astype(np.float64).reshape(-1)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        raise SolidError("no cell has a finite distance to a sensor; there must be at least one sensor")
    first, *others = np.quantile(finite, np.linspace(0, 1, bins + 1)[:-1])
    edges = [first]
    for edge in others:
        if edge > APART * edges[-1]:
            edges.append(edge)
    return np.append(edges, np.nextafter(finite.max(), np.inf))
