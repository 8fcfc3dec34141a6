"""What is kept of a judged ensemble: scores by region, reliability, joint structure, and one scene to look at.

All in standard deviations of the field. `M_i` are the sensors, `M_o` the held-out measured cells without them,
`off` every cell without a sensor, `grid` every cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...pairs.store import PairStore
from ...report.truth import Judge
from ...scores.calibration import error_by_spread, fold_ranks
from ...scores.metrics import select
from ...worlds import Truth

REGIONS = {"M_i": "sensors", "M_o": "targets", "off": "unobserved", "grid": "grid"}
RANKS = 10  # bins of the rank histogram


def scores(judge: Judge, ensemble: np.ndarray) -> dict[str, Any]:  # (K, N, C, H, W)
    (name, found) = next(iter(judge.score(ensemble)["variables"].items()))
    regions = {short: found["regions"][region] for short, region in REGIONS.items()}
    return {
        "variable": name,
        "std": found["std"],
        "members": len(ensemble),
        "regions": {short: _region(region, found["std"]) for short, region in regions.items() if region},
        "structure": found["structure"],
        "by_distance": found["by_distance"] and {
            **{k: found["by_distance"][k] for k in ("distance", "count", "coverage")},
            **{k: [_over(v, found["std"]) for v in found["by_distance"][k]] for k in ("crps", "rmse", "spread")},
        },
        "by_spread": _by_spread(judge, ensemble, found["std"]),
    }  # fmt: skip


def _over(value: float | None, std: float) -> float | None:
    return None if value is None else value / std


def _region(region: dict[str, Any], std: float) -> dict[str, Any]:
    ranks = region["rank_histogram"]
    return {
        "crps": region["crps_scaled"],
        "crps_raw": region["crps"]["mean"],
        "mse": region["mse_scaled"]["mean"],
        "mae": region["mae_scaled"]["mean"],
        "coverage": region["coverage"],
        "spread_skill": region["spread_skill"],
        "correlation": region["correlation"],
        "ranks": None if ranks is None else fold_ranks(np.array(ranks), RANKS) / np.sum(ranks),
        "crps_per_scene": [_over(value, std) for value in region["crps_per_case"]],  # for paired comparisons
    }


def _by_spread(judge: Judge, ensemble: np.ndarray, std: float) -> dict[str, Any] | None:
    """Spread against error: in groups of cells from sure to unsure, and one point a scene."""
    K = len(ensemble)
    if K < 4:
        return None
    free = judge.where["unobserved"]
    spread, error = error_by_spread(select(ensemble, judge.values, free))
    variance = ensemble.var(axis=0, ddof=1, dtype=np.float64) * (K + 1) / K
    square = (ensemble.mean(axis=0, dtype=np.float64) - judge.values) ** 2
    count = free.sum((1, 2, 3))
    return {
        "spread": spread / std,
        "error": error / std,
        "spread_per_scene": np.sqrt((variance * free).sum((1, 2, 3)) / count) / std,
        "error_per_scene": np.sqrt((square * free).sum((1, 2, 3)) / count) / std,
    }


def picture(judge: Judge, ensemble: np.ndarray) -> dict[str, Any]:
    """The first scene in hundredths of a standard deviation: whole numbers take little room."""
    std = float(judge.scaling.std[0])
    spread = ensemble[:, 0, 0].std(axis=0, ddof=1) if len(ensemble) > 1 else None
    fields = {
        "truth": judge.values[0, 0],
        "mean": ensemble[:, 0, 0].mean(axis=0),
        "spread": spread,
        "member": ensemble[0, 0, 0] if len(ensemble) > 1 else None,
    }
    whole = {name: None if f is None else np.rint(100 * f / std).astype(int) for name, f in fields.items()}
    return whole | {"sensors": np.flatnonzero(judge.given[0, 0])}


def rollout_scores(
    store: PairStore,
    chosen: np.ndarray,  # (N,)
    truth: Truth,
    ensemble: np.ndarray,  # (K, N, L, C, H, W)
) -> list[dict[str, Any]]:  # one entry a lead
    leads = []
    for lead in range(ensemble.shape[2]):
        judge = Judge(store, chosen, truth, lead)
        found = next(iter(judge.score(ensemble[:, :, lead])["variables"].values()))
        region, std = found["regions"]["unobserved"], found["std"]
        leads.append(
            {
                "lead_time": (lead + 1) * store.step,
                "crps": region["crps_scaled"],
                "rmse": np.sqrt(region["mse_scaled"]["mean"]),
                "spread": _over(region["spread"], std),
                "coverage": region["coverage"],
                "spread_skill": region["spread_skill"],
                "sensors_rmse": np.sqrt(found["regions"]["sensors"]["mse_scaled"]["mean"]),
            }
        )
    return leads
