"""Where readings were taken: places far from all others, slips of coordinates, the box and lattice of the rest.

A place is far if, along either axis, it lies beyond the shortest interval that holds nine tenths of all places by more
than three times its length, or beyond that of four fifths by more than ten times: of five stations one may be wrong.
There a place weighs as the root of its number of readings: neither a handful of slips nor one busy sensor rules it.
It is a slip if exchanging its coordinates, or turning a sign, brings it into the box of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...grid import Grid
from ..no_readings import says_where
from .findings import Finding, Scene

FAR = ((0.9, 3.0), (0.8, 10.0))  # share of all places, and lengths of the interval that holds it
FEWEST = 5  # places, below which none is far
SMALLEST, NARROWEST = 100.0, 0.1  # sizes of a place, share of the other axis: no interval is taken to be shorter
ABOUT = 4.0  # times the box of the others, within which a slip belongs
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
    far = far_from_all(at_y, at_x, count, size)
    return Places(at_y, at_x, count, of, far)


def far_from_all(y: np.ndarray, x: np.ndarray, count: np.ndarray, size: float) -> np.ndarray:  # (P,) -> (P,) bool
    """Places that no other is near; `size` is that of a place.

    >>> far_from_all(np.array([50.1, 50.3, 8.0, 50.2, 50.0]), np.full(5, 8.0), np.ones(5), 1e-3).tolist()
    [False, False, True, False, False]
    """
    far = np.zeros(len(y), bool)
    for share, lengths in FAR if len(y) >= FEWEST else ():
        ends = [_shortest(axis, np.sqrt(count), share) for axis in (y, x)]
        least = max(SMALLEST * size, NARROWEST * max(high - low for low, high in ends))  # stations may stand in a line
        for axis, (low, high) in zip((y, x), ends, strict=True):
            reach = lengths * max(high - low, least)
            far |= (axis < low - reach) | (axis > high + reach)
    return far


def words_of_far_cells(count: np.ndarray, grid: Grid) -> list[str]:  # (F, V, H, W) readings -> none or one text
    """Cells that stretch a map, in words: it is as large as the one that lies farthest away."""
    every = count.sum((0, 1))
    iy, ix = np.nonzero(every)
    y, x = grid.y[iy], grid.x[ix]
    far = far_from_all(y, x, every[iy, ix], min(grid.spacing) / SMALLEST)
    if not far.any():
        return []
    south, west, north, east = (end(axis[~far]) for end, axis in ((np.min, y), (np.min, x), (np.max, y), (np.max, x)))
    cells = f"{far.sum():,} of {len(far):,} cells that were read"
    return [
        f"{cells} lie far from all others (one at {y[far][0]:g}, {x[far][0]:g}; the others within {south:g} .. "
        f"{north:g}, {west:g} .. {east:g}), and the map reaches to them: `solid check` names their rows; --bounds "
        "leaves them out"
    ]


def _shortest(axis: np.ndarray, weight: np.ndarray, share: float) -> tuple[float, float]:  # (P,), (P,)
    """The shortest interval that holds this share of weighted places.

    >>> _shortest(np.array([3.0, -90.0, 1.0, 2.0, 4.0]), np.ones(5), 0.8)
    (1.0, 4.0)
    """
    order = np.argsort(axis)
    ends = np.cumsum(weight[order])
    starts = ends - weight[order]
    last = np.searchsorted(ends, starts + share * ends[-1] - 1e-9 * ends[-1])
    first = np.arange(len(axis))[last < len(axis)]
    length = axis[order[last[first]]] - axis[order[first]]
    best = int(np.argmin(length))
    return float(axis[order[first[best]]]), float(axis[order[last[first[best]]]])


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
            several, alone = f"{(count > 1).sum():,} places", len(scene.variables) == 1
            text = f"{name}: the same at each of {several} at all times, so a number or a property of it"
            remedy = "nothing, if another column is read: `solid grid` and `solid train` leave it out, and say so; "
            remedy += f"else name what to read (--columns value={name}), or the sensor (--columns sensor={name})"
            if alone:
                text = f"{name}: never changes at any of {several}, so there is nothing to learn"
                remedy = "nothing, if that is so (a dry season); if it is a number or a property of places, name what "
                remedy += "to read instead (--columns value=NAME)"
            found.append(scene.finding("place-number", "doubt", text, np.flatnonzero(count[places.of] > 1), remedy))
    return found


def misplaced(scene: Scene, places: Places) -> list[Finding]:
    """Places that no other is near, and those whose coordinates seem to have slipped."""
    if not places.far.any():
        return []
    south, west, north, east = places.box
    y, x = places.y, places.x

    def inside(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:  # or about: a station may be the outermost
        near = np.maximum(np.abs(2 * lat - south - north) / (north - south or 1.0),
                          np.abs(2 * lon - west - east) / (east - west or 1.0))  # fmt: skip
        return places.far & (near <= ABOUT)

    zero = (np.abs(y) < 1e-6) & (np.abs(x) < 1e-6)  # told apart, over all rows, by the doctor
    swapped = inside(x, y)
    turned = (inside(y, -x) | inside(-y, x) | inside(-y, -x)) & ~swapped
    rest = places.far & ~swapped & ~turned & ~zero
    found = []
    for what, which, slip, mend in (
        ("swapped", swapped, "have latitude and longitude swapped, it seems", "exchange the two columns of those rows"),
        ("sign", turned, "have a wrong sign in a coordinate, it seems", "turn the sign in those rows"),
        ("far", rest, "lie far from all others", ""),
    ):
        if not which.any():
            continue
        rows = np.flatnonzero(which[places.of])
        p = int(np.flatnonzero(which)[0])
        text = f"{len(rows):,} readings {_whose(scene, rows, int(which.sum()))} {slip} ({y[p]:g}, {x[p]:g}; the others "
        text += f"lie within {south:g} .. {north:g}, {west:g} .. {east:g})"
        remedy = f"`solid grid --bounds {south:g},{west:g},{north:g},{east:g}` leaves them out"
        severity = "fault" if slip and mend else "doubt"
        found.append(Finding(what, severity, text, len(rows), scene.examples(rows), remedy + (mend and f"; or {mend}")))
    return found


def _whose(scene: Scene, rows: np.ndarray, places: int) -> str:
    """Of which sensor these readings are; of several, at how many places."""
    if scene.identity == "sensor" and len(np.unique(scene.kept.who[rows])) == 1:
        return f"of sensor {scene.name_of(int(scene.kept.who[rows[0]]), int(rows[0]))}"
    return f"at {places:,} {'place' if places == 1 else 'places'}"
