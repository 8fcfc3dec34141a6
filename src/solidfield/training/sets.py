"""From frames to a trained model of sets: transform, record, questions, training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from ..clock import EPOCH
from ..config import TrainConfig
from ..engine import Progress
from ..grid import lengths
from ..keys import key
from ..models.solid_set import SolidSet
from ..pairs.covariates import Covariates, fit_recipe
from ..pairs.frames import Frames
from ..pairs.holdout import Holdout
from ..pairs.records import kept_readings, record_of, set_aside, without_held
from ..pairs.scaling import Scaling
from ..questions.drawing import Plan
from ..questions.record import Record
from .lessons import QuestionTask
from .loop import TrainResult, train_task

LEADS = tuple(range(1, 7))  # of forecasts, unless others are asked for
PACE = ("train.batch=256", "train.lr=2e-3")  # a question is one target, an example of pairs dozens
COMPARED = 2000  # held-out questions by which transforms are compared,
BRIEF = 0.25  # after such a share of the prior's fit each: which is best shows long before it has settled
LEVELS = np.arange(1, 20) / 20


def train_sets(
    frames: Frames,
    out: Path,
    config: TrainConfig,
    options: Mapping[str, Any],
    *,
    leads: tuple[int, ...],  # of forecasts
    transform: str | None,
    holdout: Holdout,
    covariates: Covariates | None,
    reading: Mapping[str, Any],
    say: Any,
    progress: Progress | None,
    resume: bool = False,
) -> TrainResult:
    """Train the model of sets on frames; one run fills, now-casts and forecasts."""
    plan = Plan(leads=leads, fill=0.5, now=0.25, ahead=0.25)
    told = replace(covariates or Covariates(), history=0.0)  # the record itself is the history
    holdout = replace(holdout, timezone=holdout.timezone or frames.timezone)
    plain = Scaling((0.0,) * len(frames.variables), (1.0,) * len(frames.variables))
    recipe, static = fit_recipe(told, frames.grid, frames.timezone, frames.times, frames.variables, plain)
    everything = record_of(frames, recipe, static, holdout)
    held = holdout.cells(np.isfinite(frames.values).any((0, 1)))
    record = set_aside(without_held(everything, held))
    about = {
        "epoch": EPOCH,
        "clock": frames.clock.as_dict(),
        "recipe": recipe.as_dict(),
        "holdout": holdout.as_dict(),
        "covariates": recipe.counts[0] + recipe.counts[1],
    }
    size = {"lengths": list(lengths(frames.grid)[0]), "frames": plan.reach}

    def task_of(transform: str) -> QuestionTask:
        scaling = Scaling.of_record(record, record.of_split("train"), (transform,) * len(record.variables))
        return QuestionTask(scaling.of_readings(record), scaling, plan, config, about, kept_readings(everything, held))

    if transform is None:
        transform, why = best_transform(record, task_of, size)
        say(why)
    task = task_of(transform)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(config.seed, "weights"))
        model = _model(record, size | dict(options))
    say(f"model: {model.label()}, {model.parameter_count() / 1e6:.2g} M parameters")
    return train_task(model, task, out, config, size | dict(options), resume, progress, reading=reading)


def _model(record: Record, options: Mapping[str, Any]) -> SolidSet:
    static = None if record.static is None else torch.from_numpy(record.static)
    depth = 0 if record.calendar is None else record.calendar.shape[1]
    return SolidSet(record.grid, len(record.variables), calendar=depth, static=static, **options)


def best_transform(
    record: Record, task_of: Callable[[str], QuestionTask], size: Mapping[str, Any]
) -> tuple[str, str]:  # and why, in words
    """The transform under which kriging predicts held-out readings best, in physical units."""
    low = float(record.values.min())
    candidates = ["none"] + (["sqrt"] if low >= 0 else []) + (["log"] if low > 0 else [])
    if len(candidates) == 1:
        return "none", "readings are modelled as they are: not all are positive"
    crps = {name: _prior_crps(record, task_of(name), size) for name in candidates}
    best = min(crps, key=lambda name: crps[name])
    scores = ", ".join(f"{name} {value:.3f}" for name, value in crps.items())
    return best, f"transform {best}: kriging predicts held-out readings best under it (CRPS {scores})"


@torch.no_grad()
def _prior_crps(record: Record, task: QuestionTask, size: Mapping[str, Any]) -> float:
    """Mean CRPS of the prior at held-out questions, over the standard deviation of the readings."""
    model = _model(record, size)
    with torch.enable_grad():
        task.prepare(model, brief=BRIEF)
    normal = torch.tensor([NormalDist().inv_cdf(p) for p in LEVELS])[:, None]
    total = 0.0
    for lesson in task.lessons(COMPARED, "transform"):
        channel = lesson.questions.asked_channel
        _, law, _ = model.laws(lesson.questions)
        q, y = (task.scaling.physical_of(v, channel) for v in (law.mean + law.std * normal, lesson.values))
        std = torch.tensor(task.scaling.physical_std)[channel]
        loss = 2 * ((q - y) * ((y <= q).float() - torch.from_numpy(LEVELS).float()[:, None])).abs().mean(0)
        total += float((loss / std).sum())
    return total / COMPARED
