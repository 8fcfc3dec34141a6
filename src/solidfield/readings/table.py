"""A table of readings: one or many files, or an object in memory, as a stream of sound rows in UTC and degrees.

    for rows, refused in open_table("readings.csv", timezone="+05:30").chunks():
        ...

Nothing is held but the chunk at hand, nothing is dropped without a `Refused`, and every assumption that was made on
the way (a time zone, a longitude convention, decimal commas) stands in `notes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..clock import zone
from ..engine import Progress
from ..errors import SolidError
from ..grid import Grid, nearest_turn
from .columns import geographic, left_out, words_of_errors, words_of_guesses
from .first_rows import like_degrees, refuse_levels, without_offset
from .names import ROLES, label, plain, split_units
from .no_readings import counts_rows, names_sensors
from .parts import CHUNK, SAMPLE, Part, read_head, settle_dates
from .place_table import Places, plain_places
from .records import NO_ROWS, Columns, Refused, Rows
from .rows import (
    ACROSS,
    EAST,
    MIXED,
    SWAPPED,
    WEST,
    meridian,
    refuse_beyond,
    refuse_no_fix,
    time_column,
    to_numbers,
    to_rows,
)
from .size import BEYOND, no_values, usual_size
from .sources import open_sources
from .times import SHEET, counted_since, find_format, of_a_sheet
from .variables import called_by_user, find_units, in_order, names_of_variables

__all__ = ["CHUNK", "Columns", "Refused", "Rows", "Table", "open_table"]

AWAY, SURE = 5.0, 50  # degrees from 0, 0, and readings elsewhere by which it is told


class Table:
    """Readings as a stream of rows; made by `open_table`."""

    def __init__(self, parts: Sequence[Part], variables: Sequence[str], units: Sequence[str], notes: Sequence[str]):
        self.parts = tuple(parts)
        self.files = tuple(part.source.name for part in parts)
        self.name = self.files[0] if len(parts) == 1 else f"{self.files[0]} and {len(parts) - 1} more"
        self.columns = parts[0].columns
        self.variables = tuple(variables)
        self.units = tuple(units)
        self.geographic = geographic(self.columns, parts[0].source.headers)
        alone = parts[0].source if len(parts) == 1 else None
        self.lattice: Grid | None = getattr(alone, "lattice", None)  # the cells of a gridded array
        self.every: int | None = getattr(alone, "every", None)  # ns: its time step
        self._notes = dict.fromkeys(notes)
        self._at = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Doubts in plain words; some appear only while the rows are read."""
        mixed = (MIXED,) if EAST in self._notes and WEST in self._notes and ACROSS not in self._notes else ()
        return (*(text for text in self._notes if text != WEST), *mixed)  # west alone is no doubt

    def tell(self, progress: Progress | None, rows: int) -> None:
        """So many rows have been read; how many there are nobody knows, but how much of the files."""
        if progress is not None:
            share = (self._at + self.parts[self._at].source.fraction) / len(self.parts)
            progress(f"{rows:,} rows", round(1000 * share), 1000)

    def chunks(self, rows: int = CHUNK, sensors: bool | str = True) -> Iterator[tuple[Rows, list[Refused]]]:
        """All rows in the order of the files, at most `rows` at a time, and what was refused among them.

        `sensors`: are names of sensors read, or which other column instead?
        """
        for found, refused, part in self._stream(rows, sensors):
            turned = self._turned(found)
            if self.elsewhere:
                turned, refused = refuse_no_fix(turned, refused, part.columns, part.source.name)
            about = (part.columns, part.source.name, self.limits, self.nothing, self.note)
            yield refuse_beyond(turned, refused, *about)

    def _stream(self, rows: int, sensors: bool | str) -> Iterator[tuple[Rows, list[Refused], Part]]:
        for position, part in enumerate(self.parts):
            self._at = position
            columns = part.columns if sensors is True else replace(part.columns, sensor=sensors or None)
            for batch in part.source.batches(columns, rows):
                name = part.source.name
                yield *to_rows(batch, columns, part.form, self.geographic, position, name, self.note), part

    @cached_property
    def limits(self) -> np.ndarray:  # (V,) no reading is larger; infinite where the first rows do not tell
        sizes = [usual_size(column) for column in self.sample.values.T]
        return np.array([BEYOND * size or np.inf for size in sizes])

    @cached_property
    def elsewhere(self) -> bool:
        """Do the first places on the globe leave 0, 0 out? Then that is where a receiver without a fix says it is."""
        y, x = self.sample.y, self.sample.x
        told = (y != 0) | (x != 0)
        if not self.geographic or self.lattice is not None or told.sum() < SURE:
            return False
        return not all(axis[told].min() - AWAY < 0 < axis[told].max() + AWAY for axis in (y, x))

    @cached_property
    def nothing(self) -> list[np.ndarray]:
        """Numbers that stand for no value, of each variable."""
        return [no_values(column) for column in self.sample.values.T]

    @cached_property
    def sample(self) -> Rows:
        """The first rows, of the first file that has any."""
        return self._turned(self._first)

    @cached_property
    def _first(self) -> Rows:
        for position, part in enumerate(self.parts):
            if part.head is not None:
                name = part.source.name
                rows, _ = to_rows(part.head, part.columns, part.form, self.geographic, position, name, self.note)
                if len(rows):
                    return rows
        return next((rows for rows, _, _ in self._stream(SAMPLE, True) if len(rows)), NO_ROWS)

    @cached_property
    def meridian(self) -> float | None:
        """The middle of sensors near the dateline, around which longitudes go on beyond 180; arrays keep their own."""
        array = getattr(self.parts[0].source, "dims", None) is not None
        return meridian(self._first.x) if self.geographic and not array else None

    def _turned(self, rows: Rows) -> Rows:
        middle = self.meridian
        if middle is None or not len(rows):
            return rows
        turned = nearest_turn(rows.x, middle)
        close = (np.abs(turned - middle) < 90) & (turned != rows.x)  # what is far away keeps its own number
        if not close.any():
            return rows
        self.note(ACROSS)
        return replace(rows, x=np.where(close, turned, rows.x))

    def note(self, text: str) -> None:
        """Take down a doubt in plain words, once."""
        self._notes.setdefault(text)


def open_table(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    units: str | None = None,
    dates: str | None = None,
    name: str | None = None,
    places: Places | None = None,
) -> Table:
    """Readings from a path, a list of paths, a folder, a glob, a pandas DataFrame or an xarray object.

    `columns` names columns by role (time, y, x, value, sensor, parameter, error; several variables as "pm1+pm10"),
    `timezone` is that of times without an offset, `units` are those of the values (one, or one for each,
    comma-separated), `dates` is "dayfirst", "monthfirst", a pattern like "%d.%m.%Y %H:%M" or what numbers count
    ("hours since 1900-01-01"), `name` is what the variable is to be called, or "pm=PM2.5,t=temperature" where there are
    several, `places` is a table of where sensors stand.
    """
    form = find_format(timezone, dates)
    sources, notes = open_sources(source, columns, plain_places(places))
    parts = []
    for one, found in sources:
        says_utc = form.zone is None and _says_utc(found.time)
        own = replace(form, zone=zone("UTC")) if says_utc else form
        head = read_head(one, found)
        if dates is None and head is not None and of_a_sheet(time_column(head, found)):
            own = replace(own, since=counted_since(SHEET))
            notes.append(f"'{found.time}' counts {SHEET}, as spreadsheets do; if it does not, say it (--date-format)")
        parts.append(_without_numbers(Part(one, found, own, head), columns, notes))
        notes += one.notes
        notes += words_of_guesses(one.headers, found, columns)
        notes += left_out(one.headers, found) + words_of_errors(one.headers, found)
    variables = names_of_variables(parts[0].columns)
    for column, called in zip(parts[0].columns.values, variables, strict=True):
        if called != label(column):
            notes.append(f"column '{column}' is called {called}, for another thing has its name")
    parts = [in_order(part, variables, parts[0].source.name) for part in parts]
    parts = settle_dates(parts, notes)
    variables = called_by_user(variables, name, parts[0].source.name)
    table = Table(parts, variables, find_units(parts[0], units), notes)
    inspect(table)
    return table


def _without_numbers(part: Part, columns: Mapping[str, str] | None, notes: list[str]) -> Part:
    """The part without columns that count its rows or name its sensors, unless the user names its readings."""
    gridded = getattr(part.source, "dims", None) is not None
    if part.head is None or gridded or any(ROLES.get(role.lower()) == "values" for role in columns or {}):
        return part
    head, found, sensor = part.head, part.columns, part.columns.sensor
    place = (time_column(head, found), head.data[found.y], head.data[found.x])
    read = {name: to_numbers(head.data[name], head.decimal)[0] for name in found.values}
    numbers = [name for name, values in read.items() if counts_rows(values)]
    if sensor is None:
        sensor = next((name for name, values in read.items() if names_sensors(values, *place)), None)
    stays = [at for at, name in enumerate(found.values) if name not in (*numbers, sensor)]
    if len(stays) in (0, len(found.values)):
        return part
    if numbers:
        notes.append(f"{', '.join(numbers)}: numbers of rows, left out; --columns value=NAME reads them all the same")
    if sensor != found.sensor:
        notes.append(
            f"'{sensor}' tells apart what is read at one time, so it names the sensors (--columns sensor=NAME)"
        )
    errors = found.errors and tuple(found.errors[at] for at in stays)
    values = tuple(found.values[at] for at in stays)
    return replace(part, columns=replace(found, values=values, errors=errors, sensor=sensor))


def _says_utc(time: str) -> bool:
    """Is it in the name of the column?

    >>> [_says_utc(name) for name in ("time (UTC)", "Date GMT+Time GMT", "datetime_utc", "time", "Local time")]
    [True, True, True, False, False]
    """
    return split_units(time)[1].upper() in ("UTC", "GMT") or plain(time).endswith(("utc", "gmt"))


def inspect(table: Table) -> None:
    """What the first rows tell: an assumed time zone or unit is noted, a table with swapped coordinates refused."""
    y, x = table.sample.y, table.sample.x
    if not table.geographic and table.lattice is None and len(y) and like_degrees(y, x):
        table.note(
            f"'{table.columns.y}' and '{table.columns.x}' are taken for lengths; if they are degrees, say so: "
            f"--columns lat={table.columns.y},lon={table.columns.x}"
        )
    for part in table.parts:
        if part.head is None:
            continue
        rows, refused = to_rows(part.head, part.columns, part.form, table.geographic, 0, part.source.name, table.note)
        swapped = sum(entry.reason == SWAPPED for entry in refused)
        if swapped and 2 * swapped > len(part.head.row):
            raise SolidError(
                f"{part.source.name}: '{part.columns.y}' holds longitudes and '{part.columns.x}' latitudes; "
                f"swap them with --columns y={part.columns.x},x={part.columns.y}"
            )
        if table.lattice is None:
            refuse_levels(part, rows, table.note)
        if part.form.zone is None and len(rows) and not table.lattice and without_offset(part.head, part):
            table.note("times without an offset are taken as UTC; if they are local, name the zone (--timezone)")
