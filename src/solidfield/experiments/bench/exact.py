"""Worlds with a posterior in closed form: measured once, and compared with it by ratios with error bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from ...pairs.store import PairStore, open_pairs
from ...scores.calibration import covered, ranks
from ...scores.estimate import bootstrap
from ...scores.metrics import crps_map, select
from ...worlds import Truth, World, write_truth
from ...worlds.observe import observe
from ...worlds.scenarios import Scenario
from ..cell import Result
from ..text import Table, with_error
from ..trainer import alone

SCORES = {"crps": "CRPS", "spread": "spread", "coverage": "90 % covers"}


def measured(
    world: World,
    home: Path,
    trajectories: int,
    name: str,  # of the pairs
    amount: float = 0.1,  # of the cells: sensors, and as many targets
    share: float = 1.0,  # of the training trajectories that are opened
    **options: Any,  # of `observe`
) -> tuple[Truth, PairStore]:
    """A world and what random sensors read of it, simulated and measured once, whoever comes first."""
    with alone(home / "data.lock"):
        truth = write_truth(world, home / "truth.zarr", trajectories)
        if not (home / name).exists():
            observe(truth, home / name, Scenario("random", amount, "instance"), **options)
    return truth, open_pairs(home / name, share)


def compare(
    members: np.ndarray,  # (K, N, H, W)
    truth: np.ndarray,  # (N, H, W)
    free: np.ndarray,  # (N, H, W) bool: cells that count
    best: np.ndarray,  # (N, H, W) CRPS of the exact law
    std: np.ndarray,  # (N, H, W) its spread
) -> Result:
    """Ratios of CRPS and spread to the exact law's, and coverage."""
    crps = crps_map(members, truth.astype(members.dtype))
    return {
        "crps": ratio(means(crps, free), means(best, free)),
        "spread": ratio(means(spread_map(members), free), means(std, free)),
        "coverage": bootstrap(means(inside_map(members, truth, free), free))._asdict(),
    }


def spread_map(members: np.ndarray) -> np.ndarray:  # (K, ...) -> (...)
    return np.sqrt(members.var(axis=0, ddof=1, dtype=np.float64))


def inside_map(members: np.ndarray, truth: np.ndarray, free: np.ndarray) -> np.ndarray:  # (K, N, H, W) -> (N, H, W)
    """Does the 90 % interval hold the truth? NaN where a cell does not count."""
    inside = np.full(truth.shape, np.nan)
    inside[free] = covered(*ranks(select(members, truth, free)), len(members), 0.9)
    return inside


def asked_tables(title: str, asked: Iterable[str], results: Sequence[Result]) -> list[Table]:
    """A row for each question and scheme."""
    rows = [
        (f"{result['cell']['scheme']}, {name}", *(with_error(part[score]) for score in SCORES))
        for name in asked
        for result in results
        if (part := result["asked"].get(name))
    ]
    return [((title, *SCORES.values()), rows)]


def normal_crps(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    """CRPS of N(mean, std) where the truth is off the mean by `error`."""
    z = error / std
    return std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


def ratio(values: np.ndarray, best: np.ndarray) -> dict[str, float]:  # (N,), (N,)
    """Ratio of the means over scenes, with an error bar from resampling scenes; scenes without cells are left out."""
    return bootstrap(np.stack([values, best], axis=1), of=lambda means: means[..., 0] / means[..., 1])._asdict()


def means(values: np.ndarray, mask: np.ndarray) -> np.ndarray:  # (N, H, W) twice -> (N,), NaN where the mask is empty
    count = mask.sum((1, 2))
    total = np.where(mask, values, 0.0).sum((1, 2))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
