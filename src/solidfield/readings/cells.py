"""Where a reading falls: cells of a regular grid, and frames of a regular clock.

    cell (i, j) covers  [origin + (i - 1/2) step, origin + (i + 1/2) step)   along each axis
    frame k has the stamp t_k = phase + k every and covers
        [t_k, t_k + every)  ("floor")   or   [t_k - every / 2, t_k + every / 2)  ("round")

Cell centres lie on multiples of the cell size, so that coordinates already rounded to it are centres; where the first
readings lie halfway between multiples, so do the centres. With bounds the first cell begins at the south-western
corner. A cell given as a length is as high and wide as that at the mean latitude of the bounds (the cells are equal
in degrees, hence equal in area up to the change of cos(latitude) across the grid). Frames begin at full multiples of
`every` in UTC, unless the first readings all stand at the same quarter of an hour: hourly readings of a zone at +05:30
then keep their stamps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from ..errors import SolidError
from .arrays import Lattice

DEGREE = 111.19508  # km: a degree of latitude on a sphere of 6371.0088 km
EDGE = 1e-9  # of a cell: a coordinate this close below an edge was meant to lie on it
LENGTHS = {"m": 1.0, "km": 1000.0}
STEPS = {"s": 1, "sec": 1, "min": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
QUARTER = 900 * 10**9  # ns: offsets of time zones are multiples of it

Bounds = tuple[float, float, float, float]  # south, west, north, east


@dataclass(frozen=True)
class Cells:
    """A regular grid of cells; without a shape it reaches as far as the readings do."""

    step: tuple[float, float]  # along (y, x)
    origin: tuple[float, float]  # centre of cell (0, 0)
    shape: tuple[int, int] | None = None

    def index(self, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) int64 positions along (y, x), of any sign where the grid has no shape."""
        return tuple(  # type: ignore[return-value]
            np.floor((at - origin) / step + 0.5 + EDGE).astype(np.int64)
            for at, origin, step in zip((y, x), self.origin, self.step, strict=True)
        )

    def part(self, first: tuple[int, int], shape: tuple[int, int]) -> Cells:
        """The cells from `first` on."""
        (y, x), (dy, dx) = self.origin, self.step
        return replace(self, origin=(y + first[0] * dy, x + first[1] * dx), shape=shape)

    def axes(self) -> tuple[np.ndarray, np.ndarray]:  # (H,), (W,) centres
        assert self.shape is not None
        y, x = (o + s * np.arange(n) for o, s, n in zip(self.origin, self.step, self.shape, strict=True))
        return np.round(y, 10), np.round(x, 10)  # 22.46, not 22.460000000000001

    def bounds(self) -> Bounds:
        """The edges of the grid."""
        y, x = self.axes()
        dy, dx = self.step
        return tuple(round(float(e), 10) for e in (y[0] - dy / 2, x[0] - dx / 2, y[-1] + dy / 2, x[-1] + dx / 2))  # type: ignore[return-value]


def cell_steps(cell: str, geographic: bool, mean_latitude: float | None) -> tuple[float, float]:
    """The size of a cell along (y, x) in the units of the coordinates.

    >>> cell_steps("0.01deg", True, None)
    (0.01, 0.01)
    """
    number, unit = parse_cell(cell, geographic)
    if not geographic or unit not in LENGTHS:
        return number, number
    assert mean_latitude is not None
    high = number * LENGTHS[unit] / 1000 / DEGREE
    wide = high / max(
        np.cos(np.radians(mean_latitude)), 0.01
    )  # at the poles a cell is not wider than 100 of its height
    return float(high), float(wide)


def parse_cell(cell: str, geographic: bool) -> tuple[float, str]:
    found = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)\s*(deg|degrees?|°|km|m)?\s*", cell)
    units = "0.01deg, 1km or 500m" if geographic else "500m, 1km or a plain number of the coordinates' units"
    try:
        number, unit = (float(found[1]), found[2] or "") if found else (0.0, "")
    except ValueError:
        number, unit = 0.0, ""
    if number <= 0 or (geographic and not unit) or (not geographic and unit[:3] in ("deg", "°")):
        raise SolidError(f"cannot take '{cell}' for the size of a cell; give {units}")
    if not geographic:
        return number * LENGTHS.get(unit, 1.0), ""
    return number, unit if unit in LENGTHS else "deg"


def needs_extent(cell: str, geographic: bool) -> bool:
    """Does the size of a cell depend on where the readings are?"""
    return geographic and parse_cell(cell, geographic)[1] in LENGTHS


def plan_cells(
    cell: str,
    geographic: bool,
    bounds: Bounds | None,
    extent: Bounds | None,  # of the readings, where the cells depend on it
    sample: tuple[np.ndarray, np.ndarray],  # (n,) y and x of the first readings
) -> Cells:
    around = bounds or extent
    steps = cell_steps(cell, geographic, None if around is None else (around[0] + around[2]) / 2)
    if bounds is not None:
        south, west, north, east = bounds
        if not (south < north and west < east):
            raise SolidError(f"bounds {bounds} are empty; give south,west,north,east")
        shape = (_count(north - south, steps[0]), _count(east - west, steps[1]))
        return Cells(steps, (south + steps[0] / 2, west + steps[1] / 2), shape)
    origin = tuple(step / 2 if _halfway(at, step) else 0.0 for at, step in zip(sample, steps, strict=True))
    return Cells(steps, origin)  # type: ignore[arg-type]


def _count(length: float, step: float) -> int:
    return max(1, int(np.ceil(length / step - 1e-6)))


def _halfway(at: np.ndarray, step: float) -> bool:
    """Do all the coordinates lie halfway between multiples of the step?"""
    share = at / step - np.floor(at / step)
    return len(at) > 0 and bool((np.abs(share - 0.5) < 1e-6).all())


def lattice_cells(lattice: Lattice, cell: str | None, geographic: bool) -> Cells:
    """The cells of a gridded array, or coarser ones that begin at its first edge."""
    fine = tuple(float((axis[-1] - axis[0]) / (len(axis) - 1)) for axis in (lattice.y, lattice.x))
    if cell is None:
        return Cells(fine, (float(lattice.y[0]), float(lattice.x[0])), (len(lattice.y), len(lattice.x)))  # type: ignore[arg-type]
    middle = float(lattice.y.mean())
    step = cell_steps(cell, geographic, middle)
    origin = tuple(float(a[0]) - f / 2 + s / 2 for a, f, s in zip((lattice.y, lattice.x), fine, step, strict=True))
    shape = tuple(_count(len(a) * f, s) for a, f, s in zip((lattice.y, lattice.x), fine, step, strict=True))
    return Cells(step, origin, shape)  # type: ignore[arg-type]


def cells_like(frames: xr.Dataset) -> Cells:
    """The cells of frames made before, for new readings of the same place."""
    y, x = frames.sizes["lat" if "lat" in frames.dims else "y"], frames.sizes["lon" if "lon" in frames.dims else "x"]
    step, origin = np.atleast_1d(frames.attrs["cell_size"]), np.atleast_1d(frames.attrs["origin"])
    return Cells((float(step[0]), float(step[1])), (float(origin[0]), float(origin[1])), (int(y), int(x)))


@dataclass(frozen=True)
class Ticks:
    """The clock of the frames, in nanoseconds since 1970."""

    every: int
    phase: int = 0
    anchor: str = "floor"

    def index(self, time: np.ndarray) -> np.ndarray:  # (n,) int64
        shift = self.every // 2 if self.anchor == "round" else 0
        return (time.astype("datetime64[ns]").astype(np.int64) - self.phase + shift) // self.every

    def stamps(self, index: np.ndarray) -> np.ndarray:  # (F,) datetime64[ns]
        return (index.astype(np.int64) * self.every + self.phase).astype("datetime64[ns]")


def parse_every(every: str) -> int:
    """A time step in nanoseconds.

    >>> parse_every("30min") // 10**9
    1800
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)?\s*(s|sec|min|h|hour|d|day)s?\s*", every)
    step = round(float(found[1] or 1) * STEPS[found[2]] * 10**9) if found else 0
    if step <= 0:
        raise SolidError(f"cannot take '{every}' for a time step; give 30min, 1h, 1d")
    return step


def plan_ticks(every: int, anchor: str, sample: np.ndarray) -> Ticks:
    """Frames on multiples of the step, or where the first readings all stand."""
    if anchor not in ("floor", "round"):
        raise SolidError(f"no anchor '{anchor}'; give floor or round")
    phases = np.unique(sample.astype("datetime64[ns]").astype(np.int64) % every)
    common = len(phases) == 1 and phases[0] % QUARTER == 0
    return Ticks(every, int(phases[0]) if common else 0, anchor)
