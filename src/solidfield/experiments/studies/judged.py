"""What is kept of a judged ensemble: scores by region, reliability, joint structure, and one scene to look at.

All in standard deviations of the field; the worlds of the studies have one variable. `M_i` are the sensors, `M_o` the
held-out measured cells without them, `off` every cell without a sensor, `grid` every cell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...disk import plain
from ...pairs.scaling import Scaling
from ...pairs.store import PairStore
from ...report.scoring import judge
from ...report.targets import Targets, Truth, truth_targets
from ...scores.calibration import error_by_spread, fold_ranks
from ...scores.metrics import Cells
from ...scores.table import Score

REGIONS = {"M_i": "sensors", "M_o": "targets", "off": "unobserved", "grid": "grid"}
RANKS = 10  # bins of the rank histogram


def judged(store: PairStore, targets: Targets, ensemble: np.ndarray) -> list[Score]:  # (K, N, C, H, W)
    """The scores of the first variable."""
    std = Scaling.fit(store, store.split("train")).physical_std
    found = judge(targets, {"ensemble": targets.take(ensemble)[1]}, store, std)
    return [score for score in found.scores if score.variable == store.variables[0]]


def scores(store: PairStore, targets: Targets, ensemble: np.ndarray) -> dict[str, Any]:  # (K, N, C, H, W)
    found = judged(store, targets, ensemble)
    regions = {score.region: score for score in found if score.bin is None}
    bins = [score for score in found if score.bin is not None]
    first, joint = found[0], regions["grid"]
    return plain(
        {
            "variable": first.variable,
            "std": first.std,
            "members": len(ensemble),
            "regions": {short: _region(regions[name]) for short, name in REGIONS.items() if name in regions},
            "structure": structure(joint),
            "by_distance": {
                "distance": [score.bin.mean for score in bins if score.bin],
                "count": [score.cells for score in bins],
                "coverage": [_mean(score["coverage_90"]) for score in bins],
                **{name: [_mean(score.scaled(name)) for score in bins] for name in ("crps", "rmse", "spread")},
            }
            if bins
            else None,
            "by_spread": _by_spread(targets, ensemble, first.std),
        }
    )


def _mean(estimate: Any) -> float | None:
    return None if estimate is None else estimate.mean


def structure(grid: Score) -> dict[str, Any]:
    """What needs whole maps."""
    return {
        "energy_score_scaled": grid.scaled("energy_score"),
        "roughness": {"members": _mean(grid["roughness"]), "truth": _mean(grid["roughness_of_truth"])},
        "block_crps": grid["block_crps"],
        "block_crps_scaled": grid.scaled("block_crps"),
        "block_spread_skill": grid["block_spread_skill"],
    }


def _region(score: Score) -> dict[str, Any]:
    ranks = score["rank_histogram"]
    spreads = {"pixel": _mean(score["correlation"]), "sample": _mean(score["correlation_of_cases"])}
    return {
        "crps": score.scaled("crps"),
        "crps_raw": score["crps"].mean,
        "mse": score.scaled("mse").mean,
        "mae": score.scaled("mae").mean,
        "coverage": {"0.5": score["coverage_50"], "0.9": score["coverage_90"]},
        "spread_skill": score["spread_skill"],
        "correlation": None if score.members == 1 else spreads,
        "ranks": None if ranks is None else fold_ranks(np.array(ranks), RANKS) / np.sum(ranks),
        "crps_per_scene": score.scaled("crps_per_case"),  # for paired comparisons
    }


def _by_spread(targets: Targets, ensemble: np.ndarray, std: float) -> dict[str, Any] | None:
    """Spread against error: in groups of cells from sure to unsure, and one point a scene."""
    K = len(ensemble)
    if K < 4:
        return None
    free = targets.regions["unobserved"]
    members, truth, scene = targets.take(ensemble)[1][:, free], targets.values[free], targets.scene[free]
    cells = Cells(members, truth, scene, len(targets.examples))
    spread, error = error_by_spread(cells)
    variance = members.var(axis=0, ddof=1, dtype=np.float64) * (K + 1) / K
    square = (members.mean(axis=0, dtype=np.float64) - truth) ** 2
    return {
        "spread": spread / std,
        "error": error / std,
        "spread_per_scene": np.sqrt(cells.per_case(variance)) / std,
        "error_per_scene": np.sqrt(cells.per_case(square)) / std,
    }


def picture(store: PairStore, targets: Targets, ensemble: np.ndarray) -> dict[str, Any]:
    """The first scene in hundredths of a standard deviation: whole numbers take little room."""
    std = float(Scaling.fit(store, store.split("train")).std[0])
    first = (targets.scene == 0) & (targets.channel == 0)
    spread = ensemble[:, 0, 0].std(axis=0, ddof=1) if len(ensemble) > 1 else None
    fields = {
        "truth": targets.values[first].reshape(store.grid.shape),
        "mean": ensemble[:, 0, 0].mean(axis=0),
        "spread": spread,
        "member": ensemble[0, 0, 0] if len(ensemble) > 1 else None,
    }
    whole = {name: None if f is None else np.rint(100 * f / std).astype(int) for name, f in fields.items()}
    return whole | {"sensors": targets.cell[first & targets.regions["sensors"]]}


def rollout_scores(
    store: PairStore,
    chosen: np.ndarray,  # (N,)
    truth: Truth,
    ensemble: np.ndarray,  # (K, N, L, C, H, W)
) -> list[dict[str, Any]]:  # one entry a lead
    leads, own = [], int(store.columns["lead"][chosen[0]])
    for step in range(ensemble.shape[2]):
        targets = truth_targets(store, chosen, truth, own * (step + 1))
        found = {score.region: score for score in judged(store, targets, ensemble[:, :, step]) if score.bin is None}
        free = found["unobserved"]
        leads.append(
            {
                "lead_time": targets.lead * store.step,
                "crps": free.scaled("crps"),
                "rmse": free.scaled("rmse").mean,
                "spread": _mean(free.scaled("spread")),
                "coverage": {"0.5": free["coverage_50"], "0.9": free["coverage_90"]},
                "spread_skill": free["spread_skill"],
                "sensors_rmse": found["sensors"].scaled("rmse").mean,
            }
        )
    return plain(leads)


def means_of(steps: int) -> list[tuple[int, ...]]:
    """The stretches of four steps whose means are judged."""
    return [tuple(range(first, first + 4)) for first in range(1, steps - 2, 4)]


def mean_scores(
    store: PairStore,
    chosen: np.ndarray,  # (N,) of lead 1
    truth: Truth,
    ensemble: np.ndarray,  # (K, N, L, C, H, W), of steps 1 .. L
    steps: tuple[int, ...],
) -> dict[str, Any]:
    """The mean over some steps, whose law asks that members hang together in time, at cells without a sensor."""
    targets = [truth_targets(store, chosen, truth, step) for step in steps]
    members = ensemble[:, :, [step - 1 for step in steps]].mean(2)
    over = replace(targets[0], values=np.mean([one.values for one in targets], axis=0))
    free = next(score for score in judged(store, over, members) if score.region == "unobserved" and score.bin is None)
    found = {"crps": free.scaled("crps"), "coverage": free["coverage_90"], "spread_skill": free["spread_skill"]}
    return plain({"steps": [steps[0], steps[-1]], **found})
