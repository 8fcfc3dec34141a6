"""The grid and the clock of the frames, from what the user asked for and what the table is.

Cell centres lie on multiples of the cell size, so that coordinates already rounded to it are centres; where the first
readings lie halfway between multiples, so do the centres. With bounds the first cell begins at the south-western
corner. A cell given as a length is as high and wide as that at the mean latitude of the bounds (the cells are equal
in degrees, hence equal in area up to the change of cos(latitude) across the grid).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..clock import Clock, span
from ..disk import open_dataset
from ..errors import SolidError
from ..grid import DEGREE, Bounds, Grid, closed
from .areas import area_extent, area_mask
from .table import Table

LENGTHS = {"m": 1.0, "km": 1000.0}


@dataclass(frozen=True)
class Layout:
    """Which cells and which frames readings fall into; the grid's domain says which cells count."""

    grid: Grid
    clock: Clock
    bounded: bool = True  # False: the grid is one cell of many alike, as far as the readings reach


def layout_of(frames: xr.Dataset) -> Layout:
    """Of frames made before, for new readings of the same place."""
    axes = ("lat", "lon") if "lat" in frames.dims else ("y", "x")
    about = {"shape": [frames.sizes[axis] for axis in axes], "axes": axes, "units": "", "periodic": (False, False)}
    about |= {"spacing": frames.attrs["cell_size"], "origin": frames.attrs["origin"]}
    domain = frames["domain"].values.astype(bool) if "domain" in frames else None
    return Layout(closed(Grid.from_dict(about, domain)), Clock.from_dict(frames.attrs))


def plan_layout(
    table: Table,
    cell: str | None,
    every: str | None,
    bounds: Bounds | None,
    domain: str | Path | Mapping[str, Any] | None,
    anchor: str | None,  # None: as the times tell
) -> Layout:
    step = table.every if every is None else round(span(every) * 1e9)
    if step is None:
        raise SolidError(f"{table.name} has no time step of its own; give one (--every 1h)")
    clock = Clock.fitted(step, anchor, table.sample.time)
    grid, bounded = _plan_grid(table, cell, bounds, domain)
    if domain is None:
        return Layout(grid, clock, bounded)
    if not bounded:
        grid = _covering(grid, _extent(table))
    return Layout(grid.with_domain(_domain(domain, grid)), clock)


def _plan_grid(table: Table, cell: str | None, bounds: Bounds | None, domain: Any) -> tuple[Grid, bool]:
    """The grid, and whether it ends where it says."""
    if bounds is None and table.lattice is not None:
        return _coarser(table.lattice, cell, table.geographic), True
    if cell is None:
        raise SolidError(f"{table.name} has no cells of its own; give their size (--cell 1km or --cell 0.01deg)")
    if bounds is not None:
        return bounded_grid(cell, table.geographic, bounds), True
    place = (table.sample.y, table.sample.x)
    if _is_geojson(domain):
        bounds = area_extent(domain)
        return _covering(endless_grid(cell, table.geographic, bounds, place), bounds), True
    sized = table.geographic and parse_cell(cell, True)[1] in LENGTHS  # its degrees depend on where the readings are
    return endless_grid(cell, table.geographic, _extent(table) if sized else None, place), False


def endless_grid(
    cell: str,
    geographic: bool,
    extent: Bounds | None,  # of the readings, where the size of cells depends on it
    sample: tuple[np.ndarray, np.ndarray],  # (n,) y and x of the first readings
) -> Grid:
    """One cell of a grid that reaches as far as readings do."""
    spacing = cell_steps(cell, geographic, None if extent is None else (extent[0] + extent[2]) / 2)
    y, x = (step / 2 if _halfway(at, step) else 0.0 for at, step in zip(sample, spacing, strict=True))
    return _grid((1, 1), spacing, (y, x), geographic)


def bounded_grid(cell: str, geographic: bool, bounds: Bounds) -> Grid:
    """Cells from the south-western corner of the bounds on."""
    south, west, north, east = bounds
    if geographic and -180 <= east < west <= 180:
        east += 360.0  # across the dateline
    if not (south < north and west < east):
        raise SolidError(f"bounds {bounds} are empty; give south,west,north,east")
    dy, dx = cell_steps(cell, geographic, (south + north) / 2)
    return _grid(
        (_count(north - south, dy), _count(east - west, dx)), (dy, dx), (south + dy / 2, west + dx / 2), geographic
    )


def _coarser(fine: Grid, cell: str | None, geographic: bool) -> Grid:
    """The cells of a gridded array, or other ones that begin at its first edge."""
    if cell is None:
        return fine
    dy, dx = cell_steps(cell, geographic, float(fine.y.mean()))
    shape = (_count(fine.shape[0] * fine.spacing[0], dy), _count(fine.shape[1] * fine.spacing[1], dx))
    south, west = (at - step / 2 for at, step in zip(fine.origin, fine.spacing, strict=True))
    return _grid(shape, (dy, dx), (south + dy / 2, west + dx / 2), geographic)


def _grid(shape: tuple[int, int], spacing: tuple[float, float], origin: tuple[float, float], geographic: bool) -> Grid:
    return closed(Grid(shape, spacing, origin, axes=("lat", "lon") if geographic else ("y", "x")))


def _covering(grid: Grid, bounds: Bounds) -> Grid:
    """The cells that touch the bounds."""
    (low, high), (left, right) = grid.index(np.array([bounds[0], bounds[2]]), np.array([bounds[1], bounds[3]]))
    return grid.part((int(low), int(left)), (int(high - low) + 1, int(right - left) + 1))


def cell_steps(cell: str, geographic: bool, mean_latitude: float | None) -> tuple[float, float]:
    """The size of a cell along (y, x) in the units of the coordinates.

    >>> cell_steps("0.01deg", True, None)
    (0.01, 0.01)
    """
    number, unit = parse_cell(cell, geographic)
    if not geographic or unit not in LENGTHS:
        return number, number
    assert mean_latitude is not None
    high = number * LENGTHS[unit] / 1000 / DEGREE
    narrow = max(np.cos(np.radians(mean_latitude)), 0.01)  # at the poles a cell is not wider than 100 of its height
    return float(high), float(high / narrow)


def parse_cell(cell: str, geographic: bool) -> tuple[float, str]:
    found = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)\s*(deg|degrees?|°|km|m)?\s*", cell)
    units = "0.01deg, 1km or 500m" if geographic else "500m, 1km or a plain number of the coordinates' units"
    try:
        number, unit = (float(found[1]), found[2] or "") if found else (0.0, "")
    except ValueError:
        number, unit = 0.0, ""
    if not 0 < number < np.inf or (geographic and not unit) or (not geographic and unit[:3] in ("deg", "°")):
        raise SolidError(f"cannot take '{cell}' for the size of a cell; give {units}")
    if geographic and number * LENGTHS.get(unit, 1000 * DEGREE) > 1000 * 360 * DEGREE:
        raise SolidError(f"a cell of '{cell}' is larger than the Earth; give {units}")
    if not geographic:
        return number * LENGTHS.get(unit, 1.0), ""
    return number, unit if unit in LENGTHS else "deg"


def _count(length: float, step: float) -> int:
    return max(1, int(np.ceil(length / step - 1e-6)))


def _halfway(at: np.ndarray, step: float) -> bool:
    """Do all the coordinates lie halfway between multiples of the step?"""
    share = at / step - np.floor(at / step)
    return len(at) > 0 and bool((np.abs(share - 0.5) < 1e-6).all())


def _extent(table: Table) -> Bounds:
    """South, west, north, east of all readings: one more pass, for cells whose size depends on it."""
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for part, _ in table.chunks(sensors=False):
        if len(part):
            low = np.minimum(low, (part.y.min(), part.x.min()))
            high = np.maximum(high, (part.y.max(), part.x.max()))
    if not np.isfinite(low).all():
        raise SolidError(f"no row of {table.name} can be read; `solid check` says why")
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _is_geojson(domain: Any) -> bool:
    return domain is not None and (isinstance(domain, Mapping) or str(domain).lower().endswith("json"))


def _domain(domain: Any, grid: Grid) -> np.ndarray:  # (H, W) bool
    """Cells that count."""
    at_y, at_x = np.round(grid.y, 10), np.round(grid.x, 10)
    if _is_geojson(domain):
        inside = area_mask(domain, at_y, at_x, grid.axes == ("lat", "lon"))
    else:
        path, _, name = str(domain).rpartition(":")
        try:
            with open_dataset(Path(path), "give GeoJSON or file.nc:variable") as data:
                field = data[name].squeeze(drop=True)
                y, x = field.dims
                nearest = field.sel({y: at_y}, method="nearest").sel({x: at_x}, method="nearest")
                inside = np.nan_to_num(np.asarray(nearest.transpose(y, x).values, dtype=float)) > 0
        except (KeyError, ValueError) as error:
            raise SolidError(
                f"cannot take '{domain}' for a domain ({error}); give GeoJSON or file.nc:variable"
            ) from None
    if not inside.any():
        raise SolidError(f"no cell centre lies inside the domain {domain if isinstance(domain, (str, Path)) else ''}")
    return inside
