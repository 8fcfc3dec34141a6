"""Columns of numbers that are no readings, told by what they hold where no name gives them away.

A column of numbers is a variable unless its name says otherwise (`names.py`), in the languages that the names are in.
What never changes at any place, through many readings, is the number of a station, its height, the length of a mast:
it says where, not what. It would be modelled as a field, and judged as one that is easy to predict. Numbers of stations
that share a cell change there with whoever reads, so a few places may change where all others have a number of their
own. What rises by one from row to row is the number of the row. Whole numbers of which none comes twice at any time,
while all come again and again, are those of sensors, and these may move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from .accumulate import Cube

AGAIN = 30  # readings of places that were read before, below which staying the same says little
ROWS = 20  # that are counted up by one, from which on they are numbered
BESIDE, AGAIN_EACH = 3, 5  # readings of one time, of one sensor: fewer do not tell who reads
STAYING = 0.9  # share of the places that stay the same, and of these that have a number of their own


def says_where(low: np.ndarray, high: np.ndarray, count: np.ndarray) -> bool:  # (P,) each
    """Does a column stay the same at its places? By its ends and its number of readings at each.

    >>> mast, pm = np.array([2.0, 2.0, 10.0]), np.array([41.0, 17.0, 88.0])
    >>> says_where(mast, mast, np.full(3, 50)), says_where(mast, pm, np.full(3, 50)), says_where(mast, mast, np.ones(3))
    (True, False, False)
    """
    several = count > 1
    if several.sum() < 2 or (count[several] - 1).sum() < AGAIN:
        return False
    still = low[several] == high[several]
    own = len(np.unique(low[several][still]))
    return bool(still.all() or (still.mean() >= STAYING and own >= STAYING * still.sum()))


def counts_rows(values: np.ndarray) -> bool:  # (n,) of the first rows
    """Does a column count them?

    >>> counts_rows(np.arange(7.0, 99.0)), counts_rows(np.arange(0.0, 200.0, 2.0)), counts_rows(np.arange(5.0))
    (True, False, False)
    """
    return len(values) >= ROWS and bool((np.diff(values) == 1).all())


def names_sensors(values: np.ndarray, time: np.ndarray, y: np.ndarray, x: np.ndarray) -> bool:  # (n,) each
    """Does a column of whole numbers tell apart what is read at one time at several places, and come again and again?

    >>> hour, track = np.repeat(np.arange(9), 5), np.tile(np.arange(5.0), 9)
    >>> names_sensors(track, hour, track, track), names_sensors(np.round(track**2 / 9), hour, track, track)
    (True, False)
    """
    if len(values) == 0 or not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        return False
    parts = {"time": time, "y": y, "x": x, "value": values}
    rows = pd.DataFrame({name: np.asarray(part) for name, part in parts.items()})  # whatever their indices
    beside = rows.groupby("time")["value"].transform("size") >= BESIDE
    apart = not rows.duplicated(["time", "value"]).any() and not rows.duplicated(["time", "y", "x"]).any()
    return bool(apart and beside.mean() >= STAYING and AGAIN_EACH * rows["value"].nunique() <= len(rows))


def staying(cube: Cube) -> np.ndarray:  # (V,) bool
    """Which variables of frames say where and not what; none where that would leave nothing."""
    found = np.zeros(cube.mean.shape[1], bool)
    for v in range(len(found)):
        values = cube.mean[:, v]
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        found[v] = says_where(low.ravel(), high.ravel(), np.isfinite(values).sum(0).ravel())
    return np.zeros_like(found) if found.all() else found


def without(cube: Cube, away: np.ndarray) -> Cube:  # (V,) bool
    """The frames without some of their variables."""
    error = None if cube.error is None else cube.error[:, ~away]
    return replace(
        cube, count=cube.count[:, ~away], mean=cube.mean[:, ~away], spread=cube.spread[:, ~away], error=error
    )


def left_out(names: Sequence[str], columns: Sequence[str]) -> str:
    """What is said of variables that were left out, among all columns of readings."""
    return (
        f"{', '.join(names)}: the same at every place at all times, as its number or one of its properties would be "
        f"and a reading would not, so left out; --columns value={'+'.join(columns)} reads all the same"
    )
