"""What the benches on real data share: train several models side by side, judge each group as soon as it stands.

Every model has the same CPU time on one thread. A run that stands in the work folder is used again, one that was cut
short is resumed.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...engine import end_with
from ...errors import SolidError
from ...forecast import Fitted
from ...models import model_class
from ...pairs.store import PairStore, open_pairs
from ...report import Findings, evaluate_run
from ...training.record import RunRecord
from .schemes import SCHEMES, Scheme, trained

Note = Callable[[str, int, int], None]  # (what, done, all)


@dataclass(frozen=True)
class Task:
    """One model to train on one store."""

    part: str
    scheme: Scheme
    pairs: Path
    folder: Path
    minutes: float
    seed: int

    @property
    def label(self) -> str:
        return f"{self.scheme.name}, {self.part}, seed {self.seed}"


def is_closed(name: str) -> bool:
    """Is the model fitted in closed form?"""
    return name not in SCHEMES and issubclass(model_class(name), Fitted)


def real_scheme(name: str) -> Scheme:
    """A scheme of ours, or a rival as it is, shown which readings are real where it leaves the choice."""
    if name in SCHEMES:
        return SCHEMES[name]
    options = {"mask_channel": True} if "mask_channel" in inspect.signature(model_class(name)).parameters else {}
    return Scheme(name, name, options, lr=1e-3)


def plan(
    part: str, pairs: Path, work: Path, models: Sequence[str], minutes: float, seeds: int
) -> list[Task]:  # seed by seed
    """What is to be trained; where all models are in closed form, the first of them plays the run."""
    if seeds < 1 or not models:
        raise SolidError(f"{seeds} seeds of {len(models)} models leave nothing to judge; give one or more of each")
    chosen = [name for name in models if not is_closed(name)] or list(models[:1])
    return [
        Task(part, real_scheme(name), pairs, work / f"{name}-{seed}", minutes, seed)
        for seed in range(seeds)
        for name in chosen
    ]


def train_task(task: Task) -> Task:
    """Train or take what stands; the store is opened where the work is done."""
    trained(task.scheme, open_pairs(task.pairs), task.folder, task.minutes, task.seed)
    return task


def finished(tasks: Sequence[Task], jobs: int, note: Note | None = None) -> Iterator[Task]:
    """The tasks as they end, `jobs` at a time in processes of their own; with one job, here."""
    tell = note or (lambda what, done, total: None)
    tell(f"training {tasks[0].label}", 0, len(tasks))
    if jobs == 1:
        for done, task in enumerate(tasks):
            tell(f"training {task.label}", done, len(tasks))
            yield train_task(task)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), end_with, (os.getpid(),)) as pool:
        futures = [pool.submit(train_task, task) for task in tasks]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                tell(f"trained {future.result().label}", done, len(tasks))
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def judged(
    tasks: Sequence[Task], jobs: int, judge: Callable[[list[Task]], dict[str, Any]], note: Note | None = None
) -> dict[str, list[dict[str, Any]]]:  # part -> what was found with each seed
    """Train everything; judge the models of a part and seed as soon as they stand, while others still train."""
    waiting: dict[tuple[str, int], list[Task]] = {}
    for task in tasks:
        waiting.setdefault((task.part, task.seed), []).append(task)
    left = {key: len(group) for key, group in waiting.items()}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for task in finished(tasks, jobs, note):
        key = (task.part, task.seed)
        left[key] -= 1
        if left[key] == 0:
            found[key] = judge(waiting[key])
    parts = dict.fromkeys(task.part for task in tasks)
    return {part: [found[key] for key in waiting if key[0] == part] for part in parts}


def judge_readings(
    tasks: Sequence[Task],
    models: Sequence[str],
    members: int,
    scenes: int | None = None,
    steps: int = 1,  # from 2 on all are rolled forward, too
    note: Note | None = None,
) -> Findings:
    """The runs of one seed and the closed-form rivals at the held-out readings."""
    runs = [RunRecord.open(task.folder) for task in tasks]
    rivals = [name for name in models if is_closed(name) and name not in {task.scheme.model for task in tasks}]
    store = open_pairs(tasks[0].pairs)
    return evaluate_run(
        runs[0],
        store,
        rivals=rivals,
        runs=runs[1:],
        members=members,
        scenes=scenes,
        steps=steps,
        seed=tasks[0].seed,
        progress=note,
    )


def fill(path: Path, make: Callable[[Path], PairStore]) -> Path:
    """The pairs at this path, made where they do not stand yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return path
