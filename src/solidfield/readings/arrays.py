"""NetCDF, Zarr and xarray objects: grids in time with NaN where nothing was read, stations in time, or long tables.

A grid, and an array of stations, is streamed by slabs of time; each of its cells that holds a number is a row, and the
row's number is the position of the cell in (time, y, x) order, counted as if a header were line 1. NaN cells were not
observed and are no rows. A regular grid is the source's `lattice`, and a regular time step its `every`, so that
gridding can keep them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..disk import open_dataset
from ..engine import memory
from ..errors import SolidError
from ..grid import Grid
from .columns import by_name, find_columns, geographic
from .names import LATITUDES, LONGITUDES, TIMES, plain
from .records import FORMAT, Batch, Columns, Header


class ArraySource:
    """A Dataset of gridded variables (time, y, x), of those of stations (time, station), or of columns along one."""

    def __init__(self, data: xr.Dataset | xr.DataArray, name: str = "Dataset"):
        if isinstance(data, xr.DataArray):
            data = data.to_dataset(name=data.name or "value")
        self.name = name
        self.notes: list[str] = []
        self.fraction = 0.0
        own: list[Any] = list(data.data_vars)
        if data.attrs.get("format") == FORMAT and "variables" in data.attrs:
            own = str(data.attrs["variables"]).split()
        self.data = data.drop_vars([name for name in data.data_vars if name not in own])  # counts, spreads, domain
        self.data = self.data.squeeze([d for d, n in self.data.sizes.items() if n == 1 and d not in self.data.coords])
        if 0 in self.data.sizes.values():
            raise SolidError(
                f"{name} has no readings: dimension {min(self.data.sizes, key=lambda d: self.data.sizes[d])} is empty"
            )
        timeless = self._timeless()
        self.headers = tuple(
            Header(
                str(key),
                variable.dtype.kind in "iuf" and key not in timeless,
                str(variable.attrs.get("units", "")),
                str(variable.attrs.get("standard_name", "")),
            )
            for key, variable in self.data.variables.items()
        )
        self.along: tuple[str, ...] = ()  # (time, y, x) of a gridded array, (time, station) of stations
        self.dims: tuple[str, ...] | None = None  # the same, of a gridded array alone
        self.lattice: Grid | None = None  # of even axes
        self.every: int | None = None  # ns between frames, where that is always the same
        times = by_name(self.headers, TIMES, "time")
        if len(self.data.sizes) == 2 and times and not self._says_where():  # a table of places may say it
            self.along = tuple(
                sorted(map(str, self.data.sizes), key=lambda dim: dim not in self.data[times[0].name].dims)
            )
        elif len(self.data.sizes) > 1:
            columns = find_columns(self.headers, None, name)
            self.along = self._dims(columns)
            if len(self.along) > 2:
                self.dims = self.along
                self.lattice, self.every = self._lattice(columns)

    @classmethod
    def open(cls, path: Path) -> ArraySource:
        return cls(open_dataset(path, "copy it again"), str(path))

    def _timeless(self) -> list[str]:
        """Variables of numbers that never change beside others that have a time: masks, heights, map projections."""
        data = self.data.data_vars
        moving = {str(name) for name in data if any(plain(str(dim)) in TIMES for dim in data[name].dims)}
        still = [str(name) for name in data if name not in moving and data[name].dtype.kind in "iuf"]
        found = [name for name in still if moving and plain(name) not in (*LATITUDES, *LONGITUDES)]
        if found:
            self.notes.append(
                f"{', '.join(found)}: no time, so no readings; --columns value=NAME reads them all the same"
            )
        return found

    def _says_where(self) -> bool:
        return all(by_name(self.headers, names, role) for names, role in ((LATITUDES, "y"), (LONGITUDES, "x")))

    def _dims(self, columns: Columns) -> tuple[str, ...]:
        """The dimensions (time, y, x) of a gridded array; (time, station), where both coordinates are a station's."""
        place = dict.fromkeys((*self.data[columns.y].dims, *self.data[columns.x].dims))
        time = [d for d in self.data[columns.time].dims if d not in place]
        if len(place) == 2 and not time and self.data[columns.time].ndim == 0:
            self.data = self.data.expand_dims(columns.time)
            time = [columns.time]
        if len(place) not in (1, 2) or len(time) != 1:
            raise SolidError(
                f"{self.name} is neither a grid (time, y, x), nor stations (time, station) with coordinates of their "
                f"own, nor a table along one dimension: its dimensions are "
                f"{', '.join(f'{d} ({n})' for d, n in self.data.sizes.items())}; select one"
            )
        extra = [d for d in self.data.sizes if d not in (time[0], *place)]
        single = [d for d in extra if self.data.sizes[d] == 1]
        if single:
            self.notes.append(f"all readings are at {', '.join(f'{d} {self.data[d].values[0]}' for d in single)}")
            self.data = self.data.squeeze(single, drop=True)
            self.headers = tuple(header for header in self.headers if header.name not in single)
            extra = [d for d in extra if d not in single]
        if extra:
            raise SolidError(f"{self.name} also has dimension '{extra[0]}'; select one position along it first")
        return str(time[0]), *map(str, place)

    def _lattice(self, columns: Columns) -> tuple[Grid | None, int | None]:
        axes = [np.sort(np.asarray(self.data[name].values, dtype=float).ravel()) for name in (columns.y, columns.x)]
        if any(self.data[name].ndim != 1 for name in (columns.y, columns.x)):
            return None, None
        steps = [np.diff(axis) for axis in axes]
        if any(len(step) == 0 or np.ptp(step) > 1e-3 * abs(step.mean()) for step in steps):
            return None, None
        times = np.sort(np.asarray(self.data[columns.time].values))
        gaps = np.unique(np.diff(times)) if times.dtype.kind == "M" and len(times) > 1 else np.array([])
        dy, dx = (float((axis[-1] - axis[0]) / (len(axis) - 1)) for axis in axes)
        grid = Grid(
            shape=(len(axes[0]), len(axes[1])),
            spacing=(dy, dx),
            origin=(float(axes[0][0]), float(axes[1][0])),
            axes=("lat", "lon") if geographic(columns, self.headers) else ("y", "x"),
        )
        return grid, int(gaps[0].astype("timedelta64[ns]").astype(np.int64)) if len(gaps) == 1 else None

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = list(only or columns.used())
        try:
            yield from self._slabs(columns, names, rows) if self.along else self._long(names, rows)
        except (OSError, RuntimeError) as error:
            text = " ".join(str(error).split())[:120]
            raise SolidError(f"{self.name} is damaged or cut short ({text}); copy it again") from None

    def _long(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        (dim, total), *_ = [*self.data.sizes.items(), ("", 1)]
        for start in range(0, total, rows):
            part = self.data.isel({dim: slice(start, start + rows)}) if dim else self.data
            n = min(rows, total - start)
            data = {name: _column(np.broadcast_to(part[name].values, (n,))) for name in names}
            self.fraction = start / total
            yield Batch(np.arange(start + 2, start + 2 + n), data)

    def _slabs(self, columns: Columns, names: Sequence[str], rows: int) -> Iterator[Batch]:
        time, *place = self.along
        frames, cells = self.data.sizes[time], math.prod(self.data.sizes[dim] for dim in place)
        step = max(1, rows // cells)
        if 16 * cells * len(names) > memory():
            raise SolidError(f"a frame of {self.name} has {cells:,} cells, more than this machine can hold; cut it")
        readings = [name for name in names if name in columns.values]
        for start in range(0, frames, step):
            part = self.data[list(dict.fromkeys(names))]
            slab = part.isel({time: slice(start, start + step)}, missing_dims="ignore").load()
            shape = {time: min(step, frames - start)} | {dim: self.data.sizes[dim] for dim in place}
            flat = {name: _spread(slab[name], shape) for name in names}
            seen = np.zeros(shape[time] * cells, bool)
            for name in readings:
                seen |= ~pd.isna(flat[name])
            where = np.flatnonzero(seen) if readings else np.arange(len(seen))
            self.fraction = start / frames
            for first in range(0, len(where), rows):
                here = where[first : first + rows]
                yield Batch(here + start * cells + 2, {name: _column(flat[name][here]) for name in names})


def _spread(variable: xr.DataArray, shape: dict[str, int]) -> np.ndarray:
    """The variable at every cell of the slab, flat in the order of its shape."""
    missing = {dim: n for dim, n in shape.items() if dim not in variable.dims}
    return variable.drop_vars(list(variable.coords)).expand_dims(missing).transpose(*shape).values.ravel()


def _column(values: np.ndarray) -> Any:
    return pd.Series(values) if values.dtype.kind in "OUT" else values
