"""What the first rows of a table give away: times without a zone, lengths that may be degrees, several depths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..clock import zone
from ..errors import SolidError
from .levels import NAMES as LEVELS
from .levels import levels_of, repeated, words_of_levels
from .names import plain
from .parts import Part, read_head
from .records import Batch, Rows
from .rows import time_column, to_numbers
from .times import to_utc

NEARBY = 7.0  # coordinates up to here may well be metres of a laboratory, or a box of side 2 pi


def refuse_levels(part: Part, rows: Rows, note: Callable[[str], None]) -> None:
    """A map is of one depth or height: a table of several is refused. Of several instruments the mean is taken."""
    columns, source = part.columns, part.source
    shared = [rows.time, rows.y, rows.x, *np.isfinite(rows.values).T]  # quantities with a row each are no levels
    if not repeated(shared).any():
        return
    roles = (*columns.time.split("+"), columns.y, columns.x, columns.sensor)
    names = [header.name for header in source.headers if header.numeric and header.name not in roles]
    head = read_head(source, columns, names)
    sound = np.zeros(0, bool) if head is None else np.isin(head.row, rows.row)
    if head is None or sound.sum() != len(rows):  # a wide table has many readings of one line
        return
    found = levels_of(shared, {name: to_numbers(head.data[name], head.decimal)[0][sound] for name in names})
    if found is None:
        return
    column, words = found[0], words_of_levels(*found)
    if plain(column) not in LEVELS:
        note(f"{words}: their mean is taken, as of several instruments")
        return
    value = next((name for name in columns.values if name != column), "NAME")
    raise SolidError(
        f"{source.name}: {words}, and a map is of one of them: keep the rows of one, or read each as a variable "
        f"of its own (--columns parameter={column},value={value})"
    )


def like_degrees(y: np.ndarray, x: np.ndarray) -> bool:  # (n,)
    """Could these be latitudes and longitudes, of a place that is not where both are zero?"""
    far = max(float(np.abs(y).max()), float(np.abs(x).max())) > NEARBY
    return far and bool((np.abs(y) <= 90).all() and (np.abs(x) <= 180).all() and (y % 1 != 0).any())


def without_offset(batch: Batch, part: Part) -> bool:
    """Would naming a time zone change these times? Then they have none of their own."""
    column = time_column(batch, part.columns)
    once, again = (to_utc(column, form)[0] for form in (part.form, replace(part.form, zone=zone("+01:00"))))
    return not np.array_equal(once, again, equal_nan=True)
