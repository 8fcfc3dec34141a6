"""`solid bench flow`: the schemes and kriging on turbulence, one step of 0.4 time units ahead, 10 % observed.

The world is the laptop scale of the studies: a periodic box of side pi, 32 x 32 cells, random masks per example.
Every scheme has the same CPU time of one thread to train; kriging has the same training examples. Truth is opened
only to judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...keys import evenly
from ...pairs.store import open_pairs
from ...report.ensembles import closed_forms, draw_maps
from ...report.maps import RIVALS
from ...report.targets import truth_targets
from ...scores.table import Score, plain
from ...training.loop import Progress
from ...worlds import NavierStokes, write_truth
from ...worlds.observe import observe
from ...worlds.scenarios import Scenario
from ..studies.judged import judged, structure
from .schemes import account, members_of, scheme, trained


def run_flow(
    out: Path,
    schemes: Sequence[str],
    minutes: float = 10.0,
    trajectories: int = 1000,
    scenes: int = 64,
    members: int = 100,
    seed: int = 0,
    share: float = 1.0,  # of the training trajectories
    report: Callable[[str, Progress], None] | None = None,
) -> dict[str, Any]:
    """Results by scheme; runs that are in `out` already are used again."""
    world = NavierStokes(cells=32, side=math.pi, frames=50, spacing=0.2, warmup=10.0, seed=seed)
    truth = write_truth(world, out / "truth.zarr", trajectories)
    path = out / "pairs.zarr"
    if not path.exists():
        observe(truth, path, Scenario("random", 0.1, "instance"), validation=0.05, test=0.1, oracle=True)
    store = open_pairs(path, share)
    test = store.split("test")
    chosen = evenly(test, scenes)
    source = store.batch(chosen).source
    targets = truth_targets(store, chosen, truth)
    results: dict[str, Any] = {}
    for name in schemes:
        note = None if report is None else partial(report, name)
        folder = out / name if share == 1 else out / f"{name}-{share:g}"
        run = trained(scheme(name), store, folder, minutes, seed, note)
        maps = members_of(run, source, members, seed, scheme(name).dear)
        entry = summary(judged(store, targets, maps))
        entry |= account(run, source)
        results[name] = entry
    for rival in closed_forms(RIVALS, store):
        maps = draw_maps(rival, store, chosen, members, seed)[:, :, 0]
        results[rival.name] = summary(judged(store, targets, maps))
    return results


def summary(found: list[Score]) -> dict[str, Any]:
    """The scores of the bars, in standard deviations of the field, at cells without a sensor."""
    at = {score.region: score for score in found if score.bin is None}
    free = at["unobserved"]
    return plain(
        {
            "crps": free.scaled("crps"),
            "spread_skill": free["spread_skill"],
            "coverage": free["coverage_90"],
            "crps_at_sensors": at["sensors"].scaled("crps"),
            "structure": structure(at["grid"]),
        }
    )
