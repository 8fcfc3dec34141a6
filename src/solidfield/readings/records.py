"""What passes between the readers and everything after them: columns, rows, refusals, and raw batches.

A source (one file, or one object in memory) hands out raw batches: named columns as it found them, and line numbers.
`rows.to_rows` turns a batch into `Rows` that are sound and a list of `Refused` that says what was not, and why.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..disk import atomic, refuse_existing

FORMAT = "solidfield-frames"  # what frames say of themselves


@dataclass(frozen=True)
class Columns:
    """Which column is what; None = not there. A time of two columns is written "date+time"."""

    time: str
    y: str
    x: str
    values: tuple[str, ...]
    sensor: str | None = None
    errors: tuple[str | None, ...] = ()  # (V,) the column of each variable's errors; empty: none has one
    degrees: bool = False  # did the user call y and x lat and lon? Else names and attributes tell

    def used(self) -> tuple[str, ...]:
        """Every column that is read, as it is named in the file."""
        names = (*self.time.split("+"), self.y, self.x, *self.values, self.sensor, *self.errors)
        return tuple(dict.fromkeys(name for name in names if name is not None))


NO_ROLES = Columns("\0", "", "", ())  # where every column is asked for by its name


@dataclass(frozen=True)
class Rows:
    """n rows that could be read."""

    file: np.ndarray  # (n,) int32 position in Table.files
    row: np.ndarray  # (n,) int64 line number in its file, the header is line 1
    time: np.ndarray  # (n,) datetime64[ns], UTC
    y: np.ndarray  # (n,) float64 latitude in degrees, or a projected coordinate
    x: np.ndarray  # (n,) float64 longitude in -180 .. 180, or a projected coordinate
    values: np.ndarray  # (n, V) float64, NaN = this variable was not read in this row
    sensor: np.ndarray | None  # (n,) str objects
    error: np.ndarray | None  # (n, V) float64 standard deviations of the readings' errors, NaN = not given

    def __len__(self) -> int:
        return len(self.row)

    def where(self, keep: np.ndarray) -> Rows:
        """The rows of a mask or of positions."""
        sensor = None if self.sensor is None else self.sensor[keep]
        error = None if self.error is None else self.error[keep]
        file, row, time, y, x = (part[keep] for part in (self.file, self.row, self.time, self.y, self.x))
        return Rows(file, row, time, y, x, self.values[keep], sensor, error)


NONE = np.zeros(0)
NO_ROWS = Rows(
    file=NONE.astype(np.int32),
    row=NONE.astype(np.int64),
    time=NONE.astype("M8[ns]"),
    y=NONE,
    x=NONE,
    values=NONE[:, None],
    sensor=None,
    error=None,
)


@dataclass(frozen=True)
class Refused:
    """One field that could not be used: where it stands, what it says, why it was refused."""

    file: str
    row: int
    column: str
    text: str
    reason: str

    @property
    def words(self) -> str:
        return f"line {self.row}, column '{self.column}' ('{self.text}': {self.reason})"


@contextmanager
def refusal_file(path: Path | None) -> Iterator[Callable[[Refused], None]]:
    """A CSV file of refusals that appears when the pass is over; without a path, nothing."""
    if path is None:
        yield lambda one: None
        return
    refuse_existing(path)
    with atomic(path) as part, open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(Refused)])
        writer.writeheader()
        yield lambda one: writer.writerow(asdict(one))


@dataclass(frozen=True)
class Header:
    """What a source says of one of its columns."""

    name: str
    numeric: bool  # most of its first fields are numbers
    units: str = ""
    standard_name: str = ""
    text: str = ""  # of a column of no numbers: the first of its fields


@dataclass(frozen=True)
class Batch:
    """Some rows of a source, column by column, as found."""

    row: np.ndarray  # (n,) int64
    data: Mapping[str, Any]  # name -> (n,) array or Series: numbers, text, datetimes
    faults: list[tuple[int, str, str, str]] = field(default_factory=list)  # row, column, text, reason of whole lines
    decimal: str = "."


class Source(Protocol):
    """One file or object that hands out batches."""

    name: str
    headers: tuple[Header, ...]
    notes: list[str]
    fraction: float  # how much of it has been read, for progress

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        """All rows in order, at most `rows` at a time, with the columns in use, or only some of them."""
