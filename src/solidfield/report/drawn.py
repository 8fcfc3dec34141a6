"""Members at the held-out readings: whole maps are drawn scene after scene, and only what is judged is kept.

So memory grows with the number of readings and not with the grid. Every model draws the same scenes; a rival in closed
form is fitted to the training split first, a trained one comes with its own scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import SolidError
from ..fields import Source
from ..forecast import Forecaster
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..prediction.ensemble import draw
from ..training.record import RunRecord
from .held import Held
from .truth import fit_rival

BUDGET = 2**28  # bytes of whole maps that are held at a time
Progress = Callable[[int, int], None]  # (scenes done, all)
Query = Callable[[np.ndarray], tuple[Source, Sequence[Source]]]  # examples -> what is given, what is known on the way


@dataclass(frozen=True)
class Drawn:
    """What is kept of one model's ensembles."""

    members: np.ndarray  # (K, P) at the held-out readings
    probes: np.ndarray  # (K, N, S) of the first variable at some cells, whether read or not
    picture: np.ndarray  # (K, C, H, W) of one scene


@dataclass(frozen=True)
class Contender:
    """A model that can be asked."""

    name: str
    model: Forecaster
    scaling: Scaling


def contenders(
    run: RunRecord,
    store: PairStore,
    rivals: Sequence[str],
    runs: Sequence[RunRecord] = (),
) -> list[Contender]:
    """The run, then its rivals in closed form, then other trained runs; each under a name of its own."""
    for trained in (run, *runs):
        if trained.grid != store.grid or trained.variables != store.variables:
            raise SolidError(
                f"{store.path} and the run {trained.path} differ in grid or variables; give the pairs it was trained on"
            )
    own = Scaling.fit(store, store.split("train"))
    found = [Contender(run.model.label(), run.model, run.scaling)]
    found += [Contender(name, fit_rival(name, store, own), own) for name in rivals]
    for other in runs:
        name = other.model.label()
        taken = {contender.name for contender in found}
        found.append(Contender(f"{name} ({other.path.name})" if name in taken else name, other.model, other.scaling))
    if found[0].name in [contender.name for contender in found[1:]]:
        found[0] = replace(found[0], name=f"{found[0].name} (this run)")
    names = [contender.name for contender in found]
    if len(set(names)) < len(names):
        raise SolidError(f"two models to compare are both called '{max(names, key=names.count)}'; leave one out")
    return found


def draw_held(
    contender: Contender,
    store: PairStore,
    held: Held,
    members: int,
    seed: int = 0,
    probes: np.ndarray | None = None,  # (S,) flat cells
    picture: int = 0,  # row in `held.examples`
    progress: Progress | None = None,
) -> Drawn:
    """Draw every scene, keep the held-out readings, the probes and one whole picture."""
    N, K = len(held.examples), members if contender.model.stochastic else 1
    probes = np.empty(0, np.int64) if probes is None else probes
    kept = np.empty((K, len(held.case)), np.float32)
    series = np.empty((K, N, len(probes)), np.float32)
    scene = np.empty((K, len(store.variables), *store.grid.shape), np.float32)
    for start, whole in draw_in_parts(contender, held.examples, K, seed, lambda few: (store.batch(few).source, [])):
        maps = whole[:, :, 0]  # (K, n, C * H * W)
        end = start + maps.shape[1]
        keep(kept, maps, held, start, store.grid.cells)
        series[:, start:end] = maps[:, :, probes]
        if start <= picture < end:
            scene = maps[:, picture - start].reshape(scene.shape)
        if progress is not None:
            progress(end, N)
    check_drawn(contender, kept)
    return Drawn(kept, series, scene)


def draw_in_parts(
    contender: Contender,
    examples: np.ndarray,  # (N,)
    members: int,
    seed: int,
    query: Query,
    steps: int = 1,
) -> Iterator[tuple[int, np.ndarray]]:  # the row of the first example, (K, n, L, C * H * W)
    """Whole maps of a few examples at a time."""
    model = contender.model
    at_once = max(1, BUDGET // (4 * members * steps * model.spec.channels * model.spec.grid.cells))
    for start in range(0, len(examples), at_once):
        few = examples[start : start + at_once]
        source, later = query(few)
        if model.spec.covariates == 0:
            source, later = replace(source, covariates=None), []
        queries = [int(i) for i in few]
        summary = draw(model, contender.scaling, source, members, steps=steps, later=later, seed=seed, queries=queries)
        assert summary.members is not None
        yield start, summary.members.reshape(members, len(few), steps, -1)


def keep(
    kept: np.ndarray,  # (K, P)
    maps: np.ndarray,  # (K, n, C * H * W)
    held: Held,
    start: int,  # row of the first of the n examples
    cells: int,  # of the grid
) -> None:
    """Take what the maps say at the held-out readings of their examples."""
    rows = (held.case >= start) & (held.case < start + maps.shape[1])
    kept[:, rows] = maps[:, held.case[rows] - start, (held.channel * cells + held.cell)[rows]]


def check_drawn(contender: Contender, *kept: np.ndarray) -> None:
    if not all(np.isfinite(one).all() for one in kept):
        raise SolidError(f"'{contender.name}' drew values that are not finite; it cannot be judged")
