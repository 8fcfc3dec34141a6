"""Where sensors stand, told by a table of their own: readings of a network often come without coordinates.

    long    time, station, no2        a row a reading, and who read it
    wide    time, S00, S01, S02       a row a time, a column a station
    files   S00.csv: time, no2        a file a station, called by its name
    places  station, lat, lon

A long table is given the place of each row's sensor; of a wide one every number becomes a row. Which column of the
table of places holds the names that the readings use is the one of which they know most. Readings of a sensor that it
does not name are refused, row by row; columns of a wide table that it does not name are left out, and that is said.
What was given is kept as plain JSON, so that a run reads new readings with the places it was trained with:

    {"y": "lat", "x": "lon", "at": [[48.1, 11.3], [48.2, 11.5]], "names": {"station": ["S00", "S01"]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from ..errors import SolidError
from .columnar import FrameSource
from .columns import by_name
from .csvfile import CsvSource
from .names import DATE_PARTS, LATITUDES, LONGITUDES, ROLES, TIMES, names_something, plain, split_units
from .records import NO_ROLES, Batch, Columns, Header, Source
from .rows import names_of, to_numbers

Places: TypeAlias = str | Path | pd.DataFrame | Mapping[str, Any]
SENSOR, VALUE = "sensor", "value"  # columns that a wide table is given
SAMPLE = 1000  # rows that tell which column holds the names
KNOWN = 0.5  # share of a column's names that must be told of, for it to be the sensors'
SHOWN = 5  # names in a message
HOW = "give a table with a column of names and columns lat and lon (or y and x)"


def plain_places(places: Places | None) -> dict[str, Any] | None:
    """What was given, as JSON.

    >>> plain_places({"A": (48.1, 11.3)})
    {'y': 'lat', 'x': 'lon', 'at': [[48.1, 11.3]], 'names': {'sensor': ['A']}}
    """
    if places is None:
        return None
    if isinstance(places, Mapping):
        if set(places) == {"y", "x", "at", "names"}:
            return dict(places)
        rows = [(name, *place) for name, place in places.items()]
        places = pd.DataFrame(rows, columns=[SENSOR, "lat", "lon"])
    if isinstance(places, pd.DataFrame):
        source = FrameSource(places)
        return _of_table(source.frame, source.headers, ".", "the table of places")
    path = Path(str(places))
    if not path.is_file():
        raise SolidError(f"there is no table of places {path}; {HOW}")
    table = CsvSource(path)
    text = pd.read_csv(
        path,
        sep=r"\s+" if table.spaced else table.separator,
        dtype=str,
        header=None,
        names=[h.name for h in table.headers],
        index_col=False,
        skiprows=table.header_end,
        encoding=table.encoding,
        skipinitialspace=True,
    )
    return _of_table(text, table.headers, table.decimal, str(path))


def _of_table(table: pd.DataFrame, headers: Sequence[Header], decimal: str, where: str) -> dict[str, Any]:
    found = [by_name(headers, names, role) for names, role in ((LATITUDES, "y"), (LONGITUDES, "x"))]
    if not all(found):
        raise SolidError(f"{where} has the columns {', '.join(h.name for h in headers)}; {HOW}")
    y, x = (columns[0].name for columns in found)
    at = np.stack([_coordinates(table[name], decimal, name, where) for name in (y, x)], 1)
    told = np.isfinite(at).all(1)
    names, twice = dict[str, list[str]](), ""
    for name in (h.name for h in headers if h.name not in (y, x)):
        column = np.array([word.strip() for word in names_of(table[name])], dtype=object)
        mine = told & (column != "")
        if len(np.unique(column[mine])) == mine.sum() > 0:
            names[name] = np.where(mine, column, "").tolist()
        elif not twice and mine.any():
            again = pd.Series(column[mine])
            twice = f"; '{again[again.duplicated()].iloc[0]}' in column '{name}' stands there twice"
    if not names:
        raise SolidError(f"{where} names no sensor but once{twice}; keep one row for each, with a name of its own")
    return {"y": y, "x": x, "at": np.where(told[:, None], at, 0.0).tolist(), "names": names}


def _coordinates(column: pd.Series, decimal: str, name: str, where: str) -> np.ndarray:  # (P,) NaN: not told
    numbers, reasons, _ = to_numbers(column, decimal)
    if reasons is not None and (reasons != "").any():
        row = int(np.flatnonzero(reasons != "")[0])
        raise SolidError(f"{where}, row {row + 2}: '{column.iloc[row]}' in column '{name}' is {reasons[row]}")
    return numbers


def placed(
    source: Source, columns: Mapping[str, str] | None, told: Mapping[str, Any]
) -> tuple[Source, dict[str, str]]:  # and the columns by role
    """The readings with the places of their sensors; as they are where they have coordinates of their own."""
    roles = dict(columns or {})
    given = {ROLES.get(role.lower(), "") for role in roles}
    own = [
        role in given or by_name(source.headers, names, role) for role, names in (("y", LATITUDES), ("x", LONGITUDES))
    ]
    if all(own) or getattr(source, "dims", None) is not None:
        source.notes.append(f"{source.name} has coordinates of its own, so the table of places is not needed")
        return source, roles
    sensor = next((name for role, name in roles.items() if ROLES.get(role.lower()) == SENSOR), None)
    wide = _best([split_units(h.name)[0] for h in source.headers], told)
    stations = [h.name for h in source.headers if split_units(h.name)[0] in wide.of]
    if sensor is None and len(stations) > 1:
        return Melted(source, stations, wide.of, told), roles
    candidates = [h.name for h in source.headers if plain(h.name) not in (*TIMES, *DATE_PARTS)]
    long = {name: _best(_names_in(source, name), told) for name in (candidates if sensor is None else [sensor])}

    def rank(name: str) -> tuple[bool, bool, float]:
        """First columns of which the table knows most names, and of these one that is called after sensors."""
        return long[name].share >= KNOWN, names_something(name), long[name].share

    name = max(long, key=rank, default="")
    alike = [other for other in long if rank(other) == rank(name)]
    if len(alike) > 1 and rank(name)[0]:
        raise SolidError(
            f"{source.name}: the columns {' and '.join(alike)} hold names of the table of places alike; say which is "
            "the sensors' (--columns sensor=NAME)"
        )
    if name and (any(rank(name)[:2]) or name == sensor):
        return Placed(source, name, long[name].of, told), roles | {SENSOR: name}
    if stations:
        return Melted(source, stations, wide.of, told), roles
    if (station := _of_file(source.name, told)) is not None:
        return OfOne(source, *station, told), roles | {SENSOR: SENSOR}
    some = ", ".join(f"'{name}'" for name in next(iter(told["names"].values()))[:SHOWN])
    raise SolidError(
        f"{source.name}: no column holds names of the table of places ({some} ...), and none is called by one, nor is "
        "the file; name the column of sensors (--columns sensor=NAME), or mend the table"
    )


class Match(NamedTuple):
    """A column of the table of places, as a way from names to its rows."""

    share: float  # of the names asked about that it knows
    of: Mapping[str, int]


def _best(asked: Sequence[str], told: Mapping[str, Any]) -> Match:
    """The column that knows most of these names."""
    found = []
    for column in told["names"].values():
        of = {name: row for row, name in enumerate(column) if name}
        found.append(Match(float(np.mean([name in of for name in asked])) if len(asked) else 0.0, of))
    return max(found, key=lambda match: match.share)


def _names_in(source: Source, name: str) -> list[str]:
    """The first names in a column."""
    for batch in source.batches(replace(NO_ROLES, sensor=name), SAMPLE, [name]):
        return [word.strip() for word in names_of(batch.data[name]) if word]
    return []


def _of_file(name: str, told: Mapping[str, Any]) -> tuple[str, int] | None:
    """The station that a file is called by, and its row among the places; None if there is none, or more than one.

    >>> told = {"names": {"station": ["S1", "S10", "Main St"]}}
    >>> _of_file("data/pm_S10_2024.csv.gz", told), _of_file("Main St.csv", told), _of_file("S1-S10.csv", told)
    (('S10', 1), ('Main St', 2), None)
    """
    stem = Path(name).name.split(".")[0]
    within = [
        (word, row)
        for column in told["names"].values()
        for row, word in enumerate(column)
        if word and re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", stem)
    ]
    return within[0] if len({row for _, row in within}) == 1 else None


class OfOne:
    """A table of one station, with its name and place in every row."""

    def __init__(self, source: Source, station: str, row: int, told: Mapping[str, Any]):
        self.source, self.name, self.notes, self.fraction = source, source.name, source.notes, 0.0
        self.added = {SENSOR: station} | dict(zip((told["y"], told["x"]), told["at"][row], strict=True))
        self.headers = (*source.headers, *(Header(name, name != SENSOR) for name in self.added))

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = only or columns.used()
        inner = replace(columns, sensor=None)
        asked = [name for name in names if name not in self.added] or [self.source.headers[0].name]
        for batch in self.source.batches(inner, rows, asked):
            self.fraction = self.source.fraction
            same = {name: np.full(len(batch.row), told) for name, told in self.added.items() if name in names}
            yield Batch(batch.row, {**batch.data, **same}, batch.faults, batch.decimal)


class Placed:
    """A long table with two more columns: the place of each row's sensor."""

    def __init__(self, source: Source, sensor: str, of: Mapping[str, int], told: Mapping[str, Any]):
        self.source, self.sensor, self.of = source, sensor, of
        self.name, self.notes, self.fraction = source.name, source.notes, 0.0
        self.axes, self.at = (told["y"], told["x"]), np.array(told["at"])
        self.headers = (*source.headers, *(Header(axis, True) for axis in self.axes))

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = only or columns.used()
        found = [name for name in names if name not in self.axes]
        placed = len(found) < len(names)
        asked = list(dict.fromkeys([*found, self.sensor])) if placed else found
        for batch in self.source.batches(replace(columns, sensor=self.sensor), rows, asked):
            self.fraction = self.source.fraction
            yield self._with_places(batch) if placed else batch

    def _with_places(self, batch: Batch) -> Batch:
        code, names = pd.factorize(names_of(batch.data[self.sensor]))
        place = np.array([self.of.get(name.strip(), -1) for name in names], np.int64)[code]
        known = place >= 0
        faults = [
            (int(batch.row[i]), self.sensor, str(names[code[i]]), "the table of places does not name it")
            for i in np.flatnonzero(~known)
        ]
        data = {name: column[known] for name, column in batch.data.items()}
        data |= {axis: self.at[place[known], column] for column, axis in enumerate(self.axes)}
        return Batch(batch.row[known], data, [*batch.faults, *faults], batch.decimal)


class Melted:
    """A wide table as a long one: every number of every station in a row of its own."""

    def __init__(self, source: Source, stations: Sequence[str], of: Mapping[str, int], told: Mapping[str, Any]):
        self.source, self.stations = source, list(stations)
        self.name, self.notes, self.fraction = source.name, source.notes, 0.0
        self.who = np.array([split_units(name)[0] for name in stations], dtype=object)
        self.axes, self.at = (told["y"], told["x"]), np.array(told["at"])[[of[name] for name in self.who]]
        others = [h for h in source.headers if h.name not in self.stations]
        self.kept = [h for h in others if plain(h.name) in (*TIMES, *DATE_PARTS)]
        away = [h.name for h in others if h not in self.kept and h.name]
        if away:
            self.notes.append(f"{', '.join(away[:SHOWN])}: left out, for the table of places names no such sensor")
        units = {split_units(name)[1] for name in stations}
        value = Header(VALUE, True, units.pop() if len(units) == 1 else "")
        self.headers = (*self.kept, Header(SENSOR, False), *(Header(axis, True) for axis in self.axes), value)

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = only or columns.used()
        kept = [h.name for h in self.kept if h.name in names]
        stations = [] if len(kept) == len(names) else self.stations  # of times alone a row is a row
        inner = replace(columns, sensor=None, values=tuple(stations))
        for batch in self.source.batches(inner, max(1, rows // max(1, len(stations))), [*kept, *stations]):
            self.fraction = self.source.fraction
            yield self._melted(batch, kept) if stations else batch

    def _melted(self, batch: Batch, kept: Sequence[str]) -> Batch:
        columns = [np.asarray(batch.data[name]) for name in self.stations]
        values = np.stack(columns, 1).ravel()  # of numbers and of text alike: objects
        read = np.flatnonzero(~pd.isna(values))
        row, station = np.divmod(read, len(self.stations))
        data: dict[str, Any] = {name: _at(batch.data[name], row) for name in kept}
        data |= {SENSOR: self.who[station], VALUE: values[read]}
        data |= {axis: self.at[station, column] for column, axis in enumerate(self.axes)}
        return Batch(batch.row[row], data, batch.faults, batch.decimal)


def _at(column: Any, rows: np.ndarray) -> Any:
    return column.iloc[rows].reset_index(drop=True) if isinstance(column, pd.Series) else column[rows]
