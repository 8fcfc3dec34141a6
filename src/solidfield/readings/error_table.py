"""Errors of readings that the readings do not carry themselves: one number, one for each sensor, one for each kind.

A table of errors has a column that the readings have, too (a sensor's name, its kind), and columns of standard
deviations in the units of the readings: `error` where one variable is read, `pm_error` and `no2_error` where several
are. Whatever was given is kept as plain JSON, so that a run reads new readings with the errors it was trained with:

    {"by": "sensor", "of": {"pm": {"A": 1.5, "B": 8.0}}}        by "": one number;  of "*": the one variable there is
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..errors import SolidError
from .columns import error_of
from .names import ERRORS, SENSORS, label, plain
from .records import Header, Rows
from .table import Table

Errors: TypeAlias = float | str | Path | pd.DataFrame | Mapping[str, Any]
NAMED = 5  # sensors without an error that are named, of a chunk
HOW = "give a number, or a table such as sensor,error"


def plain_errors(errors: Errors | None) -> dict[str, Any] | None:
    """What was given, as JSON.

    >>> plain_errors({"A": 1.5})
    {'by': 'sensor', 'of': {'*': {'A': 1.5}}}
    """
    if errors is None:
        return None
    if isinstance(errors, Mapping):
        if set(errors) == {"by", "of"}:
            return dict(errors)
        return {"by": "sensor", "of": {"*": {str(name): _sound(value, name) for name, value in errors.items()}}}
    if isinstance(errors, str | Path):
        number = _number(str(errors))
        if number is None:
            return _of_table(_open(Path(errors)), str(errors))
        errors = number
    if isinstance(errors, pd.DataFrame):
        return _of_table(errors, "the table of errors")
    return {"by": "", "of": {"*": {"": _sound(errors, "every reading")}}}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _open(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise SolidError(f"there is no table of errors {path}; {HOW}")
    try:
        return pd.read_csv(path, dtype=str, skipinitialspace=True)
    except (ValueError, pd.errors.ParserError) as error:
        raise SolidError(f"cannot read {path} as a table of errors ({error}); {HOW}") from None


def _of_table(table: pd.DataFrame, where: str) -> dict[str, Any]:
    names = [str(name) for name in table.columns]
    columns = {name: word for name in names if (word := _whose(name))}
    keys = [name for name in names if name not in columns]
    if not columns or not keys:
        raise SolidError(f"{where} has the columns {', '.join(names)}; name one of the readings' and one 'error'")
    rows = table[keys[0]].astype(str).str.strip()
    twice = rows[rows.duplicated()]
    if len(twice):
        raise SolidError(f"{where} names '{twice.iloc[0]}' twice; keep one error for each {keys[0]}")
    found = {
        word: {name: _sound(value, name) for name, value in zip(rows, table[column], strict=True) if not pd.isna(value)}
        for column, word in columns.items()
    }
    return {"by": keys[0], "of": found}


def _whose(name: str) -> str:
    """pm_error -> pm, error -> *, anything else -> nothing."""
    if plain(name) in ERRORS:
        return "*"
    stem = next((label(name)[: -len(word) - 1] for word in ERRORS if label(name).lower().endswith(f"_{word}")), "")
    return stem


def _sound(value: Any, name: Any) -> float:
    number = _number(str(value))
    if number is None or not 0 <= number < math.inf:
        raise SolidError(f"the error '{value}' of {name} is no standard deviation; give a number from 0")
    return number


@dataclass(frozen=True)
class ErrorTable:
    """Standard deviations by the names in one column of the readings, for the variables of a table."""

    column: str | None  # None: one number for all
    of: tuple[Mapping[str, float], ...]  # (V,) of each variable; empty where nothing is said

    @classmethod
    def of_plain(cls, told: Mapping[str, Any] | None, table: Table, chosen: Sequence[int]) -> ErrorTable:
        """For the readings of a table; what does not fit them is an error."""
        names = [table.variables[v] for v in chosen]
        if told is None:
            return cls(None, tuple({} for _ in names))
        unknown = [word for word in told["of"] if word not in (*names, "*")]
        if unknown or (len(names) > 1 and "*" in told["of"]):
            word = unknown[0] if unknown else "error"
            raise SolidError(
                f"the errors are of '{word}', the variables {', '.join(names)}; name columns such as {names[0]}_error"
            )
        column = _column(told["by"], table) if told["by"] else None
        return cls(column, tuple(told["of"].get(name, told["of"].get("*", {})) for name in names))

    @property
    def says(self) -> bool:
        return any(self.of)

    def complete(self, rows: Rows, chosen: Sequence[int], table: Table) -> np.ndarray:  # (n, V)
        """The readings' own errors where they have one, else those of this table; NaN where neither says any."""
        own = np.full((len(rows), len(chosen)), np.nan) if rows.error is None else rows.error[:, chosen]
        for v, told in enumerate(self.of):
            if not told:
                continue
            if self.column is None:
                own[:, v] = np.where(np.isnan(own[:, v]), told[""], own[:, v])
                continue
            assert rows.sensor is not None
            codes, names = pd.factorize(rows.sensor)
            for name in [name for name in names if name not in told][:NAMED]:
                table.note(f"no error is told of {self.column} '{name}': its readings have that of the others")
            by_name = np.array([told.get(name, np.nan) for name in names])[codes]
            own[:, v] = np.where(np.isnan(own[:, v]), by_name, own[:, v])
        return own


def _column(by: str, table: Table) -> str:
    """The column of the readings that holds these names."""
    headers: Sequence[Header] = table.parts[0].source.headers
    same = [header.name for header in headers if plain(header.name) == plain(by)]
    if same:
        return same[0]
    if plain(by) in SENSORS and table.columns.sensor is not None:
        return table.columns.sensor
    others = ", ".join(h.name for h in headers if not error_of(h.name, headers))
    raise SolidError(f"errors are told by '{by}', which {table.name} has no column of; it has {others}")
