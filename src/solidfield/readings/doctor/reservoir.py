"""What the doctor keeps of a stream of rows: all of them while they are few, whole days of whole sensors beyond.

Duplicates, gaps, stuck values and coverage can be judged only on unbroken stretches of time, so rows are not drawn one
by one. Each row has a key, (hash of its day, hash of its sensor), and the rows with the smallest keys are kept, as
many as the memory set aside holds:

    limit = the smallest key k with more rows of keys <= k than fit,       kept = all rows with a key below it.

The limit only ever falls as rows arrive, and ends at a value that depends on the rows alone: neither the size of
chunks nor, up to the order of equal rows, that of files matters. A day cut in part by the limit is left out in the
end, unless it is the only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from ..records import Rows

NUMBERS = 2**24  # 8-byte numbers held: 128 MiB, 2 million rows of one variable
DAY = 86_400 * 10**9  # nanoseconds
METRE = 1e-5  # degrees: readings closer than this are at one place
SMALL = 1e-5  # of the extent of places
NAMES = 100_000  # sensors whose names are remembered


@dataclass(frozen=True)
class Kept:
    """Rows in the order (sensor, time, content, file, row)."""

    who: np.ndarray  # (n,) uint64: the sensor, or the place where sensors have no name
    time: np.ndarray  # (n,) int64, nanoseconds since 1970 UTC
    y: np.ndarray  # (n,)
    x: np.ndarray  # (n,)
    values: np.ndarray  # (n, V), NaN = not read
    content: np.ndarray  # (n,) uint64, hash of values and place
    file: np.ndarray  # (n,) int32
    row: np.ndarray  # (n,) int64
    share: float  # of all rows

    def __len__(self) -> int:
        return len(self.who)

    def __getitem__(self, chosen: np.ndarray) -> Kept:
        return _kept({name: getattr(self, name)[chosen] for name in COLUMNS}, self.share)


COLUMNS = ("who", "time", "y", "x", "values", "content", "file", "row")


def _kept(columns: dict[str, Any], share: float) -> Kept:
    return Kept(**columns, share=share)


def place_of(y: np.ndarray, x: np.ndarray, size: float) -> np.ndarray:  # (n,) uint64
    """A number for each place; coordinates that differ by less than the size of a place are one."""
    row, column = (np.round(axis / size).astype(np.int64).astype(np.uint64) for axis in (y, x))
    return mixed(mixed(row) + column)


def mixed(numbers: np.ndarray) -> np.ndarray:  # uint64 -> uint64
    """A one-to-one scramble of 64 bits, the same everywhere (xor-shifts and odd multipliers)."""
    h = np.asarray(numbers, np.uint64)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def size_of_places(y: np.ndarray, x: np.ndarray, geographic: bool) -> float:  # (n,) of the first rows
    """A metre; in other units than degrees, which may be kilometres or millimetres, a small part of their extent.

    >>> size_of_places(np.array([0.0, 1.0]), np.array([4.0, 4.0]), geographic=False)
    1e-05
    """
    if geographic or not len(y):
        return METRE
    span = max(float(np.ptp(y)), float(np.ptp(x)))
    return SMALL * span or SMALL**2 * max(float(np.abs(y).max()), float(np.abs(x).max())) or SMALL


class Keeper:
    """Takes rows chunk by chunk and keeps those of the smallest keys."""

    def __init__(self, numbers: int = NUMBERS, size: float = METRE, variables: int = 1):
        self.numbers, self.variables = numbers, variables
        self.size = size  # of a place, in the units of the coordinates
        self.names: dict[int, str] = {}
        self.parts: list[tuple[np.ndarray, ...]] = []  # key, then the columns of Kept
        self.held = 0
        self.seen = 0
        self.limit: int | None = None  # keys below it are kept

    def add(self, rows: Rows) -> None:
        self.seen += len(rows.row)
        who = self._who(rows)
        time = rows.time.astype("datetime64[ns]").astype(np.int64)
        day = mixed((time // DAY).astype(np.uint64)) >> np.uint64(32)
        key = (day << np.uint64(32)) | (mixed(who) >> np.uint64(32))
        chosen = slice(None) if self.limit is None else key < np.uint64(self.limit)
        values = np.asarray(rows.values, np.float64)
        columns = (key, who, time, rows.y, rows.x, values, rows.file, rows.row)
        self.parts.append(tuple(np.asarray(column)[chosen] for column in columns))
        self.held += len(self.parts[-1][0])
        if self.held > 2 * self._room():
            self._shrink()

    def _who(self, rows: Rows) -> np.ndarray:  # (n,) uint64
        if rows.sensor is None:
            return place_of(rows.y, rows.x, self.size)
        codes, names = pd.factorize(rows.sensor, use_na_sentinel=False)
        hashes = pd.util.hash_array(np.array([str(name) for name in names], dtype=object), categorize=False)
        for h, name in zip(hashes.tolist(), names, strict=True):
            if h in self.names or len(self.names) < NAMES:
                self.names.setdefault(h, str(name))
        return hashes[codes]

    def _room(self) -> int:
        variables = self.parts[0][5].shape[1] if self.parts else 1
        return max(1, self.numbers // (7 + variables))

    def _shrink(self) -> None:
        columns = [np.concatenate(column) for column in zip(*self.parts, strict=True)]
        key, room = columns[0], self._room()
        if len(key) > room:
            limit = np.partition(key, room)[room]
            chosen = np.flatnonzero(key < limit)
            if len(chosen) == 0:  # one sensor fills the memory within one day: its first rows
                chosen = np.flatnonzero(key == limit)[:room]
            columns = [column[chosen] for column in columns]
            self.limit = int(limit)
        self.parts, self.held = [tuple(columns)], len(columns[0])

    def result(self) -> Kept:
        if not self.parts:
            none = np.zeros(0, np.int64)
            return Kept(
                none, none, none.astype(float), none.astype(float), np.zeros((0, self.variables)), none, none, none, 1.0
            )
        self._shrink()
        key, who, time, y, x, values, file, row = self.parts[0]
        if self.limit is not None:
            whole = key >> np.uint64(32) < np.uint64(self.limit >> 32)
            if whole.any():
                who, time, y, x, values, file, row = (c[whole] for c in (who, time, y, x, values, file, row))
        content = place_of(y, x, self.size)
        for column in values.T:
            bits = np.where(np.isnan(column), np.nan, column + 0.0)  # one NaN, one zero
            content = mixed(content + np.ascontiguousarray(bits).view(np.uint64))
        order = np.lexsort((row, file, content, time, who))
        columns = zip(COLUMNS, (who, time, y, x, values, content, file, row), strict=True)
        return _kept({name: column[order] for name, column in columns}, len(order) / max(1, self.seen))
