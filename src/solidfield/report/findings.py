"""Judge a run by what was held out: predict test examples, score them beside rivals, say what it means.

`evaluate_run` is the function behind `solid evaluate RUN`. Nothing that training or conditioning saw is scored, if the
run was trained on this store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import Progress
from ..errors import SolidError
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore, open_pairs
from ..prediction.card import card, picture
from ..prediction.predict import provenance
from ..scores.registry import TAIL
from ..scores.table import Lead, ScoreTable
from ..training.record import PAIRS, RunRecord
from .ensembles import RIVALS, Drawn, contenders, draw_targets
from .rollouts import judge_rollouts
from .scoring import judge
from .targets import Targets, choose_examples, clock_of, local_times, reading_targets, share_beyond
from .verdict import Verdict, verdict
from .words import amount, group_of, percent

PROBES = 4  # places of each variable whose series is drawn
HIGH = 0.9  # quantile of the training readings that counts as high


@dataclass(frozen=True)
class Evidence:
    """What the figures of one lead need."""

    lead: Lead
    targets: Targets
    members: dict[str, np.ndarray]  # model -> (K, P), the run's own first
    own: Drawn
    picture: int  # row of the drawn scene in `targets.examples`
    probes: np.ndarray  # (S,) flat cells of (C, H, W)
    given: np.ndarray  # (C, H, W) what was read in the drawn scene, NaN elsewhere
    later: np.ndarray  # (C, H, W) what judges it


@dataclass(frozen=True)
class Findings:
    """All scores, what they mean in words, and what figures are drawn from."""

    table: ScoreTable
    verdict: Verdict
    run: RunRecord
    held: Mapping[str, np.ndarray]  # cells held for ever, by kind: (H, W) bool
    high: tuple[float, ...]  # (C,) the readings' upper tenth
    evidence: list[Evidence]

    def _repr_html_(self) -> str:
        """The verdict, the score that decides at each lead, and the mean and spread of the first scene."""
        lines = {"verdict": self.verdict.headline, "the map": self.verdict.map}
        for call in self.verdict.calls:
            units, coverage = self.table.variables[call.variable], call.own["coverage_90"]
            rival = f"; {call.best.model} {amount(call.best['crps'].mean, units)}" if call.best else ""
            held = f"; 90 % intervals hold {percent(coverage.mean, 1)}" if coverage else ""
            lines[call.where] = f"CRPS {amount(call.own['crps'].mean, units)}{rival}{held}"
        lines["where not to trust it"] = " ".join(self.verdict.caution) or "nothing was found"
        title = f"How far to trust maps of {', '.join(self.table.variables)}"
        return card(title, lines, self._small_maps() if self.evidence else [])

    def _small_maps(self) -> list[str]:
        scene, grid, name = self.evidence[0], self.run.grid, self.run.variables[0]
        members, shown = scene.own.picture[:, 0], scene.own.shown  # (K, H, W)
        mean, spread = (members.mean(0), members.std(0)) if shown is None else shown[:, 0]
        maps = {f"mean of {name} {scene.lead.ahead}": mean, f"spread of {name}": spread}
        read, units = np.isfinite(scene.given[0]), self.run.units[0]
        return [
            picture(np.where(grid.inside, values, np.nan), grid.y, grid.x, words, units, read)
            for words, values in maps.items()
        ]


def evaluate_run(
    run: RunRecord,
    store: PairStore | None = None,
    *,
    rivals: Sequence[str] = RIVALS,
    runs: Sequence[RunRecord] = (),
    members: int = 100,
    scenes: int | None = None,
    steps: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> Findings:
    """Judge a run by readings that were held out, beside rivals, at every lead that it knows.

    Parameters
    ----------
    run : RunRecord
        The run to judge.
    store : PairStore, optional
        The pairs to judge by; by default those in the run's own folder.
    rivals : sequence of str, default climatology, nearest, persistence, kriging, forest, boosting
        Closed-form models and trees, fitted to the training split of the store; trees are not rolled forward.
    runs : sequence of RunRecord
        Trained runs to compare with.
    members : int, default 100
        Of each ensemble; 19 or more span a 90 % interval.
    scenes : int, optional
        Test examples of each lead, evenly spaced in time; by default all.
    steps : int, default 1
        From 2 on the models are also rolled forward, from 40 scenes unless `scenes` says more, and judged at each step.
    seed : int, default 0
        Same seed, same members.
    progress : callable, optional
        Called as `progress(what, done, total)`.

    Returns
    -------
    Findings
        `table` (a `ScoreTable`), `verdict` (in words), and the evidence that `write_report` draws.

    Raises
    ------
    SolidError
        If the run and the store share no lead, differ in grid or variables, or nothing was held out.

    Examples
    --------
    >>> findings = evaluate_run(load("run"), members=50)     # doctest: +SKIP
    >>> print(findings.verdict.headline)                         # doctest: +SKIP
    """
    store = own_pairs(run) if store is None else store
    common = [lead for lead in store.leads if lead in run.info["data"]["leads"]]
    if not common:
        raise SolidError(f"the run {run.path} knows leads {run.info['data']['leads']}, {store.path} has {store.leads}")
    models = contenders(run, store, rivals, runs)
    std, tail = Scaling.fit(store, store.split("train")).physical_std, _high(store, TAIL)
    evidence, tables = list[Evidence](), list[ScoreTable]()
    if steps > 1:
        tables.append(
            judge_rollouts(
                [m for m in models if m.rolls], run, store, steps, std, members, scenes, seed, progress, tail
            )
        )
    for lead in common:
        targets = reading_targets(store, choose_examples(store, lead, scenes), run.never_supervised.numpy())
        probes, picture = choose_probes(targets, store), int(np.bincount(targets.scene).argmax())
        drawn: dict[str, Drawn] = {}
        for place, model in enumerate(models):
            if place == 0 or model.judged_at(lead):
                drawn[model.name] = draw_targets(
                    model, store, [targets], members, seed, probes=probes, picture=picture, progress=progress
                )
        ensembles = {name: one.members[0] for name, one in drawn.items()}
        in_all = len(choose_examples(store, lead))
        tables.append(judge(targets, ensembles, store, std, in_all, beyond=_beyond(store, targets), tail=tail))
        own = next(iter(drawn.values()))
        shown = _shown(store, int(targets.examples[picture]))
        evidence.append(Evidence(tables[-1].leads[0], targets, ensembles, own, picture, probes, *shown))
    table = ScoreTable.join(tables, _about(run, store, members, seed))
    return Findings(table, verdict(table), run, store.held, _high(store, HIGH), evidence)


def _shown(store: PairStore, example: int) -> tuple[np.ndarray, np.ndarray]:  # (C, H, W) given, and what judges
    pair = store.batch(np.array([example]))
    given, later = (np.where(side.mask[0], side.values[0], np.nan) for side in (pair.source, pair.target))
    return given, later


def _high(store: PairStore, level: float) -> tuple[float, ...]:  # (C,)
    """A quantile of the training readings."""
    _, flat, values = store.readings_of("target", store.split("train"))
    channel = flat // store.grid.cells
    return tuple(float(np.quantile(values[channel == c], level)) for c in range(len(store.variables)))


def own_pairs(run: RunRecord) -> PairStore:
    if not (run.path / PAIRS).exists():
        raise SolidError(f"{run.path} holds no pair store of its own; give the one to judge by with --pairs")
    return open_pairs(run.path / PAIRS)


def _about(run: RunRecord, store: PairStore, members: int, seed: int) -> dict[str, Any]:
    """Where the scores come from."""
    never = run.never_supervised.numpy() & store.grid.inside
    same = bool(run.info["data"]["fingerprint"] == store.fingerprint)
    return {
        "judged_by": "held-out readings",
        "group": group_of(run.info["data"].get("holdout")) if store.epoch is not None else "trajectory",
        "memory": run.model.memory,
        "map": {
            "cells": int(store.grid.inside.sum()),
            "never_supervised": {name: int(never[c].sum()) for c, name in enumerate(store.variables)},
            "held": {name: int(mask.sum()) for name, mask in store.held.items()},
        },
        "data": describe_data(store),
        "run": provenance(run, seed, members) | {"trained_on_this_store": same},
    }


def _beyond(store: PairStore, targets: Targets) -> dict[str, tuple[float, float]]:
    """The largest distance that was scored, and how much of the map lies farther."""
    found = {}
    for c, variable in enumerate(store.variables):
        away = targets.distance[(targets.channel == c) & np.isfinite(targets.distance)]
        limit = float(away.max(initial=0.0))
        found[variable] = (limit, share_beyond(store, targets.examples, limit))
    return found


def choose_probes(
    targets: Targets, store: PairStore, count: int = PROBES
) -> np.ndarray:  # (S,) flat cells of (C, H, W)
    """Places for series, of each variable: the most read of held-out sensors; else of held-out blocks, of all cells."""
    chosen = [np.empty(0, np.int64)]
    for c in range(len(store.variables)):
        for region in ("held_sensors", "held_blocks", "all"):
            rows = targets.regions.get(region, np.zeros(len(targets.scene), dtype=bool)) & (targets.channel == c)
            if rows.any():
                cells, counts = np.unique(targets.cell[rows], return_counts=True)
                chosen.append(c * store.grid.cells + cells[np.argsort(-counts, kind="stable")][:count])
                break
    return np.concatenate(chosen)


def describe_data(store: PairStore) -> dict[str, Any]:
    """What was used, and how it was split."""
    sizes = {name: int(count) for name, count in store.attributes["splits"].items() if count}
    about: dict[str, Any] = {
        "fingerprint": store.fingerprint,
        "grid": " x ".join(map(str, store.grid.shape)),
        "examples": sizes,
        "readings": store.readings(),
        "leads": list(store.leads),
        "transforms": list(store.transforms),
        "scenario": store.attributes["scenario"],
        "clock": clock_of(store),
    }
    for split in sizes:
        times = local_times(store, store.split(split))
        if times is not None:
            about[f"{split}_times"] = [times.min().isoformat(), times.max().isoformat()]
    return about
