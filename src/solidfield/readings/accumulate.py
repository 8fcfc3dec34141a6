"""Means, spreads and counts per frame and cell from a stream of readings, whatever the chunks.

With r the first reading of a (frame, variable, cell), n its readings v_1 .. v_n in the order of the table:

    s = sum (v_i - r),   q = sum (v_i - r)^2,   mean = r + s / n,   spread^2 = (q - s^2 / n) / (n - 1)

The sums are carried from reading to reading, never from chunk to chunk, so their bits do not depend on the size of
chunks; the shift by r keeps the small spread of large numbers exact. Memory is that of frames x cells, not of rows.

Where every reading of a cell has an error e_i of its own, the mean is that of least variance, and says how sure it is:

    w_i = 1 / e_i^2,   mean = r + sum w_i (v_i - r) / sum w_i,   error^2 = 1 / sum w_i
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import SolidError

GIB = 1 << 30
BYTES = 4 + 3 * 8  # per cell of a frame: count, first, s, q
ONE = np.int32(1)  # of the type of the counts: adding a plain 1 takes NumPy fifty times as long
EXACT = 1e-12  # of the size of a reading: a smaller error is none


@dataclass(frozen=True)
class Cube:
    """The finished sums, frames in order of time."""

    frames: np.ndarray  # (F,) int64 index of each frame on its clock
    first_cell: tuple[int, int]  # position of the cube's corner in the grid's own count
    count: np.ndarray  # (F, V, H, W) int32
    mean: np.ndarray  # (F, V, H, W) float32, NaN = not observed
    spread: np.ndarray  # (F, V, H, W) float32, NaN below two readings
    error: (
        np.ndarray | None
    )  # (F, V, H, W) float32 standard deviation of the mean by the readings' own errors, NaN = unknown


def check_memory(frames: int, variables: int, shape: tuple[int, int], max_memory: float) -> None:
    """Refuse frames that cannot be held, before they are made."""
    need = frames * variables * shape[0] * shape[1] * BYTES / GIB
    if need > max_memory:
        raise SolidError(
            f"{frames:,} frames of {shape[0]:,} x {shape[1]:,} cells need {need:,.1f} GiB, more than {max_memory:g}; "
            "narrow the --bounds (one wrong coordinate can stretch them), or take larger cells or a longer --every"
        )


class Accumulator:
    """Sums per (frame, variable, cell) that grow with the frames, and with the cells where the grid has no shape."""

    def __init__(self, variables: int, shape: tuple[int, int] | None, errors: bool, max_memory: float):
        if not max_memory > 0:
            raise SolidError(f"max_memory is {max_memory:g} GiB, which holds nothing; give some, such as 4")
        self.variables = variables
        self.fixed = shape is not None
        self.corner = (0, 0)
        self.shape = shape or (0, 0)
        self.max_memory = max_memory
        self.slots: dict[int, int] = {}
        names = ("count", "first", "s", "q", *(("w", "d", "k") if errors else ()))
        self.sums = {name: self._empty(0, name) for name in names}

    def _empty(self, frames: int, name: str) -> np.ndarray:
        shape = (frames, self.variables, *self.shape)
        if name == "first":
            return np.full(shape, np.nan)  # there is none yet
        return np.zeros(shape, np.int32 if name in ("count", "k") else np.float64)

    def add(
        self,
        frame: np.ndarray,  # (n,) int64
        iy: np.ndarray,  # (n,) int64
        ix: np.ndarray,  # (n,) int64
        values: np.ndarray,  # (n, V), NaN = not read
        error: np.ndarray | None = None,  # (n, V), NaN = unknown
    ) -> None:
        """Take in readings, all of them inside the grid where it has a shape."""
        if len(frame) == 0:
            return
        self._reach(iy, ix)
        start = self._starts(frame)
        height, width = self.shape
        count, first, s, q = (self.sums[name].reshape(-1) for name in ("count", "first", "s", "q"))
        place = iy - self.corner[0]  # (n,) to become the position of each reading's cell in the sums, in place
        place *= width
        place += ix
        place += start
        for v in range(self.variables):
            value = values[:, v]
            whole = not np.isnan(value.min())  # mostly so, and seen without a mask
            read = slice(None) if whole else ~np.isnan(value)
            at = place if v == 0 else place + v * height * width
            at, value = at[read], value[read]
            shift = first.take(at)
            new = np.isnan(shift)
            if new.any():
                _write_first(first, at, value, new)
                first.take(at, out=shift, mode="clip")  # none is to be clipped: numpy would go through a copy otherwise
            shifted = np.subtract(value, shift, out=shift)
            np.add.at(count, at, ONE)
            np.add.at(s, at, shifted)
            np.add.at(q, at, shifted * shifted)
            if error is not None and "w" in self.sums:
                own = error[read, v]
                known = ~np.isnan(own)
                least = EXACT * np.maximum(np.abs(value[known]), 1e-30)
                weight = np.maximum(own[known], least) ** -2.0
                w, d, k = (self.sums[name].reshape(-1) for name in ("w", "d", "k"))
                np.add.at(w, at[known], weight)
                np.add.at(d, at[known], weight * shifted[known])
                np.add.at(k, at[known], ONE)

    def _starts(self, frame: np.ndarray) -> np.ndarray:  # (n,) -> (n,) int64
        """Where column 0 of the first row of each reading's frame stands in the sums, which get room for all frames."""
        turns = np.append(0, np.flatnonzero(frame[1:] != frame[:-1]) + 1)  # readings come in runs of one frame
        codes, distinct = _distinct(frame[turns])
        for one in distinct.tolist():
            self.slots.setdefault(one, len(self.slots))
        self._room(len(self.slots))
        slots = np.array([self.slots[one] for one in distinct.tolist()], dtype=np.int64)
        height, width = self.shape
        starts = slots * (self.variables * height * width) - self.corner[1]
        return np.repeat(starts.take(codes), np.diff(turns, append=len(frame)))

    def _reach(self, iy: np.ndarray, ix: np.ndarray) -> None:
        """Extend a grid without a shape to the cells at hand."""
        if self.fixed:
            return
        low, high = (int(iy.min()), int(ix.min())), (int(iy.max()) + 1, int(ix.max()) + 1)
        if 0 not in self.shape:
            low = (min(low[0], self.corner[0]), min(low[1], self.corner[1]))
            high = (max(high[0], self.corner[0] + self.shape[0]), max(high[1], self.corner[1] + self.shape[1]))
        shape = (high[0] - low[0], high[1] - low[1])
        if (low, shape) == (self.corner, self.shape):
            return
        old, corner, before = self.sums, self.corner, self.shape
        frames = len(old["count"])
        self.corner, self.shape = low, shape
        self._check(max(frames, 1))
        self.sums = {name: self._empty(frames, name) for name in old}
        rows = slice(corner[0] - low[0], corner[0] - low[0] + before[0])
        columns = slice(corner[1] - low[1], corner[1] - low[1] + before[1])
        for name, array in old.items():
            if frames and 0 not in before:
                self.sums[name][:, :, rows, columns] = array

    def _room(self, frames: int) -> None:
        """Capacity for so many frames, doubled when it runs out."""
        have = len(self.sums["count"])
        if frames <= have:
            return
        self._check(frames)
        for name, array in self.sums.items():
            larger = self._empty(max(frames, 2 * have, 16), name)
            larger[:have] = array
            self.sums[name] = larger

    def _check(self, frames: int) -> None:
        check_memory(frames, self.variables, self.shape, self.max_memory)

    def finish(self) -> Cube:
        """Close the sums; each is let go as soon as it is used, for they are as large as the result."""
        order = sorted(self.slots)
        rows = [self.slots[frame] for frame in order]

        def take(name: str) -> np.ndarray:
            array = self.sums.pop(name)
            return array[: len(rows)] if rows == list(range(len(rows))) else array[rows]

        n, mean, s, q = (take(name) for name in ("count", "first", "s", "q"))
        with np.errstate(invalid="ignore", divide="ignore"):
            average = s / n
            q -= average * s
            spread = np.sqrt(np.maximum(q, 0, out=q) / (n - 1), dtype=np.float32)
            error = None
            if "w" in self.sums:
                w, d = take("w"), take("d")
                all_known = take("k") == np.maximum(n, 1)
                error = np.where(all_known, w**-0.5, np.nan).astype(np.float32)
                average = np.where(all_known, d / w, average)
            mean += average
        mean[n == 0] = np.nan
        spread[n < 2] = np.nan
        return Cube(np.array(order, dtype=np.int64), self.corner, n, mean.astype(np.float32), spread, error)


def _write_first(first: np.ndarray, at: np.ndarray, value: np.ndarray, new: np.ndarray) -> None:
    """first (m,) where there is none yet: the first value (n,) of those that stand at (n,) it."""
    low, high = int(at.min()), int(at.max()) + 1
    if high - low > len(at):  # places far apart: of several values the last one written stays, so they go backwards
        first[at[new][::-1]] = value[new][::-1]
        return
    row = np.full(high - low, len(at))  # of the first value of each place: half the time of writing all backwards
    np.minimum.at(row, at - low, np.arange(len(at)))
    place = np.flatnonzero((row < len(at)) & np.isnan(first[low:high]))
    first[low + place] = value[row[place]]


def _distinct(frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n,) -> (n,) positions in (F,)
    """Which frames there are, and the position of each reading's among them."""
    low = int(frame.min())
    offset = frame - low
    if int(offset.max()) >= len(frame):
        return pd.factorize(frame)
    seen = np.bincount(offset) > 0  # frames near each other: counting is faster than searching
    return (np.cumsum(seen) - 1).take(offset), np.flatnonzero(seen) + low
