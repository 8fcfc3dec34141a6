"""Judge a run where there is no truth: predict held-out test examples, score them beside rivals, say what it means.

`judge_run` returns the findings; their `results` are plain JSON (`scores.json`), and the evidence of each lead is what
figures are drawn from. Nothing that training or conditioning saw is scored, if the run was trained on this store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SolidError
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..prediction.predict import provenance
from ..training.record import RunRecord
from .drawn import Drawn, contenders, draw_held
from .held import Held, choose_examples, held_readings, lengths, share_beyond
from .rolled import judge_rolled
from .scored import score_lead
from .truth import local_times
from .verdict import verdict
from .words import lead_label

RIVALS = ("climatology", "nearest", "persistence", "kriging")
PROBES = 4  # places whose series is drawn

Note = Callable[[str, int, int], None]  # (what, done, all)


@dataclass(frozen=True)
class Evidence:
    """What the figures of one lead need."""

    ahead: str
    held: Held
    members: dict[str, np.ndarray]  # model -> (K, P), the run's own first
    own: Drawn
    picture: int  # row of the drawn scene in `held.examples`
    probes: np.ndarray  # (S,) flat cells


@dataclass(frozen=True)
class Findings:
    results: dict[str, Any]
    run: RunRecord
    store: PairStore
    evidence: list[Evidence]


def judge_run(
    run: RunRecord,
    store: PairStore,
    *,
    rivals: Sequence[str] = RIVALS,
    runs: Sequence[RunRecord] = (),  # trained rivals
    members: int = 100,
    scenes: int | None = None,  # test examples of each lead, evenly spaced; None: all
    steps: int = 1,  # from 2 on the models are also rolled forward, and judged after every step
    seed: int = 0,
    note: Note | None = None,
) -> Findings:
    """Score the run and its rivals at every lead of the store that the run knows."""
    leads = [lead for lead in store.leads if lead in run.info["data"]["leads"]]
    if not leads:
        raise SolidError(f"the run {run.path} knows leads {run.info['data']['leads']}, {store.path} has {store.leads}")
    models = contenders(run, store, rivals, runs)
    std = Scaling.fit(store, store.split("train")).physical_std
    rolled = judge_rolled(models, run, store, steps, std, members, scenes, seed, note) if steps > 1 else None
    evidence, scored = [], []
    for lead in leads:
        chosen = choose_examples(store, lead, scenes)
        held = held_readings(store, chosen, run.never_supervised.numpy())
        ahead = lead_label(lead * store.step, store.epoch is not None)
        probes, picture = choose_probes(held), int(np.bincount(held.case).argmax())
        drawn: dict[str, Drawn] = {}
        for model in models:
            if model.name == ("persistence" if lead == 0 else "nearest"):
                continue  # one map under two names: nearest reconstructs, persistence forecasts
            tell = None if note is None else _telling(note, f"{model.name}, {ahead}")
            drawn[model.name] = draw_held(model, store, held, members, seed, probes, picture, tell)
        ensembles = {name: one.members for name, one in drawn.items()}
        evidence.append(Evidence(ahead, held, ensembles, next(iter(drawn.values())), picture, probes))
        scored.append(
            {
                "lead": lead,
                "lead_time": lead * store.step,
                "ahead": ahead,
                "scenes": len(chosen),
                "scenes_in_all": len(choose_examples(store, lead)),
                "groups": len(np.unique(held.group)),
                "main": held.main,
                "beyond": _beyond(store, held),
                **score_lead(held, ensembles, store.variables, std),
            }
        )
    results: dict[str, Any] = {
        "what": "held-out readings",
        "variables": dict(zip(store.variables, store.units, strict=True)),
        "group": "day" if store.epoch is not None else "trajectory",
        "distance_units": lengths(store.grid)[1],
        "map": _map(run, store),
        "data": describe_data(store),
        "run": provenance(run, seed, members) | {"trained_on_this_store": _same_data(run, store)},
        "leads": scored,
    }
    if rolled is not None:
        results["rolled"] = rolled
    return Findings({"verdict": verdict(results)} | results, run, store, evidence)


def _telling(note: Note, what: str) -> Callable[[int, int], None]:
    return lambda done, total: note(what, done, total)


def _same_data(run: RunRecord, store: PairStore) -> bool:
    return bool(run.info["data"]["fingerprint"] == store.fingerprint)


def _beyond(store: PairStore, held: Held) -> dict[str, Any]:
    """The largest distance that was scored, and how much of the map lies farther."""
    found = {}
    for c, variable in enumerate(store.variables):
        away = held.distance[(held.channel == c) & np.isfinite(held.distance)]
        limit = float(away.max(initial=0.0))
        found[variable] = {"limit": limit, "share": share_beyond(store, held.examples, limit)}
    return found


def _map(run: RunRecord, store: PairStore) -> dict[str, Any]:
    inside = store.grid.inside
    never = run.never_supervised.numpy() & inside
    return {
        "cells": int(inside.sum()),
        "never_supervised": {name: int(never[c].sum()) for c, name in enumerate(store.variables)},
        "held": {name: int(mask.sum()) for name, mask in store.held.items()},
    }


def choose_probes(held: Held, count: int = PROBES) -> np.ndarray:  # (S,) flat cells of the first variable
    """Places for series: the most read of the held-out sensors; then of held-out blocks, of all cells."""
    for region in ("held_sensors", "held_blocks", "all"):
        rows = held.regions.get(region, np.zeros(len(held.case), dtype=bool)) & (held.channel == 0)
        if rows.any():
            cells, counts = np.unique(held.cell[rows], return_counts=True)
            return cells[np.argsort(-counts, kind="stable")][:count]
    return np.empty(0, np.int64)


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
    }
    for split in sizes:
        times = local_times(store, store.split(split))
        if times is not None:
            about[f"{split}_times"] = [times.min().isoformat(), times.max().isoformat()]
    return about
