"""A large ensemble in shares, drawn wherever an engine works.

Of models on pairs a share is some of the members of all queries: every member has its own noise (`noise.py`), so the
shares together are the ensemble that one process would have drawn. Of the model of sets it is a scene (a time), or some
of its places with all their members, since the law of a place is made once for all of them. A worker opens the run
folder by itself: on a cluster it must see the same path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import Engine, Progress, spread_all
from ..fields import Source
from ..models.solid_set import SolidSet
from ..questions.record import Record
from ..training.record import RUN, RunRecord
from .answer import Chunk, Scene, answer_shown, chunks, in_order
from .ensemble import DRAWN, Summary, check_memory, draw_members, summarise

SHARES = 4  # for each job: more balance the load, fewer open the run less often


def draw_share(path: Path, source: Source, options: dict[str, Any], members: range) -> np.ndarray:  # (k, N, L, C, H, W)
    """These members of the ensemble, by the run at `path`."""
    run = opened(path)
    return draw_members(run.model, run.scaling, source, len(members), first=members.start, **options)


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
    for share, outcome in spread_all(work, shares, engine):
        kept[share.start : share.stop] = outcome
        done += len(share)
        if progress is not None:
            progress("drawing members", done, members)
    return summarise(kept, quantiles, keep_members)


@dataclass(frozen=True)
class Share:
    """Some chunks of a scene, and all that a worker must be told of them: the readings of its own window alone."""

    place: int  # of the scene among those asked for
    part: tuple[int, int]
    record: Record
    scene: Scene
    number: int  # each scene has noise of its own


def draw_scenes(
    run: RunRecord,
    record: Record,  # values standardised
    scenes: Sequence[Scene],
    numbers: Sequence[int],  # of the scenes
    engine: Engine,
    told: SolidSet | None = None,  # a model that workers are told; None: they open the run's
    **options: Any,  # of `answer_shown`
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:  # positions of scenes; what `answer_shown` gives
    """Scenes as they are ready, drawn by the run of sets that is here, or by the one that workers open."""
    away = engine.kind != "here"
    model = told or (run.path.resolve() if away else run.model)
    cut = dict[int, list[Chunk]]()  # of the scenes that are on the way
    drawn = dict[int, dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]]()

    def shares() -> Iterator[Share]:
        for place, (whole, number) in enumerate(zip(scenes, numbers, strict=True)):
            known, scene = whole.among(record)
            cut[place] = chunks(known, scene)
            sizes = [len(rows) for rows, _ in cut[place]]
            parts = _parts(sizes, len(scenes), engine.jobs if away else 1)
            drawn[place] = dict.fromkeys(parts, _NOTHING)
            for part in parts:
                yield Share(place, part, known, scene, number)

    for share, outcome in spread_all(partial(_draw_part, model, options), shares(), engine):
        parts = drawn[share.place]
        parts[share.part] = outcome
        if all(part is not _NOTHING for part in parts.values()):
            order = in_order(cut.pop(share.place))
            members, laws = (np.concatenate(some, 1)[:, order] for some in zip(*parts.values(), strict=True))
            del drawn[share.place]
            yield share.place, members, laws


_NOTHING: Any = object()


def _parts(sizes: Sequence[int], scenes: int, jobs: int) -> list[tuple[int, int]]:
    """Runs of chunks: all where there are as many scenes as jobs, else so many that all jobs have work."""
    wanted = min(-(-jobs // scenes), len(sizes))
    ends = np.searchsorted(np.cumsum(sizes), np.sum(sizes) * np.arange(1, wanted + 1) / wanted) + 1
    ends = np.unique(ends.clip(max=len(sizes)))
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def _draw_part(
    model: SolidSet | Path, options: dict[str, Any], share: Share
) -> tuple[np.ndarray, np.ndarray]:  # (K, n), (2 + Q, n)
    known = opened(model).model if isinstance(model, Path) else model
    return answer_shown(known, share.record, share.scene, number=share.number, part=share.part, **options)


def opened(path: Path) -> RunRecord:
    """The run of a worker, opened once; and again where another has taken its place."""
    return _opened(path, (path / RUN).read_bytes() if (path / RUN).is_file() else b"")


@lru_cache(1)
def _opened(path: Path, document: bytes) -> RunRecord:
    return RunRecord.open(path)
