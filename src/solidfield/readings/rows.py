"""From a raw batch to sound rows: numbers, instants, places, and a reason for everything that is none.

A row without a readable time, place or error is refused; a value that cannot be read is refused by itself, and its row
stays for the sake of the other variables. Nothing is dropped without a `Refused` that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..grid import nearest_turn
from .records import Batch, Columns, Refused, Rows
from .times import TimeFormat, to_utc

SWAPPED = "latitude outside -90 .. 90 that would be right as a longitude: swap them with --columns y=NAME,x=NAME"

EAST = "longitudes above 180 are converted from 0 .. 360 to -180 .. 180"
WEST = "longitudes below 0 are degrees west"
NO_VALUE, NO_NUMBER = "no value", "not a number"
HUGE = "beyond any size of the first readings, by a factor of 1e12"
STANDS = "stands for no value: a usual sign of that, far from all readings"
NO_FIX, ZERO = "at 0, 0, far from all others: no fix of the position", 1e-6
LIMITED = "beyond what the instrument tells"
BIASED = (
    "readings such as '{text}' are known to be {side}, not what they are; they are refused, and without them maps are "
    "too {bias}: a number in their place, such as half a limit of detection, is nearer"
)
LARGEST, INFINITE = 3e38, "not a finite number below 3e38, the largest that maps can hold"
ACROSS = "sensors lie on both sides of the dateline: longitudes go on beyond 180"
MIXED = "longitudes of 0 .. 360 are mixed with negative ones: do both mean the same places?"


def to_rows(
    batch: Batch,
    columns: Columns,
    form: TimeFormat,
    geographic: bool,
    file: int,  # position of the file in the table
    name: str,  # of the file
    note: Callable[[str], None],  # takes down a doubt in plain words
) -> tuple[Rows, list[Refused]]:
    n = len(batch.row)
    refused = [Refused(name, *fault) for fault in batch.faults]
    sound = np.ones(n, bool)

    def refuse(bad: np.ndarray, column: str, reason: Any) -> None:
        """Take down every bad field of a column; `reason` is one text or (n,) texts."""
        if not bad.any():
            return
        for i in np.flatnonzero(bad).tolist():
            why = reason if isinstance(reason, str) else str(reason[i])
            refused.append(Refused(name, int(batch.row[i]), column, text := _text(batch, column, i), why))
            if why == LIMITED:
                side, bias = ("below a limit", "high") if text.strip()[0] in "<≤" else ("above a limit", "low")
                note(BIASED.format(text=text.strip()[0] + " ...", side=side, bias=bias))

    def number(column: str, needed: bool) -> tuple[np.ndarray, np.ndarray, Ends]:
        numbers, reasons, ends = to_numbers(batch.data[column], batch.decimal)
        if reasons is None:
            bad = np.isnan(numbers) if needed and not _all_within(ends, -LARGEST, LARGEST) else np.zeros(n, bool)
            refuse(bad, column, "missing")
        else:
            missing = np.isnan(numbers) & (reasons == "") if needed else np.zeros(n, bool)
            bad = (reasons != "") | missing
            refuse(bad, column, np.where(missing, "missing", reasons))
        return numbers, bad, ends

    time, why = to_utc(time_column(batch, columns), form)
    if why is not None:
        sound &= ~np.isnat(time)
        refuse(~sound, columns.time, why)
    y, bad_y, ends_y = number(columns.y, needed=True)
    x, bad_x, ends_x = number(columns.x, needed=True)
    sound &= ~bad_y & ~bad_x
    if geographic and not (_all_within(ends_y, -90, 90) and _all_within(ends_x, 0, 180)):
        x = _longitudes(x, note)
        wrong_y, wrong_x = np.abs(y) > 90, np.abs(x) > 180
        if (wrong_y | wrong_x).any():
            swapped = wrong_y & (np.abs(x) <= 90) & (np.abs(y) <= 360)
            refuse(wrong_y & sound, columns.y, np.where(swapped, SWAPPED, "latitude outside -90 .. 90"))
            refuse(wrong_x & sound & ~wrong_y, columns.x, "longitude outside -180 .. 360")
            sound &= ~wrong_y & ~wrong_x
    error = None
    if any(columns.errors):
        error = np.full((n, len(columns.values)), np.nan)
        for v, column in enumerate(columns.errors):
            if column is not None:
                error[:, v], bad, _ = number(column, needed=False)
                refuse((error[:, v] < 0) & ~bad, column, "a standard deviation below zero")
                sound &= ~bad & ~(error[:, v] < 0)
    found, unread, whole = [], np.zeros(n, bool), False
    for column in columns.values:
        numbers, bad, ends = number(column, needed=False)
        found.append(numbers)
        unread |= bad
        whole |= _all_within(ends, -LARGEST, LARGEST)
    values = found[0][:, None] if len(found) == 1 else np.stack(found, axis=1)
    if not whole:  # no variable has a number in every row
        nothing = np.isnan(values).all(axis=1)
        refuse(nothing & sound & ~unread, columns.values[0], NO_VALUE)
        sound &= ~nothing
    refused.sort(key=lambda entry: entry.row)
    sensor = None if columns.sensor is None else names_of(batch.data[columns.sensor])
    rows = Rows(np.broadcast_to(np.int32(file), n), batch.row, time, y, x, values, sensor, error)
    return (rows if sound.all() else rows.where(sound)), refused


def refuse_beyond(
    rows: Rows,
    refused: list[Refused],
    columns: Columns,
    name: str,  # of the file
    limits: np.ndarray,  # (V,)
    nothing: Sequence[np.ndarray],  # (V,) numbers that stand for no value
    note: Callable[[str], None],
) -> tuple[Rows, list[Refused]]:
    """Readings that are beyond any size of the others are none, nor is what stands for no value: refused, and said."""
    values = rows.values
    if len(rows) == 0:
        return rows, refused
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    known = np.isfinite(low)
    marks = [(low[v] <= none[none < 0].max(initial=-np.inf)) | (high[v] >= none[none > 0].min(initial=np.inf))
             for v, none in enumerate(nothing)]  # fmt: skip
    if ((low >= -limits) & (high <= limits) & ~np.array(marks))[known].all():
        return rows, refused  # mostly so
    beyond = np.abs(values) > limits
    empty = np.stack([np.isin(values[:, v], none) for v, none in enumerate(nothing)], 1)
    bad = beyond | empty
    if not bad.any():
        return rows, refused
    for i, v in np.argwhere(bad):
        column, text = columns.values[v], f"{values[i, v]:.10g}"
        refused.append(Refused(name, int(rows.row[i]), column, text, STANDS if empty[i, v] else HUGE))
        note(
            f"'{column}': {text} stands for no value, so it is refused"
            if empty[i, v]
            else f"'{column}' holds numbers beyond any size of its readings, which are refused"
        )
    refused.sort(key=lambda entry: entry.row)
    values = np.where(bad, np.nan, values)
    kept = np.asarray(np.isfinite(values).any(axis=1))
    return replace(rows, values=values).where(kept), refused


def refuse_no_fix(rows: Rows, refused: list[Refused], columns: Columns, name: str) -> tuple[Rows, list[Refused]]:
    """Readings at 0, 0 of a table whose places are elsewhere; one of them would stretch the map to there."""
    bad = (np.abs(rows.y) < ZERO) & (np.abs(rows.x) < ZERO)
    if not bad.any():
        return rows, refused
    refused += [Refused(name, row, columns.y, "0", NO_FIX) for row in rows.row[bad].tolist()]
    refused.sort(key=lambda entry: entry.row)
    return rows.where(~bad), refused


Ends = tuple[float, float]  # least and largest of some numbers; NaN where one of them is, or there are none


def to_numbers(column: Any, decimal: str = ".") -> tuple[np.ndarray, np.ndarray | None, Ends]:
    """(n,) float64, NaN where missing or refused, the reasons (None where there are none), and their ends."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "iuf":
        numbers = np.asarray(column, dtype=np.float64)
        ends = _ends(numbers)
        if _all_within(ends, -LARGEST, LARGEST):  # two passes without a mask: what is sound, as most is, is through
            return numbers, None, ends
        infinite = np.abs(numbers) > LARGEST
        if not infinite.any():
            return numbers, None, ends
        numbers = np.where(infinite, np.nan, numbers)
        return numbers, np.where(infinite, INFINITE, "").astype(object), _ends(numbers)
    series = pd.Series(column).reset_index(drop=True)
    missing = series.isna().to_numpy()
    texts = series.astype(object).where(~missing, "nan").astype(str).str.strip()
    if decimal == ",":
        pointed = texts.str.contains(".", regex=False)
        texts = texts.str.replace(",", ".", regex=False).where(~pointed, "a number with a point")
    numbers = np.array(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
    words = ~missing & np.isnan(numbers)
    infinite = np.abs(numbers) > LARGEST
    numbers[infinite] = np.nan
    reasons = np.full(len(numbers), "", dtype=object)
    reasons[words] = f"{NO_NUMBER} (decimal {'comma' if decimal == ',' else 'point'})"
    reasons[words & texts.str.match(r"[<>≤≥]\s*[\d.]").to_numpy(dtype=bool)] = LIMITED
    reasons[infinite] = INFINITE
    return numbers, reasons, _ends(numbers)


def _ends(numbers: np.ndarray) -> Ends:
    return (float(numbers.min()), float(numbers.max())) if len(numbers) else (np.nan, np.nan)


def _all_within(ends: Ends, low: float, high: float) -> bool:
    """Is every number there, and in these bounds?"""
    return ends[0] >= low and ends[1] <= high  # not where one is NaN


def _longitudes(x: np.ndarray, note: Callable[[str], None]) -> np.ndarray:
    east = (x > 180) & (x <= 360)
    if (x < 0).any():
        note(WEST)
    if not east.any():
        return x
    note(EAST)
    return np.where(east, x - 360.0, x)


def meridian(x: np.ndarray) -> float | None:
    """The middle of longitudes that lie together, more than 90 degrees away from Greenwich; None elsewhere.

    >>> meridian(np.array([179.0, -179.5])), meridian(np.array([10.0, 12.0]))
    (179.75, None)
    """
    if not len(x):
        return None
    angle = np.deg2rad(x)
    middle = float(np.rad2deg(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean())))
    together = np.abs(nearest_turn(x, middle) - middle).max() < 90
    return round(middle, 6) if together and abs(middle) > 90 else None


def time_column(batch: Batch, columns: Columns) -> Any:
    """The column of times; of two, the date and the time of day joined by a space; of more, year, month, day ..."""
    parts = [batch.data[name] for name in columns.time.split("+")]
    if len(parts) == 1:
        return parts[0]
    if len(parts) > 2:
        return instants([to_numbers(part, batch.decimal)[0] for part in parts])
    date, clock = (pd.Series(part).reset_index(drop=True) for part in parts)
    if date.dtype.kind == "M":
        date = date.dt.strftime("%Y-%m-%d")
    return date.astype(object).astype(str).str.strip() + " " + clock.astype(object).astype(str).str.strip()


def instants(parts: Sequence[np.ndarray]) -> np.ndarray:  # (n,) each: year, month, day, hour ... -> (n,) datetime64[s]
    """The times that numbers of the calendar say; NaT where they say none. Hour 24 is the end of its day.

    >>> instants([np.array([2024.0, 2023.0]), np.array([2.0, 2.0]), np.array([29.0, 29.0]), np.array([24.0, 0.0])])
    array(['2024-03-01T00:00:00',                 'NaT'], dtype='datetime64[s]')
    """
    year, month, day, *clock = parts
    with np.errstate(invalid="ignore"):
        whole = np.logical_and.reduce([part == np.floor(part) for part in parts])  # not where one is NaN
        sound = whole & (year > 0) & (year < 10_000) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        for part, most in zip(clock, (24, 59, 60), strict=False):
            sound &= (part >= 0) & (part <= most)
    first, second, third = (np.where(sound, part, 1).astype(np.int64) for part in (year, month, day))
    months = (12 * (first - 1970) + second - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (third - 1)
    sound &= days.astype("M8[M]") == months  # there is no 30 February
    seconds = days.astype("M8[s]")
    for part, size in zip(clock, (3600, 60, 1), strict=False):
        seconds = seconds + size * np.where(sound, part, 0).astype(np.int64)
    return np.where(sound, seconds, np.datetime64("NaT"))


def names_of(column: Any) -> np.ndarray:  # (n,) str objects
    series = pd.Series(column)
    codes, distinct = pd.factorize(series)  # missing ones have code -1
    whole = series.dtype.kind == "f"  # identifiers that became floats because one is missing: 12, not 12.0
    names = [f"{name:.15g}" if whole else str(name) for name in distinct]
    return np.array([*names, ""], dtype=object)[codes]


def _text(batch: Batch, column: str, i: int) -> str:
    """The refused field as it stands in the file."""
    parts = []
    for name in column.split("+"):
        data = batch.data[name]
        value = data.iloc[i] if isinstance(data, pd.Series) else data[i]
        parts.append(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))
    text = " ".join(parts)
    return "" if text in ("nan", "None", "NaT", "<NA>") else text[:200]
