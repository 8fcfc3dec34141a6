"""Where readings were taken: places far from all others, swapped coordinates, the box and lattice of the rest.

A place is far if it lies beyond the 5 .. 95 % range of all places by more than three times that range, along either
axis. In that range a place weighs as the root of its number of readings: neither a handful of slips nor one busy
sensor rules it. A place is swapped if exchanging its coordinates brings it into the box of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..no_readings import says_where
from .findings import Finding, Scene

FAR = 3.0  # ranges beyond the range
REPEAT = 20  # readings that make a place a sensor
LINES = 2048  # coordinates along an axis beyond which nobody rounded them to a lattice
Box = tuple[float, float, float, float]  # south, west, north, east


@dataclass(frozen=True)
class Places:
    """The n kept rows by place."""

    y: np.ndarray  # (P,)
    x: np.ndarray  # (P,)
    count: np.ndarray  # (P,) readings
    of: np.ndarray  # (n,) the place of each row
    far: np.ndarray  # (P,) bool

    @property
    def box(self) -> Box:
        near = ~self.far
        y, x = self.y[near], self.x[near]
        return float(y.min()), float(x.min()), float(y.max()), float(x.max())

    @property
    def lattice(self) -> tuple[float, float] | None:
        """The spacing to which all coordinates are rounded, along (y, x); None where they are not."""
        spacing = [_spacing(axis[~self.far]) for axis in (self.y, self.x)]
        return None if spacing[0] is None or spacing[1] is None else (spacing[0], spacing[1])

    @property
    def repeated(self) -> bool:
        """Do most readings come from places that were read again and again?"""
        return bool(2 * self.count[self.count >= REPEAT].sum() > self.count.sum())


def places_of(y: np.ndarray, x: np.ndarray, size: float) -> Places:  # (n,), (n,)
    table = pd.DataFrame({"y": np.round(y / size).astype(np.int64), "x": np.round(x / size).astype(np.int64)})
    grouped = table.groupby(["y", "x"], sort=True)
    of = grouped.ngroup().to_numpy()
    first = np.unique(of, return_index=True)[1]
    at_y, at_x = y[first], x[first]
    count = np.bincount(of, minlength=len(first))
    far = np.zeros(len(first), bool)
    for axis in (at_y, at_x):
        if len(first) < 5:
            break
        low, high = _range(axis, np.sqrt(count))
        reach = FAR * max(high - low, 100 * size)
        far |= (axis < low - reach) | (axis > high + reach)
    return Places(at_y, at_x, count, of, far)


def _range(axis: np.ndarray, weight: np.ndarray) -> tuple[float, float]:  # (P,), (P,)
    """The 5 % and 95 % quantiles of weighted places."""
    order = np.argsort(axis)
    share = np.cumsum(weight[order]) / weight.sum()
    low, high = np.searchsorted(share, [0.05, 0.95])
    return float(axis[order[low]]), float(axis[order[min(high, len(axis) - 1)]])


def _spacing(axis: np.ndarray) -> float | None:  # (P,)
    """The common step of rounded coordinates: every distance between lines is a multiple of the smallest."""
    lines = np.unique(np.round(axis, 7))
    if not 3 <= len(lines) <= LINES:
        return None
    steps = np.diff(lines)
    smallest = float(steps.min())
    ratio = steps / smallest
    if np.abs(ratio - np.round(ratio)).max() > 0.02 or (lines[-1] - lines[0]) / smallest > LINES:
        return None
    return float(f"{(lines[-1] - lines[0]) / np.round((lines[-1] - lines[0]) / smallest):.6g}")


def numbers_of_places(scene: Scene, places: Places) -> list[Finding]:
    """Columns that are no readings: what they hold stays the same at every place."""
    found = []
    for v, name in enumerate(scene.variables):
        values = pd.Series(scene.kept.values[:, v]).groupby(places.of)
        low, high, count = (getattr(values, end)().to_numpy() for end in ("min", "max", "count"))
        if says_where(low[count > 0], high[count > 0], count[count > 0]):
            several = f"{(count > 1).sum():,} places"
            text = f"{name}: the same at each of {several} at all times, so a number or a property of it"
            remedy = "nothing, if another column is read: `solid grid` and `solid train` leave it out, and say so; "
            remedy += f"else name what to read (--columns value={name}), or the sensor (--columns sensor={name})"
            found.append(scene.finding("place-number", "doubt", text, np.flatnonzero(count[places.of] > 1), remedy))
    return found


def misplaced(scene: Scene, places: Places) -> list[Finding]:
    """Places that no other is near, and those whose coordinates seem to be swapped."""
    if not places.far.any():
        return []
    south, west, north, east = places.box
    inside = (places.x >= south) & (places.x <= north) & (places.y >= west) & (places.y <= east)
    zero = (np.abs(places.y) < 1e-6) & (np.abs(places.x) < 1e-6)  # told apart, over all rows, by the doctor
    found = []
    for what, which in (("swapped", places.far & inside), ("far", places.far & ~inside & ~zero)):
        if not which.any():
            continue
        rows = np.flatnonzero(which[places.of])
        p = int(np.flatnonzero(which)[0])
        near = f"the others lie within {south:g} .. {north:g}, {west:g} .. {east:g}"
        text = {
            "swapped": f"{len(rows):,} readings have latitude and longitude swapped, it seems ({places.y[p]:g}, "
            f"{places.x[p]:g}; {near})",
            "far": f"{len(rows):,} readings at {int(which.sum()):,} places lie far from all others ({places.y[p]:g}, "
            f"{places.x[p]:g}; {near})",
        }[what]
        remedy = f"`solid grid --bounds {south:g},{west:g},{north:g},{east:g}` leaves them out" + (
            "; or exchange the two columns of those rows" if what == "swapped" else ""
        )
        severity = "fault" if what == "swapped" else "doubt"
        found.append(Finding(what, severity, text, len(rows), scene.examples(rows), remedy))
    return found
