"""`solid bench aqi36`: filling the gaps of 36 stations in Beijing by the protocol of the imputation papers.

    gaps      judged: 20,434 readings of months 3, 6, 9 and 12 that are in `ground` and not in `missing`; given: the
              readings of `missing` of the same month, before and after
    unread    (asked for: `--unread`) six folds of six stations: a fold's stations are never read, neither in training
              nor when their judged months are asked for; all other readings are given. Quantiles are those of the
              laws, of the model as of kriging, and not of members

    CRPS = sum_p 2 sum |(q_p - y)(1[y <= q_p] - p)| / (19 sum |y|),   p = 0.05, 0.10 ... 0.95, q_p of the members

in ug/m3, and the MAE of the members' median, as in CSDI (Tashiro et al. 2021) and PriSTI (Liu et al. 2023). Beside the
model stands its own prior, kriging in space and time with the same readings, its intervals calibrated in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch

from ...engine import Progress
from ...models.solid_set import SolidSet
from ...models.stretch import KINDS
from ...pairs.records import set_aside
from ...prediction.answer import Scene, answer
from ...questions.asking import Questions
from ...questions.drawing import Plan
from ...questions.record import Record
from ...scores.calibration import coverage
from ...training.lessons import QuestionTask
from ..cell import Cell, Experiment, Place, Result
from ..datasets.aqi36 import AQI36, CREDIT, read_aqi36
from ..text import Table, number
from ..trainer import one_thread, trained_on_questions
from .laws import latents, physical, questions_about

LEVELS = np.arange(1, 20) / 20
GAPS = {"1 h": (1, 1), "2-6 h": (2, 6), "7-24 h": (7, 24), "longer": (25, 10**6)}
FOLDS = 6
HOURS = 24  # of the members' joint draws: a scene is a day
PLAN = Plan()
PLANS = {"gaps": replace(PLAN, unread=0.05, as_was=0.8)}  # a run that fills alone practises to fill, ...
UNREAD = replace(PLAN, unread=0.5)  # ... one that is asked about unread places, to be asked about them
PUBLISHED = (  # model, MAE, CRPS, how it is known: S second-hand, K quoted from memory of the paper
    ("CoFILL 2025", 8.70, None, "S"),
    ("PriSTI, ICDE 2023", 9.03, 0.0997, "S, K"),
    ("CSDI, NeurIPS 2021", 9.51, 0.1056, "S, K"),
    ("GRIN", 12.08, None, "S"),
)


@dataclass(frozen=True)
class Aqi36Cell(Cell):
    HOME = "aqi36"
    JUDGED = ("members",)
    WORDS = ("part", "minutes", "seed")

    part: str  # "gaps", "unread 1" .. "unread 6"
    minutes: float  # CPU time of one thread
    members: int

    @property
    def sheet(self) -> str:
        return "aqi36" if self.part == "gaps" else "aqi36-unread"

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        data = read_aqi36(place.data)
        away = np.zeros(data.ground.shape[1], bool)
        given, asked = data.missing, data.asked
        if self.part != "gaps":
            away = np.arange(len(away)) % FOLDS == int(self.part.split()[1]) - 1
            given, asked = data.ground, np.isfinite(data.ground) & (data.split == 2)[:, None] & away
        known = np.where((data.split < 2)[:, None], data.ground, given)
        record = data.record(np.where(away, np.nan, known))
        if self.part != "gaps":  # gaps are at places that training knows
            record = set_aside(record)
        run, plan = place.work / "runs" / self.run, PLANS.get(self.part, UNREAD)
        model, task, seconds = trained_on_questions(record, plan, run, self.minutes, self.seed, progress)
        with one_thread():
            found = judged(data, model, task, asked, self.members if self.part == "gaps" else 0, self.seed)
        return found | {"training_seconds": seconds}


def judged(
    data: AQI36,
    model: SolidSet,
    task: QuestionTask,
    asked: np.ndarray,  # (T, 36) bool
    members: int,  # whose quantiles are scored; 0: those of the laws
    seed: int,
) -> Result:
    """Scores of the model and of its prior at all judged readings."""
    record, scaling, grid = task.record, task.scaling, data.grid
    frame, station = np.nonzero(asked)
    truth = data.ground[frame, station]
    cell = data.cells[station]
    begin = time.process_time()
    drawn = None
    if members:
        drawn = np.empty((members, len(frame)))
        day = data.month[frame] * 10_000 + frame // HOURS
        for number_, scene in enumerate(np.unique(day)):
            mine = np.flatnonzero(day == scene)
            asks = Scene.filling(frame[mine], cell[mine], PLAN.before, PLAN.after)
            drawn[:, mine] = answer(model, record, asks, members, seed, number_, as_read=True)
        drawn = physical(scaling, drawn)
        own = np.quantile(drawn, LEVELS, axis=0)
    else:
        own = physical(scaling, quantiles(model.quantiles, record, frame, cell))
    seconds = time.process_time() - begin
    prior = physical(scaling, quantiles(model.prior_quantiles, record, frame, cell))
    length = gap_lengths(np.isfinite(data.missing), frame, station)
    return {
        "solid": scores(own, truth, length, drawn),
        "kriging": scores(prior, truth, length),
        "readings": len(truth),
        "sampling_seconds": seconds,
        "grid": list(grid.shape),
        "weights": sum(p.numel() for p in (*model.encoder.parameters(), *model.law.parameters())),
        "stretch": dict(zip(KINDS, model.stretch[0].tolist(), strict=True)),
        "credit": CREDIT,
    }


def quantiles(
    of: Callable[[Questions, torch.Tensor], torch.Tensor], record: Record, frame: np.ndarray, cell: np.ndarray
) -> np.ndarray:  # (19, n)
    """Of laws that answer questions at normal latents; standardised."""
    parts = [of(some, latents(LEVELS)) for some in questions_about(record, frame, cell, PLAN, 512)]
    return torch.cat(parts, 1).double().numpy()


def gap_lengths(given: np.ndarray, frame: np.ndarray, station: np.ndarray) -> np.ndarray:  # (n,) hours
    """How long each judged reading's station goes unread around it."""
    hours = np.arange(len(given))[:, None]
    before = np.maximum.accumulate(np.where(given, hours, -1), axis=0)
    after = np.minimum.accumulate(np.where(given, hours, len(given))[::-1], axis=0)[::-1]
    return (after - before - 1)[frame, station]


def scores(
    values: np.ndarray,  # (19, n) quantiles
    truth: np.ndarray,  # (n,)
    length: np.ndarray,  # (n,)
    members: np.ndarray | None = None,  # (K, n) where the quantiles are theirs: fewer are beyond those than they say
) -> dict[str, Any]:
    """The protocol's scores and the coverage of 90 % intervals, of all and by length of gap."""

    def of(rows: np.ndarray) -> dict[str, float]:
        q, y = values[:, rows], truth[rows]
        return {
            "crps": published_crps(q, y),
            "mae": float(np.abs(q[9] - y).mean()),
            "coverage": float(
                ((y >= q[0]) & (y <= q[18])).mean() if members is None else coverage(members[:, rows], y, 0.9)
            ),
            "readings": int(rows.sum()),
        }

    bins = {name: (length >= low) & (length <= high) for name, (low, high) in GAPS.items()}
    every = np.ones(len(truth), bool)
    return of(every) | {"by_gap": {name: of(rows) for name, rows in bins.items() if rows.any()}}


def published_crps(values: np.ndarray, truth: np.ndarray) -> float:  # (19, n), (n,)
    """The normalised quantile loss of the head of this file."""
    loss = 2 * np.abs((values - truth) * ((truth <= values) - LEVELS[:, None]))
    return float(loss.sum() / (len(LEVELS) * np.abs(truth).sum()))


def aqi36_cells(
    minutes: Annotated[float, "Training budget, CPU minutes on one thread."] = 25.0,
    members: Annotated[int, "Of each ensemble."] = 100,
    seeds: Annotated[int, "Trainings with other seeds."] = 1,
    unread: Annotated[bool, "Six folds of six stations that are never read, instead of the gaps."] = False,
) -> list[Cell]:
    parts = [f"unread {fold + 1}" for fold in range(FOLDS)] if unread else ["gaps"]
    return [Aqi36Cell(part, minutes, members, seed=seed) for part in parts for seed in range(seeds)]


def tables(results: Sequence[Result]) -> list[Table]:
    header = ("AQI-36", "CRPS", "MAE, ug/m3", "90 % holds", "known how")
    rows: list[tuple[str, ...]] = [
        (f"{name}, {result['cell']['part']}, seed {result['cell']['seed']}", *_row(result[model]), "measured here")
        for result in results
        for name, model in (("solid, sets", "solid"), ("kriging in space and time", "kriging"))
    ]
    of_gaps = [result for result in results if result["cell"]["part"] == "gaps"]
    if not of_gaps:  # what others published is about gaps
        folds = (("solid, sets", "solid"), ("kriging in space and time", "kriging"))
        rows += [(f"{name}, all folds", *_row(over_folds(results, model)), "measured here") for name, model in folds]
        return [(header, rows)]
    rows += [(name, number(crps, 4, "-"), number(mae, 2), "-", how) for name, mae, crps, how in PUBLISHED]
    gaps: list[tuple[str, ...]] = [
        (f"{result['cell']['part']}, {name}", *_row(part), f"{part['readings']:,} readings")
        for result in of_gaps
        for name, part in result["solid"]["by_gap"].items()
    ]
    return [(header, rows), (("gaps of", "CRPS", "MAE, ug/m3", "90 % holds", ""), gaps)]


def over_folds(results: Sequence[Result], model: str) -> dict[str, float]:
    """Means over all readings of all folds; of the CRPS, which is relative to the readings, the mean of the folds'."""
    count = [result["readings"] for result in results]
    found = {name: np.average([r[model][name] for r in results], weights=count) for name in ("mae", "coverage")}
    return found | {"crps": float(np.mean([result[model]["crps"] for result in results]))}


def _row(part: dict[str, Any]) -> tuple[str, str, str]:
    return number(part["crps"], 4), number(part["mae"], 2), f"{100 * part['coverage']:.1f} %"


EXPERIMENT = Experiment(
    "aqi36", "Gaps of 36 stations in Beijing, by the protocol of published tables.", aqi36_cells, tables, reads=True
)
