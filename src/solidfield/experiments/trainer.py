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
from ..engine import Progress
from ..forecast import Forecaster
from ..keys import key
from ..models import build
from ..pairs.store import PairStore
from ..training.loop import train
from ..training.record import RUN, RunRecord

STANDING: dict[str, Any] = {
    "clock": "cpu",
    "batch": 32,
    "ema": 0.995,
    "thin": 0.5,  # in half of the examples some sensors are hidden: spread stays honest when examples are few
}


def built(model: str, options: Mapping[str, Any], store: PairStore, seed: int) -> Forecaster:
    """A model whose first weights are a function of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "weights"))
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
    with alone(folder.with_name(f"{folder.name}.lock")), threads(1):
        resume = (folder / RUN).is_file()
        told = None if progress is None else lambda what, *done: progress(f"{stage}, {what}", *done)
        train(network, store, folder, config, dict(options), resume=resume, progress=told, ready=ready)
    return RunRecord.open(folder)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
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
