"""From frames to a trained model of sets: transform, record, questions, training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..clock import EPOCH
from ..config import TrainConfig
from ..engine import Progress
from ..grid import lengths
from ..keys import initial_weights
from ..models.solid_set import SolidSet
from ..pairs.covariates import Covariates
from ..pairs.frames import Frames
from ..pairs.holdout import Holdout
from ..pairs.limits import Within, check_within, limits_of_record
from ..pairs.records import kept_readings, record_of, record_recipe, set_aside, without_held
from ..pairs.scaling import Scaling
from ..questions.drawing import Plan
from ..questions.record import Record
from ..readings.doctor.findings import may_be_negative
from .lessons import QuestionTask
from .loop import TrainResult, train_task

LEADS = tuple(range(1, 7))  # of forecasts, unless others are asked for
# A question is one target, an example of pairs dozens.
PACE = ("train.batch=256", "train.lr=2e-3", "train.optimiser='muon'")
SMOKE = ("train.batch=64", *PACE[1:])  # of the preset that asks whether everything runs
COMPARED = 2000  # held-out questions by which transforms are compared,
BRIEF = 0.25  # after such a share of the prior's fit each: which is best shows long before it has settled
MARGIN = 0.01  # of the CRPS, by which a transform must be better than none: it forbids what lies below zero
LEVELS = np.arange(1, 20) / 20


def train_sets(
    frames: Frames,
    out: Path,
    config: TrainConfig,
    options: Mapping[str, Any],
    *,
    leads: tuple[int, ...],  # of forecasts
    holdout: Holdout,
    within: Within | None = None,  # values that can be, where the user says
    transform: str | None = None,  # None: the one under which kriging predicts best
    covariates: Covariates | None = None,
    reading: Mapping[str, Any] | None = None,  # how a table was read, for the run to remember
    say: Callable[[str], None] = lambda words: None,
    progress: Progress | None = None,
    resume: bool = False,
) -> TrainResult:
    """Train the model of sets on frames; one run fills, now-casts and forecasts."""
    plan = Plan(leads=leads, fill=0.5, now=0.25, ahead=0.25)
    holdout = replace(holdout, timezone=holdout.timezone or frames.timezone)
    recipe, static = record_recipe(frames, covariates or Covariates())
    everything = record_of(frames, recipe, static, holdout)
    held = holdout.cells(np.isfinite(frames.values).any((0, 1)), frames.grid)
    record = set_aside(without_held(everything, held))
    about = {
        "epoch": EPOCH,
        "clock": frames.clock.as_dict(),
        "recipe": recipe.as_dict(),
        "holdout": holdout.as_dict(),
        "covariates": recipe.counts[0] + recipe.counts[1],
    }
    check_within(within or {}, record.variables)
    floors, ceilings, said = limits_of_record(record, record.of_split("train"), within)
    for words in said:
        say(words)
    size = {"lengths": list(lengths(frames.grid)[0]), "frames": plan.reach}

    def task_of(transforms: tuple[str, ...]) -> QuestionTask:
        scaling = Scaling.of_record(record, record.of_split("train"), transforms).within(floors, ceilings)
        return QuestionTask(scaling.of_readings(record), scaling, plan, config, about, kept_readings(everything, held))

    if transform is None:
        transforms, reasons = best_transforms(record, task_of, size)
        for why in reasons:
            say(why)
    else:
        transforms = (transform,) * len(record.variables)
    task = task_of(transforms)
    model = set_model(record, size | dict(options), config.seed)
    say(f"model: {model.label()}, {model.parameter_count() / 1e6:.2g} M parameters")
    return train_task(model, task, out, config, size | dict(options), resume, progress, reading=reading)


def set_model(record: Record, options: Mapping[str, Any], seed: int = 0) -> SolidSet:
    """The model of sets, made for these readings; initial weights are a function of the seed."""
    static = None if record.static is None else torch.from_numpy(record.static)
    depth = 0 if record.calendar is None else record.calendar.shape[1]
    with initial_weights(seed):
        return SolidSet(record.grid, len(record.variables), calendar=depth, static=static, **options)


def best_transforms(
    record: Record, task_of: Callable[[tuple[str, ...]], QuestionTask], size: Mapping[str, Any]
) -> tuple[tuple[str, ...], list[str]]:  # of each variable, and why, in words
    """The transforms under which kriging predicts held-out readings of each variable best, in physical units.

    Readings as they are, unless another is better by MARGIN; and always of a kind that may be negative at other times:
    a summer in degrees Celsius has roots, the winter that the run is used in has none.
    """
    channel = record.cells // record.grid.cells
    lowest = [float(record.values[channel == c].min(initial=np.inf)) for c in range(len(record.variables))]
    units = record.units or ("",) * len(record.variables)
    free = [may_be_negative(*about) for about in zip(record.variables, units, strict=True)]
    allowed = [
        ["none"] + (["sqrt"] if low >= 0 and not below else []) + (["log"] if low > 0 and not below else [])
        for low, below in zip(lowest, free, strict=True)
    ]
    names = [name for name in ("none", "sqrt", "log") if any(name in each for each in allowed)]
    if len(names) == 1:
        return ("none",) * len(allowed), ["readings are modelled as they are: not all are positive, or need to be"]
    tried = {name: tuple(name if name in each else "none" for each in allowed) for name in names}
    crps = {name: _prior_crps(record, task_of(transforms), size) for name, transforms in tried.items()}
    best, why = [], []
    for c, variable in enumerate(record.variables):
        mine = {name: float(crps[name][c]) for name in allowed[c]}
        first = min(mine, key=lambda name: mine[name])
        best.append(first if mine[first] < (1 - MARGIN) * mine["none"] else "none")
        scores = ", ".join(f"{name} {value:.3f}" for name, value in mine.items())
        of = f" of {variable}" if len(allowed) > 1 else ""
        predicts = "kriging predicts held-out readings"
        under = "best under it" if best[-1] != "none" else f"under no other better by {100 * MARGIN:.0f} %"
        why.append(f"transform{of} {best[-1]}: {predicts} {under} (CRPS {scores})")
    return tuple(best), why


@torch.no_grad()
def _prior_crps(record: Record, task: QuestionTask, size: Mapping[str, Any]) -> Tensor:  # (C,)
    """Mean CRPS of the prior at held-out questions of each variable, over the standard deviation of its readings.

    With kriging's own spread: the rival has no other, and spreads that follow readings do without a transform as well.
    """
    model = set_model(record, size)
    with torch.enable_grad():
        task.prepare(model, brief=BRIEF)
    normal = torch.tensor([NormalDist().inv_cdf(p) for p in LEVELS])[:, None]
    total, count = torch.zeros(len(record.variables)), torch.zeros(len(record.variables))
    for lesson in task.lessons(COMPARED, "transform"):
        channel = lesson.questions.asked_channel
        _, law = model.kriged(lesson.questions)
        q, y = (task.scaling.physical_of(v, channel) for v in (law.mean + law.std * normal, lesson.values))
        std = torch.tensor(task.scaling.physical_std)[channel]
        loss = 2 * ((q - y) * ((y <= q).float() - torch.from_numpy(LEVELS).float()[:, None])).abs().mean(0)
        total.index_add_(0, channel, loss / std)
        count.index_add_(0, channel, torch.ones(len(channel)))
    return total / count
