"""`solid bench germany`: PM10 at stations left out, beside the kriging of gstat; the home ground of kriging.

Leave one station out: all its days are predicted from the other stations, before, on and after each day. Weights and
covariances are learned in ten folds of stations: a fold's stations are neither read nor asked about in training; each
of them is then predicted from all other 68. RMSE and MAE are of one prediction, the mean of the law, over all readings:

    RMSE = sqrt(mean over stations and days of (prediction - reading)^2),      MAE likewise without the square

as in Graeler, Pebesma and Heuvelink (2016). Beside the model stands its prior, kriging in space and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ...engine import Progress
from ...keys import numpy_generator
from ...pairs.records import set_aside
from ...questions.drawing import Plan
from ...scores.metrics import law_crps
from ..cell import Cell, Experiment, Place, Result
from ..datasets.germany import CREDIT, read_germany
from ..text import Table, number
from ..trainer import one_thread, trained_on_questions
from .laws import held, laws_at

FOLDS = 10
PLAN = Plan(before=4, after=4, unread=0.9, outage=0.0, longest=8, sparse_unread=0.3)  # asked for: unread places
PUBLISHED = (  # gstat with 50 neighbours: RMSE, MAE; V: read in the authors' repository
    ("gstat, separable", 6.05, 4.04, "V"),
    ("gstat, product-sum", 6.05, 4.04, "V"),
    ("gstat, metric", 6.07, 4.08, "V"),
    ("gstat, pure spatial", 6.10, 4.07, "V"),
    ("gstat, sum-metric", 6.14, 4.09, "V"),
)


@dataclass(frozen=True)
class GermanyCell(Cell):
    HOME = "germany"
    JUDGED = ()
    WORDS = ("fold", "minutes", "seed")

    fold: int  # from 1
    minutes: float  # CPU time of one thread

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        data = read_germany(place.files("germany"))
        away = fold_of(len(data.cells)) == self.fold - 1
        record = set_aside(data.record(np.where(away, np.nan, data.values)))
        run = place.work / "runs" / self.run
        model, task, seconds = trained_on_questions(record, PLAN, run, self.minutes, self.seed, progress)
        with one_thread():
            station, frame = np.nonzero(np.isfinite(data.values.T) & away[:, None])
            everything = data.record(data.values)  # each station is asked about with its own record hidden
            laws = laws_at(model, task.scaling, everything, frame, data.cells[station], PLAN, unread=True)
        truth = data.values[frame, station]
        found = {name: sums(law, truth) for name, law in laws.items()}
        return {**found, "training_seconds": seconds, "credit": CREDIT}


def fold_of(stations: int) -> np.ndarray:  # (stations,)
    """A fold for each station, of equal size but for one."""
    return numpy_generator(0, "german folds").permutation(stations) % FOLDS


def sums(law: np.ndarray, truth: np.ndarray) -> dict[str, float]:  # (levels, n), (n,)
    """What can be added over folds."""
    error = law.mean(0) - truth
    return {
        "readings": len(truth),
        "square": float((error**2).sum()),
        "absolute": float(np.abs(error).sum()),
        "crps": float(law_crps(law, truth).sum()),
        "inside": float(held(law, truth).sum()),
    }


def pooled(results: Sequence[Result], name: str) -> dict[str, float]:
    """The protocol's scores over all folds of a seed."""
    total = {part: sum(result[name][part] for result in results) for part in results[0][name]}
    n = total["readings"]
    means = {"mae": total["absolute"] / n, "crps": total["crps"] / n, "coverage": total["inside"] / n}
    return {"rmse": (total["square"] / n) ** 0.5, **means, "readings": n}


def germany_cells(
    minutes: Annotated[float, "Training budget of a fold, CPU minutes on one thread."] = 1.0,
    seeds: Annotated[int, "Trainings with other seeds."] = 1,
) -> list[Cell]:
    return [GermanyCell(fold + 1, minutes, seed=seed) for seed in range(seeds) for fold in range(FOLDS)]


def tables(results: Sequence[Result]) -> list[Table]:
    header = ("Germany, stations left out", "RMSE, ug/m3", "MAE", "CRPS", "90 % holds", "readings", "known how")
    rows: list[tuple[str, ...]] = []
    for seed in sorted({result["cell"]["seed"] for result in results}):
        mine = [result for result in results if result["cell"]["seed"] == seed]
        part = "" if len(mine) == FOLDS else f", {len(mine)} of {FOLDS} folds"
        for name, words in (("solid", "solid, sets"), ("kriging", "its prior, kriging in space and time")):
            row = pooled(mine, name)
            rows.append((f"{words}, seed {seed}{part}", *_row(row), f"{row['readings']:,}", "measured here"))
    rows += [(name, number(rmse, 2), number(mae, 2), "-", "-", "-", how) for name, rmse, mae, how in PUBLISHED]
    return [(header, rows)]


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return number(row["rmse"], 2), number(row["mae"], 2), number(row["crps"], 2), f"{100 * row['coverage']:.1f} %"


EXPERIMENT = Experiment(
    "germany",
    "PM10 at stations left out, beside gstat's kriging.",
    germany_cells,
    tables,
    reads=True,
    work="bench/germany",
)
