"""From a stream of readings to sparse frames: (time, lat, lon), NaN where nothing was read.

Every reading falls into the cell and the frame that cover it (layout.py); several in one cell, of one sensor that moves
or of many that stand there, are averaged, with their number and spread beside the mean (accumulate.py). What a reading
is worth is decided by options (limits.py): what they drop is counted, and listed in the file of refusals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..engine import Progress
from ..errors import SolidError
from ..grid import Bounds
from .accumulate import Accumulator, Cube
from .frames import Tally, to_frames
from .layout import Layout, layout_of, plan_layout
from .limits import Limits, drop, frame_centres, parse_outliers
from .records import refusal_file
from .table import CHUNK, Table


def grid_readings(
    table: Table,
    *,
    cell: str | None,
    every: str | None,
    variable: str | Sequence[str] | None = None,
    bounds: Bounds | None = None,
    domain: str | Path | Mapping[str, Any] | None = None,
    like: Layout | xr.Dataset | None = None,
    anchor: str = "floor",
    drop_above: float | None = None,
    drop_below: float | None = None,
    positive: bool = False,
    outliers: str | None = None,
    refused: Path | None = None,
    rows: int = CHUNK,
    max_memory: float = 4.0,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Sparse frames of the readings.

    `cell` ("0.01deg", "1km") and `every` ("30min") may be None for a gridded array, whose own are kept. `bounds` are
    the outer edges (south, west, north, east); `domain` is GeoJSON or "file.nc:variable", and readings in cells
    outside it count as outside; `like` is a layout, or frames made before, whose cells, clock and domain are taken.
    `max_memory` is GiB.
    """
    chosen = _choose(table, variable)
    robust = parse_outliers(outliers)
    if like is None:
        layout = plan_layout(table, cell, every, bounds, domain, anchor)
    else:
        layout = layout_of(like) if isinstance(like, xr.Dataset) else like
    limits = Limits(drop_above, drop_below, positive)

    def one_pass(limits: Limits, refused: Path | None) -> tuple[Cube, Tally]:
        return _accumulate(table, layout, chosen, limits, refused, rows, max_memory, progress)

    if robust is not None:
        cube, _ = one_pass(limits, None)
        limits = replace(limits, robust=robust, frames=frame_centres(cube))
    cube, tally = one_pass(limits, refused)
    if len(cube.frames) == 0:
        raise _nothing(table, tally)
    if not layout.bounded:
        layout = replace(layout, grid=layout.grid.part(cube.first_cell, cube.count.shape[2:]))
    return to_frames(table, chosen, layout, cube, tally, cell or "as given")


def _accumulate(
    table: Table,
    layout: Layout,
    chosen: Sequence[int],  # (V,) variables
    limits: Limits,
    refused: Path | None,
    rows: int,
    max_memory: float,
    progress: Progress | None,
) -> tuple[Cube, Tally]:
    """One pass over the table."""
    tally, grid = Tally(), layout.grid
    errors = table.columns.error is not None and len(chosen) == 1
    sums = Accumulator(len(chosen), grid.shape if layout.bounded else None, errors, max_memory)
    with refusal_file(refused) as write:
        for part, bad in table.chunks(rows, sensors=False):
            tally.read += len(part)
            tally.refused += len({one.row for one in bad})
            tally.first = tally.first or (bad[0] if bad else None)
            frame = layout.clock.index(part.time)
            values = np.ascontiguousarray(part.values[:, chosen])
            dropped = drop(table, part, values, frame, limits, chosen)
            tally.outliers += len({(one.file, one.row) for one in dropped})
            for one in (*bad, *dropped):
                write(one)
            iy, ix = grid.index(part.y, part.x)
            keep = ~np.isnan(values).all(axis=1) if values.shape[1] > 1 else ~np.isnan(values[:, 0])
            if layout.bounded:
                within = (iy >= 0) & (iy < grid.shape[0]) & (ix >= 0) & (ix < grid.shape[1])
                if grid.domain is not None:
                    within[within] = grid.domain[iy[within], ix[within]]
                tally.outside += int((~within).sum())
                keep &= within
            error = part.error if errors else None
            if not keep.all():
                frame, iy, ix, values = frame[keep], iy[keep], ix[keep], values[keep]
                error = None if error is None else error[keep]
            sums.add(frame, iy, ix, values, error)
            table.tell(progress, tally.read)
    return sums.finish(), tally


def _choose(table: Table, variable: str | Sequence[str] | None) -> list[int]:
    names = table.variables if variable is None else [variable] if isinstance(variable, str) else list(variable)
    for name in names:
        if name not in table.variables:
            raise SolidError(f"{table.name} has no variable '{name}'; it has {', '.join(table.variables)}")
    return [table.variables.index(name) for name in names]


def _nothing(table: Table, tally: Tally) -> SolidError:
    if tally.read == 0 and tally.first is not None:
        one = tally.first
        return SolidError(
            f"no row of {table.name} can be read: {tally.refused:,} refused, the first in line {one.row}, "
            f"column '{one.column}' ('{one.text}': {one.reason}); `solid check` lists them"
        )
    return SolidError(
        f"no reading of {table.name} is left: {tally.read:,} read, {tally.outside:,} outside the grid, "
        f"{tally.outliers:,} beyond the limits; widen --bounds or the limits"
    )
