"""How the report calls things: regions, leads, distances, hours and amounts, the same in text, tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..scores.table import Score

REGIONS = {
    "all": "all held-out readings",
    "seen": "cells read in the source",
    "unseen": "cells not read in the source",
    "held_sensors": "held-out sensors",
    "held_blocks": "held-out blocks",
    "calibration_cells": "cells kept to learn how wide to be where nothing was read",
    "set_aside": "places kept unread to judge the map",
    "left_out": "sensors left out in turn",
    "gaps": "gaps in the records of known places",
    "known_places": "known places",
    "held_days": "new days at known places",
    "never_supervised": "cells that no training target taught",
    "sensors": "cells with a sensor",
    "targets": "measured cells without a sensor",
    "unobserved": "cells without a sensor",
    "grid": "every cell",
}
PLURAL = {"day": "days", "stretch": "stretches", "trajectory": "trajectories"}
SPANS = ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def lead_label(lead_time: float, dated: bool) -> str:
    """
    >>> lead_label(3600.0, True), lead_label(5400.0, True), lead_label(0.4, False)
    ('1 hour ahead', '1.5 hours ahead', '0.4 ahead')
    """
    if lead_time == 0:
        return "at the time of the readings"
    if not dated:
        return f"{lead_time:g} ahead"
    length, name = next(((s, n) for s, n in SPANS if lead_time >= s), (1.0, "second"))
    return f"{lead_time / length:g} {name}{'' if lead_time == length else 's'} ahead"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["at the time of the readings", "1 hour ahead", "3 hours ahead"]), listed(["1 hour ahead"])
    ('at the time of the readings, 1 hour and 3 hours ahead', '1 hour ahead')
    """
    *others, last = words
    later = [word.removesuffix(" ahead") if last.endswith(" ahead") else word for word in others]
    return f"{', '.join(later)} and {last}" if others else last


def amount(value: float, units: str) -> str:
    """
    >>> amount(0.12345, "K"), amount(1234.5, "Pa"), amount(2.0, "")
    ('0.123 K', '1230 Pa', '2')
    """
    return f"{float(f'{value:.3g}'):g} {units}".rstrip()


def labelled(name: str, units: str) -> str:
    return f"{name} [{units}]" if units else name


def of_unit(unit: str) -> str:
    """A unit behind a length; coordinates may have none.

    >>> f"0.3{of_unit('km')}, 0.3{of_unit('1')}"
    '0.3 km, 0.3'
    """
    return "" if unit == "1" else f" {unit}"


def group_of(holdout: Mapping[str, Any] | None) -> str:
    """What is held out as a whole: days, or shorter stretches of a short record."""
    return "day" if (holdout or {}).get("hours", 24) == 24 else "stretch"


def distance_label(low: float, high: float, unit: str) -> str:
    """
    >>> distance_label(0.0, 0.0, "km"), distance_label(1.0, 2.5, "km")
    ('at the sensors', '1 to 2.5 km from a sensor')
    """
    return "at the sensors" if high == 0 else f"{span(low, high, ' to ')}{of_unit(unit)} from a sensor"


def span(low: float, high: float, between: str = "-") -> str:
    """
    >>> span(85.2, 111.7), span(0.52, 0.524)
    ('85-110', '0.52')
    """
    ends = [f"{float(f'{end:.2g}'):g}" for end in (low, high)]  # two digits, and no exponent
    return ends[0] if ends[0] == ends[1] else between.join(ends)


def distinct(scores: Sequence[Score]) -> list[Score]:
    """Without the regions that hold the very cells of one before them, and so the same numbers."""
    return [
        score
        for place, score in enumerate(scores)
        if not any(score.cells == one.cells and score.metrics == one.metrics for one in scores[:place])
    ]


def percent(share: float, digits: int = 0) -> str:
    """
    >>> percent(0.256), percent(0.001), percent(0.8999, 1)
    ('26 %', 'less than 1 %', '90.0 %')
    """
    least = 10.0 ** -(digits + 2)
    return f"less than {100 * least:g} %" if 0 < share < least else f"{100 * share:.{digits}f} %"


def hours_label(hours: Iterable[int]) -> str:
    """
    >>> hours_label([1, 2, 3, 7])
    '01:00-03:59, 07:00-07:59'
    """
    return ", ".join(f"{first:02d}:00-{last:02d}:59" for first, last in runs(hours))


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Whole numbers that follow each other, as first and last.

    >>> runs([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
