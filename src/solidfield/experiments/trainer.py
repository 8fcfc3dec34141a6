"""The one trainer of all experiments: weights that depend on the seed alone, one thread, a run that is taken up again.

A budget is CPU time of one thread, which other work on the machine cannot shorten.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import TrainConfig
from ..disk import read_json, read_tensors
from ..engine import Progress
from ..forecast import Forecaster
from ..grid import lengths
from ..keys import initial_weights
from ..models import build
from ..models.solid_set import SolidSet
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..questions.drawing import Plan
from ..questions.record import Record
from ..training.lessons import QuestionTask
from ..training.loop import train, train_task
from ..training.record import RUN, WEIGHTS, RunRecord
from ..training.sets import best_transforms, set_model

STANDING: dict[str, Any] = {
    "clock": "cpu",
    "batch": 32,
    "ema": 0.995,
    "thin": 0.5,  # in half of the examples some sensors are hidden: spread stays honest when examples are few
}


def built(model: str, options: Mapping[str, Any], store: PairStore, seed: int) -> Forecaster:
    """A model whose first weights are a function of the seed."""
    with initial_weights(seed):
        return build(model, store.spec(), dict(options))


def trained(
    model: str,
    options: Mapping[str, Any],
    store: PairStore,
    folder: Path,
    config: TrainConfig,
    progress: Progress | None = None,
    stage: str = "training",
    prepared: Mapping[str, Tensor] | None = None,  # what `Forecaster.prepare` estimated before, not to be done again
    ready: bool = False,  # is nothing left to prepare?
) -> RunRecord:
    """Train, finish what was begun, or take the run that stands."""
    network = built(model, options, store, config.seed)
    part = network.prepared()
    if ready and part is not None:
        part.load_state_dict(dict(prepared or {}))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.with_name(f"{folder.name}.lock")), one_thread():
        resume = (folder / RUN).is_file()
        told = None if progress is None else lambda what, *done: progress(f"{stage}, {what}", *done)
        train(network, store, folder, config, dict(options), resume=resume, progress=told, ready=ready)
    return RunRecord.open(folder)


QUESTIONS: dict[str, Any] = {
    "batch": 256,
    "optimiser": "muon",
    "lr": 2e-3,
    "warmup": 200,
    "validate_every": 500,
    "checkpoint_every": 500,
}


def trained_on_questions(
    record: Record,  # physical units
    plan: Plan,
    folder: Path,
    minutes: float,
    seed: int,
    progress: Progress | None = None,
    transforms: tuple[str, ...] | None = None,  # None: chosen by held-out readings
    options: Mapping[str, Any] | None = None,  # of the model
    training: Mapping[str, Any] | None = None,  # other settings than QUESTIONS
) -> tuple[SolidSet, QuestionTask, float]:  # and the seconds it took
    """The model of sets, trained on a record that no table of readings stands behind."""
    config = TrainConfig(minutes=minutes, clock="cpu", seed=seed, **QUESTIONS | dict(training or {}))
    size: dict[str, Any] = {"lengths": lengths(record.grid)[0], "frames": plan.reach}

    def task_of(transforms: tuple[str, ...]) -> QuestionTask:
        scaling = Scaling.of_record(record, record.of_split("train"), transforms)
        return QuestionTask(scaling.of_readings(record), scaling, plan, config, {})

    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.with_name(f"{folder.name}.lock")), one_thread():
        task = task_of(transforms or best_transforms(record, task_of, size)[0])
        model = set_model(record, size | dict(options or {}), seed)
        found = train_task(model, task, folder, config, resume=(folder / RUN).is_file(), progress=progress)
    model.load_state_dict(read_tensors(folder / WEIGHTS, read_json(folder / RUN)["files"][WEIGHTS]))
    model.look = None
    return model.eval(), task, found.seconds


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Let one process at a time work on what stands beside this lock file; the system frees it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
