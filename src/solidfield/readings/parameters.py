"""A column that says what was read, as tables of many quantities have it:

    time, station, parameter, value, unit            time, station, no2 [ug/m3], pm25 [ug/m3]
    08:00, A,      no2,       31,    ug/m3     ->    08:00, A,      31,          -
    08:00, A,      pm25,      12,    ug/m3           08:00, A,      -,           12

Each quantity is a variable of its own, in each unit that it is given in: a mean of two quantities, or of parts per
billion and micrograms, is a reading of nothing. Which there are is told by one pass over that column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..errors import SolidError
from .columns import column_called
from .dialect import NUMBER
from .names import ROLES, plain, split_units
from .parts import CHUNK
from .records import NO_ROLES, Batch, Columns, Header, Source
from .rows import names_of

NAMES = ("parameter", "parametername", "pollutant", "pollutantname", "variable", "variablename", "indicator", "species",
         "component", "analyte", "measurand", "quantity", "element", "observedproperty")  # fmt: skip
VALUES = ("value", "values", "measurement", "samplemeasurement", "measuredvalue", "reading", "result", "resultvalue",
          "observation", "obs", "obsvalue", "val", "arithmeticmean", "concentration")  # fmt: skip
UNITS = ("unit", "units", "unitofmeasure", "unitsofmeasure", "uom", "parameterunits", "unitofmeasurement")
MOST = 40  # quantities of a table that are read side by side
SHOWN = 6  # of them in a message


def by_parameter(
    source: Source, columns: Mapping[str, str] | None
) -> tuple[Source, Mapping[str, str] | None]:  # and the columns by role
    """The readings with a column for each quantity; as they are where no column says what was read."""
    roles = {ROLES.get(role.lower(), role): (role, name) for role, name in (columns or {}).items()}
    names, texts = [h.name for h in source.headers], [h.name for h in source.headers if not h.numeric]
    named = roles.pop("parameter", ("", ""))[1]
    if plain(named) == "none" and named not in names:
        return source, dict(roles.values())
    column = named or next((name for word in NAMES for name in texts if plain(name) == word), "")
    if not column or getattr(source, "dims", None) is not None:
        return source, columns
    column = column_called(column, names, "parameter", source.name)
    unit = next((name for word in UNITS for name in texts if plain(name) == word), None)
    found = _quantities(source, column, unit)
    values = [roles["values"][1]] if "values" in roles else [
        h.name for word in VALUES for h in source.headers if h.numeric and plain(h.name) == word
    ]  # fmt: skip
    if len(values) != 1 or "+" in values[0]:
        if len(found) < 2 and not named:
            return source, columns
        some = ", ".join(dict.fromkeys(quantity for quantity, _ in found[:SHOWN]))
        raise SolidError(
            f"{source.name}: column '{column}' says what was read ({some}), and not which column holds the readings; "
            "name it with --columns value=NAME; if it says no such thing, --columns parameter=none"
        )
    if len(found) > MOST:
        raise SolidError(
            f"{source.name}: column '{column}' names {len(found)} quantities, more than {MOST}; keep the rows of those "
            "that are to be modelled"
        )
    value = column_called(values[0], names, "value", source.name)
    table = Parameters(source, column, unit, value, found)
    kept = {role: name for role, name in roles.values() if ROLES.get(role.lower()) != "values"}
    return table, kept | {"values": "+".join(h.name for h in table.made)}


def _quantities(source: Source, column: str, unit: str | None) -> list[tuple[str, str]]:
    """What was read, and in which unit, in the order of appearance."""
    found = dict[tuple[str, str], None]()
    for batch in source.batches(NO_ROLES, CHUNK, [column, *([unit] if unit else [])]):
        found |= dict.fromkeys(pair for pair in _pairs(batch, column, unit)[1] if pair[0])
    return list(found)


def _pairs(batch: Batch, column: str, unit: str | None) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """(n,) codes of the rows, and the quantity and the unit of each code."""
    what = names_of(batch.data[column])
    units = names_of(batch.data[unit]) if unit else np.full(len(what), "", dtype=object)
    code, pairs = pd.factorize(pd.MultiIndex.from_arrays([what, units]))
    return code, [(quantity.strip(), of.strip()) for quantity, of in pairs]


class Parameters:
    """The table with a column for every quantity."""

    def __init__(self, source: Source, column: str, unit: str | None, value: str, found: Sequence[tuple[str, str]]):
        self.source, self.column, self.unit, self.value = source, column, unit, value
        self.name, self.notes, self.fraction = source.name, source.notes, 0.0
        what, own = split_units(value)
        self.made = tuple(Header(_called(what, *pair), True, pair[1] or own) for pair in found)
        self.place = {pair: number for number, pair in enumerate(found)}
        away = (column, value, *([unit] if unit else []))
        self.headers = (*(h for h in source.headers if h.name not in away), *self.made)
        for quantity in dict.fromkeys(quantity for quantity, _ in found):
            units = [of or "no unit" for what, of in found if what == quantity]
            if len(units) > 1:
                self.notes.append(f"{quantity} is given in {', '.join(units)}: a variable for each")
        if len(found) > 1:
            self.notes.append(f"column '{column}' says what was read: {', '.join(h.name for h in self.made)}")

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = only or columns.used()
        own = {h.name for h in self.made}
        asked = [name for name in names if name not in own]
        spread = len(asked) < len(names)
        if spread:
            asked += [self.column, self.value, *([self.unit] if self.unit else [])]
        for batch in self.source.batches(replace(columns, values=(self.value,)), rows, asked):
            self.fraction = self.source.fraction
            yield self._spread(batch, names) if spread else batch

    def _spread(self, batch: Batch, names: Sequence[str]) -> Batch:
        code, pairs = _pairs(batch, self.column, self.unit)
        place = np.array([self.place.get(pair, -1) for pair in pairs], np.int64)[code]
        value = np.asarray(batch.data[self.value])
        empty: Any = np.nan if value.dtype.kind in "iuf" else None
        data = {name: batch.data[name] for name in names if name in batch.data}
        data |= {
            h.name: np.where(place == number, value, empty) for number, h in enumerate(self.made) if h.name in names
        }
        return Batch(batch.row, data, batch.faults, batch.decimal)


def _called(value: str, quantity: str, unit: str) -> str:
    """The name of a quantity's column; of a level, with the name of what was read there.

    >>> _called("value", "NO2", "ug/m3"), _called("value", "PM2.5+", ""), _called("temp", "10", "")
    ('NO2 [ug/m3]', 'PM2.5_', 'temp at 10')
    """
    name = f"{value} at {quantity}" if NUMBER.fullmatch(quantity) else quantity
    return f"{name} [{unit}]".replace("+", "_") if unit else name.replace("+", "_")
