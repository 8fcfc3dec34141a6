"""Whatever holds readings, as sparse frames: tables through `readings/`, gridded data as they are.

A grid that is not given is the one the doctor suggests, and that is said. New readings for a run fall into the run's
own cells and frames (`like`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr

from ..errors import SolidError
from ..grid import Grid
from . import Table, grid_readings, open_frames, open_table
from .doctor.diagnose import diagnose

Readings: TypeAlias = str | Path | Sequence[str] | Sequence[Path] | pd.DataFrame | xr.Dataset | xr.DataArray
Say = Callable[[str], None]


def read_frames(
    readings: Readings,
    *,
    cell: str | None = None,  # "1km", "0.01deg"; None: as the readings suggest
    every: str | None = None,  # "1h", "30min"
    variables: Sequence[str] | None = None,
    timezone: str | None = None,  # of times without an offset
    columns: Mapping[str, str] | None = None,  # by role, where the usual names do not tell
    dates: str | None = None,
    units: str | None = None,  # of the values, where the readings do not say
    like: xr.Dataset | None = None,  # cells and clock to fall into, see `frames_like`
    above: float | None = None,  # readings above are dropped, and counted
    say: Say | None = None,
) -> xr.Dataset:
    """Sparse frames on (time, y, x), NaN where nothing was read."""
    asked = {"cell": cell, "every": every, "columns": columns, "dates": dates, "units": units, "above": above}
    useless = [name for name, value in asked.items() if value is not None]
    if isinstance(readings, xr.Dataset | xr.DataArray) and _is_gridded(readings):
        _refuse(useless, "these readings")
        return readings.to_dataset(name=readings.name or "value") if isinstance(readings, xr.DataArray) else readings
    one = readings[0] if isinstance(readings, Sequence) and len(readings) == 1 else readings
    if isinstance(one, str | Path) and Path(one).suffix in (".nc", ".zarr"):
        frames = _frames_at(Path(one))
        if frames is not None:
            _refuse(useless, str(one))
            return frames
    say = say or (lambda words: None)
    table = open_table(one, columns=columns, timezone=timezone, units=units, dates=dates)
    if like is None and table.lattice is None and (cell is None or every is None):
        cell, every, why = suggest(table, cell, every)
        say(why)
    frames = grid_readings(
        table, cell=cell, every=every, variable=list(variables) if variables else None, like=like, above=above
    )
    for note in table.notes:
        say(note)
    counts = {what: int(frames.attrs[f"rows_{what}"]) for what in ("read", "refused", "outside", "outliers")}
    say(", ".join(f"{count:,} rows {what}" for what, count in counts.items()))
    return frames


def _refuse(useless: list[str], what: str) -> None:
    """An option that can do nothing is an error: frames were made with their own."""
    if useless:
        raise SolidError(f"{what} are frames already, so '{useless[0]}' does nothing; leave it out or grid them anew")


def suggest(table: Table, cell: str | None, every: str | None) -> tuple[str, str, str]:  # cell, every, why
    """The doctor's grid for what was not given."""
    chosen = diagnose(table).chosen
    if chosen is None:
        raise SolidError(f"{table.name} has too few readings to suggest a grid; give --cell and --every")
    cell, every = cell or chosen.cell, every or chosen.every
    return cell, every, f"cells of {cell} every {every}, as the readings suggest (`solid check` tells more)"


def frames_like(grid: Grid, step: float, clock: Mapping[str, Any]) -> xr.Dataset:
    """Empty frames that say which cells and which clock (seconds, phase, anchor) new readings fall into."""
    y, x = grid.axes
    attributes = {
        "cell_size": list(grid.spacing),
        "origin": list(grid.origin),
        "every_ns": round(step * 1e9),
        "phase_ns": int(clock["phase_ns"]),
        "anchor": str(clock["anchor"]),
    }
    fields = {} if grid.domain is None else {"domain": ((y, x), np.asarray(grid.domain))}
    return xr.Dataset(fields, {y: grid.y, x: grid.x}, attributes)


def _is_gridded(data: xr.Dataset | xr.DataArray) -> bool:
    return "time" in data.dims and len(data.dims) >= 3


def _frames_at(path: Path) -> xr.Dataset | None:
    """Frames made before; None for any other file, of which the table reader makes what it can."""
    try:
        return open_frames(path)
    except SolidError:
        return None
