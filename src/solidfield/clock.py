"""Instants: UTC inside, a local zone only where people's habits matter (hour of day, day of week, held-out days).

    frame k has the stamp t_k = phase + k every and covers
        [t_k, t_k + every)  ("floor")   or   [t_k - every / 2, t_k + every / 2)  ("round")

A zone is an IANA name ("Asia/Kolkata") or a fixed offset ("+05:30"). Times are datetime64[ns] in UTC; on disk they are
seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from .errors import SolidError

EPOCH = "1970-01-01T00:00:00Z"  # what stores call their zero of time
QUARTER = 900 * 10**9  # ns: offsets of time zones are multiples of it
CLOSE, SEVERAL, NEARLY_ALL, FEWEST = 0.1, 0.02, 0.98, 20  # of a step, shares of the times, and how many tell
SECONDS = {"ms": 1e-3, "s": 1, "sec": 1, "min": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
SHORTEST, LONGEST = 1e-3, 9.2e9  # seconds that a time step may last: a millisecond to 290 years
FIRST, LAST = np.datetime64("1678-01-01"), np.datetime64("2262-01-01")  # 64 bits count nanoseconds no further
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # ns: of times that need but a product
YEARS = "outside the years 1678 to 2261, which are all that times can count"


def zone(name: str) -> tzinfo:
    """
    >>> zone("+05:30").utcoffset(None)
    datetime.timedelta(seconds=19800)
    """
    name = name.strip()
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    offset = OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes = offset.groups()
        ahead = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if ahead >= timedelta(days=1):
            raise SolidError(f"no time zone is '{name}' from UTC; give an offset such as +05:30")
        return timezone(-ahead if sign == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SolidError(f"unknown time zone '{name}'; give a name such as Asia/Kolkata or an offset +05:30") from None


def local(
    times: np.ndarray,  # (T,) datetime64, UTC
    name: str,
) -> pd.DatetimeIndex:  # (T,) the local clock, without its zone
    return pd.DatetimeIndex(times).tz_localize("UTC").tz_convert(zone(name)).tz_localize(None)


def instant(text: Any, name: str = "UTC") -> np.datetime64:
    """One instant in UTC; a time that names no zone of its own is of the given one."""
    try:
        stamp = pd.Timestamp(text)
    except (ValueError, TypeError):
        raise SolidError(f"'{text}' is not a time; write it as 2024-01-15T08:00") from None
    if stamp is pd.NaT:
        raise SolidError("a time is missing; write it as 2024-01-15T08:00")
    if stamp.tzinfo is None:
        stamp = stamp.tz_localize(zone(name), ambiguous="NaT", nonexistent="NaT")
    if stamp is pd.NaT:
        raise SolidError(f"'{text}' does not exist or occurs twice in {name}; write its offset, as in 08:00+01:00")
    found = to_ns(np.atleast_1d(stamp.tz_convert("UTC").tz_localize(None).to_datetime64()))[0]
    if np.isnat(found):
        raise SolidError(f"'{text}' lies {YEARS}; check the year")
    return found


def to_ns(times: np.ndarray) -> np.ndarray:  # (...) datetime64 of any unit -> datetime64[ns]
    """In nanoseconds; NaT where these cannot count so far, and numpy would wrap into another century.

    >>> to_ns(np.array(["2024-01-15", "1500-01-01"], "M8[s]"))
    array(['2024-01-15T00:00:00.000000000',                           'NaT'],
          dtype='datetime64[ns]')
    """
    unit, step = np.datetime_data(times.dtype)
    if unit in UNITS and step == 1 and times.size:
        counts = times.view(np.int64)  # NaT is the lowest of all: it lies before FIRST
        first, last = (bound.astype(times.dtype).astype(np.int64) for bound in (FIRST, LAST))
        if counts.min() >= first and counts.max() < last:
            return (counts * UNITS[unit]).view("datetime64[ns]")  # ten times as fast as numpy's own conversion
    inside = (times >= FIRST) & (times < LAST)
    counted = times if inside.all() else np.where(inside, times, np.datetime64("NaT"))
    return counted.astype("datetime64[ns]")


def to_seconds(times: np.ndarray) -> np.ndarray:  # (...) datetime64 -> float64 since 1970
    return times.astype("datetime64[ns]").astype(np.int64) / 1e9


def from_seconds(seconds: np.ndarray) -> np.ndarray:  # (...) float64 since 1970 -> datetime64[ns]
    return np.round(np.asarray(seconds, dtype=np.float64) * 1e6).astype("datetime64[us]").astype("datetime64[ns]")


def as_text(time: np.datetime64, least: Literal["m", "s"] = "m") -> str:
    """A time in words, to the minute, or as much finer as it is.

    >>> as_text(np.datetime64("2024-05-01T00:00:00")), as_text(np.datetime64("2024-05-01T00:00:07.250", "ns"))
    ('2024-05-01T00:00', '2024-05-01T00:00:07.250')
    """
    plain = time == time.astype(f"datetime64[{least}]")
    return str(np.datetime_as_string(time, least if plain else "auto"))


def span(text: Any) -> float:  # seconds
    """How long "30min", "1h", "2 days" or a number of seconds is.

    >>> span("30min"), span("h"), span(3600), span("200ms")
    (1800.0, 3600.0, 3600.0, 0.2)
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)?\s*(ms|s|sec|min|h|hour|d|day)s?\s*", str(text))
    if isinstance(text, int | float | np.number):
        length = float(text)
    else:
        length = float(found[1] or 1) * SECONDS[found[2]] if found else 0.0
    if not SHORTEST <= length < LONGEST:
        raise SolidError(f"'{text}' is not a length of time; give a time step such as 30min, 1h or 1d")
    return length


def _on_both_sides(phases: np.ndarray) -> bool:  # (n,) in [0, 1)
    """Do times come a little before and after the beginning of a step, and hardly ever in its middle?

    >>> _on_both_sides(np.array([0.98, 0.01, 0.03, 0.99] * 5)), _on_both_sides(np.linspace(0, 0.99, 50))
    (True, False)
    """
    if len(phases) < FEWEST:
        return False
    before, after = float((phases > 1 - CLOSE).mean()), float((phases < CLOSE).mean())
    return min(before, after) > SEVERAL and before + after > NEARLY_ALL


@dataclass(frozen=True)
class Clock:
    """When frames are: a step, where it starts, and how readings fall into them.

    >>> hourly = Clock(3600 * 10**9)
    >>> hourly.index(np.array(["1970-01-01T02:59"], "M8[s]")), hourly.words
    (array([2]), '1h')
    """

    every: int  # ns
    phase: int = 0  # ns since 1970, of one of the stamps
    anchor: str = "floor"  # a frame begins at its stamp; or "round": it is centred on it

    def __post_init__(self) -> None:
        if self.anchor not in ("floor", "round"):
            raise SolidError(f"no anchor '{self.anchor}'; give floor or round")

    @classmethod
    def fitted(cls, every: int, anchor: str | None, times: np.ndarray) -> Clock:  # (n,) datetime64, or int64 ns
        """Stamps on multiples of the step in UTC, unless the times all stand at the same quarter of an hour.

        So hourly readings of a zone at +05:30 keep their stamps. Without an anchor frames begin at their stamps, unless
        the times lie close to these on both sides (9:59:57, 11:00:02): they are centred on them, then.
        """
        phases = times.astype("datetime64[ns]").astype(np.int64) % every
        distinct = np.unique(phases)
        common = len(distinct) == 1 and distinct[0] % QUARTER == 0
        around = anchor is None and _on_both_sides(phases / every)
        return cls(every, int(distinct[0]) if common else 0, anchor or ("round" if around else "floor"))

    @property
    def words(self) -> str:
        """The step as people write it: 30min, 1h, 1d."""
        seconds = self.every / 10**9
        for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
            if seconds % size == 0:
                return f"{seconds / size:g}{unit}"
        return f"{seconds:g}s"

    def index(self, times: np.ndarray) -> np.ndarray:  # (n,) datetime64, or int64 ns -> (n,) int64
        """The frame of each time."""
        shift = self.every // 2 if self.anchor == "round" else 0
        index = times.astype("datetime64[ns]", copy=False).view(np.int64) - (self.phase - shift)
        index //= self.every
        return index

    def stamps(self, index: np.ndarray) -> np.ndarray:  # (F,) -> (F,) datetime64[ns]
        return (index.astype(np.int64) * self.every + self.phase).astype("datetime64[ns]")

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, and the attributes of frames on disk."""
        return {"every_ns": self.every, "phase_ns": self.phase, "anchor": self.anchor}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Clock:
        return cls(int(plain["every_ns"]), int(plain["phase_ns"]), str(plain["anchor"]))
