"""Which sensors stand in which cell: their names, kept beside the frames, which know cells alone.

A sensor stands where at least nine tenths of its readings lie; one that does not, such as a bus, has no cell. Several
sensors in one cell have one record, the mean of theirs, and that is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..errors import SolidError
from ..grid import Grid

STANDS = 0.9  # share of a sensor's readings in its cell
NAMED = 3  # cells of several sensors that are listed
KEY = "solidfield_stations"  # the attribute of frames that holds names and the middles of cells as JSON
Station = tuple[str, float, float]  # name, y, x


class Stations:
    """Readings counted by sensor and cell, chunk by chunk."""

    def __init__(self) -> None:
        self.counts: list[pd.Series] = []

    def add(self, names: np.ndarray, iy: np.ndarray, ix: np.ndarray) -> None:  # (n,) each
        """Take in readings; one without a name is nobody's."""
        table = pd.DataFrame({"sensor": names, "iy": iy, "ix": ix})[names != ""]
        self.counts.append(table.groupby(["sensor", "iy", "ix"], sort=False, observed=True).size())

    def finish(self, grid: Grid) -> list[Station]:
        """The sensors that stand, by name; `grid` counted the cells."""
        if not self.counts:
            return []
        counts = pd.concat(self.counts).groupby(level=[0, 1, 2]).sum()
        whole = counts.groupby(level=0).transform("sum")
        rows = counts.index[(counts >= STANDS * whole).to_numpy()]
        (y, x), (dy, dx) = grid.origin, grid.spacing
        return [(str(name), round(y + dy * iy, 10), round(x + dx * ix, 10)) for name, iy, ix in rows]


def merged(stations: Sequence[Station]) -> str:
    """What is to be said of cells in which several sensors stand; empty where there are none.

    >>> merged([("A", 22.5, 88.3), ("B", 22.5, 88.3), ("C", 22.6, 88.3)])
    '1 cell holds several sensors, which share one record, their mean: A and B; smaller cells (--cell) keep them apart'
    """
    shared = [names for names in by_cell(stations).values() if len(names) > 1]
    if not shared:
        return ""
    listed = "; ".join(" and ".join(names) for names in shared[:NAMED])
    more = f"; and {len(shared) - NAMED:,} more" if len(shared) > NAMED else ""
    cells = "1 cell holds" if len(shared) == 1 else f"{len(shared):,} cells hold"
    return (
        f"{cells} several sensors, which share one record, their mean: {listed}{more}; smaller cells (--cell) keep "
        "them apart"
    )


def by_cell(stations: Sequence[Station]) -> dict[tuple[float, float], list[str]]:
    """Names by the middle of their cell."""
    found: dict[tuple[float, float], list[str]] = {}
    for name, y, x in stations:
        found.setdefault((y, x), []).append(name)
    return found


def names_at(stations: Sequence[Station], grid: Grid) -> np.ndarray:  # (cells,) str objects
    """Of each cell of a grid who stands there, "A; B" where there are several."""
    names = np.full(grid.cells, "", dtype=object)
    for (y, x), here in by_cell(stations).items():
        (iy,), (ix,) = grid.index(np.array([y]), grid.near(np.array([x])))
        if 0 <= iy < grid.shape[0] and 0 <= ix < grid.shape[1]:
            names[iy * grid.shape[1] + ix] = "; ".join(here)
    return names


def of_attributes(attributes: Mapping[Any, Any]) -> tuple[Station, ...]:
    """The stations that frames remember."""
    try:
        return tuple((str(name), float(y), float(x)) for name, y, x in json.loads(attributes.get(KEY) or "[]"))
    except (TypeError, ValueError, RecursionError):
        raise SolidError(f"the attribute {KEY} of the frames is damaged; grid the readings again") from None
