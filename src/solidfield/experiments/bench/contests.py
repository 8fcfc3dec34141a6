"""What living rivals are given and asked: three data sets by the splits of their own benches, as plain rows.

    kolkata   every fifth day tests, a tenth of the cells is held for ever (`bench/kolkata.py`); asked: of the test days
              all readings of held cells (`never read`) and one in five of the others (`gap`)
    era5      3 % of the cells are sensors in each hour, 3 % others targets (`datasets/era5.py`); of the test days only
              the sensors' readings are given, and 40 cells without one are asked each hour (`never read` in it)
    germany   each of the ten folds of stations (`bench/germany.py`) is a contest: all days of its stations are asked,
              from the others; one fold is seven stations, and would say more of them than of a model

All other readings are given, before, during and after what is asked: filling is what a field of (time, y, x) can be
fitted to. Forecasts are not compared, since two of the three rivals cannot be shown the readings of one more hour
without being fitted anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...clock import from_seconds, local
from ...keys import numpy_generator
from ...pairs.covariates import Covariates
from ...pairs.frames import Frames
from ...pairs.holdout import FIRST_DAY, Holdout
from ...pairs.records import record_of, record_recipe, set_aside
from ...questions.drawing import Plan
from ...questions.record import SPLITS, Record
from ..datasets import era5, germany, kolkata
from . import germany as german
from . import kolkata_day
from .kolkata import DAYS

HELD, GAPS = 0.1, 0.2  # of Kolkata's cells, for ever; of the other readings of test days
PER_HOUR = 40  # cells of ERA5
NEVER_READ, GAP = "never read", "gap"
TEST = SPLITS.index("test")


@dataclass(frozen=True)
class Contest:
    """Readings that may be known, and the places and times that are asked."""

    record: Record  # physical units; nothing that is asked
    frame: np.ndarray  # (n,) asked
    cell: np.ndarray  # (n,)
    truth: np.ndarray  # (n,) for the judge alone
    kind: np.ndarray  # (n,) of words
    group: np.ndarray  # (n,) int: readings that depend on each other, for error bars
    transform: str  # under which all models see the values
    plan: Plan  # what `solid` practises
    cycle: int | None  # frames in a day, where there are several
    about: dict[str, Any]  # units and credit


def kolkata_contest(folder: Path) -> Contest:
    frames, holdout = kolkata.read_kolkata(folder), replace(DAYS, sensors=HELD)
    everything = _record(frames, holdout)
    held = holdout.cells(np.isfinite(frames.values).any((0, 1)), frames.grid)["held_sensors"]
    away = held.ravel()[everything.cells]
    tests = everything.split[everything.frames] == TEST
    gap = tests & ~away & (numpy_generator(0, "gaps of a contest").random(len(away)) < GAPS)
    asked = np.flatnonzero((tests & away) | gap)
    frame = everything.frames[asked]
    return Contest(
        set_aside(everything.without(np.flatnonzero(away | gap))),
        frame,
        everything.cells[asked],
        everything.values[asked].astype(float),
        np.where(away[asked], NEVER_READ, GAP),
        _days(everything, frame, frames.timezone),
        "log",
        kolkata_day.PLAN,
        24,
        {"units": "ug/m3", "data": kolkata.CREDIT},
    )


def era5_contest(folder: Path) -> Contest:
    frames, source, target = era5.measured_era5(folder)
    holdout = Holdout(timezone=frames.timezone)
    test = holdout.splits(frames.times) == "test"
    given = replace(frames, values=np.where((test[:, None, None] & target)[:, None], np.nan, frames.values))
    record, draws = set_aside(_record(given, holdout)), numpy_generator(0, "cells of a contest")
    hours = np.flatnonzero(test)
    chosen = [draws.choice(np.flatnonzero(~source[hour].ravel()), PER_HOUR, replace=False) for hour in hours]
    frame, cell = np.repeat(hours, PER_HOUR), np.concatenate(chosen)
    dense = era5.dense_era5(folder).values.reshape(len(frames.times), -1)
    about = {"units": "K", "data": era5.CREDIT}
    words = np.full(len(frame), NEVER_READ)
    plan = Plan(before=4, after=4, outage=0.0, longest=4)  # sensors are others every hour: all targets are like unread
    truth, group = dense[frame, cell].astype(float), _days(record, frame, frames.timezone)
    return Contest(record, frame, cell, truth, words, group, "none", plan, 24, about)


def germany_contest(folder: Path, fold: int) -> Contest:  # from 1
    data = germany.read_germany(folder)
    away = german.fold_of(len(data.cells)) == fold - 1
    frame, station = np.nonzero(np.isfinite(data.values) & away)
    return Contest(
        set_aside(data.record(np.where(away, np.nan, data.values))),
        frame,
        data.cells[station],
        data.values[frame, station],
        np.full(len(frame), NEVER_READ),
        frame // 7,  # days of a week hang together
        "sqrt",  # some readings are zero
        german.PLAN,
        None,
        {"units": "ug/m3", "data": germany.CREDIT},
    )


def _record(frames: Frames, holdout: Holdout) -> Record:
    return record_of(frames, *record_recipe(frames, Covariates()), holdout)


def _days(record: Record, frame: np.ndarray, timezone: str | None) -> np.ndarray:
    times = local(from_seconds(record.start + record.step * frame), timezone or "UTC")
    return np.asarray((times.normalize() - FIRST_DAY) // pd.Timedelta(days=1))


GERMANY = {f"germany {fold}": partial(germany_contest, fold=fold) for fold in range(1, german.FOLDS + 1)}
CONTESTS: dict[str, Callable[[Path], Contest]] = {"kolkata": kolkata_contest, "era5": era5_contest, **GERMANY}
