"""Whatever holds readings, looked at (`check`), put on a grid (`grid`), or taken as the frames that they are already.

A grid that is not given is the one the doctor suggests. Every assumption on the way, and what became of the rows, is
said in words: to `say` where it is given, else to the log of this package; and it stands in the frames' `notes`.
New readings for a run fall into the run's own cells and frames (`like`).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr

from ..engine import Progress
from ..errors import SolidError
from ..grid import closed
from . import no_readings
from .doctor.diagnose import Diagnosis, diagnose
from .doctor.locations import words_of_far_cells
from .error_table import Errors, ErrorTable, plain_errors
from .frames import open_frames, save_frames, to_frames
from .gridding import choose_variables, sum_readings
from .layout import Layout, layout_of, plan_layout
from .limits import Limits, parse_outliers
from .names import ROLES
from .place_table import Places
from .stations import KEY, Stations, merged
from .table import CHUNK, Table, open_table

Readings: TypeAlias = str | Path | Sequence[str] | Sequence[Path] | pd.DataFrame | xr.Dataset | xr.DataArray
Say = Callable[[str], None]
OF_FRAMES = ("variables", "timezone", "like", "stations")  # options that frames can follow as well as tables


def check(
    readings: Readings,
    *,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    dates: str | None = None,
    units: str | None = None,
    name: str | None = None,
    places: Places | None = None,
    refused: str | Path | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say what is wrong with readings, how to grid them, and what can be learned from them.

    The data doctor: one pass over the table at constant memory. `solid check` prints what this returns, and
    `solidfield.plot.readings.check_figure` draws it.

    Parameters
    ----------
    readings : path, sequence of paths, DataFrame or xarray object
        A file (CSV, CSV.gz, Parquet, NetCDF, Zarr), several, a folder, a glob, or a table in memory.
    columns : mapping, optional
        Columns by role (time, y, x, value, sensor, parameter, error) where their names do not tell:
        `{"time": "when"}`.
    timezone : str, optional
        Of times without an offset: "Asia/Kolkata" or "+05:30". Default: they are taken as UTC, and that is a finding.
    dates : str, optional
        "dayfirst", "monthfirst", "yearfirst", a pattern such as "%d.%m.%Y %H:%M", or what numbers count, such as
        "seconds since 2024-05-01T10:30". Default: as the rows tell.
    units : str, optional
        Of the values, where the readings do not say: one unit, or one for each variable, comma-separated.
    name : str, optional
        What to call the variable: "PM2.5"; of several, "pm=PM2.5,t=temperature". Default: as its column is called.
    places : path, DataFrame or mapping, optional
        Where sensors stand, for readings without coordinates: a table of their names with lat and lon (or y and x), or
        `{"A": (lat, lon)}`. The readings are rows that name their sensor, or have a column for each of them. Default:
        the readings say where they were taken.
    refused : path, optional
        CSV to write, with every field refused and the reason.
    progress : callable, optional
        Called as `progress(what, done, total)`: the rows so far in words, and the share of the files in thousandths.

    Returns
    -------
    Diagnosis
        Counts, statistics, `findings` (the gravest first), grids to choose from, the one suggested (`chosen`) and
        what to expect; `as_dict()` is plain JSON.

    Raises
    ------
    SolidError
        If there is no such file, or no column of times, places or values is found in it.

    Examples
    --------
    >>> import pandas as pd
    >>> times = pd.date_range("2024-01-01", periods=48, freq="h")
    >>> table = pd.DataFrame({"time": times, "lat": 22.5, "lon": 88.3, "pm": 40.0})
    >>> diagnosis = check(table)
    >>> diagnosis.rows, [finding.what for finding in diagnosis.findings]
    (48, ['time-zone'])
    """
    how: dict[str, Any] = {"columns": columns, "timezone": timezone, "units": units, "dates": dates, "name": name}
    table = open_table(_one(readings), places=places, **how)
    return diagnose(table, refused=None if refused is None else Path(refused), progress=progress)


def grid(
    readings: Readings,
    out: str | Path | None = None,
    *,
    cell: str | None = None,
    every: str | None = None,
    variables: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    dates: str | None = None,
    units: str | None = None,
    name: str | None = None,
    places: Places | None = None,
    bounds: tuple[float, float, float, float] | None = None,
    domain: str | Path | Mapping[str, Any] | None = None,
    like: Layout | xr.Dataset | None = None,
    anchor: str | None = None,
    drop_above: float | None = None,
    drop_below: float | None = None,
    positive: bool = False,
    outliers: str | None = None,
    errors: Errors | None = None,
    refused: str | Path | None = None,
    stations: bool = False,
    max_memory: float = 4.0,
    rows: int = CHUNK,
    say: Say | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Average readings in cells and time steps, with counts and spreads; nothing is dropped by stealth.

    Parameters
    ----------
    readings : path, sequence of paths, DataFrame or xarray object
        A table of readings, as for `check`.
    out : path, optional
        File to write as well: .nc or .zarr; frames written before are replaced.
    cell : str, optional
        Size of a cell, "1km", "500m" or "0.01deg". Default: a gridded array keeps its own, else as `check` suggests.
    every : str, optional
        Time step, "30min", "1h" or "1d". Default: likewise.
    variables : sequence of str, optional
        Which to keep. Default: all.
    columns, timezone, dates, units, name, places : optional
        How to read the table, as for `check`.
    bounds : (south, west, north, east), optional
        Outer edges of the grid in degrees; from west to east across the dateline where west is the larger. Default:
        those of the readings.
    domain : path or mapping, optional
        Cells that count: GeoJSON, or "file.nc:variable". Default: all.
    like : Dataset or Layout, optional
        Frames whose cells, clock and domain to take instead of `cell`, `every`, `bounds` and `domain`.
    anchor : {"floor", "round"}, optional
        Does a frame begin at its time, or is it centred on it? Default: centred where the readings come a little before
        and after each step, else "floor".
    drop_above, drop_below : float, optional
        Readings beyond these values are dropped, and counted. Default: none.
    positive : bool
        Drop readings that are zero or less. Default: False.
    outliers : str, optional
        "mad:6" drops readings 6 robust standard deviations from their frame's median. Default: none.
    errors : float, path, mapping or DataFrame, optional
        Standard deviations of the readings' errors where the table has no column of them: one number; a table with a
        column of the readings, such as sensor or kind, and one called error (pm_error, no2_error of several variables);
        or numbers by the names of sensors. Default: as the readings say, see `columns`.
    refused : path, optional
        CSV to write, with everything refused or dropped and the reason.
    stations : bool
        Also keep, as an attribute, the names of sensors that stand, with the middles of their cells, and
        say which share a cell. Default: False, since it takes as long as the rest.
    max_memory : float
        GiB that the frames may take. Default: 4.
    rows : int
        Read at a time; changes nothing but the memory. Default: 524,288.
    say : callable, optional
        Is told in words what was assumed and what became of the rows. Default: the package's log.
    progress : callable, optional
        As for `check`.

    Returns
    -------
    xarray.Dataset
        Each variable on (time, y, x), NaN where nothing was read, beside `_count`, `_spread`
        and, where errors are known, `_error`: that of the mean, in which each reading counts by its own. The attributes
        hold rows_read, rows_refused, rows_outside, rows_outliers and, as `notes`, all that was said.

    Raises
    ------
    SolidError
        If nothing is left to grid, or the frames would take more than `max_memory`.

    Examples
    --------
    >>> import pandas as pd
    >>> times = ["2024-01-01T00:10Z", "2024-01-01T00:50Z"]
    >>> table = pd.DataFrame({"time": times, "lat": 22.5, "lon": 88.3, "pm": [1, 3]})
    >>> frames = grid(table, cell="0.01deg", every="1h")
    >>> frames["pm"].values.tolist(), frames["pm_count"].values.tolist()
    ([[[2.0]]], [[[2]]])
    """
    said: list[str] = []
    how: dict[str, Any] = {"columns": columns, "timezone": timezone, "units": units, "dates": dates, "name": name}
    table = open_table(_one(readings), places=places, **how)
    if like is None and table.lattice is None and (cell is None or every is None):
        cell, every, why = suggest(table, cell, every)
        said.append(why)
    chosen = choose_variables(table, variables)
    limits = Limits(drop_above, drop_below, positive, parse_outliers(outliers))
    if like is None:
        layout = plan_layout(table, cell, every, bounds, domain, anchor)
        if anchor is None and layout.clock.anchor == "round":
            said.append(
                "readings come a little before and after each step, so frames are centred on it (--anchor round)"
            )
    else:
        layout = layout_of(like) if isinstance(like, xr.Dataset) else like
    listed = None if refused is None else Path(refused)
    told = ErrorTable.of_plain(plain_errors(errors), table, chosen)
    named = Stations() if stations and told.column in (None, table.columns.sensor) else None
    cube, tally = sum_readings(table, layout, chosen, limits, listed, rows, max_memory, progress, told, named)
    if variables is None and not any(ROLES.get(role.lower()) == "values" for role in columns or {}):
        away = no_readings.staying(cube)
        if away.any():
            said.append(no_readings.left_out([table.variables[v] for v in np.flatnonzero(away)], table.columns.values))
            chosen = [v for v, stays in zip(chosen, away, strict=True) if not stays]
            cube = no_readings.without(cube, away)
    standing = named.finish(layout.grid) if named else []
    if not layout.bounded:
        layout = replace(layout, grid=closed(layout.grid.part(cube.first_cell, cube.count.shape[2:])))
        said += words_of_far_cells(cube.count, layout.grid)
    frames = to_frames(table, chosen, layout, cube, tally, cell or "as given", max_memory)
    said += [*table.notes, tally.words, *([words] if (words := merged(standing)) else [])]
    for words in said:
        tell(words, say)
    frames.attrs["notes"] = "; ".join(said)
    if standing:
        frames.attrs[KEY] = json.dumps(standing)
    if out is not None:
        save_frames(frames, out)
    return frames


def read_frames(readings: Readings, *, say: Say | None = None, **options: Any) -> xr.Dataset:
    """Take whatever holds readings as sparse frames: a table is put on a grid, frames stay as they are.

    Parameters
    ----------
    readings : path, sequence of paths, DataFrame or xarray object
        A table as for `check`; frames that `grid` wrote; or any xarray object on (time, y, x), NaN where nothing was
        read.
    say : callable, optional
        Is told in words what was assumed and what became of the rows. Default: the package's log.
    **options
        Of `grid`: cell, every, timezone, columns, places, dates, units, drop_above and the others.

    Returns
    -------
    xarray.Dataset
        Variables on (time, y, x), NaN where nothing was read.

    Raises
    ------
    SolidError
        If an option is given that frames, which were made with their own, would ignore; or as `grid` does.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"time": ["2024-01-01T00:10Z"], "lat": 22.5, "lon": 88.3, "pm": 7.0})
    >>> frames = read_frames(table, cell="0.01deg", every="1h")
    >>> read_frames(frames) is frames
    True
    """
    if "above" in options:
        warnings.warn("above= asks for a chance; to drop readings, give drop_above=", FutureWarning, stacklevel=2)
        options["drop_above"] = options.pop("above")
    frames = frames_already(readings)
    if frames is None:
        return grid(readings, say=say, **options)
    for name, value in options.items():
        if value is not None and name not in OF_FRAMES:
            what = readings if isinstance(readings, str | Path) else "these readings"
            raise SolidError(f"{what} are frames already, so '{name}' does nothing; leave it out or grid them anew")
    return frames


def frames_already(readings: Readings) -> xr.Dataset | None:
    """Readings that lie on a grid and need no reading; None for a table."""
    if isinstance(readings, xr.DataArray) and _is_gridded(readings):
        return readings.to_dataset(name=readings.name or "value")
    if isinstance(readings, xr.Dataset) and _is_gridded(readings):
        return readings
    one = _one(readings)
    if isinstance(one, str | Path) and Path(one).suffix in (".nc", ".zarr"):
        try:
            return open_frames(one)
        except SolidError:
            return None  # any other file, of which the table reader makes what it can
    return None


def _one(readings: Readings) -> Any:
    """A single file, however it was given."""
    return readings[0] if isinstance(readings, list | tuple) and len(readings) == 1 else readings


def tell(words: str, say: Say | None) -> None:
    """Say it to whoever listens, else to the log."""
    (say or logging.getLogger("solidfield").info)(words)


def suggest(table: Table, cell: str | None, every: str | None) -> tuple[str, str, str]:  # cell, every, why
    """The doctor's grid for what was not given."""
    chosen = diagnose(table).chosen
    if chosen is None:
        raise SolidError(f"{table.name} has too few readings to suggest a grid; give --cell and --every")
    cell, every = cell or chosen.cell, every or chosen.every
    return cell, every, f"cells of {cell} every {every}, as the readings suggest (`solid check` tells more)"


def _is_gridded(data: xr.Dataset | xr.DataArray) -> bool:
    return "time" in data.dims and len(data.dims) >= 3
