"""The grid and the clock of the frames, from what the user asked for and what the table is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..errors import SolidError
from .areas import area_extent, area_mask
from .cells import Bounds, Cells, Ticks, cells_like, lattice_cells, needs_extent, parse_every, plan_cells, plan_ticks
from .records import Rows
from .table import Table


@dataclass(frozen=True)
class Layout:
    cells: Cells  # without a shape where they reach as far as the readings
    ticks: Ticks
    domain: np.ndarray | None  # (H, W) bool, True = a cell that counts; only of cells with a shape


def plan_layout(
    table: Table,
    cell: str | None,
    every: str | None,
    bounds: Bounds | None,
    domain: str | Path | Mapping[str, Any] | None,
    like: xr.Dataset | None,
    anchor: str,
) -> Layout:
    sample = _sample(table)
    ticks = _ticks(table, every, anchor, sample, like)
    cells = _cells(table, cell, bounds, domain, sample, like)
    if domain is not None and cells.shape is None:
        cells = _covering(cells, _extent(table))
    return Layout(cells, ticks, None if cells.shape is None else _domain(domain, cells, like))


def _sample(table: Table) -> Rows:
    """The first rows of the table, whatever the size of chunks."""
    for part, _ in table.chunks(1000, sensors=False):
        if len(part):
            return part
    return next(iter(table.chunks(1000, sensors=False)))[0]


def _ticks(table: Table, every: str | None, anchor: str, sample: Rows, like: xr.Dataset | None) -> Ticks:
    if like is not None:
        return Ticks(int(like.attrs["every_ns"]), int(like.attrs["phase_ns"]), str(like.attrs["anchor"]))
    if every is not None:
        return plan_ticks(parse_every(every), anchor, sample.time)
    if table.lattice is None or table.lattice.every is None:
        raise SolidError(f"{table.name} has no time step of its own; give one (--every 1h)")
    return plan_ticks(int(table.lattice.every.astype(np.int64)), anchor, sample.time)


def _cells(
    table: Table,
    cell: str | None,
    bounds: Bounds | None,
    domain: Any,
    sample: Rows,
    like: xr.Dataset | None,
) -> Cells:
    if like is not None:
        return cells_like(like)
    if bounds is None and table.lattice is not None:
        return lattice_cells(table.lattice, cell, table.geographic)
    if cell is None:
        raise SolidError(f"{table.name} has no cells of its own; give their size (--cell 1km or --cell 0.01deg)")
    place = (sample.y, sample.x)
    if bounds is None and _is_geojson(domain):
        bounds = area_extent(domain)
        free = plan_cells(cell, table.geographic, None, bounds, place)
        return _covering(free, bounds)
    extent = None
    if bounds is None and needs_extent(cell, table.geographic):
        extent = _extent(table)
    return plan_cells(cell, table.geographic, bounds, extent, place)


def _covering(cells: Cells, bounds: Bounds) -> Cells:
    """The cells that touch the bounds."""
    low = cells.index(np.array([bounds[0]]), np.array([bounds[1]]))
    high = cells.index(np.array([bounds[2]]), np.array([bounds[3]]))
    first = int(low[0][0]), int(low[1][0])
    return cells.part(first, (int(high[0][0]) - first[0] + 1, int(high[1][0]) - first[1] + 1))


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
    return domain is not None and (isinstance(domain, Mapping) or str(domain).lower().endswith(("json",)))


def _domain(domain: Any, cells: Cells, like: xr.Dataset | None) -> np.ndarray | None:  # (H, W) bool
    """Cells that count."""
    if domain is None:
        return None if like is None or "domain" not in like else like["domain"].values.astype(bool)
    if _is_geojson(domain):
        inside = area_mask(domain, *cells.axes())
    else:
        path, _, name = str(domain).rpartition(":")
        try:
            with xr.open_dataset(path) as data:
                field = data[name].squeeze(drop=True)
                y, x = field.dims
                nearest = field.sel({y: cells.axes()[0]}, method="nearest").sel({x: cells.axes()[1]}, method="nearest")
                inside = np.nan_to_num(np.asarray(nearest.transpose(y, x).values, dtype=float)) > 0
        except (OSError, KeyError, ValueError) as error:
            raise SolidError(
                f"cannot take '{domain}' for a domain ({error}); give GeoJSON or file.nc:variable"
            ) from None
    if not inside.any():
        raise SolidError(f"no cell centre lies inside the domain {domain if isinstance(domain, (str, Path)) else ''}")
    return inside
