"""From a stream of readings to sums in cells and frames, the inside of `grid` (intake.py).

Every reading falls into the cell and the frame that cover it (layout.py); several in one cell, of one sensor that moves
or of many that stand there, are averaged, with their number and spread beside the mean (accumulate.py). What a reading
is worth is decided by options (limits.py): what they drop is counted, and listed in the file of refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..engine import Progress, ahead, keep_freed_memory
from ..errors import SolidError
from .accumulate import Accumulator, Cube
from .error_table import ErrorTable
from .frames import Tally
from .layout import Layout
from .limits import Limits, drop, frame_centres
from .records import refusal_file
from .stations import Stations
from .table import Table


def sum_readings(
    table: Table,
    layout: Layout,
    chosen: Sequence[int],  # (V,) variables
    limits: Limits,
    refused: Path | None,
    rows: int,
    max_memory: float,  # GiB
    progress: Progress | None,
    told: ErrorTable,
    stations: Stations | None = None,  # to be told who reads where
) -> tuple[Cube, Tally]:
    """One pass over the table; two where limits are robust and ask for each frame's centre first."""
    if limits.robust is not None and limits.frames is None:
        plain = replace(limits, robust=None)
        cube, _ = sum_readings(table, layout, chosen, plain, None, rows, max_memory, progress, told)
        limits = replace(limits, frames=frame_centres(cube))
    tally, grid = Tally(), layout.grid
    everything = list(chosen) == list(range(len(table.variables)))
    errors = told.says or any(any(part.columns.errors) for part in table.parts)
    sums = Accumulator(len(chosen), grid.shape if layout.bounded else None, errors, max_memory)
    keep_freed_memory()
    with refusal_file(refused) as write:
        for part, bad in ahead(table.chunks(rows, sensors=told.column or stations is not None)):
            tally.read += len(part)
            tally.refused += len({one.row for one in bad})
            tally.first = tally.first or (bad[0] if bad else None)
            frame = layout.clock.index(part.time)
            values = part.values if everything else part.values[:, chosen]
            values, dropped = drop(table, part, values, frame, limits, chosen)
            tally.outliers += len({(one.file, one.row) for one in dropped})
            for one in (*bad, *dropped):
                write(one)
            iy, ix = grid.index(part.y, grid.near(part.x) if layout.bounded else part.x)
            keep = ~np.isnan(values).all(axis=1) if np.isnan(values.min(initial=0)) else np.ones(len(part), bool)
            if layout.bounded:
                within = (iy >= 0) & (iy < grid.shape[0]) & (ix >= 0) & (ix < grid.shape[1])
                if grid.domain is not None:
                    within[within] = grid.domain[iy[within], ix[within]]
                tally.outside += int((~within).sum())
                keep &= within
            error = told.complete(part, chosen, table) if errors else None
            if not keep.all():
                frame, iy, ix, values = frame[keep], iy[keep], ix[keep], values[keep]
                error = None if error is None else error[keep]
            sums.add(frame, iy, ix, values, error)
            if stations is not None and part.sensor is not None:
                stations.add(part.sensor if keep.all() else part.sensor[keep], iy, ix)
            table.tell(progress, tally.read)
    cube = sums.finish()
    if len(cube.frames) == 0:
        raise _nothing(table, tally)
    return cube, tally


def choose_variables(table: Table, variable: str | Sequence[str] | None) -> list[int]:
    names = table.variables if variable is None else [variable] if isinstance(variable, str) else list(variable)
    for name in names:
        if name not in table.variables:
            raise SolidError(f"{table.name} has no variable '{name}'; it has {', '.join(table.variables)}")
    return [table.variables.index(name) for name in names]


def _nothing(table: Table, tally: Tally) -> SolidError:
    if tally.read == 0 and tally.first is not None:
        return SolidError(
            f"no row of {table.name} can be read: {tally.refused:,} refused, the first in {tally.first.words}; "
            "`solid check` lists them"
        )
    return SolidError(
        f"no reading of {table.name} is left: {tally.read:,} read, {tally.outside:,} outside the grid, "
        f"{tally.outliers:,} beyond the limits; widen --bounds or the limits"
    )
