"""Where a gridded field lies: its axes by their usual names, upright (ascending along both), on the cells of a grid."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..clock import YEARS, to_ns
from ..errors import SolidError
from ..grid import Grid, closed

Y_NAMES = ("lat", "latitude", "y", "northing")
X_NAMES = ("lon", "longitude", "long", "x", "easting")


def axes_of(field: xr.DataArray | xr.Dataset) -> tuple[str, str]:
    """The names of the y and x axes."""
    found = []
    for what, names in (("y", Y_NAMES), ("x", X_NAMES)):
        here = [str(name) for name in field.dims if str(name).lower() in names]
        if len(here) != 1:
            raise SolidError(
                f"a gridded field needs one {what} axis called {', '.join(names)}; it has {tuple(map(str, field.dims))}"
            )
        found.append(here[0])
    return found[0], found[1]


def upright(field: xr.DataArray) -> xr.DataArray:
    """Axes ascending and last, in the order (..., y, x); whatever is written from north to south is turned."""
    y, x = axes_of(field)
    field = field.transpose(..., y, x)
    for axis in (y, x):
        if axis in field.coords:
            field = field.sortby(axis)
    return field


def units_of(field: xr.DataArray) -> str:
    """What its values are counted in; CF's "1" says that there is nothing to say.

    >>> units_of(xr.DataArray(0.0, attrs={"units": "1"})), units_of(xr.DataArray(0.0, attrs={"units": "K"}))
    ('', 'K')
    """
    units = str(field.attrs.get("units", ""))
    return "" if units == "1" else units


def frame_times(field: xr.DataArray) -> np.ndarray:  # (T,) datetime64[ns]
    """The instants of the frames; numbers, other calendars and years that cannot be counted are errors."""
    times = np.asarray(field["time"].values)
    if times.dtype.kind != "M":
        raise SolidError(f"the times of frames must be instants (datetime64), and are {times.dtype}; convert them")
    counted = to_ns(times)
    if np.isnat(counted).any():
        first = int(np.isnat(counted).argmax())
        why = "has no time" if np.isnat(times[first]) else f"is of {times[first]}, {YEARS}"
        raise SolidError(f"frame {first} {why}; leave it out")
    return counted


def real(values: np.ndarray, what: str) -> np.ndarray:
    """As float32, NaN where masked; anything but real numbers, and numbers beyond float32, are errors."""
    if values.dtype.kind not in "biuf":
        raise SolidError(f"{what} must be real numbers, and are {values.dtype}; convert them first")
    with np.errstate(over="ignore"):
        plain = np.ma.filled(np.ma.asarray(values, dtype=np.float32), np.nan)
    if np.isinf(plain).any():
        raise SolidError(f"{what} hold an infinite value, or one beyond 3e38; a cell that was not observed is NaN")
    return plain


def grid_of(field: xr.DataArray, domain: np.ndarray | None = None) -> Grid:
    """The grid of an upright field; without coordinates its cells are counted."""
    y, x = axes_of(field)
    spacing, origin = [], []
    for axis in (y, x):
        places = field[axis].values.astype(np.float64)  # 0, 1, 2 ... where there is no coordinate
        steps = np.diff(places)
        if len(steps) and (steps.min() <= 0 or np.ptp(steps) > 0.01 * steps.mean()):
            raise SolidError(f"the axis '{axis}' is not evenly spaced; put the field on a regular grid first")
        step = (places[-1] - places[0]) / len(steps) if len(steps) else 1.0
        spacing.append(float(step))
        origin.append(float(places[0]))
    degrees = y.lower() in ("lat", "latitude")
    found = Grid(
        shape=(field.sizes[y], field.sizes[x]),
        spacing=(spacing[0], spacing[1]),
        origin=(origin[0], origin[1]),
        axes=("lat", "lon") if degrees else ("y", "x"),
        units="degrees" if degrees else str(field[y].attrs.get("units", "")),
        domain=domain,
    )
    return closed(found)


def on_grid(field: xr.DataArray, grid: Grid) -> np.ndarray:  # (..., H, W) float32
    """A field on the cells of a grid: linear between its points, its edge value up to one of its steps beyond."""
    field = upright(field)
    y, x = axes_of(field)
    if y not in field.coords and x not in field.coords:
        if field.shape[-2:] != grid.shape:
            raise SolidError(
                f"the field '{field.name}' has shape {field.shape[-2:]} and no coordinates; give it as {grid.shape}"
            )
        return field.values.astype(np.float32)
    places = {}
    for axis, cells in ((y, grid.y), (x, grid.x)):
        known = field[axis].values.astype(np.float64)
        step = np.diff(known).max() if len(known) > 1 else np.inf
        if cells[0] < known[0] - step or cells[-1] > known[-1] + step:
            raise SolidError(
                f"the field '{field.name}' covers {axis} {known[0]:g} to {known[-1]:g}, the grid "
                f"{cells[0]:g} to {cells[-1]:g}; give one that covers it"
            )
        places[axis] = np.clip(cells, known[0], known[-1])
    single = {axis: 0 for axis in (y, x) if field.sizes[axis] == 1}
    if single:
        field = field.isel(single, drop=True).expand_dims({axis: len(places[axis]) for axis in single})
        places = {axis: values for axis, values in places.items() if axis not in single}
    return field.interp(places).transpose(..., y, x).values.astype(np.float32)
