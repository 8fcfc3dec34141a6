"""Dates as people write them, as text with the year first: 3/4/2023 5 pm, 01-Feb-24, 24-02-01 24:00.

Which of 3/4/2023 is the day is decided by the evidence of the whole file: a part above 12 is a day. With two digits a
year may also come first, and any part may be it: then the file is read in the order in which its dates go on in time,
or, if more than one does that, in which they lie closer together. Years of two digits are those from 1970 to 2069.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

AMBIGUOUS = "day or month first? say --date-format dayfirst or monthfirst"
SHORT = "day or year first? say --date-format dayfirst or yearfirst"
ORDERS = {"dayfirst": (2, 1, 0), "monthfirst": (2, 0, 1), "yearfirst": (0, 1, 2)}  # where year, month and day stand
CLOSER = 2.0  # times as long a record is in another order, for this one to be the better
SLASHED = re.compile(r"\s*(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})\b[ ,T_]*(.*?)\s*")
YEAR_FIRST = re.compile(r"\s*(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?[ ,T_]+(.*?)\s*")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = rf"(?P<month>{'|'.join(MONTHS)})[a-z]*"
WEEKDAY = r"\s*(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[,.]?\s+)?"
NAMED = (  # 1-Feb-2024, 1 February 24; Feb 1, 2024
    re.compile(
        rf"{WEEKDAY}(?P<day>\d{{1,2}})[-/. ]*{MONTH}[-/., ]*(?P<year>\d{{4}}|\d{{2}})\b[ ,T]*(?P<clock>.*?)\s*", re.I
    ),
    re.compile(rf"{WEEKDAY}{MONTH}[-/. ]*(?P<day>\d{{1,2}})[-/., ]+(?P<year>\d{{4}})\b[ ,T]*(?P<clock>.*?)\s*", re.I),
)
HALF_DAY = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?\s*([AaPp])\.?[Mm]\.?")
OTHER_SIGNS = re.compile(r"(\d{1,2})[hH时時](\d{2})?(?:[mM分](?:\d{2}s?)?)?")  # 5h30
MIDNIGHT = re.compile(r"(\d{4}-\d{2}-\d{2})[ T]24(:00(?::00(?:\.0+)?)?.*)")


@dataclass(frozen=True)
class Evidence:
    """What the dates of a file tell of the order of their parts."""

    found: bool = False  # are there dates like 3/4/2023?
    day: bool = False  # does one of them put the day first?
    month: bool = False  # ... the month?
    short: tuple[tuple[int, int, int], ...] = ()  # those with a year of two digits, in the order of the file
    hyphens: bool = False  # is any of these 24-02-01?


def evidence(column: Any) -> Evidence:
    """Of some times.

    >>> evidence(["3/4/2023", "31/12/2023"]), evidence(["24-02-01"]).short
    (Evidence(found=True, day=True, month=False, short=(), hyphens=False), ((24, 2, 1),))
    """
    if isinstance(column, np.ndarray) and column.dtype.kind == "S":
        first = np.sort(np.unique(column, return_index=True)[1])  # each once, in the order of the file
        column = np.char.decode(column[first], "utf-8", "backslashreplace")
    series = pd.Series(column)
    if series.dtype.kind in "Miuf":
        return Evidence()
    texts = [str(word) for word in pd.unique(series.dropna())]
    parts = [found for found in map(SLASHED.fullmatch, texts) if found]
    pairs = [(int(found[1]), int(found[2])) for found in parts]
    short = [found for found in parts if len(found[3]) == 2]
    triples = dict.fromkeys((int(found[1]), int(found[2]), int(found[3])) for found in short)
    hyphens = any("-" in found[0][:3] for found in short)
    return Evidence(bool(pairs), any(a > 12 for a, _ in pairs), any(b > 12 for _, b in pairs), tuple(triples), hyphens)


def together(seen: Iterable[Evidence]) -> Evidence:
    every = list(seen)
    short = dict.fromkeys(triple for one in every for triple in one.short)
    flags = (any(getattr(one, name) for one in every) for name in ("found", "day", "month", "hyphens"))
    found, day, month, hyphens = flags
    return Evidence(found, day, month, tuple(short), hyphens)


def year_is_first(triples: Sequence[tuple[int, int, int]]) -> bool | None:
    """Of dates with a year of two digits: do they begin with it? None where they may as well begin with a day.

    >>> year_is_first([(24, 1, 30), (24, 1, 31), (24, 2, 1)]), year_is_first([(30, 1, 24), (31, 1, 24), (1, 2, 24)])
    (True, False)
    >>> year_is_first([(24, 2, 1)]), year_is_first([(24, 13, 1)]), year_is_first([(99, 2, 1)])
    (None, False, True)
    """
    read = {order: days for order, at in ORDERS.items() if (days := _days(triples, at)) is not None}
    own = read.pop("yearfirst", None)
    if own is None or not read:
        return own is not None
    better = [_goes_on_better(own, other) for other in read.values()]
    if all(better):
        return True
    return False if any(_goes_on_better(other, own) for other in read.values()) else None


def _days(triples: Sequence[tuple[int, int, int]], at: tuple[int, int, int]) -> np.ndarray | None:  # (n,) days
    try:
        return np.array([date(_whole(t[at[0]]), t[at[1]], t[at[2]]).toordinal() for t in triples])
    except ValueError:
        return None


def _goes_on_better(one: np.ndarray, other: np.ndarray) -> bool:  # (n,), (n,) days
    """Does it go on in time where the other goes to and fro, or is it far shorter where both do alike?"""
    steady = [bool((np.diff(days) >= 0).all() or (np.diff(days) <= 0).all()) for days in (one, other)]
    return steady[0] > steady[1] or (steady[0] == steady[1] and CLOSER * np.ptp(one) < np.ptp(other))


def year_first(word: str, order: str | None) -> tuple[str, str]:
    """3/4/2023 5:00 PM as 2023-04-03 17:00, or why not."""
    found = SLASHED.fullmatch(word)
    assert found is not None
    first, second, short = int(found[1]), int(found[2]), len(found[3]) == 2
    if order == "yearfirst" and short:
        return _in_order(found[1], second, int(found[3]), found[4]), ""
    if order is None and short and first > 12 and "-" in word[:3]:
        return word, SHORT
    if order in (None, "yearfirst") and first <= 12 and second <= 12 and first != second:
        return word, AMBIGUOUS
    day_first = order == "dayfirst" if order in ("dayfirst", "monthfirst") else first > 12
    day, month = (first, second) if day_first else (second, first)
    if month > 12:
        return word, f"month {month}; the file's dates are {'day' if day_first else 'month'} first"
    return _in_order(found[3], month, day, found[4]), ""


def usual(word: str) -> str:
    """With its month as a number and its clock of 24 hours, the year first where that is sure.

    >>> usual("01-Feb-2024 5:00 PM"), usual("Thu, February 1, 2024"), usual("1/2/2024")
    ('2024-02-01 17:00:00', '2024-02-01', '1/2/2024')
    >>> usual("2024年2月1日 5時30分"), usual("2024-02-01_05h"), usual("2024/2/1 12:10 AM"), usual("2024-02-01T05:00Z")
    ('2024-02-01 05:30', '2024-02-01 05:00', '2024-02-01 00:10:00', '2024-02-01 05:00Z')
    """
    if found := YEAR_FIRST.fullmatch(word):
        return _in_order(found[1], int(found[2]), int(found[3]), found[4])
    found = next((found for pattern in NAMED if (found := pattern.fullmatch(word))), None)
    if found is None:
        return word
    return _in_order(found["year"], 1 + MONTHS.index(found["month"].lower()), int(found["day"]), found["clock"])


def after_midnight(word: str) -> str:
    """The end of a day, as the last hour of one is often stamped, is the beginning of the next.

    >>> after_midnight("2024-02-29 24:00"), after_midnight("2024-02-29 23:00")
    ('2024-03-01 00:00', '2024-02-29 23:00')
    """
    found = MIDNIGHT.fullmatch(word)
    if found is None:
        return word
    try:
        return f"{date.fromisoformat(found[1]) + timedelta(days=1)} 00{found[2]}"
    except (ValueError, OverflowError):
        return word  # there is no such day


def _in_order(year: str, month: int, day: int, clock: str) -> str:
    """As text with the year first, the hour of 24."""
    if half := HALF_DAY.fullmatch(clock):
        hour = int(half[1]) % 12 + (12 if half[4] in "Pp" else 0)
        clock = f"{hour:02d}:{half[2] or '00'}:{half[3] or '00'}"
    elif signs := OTHER_SIGNS.fullmatch(clock):
        clock = f"{int(signs[1]):02d}:{signs[2] or '00'}"
    whole = int(year) if len(year) == 4 else _whole(int(year))
    return f"{whole:04d}-{month:02d}-{day:02d} {clock}".strip()


def _whole(year: int) -> int:
    """Of two digits."""
    if year > 99:
        raise ValueError(year)
    return year + (1900 if year >= 70 else 2000)
