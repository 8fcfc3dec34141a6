"""`solid bench kolkata-day`: interpolation within the day in Kolkata, by the protocol of AirShot.

Judged days are 4-37 and 42-62 counted from 1 December 2023. The rows of a day, (hour, cell) with a reading, fall into
five folds (a 5-fold shuffle, seed 0); four folds of the day and of the three days before it are given, the fifth is
predicted, and the score is

    RMSE = mean over (day, fold) of sqrt(mean over its rows of (prediction - reading)^2)

Beside ours stands what people really use: a forest of 100 trees on (time, lat, lon), fitted to those rows, as a
quantile forest. Our weights come from the seasons that are not judged (spring and autumn); what is known of the judged
winter is what the protocol gives, of which a question looks at eight hours on either side, and which tells how far
from kriging's and how wide laws are to be there (`prediction/at_hand.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...clock import local
from ...engine import Progress
from ...keys import numpy_generator
from ...models.solid_set import SolidSet
from ...pairs.covariates import Covariates
from ...pairs.frames import Frames
from ...pairs.records import record_of, record_recipe
from ...pairs.scaling import Scaling
from ...prediction.at_hand import recalibrated
from ...questions.drawing import Plan
from ...questions.record import Record
from ...report.trees import TREES, leaf_members
from ...scores.metrics import law_crps
from ..cell import Cell, Experiment, Place, Result
from ..datasets.airdelhi import FOLDS, fold_rows
from ..datasets.kolkata import CREDIT, read_kolkata
from ..text import Table, number
from ..trainer import one_thread, trained_on_questions
from .laws import held, laws_at, levels

FIRST = pd.Timestamp("2023-12-01")
DAYS = (*range(4, 38), *range(42, 63))  # counted from FIRST, the first of them 1
BEFORE = 3  # days whose readings are given, too
DRAWS = 1000  # of a forest's law, of which its quantiles are taken
ASKED = 500  # questions about given readings that tell how wide laws are to be in a winter that training never saw
PLAN = Plan(before=8, after=8, unread=0.5, outage=0.0, longest=12, sparse=0.3, sparse_unread=0.5)
KINDS = {"static and mobile": "", "static only": "Static"}  # which files
PUBLISHED = (  # mean RMSE with static and mobile sensors, with static ones alone; F: read off a figure, M: measured
    ("random forest of 100 trees on (time, lat, lon)", 4.0, 3.9, "F"),
    ("the same, re-run on 10 of the days", 3.90, None, "M"),
    ("non-stationary GP", 4.4, 4.5, "F"),
    ("XGBoost", 4.8, 4.6, "F"),
    ("inverse distance", 7.7, 5.0, "F"),
    ("GraphSAGE", 8.4, 7.8, "F"),
    ("mean", 15.9, 15.8, "F"),
)


@dataclass(frozen=True)
class KolkataDayCell(Cell):
    HOME = "kolkata-day"
    JUDGED = ("every",)
    WORDS = ("kind", "minutes", "seed")

    kind: str  # of KINDS
    minutes: float  # CPU time of one thread
    every: int  # of the judged days one in so many

    @property
    def words(self) -> tuple[str, ...]:
        return (*super().words, *((f"every{self.every}",) if self.every > 1 else ()))

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        rows = Rows.of(read_kolkata(place.files("kolkata"), KINDS[self.kind]))
        run = place.work / "runs" / self.run
        model, task, seconds = trained_on_questions(rows.taught, PLAN, run, self.minutes, self.seed, progress)
        with one_thread():
            laws: dict[str, list[np.ndarray]] = {"solid": [], "kriging": [], "forest": []}
            truth, group = [], []
            for day in DAYS[:: self.every]:
                for fold in range(FOLDS):
                    asked = rows.asked(day, fold)
                    if len(asked) == 0:
                        continue
                    for name, members in answers(rows, model, task.scaling, day, fold, self.seed).items():
                        laws[name].append(members)
                    truth.append(rows.everything.values[asked].astype(float))
                    group.append(np.full(len(asked), FOLDS * day + fold))
                if progress is not None:
                    progress("judging days", day, DAYS[-1])
        y, of = np.concatenate(truth), np.concatenate(group)
        found = {name: scores(np.concatenate(parts, 1), y, of) for name, parts in laws.items()}
        return {**found, "training_seconds": seconds, "credit": CREDIT}


@dataclass(frozen=True)
class Rows:
    """The rows of all seasons, and of the judged winter the day and the fold of each."""

    everything: Record  # physical units
    taught: Record  # of the other seasons, with their splits
    day: np.ndarray  # (R,) counted from FIRST, the first 1
    hour: np.ndarray  # (R,) since FIRST
    fold: np.ndarray  # (R,)

    @classmethod
    def of(cls, frames: Frames) -> Rows:
        record = record_of(frames, *record_recipe(frames, Covariates()))
        start = local(frames.times[:1], frames.timezone)[0]
        hours = (start - FIRST) / pd.Timedelta(hours=1) + np.arange(len(record))
        day = np.floor(hours / 24).astype(np.int64) + 1
        # Every tenth day of the other seasons validates; the winter is of the last split, which nothing trains on.
        split = np.where(day >= 1, 2, np.where(day % 10 == 0, 1, 0)).astype(np.int8)
        taught = replace(record, split=split).without(np.flatnonzero(day[record.frames] >= 1))
        fold = np.full(len(record.cells), -1)
        for one in np.unique(day[day >= 1]):
            mine = np.flatnonzero(day[record.frames] == one)  # in the order of hour and cell
            for part in range(FOLDS):
                fold[mine[fold_rows(len(mine), part)]] = part
        return cls(record, taught, day[record.frames], hours[record.frames], fold)

    def asked(self, day: int, fold: int) -> np.ndarray:  # (n,) positions
        return np.flatnonzero((self.day == day) & (self.fold == fold))

    def given(self, day: int, fold: int) -> np.ndarray:  # (n,) positions
        """Four folds of the day and of the three days before."""
        return np.flatnonzero((self.day >= day - BEFORE) & (self.day <= day) & (self.fold >= 0) & (self.fold != fold))


def answers(
    rows: Rows, model: SolidSet, scaling: Scaling, day: int, fold: int, seed: int
) -> dict[str, np.ndarray]:  # each (levels, n)
    """The laws of the rows of a fold of a day: ours, its prior's, and a quantile forest's."""
    record, asked, given = rows.everything, rows.asked(day, fold), rows.given(day, fold)
    away = np.ones(len(record.cells), bool)
    away[given] = False
    known = record.without(np.flatnonzero(away))
    window = known.window(int(record.frames[given].min()), int(record.frames[given].max()) + 1)
    model = recalibrated(model, scaling.of_readings(window), PLAN, asked=ASKED)
    laws = laws_at(model, scaling, known, record.frames[asked], record.cells[asked], PLAN)
    return laws | {"forest": _forest(rows, given, asked, numpy_generator(seed, "forest", day, fold))}


def _forest(rows: Rows, given: np.ndarray, asked: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    from sklearn.ensemble import RandomForestRegressor

    width = rows.everything.grid.shape[1]

    def told(at: np.ndarray) -> np.ndarray:  # (n, 3)
        cell = rows.everything.cells[at]
        return np.column_stack([rows.hour[at], cell // width, cell % width])

    values = rows.everything.values[given].astype(float)
    forest = RandomForestRegressor(TREES, random_state=0).fit(told(given), values)  # its defaults, as in the paper
    many = draws.random((DRAWS, len(asked)))
    drawn = leaf_members(forest, forest.apply(told(given)), values, told(asked), many)
    law = np.quantile(drawn, levels(), axis=0, method="hazen")
    return law + (forest.predict(told(asked)) - law.mean(0))  # the mean is the forest's own


def scores(law: np.ndarray, truth: np.ndarray, group: np.ndarray) -> dict[str, Any]:  # (levels, n), (n,), (n,)
    """The protocol's RMSE, and what a law is worth over all rows."""
    error = law.mean(0) - truth
    return {
        "rmse": mean_rmse(error, group),
        "rmse_of_all": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
        "crps": float(law_crps(law, truth).mean()),
        "coverage": float(held(law, truth).mean()),
        "rows": len(truth),
    }


def mean_rmse(error: np.ndarray, group: np.ndarray) -> float:  # (n,), (n,)
    """Root mean square of each group, then the mean over groups."""
    _, label = np.unique(group, return_inverse=True)
    return float(np.sqrt(np.bincount(label, error**2) / np.bincount(label)).mean())


def kolkata_day_cells(
    minutes: Annotated[float, "Training budget, CPU minutes on one thread."] = 5.0,
    every: Annotated[int, "Of the judged days one in so many; 1: all."] = 1,
    seeds: Annotated[int, "Trainings with other seeds."] = 1,
) -> list[Cell]:
    return [KolkataDayCell(kind, minutes, every, seed=seed) for kind in KINDS for seed in range(seeds)]


def tables(results: Sequence[Result]) -> list[Table]:
    header = ("Kolkata, within the day", "mean RMSE, ug/m3", "MAE", "CRPS", "90 % holds", "rows", "known how")
    made: list[Table] = []
    for place, kind in enumerate(KINDS):
        rows: list[tuple[str, ...]] = []
        for result in (result for result in results if result["cell"]["kind"] == kind):
            few = "" if result["cell"]["every"] == 1 else f", one day in {result['cell']['every']}"
            for name in ("solid", "kriging", "forest"):
                rows.append((f"{name}, seed {result['cell']['seed']}{few}", *_row(result[name]), "measured here"))
        if rows:
            theirs = [(name, (both, static)[place], how) for name, both, static, how in PUBLISHED]
            rows += [(name, number(rmse, 2, "-"), *["-"] * 4, how) for name, rmse, how in theirs]
            made.append(((f"{header[0]}, {kind}", *header[1:]), rows))
    return made


def _row(part: dict[str, Any]) -> tuple[str, ...]:
    numbers = (number(part[name], 2) for name in ("rmse", "mae", "crps"))
    return (*numbers, f"{100 * part['coverage']:.1f} %", f"{part['rows']:,}")


EXPERIMENT = Experiment(
    "kolkata-day",
    "PM2.5 within the day in Kolkata, by AirShot's protocol, beside a forest.",
    kolkata_day_cells,
    tables,
    reads=True,
    work="bench/kolkata-day",
)
