"""`solid bench era5`: 2 m temperature from 3 % random sensors, now and an hour ahead, judged on the full grid.

Sensors are drawn anew every hour; training sees their readings and 3 % other cells as targets, never the field. The
judge alone opens the dense truth, on the held-out days, and scores every cell: `grid` is all of them, `unobserved`
those without a sensor. Kriging has a covariance fitted to the same training readings. Several hours ahead every model
is rolled forward and judged at the targets of the later hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SolidError
from ...pairs.scaling import Scaling
from ...pairs.store import PairStore, open_pairs
from ...prediction.ensemble import draw
from ...report.drawn import Contender, contenders
from ...report.held import choose_examples, lengths
from ...report.rolled import judge_rolled
from ...report.truth import groups_of
from ...report.words import lead_label
from ...scores.estimate import bootstrap
from ...scores.nested import regions, score
from ...theory.distance import distances_to_sensor
from ...training.record import RunRecord
from ..datasets.era5 import CREDIT, dense_era5, era5_pairs
from .real import Note, Task, fill, is_closed, judged, plan
from .real_brief import digits, estimate, part_of, region_in_brief, rolled_in_brief

MODELS = ("solid", "kriging", "persistence", "climatology")
PART = "full grid"


def run_era5(
    data: Path,
    work: Path,
    models: Sequence[str] = MODELS,
    share: float = 0.03,  # of the cells that are read
    minutes: float = 8.0,  # CPU time on one thread for each trained model
    seeds: int = 1,
    members: int = 100,
    scenes: int | None = None,  # of each lead; None: all test examples
    jobs: int = 2,
    steps: int = 6,  # of a rollout
    note: Note | None = None,
) -> dict[str, Any]:
    """Results at both leads; runs that are in `work` already are used again."""
    home = work / f"share-{share:g}"
    pairs = fill(home / "pairs.zarr", lambda path: era5_pairs(data, path, share))
    tasks = plan(PART, pairs, home, models, minutes, seeds)
    found = judged(tasks, jobs, lambda group: judge_dense(group, models, data, members, scenes, steps, note), note)
    return {
        "data": CREDIT,
        "share": share,
        "minutes": minutes,
        "members": members,
        "parts": {PART: part_of(found[PART], "K", "grid")},
    }


def judge_dense(
    tasks: Sequence[Task],
    models: Sequence[str],
    data: Path,
    members: int,
    scenes: int | None = None,
    steps: int = 6,
    note: Note | None = None,
) -> dict[str, Any]:
    """The runs of one seed and their rivals against the whole field of the held-out days; at readings, hours ahead."""
    runs, store = [RunRecord.open(task.folder) for task in tasks], open_pairs(tasks[0].pairs)
    rivals = [name for name in models if is_closed(name) and name not in {task.scheme.model for task in tasks}]
    everyone = contenders(runs[0], store, rivals, runs[1:])
    truth = dense_era5(data)
    if truth.grid.shape != store.grid.shape:
        raise SolidError(f"{data} holds another grid than {store.path} was made of; choose another --work")
    leads = []
    for lead in store.leads:
        chosen = choose_examples(store, lead, scenes)
        values = truth.values[store.columns["frame_target"][chosen]]  # (N, C, H, W)
        found = {}
        for place, one in enumerate(everyone):
            if note is not None:
                note(f"{one.name}, lead {lead}", place, len(everyone))
            found[one.name] = _score(_ensemble(one, store, chosen, members, tasks[0].seed), values, store, chosen)
        leads.append(_lead(store, lead, chosen, found))
    std = Scaling.fit(store, store.split("train")).physical_std
    rolled = judge_rolled(everyone, runs[0], store, steps, std, members, scenes, tasks[0].seed, note)
    return {
        "distance_units": lengths(store.grid)[1],
        "leads": leads,
        "rolled": rolled_in_brief(rolled, store.variables[0]),
    }


def _ensemble(one: Contender, store: PairStore, chosen: np.ndarray, members: int, seed: int) -> np.ndarray:
    source = store.batch(chosen).source
    if one.model.spec.covariates == 0:
        source = replace(source, covariates=None)
    count, queries = members if one.model.stochastic else 1, [int(i) for i in chosen]
    summary = draw(one.model, one.scaling, source, count, seed=seed, queries=queries)
    assert summary.members is not None
    return summary.members[:, :, 0]  # (K, N, C, H, W)


def _score(ensemble: np.ndarray, values: np.ndarray, store: PairStore, chosen: np.ndarray) -> dict[str, Any]:
    pair = store.batch(chosen)
    given = pair.source.mask.numpy()
    spacing, _ = lengths(store.grid)
    found = score(
        ensemble,
        values,
        regions(given, pair.target.mask.numpy(), dense=np.ones_like(given)),
        (float(values.std()),),
        store.variables,
        distances_to_sensor(given, spacing, store.grid.periodic)[:, None],
        groups=groups_of(store, chosen),
    )
    return found["variables"][store.variables[0]]


def _lead(store: PairStore, lead: int, chosen: np.ndarray, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    groups, (own, *rivals) = groups_of(store, chosen), found
    kept = ("grid", "unobserved", "sensors")

    def per_scene(name: str, region: str) -> np.ndarray:  # (N,)
        return np.array(found[name]["regions"][region]["crps_per_case"], dtype=np.float64)

    return {
        "lead": lead,
        "ahead": lead_label(lead * store.step, dated=True),
        "scenes": len(chosen),
        "days": len(np.unique(groups)),
        "models": {
            name: {
                "regions": {
                    region: {"readings": model["regions"][region]["cells"], **region_in_brief(model["regions"][region])}
                    for region in kept
                },
                "structure": {
                    what: digits((model["structure"][what] or {}).get("mean"))
                    for what in ("energy_score_scaled", "block_crps", "block_spread_skill")
                },
                "by_distance": _by_distance(model["by_distance"]),
            }
            for name, model in found.items()
        },
        "difference": {
            name: {
                region: estimate(bootstrap(per_scene(own, region) - per_scene(name, region), groups=groups)._asdict())
                for region in kept
            }
            for name in rivals
        },
    }


def _by_distance(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Columns by bin as rows; bins pool cells, so they have no error bar of their own."""
    columns = ("low", "high", "count", "crps", "coverage")
    rows = []
    for low, high, count, crps, coverage in zip(*(table[name] for name in columns), strict=True):
        row: dict[str, Any] = {"low": digits(low), "high": digits(high), "readings": count}
        row["crps"] = estimate({"mean": crps, "low": None, "high": None})
        row["coverage"] = None if coverage is None else estimate({"mean": coverage, "low": None, "high": None})
        rows.append(row)
    return rows
