"""A record: readings stored once, sparse, frame by frame, on one clock.

    offsets (T + 1,)   readings of frame t are offsets[t] : offsets[t + 1]
    cells   (R,)       flat index into (C, H, W), ascending within a frame
    values  (R,)       float32, physical units
    errors  (R,)       standard deviation of each reading's error, physical units; 0 where a reading is exact

Frames are the ticks of the clock from the first reading to the last, so that a difference of positions is a time:
an hour without any reading is a frame without readings. Every frame has a split (train, validation, test) and a
stretch; frames of different stretches (trajectories of a simulation, months of a protocol) never see each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from ..errors import SolidError
from ..grid import Grid, lengths, points
from ..keys import evenly
from .usual import Usual, usual

SPLITS = ("train", "validation", "test")
PLACES, ENOUGH = 64, 1024  # of a large network a question knows so many places at least, and about so many readings
WINDOW = 37  # frames that those are counted over
MOST = 4_000_000  # readings that say what is usual at places
FRAMES = 200  # by which it is told how far sensors of one frame are from one another,
MOVING = 2.0  # ... and that they move, if it is so many times as far as places that were ever read


@dataclass(frozen=True)
class Record:
    """Readings of one grid and one clock; see the head of this file for the arrays."""

    grid: Grid
    variables: tuple[str, ...]  # (C,)
    offsets: np.ndarray  # (T + 1,) int64
    cells: np.ndarray  # (R,) int64
    values: np.ndarray  # (R,) float32
    split: np.ndarray  # (T,) int8, positions in SPLITS
    stretch: np.ndarray  # (T,) int32
    errors: np.ndarray | None = None  # (R,) float32; None: every reading is exact
    calendar: np.ndarray | None = None  # (T, D) float32, known of every time: hour of day and the like
    static: np.ndarray | None = None  # (S, H, W) float32, standardised fields that stay
    start: float = 0.0  # time of the first frame: seconds since 1970, or a simulation's own
    step: float = 1.0  # time from frame to frame
    units: tuple[str, ...] = field(default=())  # (C,)
    aside: np.ndarray | None = None  # (H, W) bool: places that training never takes for unread

    def __post_init__(self) -> None:
        count = len(self.split)
        if len(self.offsets) != count + 1 or len(self.stretch) != count or self.offsets[-1] != len(self.cells):
            raise SolidError(f"{count} frames need {count + 1} offsets that end at the number of readings; check them")
        if len(self.cells) != len(self.values) or not np.isfinite(self.values).all():
            raise SolidError("a record holds one finite value per reading; leave out what was not observed")
        limit = len(self.variables) * self.grid.cells
        if len(self.cells) and (self.cells.min() < 0 or self.cells.max() >= limit):
            raise SolidError(f"a reading lies outside (variables, y, x) = {(len(self.variables), *self.grid.shape)}")

    @classmethod
    def of_frames(
        cls,
        frames: np.ndarray,  # (T, C, H, W), NaN = not read
        grid: Grid,
        variables: tuple[str, ...],
        split: np.ndarray,  # (T,)
        stretch: np.ndarray | None = None,  # (T,)
        errors: np.ndarray | None = None,  # (T, C, H, W)
        **others: object,
    ) -> Record:
        """The readings of dense arrays; what is NaN is not copied."""
        rows, cells = np.nonzero(np.isfinite(frames.reshape(len(frames), -1)))
        flat = frames.reshape(len(frames), -1)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(frames)))])
        return cls(
            grid,
            variables,
            offsets.astype(np.int64),
            cells.astype(np.int64),
            flat[rows, cells].astype(np.float32),
            np.asarray(split, np.int8),
            np.zeros(len(frames), np.int32) if stretch is None else np.asarray(stretch, np.int32),
            None if errors is None else errors.reshape(len(frames), -1)[rows, cells].astype(np.float32),
            **others,  # type: ignore[arg-type]
        )

    @cached_property
    def gap_frames(self) -> tuple[np.ndarray, np.ndarray]:  # (n,), (P + 1,)
        """The frames of the gaps, place after place, and where each place's begin."""
        place, frame = np.nonzero(self.gaps.T)
        return frame, np.searchsorted(place, np.arange(len(self.places) + 1))

    @cached_property
    def by_place(
        self,
    ) -> tuple[np.ndarray, np.ndarray]:  # (R,) positions, (R,) place * T + frame, ascending
        """The readings place by place, in the order of time."""
        key = self.place * len(self) + self.frames
        order = np.argsort(key, kind="stable")
        return order, key[order]

    def around(self, cell: np.ndarray) -> np.ndarray | None:  # (B,) flat cells -> (B, Q) places
        """The places nearest to each cell: as many as have enough readings of a window; None: all places have a say."""
        return None if len(self.places) <= self._enough else self._nearest(cell, self._enough)

    def around_all(self, cells: np.ndarray) -> np.ndarray | None:  # (B,) flat cells that lie together -> (Q,) places
        """The places that any of some cells may be told by: those nearest to their middle, and half as many of each."""
        if len(self.places) <= self._enough:
            return None
        at, width = cells % self.grid.cells, self.grid.shape[1]
        middle = np.array([int(np.mean(at // width)) * width + int(np.mean(at % width))])
        each = self._nearest(cells, self._enough // 2)
        return np.unique(np.concatenate([each.ravel(), self._nearest(middle, self._enough).ravel()]))

    @property
    def _enough(self) -> int:
        per_place = WINDOW * len(self.cells) / max(len(self) * len(self.places), 1)
        return max(PLACES, math.ceil(ENOUGH / max(per_place, 1e-9)))

    def _nearest(self, cell: np.ndarray, count: int) -> np.ndarray:  # (B,) -> (B, count) places
        at, width = cell % self.grid.cells, self.grid.shape[1]
        return self._tree.query(points(self.grid, at // width, at % width), k=count)[1]

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self._points)

    @cached_property
    def own_errors(self) -> np.ndarray:  # (R,) zeros where readings are exact
        return np.zeros_like(self.values) if self.errors is None else self.errors

    def __len__(self) -> int:  # frames
        return len(self.split)

    @cached_property
    def frames(self) -> np.ndarray:  # (R,) the frame of each reading
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def places(self) -> np.ndarray:  # (P,) cells of the grid that were ever read, ascending
        return np.unique(self.cells % self.grid.cells)

    @cached_property
    def place(self) -> np.ndarray:  # (R,) position of each reading in `places`
        return np.searchsorted(self.places, self.cells % self.grid.cells)

    @cached_property
    def place_aside(self) -> np.ndarray:  # (P,) bool
        return np.zeros(len(self.places), bool) if self.aside is None else self.aside.ravel()[self.places]

    @cached_property
    def usual(self) -> Usual:
        """What is usual at its places, by the readings that may train."""
        rows = self.of_split("train")
        every = -(-len(rows) // MOST)  # of many readings some frames say enough
        rows = rows[self.frames[rows] % max(every, 1) == 0]
        read = self.values[rows], self.cells[rows], self.frames[rows]
        return usual(*read, len(self), len(self.variables), self.grid.cells)

    @cached_property
    def clearance(self) -> float:
        """How far sensors that move are from one another, in the unit of `lengths`; 0 where they stand.

        A place that such a sensor passed has its readings of the hours before and after right beside it, as a cell of
        a map has not: taken for unread it must be asked about without them, too.
        """
        train = np.flatnonzero((self.split == 0) & (np.diff(self.offsets) > 1))
        frames = train if len(train) else np.flatnonzero(np.diff(self.offsets) > 1)
        apart = [
            self._apart(np.unique(self.place[self.offsets[t] : self.offsets[t + 1]])) for t in evenly(frames, FRAMES)
        ]
        at_once, ever = np.concatenate([np.zeros(0), *apart]), self._apart(np.arange(len(self.places)))
        if not len(at_once):
            return 0.0
        far = float(np.median(at_once))
        return far if far > MOVING * float(np.median(ever)) else 0.0

    def _apart(self, place: np.ndarray) -> np.ndarray:  # (n,) places -> (n,), none where there is but one
        """How far each is from the nearest other."""
        if len(place) < 2:
            return np.zeros(0)
        return cKDTree(self._points[place]).query(self._points[place], k=2)[0][:, 1]

    @cached_property
    def _points(self) -> np.ndarray:  # (P, 2 to 4)
        return points(self.grid, self.places // self.grid.shape[1], self.places % self.grid.shape[1])

    def beside(self, cell: np.ndarray, place: np.ndarray, within: np.ndarray) -> np.ndarray:
        """Which places lie nearer to a cell than so far; (B,) cells, (B, n) places, (B,) -> (B, n) bool."""
        at, width = cell % self.grid.cells, self.grid.shape[1]
        here = points(self.grid, at // width, at % width)
        return np.linalg.norm(self._points[place] - here[:, None], axis=-1) < within[:, None]

    def block(self, cell: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
        """Which cells are kept away together: each by itself, of sensors that move all within their clearance."""
        width = self.grid.shape[1]
        rows, columns = (max(1, round(self.clearance / size)) for size in lengths(self.grid)[0])
        return cell // width // rows * width + cell % width // columns

    @cached_property
    def stations(self) -> np.ndarray:  # (P,) bool
        """Places that were read in half of the frames or more: what is missing there is a gap."""
        pairs = np.unique(self.frames * len(self.places) + self.place)
        return np.bincount(pairs % len(self.places), minlength=len(self.places)) >= len(self) / 2

    @cached_property
    def gaps(self) -> np.ndarray:  # (T, P) bool
        """Where and when a station was not read in a frame that may train."""
        gaps = np.zeros((len(self), len(self.places)), bool)
        gaps[np.ix_(self.split == 0, self.stations)] = True
        gaps[self.frames, self.place] = False
        return gaps

    def of_split(self, name: str) -> np.ndarray:  # (n,) positions of readings
        """The readings of the frames of a split."""
        if name not in SPLITS:
            raise SolidError(f"no split '{name}'; choose one of {', '.join(SPLITS)}")
        return np.flatnonzero(np.repeat(self.split == SPLITS.index(name), np.diff(self.offsets)))

    def with_values(self, values: np.ndarray) -> Record:  # (R,)
        return replace(self, values=values.astype(np.float32))

    def window(self, begin: int, end: int) -> Record:
        """The frames from `begin` to `end`, the latter left out; the first of them is frame 0 of the new record."""
        begin, end = max(begin, 0), min(end, len(self))
        rows = slice(self.offsets[begin], self.offsets[end])
        return replace(
            self,
            offsets=self.offsets[begin : end + 1] - self.offsets[begin],
            cells=self.cells[rows],
            values=self.values[rows],
            split=self.split[begin:end],
            stretch=self.stretch[begin:end],
            errors=None if self.errors is None else self.errors[rows],
            calendar=None if self.calendar is None else self.calendar[begin:end],
            start=self.start + self.step * begin,
        )

    def without(self, readings: np.ndarray) -> Record:  # (n,) positions
        """The record without some of its readings; its frames stay."""
        stays = np.ones(len(self.cells), bool)
        stays[readings] = False
        counts = np.bincount(self.frames[stays], minlength=len(self))
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            cells=self.cells[stays],
            values=self.values[stays],
            errors=None if self.errors is None else self.errors[stays],
        )
