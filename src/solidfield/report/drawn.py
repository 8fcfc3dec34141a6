"""Members at the held-out readings: whole maps are drawn scene after scene, and only what is judged is kept.

So memory grows with the number of readings and not with the grid. Every model draws the same scenes; a rival in closed
form is fitted to the training split first, a trained one comes with its own scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ensemble import draw
from ..errors import SolidError
from ..evaluate import fit_rival
from ..forecast import Forecaster
from ..pairs import PairStore
from ..run import LoadedRun
from ..scaling import Scaling
from .held import Held

BUDGET = 2**28  # bytes of whole maps that are held at a time
Progress = Callable[[int, int], None]  # (scenes done, all)


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
    run: LoadedRun,
    store: PairStore,
    rivals: Sequence[str],
    runs: Sequence[LoadedRun] = (),
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
    model, N = contender.model, len(held.examples)
    K = members if model.stochastic else 1
    C, cells = len(store.variables), store.grid.cells
    probes = np.empty(0, np.int64) if probes is None else probes
    kept = np.empty((K, len(held.case)), np.float32)
    series = np.empty((K, N, len(probes)), np.float32)
    scene = np.empty((K, C, *store.grid.shape), np.float32)
    flat = held.channel * cells + held.cell
    step = max(1, BUDGET // (4 * K * C * cells))
    for start in range(0, N, step):
        chosen = held.examples[start : start + step]
        source = store.batch(chosen).source
        if model.spec.covariates == 0:
            source = replace(source, covariates=None)
        summary = draw(
            model, contender.scaling, source, K, seed=seed, queries=[int(i) for i in chosen], keep_members=True
        )
        assert summary.members is not None
        maps = summary.members[:, :, 0].reshape(K, len(chosen), -1)  # (K, n, C * H * W)
        rows = (held.case >= start) & (held.case < start + step)
        kept[:, rows] = maps[:, held.case[rows] - start, flat[rows]]
        series[:, start : start + step] = maps[:, :, probes]
        if start <= picture < start + step:
            scene = maps[:, picture - start].reshape(scene.shape)
        if progress is not None:
            progress(min(start + step, N), N)
    if not np.isfinite(kept).all():
        raise SolidError(f"'{contender.name}' drew values that are not finite; it cannot be judged")
    return Drawn(kept, series, scene)
