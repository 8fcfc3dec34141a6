"""A large ensemble in shares: some of the members of all queries, drawn wherever an engine works.

Every member has its own noise (`noise.py`), so the shares together are the ensemble that one process would have drawn.
A worker opens the run folder by itself: on a cluster it must see the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..engine import Engine, spread
from ..fields import Source
from ..training.record import RunRecord
from .ensemble import Summary, draw, summarise

SHARES = 4  # for each job: more balance the load, fewer open the run less often


@dataclass(frozen=True)
class Share:
    """A share on its way to a worker; picklable."""

    run: Path
    source: Source  # physical units, N queries
    later: tuple[Source, ...]
    members: range
    steps: int
    seed: int
    queries: tuple[int, ...] | None
    max_memory: float


def draw_share(share: Share) -> np.ndarray:  # (k, N, L, C, H, W)
    run = RunRecord.open(share.run)
    drawn = draw(
        run.model,
        run.scaling,
        share.source,
        len(share.members),
        first=share.members.start,
        steps=share.steps,
        later=share.later,
        seed=share.seed,
        queries=share.queries,
        max_memory=share.max_memory,
    ).members
    assert drawn is not None
    return drawn


def draw_in_shares(
    run: RunRecord,
    source: Source,  # physical units
    members: int,
    engine: Engine,
    *,
    steps: int = 1,
    later: Sequence[Source] = (),
    seed: int = 0,
    queries: Sequence[int] | None = None,
    quantiles: Sequence[float] = (),
    keep_members: bool = True,
    max_memory: float = 2.0,  # GiB of each worker
    progress: Callable[[int, int], None] | None = None,  # (members done, members in all)
) -> Summary:
    """The summary that `draw` gives, with the drawing spread over an engine; all members are gathered here."""
    size = max(1, -(-members // (SHARES * engine.jobs)))
    identities = None if queries is None else tuple(queries)
    shares = [
        Share(run.path.resolve(), source, tuple(later), chosen, steps, seed, identities, max_memory)
        for start in range(0, members, size)
        if (chosen := range(start, min(start + size, members)))
    ]
    kept = np.empty((members, len(source), steps, *source.values.shape[1:]), np.float32)
    done = 0
    for share, outcome in spread(draw_share, shares, engine):
        if isinstance(outcome, Exception):
            raise outcome
        kept[share.members.start : share.members.stop] = outcome
        done += len(share.members)
        if progress is not None:
            progress(done, members)
    return summarise(kept, quantiles, keep_members)
