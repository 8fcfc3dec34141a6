"""`solid bench era5`: 2 m temperature from 3 % random sensors, now and an hour ahead, judged on the full grid.

Sensors are drawn anew every hour; training sees their readings and 3 % other cells as targets, never the field. The
judge alone opens the dense truth, on the held-out days, and scores every cell: `grid` is all of them, `unobserved`
those without a sensor. Kriging has a covariance fitted to the same training readings. Several hours ahead every model
is rolled forward and judged at the targets of the later hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SolidError
from ...grid import Grid
from ...pairs.frames import Frames
from ...pairs.scaling import Scaling
from ...pairs.store import open_pairs
from ...report.ensembles import contenders, draw_targets
from ...report.rollouts import judge_rollouts
from ...report.scoring import judge, lead_of
from ...report.targets import choose_examples, lengths, truth_targets
from ...scores.table import Comparison, Lead, Score
from ...training.record import RunRecord
from ..datasets.era5 import CREDIT, dense_era5, era5_pairs
from .real import Note, Task, fill, is_closed, judged, plan
from .real_brief import bin_in_brief, digits, estimate, part_of, region_in_brief, rolled_in_brief

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
    truth = Dense(dense_era5(data))
    if truth.grid.shape != store.grid.shape:
        raise SolidError(f"{data} holds another grid than {store.path} was made of; choose another --work")
    leads = []
    for lead in store.leads:
        targets = truth_targets(store, choose_examples(store, lead, scenes), truth)
        drawn = {}
        for place, one in enumerate(everyone):
            if note is not None:
                note(f"{one.name}, lead {lead}", place, len(everyone))
            drawn[one.name] = draw_targets(one, store, [targets], members, tasks[0].seed).members[0]
        found = judge(targets, drawn, store, (float(targets.values.std()),))
        leads.append(_lead(lead_of(targets, store, len(targets.examples)), *found))
    std = Scaling.fit(store, store.split("train")).physical_std
    rolled = judge_rollouts(everyone, runs[0], store, steps, std, members, scenes, tasks[0].seed, note)
    return {
        "distance_units": lengths(store.grid)[1],
        "leads": leads,
        "rolled": rolled_in_brief(rolled[0], rolled[1], store.variables[0], runs[0].model.memory),
    }


@dataclass(frozen=True)
class Dense:
    """ERA5 as a truth of one trajectory."""

    fields: Frames

    @property
    def grid(self) -> Grid:
        return self.fields.grid

    @property
    def times(self) -> np.ndarray:  # (F,)
        return self.fields.times

    def read(self, indices: Sequence[int]) -> np.ndarray:  # (n, F, C, H, W)
        return np.stack([self.fields.values for _ in indices])


def _lead(lead: Lead, scores: list[Score], comparisons: list[Comparison]) -> dict[str, Any]:
    kept = ("grid", "unobserved", "sensors")
    models: dict[str, Any] = {}
    for score in scores:
        entry = models.setdefault(score.model, {"regions": {}, "structure": {}, "by_distance": []})
        if score.bin is not None:
            entry["by_distance"].append(bin_in_brief(score))
        elif score.region in kept:
            entry["regions"][score.region] = {"readings": score.cells, **region_in_brief(score)}
        if score.region == "grid" and score.bin is None:
            joint = {
                "energy_score_scaled": score.scaled("energy_score"),
                "block_crps": score["block_crps"],
                "block_spread_skill": score["block_spread_skill"],
            }
            entry["structure"] = {name: None if e is None else digits(e.mean) for name, e in joint.items()}
    difference: dict[str, Any] = {}
    for gap in comparisons:
        if gap.bin is None and gap.region in kept:
            difference.setdefault(gap.rival, {})[gap.region] = estimate(gap.difference)
    return {
        "lead": lead.lead,
        "ahead": lead.ahead,
        "scenes": lead.scenes,
        "days": lead.groups,
        "models": models,
        "difference": difference,
    }
