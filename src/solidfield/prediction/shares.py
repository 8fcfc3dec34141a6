"""A large ensemble in shares, drawn wherever an engine works.

Of models on pairs a share is some of the members of all queries: every member has its own noise (`noise.py`), so the
shares together are the ensemble that one process would have drawn. Of the model of sets it is a scene (a time), or some
of its places with all their members, since the law of a place is made once for all of them. A worker opens the run
folder by itself: on a cluster it must see the same path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import Engine, Progress, spread
from ..fields import Source
from ..models.solid_set import SolidSet
from ..questions.record import Record
from ..training.record import RunRecord
from .answer import Scene, answer_shown, chunks, in_order
from .ensemble import DRAWN, Summary, check_memory, draw, summarise

SHARES = 4  # for each job: more balance the load, fewer open the run less often


def draw_share(path: Path, source: Source, options: dict[str, Any], members: range) -> np.ndarray:  # (k, N, L, C, H, W)
    """These members of the ensemble, by the run at `path`."""
    run = RunRecord.open(path)
    drawn = draw(run.model, run.scaling, source, len(members), first=members.start, **options).members
    assert drawn is not None
    return drawn


def draw_in_shares(
    run: RunRecord,
    source: Source,  # physical units
    members: int,
    engine: Engine,
    *,
    steps: int = 1,
    quantiles: Sequence[float] = (),
    keep_members: bool = True,
    progress: Progress | None = None,
    **options: Any,  # of `draw`; `max_memory` is that of each worker
) -> Summary:
    """The summary that `draw` gives, with the drawing spread over an engine; all members are gathered here."""
    check_memory(members, len(source), (steps, *source.values.shape[1:]), options.get("max_memory", DRAWN))
    size = max(1, -(-members // (SHARES * engine.jobs)))
    shares = [range(start, min(start + size, members)) for start in range(0, members, size)]
    work = partial(draw_share, run.path.resolve(), source, {"steps": steps, **options})
    kept = np.empty((members, len(source), steps, *source.values.shape[1:]), np.float32)
    done = 0
    for share, outcome in spread(work, shares, engine):
        if isinstance(outcome, Exception):
            raise outcome
        kept[share.start : share.stop] = outcome
        done += len(share)
        if progress is not None:
            progress("drawing members", done, members)
    return summarise(kept, quantiles, keep_members)


Share = tuple[int, tuple[int, int]]  # a scene, and which of its values


def draw_scenes(
    run: RunRecord,
    record: Record,  # values standardised
    scenes: Sequence[Scene],
    numbers: Sequence[int],  # of the scenes: each has noise of its own
    engine: Engine,
    told: SolidSet | None = None,  # a model that workers are told; None: they open the run's
    **options: Any,  # of `answer_shown`
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:  # positions of scenes; what `answer_shown` gives
    """Scenes as they are ready, drawn by the run of sets that is here, or by the one that workers open."""
    away = engine.kind != "here"
    model = told or (run.path.resolve() if away else run.model)
    work = partial(_draw_part, model, record, list(zip(scenes, numbers, strict=True)), options)
    cut = [chunks(record, scene) for scene in scenes]
    shares = [
        (place, part)
        for place, some in enumerate(cut)
        for part in _parts([len(rows) for rows, _ in some], len(scenes), engine.jobs if away else 1)
    ]
    left = Counter(place for place, _ in shares)
    drawn = dict[int, dict[int, tuple[np.ndarray, np.ndarray]]]()
    for (place, part), outcome in spread(work, shares, engine):
        if isinstance(outcome, Exception):
            raise outcome
        drawn.setdefault(place, {})[part[0]] = outcome
        left[place] -= 1
        if not left[place]:
            parts = drawn.pop(place)
            order = in_order(cut[place])
            members, laws = (
                np.concatenate(some, 1)[:, order] for some in zip(*(parts[s] for s in sorted(parts)), strict=True)
            )
            yield place, members, laws


def _parts(sizes: Sequence[int], scenes: int, jobs: int) -> list[tuple[int, int]]:
    """Runs of chunks: all where there are as many scenes as jobs, else so many that all jobs have work."""
    wanted = min(-(-jobs // scenes), len(sizes))
    ends = np.searchsorted(np.cumsum(sizes), np.sum(sizes) * np.arange(1, wanted + 1) / wanted) + 1
    ends = np.unique(ends.clip(max=len(sizes)))
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def _draw_part(
    model: SolidSet | Path, record: Record, scenes: Sequence[tuple[Scene, int]], options: dict[str, Any], share: Share
) -> tuple[np.ndarray, np.ndarray]:  # (K, n), (2 + Q, n)
    place, part = share
    scene, number = scenes[place]
    known = _opened(model) if isinstance(model, Path) else model
    return answer_shown(known, record, scene, number=number, part=part, **options)


@lru_cache(1)
def _opened(path: Path) -> Any:
    return RunRecord.open(path).model
