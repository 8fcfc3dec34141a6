"""A large ensemble in shares: some of the members of all queries, drawn wherever an engine works.

Every member has its own noise (`noise.py`), so the shares together are the ensemble that one process would have drawn.
A worker opens the run folder by itself: on a cluster it must see the same path.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import Engine, Progress, spread
from ..fields import Source
from ..training.record import RunRecord
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
