"""Sparse frames: (time, lat, lon) with NaN where nothing was read; in memory, and on disk as NetCDF or Zarr.

The time axis is regular, frames without a reading included, except that gaps longer than a day are left out.

The pooled standard deviation of a cell's mean, obs_std = sqrt(mean(spread^2 / count)) over cells with at least two
readings, says how far to trust one: it is what a model of noisy readings takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..disk import check_ending, open_dataset, save_dataset
from ..errors import SolidError
from ..grid import axis_attributes, flags
from .accumulate import Cube, check_memory
from .layout import Layout
from .records import FORMAT, Refused
from .table import Table

DAY = 86_400 * 10**9  # ns: a longer gap is left out of the time axis
LONG = {
    "": "mean of the readings of {} in the cell",
    "_count": "number of readings of {} in the cell",
    "_spread": "standard deviation of the readings of {} within the cell",
    "_error": "standard deviation of the mean of {} by the readings' own errors",
}


@dataclass
class Tally:
    """What became of the rows."""

    read: int = 0
    refused: int = 0
    outside: int = 0
    outliers: int = 0
    first: Refused | None = None

    @property
    def words(self) -> str:
        first = f" (the first in {self.first.words})" if self.first else ""
        return (
            f"{self.read:,} rows read, {self.refused:,} refused{first}, {self.outside:,} outside, "
            f"{self.outliers:,} dropped"
        )


def to_frames(
    table: Table,
    chosen: Sequence[int],
    layout: Layout,
    cube: Cube,
    tally: Tally,
    cell: str,  # in the user's words
    max_memory: float,  # GiB
) -> xr.Dataset:
    """The finished sums as a dataset of means, counts and spreads with all that is known of them."""
    grid, clock = layout.grid, layout.clock
    axis = _regular(cube, clock.every, max_memory)
    where = np.searchsorted(axis, cube.frames)
    y, x = grid.axes
    data: dict[str, Any] = {}
    obs_std = []

    def full(values: np.ndarray, empty: float, dtype: type) -> np.ndarray:  # (T, H, W)
        if len(axis) == len(where):
            return values
        whole = np.full((len(axis), *values.shape[1:]), empty, dtype)
        whole[where] = values
        return whole

    for v, column in enumerate(chosen):
        name, units = table.variables[column], table.units[column]
        several = cube.count[:, v] > 1
        squares = cube.spread[:, v][several].astype(np.float64) ** 2 / cube.count[:, v][several]
        if several.any():
            obs_std.append(float(np.sqrt(squares.mean())))
        parts = {"": (cube.mean, np.nan, np.float32), "_count": (cube.count, 0, np.int32)}
        parts["_spread"] = (cube.spread, np.nan, np.float32)
        if cube.error is not None:
            parts["_error"] = (cube.error, np.nan, np.float32)
        for suffix, (values, empty, dtype) in parts.items():
            about_it = {"long_name": LONG[suffix].format(name)} | ({} if suffix == "_count" else {"units": units})
            data[name + suffix] = (("time", y, x), full(values[:, v], empty, dtype), about_it)
        if several.any():
            data[name][2]["obs_std"] = obs_std[-1]
    if grid.domain is not None:
        data["domain"] = ((y, x), np.asarray(grid.domain), flags("cells that count", "left_out", "counts"))
    at_y, at_x = np.round(grid.y, 10), np.round(grid.x, 10)  # 22.46, not 22.460000000000001
    about_y, about_x = axis_attributes(grid)
    about_time = {
        "standard_name": "time",
        "long_name": f"{'middle' if clock.anchor == 'round' else 'begin'} of a frame",
    }
    stamps = ("time", clock.stamps(axis), about_time)
    coordinates = {"time": stamps, y: (y, at_y, about_y), x: (x, at_x, about_x)}
    attributes: dict[str, Any] = {
        "Conventions": "CF-1.8",
        "title": f"{', '.join(table.variables[v] for v in chosen)} as read, on cells and time steps",
        "history": f"gridded by solidfield {version('solidfield')}",
        "format": FORMAT,
        "cell": cell,
        "every": clock.words,
        "timezone": "UTC",
        **clock.as_dict(),
        "cell_size": list(grid.spacing),
        "origin": list(grid.origin),
        "bounds": list(grid.bounds),
        "variables": " ".join(table.variables[v] for v in chosen),
        "source": "; ".join(Path(name).name for name in table.files),
        "notes": "; ".join(table.notes),
        "rows_read": tally.read,
        "rows_refused": tally.refused,
        "rows_outside": tally.outside,
        "rows_outliers": tally.outliers,
        "solidfield_version": version("solidfield"),
    }
    if len(obs_std) == len(chosen):  # unknown where no cell was ever read twice
        attributes["obs_std"] = obs_std[0] if len(obs_std) == 1 else obs_std
    return xr.Dataset(data, coordinates, attributes)


def _regular(cube: Cube, every: int, max_memory: float) -> np.ndarray:
    """Every frame from the first to the last, but for gaps longer than a day (or than one step, if that is longer)."""
    frames, gap = cube.frames, np.diff(cube.frames)
    step = np.where(gap <= max(1, DAY // every), gap, 1)
    variables, height, width = cube.mean.shape[1:]
    check_memory(int(step.sum()) + 1, variables, (height, width), max_memory)
    pieces = [np.arange(f, f + g) for f, g in zip(frames[:-1], step, strict=True)]
    return np.concatenate([*pieces, frames[-1:]])


def save_frames(frames: xr.Dataset, path: Path | str) -> None:
    """Write whole or not at all; frames written before are replaced, anything else is not."""
    path = Path(path)
    check_ending(path)
    if path.exists() and not _are_frames(path):
        raise SolidError(f"{path} exists and holds no frames; choose another name or remove it")
    save_dataset(frames, path, packed=True)


def open_frames(path: Path | str) -> xr.Dataset:
    """Frames written by `save_frames`; values are read from the file when they are used."""
    path = Path(path)
    if not path.exists():
        raise SolidError(f"there are no frames at {path}; `solid grid` makes them")
    frames = open_dataset(path, "grid the readings again")
    if frames.attrs.get("format") != FORMAT:
        raise SolidError(f"{path} holds no frames of solidfield; `solid grid` makes them from readings")
    return frames


def _are_frames(path: Path) -> bool:
    try:
        with open_frames(path):
            return True
    except SolidError:
        return False
