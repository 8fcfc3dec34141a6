"""Readings at several levels of one place and time: depths of a mooring, heights of a mast, leads of a forecast.

A map is of one level. A mean over depths is a reading of none, and nothing in the frames would tell. Levels show in
the first rows: most share their place and time with others, and a column tells those apart that never says the same
twice at one place and time, and much the same at each. Its name tells whether it is a level or one of several
instruments, of which a mean may well be taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from .names import ALTITUDES, DEPTHS

NAMES = (*ALTITUDES, *DEPTHS, "height", "heightm", "z", "level", "lev", "layer", "lead", "leadtime", "leadhours",
         "horizon", "step")  # fmt: skip
AGAIN = 0.5  # share of the rows that share their place and time with others
COMMON = 0.8  # share of the places and times at which a level is usually read
SETS = 3  # places and times with several rows, below which they tell nothing
SHOWN = 6  # levels in a message


def repeated(shared: Sequence[np.ndarray]) -> np.ndarray:  # (n,) each -> (n,) bool
    """Rows that have all of this in common with another row; none where most rows have not."""
    again = pd.DataFrame(dict(enumerate(shared))).duplicated(keep=False).to_numpy()
    return again if again.sum() >= AGAIN * len(again) else np.zeros(len(again), bool)


def levels_of(
    shared: Sequence[np.ndarray],  # (n,) each: what rows of one place and time have in common
    columns: Mapping[str, np.ndarray],  # (n,) numbers by name
) -> tuple[str, np.ndarray] | None:  # the column, and its levels
    """What tells rows of one place and time apart.

    >>> hour, depth = np.repeat(np.arange(6), 3), np.tile([0.0, 5.0, 10.0], 6)
    >>> levels_of([hour], {"temp": np.arange(18.0), "depth": depth})
    ('depth', array([ 0.,  5., 10.]))
    """
    again = repeated(shared)
    rows = pd.DataFrame({number: part[again] for number, part in enumerate(shared)})
    at = rows.groupby(list(rows)).ngroup().to_numpy()
    sets = len(np.unique(at))
    for name, numbers in columns.items():
        level = numbers[again]
        if sets < SETS or np.isnan(level).any():
            continue
        different = np.unique(level)
        apart = not pd.DataFrame({"at": at, "level": level}).duplicated().any()
        if apart and len(level) >= COMMON * sets * len(different):
            return name, different
    return None


def words_of_levels(column: str, levels: np.ndarray) -> str:
    """
    >>> words_of_levels("depth", np.array([0.0, 5.0]))
    "rows of one place and time differ in 'depth' (0, 5)"
    """
    some = ", ".join(f"{level:g}" for level in levels[:SHOWN]) + (", ..." if len(levels) > SHOWN else "")
    return f"rows of one place and time differ in '{column}' ({some})"
