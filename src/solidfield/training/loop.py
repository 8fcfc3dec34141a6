"""Training: one visible loop, for one process or many, that a kill cannot harm.

A step takes a batch (`task.py`), one optimiser step for each objective of the model in turn, and moves the
averaged weights (`optimise.py`), which are what is validated, saved and used. Of all validations the best
one's weights are kept.

Every draw is a function of (seed, step, rank) and the learning rate one of the step, so the state after n
steps is, too: a run that was killed and resumed ends with the same bits. `minutes` fixes the number of steps
once, when the speed is known (`budget.py`), and records it; from there on such a run is as repeatable as any
other.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from ..config import TrainConfig
from ..engine import Progress, memory
from ..errors import SolidError
from ..forecast import Fitted, Forecaster
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..theory.nearby import BOX, cut
from . import folder
from .budget import Budget
from .checkpoint import State, load_state, save_state
from .optimise import descend, learning_rate, moments, optimiser_of, restore_moments, update_average
from .processes import by_first, launch, repeatable
from .record import STATE, Document
from .task import PairTask, Task

LEAST_BYTES = 256  # of a question and what is known of it, at the very least
LOG_EVERY = 10  # steps between two lines of the log


@dataclass(frozen=True)
class TrainResult:
    path: Path
    steps: int
    stopped: str  # finished | patience | fitted
    crps: float | None  # of the weights that were kept; None without validation examples
    best_step: int  # whose averaged weights were kept
    seconds: float  # of training, over all resumptions


@dataclass(frozen=True)
class Session:
    """What stays the same from the first step of this process to its last."""

    fabric: Fabric
    task: Task
    config: TrainConfig
    run: Path


@dataclass
class Counters:
    """The part of the state that is plain numbers."""

    best_crps: float | None = None
    best_step: int = 0
    stale: int = 0  # validations since the best one
    crps: float | None = None  # the last one
    seconds: float = 0.0


def train(
    model: Forecaster,
    store: PairStore,
    run: Path | str,
    config: TrainConfig,
    options: Mapping[str, Any] | None = None,  # the model's, so that the run can build it again
    scaling: Scaling | None = None,  # fitted to the training readings unless given
    resume: bool = False,
    progress: Progress | None = None,
    ready: bool = False,  # the model comes prepared
    reading: Mapping[str, Any] | None = None,  # how the readings were read, for the record of the run
) -> TrainResult:
    """Train into a new run folder, or resume one to its end.

    A store without validation examples is trained to the last step and the last averaged weights are kept; to
    ask for `patience` as well is an error. `fit` does all this from a file of readings.

    Parameters
    ----------
    model : Forecaster
        Of `build`, made for `store.spec()`.
    store : PairStore
        The pairs; nothing else is opened.
    run : str or Path
        The folder of the run, which must be new unless `resume`.
    config : TrainConfig
        Steps or minutes, batch, learning rate, seed and so on: `load_config(...).train`.
    options : dict, optional
        Those the model was built with, so that the run can build it again.
    scaling : Scaling, optional
        Default: fitted to the training readings.
    resume : bool
        Go on where an interrupted run stopped. Default False.
    progress : callable, optional
        Told of every step: what, done, total.
    ready : bool
        The model comes prepared (`Forecaster.prepare`). Default False.
    reading : dict, optional
        How the readings were read, for the record of the run.

    Returns
    -------
    TrainResult
        Path, steps, why it stopped, the best validation CRPS (standardised), seconds.

    Raises
    ------
    SolidError
        If model and store do not fit, or the folder holds another run.

    Examples
    --------
    >>> import tempfile
    >>> from solidfield import build, gaussian_world, load_config, observe, scenario, write_truth
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     truth = write_truth(gaussian_world(cells=8, frames=5), f"{folder}/truth", trajectories=10)
    ...     store = observe(truth, f"{folder}/pairs", scenario("random-40-instance"), validation=0.1)
    ...     train(build("persistence", store.spec()), store, f"{folder}/run", load_config("smoke").train).stopped
    'fitted'
    """
    run = Path(run)
    task = PairTask.of(store, config, scaling)
    return train_task(model, task, run, config, options, resume, progress, ready, reading)


def train_task(
    model: Any,  # of the kind that the task is for
    task: Task,
    run: Path,
    config: TrainConfig,
    options: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    ready: bool = False,
    reading: Mapping[str, Any] | None = None,
) -> TrainResult:
    """As `train`, whatever the examples are."""
    _check(model, task, config)
    fabric = launch(config)
    data = task.describe(model)
    document = folder.describe(model, options or {}, data, task.scaling, config, fabric.world_size, reading)
    session = Session(fabric, task, config, run)
    with ExitStack() as held:
        document = by_first(fabric, _begin, held, session, document, resume)
        if document["finished"]:
            return TrainResult(run, **document["history"])
        held.enter_context(repeatable(document["threads"], fabric.device))
        fabric.to_device(model)
        result, weights = _fit(session, model) if isinstance(model, Fitted) else _loop(session, model, progress, ready)
        weights = _conclude(session, model, weights)
        history = {name: value for name, value in asdict(result).items() if name != "path"}
        by_first(fabric, folder.finish, run, weights, history)
    return result


def _begin(held: ExitStack, session: Session, document: Document, resume: bool) -> Document:
    """Start the run or resume it, and be the only one to train in its folder."""
    run = session.run
    if not resume:
        document = folder.start(run, document, session.task.files())
    if run.is_dir():
        held.enter_context(folder.only_writer(run))
    return folder.resume(run, document) if resume else document


def _check(model: Any, task: Task, config: TrainConfig) -> None:
    task.check(model)
    size = LEAST_BYTES
    if isinstance(task, PairTask):
        spec = task.store.spec()
        cells = cut(spec.grid, BOX).cells if model.crops else spec.grid.cells
        size = 4 * cells * (4 * spec.channels + spec.covariates)  # source and target with their masks
    for name, count in (("batch", config.batch), ("validation_members", config.validation_members)):
        if count * size > memory():
            raise SolidError(
                f"train.{name} = {count:,} takes {count * size / 2**30:,.0f} GiB and more, this machine has "
                f"{memory() / 2**30:,.0f}; lower it"
            )
    if config.patience is not None and not task.held_out:
        raise SolidError(
            f"train.patience = {config.patience} needs validation examples and there are none; "
            "hold some out or leave patience out"
        )
    check_schedule(config)


def check_schedule(config: TrainConfig) -> None:
    if config.minutes is None and config.warmup >= config.steps:
        raise SolidError(
            f"train.warmup = {config.warmup} leaves none of train.steps = {config.steps} to the cosine; "
            f"take more steps or give --set train.warmup={config.steps // 10}"
        )


def _fit(session: Session, model: Fitted) -> tuple[TrainResult, Mapping[str, Tensor]]:
    """One call instead of a loop, saved the same way; there is nothing to resume but to fit again."""
    budget = Budget(session.config)
    assert isinstance(session.task, PairTask)
    model.fit(session.task.batches(session.task.store.split("train"), session.fabric.device))
    crps = _validate(session, model.eval())
    line = {"step": 0, "validation_crps": crps, "seconds": round(budget.seconds, 3)}
    by_first(session.fabric, folder.log, session.run, line)
    return TrainResult(session.run, 0, "fitted", crps, 0, budget.seconds), model.state_dict()


def _conclude(session: Session, model: Any, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Give the finished model held-out examples for what its loss did not see."""
    model.load_state_dict(weights)
    session.task.conclude(model.eval(), session.fabric.device)
    return model.state_dict()


def _loop(
    session: Session, model: Any, progress: Progress | None, ready: bool
) -> tuple[TrainResult, Mapping[str, Tensor]]:
    fabric, task, config, run = session.fabric, session.task, session.config, session.run
    budget, saved = Budget(config), load_state(run / STATE)
    if saved is None and not ready:
        task.prepare(model, fabric.device)
    average = copy.deepcopy(model).eval().requires_grad_(False)
    objectives = model.train().objectives()
    optimisers = [optimiser_of(objective, config) for objective in objectives]
    counters, best, step = Counters(), dict[str, Tensor](), 0
    if saved is not None:
        step, state = saved
        model.load_state_dict(state.tensors["model"])
        average.load_state_dict(state.tensors["average"])
        restore_moments(objectives, optimisers, state.tensors["optimiser"])
        best = {name: tensor.to(fabric.device) for name, tensor in state.tensors["best"].items()}
        counters = Counters(**state.counters["counters"])
        budget.before = counters.seconds
        fabric.strategy.precision.load_state_dict(state.counters["precision"])
    fabric.barrier()  # all have read before the first writes

    def checkpoint() -> None:
        tensors = {
            "model": model.state_dict(),
            "average": average.state_dict(),
            "optimiser": moments(objectives, optimisers),
            "best": best,
        }
        plain = {"counters": asdict(counters), "precision": fabric.strategy.precision.state_dict()}
        by_first(fabric, save_state, run / STATE, step, State(tensors, plain))

    def exhausted() -> bool:
        return config.patience is not None and counters.stale >= config.patience

    if saved is None:
        checkpoint()  # the initial weights, which a resumed run must not draw anew
    by_first(fabric, folder.trim_log, run, step)
    total: int | None = by_first(fabric, folder.total_steps, run)
    share = (fabric.global_rank, fabric.world_size, model)
    wrapped: list[Any] = [fabric.setup_optimizers(optimiser) for optimiser in optimisers]
    seen: list[list[tuple[float, float]]] = []

    with ThreadPoolExecutor(1) as reader:
        # A batch is a function of its step alone, so the next one is made while this one is used.
        upcoming = reader.submit(task.batch, step, *share)
        while (total is None or step < total) and not exhausted():
            examples = upcoming.result().to(fabric.device)
            upcoming = reader.submit(task.batch, step + 1, *share)
            rate = learning_rate(step, total, config)
            seen.append(
                [
                    descend(fabric, model, objective, optimiser, examples, rate, step, config)
                    for objective, optimiser in zip(objectives, wrapped, strict=True)
                ]
            )
            loss = seen[-1][0][0]
            update_average(average, model, step, config.ema)
            step += 1
            budget.stepped()

            last = step == total
            due = last or step % config.validate_every == 0
            if due:
                with budget.aside("validation"):
                    counters.crps = _validate(session, average)
                if counters.crps is not None:
                    counters.stale += 1
                    if counters.best_crps is None or counters.crps < counters.best_crps:
                        counters.best_crps, counters.best_step, counters.stale = counters.crps, step, 0
                        best = {name: tensor.clone() for name, tensor in average.state_dict().items()}
            counters.seconds = budget.seconds
            if due or step % LOG_EVERY == 0:
                line = _line(step, [o.name for o in objectives], seen, rate, budget)
                by_first(fabric, folder.log, run, line | ({"validation_crps": counters.crps} if due else {}))
                seen = []

            measured = total is None and by_first(fabric, budget.known)
            if measured and not due:
                with budget.aside("validation"):
                    _validate(session, average)  # only to know what it costs
            if last or measured or step % config.checkpoint_every == 0 or exhausted():
                with budget.aside("checkpoint"):
                    checkpoint()
            if measured:
                total = by_first(fabric, budget.total, step)
                by_first(fabric, folder.fix_total, run, total)
            if progress is not None and fabric.global_rank == 0:
                crps = "" if counters.crps is None else f"  validation CRPS {counters.crps:.3f}"
                progress(f"loss {loss:.3f}{crps}  {budget.speed:.0f} examples/s", step, total)

    stopped, kept = "patience" if exhausted() else "finished", counters.best_step if best else step
    result = TrainResult(run, step, stopped, counters.best_crps, kept, counters.seconds)
    return result, best or average.state_dict()


def _validate(session: Session, model: Any) -> float | None:
    """The mean CRPS over the held-out examples, shared among the processes; None where there are none."""
    fabric, task = session.fabric, session.task
    if not task.held_out:
        return None
    total = task.total_crps(model, fabric.global_rank, fabric.world_size, fabric.device)
    summed = fabric.all_reduce(torch.tensor(total, dtype=torch.float64), reduce_op="sum")
    return float(summed) / task.held_out  # type: ignore[arg-type]


def _line(
    step: int,
    names: list[str],  # of the objectives
    seen: list[list[tuple[float, float]]],  # for each step since the last line and each objective: loss, norm
    rate: float,
    budget: Budget,
) -> dict[str, Any]:
    """A line of the log: means since the last one; objectives after the first carry their names."""
    line: dict[str, Any] = {"step": step}
    for place, (loss, norm) in enumerate(np.mean(seen, axis=0).tolist()):
        suffix = f"_{names[place]}" if place else ""
        line |= {f"loss{suffix}": loss, f"grad_norm{suffix}": norm}
    speed = round(budget.speed, 3)
    return line | {"lr": rate, "examples_per_second": speed, "seconds": round(budget.seconds, 3)}
