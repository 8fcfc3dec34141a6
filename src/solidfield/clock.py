"""Instants: UTC inside, a local zone only where people's habits matter (hour of day, day of week, held-out days).

A zone is an IANA name ("Asia/Kolkata") or a fixed offset ("+05:30"). Times are datetime64[ns] in UTC; on disk they are
seconds since 1970.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from .errors import SolidError

EPOCH = "1970-01-01T00:00:00Z"  # what stores call their zero of time
OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")


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
        stamp = stamp.tz_localize(zone(name))
    return np.datetime64(stamp.tz_convert("UTC").tz_localize(None).as_unit("ns").to_datetime64())


def to_seconds(times: np.ndarray) -> np.ndarray:  # (...) datetime64 -> float64 since 1970
    return times.astype("datetime64[ns]").astype(np.int64) / 1e9


def from_seconds(seconds: np.ndarray) -> np.ndarray:  # (...) float64 since 1970 -> datetime64[ns]
    return np.round(np.asarray(seconds, dtype=np.float64) * 1e3).astype("datetime64[ms]").astype("datetime64[ns]")


def span(text: Any) -> float:  # seconds
    """How long "30min", "1h" or a number of seconds is.

    >>> span("30min"), span(3600)
    (1800.0, 3600.0)
    """
    try:
        length = float(text) if isinstance(text, int | float | np.number) else pd.Timedelta(text).total_seconds()
    except (ValueError, TypeError):
        raise SolidError(f"'{text}' is not a length of time; write it as 1h or 30min") from None
    if not length > 0:
        raise SolidError(f"a length of time must be positive, '{text}' is not; write it as 1h or 30min")
    return length
