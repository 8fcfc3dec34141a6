"""Where sensors may go: all cells of the map, those of an area, the rows of a table, or tracks of a mobile sensor.

A candidate is a name, the cells that it would read, and what it costs. A track reads all its cells within one time
step of the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..errors import SolidError
from ..grid import Grid
from ..readings.areas import area_mask
from ..readings.names import LATITUDES, LONGITUDES, SENSORS, plain

Table: TypeAlias = str | Path | pd.DataFrame
Area: TypeAlias = str | Path | Mapping[str, Any]  # GeoJSON: a file or its content
TRACKS = ("track", "trackid", "route", "routeid", "line", "trip")


@dataclass(frozen=True)
class Candidates:
    names: list[str]  # (M,)
    cells: list[np.ndarray]  # (M,) flat cells that each would read
    cost: np.ndarray | None = None  # (M,)

    def points(self) -> tuple[np.ndarray, list[np.ndarray]]:  # (P,) cells, (M,) positions among them
        """Every cell once, and which of them each candidate reads."""
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *self.cells]))
        return every, [np.searchsorted(every, cells) for cells in self.cells]

    def where(self, keep: np.ndarray) -> Candidates:  # (M,) bool
        chosen = np.flatnonzero(keep)
        cost = None if self.cost is None else self.cost[chosen]
        return Candidates([self.names[m] for m in chosen], [self.cells[m] for m in chosen], cost)


def of_cells(cells: np.ndarray, grid: Grid) -> Candidates:
    """One candidate a cell, named by its place."""
    row, column = np.divmod(cells, grid.shape[1])
    names = [f"{y:.6g}, {x:.6g}" for y, x in zip(grid.y[row], grid.x[column], strict=True)]
    return Candidates(names, [np.array([cell]) for cell in cells])


def of_table(table: Table, grid: Grid) -> Candidates:
    """A row each: a place, and where there are such columns a name and a cost; rows off the map are refused."""
    rows, cells = _located(table, grid)
    names = _column(rows, SENSORS)
    found = of_cells(cells, grid)
    words = found.names if names is None else names.astype(str).tolist()
    return Candidates(words, found.cells, _cost(rows))


def of_tracks(table: Table, grid: Grid) -> Candidates:
    """Rows with the same `track` are one candidate; its cost is that of its first row."""
    rows, cells = _located(table, grid)
    track = _column(rows, TRACKS)
    if track is None:
        raise SolidError("a table of routes needs a column 'track' beside its places; name the track of every row")
    names, first, which = np.unique(track.astype(str), return_index=True, return_inverse=True)
    cost = _cost(rows)
    groups = [np.unique(cells[which == number]) for number in range(len(names))]
    return Candidates(names.tolist(), groups, None if cost is None else cost[first])


def allowed(grid: Grid, within: Area | None, no_go: Sequence[Area]) -> np.ndarray:  # (H W,) bool
    """Cells of the domain, inside one area and outside others."""
    inside = grid.inside.copy()
    if within is not None:
        inside &= area_mask(within, grid.y, grid.x)
    for area in no_go:
        inside &= ~area_mask(area, grid.y, grid.x)
    if not inside.any():
        raise SolidError("no cell of the map may have a sensor; check the areas (lon, lat)")
    return inside.ravel()


def _located(table: Table, grid: Grid) -> tuple[pd.DataFrame, np.ndarray]:  # and the (n,) flat cells
    name = "the table" if isinstance(table, pd.DataFrame) else str(table)
    try:
        rows = table if isinstance(table, pd.DataFrame) else pd.read_csv(table)
        y, x = (_column(rows, names) for names in (LATITUDES, LONGITUDES))
        if y is None or x is None or not len(rows):
            raise SolidError(f"{name} needs rows with columns {' and '.join(grid.axes)}")
        row, column = grid.index(y.to_numpy(float), x.to_numpy(float))
    except OSError as error:
        raise SolidError(f"cannot read {name}: {error.strerror or error}") from None
    except ValueError as error:
        raise SolidError(f"{name} is no sound table of places: {error}; give a CSV") from None
    off = (row < 0) | (row >= grid.shape[0]) | (column < 0) | (column >= grid.shape[1])
    off[~off] = ~grid.inside[row[~off], column[~off]]
    if off.any():
        place = f"{y.iloc[off.argmax()]:g}, {x.iloc[off.argmax()]:g}"
        raise SolidError(f"{place} of {name} is off the map of the run; leave it out")
    return rows, row * grid.shape[1] + column


def _column(rows: pd.DataFrame, names: Sequence[str]) -> pd.Series | None:
    for wanted in names:
        for name in rows.columns:
            if plain(str(name)) == wanted:
                return rows[name]
    return None


def _cost(rows: pd.DataFrame) -> np.ndarray | None:
    found = _column(rows, ("cost", "price"))
    if found is None:
        return None
    cost = pd.to_numeric(found, errors="coerce").to_numpy(float)
    if not (cost > 0).all():
        raise SolidError("a cost is missing or not positive; give every candidate one above zero")
    return cost
