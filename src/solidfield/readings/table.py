"""A table of readings: one or many files, or an object in memory, as a stream of sound rows in UTC and degrees.

    for rows, refused in open_table("readings.csv", timezone="+05:30").chunks():
        ...

Nothing is held but the chunk at hand, nothing is dropped without a `Refused`, and every assumption that was made on
the way (a time zone, a longitude convention, decimal commas) stands in `notes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..clock import zone
from ..engine import Progress
from ..errors import SolidError
from ..grid import Grid, nearest_turn
from .arrays import ArraySource
from .columnar import FrameSource, ParquetSource
from .columns import ROLES, find_columns, geographic, is_taken, label, left_out, plain, split_units, words_of_errors
from .csvfile import CsvSource
from .levels import NAMES as LEVELS
from .levels import levels_of, repeated, words_of_levels
from .no_readings import counts_rows
from .parameters import by_parameter
from .parts import CHUNK, SAMPLE, Part, read_head, settle_dates
from .place_table import Places, placed, plain_places
from .records import NO_ROWS, Batch, Columns, Header, Refused, Rows, Source
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
from .times import SHEET, counted_since, find_format, of_a_sheet, to_utc

__all__ = ["CHUNK", "Columns", "Refused", "Rows", "Table", "open_table"]

# A new kind of file: a class that is a `Source` (records.py), and its endings here.
OPENERS: dict[str, Callable[[Path], Source]] = {
    **dict.fromkeys((".csv", ".txt", ".tsv", ".dat", ".csv.gz", ".txt.gz", ".tsv.gz"), CsvSource),
    ".parquet": ParquetSource,
    **dict.fromkeys((".nc", ".nc4", ".cdf", ".zarr"), ArraySource.open),
}


AWAY, SURE = 5.0, 50  # degrees from 0, 0, and readings elsewhere by which it is told
NEARBY = 7.0  # coordinates up to here may well be metres of a laboratory, or a box of side 2 pi


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
        notes += left_out(one.headers, found) + words_of_errors(one.headers, found)
    variables = _variables(parts[0].columns)
    for column, called in zip(parts[0].columns.values, variables, strict=True):
        if called != label(column):
            notes.append(f"column '{column}' is called {called}, for another thing has its name")
    parts = [_in_order(part, variables, parts[0].source.name) for part in parts]
    parts = settle_dates(parts, notes)
    variables = _called(variables, name, parts[0].source.name)
    table = Table(parts, variables, find_units(parts[0], units), notes)
    inspect(table)
    return table


def _without_numbers(part: Part, columns: Mapping[str, str] | None, notes: list[str]) -> Part:
    """The part without columns that count its rows, unless the user names its readings."""
    gridded = getattr(part.source, "dims", None) is not None
    if part.head is None or gridded or any(ROLES.get(role.lower()) == "values" for role in columns or {}):
        return part
    data, decimal, values = part.head.data, part.head.decimal, part.columns.values
    numbers = [name for name in values if counts_rows(to_numbers(data[name], decimal)[0])]
    if not numbers or len(numbers) == len(values):
        return part
    notes.append(f"{', '.join(numbers)}: numbers of rows, left out; --columns value=NAME reads them all the same")
    stays = [place for place, name in enumerate(values) if name not in numbers]
    errors = part.columns.errors and tuple(part.columns.errors[place] for place in stays)
    return replace(part, columns=replace(part.columns, values=tuple(values[place] for place in stays), errors=errors))


def _says_utc(time: str) -> bool:
    """Is it in the name of the column?

    >>> [_says_utc(name) for name in ("time (UTC)", "Date GMT+Time GMT", "datetime_utc", "time", "Local time")]
    [True, True, True, False, False]
    """
    return split_units(time)[1].upper() in ("UTC", "GMT") or plain(time).endswith(("utc", "gmt"))


Found = tuple[Source, Columns]


def open_sources(
    source: Any, columns: Mapping[str, str] | None, places: Mapping[str, Any] | None = None
) -> tuple[list[Found], list[str]]:
    """The files or objects behind what the user gave; of a folder or a glob, those that are tables of readings."""
    how = columns, places
    if isinstance(source, pd.DataFrame):
        return [_with_columns(FrameSource(source), *how)], []
    if isinstance(source, (xr.Dataset, xr.DataArray)):
        return [_with_columns(ArraySource(source), *how)], []
    if isinstance(source, (str, Path)):
        path = Path(source)
        if path.is_dir() and path.suffix != ".zarr":
            return _sift(sorted(p for p in path.iterdir() if _suffix(p) in OPENERS), str(path), *how)
        if not path.exists() and any(sign in str(path) for sign in "*?["):
            return _sift(sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))), str(path), *how)
        return [_with_columns(open_file(path), *how)], []
    paths = list(source)
    if not paths:
        raise SolidError("no file of readings given")
    return [_with_columns(open_file(Path(path)), *how) for path in paths], []


def _with_columns(source: Source, columns: Mapping[str, str] | None, places: Mapping[str, Any] | None) -> Found:
    source, columns = by_parameter(source, columns)
    if places is not None:
        source, columns = placed(source, columns, places)
    return source, find_columns(source.headers, columns, source.name)


def open_file(path: Path) -> Source:
    if not path.exists():
        raise SolidError(f"there is no file {path}; check the path")
    if _suffix(path) not in OPENERS:
        ways = "save a spreadsheet as CSV, unpack an archive"
        raise SolidError(f"cannot tell what {path} is by its name; end it in {', '.join(OPENERS)} ({ways})")
    return OPENERS[_suffix(path)](path)


def _suffix(path: Path) -> str:
    return "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _sift(
    paths: Sequence[Path], where: str, columns: Mapping[str, str] | None, places: Mapping[str, Any] | None
) -> tuple[list[Found], list[str]]:
    kept: list[Found] = []
    notes: list[str] = []
    for path in paths:
        try:
            kept.append(_with_columns(open_file(path), columns, places))
        except SolidError as error:
            notes.append(f"{path.name} is left out: {str(error).removeprefix(f'{path}: ')}")
    if not kept:
        raise SolidError(f"no table of readings in {where}" + (f" ({notes[0]})" if notes else "; check the path"))
    return kept, notes


def _in_order(part: Part, variables: tuple[str, ...], first: str) -> Part:
    """The part with its variables in the order of the first file's."""
    own = _variables(part.columns)
    if set(own) != set(variables):
        raise SolidError(
            f"{part.source.name} has variables {', '.join(own)}, {first} {', '.join(variables)}; "
            "name those to read with --columns value=NAME"
        )
    order = [own.index(name) for name in variables]
    values = tuple(part.columns.values[v] for v in order)
    errors = tuple(part.columns.errors[v] for v in order) if part.columns.errors else ()
    return replace(part, columns=replace(part.columns, values=values, errors=errors))


def _variables(columns: Columns) -> tuple[str, ...]:
    wanted = [label(value) for value in columns.values]
    names: list[str] = []
    for first in wanted:
        name, again = first, 2
        while name in names or is_taken(name, wanted):
            name, again = f"{first}_{again}", again + 1
        names.append(name)
    return tuple(names)


def _called(variables: tuple[str, ...], name: str | None, where: str) -> tuple[str, ...]:
    """The variables under the names that the user gives them.

    >>> _called(("pm",), "PM2.5", "a.csv"), _called(("pm", "t"), "t=air temperature", "a.csv")
    (('PM2.5',), ('pm', 'air_temperature'))
    """
    if name is None:
        return variables
    pairs = [part.partition("=") for part in name.split(",")] if "=" in name else [(variables[0], "=", name)]
    given = {old: new for old, _, new in pairs}
    if "=" not in name and len(variables) > 1:
        which = f"name the one to read (--columns value={variables[0]}), or write --name {variables[0]}={name}"
        raise SolidError(f"{where} has variables {', '.join(variables)}, and '{name}' can be but one; {which}")
    for old in given:
        if old not in variables:
            raise SolidError(f"{where} has no variable '{old}' to call {given[old]}; it has {', '.join(variables)}")
    called = tuple(label(given[one]) if one in given else one for one in variables)
    wrong = [one for one in called if is_taken(one, called) or called.count(one) > 1]
    if wrong:
        raise SolidError(f"--name {name}: '{wrong[0]}' is the name of another thing in maps; choose another")
    return called


def find_units(part: Part, given: str | None) -> tuple[str, ...]:
    """By the user's word, else by attribute or header."""
    count = len(part.columns.values)
    if given is not None:
        words = [word.strip() for word in given.split(",")]
        if len(words) not in (1, count):
            raise SolidError(f"units '{given}' are {len(words)}, variables {count}; give one unit, or one for each")
        return tuple(words * count if len(words) == 1 else words)
    header: dict[str, Header] = {h.name: h for h in part.source.headers}
    return tuple(header[name].units or split_units(name)[1] for name in part.columns.values)


def inspect(table: Table) -> None:
    """What the first rows tell: an assumed time zone or unit is noted, a table with swapped coordinates refused."""
    y, x = table.sample.y, table.sample.x
    if not table.geographic and table.lattice is None and len(y) and _like_degrees(y, x):
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
            _refuse_levels(table, part, rows)
        if part.form.zone is None and len(rows) and not table.lattice and _shifts(part.head, part):
            table.note("times without an offset are taken as UTC; if they are local, name the zone (--timezone)")


def _refuse_levels(table: Table, part: Part, rows: Rows) -> None:
    """A map is of one depth or height: a table of several is refused. Of several instruments the mean is taken."""
    columns, source = part.columns, part.source
    shared = [rows.time, rows.y, rows.x, *np.isfinite(rows.values).T]  # quantities with a row each are no levels
    if not repeated(shared).any():
        return
    roles = (*columns.time.split("+"), columns.y, columns.x, columns.sensor)
    names = [header.name for header in source.headers if header.numeric and header.name not in roles]
    head = next(iter(source.batches(columns, SAMPLE, names)))
    sound = np.isin(head.row, rows.row)
    found = levels_of(shared, {name: to_numbers(head.data[name], head.decimal)[0][sound] for name in names})
    if found is None:
        return
    column, words = found[0], words_of_levels(*found)
    if plain(column) not in LEVELS:
        table.note(f"{words}: their mean is taken, as of several instruments")
        return
    value = next((name for name in columns.values if name != column), "NAME")
    raise SolidError(
        f"{source.name}: {words}, and a map is of one of them: keep the rows of one, or read each as a variable "
        f"of its own (--columns parameter={column},value={value})"
    )


def _like_degrees(y: np.ndarray, x: np.ndarray) -> bool:  # (n,)
    """Could these be latitudes and longitudes, of a place that is not where both are zero?"""
    far = max(float(np.abs(y).max()), float(np.abs(x).max())) > NEARBY
    return far and bool((np.abs(y) <= 90).all() and (np.abs(x) <= 180).all() and (y % 1 != 0).any())


def _shifts(batch: Batch, part: Part) -> bool:
    """Would naming a time zone change these times? Then they have no offset of their own."""
    column = time_column(batch, part.columns)
    once, again = (to_utc(column, form)[0] for form in (part.form, replace(part.form, zone=zone("+01:00"))))
    return not np.array_equal(once, again, equal_nan=True)
