"""Floors and ceilings: values that readings pile up at and never pass, such as no rain, night, or saturated air.

A tail thins out towards its end, and a limit does the opposite: the last value is that of a share of all readings, and
of far more than the one beside it. What a sensor reads of such a quantity is

    r(x) = v  where x < (v + w) / 2,  and x elsewhere,

v the lowest value that was read and w the next one: readings between the two do not exist, whether because they were
rounded or because what lies below v counts as v. A ceiling is the floor of -x. Training readings alone decide.

Of a kind that is known to end at v, or of which the user says so (`within`), a small share is enough; without any pile
what lies beyond v is still v, unless readings themselves pass it. Of others a large share is asked for, since a
temperature that was written as 0 where nothing was read looks alike, and winter is still to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ..errors import SolidError
from ..questions.record import Record
from ..readings.doctor.findings import limits_of

SHARE, SHARE_UNKNOWN = 0.01, 0.1  # of the readings, where the kind ends there, and elsewhere
STEEP = 2.0  # times as many readings as at the value beside it


Within: TypeAlias = Mapping[str, tuple[float | None, float | None]]  # by variable, "*" of the one there is


class Limit(NamedTuple):
    value: float  # what is read
    edge: float  # beyond which it is read, towards the limit
    share: float  # of the readings; 0: known of the kind alone


def floor_of(values: np.ndarray, own: float = -np.inf) -> Limit | None:  # (n,)
    """The value that these readings pile up at and never go below; `own` is where the kind of quantity ends.

    >>> floor_of(np.array([0.0] * 8 + [0.2, 0.5, 1.5]))
    Limit(value=0.0, edge=0.1, share=0.7272727272727273)
    >>> floor_of(np.arange(20.0)), floor_of(np.zeros(5)), floor_of(np.arange(3.0, 20.0), own=0.0)
    (None, None, Limit(value=0.0, edge=0.0, share=0.0))
    """
    found, counts = np.unique(values, return_counts=True)
    if len(found) < 3:  # yes and no pile up at either end
        return None
    value, share = float(found[0]), float(counts[0] / len(values))
    if share < (SHARE if value == own else SHARE_UNKNOWN) or counts[0] < STEEP * counts[1]:
        return Limit(own, own, 0.0) if np.isfinite(own) and own <= value else None
    return Limit(value, float((found[0] + found[1]) / 2), share)


def limits_of_record(
    record: Record, readings: np.ndarray, given: Within | None = None
) -> tuple[tuple[Limit | None, ...], tuple[Limit | None, ...], list[str]]:  # (C,) floors, (C,) ceilings, in words
    """Of each variable, by these (training) readings and, where the user knows more, by `given`."""
    values, channel = record.values[readings].astype(np.float64), record.cells[readings] // record.grid.cells
    units = record.units or ("",) * len(record.variables)
    floors, ceilings, words = list[Limit | None](), list[Limit | None](), list[str]()
    for c, (variable, unit) in enumerate(zip(record.variables, units, strict=True)):
        mine, (low, high) = values[channel == c], limits_of(variable, unit)
        if given and (ends := given.get(variable, given.get("*"))):
            low, high = (-np.inf if ends[0] is None else ends[0]), (np.inf if ends[1] is None else ends[1])
            _check_given(variable, mine, low, high)
        floor, below = floor_of(mine, low), floor_of(-mine, -high)
        ceiling = None if below is None else Limit(-below.value, -below.edge, below.share)
        floors.append(floor)
        ceilings.append(ceiling)
        words += _words(variable, (("lowest", "below", floor), ("highest", "above", ceiling)))
    return tuple(floors), tuple(ceilings), words


def _check_given(variable: str, values: np.ndarray, low: float, high: float) -> None:
    beyond = values[(values < low) | (values > high)]
    if len(beyond):
        raise SolidError(
            f"{len(beyond):,} readings of {variable} lie outside {low:g}..{high:g}, such as {beyond[0]:g}; widen "
            "--within, or drop them (--drop-above, --drop-below)"
        )


def parse_within(text: str | None) -> dict[str, tuple[float | None, float | None]] | None:
    """What --within says: of the one variable there is, or of each by name.

    >>> parse_within("0..100"), parse_within("pm=0..,t=-60..50")
    ({'*': (0.0, 100.0)}, {'pm': (0.0, None), 't': (-60.0, 50.0)})
    """
    if text is None:
        return None
    found = {}
    for part in text.split(","):
        name, _, ends = part.rpartition("=")
        low, dots, high = ends.partition("..")
        try:
            pair = (float(low) if low.strip() else None, float(high) if high.strip() else None)
        except ValueError:
            dots = ""
        if not dots:
            raise SolidError(f"--within {text}: '{part}' is no range; write 0..100, 0.. or humidity=0..100")
        found[name.strip() or "*"] = pair
    return found


def check_within(given: Within, variables: Sequence[str]) -> None:
    """Names that are there, and ends in their order."""
    for name, (low, high) in given.items():
        if name not in variables and (name != "*" or len(variables) > 1):
            named = "the variable" if name == "*" else f"'{name}'"
            raise SolidError(f"within names {named}, the variables are {', '.join(variables)}; name one of them")
        if not (-np.inf if low is None else low) < (np.inf if high is None else high):
            raise SolidError(f"within {low}..{high} holds nothing; give the lower end first")


def _words(variable: str, ends: Sequence[tuple[str, str, Limit | None]]) -> list[str]:
    return [
        f"{variable}: {100 * limit.share:.0f} % of the readings are {limit.value:g}, the {end}: nothing {beyond} it is "
        "predicted"
        for end, beyond, limit in ends
        if limit is not None and limit.share > 0
    ]
