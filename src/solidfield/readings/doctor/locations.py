"""Where readings were taken: places far from all others, slips of coordinates, the box and lattice of the rest.

Along either axis most places lie in a shortest interval, where a place weighs as the root of its number of readings:
neither a handful of slips nor one busy sensor rules it. A place is far if it lies beyond that of nineteen twentieths by
more than three times its length, or alone beyond that of four fifths by ten times: of five stations one may be wrong.
It is a slip if exchanging its coordinates, or turning a sign, brings it from afar to about that of four fifths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...grid import Grid
from ..no_readings import says_where
from .findings import Finding, Scene

MOST, MOST_LENGTHS = 0.95, 3.0  # share of the places, and lengths of their interval beyond which others are far
CORE, CORE_LENGTHS = 0.8, 10.0  # the same of a single place
FEWEST = 5  # places, below which none is far
SMALLEST, NARROWEST = 100.0, 0.1  # sizes of a place, share of the other axis: no interval is taken to be shorter
FROM, TO = 3.0, 2.0  # lengths of the core beyond which a swapped place lies, and within which it belongs
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
    swapped: np.ndarray  # (P,) bool, of those far
    turned: np.ndarray  # (P,) bool, the same, with a wrong sign

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
    core = Around.most(at_y, at_x, count, size, CORE)
    swapped, turned = slips(at_y, at_x, core)
    far = far_from_all(at_y, at_x, count, size) | swapped | turned
    return Places(at_y, at_x, count, of, far, swapped, turned)


@dataclass(frozen=True)
class Around:
    """The shortest intervals that hold a share of the places, along both axes; None of too few places."""

    ends: tuple[tuple[float, float], tuple[float, float]]  # low and high along y and x
    lengths: tuple[float, float]

    @classmethod
    def most(cls, y: np.ndarray, x: np.ndarray, count: np.ndarray, size: float, share: float) -> Around | None:
        if len(y) < FEWEST:
            return None
        in_y, in_x = (_shortest(axis, np.sqrt(count), share) for axis in (y, x))
        lengths = in_y[1] - in_y[0], in_x[1] - in_x[0]
        least = max(SMALLEST * size, NARROWEST * max(lengths))  # stations may stand in a line
        return cls((in_y, in_x), (max(lengths[0], least), max(lengths[1], least)))

    def lengths_away(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:  # (P,), (P,) -> (P,)
        """How many of its lengths a place lies beyond it, along the axis where these are more."""
        away = [
            np.maximum(low - axis, axis - high) / length
            for axis, (low, high), length in zip((y, x), self.ends, self.lengths, strict=True)
        ]
        return np.maximum(*away)


def far_from_all(y: np.ndarray, x: np.ndarray, count: np.ndarray, size: float) -> np.ndarray:  # (P,) -> (P,) bool
    """Places that no other is near; `size` is that of a place.

    >>> far_from_all(np.array([50.1, 50.3, 8.0, 50.2, 50.0]), np.full(5, 8.0), np.ones(5), 1e-3).tolist()
    [False, False, True, False, False]
    """
    most, core = (Around.most(y, x, count, size, share) for share in (MOST, CORE))
    if most is None or core is None:
        return np.zeros(len(y), bool)
    far = most.lengths_away(y, x) > MOST_LENGTHS
    alone = core.lengths_away(y, x) > CORE_LENGTHS
    return far | alone if alone.sum() <= max(1, (1 - MOST) * len(y)) else far  # more of them are another town


def slips(y: np.ndarray, x: np.ndarray, core: Around | None) -> tuple[np.ndarray, np.ndarray]:  # (P,) bool each
    """Places far from the core that exchanging their coordinates, or turning a sign, brings to it."""
    if core is None:
        return np.zeros(len(y), bool), np.zeros(len(y), bool)
    away = core.lengths_away(y, x)
    swapped = (away > FROM) & (core.lengths_away(x, y) < TO)
    turned = np.logical_or.reduce([core.lengths_away(*other) < TO for other in ((y, -x), (-y, x), (-y, -x))])
    return swapped, (away > CORE_LENGTHS) & turned & ~swapped  # near Greenwich a sign changes little


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

    zero = (np.abs(y) < 1e-6) & (np.abs(x) < 1e-6)  # told apart, over all rows, by the doctor
    rest = places.far & ~places.swapped & ~places.turned & ~zero
    found = []
    for what, which, slip, mend in (
        (
            "swapped",
            places.swapped,
            "have latitude and longitude swapped, it seems",
            "exchange the two columns of those rows",
        ),
        ("sign", places.turned, "have a wrong sign in a coordinate, it seems", "turn the sign in those rows"),
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
