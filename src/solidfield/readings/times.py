"""Times of any usual form as UTC instants.

An offset in the text wins; a text without one is in the time zone the user named, else in UTC (and the table notes
the assumption). Year-first dates are ISO 8601; other ones become so first (dates.py), and where their order cannot be
told the row is refused: a wrong month is worse than a missing reading. Numbers are seconds (or milli-, micro-,
nanoseconds) since 1970, or YYYYMMDD[HH[MM[SS]]], unless the user says what they count: "days since 1899-12-30".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timezone, tzinfo
from typing import Any

import numpy as np
import pandas as pd

from ..clock import YEARS, to_ns, zone
from ..errors import SolidError
from .dates import ORDERS, SLASHED, after_midnight, usual, year_first

NUMBER = (
    "a number that is no time (seconds since 1970, or YYYYMMDD); say what it counts: --date-format 'days since ...'"
)
SINCE = re.compile(r"\s*(second|minute|hour|day)s? since ([+-]?\d.*?)\s*", re.I)
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
SHEET, OF_NOW = "days since 1899-12-30", (32_874, 55_153)  # what spreadsheets count; of the years 1990 to 2050
TWICE = "this local hour does not exist or occurs twice (daylight saving time); write times with offsets"
NO_TIME = "not a time"
DIGITS = "0123456789"
LOST = np.iinfo(np.int64).min  # what numpy counts NaT as

CLOCK = r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?(Z|[+-]\d{2}:?\d{2})?"
YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{2})[-/.](\d{2})" + CLOCK)
YEAR_LAST = re.compile(r"(\d{2})[-/.](\d{2})[-/.](\d{4})" + CLOCK)
OFFSET = r"[T ]\s*\d.*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"  # a sign behind the hour, not between year and month


@dataclass(frozen=True)
class TimeFormat:
    """How the times of one file are to be read."""

    zone: tzinfo | None = None  # of times without an offset; None = assumed UTC
    order: str | None = None  # "dayfirst", "monthfirst", "yearfirst", or None: only what decides itself
    pattern: str | None = None  # the user's strptime pattern, alone
    since: tuple[int, np.datetime64] | None = None  # times are numbers of so many seconds, from then on


def find_format(timezone_name: str | None, dates: str | None) -> TimeFormat:
    order = dates if dates in ORDERS else None
    if dates is not None and (since := counted_since(dates)) is not None:
        named = timezone_name or ("UTC" if dates.strip().endswith("Z") else None)
        return TimeFormat(None if named is None else zone(named), since=since)
    if dates is not None and order is None and "%" not in dates:
        ways = f"{', '.join(ORDERS)}, a pattern like %d.%m.%Y %H:%M, or what numbers count: days since 1899-12-30"
        raise SolidError(f"no date format '{dates}'; give {ways}")
    if dates is not None and order is None:
        try:
            pd.to_datetime(["a date"], format=dates, errors="coerce")
        except ValueError as error:
            raise SolidError(f"no date format '{dates}' ({error}); give a pattern like %d.%m.%Y %H:%M") from None
    return TimeFormat(None if timezone_name is None else zone(timezone_name), order, dates if order is None else None)


def counted_since(words: str) -> tuple[int, np.datetime64] | None:
    """What numbers count, in seconds, and from when; None where the words are no such thing.

    >>> counted_since("hours since 1900-01-01"), counted_since("%Y")
    ((3600, np.datetime64('1900-01-01T00:00:00')), None)
    """
    found = SINCE.fullmatch(words)
    if found is None:
        return None
    try:
        start = np.datetime64(found[2].removesuffix("Z").strip().replace(" ", "T"), "s")
    except ValueError:
        raise SolidError(f"no date format '{words}'; write it like 'days since 1899-12-30'") from None
    return SECONDS[found[1].lower()], start


Times = tuple[np.ndarray, np.ndarray | None]  # (n,) datetime64[ns] in UTC, NaT where refused; (n,) objects: "" or why


def to_utc(column: Any, form: TimeFormat) -> Times:
    """UTC instants and the reasons of those that are none; no reasons where all are sound."""
    if not isinstance(column, (pd.Series, np.ndarray)):
        column = pd.Series(column)
    dtype = column.dtype
    if form.since is not None and dtype.kind != "M" and not isinstance(dtype, pd.DatetimeTZDtype):
        return _since(column, *form.since, form)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _aware(pd.Series(column))
    if dtype.kind == "M":
        return _local(np.asarray(column), form)
    if dtype.kind in "iuf":
        return _numbers(np.asarray(column, dtype=np.float64), form)
    if dtype.kind == "S":  # fields of one length, as bytes of the file
        fast = None if form.pattern or not len(column) else _fixed(column, form)
        if fast is not None:
            return fast
        column = pd.Series(np.char.decode(column, "utf-8", "backslashreplace"))
    return _texts(pd.Series(column), form)


def _counted(times: np.ndarray) -> Times:  # (n,) datetime64 of any unit
    """In nanoseconds, and why not."""
    counted = to_ns(times)
    if counted.view(np.int64).min(initial=0) > LOST:
        return counted, None
    return counted, np.where(np.isnat(counted), np.where(np.isnat(times), NO_TIME, YEARS), "").astype(object)


def _put(times: np.ndarray, reasons: np.ndarray, where: np.ndarray, found: Times) -> None:
    """Write what was found for some of the rows into the whole."""
    times[where], reasons[where] = found[0], "" if found[1] is None else found[1]


def _aware(column: pd.Series) -> Times:
    return _counted(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())


def _local(times: np.ndarray, form: TimeFormat) -> Times:  # (n,) datetime64 of any unit
    """Local clock time to UTC."""
    counted, reasons = _counted(times)
    if form.zone is None or form.zone == timezone.utc:  # noqa: UP017
        return counted, reasons
    if isinstance(form.zone, timezone):
        return counted - np.timedelta64(form.zone.utcoffset(None), "ns"), reasons
    aware = pd.DatetimeIndex(counted).tz_localize(form.zone, ambiguous="NaT", nonexistent="NaT")
    utc = aware.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]")
    twice = np.where(np.isnat(utc), TWICE, "").astype(object)
    return utc, twice if reasons is None else np.where(reasons == "", twice, reasons)


def _numbers(numbers: np.ndarray, form: TimeFormat) -> Times:
    """Epochs are instants; 20230115, with hour, minute and second behind, is a local date: told apart by their size.

    2023011505 would be an epoch in 2034, from which there are no readings yet.
    """
    times = np.full(len(numbers), np.datetime64("NaT", "ns"))
    reasons = np.full(len(numbers), NUMBER, dtype=object)
    for low, high, unit in ((1e8, 9.2e9, 10**9), (9e11, 9.2e12, 10**6), (9e14, 9.2e15, 10**3), (1e17, 9.2e18, 1)):
        here = (numbers >= low) & (numbers < high)
        whole = np.floor(numbers[here])
        nanoseconds = whole.astype(np.int64) * unit + np.rint((numbers[here] - whole) * unit).astype(np.int64)
        times[here], reasons[here] = nanoseconds.view("datetime64[ns]"), ""
    for low, high in ((1.9e7, 2.2e7), (1.9e9, 2.2e9), (1.9e11, 2.2e11), (1.9e13, 2.2e13)):
        here = (numbers >= low) & (numbers < high)
        if here.any():
            digits = pd.Series(numbers[here].astype(np.int64)).astype(str)
            pattern = "%Y%m%d%H%M%S"[: len(digits.iloc[0]) - 2]
            dates = pd.to_datetime(digits, format=pattern, errors="coerce")
            _put(times, reasons, here, _local(dates.to_numpy(), form))
    return times, reasons


def _since(column: pd.Series | np.ndarray, seconds: int, start: np.datetime64, form: TimeFormat) -> Times:
    """Numbers of days or hours from a start. Days are written with few digits: they are read to the nearest second."""
    found = _as_numbers(column)
    number = np.where(np.isfinite(found) & (np.abs(found) < 1e15 / seconds), found, np.nan)
    times, reasons = np.full(len(number), np.datetime64("NaT", "ns")), np.full(len(number), NO_TIME, dtype=object)
    known = np.isfinite(number)
    whole = np.rint(number[known] * seconds) if seconds == SECONDS["day"] else np.floor(number[known] * seconds)
    rest = np.zeros(len(whole)) if seconds == SECONDS["day"] else number[known] * seconds - whole
    exact, why = _counted(start + whole.astype("timedelta64[s]"))
    _put(times, reasons, known, (exact + np.rint(1e6 * rest).astype("timedelta64[us]"), why))
    local, again = _local(times, form)
    return local, reasons if again is None else np.where(reasons == "", again, reasons)


def of_a_sheet(column: Any) -> bool:
    """Are all these times days as a spreadsheet counts them?

    >>> of_a_sheet(np.array([b"45323.5", b"45324.0"])), of_a_sheet([1.7e9]), of_a_sheet(["2024-02-01", "45323"])
    (True, False, False)
    """
    series = column if isinstance(column, np.ndarray) else pd.Series(column)
    if not len(series) or isinstance(series.dtype, pd.DatetimeTZDtype) or series.dtype.kind == "M":
        return False
    numbers = _as_numbers(series)
    return bool(((numbers >= OF_NOW[0]) & (numbers < OF_NOW[1])).all())


def _as_numbers(column: pd.Series | np.ndarray) -> np.ndarray:  # (n,) float64, NaN where it is none
    if isinstance(column, np.ndarray) and column.dtype.kind == "S":
        column = np.char.decode(column, "utf-8", "backslashreplace")
    return np.asarray(pd.to_numeric(pd.Series(column), errors="coerce"), dtype=np.float64)


def _fixed(fields: np.ndarray, form: TimeFormat) -> Times | None:
    """All rows of one width and one template, by digits; None where any row is anything else."""
    chars = fields.view(np.uint8).reshape(len(fields), fields.dtype.itemsize)  # (n, L)
    chars = np.ascontiguousarray(chars.T)  # (L, n): what follows takes one position of all rows after the other
    first = bytes(chars[:, 0]).decode("latin-1")
    found = YEAR_FIRST.fullmatch(first)
    order = "yearfirst" if found else form.order
    found = found or (YEAR_LAST.fullmatch(first) if order else None)
    if not found:
        return None
    numerals = chars - np.uint8(48)  # anything below "0" wraps to a large number
    for position, sign in enumerate(first):
        same = numerals[position].max() <= 9 if sign in DIGITS else (chars[position] == ord(sign)).all()
        if not same:
            return None

    def part(span: tuple[int, int]) -> np.ndarray:  # (n,) int64
        total = np.zeros(len(fields), np.int32)  # of nine digits at most
        for position in range(*span):
            total *= 10
            total += numerals[position]
        return total.astype(np.int64)

    date = [part(found.span(i)) for i in (1, 2, 3)]
    year, month, day = {"yearfirst": date, "dayfirst": date[::-1], "monthfirst": [date[2], date[0], date[1]]}[
        order or "yearfirst"
    ]
    clock_parts = [part(found.span(i)) if found[i] else np.zeros_like(year) for i in (4, 5, 6, 7)]
    hour, minute, second, fraction = clock_parts
    limits = ((year, 1701, 2261), (month, 1, 12), (hour, 0, 23), (minute, 0, 59), (second, 0, 59))
    if any(number.min() < low or number.max() > high for number, low, high in limits):
        return None
    months = 12 * (year - 1970) + month - 1
    low = int(months.min())
    starts = np.arange(low, months.max() + 2).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    months -= low  # of the calendar from the first month to the last, asked once a month instead of once a row
    if (day < 1).any() or (day > np.diff(starts).take(months)).any():
        return None
    seconds = ((starts.take(months) + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    digits = len(found[7] or "")
    times = (seconds * 10**9 + fraction * 10 ** (9 - digits)).view("datetime64[ns]")
    if not found[8]:
        return _local(times, form)
    at = found.start(8)
    if found[8] == "Z":
        return times, None
    minutes = 60 * part((at + 1, at + 3)) + part((found.end(8) - 2, found.end(8)))
    shift = (minutes * 60 * 10**9).astype("timedelta64[ns]")
    return (times - shift if found[8][0] == "+" else times + shift), None


def _texts(texts: pd.Series, form: TimeFormat) -> Times:
    """Text by text, each distinct one once."""
    codes, distinct = pd.factorize(texts)  # missing ones have code -1
    words = pd.Series(np.append(np.asarray(distinct, dtype=object), ""), dtype=object).astype(str).str.strip()
    times, reasons = np.empty(len(words), "datetime64[ns]"), np.full(len(words), "", dtype=object)
    _put(times, reasons, np.ones(len(words), bool), _pattern(words, form) if form.pattern else _distinct(words, form))
    times[-1], reasons[-1] = np.datetime64("NaT"), "no time"
    return times[codes], reasons[codes]


def _pattern(words: pd.Series, form: TimeFormat) -> Times:
    parsed = pd.to_datetime(words, format=form.pattern, errors="coerce", utc="%z" in (form.pattern or ""))
    if isinstance(parsed.dtype, pd.DatetimeTZDtype):
        return _aware(parsed)
    return _local(parsed.to_numpy(), form)


def _distinct(words: pd.Series, form: TimeFormat) -> Times:
    times = np.full(len(words), np.datetime64("NaT", "ns"))
    reasons = np.full(len(words), NO_TIME, dtype=object)
    words = words.str.replace(r"\s*(?:UTC|GMT)$", "Z", regex=True)
    number = words.str.fullmatch(r"\d+(\.\d*)?").to_numpy(dtype=bool)
    if number.any():
        _put(times, reasons, number, _numbers(words[number].astype(float).to_numpy(), form))
    words = words.map(usual)
    slashed = np.flatnonzero(~number & words.str.fullmatch(SLASHED.pattern).to_numpy(dtype=bool))
    rest = np.flatnonzero(~number & words.str.match(r"\d{4}").to_numpy(dtype=bool))
    for i in slashed:
        words.iloc[i], reasons[i] = year_first(words.iloc[i], form.order)
    dated = np.union1d(rest, slashed[[reasons[i] == "" for i in slashed]] if len(slashed) else slashed)
    dated = dated.astype(int)
    words.iloc[dated] = words.iloc[dated].map(after_midnight)
    if len(dated):
        _put(times, reasons, dated, _iso(words.iloc[dated], form))
    return times, reasons


def _iso(words: pd.Series, form: TimeFormat) -> Times:
    parsed = pd.to_datetime(words, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None).to_numpy()
    times, reasons = np.empty(len(words), "datetime64[ns]"), np.full(len(words), "", dtype=object)
    _put(times, reasons, np.ones(len(words), bool), _counted(parsed))
    local = ~words.str.contains(OFFSET, regex=True).to_numpy(dtype=bool)
    _put(times, reasons, local, _local(parsed[local], form))
    return times, reasons
