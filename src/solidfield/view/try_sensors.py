"""Readings that are only imagined: what would a sensor here, reading this, change?

The frame that the maps start from gets the imagined values in the cells they lie in, and the run draws again with the
same seed, so that what differs between the two ensembles is the readings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import xarray as xr

from ..errors import SolidError
from ..readings.axes import axes_of
from .sensors import cell_of

MOST = 20  # imagined sensors at once

Draw: TypeAlias = Callable[[xr.Dataset], xr.Dataset]  # frames of readings -> maps


def with_readings(
    frames: xr.Dataset,
    variable: str,
    time: np.datetime64,
    imagined: Sequence[dict[str, float]],  # each y, x and value
) -> xr.Dataset:
    """A copy of the frames with imagined readings at a time; one in a cell that was read takes the reading's place."""
    if not 0 < len(imagined) <= MOST:
        raise SolidError(f"{len(imagined)} imagined sensors; give 1 to {MOST}")
    rows = np.flatnonzero(frames["time"].values == time)
    if variable not in frames or not len(rows):
        raise SolidError(f"there is no frame of {variable} at this start; choose another")
    y, x = axes_of(frames)
    field = frames[variable].transpose("time", y, x).copy(deep=True)
    for one in imagined:
        if not all(np.isfinite(one[name]) for name in ("y", "x", "value")):
            raise SolidError("an imagined sensor needs a place and a value")
        field.values[(rows[0], *cell_of(frames, one["y"], one["x"]))] = one["value"]
    return frames.assign({variable: field})


def change(before: np.ndarray, after: np.ndarray, cell: tuple[int, int]) -> dict[str, list[float]]:  # (H, W) spreads
    """How wide the map was and is: in the cell of a sensor, and over all cells."""
    known = np.isfinite(before) & np.isfinite(after)
    return {
        "there": [float(before[cell]), float(after[cell])],
        "all": [float(before[known].mean()), float(after[known].mean())],
    }
