"""Members at the targets: whole maps are drawn scene after scene, and only what is judged is kept.

So memory grows with the number of targets and not with the grid. Every model draws the same scenes; a rival in closed
form is fitted to the training split first, a trained one comes with its own scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..engine import Progress
from ..errors import SolidError
from ..fields import Source
from ..forecast import Fitted, Forecaster, Spec
from ..keys import evenly
from ..models import build
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..prediction.ensemble import draw_members
from ..training.record import RunRecord
from .targets import Targets
from .tree_maps import TreeMaps, at_targets
from .trees import NAMES

BUDGET = 2**28  # bytes of whole maps that are held at a time
FIT_EXAMPLES = 2000  # a rival is fitted to at most so many training examples; more do not change its covariance
FIT_BATCH, FIT_TREES = 250, 500
RIVALS = ("climatology", "nearest", "persistence", "kriging", *NAMES)
Query = Callable[[np.ndarray], tuple[Source, Sequence[Source]]]  # examples -> what is given, what is known on the way


@dataclass(frozen=True)
class Drawn:
    """What is kept of one model's ensembles."""

    members: list[np.ndarray]  # by step, (K, P) at its targets
    probes: np.ndarray  # (K, N, S) of the first step at some cells, whether read or not
    picture: np.ndarray  # (K, C, H, W) of one scene at the first step
    shown: np.ndarray | None = None  # (2, C, H, W) its mean and spread as maps show them, where not those of members


@dataclass(frozen=True)
class Contender:
    """A model that can be asked."""

    name: str
    model: Forecaster
    scaling: Scaling

    def judged_at(self, lead: int) -> bool:
        """Nearest reconstructs and persistence forecasts: they are one rule, judged under one name at a time."""
        return self.name != ("persistence" if lead == 0 else "nearest")

    @property
    def rolls(self) -> bool:
        return not isinstance(self.model, TreeMaps)


def contenders(
    run: RunRecord, store: PairStore, rivals: Sequence[str], runs: Sequence[RunRecord] = ()
) -> list[Contender]:
    """The run, then its rivals in closed form, then other trained runs; each under a name of its own."""
    for trained in (run, *runs):
        if trained.grid != store.grid or trained.variables != store.variables:
            raise SolidError(
                f"{store.path} and the run {trained.path} differ in grid or variables; give the pairs it was trained on"
            )
    found = [Contender(run.model.label(), run.model, run.scaling), *closed_forms(rivals, store)]
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


def closed_forms(names: Sequence[str], store: PairStore, scaling: Scaling | None = None) -> list[Contender]:
    """Rivals that are fitted to the training split alone; its own scaling unless another is given."""
    scaling = scaling or Scaling.fit(store, store.split("train"))
    found: dict[str, Fitted] = {}
    for name in names:
        before = next((rival for rival in found.values() if isinstance(rival, TreeMaps)), None)
        if before is not None and name in NAMES:  # one fit for both
            found[name] = TreeMaps(store.spec(), name, before.trees)
        else:
            found[name] = fit_rival(name, store, scaling)
    return [Contender(name, rival, scaling) for name, rival in found.items()]


def fit_rival(name: str, store: PairStore, scaling: Scaling) -> Fitted:
    """A closed-form model, fitted to the training split alone."""
    trees = TreeMaps(store.spec(), name) if name in NAMES else None
    rival = trees or build(name, Spec(store.grid, len(store.variables)))
    if not isinstance(rival, Fitted):
        raise SolidError(f"'{name}' has to be trained; only closed-form models can be rivals here, such as {RIVALS}")
    chosen = evenly(store.split("train"), FIT_EXAMPLES if trees is None else FIT_TREES)
    rival.fit(
        scaling.standardise(store.batch(chosen[start : start + FIT_BATCH]))
        for start in range(0, len(chosen), FIT_BATCH)
    )
    return rival


def draw_maps(
    contender: Contender,
    store: PairStore,
    examples: np.ndarray,  # (N,)
    members: int,
    seed: int = 0,
    steps: int = 1,
    query: Query | None = None,  # None: the source of each example
) -> np.ndarray:  # (K, N, L, C, H, W), one member of a point forecast
    """Whole maps of some examples."""
    source, later = query(examples) if query else (store.batch(examples).source, [])
    if contender.model.spec.covariates == 0:
        source, later = replace(source, covariates=None), []
    K, queries = members if contender.model.stochastic else 1, [int(i) for i in examples]
    how = {"steps": steps, "later": later, "seed": seed, "queries": queries}
    return draw_members(contender.model, contender.scaling, source, K, **how)


def draw_targets(
    contender: Contender,
    store: PairStore,
    targets: Sequence[Targets],  # a step ahead each, of the same scenes
    members: int,
    seed: int = 0,
    query: Query | None = None,  # None: the source of each example
    probes: np.ndarray | None = None,  # (S,) flat cells of (C, H, W)
    picture: int = 0,  # row of the scene that is kept whole
    progress: Progress | None = None,
) -> Drawn:
    """Draw every scene of the first of the targets, keep what is judged, the probes and one whole picture."""
    model, examples, steps = contender.model, targets[0].examples, len(targets)
    N, K, shape = len(examples), members if model.stochastic else 1, (len(store.variables), *store.grid.shape)
    if isinstance(model, TreeMaps):

        def source_of(scene: int) -> Source:
            one = examples[scene : scene + 1]
            return query(one)[0] if query else store.batch(one).source

        judged = at_targets(model, contender.scaling, source_of, targets[0], members, seed)
        return Drawn([judged], np.empty((K, N, 0), np.float32), np.empty((K, *shape), np.float32))
    cells = np.empty(0, np.int64) if probes is None else probes
    kept = [np.empty((K, len(at.scene)), np.float32) for at in targets]
    series, scene = np.empty((K, N, len(cells)), np.float32), np.empty((K, *shape), np.float32)
    at_once = max(1, BUDGET // (4 * K * steps * model.spec.channels * model.spec.grid.cells))
    for start in range(0, N, at_once):
        few = examples[start : start + at_once]
        maps = draw_maps(contender, store, few, members, seed, steps, query)  # (K, n, L, C, H, W)
        for step, at in enumerate(targets):
            rows, values = at.take(maps[:, :, step], start)
            kept[step][:, rows] = values
        series[:, start : start + len(few)] = maps[:, :, 0].reshape(K, len(few), -1)[:, :, cells]
        if start <= picture < start + len(few):
            scene = maps[:, picture - start, 0]
        if progress is not None:
            progress(contender.name, start + len(few), N)
    if not all(np.isfinite(one).all() for one in kept):
        raise SolidError(f"'{contender.name}' drew values that are not finite; it cannot be judged")
    return Drawn(kept, series, scene)
