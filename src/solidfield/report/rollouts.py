"""Several steps ahead: the run and its rivals rolled forward from held-out sources, judged by what was read each time.

A scene is a row of test examples, each of which begins in the frame where the one before it ends. The first gives the
source; all of them give targets. Every model knows what it is told with that first source (a history, too, if it reads
one) and is rolled forward in the same way (`ensemble.rollout`): what was read on the way is kept from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine import Progress
from ..errors import SolidError
from ..keys import evenly
from ..pairs.store import PairStore
from ..prediction.context import example_query
from ..scores.table import ScoreTable
from ..training.record import RunRecord
from .ensembles import Contender, draw_targets
from .scoring import judge
from .targets import choose_examples, reading_targets

SCENES = 40  # drawn unless more are asked for: each member of a scene costs a pass of the model a step


def judge_rollouts(
    models: Sequence[Contender],  # the run's own first
    run: RunRecord,
    store: PairStore,
    steps: int,
    std: Sequence[float],  # (C,) of the training readings, physical units
    members: int,
    scenes: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    tail: Sequence[float] | None = None,  # (C,) where the upper tail of the training readings begins
) -> ScoreTable:
    """The scores of every model after each step."""
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
    never, first = run.never_supervised.numpy(), chosen[:, 0]
    targets = [reading_targets(store, chosen[:, h], never, first, (h + 1) * ahead[0]) for h in range(steps)]
    drawn: dict[str, list[np.ndarray]] = {}
    for place, model in enumerate(models):
        if place > 0 and not model.judged_at(ahead[0]):
            continue
        if progress is not None:
            progress(f"{model.name}, {steps} steps ahead", place, len(models))
        query = lambda few: example_query(run, store, few, steps)  # noqa: E731
        drawn[model.name] = draw_targets(model, store, targets, members, seed, query).members
    by_step = [{name: members[step] for name, members in drawn.items()} for step in range(steps)]
    found = [
        judge(at, one, store, std, len(rows), rolled=True, tail=tail) for at, one in zip(targets, by_step, strict=True)
    ]
    return ScoreTable.join(found)


def chains(store: PairStore, lead: int, steps: int) -> np.ndarray:  # (N, L) positions in the store
    """Test examples in rows: each begins in the frame where the one before it ends."""
    test = choose_examples(store, lead)
    follows = dict(zip(*store.followed(test), strict=True))
    rows = [[index] for index in test]
    for _ in range(steps - 1):
        rows = [[*row, follows[row[-1]]] for row in rows if row[-1] in follows]
    return np.array(rows, dtype=np.int64).reshape(-1, steps)
