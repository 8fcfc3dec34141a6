"""Floors and ceilings: values that readings pile up at and never pass, such as no rain, night, or saturated air.

A tail thins out towards its end, and a limit does the opposite: the last value is that of a share of all readings, and
of far more than the one beside it. What a sensor reads of such a quantity is

    r(x) = v  where x < (v + w) / 2,  and x elsewhere,

v the lowest value that was read and w the next one: readings between the two do not exist, whether because they were
rounded or because what lies below v counts as v. A ceiling is the floor of -x. Training readings alone decide.

Of a kind that is known to end at v a small share is enough; without any pile what lies beyond v is still v, unless
readings themselves pass it. Of others a large share is asked for, since a temperature that was written as 0 where
nothing was read looks alike, and winter is still to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..questions.record import Record
from ..readings.doctor.findings import limits_of

SHARE, SHARE_UNKNOWN = 0.01, 0.1  # of the readings, where the kind ends there, and elsewhere
STEEP = 2.0  # times as many readings as at the value beside it


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
    record: Record, readings: np.ndarray
) -> tuple[tuple[Limit | None, ...], tuple[Limit | None, ...], list[str]]:  # (C,) floors, (C,) ceilings, in words
    """Of each variable, by these (training) readings."""
    values, channel = record.values[readings].astype(np.float64), record.cells[readings] // record.grid.cells
    units = record.units or ("",) * len(record.variables)
    floors, ceilings, words = list[Limit | None](), list[Limit | None](), list[str]()
    for c, (variable, unit) in enumerate(zip(record.variables, units, strict=True)):
        mine, (low, high) = values[channel == c], limits_of(variable, unit)
        floor, below = floor_of(mine, low), floor_of(-mine, -high)
        ceiling = None if below is None else Limit(-below.value, -below.edge, below.share)
        floors.append(floor)
        ceilings.append(ceiling)
        words += _words(variable, (("lowest", "below", floor), ("highest", "above", ceiling)))
    return tuple(floors), tuple(ceilings), words


def _words(variable: str, ends: Sequence[tuple[str, str, Limit | None]]) -> list[str]:
    return [
        f"{variable}: {100 * limit.share:.0f} % of the readings are {limit.value:g}, the {end}: nothing {beyond} it is "
        "predicted"
        for end, beyond, limit in ends
        if limit is not None and limit.share > 0
    ]
