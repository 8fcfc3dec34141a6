"""From a cell to its result: choose a learning rate, train, draw, judge, count what it cost.

Every candidate rate has PILOT of the budget from the same initial weights; the one with the lowest validation CRPS
has the rest. So each model tunes itself, and the total is the same for all. What a model estimates before its first
step (`Forecaster.prepare`) is estimated once for all of them, and paid for. One thread, and CPU time as the clock, so
that two cells side by side on two cores do not disturb each other's budget.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ...config import TrainConfig
from ...engine import Progress
from ...errors import SolidError
from ...forecast import Fitted
from ...models import model_class
from ...pairs.scaling import Scaling
from ...pairs.store import PairStore
from ...prediction.ensemble import draw_members
from ...report.ensembles import closed_forms, draw_maps
from ...report.targets import truth_targets
from ...training.checkpoint import State, load_state, save_state
from ...training.record import LOG, RunRecord
from ...training.task import PairTask
from ...worlds import Truth
from ..cell import Place, Result
from ..costs import ensemble_cost, pass_cost
from ..trainer import STANDING, alone, built, one_thread, trained
from .cell import Setting
from .data import pairs_of, scenes, truth_of
from .judged import mean_scores, means_of, picture, rollout_scores, scores
from .scale import PILOT

FEW_STEPS = 12  # of the only rate, to know its pace
# By family: validations along a training run, and examples and members of one; fewer where drawing is dear.
CURVE = {"diffusion": 5, "distribution": 10}
LOOK_EVERY = 2.0  # CPU minutes between two validations of a long run, which are more than those
VALIDATION = {"diffusion": (16, 4), "distribution": (32, 8)}
NOT_IN_PILOTS = {"solid": {"copula": "independent"}}  # fitted after training, and the CRPS of a cell does not see it
ROLLED = 4  # one scene in so many is rolled out: from the second step on every member is a query of its own
FLAT = 0.02  # a curve is flat if its last quarter gains less than this share
REST = 0.01  # ... and at rest if its last third does


@dataclass(frozen=True)
class StudyCell(Setting):
    @property
    def rolled(self) -> int:
        """Scenes of a rollout."""
        return max(2, self.scale.scenes // ROLLED)

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        """Run the cell, or finish it; everything that a report may ask for."""
        with one_thread():
            truth = truth_of(self, place.work, progress)
            store = pairs_of(self, truth, place.work, progress)
            last = truth.frames - 1 - 2 * self.rollout
            count = self.scale.scenes if self.rollout == 1 or self.window > 1 else self.rolled
            chosen = scenes(store, self.split, count, last)
            if issubclass(model_class(self.model), Fitted):
                result = _fitted(self, store, truth, chosen)
            else:
                result = _trained(self, place.work, store, truth, chosen, progress)
            return result | {"leaks": self.leaks}


def _fitted(cell: StudyCell, store: PairStore, truth: Truth, chosen: np.ndarray) -> dict[str, Any]:
    """A closed form: fitted to the training examples and drawn."""
    targets, part = truth_targets(store, chosen, truth), store.first(cell.share)
    start = time.process_time()
    (rival,) = closed_forms([cell.model], part, Scaling.fit(store, store.split("train")))
    ensemble = draw_maps(rival, part, chosen, cell.scale.members, cell.seed)[:, :, 0]
    return {
        "training": None,
        "costs": {"parameters": 0, "fit_and_draw_seconds": time.process_time() - start, "members": len(ensemble)},
        "scores": scores(store, targets, ensemble),
        "picture": picture(store, targets, ensemble),
    }


def _trained(
    cell: StudyCell, work: Path, store: PairStore, truth: Truth, chosen: np.ndarray, progress: Progress | None
) -> dict[str, Any]:
    folder = work / cell.scale.name / "runs" / cell.run
    with alone(folder.with_suffix(".lock")):
        training, run = tuned(cell, store.first(cell.share), folder, progress)
    stochastic, dear = type(run.model).stochastic, run.model.family == "diffusion"
    members = (cell.scale.dear_members if dear else cell.scale.members) if stochastic else 1
    source = store.batch(chosen).source

    def drawing(
        memory: float | None = None, leads: Sequence[int] | None = None, count: int = len(chosen)
    ) -> np.ndarray:  # (K, N, L, C, H, W)
        return draw_members(
            run.model,
            run.scaling,
            source[:count],
            members,
            steps=cell.rollout,
            memory=memory,
            leads=leads,
            seed=cell.seed,
            queries=[int(i) for i in chosen[:count]],
            progress=progress,
        )

    start = time.process_time()
    drawn = drawing(leads=cell.leads[1:] if cell.window > 1 else None)
    seconds = time.process_time() - start
    if cell.window > 1:
        start = time.process_time()
        rolled = drawing(count=cell.rolled)
        rolling = (time.process_time() - start) / cell.rolled
        judged: dict[str, Any] = {
            "leads": rollout_scores(store, chosen, truth, drawn),
            "means": [mean_scores(store, chosen, truth, drawn, steps) for steps in means_of(cell.rollout)],
            "leads_rolled": rollout_scores(store, chosen[: cell.rolled], truth, rolled),
            "rollout_over_direct_seconds": rolling / (seconds / len(chosen)),
        }
    elif cell.rollout > 1:
        judged = {"leads": rollout_scores(store, chosen, truth, drawn), "memory": run.model.memory}
        if run.model.memory > 0:
            judged |= {"leads_anew": rollout_scores(store, chosen, truth, drawing(memory=0.0))}
    else:
        targets, maps = truth_targets(store, chosen, truth), drawn[:, :, 0]
        judged = {"scores": scores(store, targets, maps), "picture": picture(store, targets, maps)}
    standard = run.scaling.standardise(source)
    costs = {
        "parameters": run.model.parameter_count(),
        "gmacs_of_a_pass": pass_cost(run.model, standard),
        "gmacs_of_100_members": ensemble_cost(run.model, standard, 100),
        "members": members,
        "draw_seconds_of_100_members": 100 * seconds / members / len(chosen) / cell.rollout,
    }
    return {"training": training, "costs": costs, **judged}


def tuned(
    cell: StudyCell, store: PairStore, folder: Path, progress: Progress | None
) -> tuple[dict[str, Any], RunRecord]:
    """The account of the training, and the run that the best rate gave."""
    prepared, spent = _prepared(cell, store, folder)
    pilots = _pilots(cell, store, folder, prepared, progress)
    best = min(pilots, key=lambda rate: pilots[rate]["crps"])
    spent += sum(pilot["seconds"] for pilot in pilots.values())
    left = _left(cell, spent, len(pilots))
    step = pilots[best]["step_seconds"]
    expected = left["steps"] if "steps" in left else int(60 * left["minutes"] / step)
    points = max(CURVE.get(model_class(cell.model).family, 12), round((cell.minutes or 0.0) / LOOK_EVERY))
    warmup = min(100, max(1, expected // 10))
    config = _config(cell, best, left, validate_every=max(10, expected // points), warmup=warmup)
    start, whole = time.process_time(), not (folder / "main").exists()
    stage = f"training at rate {best:g}"
    run = trained(cell.model, cell.options, store, folder / "main", config, progress, stage, prepared, ready=True)
    with_rest = time.process_time() - start if whole else None  # a resumed run has no such number
    curve, speed = _curve(folder / "main" / LOG)
    account = {
        "rates": {f"{rate:g}": pilots.get(rate, {}).get("crps") for rate in cell.rates if len(cell.rates) > 1},
        "rate": best,
        "steps": run.info["history"]["steps"],
        "examples": run.info["history"]["steps"] * config.batch,
        "cpu_seconds": run.info["history"]["seconds"],
        "cpu_seconds_with_what_follows": with_rest,  # a copula, for instance, is fitted when the weights are done
        "cpu_seconds_before": spent,  # of what was prepared, and of the pilots
        "cpu_seconds_per_example": None if speed is None else 1 / speed,
        "best_step": run.info["history"]["best_step"],
        "validation_crps": run.info["history"]["crps"],
        "curve": curve,
        "last_quarter_gain": (gain := late_gain(curve, 1 / 4)),
        "flattened": None if gain is None else gain < FLAT,
        "last_third_gain": (gain := late_gain(curve, 1 / 3)),
        "at_rest": None if gain is None else gain < REST,
    }
    return account, run


def _prepared(cell: StudyCell, store: PairStore, folder: Path) -> tuple[dict[str, Tensor] | None, float]:
    """What the model estimates before its first step, made once, and the seconds it took."""
    model, place = built(cell.model, cell.options, store, cell.seed), folder / "prepared"
    part = model.prepared()
    if part is None:
        return None, 0.0
    saved = load_state(place)
    if saved is None:
        start = time.process_time()
        PairTask.of(store, TrainConfig(batch=cell.scale.batch)).prepare(model)
        state = State({"part": part.state_dict()}, {"seconds": time.process_time() - start})
        save_state(place, 0, state)
    else:
        state = saved[1]
    return dict(state.tensors["part"]), state.counters["seconds"]


def _pilots(
    cell: StudyCell, store: PairStore, folder: Path, prepared: dict[str, Tensor] | None, progress: Progress | None
) -> dict[float, dict[str, Any]]:
    """By rate: validation CRPS, seconds, seconds a step; rates whose loss is not finite are left out.

    With one rate there is nothing to choose: a few steps tell how long one takes.
    """
    found: dict[float, dict[str, Any]] = {}
    failure: SolidError | None = None
    options = cell.options | NOT_IN_PILOTS.get(cell.model, {})
    budget: dict[str, Any] = {"steps": FEW_STEPS}
    if len(cell.rates) > 1:
        budget = {"minutes": PILOT * cell.minutes} if cell.minutes else {"steps": _share(cell, PILOT)}
    for number, rate in enumerate(cell.rates, start=1):
        place, stage = folder / f"pilot-{rate:g}", f"rate {rate:g} ({number} of {len(cell.rates)})"
        config = _config(cell, rate, budget, validate_every=10**9, warmup=10)
        try:
            run = trained(cell.model, options, store, place, config, progress, stage, prepared, ready=True)
        except SolidError as error:
            failure = error
            continue
        speed = _curve(place / LOG)[1]
        found[rate] = run.info["history"] | {"step_seconds": config.batch / (speed or config.batch)}
    if failure is not None and not found:
        raise failure
    return found


def _left(cell: StudyCell, spent: float, pilots: int) -> dict[str, Any]:
    """What the pilots have left of the budget."""
    if cell.minutes is None:
        return {"steps": _share(cell, 1 - PILOT * pilots) if pilots > 1 else cell.steps}
    return {"minutes": max(cell.minutes - spent / 60, PILOT * cell.minutes)}


def _share(cell: StudyCell, share: float) -> int:
    return max(2, round(share * (cell.steps or 0)))


def _config(cell: StudyCell, rate: float, budget: dict[str, Any], validate_every: int, warmup: int) -> TrainConfig:
    examples, members = VALIDATION.get(model_class(cell.model).family, (64, 8))
    few = cell.scale.members  # of a trial
    examples, members = min(examples, 2 * few), min(members, few)
    warmup = min(warmup, budget["steps"] - 1) if "steps" in budget else warmup
    return TrainConfig(
        **(STANDING | budget | {"batch": cell.scale.batch}),
        lr=rate,
        warmup=warmup,
        validate_every=validate_every,
        checkpoint_every=200,
        validation_examples=examples,
        validation_members=members,
        seed=cell.seed,
    )


def _curve(log: Path) -> tuple[list[tuple[float, float]], float | None]:
    """(CPU seconds, validation CRPS) along the run, and examples a second at its end."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    points = [(line["seconds"], line["validation_crps"]) for line in lines if line.get("validation_crps") is not None]
    speeds = [line["examples_per_second"] for line in lines if line.get("examples_per_second")]
    return points, (speeds[-1] if speeds else None)


def late_gain(curve: list[tuple[float, float]], last: float) -> float | None:
    """Relative fall of the best validation CRPS over the last share of the run's time."""
    if len(curve) < 4:
        return None
    before = [crps for seconds, crps in curve if seconds <= (1 - last) * curve[-1][0]]
    return None if not before else 1 - min(crps for _, crps in curve) / min(before)
