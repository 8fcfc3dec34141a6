"""Sparse frames: readings on a grid over time, NaN where nothing was read, and what is known of them.

Whatever the user gives becomes one `Frames`: axes named and turned, variables chosen, errors of readings beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from ..clock import Clock, span, to_seconds
from ..engine import memory
from ..errors import SolidError
from ..grid import Grid
from ..readings.axes import axes_of, frame_times, grid_of, real, units_of, upright
from ..readings.names import is_taken
from ..readings.records import FORMAT
from ..readings.size import refuse_wild, usual_size
from ..readings.stations import Station, of_attributes

NEAR, SHARE = 0.5, 0.1  # seconds, and steps, from a time within which a frame is of that time
PARTS = ("_count", "_spread", "_std", "_error")  # what a gridded variable may carry beside itself


@dataclass(frozen=True)
class Frames:
    """What the user gave, in one form."""

    values: np.ndarray  # (T, C, H, W) float32, NaN = not observed
    times: np.ndarray  # (T,) datetime64[ns], UTC, ascending
    grid: Grid
    variables: tuple[str, ...]
    units: tuple[str, ...]
    every: float  # seconds from a frame to the next, gaps apart
    errors: np.ndarray | None = None  # (T, C, H, W) float32 standard deviations of the readings' errors, where told
    repeats: float = 0.0  # the error that repeated readings of a cell and frame show, where none is told
    timezone: str = "UTC"
    anchor: str = "floor"  # how readings fell into frames, see `clock.py`
    stations: tuple[Station, ...] = ()  # who stands where, as far as it is known

    @property
    def clock(self) -> Clock:
        """For new readings, which fall into frames as these did."""
        every = round(self.every * 1e9)
        return Clock(every, int(self.times[0].astype(np.int64) % every), self.anchor)

    @property
    def seconds(self) -> np.ndarray:  # (T,)
        return to_seconds(self.times)

    @property
    def obs_std(self) -> float:
        """One error for all readings, for models that take one: the root mean square of those told, else `repeats`."""
        if self.errors is None:
            return self.repeats
        return float(np.sqrt(np.mean(self.errors[np.isfinite(self.values)].astype(np.float64) ** 2)))

    def until(self, last: int) -> Frames:
        """The frames up to this row."""
        errors = None if self.errors is None else self.errors[: last + 1]
        return replace(self, values=self.values[: last + 1], times=self.times[: last + 1], errors=errors)

    def rows_at(self, seconds: np.ndarray) -> np.ndarray:  # (N,) which frame is of each time, -1 where none is
        near = min(NEAR, SHARE * self.every)  # seconds since 1970 are known to a part of a microsecond
        rows = np.searchsorted(self.seconds, seconds - near).clip(max=len(self.seconds) - 1)
        return np.where(np.abs(self.seconds[rows] - seconds) <= near, rows, -1)


def as_frames(
    data: xr.Dataset | xr.DataArray,
    variables: Sequence[str] | None = None,  # None: all that lie on (time, y, x)
    every: str | float | None = None,  # None: as the attributes say, else the most common step
) -> Frames:
    """Read what an xarray object says of itself; axes may have any usual name and run either way."""
    dataset = data.to_dataset(name=data.name or "value") if isinstance(data, xr.DataArray) else data
    if "time" not in dataset.dims:
        raise SolidError(f"frames need an axis 'time'; these have {tuple(map(str, dataset.dims))}")
    names = list(variables) if variables is not None else _variables(dataset)
    for name in names:
        if name not in dataset:
            raise SolidError(f"no variable '{name}' in the frames; they hold {', '.join(map(str, dataset.data_vars))}")
        if is_taken(name, names):
            raise SolidError(f"maps hold something else under the name '{name}'; give this variable another one")
    fields = [upright(dataset[name].transpose("time", ...)).sortby("time") for name in names]
    domain = upright(dataset["domain"]).values.astype(bool) if "domain" in dataset else None
    need = 12 * sum(field.size for field in fields)  # as they are read, as they are kept, and what is made of them
    if need > memory():
        raise SolidError(f"the frames need {need / 2**30:,.0f} GiB, more than this machine has; cut them in time")
    values = np.stack([real(field.values, "the frames") for field in fields], axis=1)
    if domain is not None:
        values = np.where(domain, values, np.float32(np.nan))
    refuse_wild(values, names, [usual_size(values[:, c]) for c in range(len(names))], "the usual reading")
    times = frame_times(fields[0])
    if len(np.unique(times)) < len(times):
        raise SolidError("two frames have the same time; average or drop one of them")
    attributes = dataset.attrs
    return Frames(
        values=values,
        times=times,
        grid=grid_of(fields[0], domain),
        variables=tuple(names),
        units=tuple(units_of(dataset[name]) for name in names),
        every=span(every) if every else _step(attributes, times),
        errors=_errors(dataset, names, values),
        repeats=float(np.sqrt(np.mean(_repeats(dataset, names) ** 2))),
        timezone=str(attributes.get("timezone") or "UTC"),
        anchor=str(attributes.get("anchor", "floor")),
        stations=of_attributes(attributes),
    )


def _repeats(dataset: xr.Dataset, names: Sequence[str]) -> np.ndarray:  # (C,)
    usual = np.broadcast_to(np.nan_to_num(np.asarray(dataset.attrs.get("obs_std", 0.0), float)), len(names))
    return np.array([float(dataset[name].attrs.get("obs_std", one)) for name, one in zip(names, usual, strict=True)])


def _errors(dataset: xr.Dataset, names: Sequence[str], values: np.ndarray) -> np.ndarray | None:  # (T, C, H, W)
    """Of each variable its `_error` beside it; of one without, while another has some, what repeated readings say."""
    if not any(f"{name}_error" in dataset and f"{name}_error" not in names for name in names):
        return None
    errors = np.empty_like(values)
    for c, (name, pooled) in enumerate(zip(names, _repeats(dataset, names), strict=True)):
        errors[:, c] = pooled
        if f"{name}_error" in dataset and f"{name}_error" not in names:
            own = upright(dataset[f"{name}_error"].transpose("time", ...)).sortby("time")
            told = real(own.values, f"the errors of {name}")
            if (told < 0).any():
                raise SolidError(f"an error of {name} is below zero; a standard deviation is not")
            others = float(np.nanmedian(told)) if np.isfinite(told).any() else pooled
            errors[:, c] = np.where(np.isnan(told), others, told)
    return errors if (errors > 0).any() else None


def _variables(dataset: xr.Dataset) -> list[str]:
    axes = {"time", *axes_of(dataset)}
    names = [str(name) for name, field in dataset.data_vars.items() if set(field.dims) == axes]
    if dataset.attrs.get("format") == FORMAT and "variables" in dataset.attrs:
        names = [name for name in names if name in str(dataset.attrs["variables"]).split()]
    found = [name for name in names if not any(name == other + part for other in names for part in PARTS)]
    if not found:
        more = [f"'{dim}'" for dim in dataset.sizes if dim not in axes]
        beside = f" (they also have {', '.join(more)}: select one position along it)" if more else ""
        raise SolidError(f"the frames hold no variable on (time, y, x){beside}; name one, or grid the readings first")
    return found


def _step(attributes: Mapping[Any, Any], times: np.ndarray) -> float:  # seconds
    """As the frames say, else the most common step."""
    if "every_ns" in attributes:
        return int(attributes["every_ns"]) / 1e9
    if "every" in attributes:
        return span(attributes["every"])
    if len(times) < 2:
        raise SolidError("a single frame has no time step; give more frames, or `every` in their attributes")
    steps, counts = np.unique(np.diff(times).astype("timedelta64[ns]").astype(np.int64), return_counts=True)
    return float(steps[counts.argmax()]) / 1e9
