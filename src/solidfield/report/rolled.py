"""Several steps ahead: the run and its rivals rolled forward from held-out sources, judged by what was read each time.

A scene is a row of test examples, each of which begins in the frame where the one before it ends. The first gives the
source; all of them give targets. Every model knows that first source alone and is rolled forward in the same way
(`ensemble.rollout`): what was read on the way is kept from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..context import example_query
from ..ensemble import draw
from ..errors import SolidError
from ..fields import Source
from ..pairs import PairStore
from ..run import LoadedRun
from .drawn import BUDGET, Contender
from .held import Held, choose_examples, held_readings
from .scored import score_lead
from .words import lead_label

SCENES = 40  # drawn unless more are asked for: each member of a scene costs a pass of the model a step


def judge_rolled(
    models: Sequence[Contender],  # the run's own first
    run: LoadedRun,
    store: PairStore,
    steps: int,
    std: tuple[float, ...],  # (C,) of the training readings, physical units
    members: int,
    scenes: int | None = None,
    seed: int = 0,
    note: Callable[[str, int, int], None] | None = None,  # (what, done, all)
) -> dict[str, Any]:
    """Plain JSON: the scores of every model after each step, in the form of those of a lead."""
    ahead = [lead for lead in store.leads if lead > 0 and lead in run.info["data"]["leads"]]
    if not ahead:
        raise SolidError(f"{run.path} and {store.path} have no forecast in common that could be rolled forward")
    rows = chains(store, ahead[0], steps)  # (N, L)
    if len(rows) == 0:
        raise SolidError(
            f"{store.path} has no {steps} test examples in a row, so nothing tells what is true {steps} steps ahead; "
            "judge fewer steps, or hold longer stretches out"
        )
    count = min(SCENES if scenes is None else scenes, len(rows))
    chosen = rows[np.linspace(0, len(rows) - 1, count).round().astype(int)]
    never = run.never_supervised.numpy()
    held = [held_readings(store, chosen[:, step], never, sources=chosen[:, 0]) for step in range(steps)]
    source, later = example_query(run, store, chosen[:, 0], steps)
    drawn: dict[str, list[np.ndarray]] = {}
    for place, model in enumerate(models):
        if model.name == "nearest":
            continue  # it reconstructs; what it would forecast is persistence
        if note is not None:
            note(f"{model.name}, {steps} steps ahead", place, len(models))
        drawn[model.name] = _draw(model, source, later, chosen[:, 0], held, members, seed)
    found = []
    for step, at in enumerate(held):
        lead_time = (step + 1) * ahead[0] * store.step
        ensembles = {name: by_step[step] for name, by_step in drawn.items()}
        found.append(
            {
                "step": step + 1,
                "lead_time": lead_time,
                "ahead": lead_label(lead_time, store.epoch is not None),
                "main": at.main,
                **score_lead(at, ensembles, store.variables, std),
            }
        )
    own = models[0].name
    return {
        "scenes": count,
        "scenes_in_all": len(rows),
        "memory": run.model.memory,
        "variables": [  # with readings at every step
            name for name in store.variables if all(name in step["models"][own]["variables"] for step in found)
        ],
        "steps": found,
    }


def chains(store: PairStore, lead: int, steps: int) -> np.ndarray:  # (N, L) positions in the store
    """Test examples in rows: each begins in the frame where the one before it ends."""
    test = choose_examples(store, lead)
    follows = dict(zip(*store.followed(test), strict=True))
    rows = [[index] for index in test]
    for _ in range(steps - 1):
        rows = [[*row, follows[row[-1]]] for row in rows if row[-1] in follows]
    return np.array(rows, dtype=np.int64).reshape(-1, steps)


def _draw(
    contender: Contender,
    source: Source,  # physical units
    later: Sequence[Source],
    queries: np.ndarray,  # (N,)
    held: Sequence[Held],  # (L,) a step each
    members: int,
    seed: int,
) -> list[np.ndarray]:  # (L,) of (K, P)
    """Members at the held-out readings of every step; whole maps are held for a few scenes at a time."""
    model, steps = contender.model, len(held)
    K, grid = members if model.stochastic else 1, model.spec.grid
    kept = [np.empty((K, len(at.case)), np.float32) for at in held]
    if model.spec.covariates == 0:
        source, later = replace(source, covariates=None), []
    at_once = max(1, BUDGET // (4 * K * steps * model.spec.channels * grid.cells))
    for start in range(0, len(source), at_once):
        few = slice(start, start + at_once)
        summary = draw(
            model,
            contender.scaling,
            source[few],
            K,
            steps=steps,
            later=[one[few] for one in later],
            seed=seed,
            queries=queries[few].tolist(),
        )
        assert summary.members is not None  # (K, n, L, C, H, W)
        for step, at in enumerate(held):
            rows = (at.case >= start) & (at.case < start + at_once)
            maps = summary.members[:, :, step].reshape(K, summary.members.shape[1], -1)
            kept[step][:, rows] = maps[:, at.case[rows] - start, (at.channel * grid.cells + at.cell)[rows]]
    if not all(np.isfinite(one).all() for one in kept):
        raise SolidError(f"'{contender.name}' drew values that are not finite; it cannot be judged {steps} steps ahead")
    return kept
