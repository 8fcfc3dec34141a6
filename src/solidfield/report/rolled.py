"""Several steps ahead: the run and its rivals rolled forward from held-out sources, judged by what was read each time.

A scene is a row of test examples, each of which begins in the frame where the one before it ends. The first gives the
source; all of them give targets. Every model knows what it is told with that first source (a history, too, if it reads
one) and is rolled forward in the same way (`ensemble.rollout`): what was read on the way is kept from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import SolidError
from ..keys import evenly
from ..pairs.store import PairStore
from ..prediction.context import example_query
from ..training.record import RunRecord
from .drawn import Contender, Query, check_drawn, draw_in_parts, keep
from .held import Held, choose_examples, held_readings
from .scored import score_lead
from .words import lead_label

SCENES = 40  # drawn unless more are asked for: each member of a scene costs a pass of the model a step


def judge_rolled(
    models: Sequence[Contender],  # the run's own first
    run: RunRecord,
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
    chosen = evenly(rows, SCENES if scenes is None else scenes)
    never = run.never_supervised.numpy()
    held = [held_readings(store, chosen[:, step], never, sources=chosen[:, 0]) for step in range(steps)]
    first, query = chosen[:, 0], lambda few: example_query(run, store, few, steps)
    drawn: dict[str, list[np.ndarray]] = {}
    for place, model in enumerate(models):
        if place > 0 and model.name == "nearest":
            continue  # it reconstructs; what it would forecast is persistence
        if note is not None:
            note(f"{model.name}, {steps} steps ahead", place, len(models))
        drawn[model.name] = _draw(model, first, query, held, members, seed)
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
        "scenes": len(chosen),
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
    examples: np.ndarray,  # (N,)
    query: Query,
    held: Sequence[Held],  # (L,) a step each
    members: int,
    seed: int,
) -> list[np.ndarray]:  # (L,) of (K, P)
    """Members at the held-out readings of every step."""
    K, cells = members if contender.model.stochastic else 1, contender.model.spec.grid.cells
    kept = [np.empty((K, len(at.case)), np.float32) for at in held]
    for start, whole in draw_in_parts(contender, examples, K, seed, query, len(held)):
        for step, at in enumerate(held):
            keep(kept[step], whole[:, :, step], at, start, cells)
    check_drawn(contender, *kept)
    return kept
