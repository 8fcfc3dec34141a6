"""What was read, on the cells and times of the maps: the dots of the page, and the readings of its charts.

Readings of a table fall into the cells of the maps as they fall into those of a run; a sensor that has a name and
stays where it is keeps both, one that moves is shown by the cells it was read in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..clock import Clock
from ..errors import SolidError
from ..grid import Grid
from ..readings.axes import axes_of, grid_of
from ..readings.intake import Say, read_frames
from ..readings.layout import Layout
from ..readings.table import Rows, open_table

MOST = 2000  # named sensors that a page lists
HOUR = 3600 * 10**9  # ns


@dataclass(frozen=True)
class Sensors:
    """Sparse frames of readings on the cells of the maps, and the sensors that have names."""

    frames: xr.Dataset  # (time, y, x), NaN = not read
    places: pd.DataFrame  # name, y, x of sensors that stay

    def named(self) -> list[dict[str, Any]]:
        return self.places.to_dict("records")

    def units(self, variable: str) -> str:
        return str(self.frames[variable].attrs.get("units", "")) if variable in self.frames else ""

    def series(self, variable: str, row: int, column: int) -> dict[str, list[float]] | None:
        """Every reading of a cell: milliseconds since 1970, and values."""
        if variable not in self.frames:
            return None
        y, x = axes_of(self.frames)
        values = self.frames[variable].transpose("time", y, x).values[:, row, column]
        known = np.isfinite(values)
        times = self.frames["time"].values[known].astype("datetime64[ms]").astype(np.int64)
        return {"time": times.tolist(), "value": values[known].astype(float).tolist()}

    def frame(self, variable: str, time: np.datetime64) -> np.ndarray:  # (H, W) float32, NaN = not read
        """What was read at a time."""
        y, x = axes_of(self.frames)
        rows = np.flatnonzero(self.frames["time"].values == time)
        if variable not in self.frames or not len(rows):
            return np.full((self.frames.sizes[y], self.frames.sizes[x]), np.nan, np.float32)
        return np.asarray(self.frames[variable].isel(time=rows[0]).transpose(y, x).values, np.float32)


def sensors_of(maps: xr.Dataset, readings: Sequence[Path], say: Say | None = None, **options: Any) -> Sensors:
    """Read a table onto the cells and the clock of maps."""
    if not np.issubdtype(maps["init_time"].dtype, np.datetime64):
        raise SolidError("these maps have no dates, so no table of readings fits them; leave --readings out")
    y, x = axes_of(maps)
    variables = [str(name).removesuffix("_mean") for name in maps.data_vars if str(name).endswith("_mean")]
    domain = maps["domain"].transpose(y, x).values.astype(bool) if "domain" in maps else None
    grid = grid_of(maps[f"{variables[0]}_mean"].isel(init_time=0, lead_time=0), domain)
    layout = Layout(grid, _clock(maps))
    frames = read_frames(list(readings), like=layout, variables=variables, say=say, **options)
    return Sensors(frames, named_places(readings, grid, **options))


def _clock(maps: xr.Dataset) -> Clock:
    """The step between maps; an hour, where there is but one map of one time."""
    start = np.sort(maps["init_time"].values.astype("datetime64[ns]").astype(np.int64))
    lead = np.sort((maps["lead_time"].values / np.timedelta64(1, "ns")).astype(np.int64))
    steps = np.concatenate([np.diff(lead), lead, np.diff(start)])
    every = int(min(steps[steps > 0], default=HOUR))
    return Clock(every, int(start[0]) % every)


def named_places(readings: Sequence[Path], grid: Grid, **options: Any) -> pd.DataFrame:
    """The sensors of a table that have names and stay within a cell, where they are."""
    nothing = pd.DataFrame({"name": [], "y": [], "x": []})
    kept = {name: options.get(name) for name in ("columns", "timezone", "dates", "units", "name", "places")}
    source = readings[0] if len(readings) == 1 else list(readings)
    if Path(readings[0]).suffix in (".nc", ".zarr"):
        return nothing
    table = open_table(source, **kept)
    if table.columns.sensor is None:
        return nothing
    spans = pd.concat([_spans(rows) for rows, _ in table.chunks()]).groupby("name")
    low, high = spans[["south", "west"]].min(), spans[["north", "east"]].max()
    y0, x0, y1, x1 = low["south"], low["west"], high["north"], high["east"]
    stays = (y1 - y0 <= grid.spacing[0]) & (x1 - x0 <= grid.spacing[1])
    places = pd.DataFrame({"y": (y0 + y1) / 2, "x": grid.near((x0 + x1) / 2)})[stays]
    south, west, north, east = grid.bounds
    inside = places["y"].between(south, north) & places["x"].between(west, east)
    return places[inside].rename_axis("name").reset_index().head(MOST)


def _spans(rows: Rows) -> pd.DataFrame:
    """How far each named sensor reaches."""
    columns = {"name": rows.sensor, "south": rows.y, "north": rows.y, "west": rows.x, "east": rows.x}
    how = {"south": "min", "north": "max", "west": "min", "east": "max"}
    return pd.DataFrame(columns).dropna().groupby("name", as_index=False).agg(how)


def cell_of(field: xr.Dataset, y: float, x: float) -> tuple[int, int]:
    """Row and column of the cell that a place lies in, or is nearest to."""
    row, column = (
        int(np.abs(field[axis].values - at).argmin()) for axis, at in zip(axes_of(field), (y, x), strict=True)
    )
    return row, column
