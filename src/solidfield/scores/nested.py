"""The scores of an ensemble as nested JSON; `table.py` takes its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SolidError
from .calibration import by_distance, correlate, counted, covered, ranks, ratio, resolved
from .estimate import Estimate, bootstrap
from .metrics import (
    Array,
    Cells,
    block_means,
    crps_cells,
    energy_scores,
    median_error,
    moments,
    roughness,
    select,
    to_floats,
    to_numpy,
)
from .table import plain


def regions(
    m_i: Array,  # (N, C, H, W) bool, sensors given to the model
    m_o: Array,  # (N, C, H, W) bool, readings at the target time
    dense: Array | None = None,  # broadcasts to m_i: cells of simulated truth; None: it is known on M_o only
) -> dict[str, np.ndarray]:  # each (N, C, H, W) bool
    """The masks to score on. Without dense truth, sensors can be scored only where they are targets too."""
    given, measured = to_numpy(m_i).astype(bool), to_numpy(m_o).astype(bool)
    if dense is None:
        return {"sensors": given & measured, "targets": measured & ~given}
    known = np.broadcast_to(to_numpy(dense).astype(bool), given.shape)
    return {
        "sensors": given & known,
        "targets": measured & known & ~given,
        "unobserved": known & ~given,
        "grid": known,
    }


def score(
    ensemble: Array,  # (K, N, C, H, W)
    truth: Array,  # (N, C, H, W), anything off the regions
    where: Mapping[str, Array],  # regions, each broadcasts to the truth; one named "grid": truth is dense
    std: float | Sequence[float],  # of the field, one or (C,)
    names: Sequence[str] = ("value",),  # (C,) variables
    distance: Array | None = None,  # broadcasts to the truth: to the nearest sensor
    edges: Array | None = None,  # (S + 1,) bins of distance; None: about equally filled
    periodic: tuple[bool, bool] = (False, False),
    levels: Sequence[float] = (0.5, 0.9),
    block: int = 4,  # cells along the side of a block mean
    seed: int = 0,  # of the resampling
    groups: Array | None = None,  # (N,) labels: scenes of one day or one trajectory share one
) -> dict[str, Any]:
    """Every score of an ensemble, ready for `json.dumps`."""
    x, y = to_floats(ensemble), to_floats(truth)
    if x.ndim != 5 or x.shape[1:] != y.shape:
        raise SolidError(f"ensemble {x.shape} does not fit truth {y.shape}; make it (members, N, C, H, W)")
    C = y.shape[1]
    if len(names) != C:
        raise SolidError(f"{len(names)} variable names ({', '.join(names)}) for {C} channels; give one for each")
    stds = np.broadcast_to(np.asarray(std, dtype=np.float64), (C,))
    if not (stds > 0).all():
        raise SolidError(f"field standard deviation {stds.tolist()} must be positive; is the field constant?")
    masks = {name: _spread_over(mask, y.shape, f"region '{name}'").astype(bool) for name, mask in where.items()}
    far = None if distance is None else _spread_over(distance, y.shape, "distance")
    variables: dict[str, Any] = {}
    for c, name in enumerate(names):
        members, values, unit = x[:, :, c], y[:, c], float(stds[c])  # (K, N, H, W), (N, H, W)
        here = {region: mask[:, c] for region, mask in masks.items()}
        grid = here.get("grid")
        known = np.logical_or.reduce(list(here.values())) if grid is None else grid
        variables[name] = {
            "std": unit,
            "regions": {
                region: summarise(measure(select(members, values, mask)), unit, levels, seed, groups)
                if mask.any()
                else None
                for region, mask in here.items()
            },
            "structure": None
            if grid is None
            else _structure(members, values, grid, unit, periodic, block, seed, groups),
            "by_distance": None
            if far is None or not np.isfinite(far[:, c][known]).any()
            else by_distance(members, values, far[:, c], edges, known, max(levels)),
        }
    return plain({"members": x.shape[0], "cases": x.shape[1], "variables": variables})


def _spread_over(values: Array, shape: tuple[int, ...], what: str) -> np.ndarray:
    plain = to_numpy(values)
    try:
        return np.broadcast_to(plain, shape)
    except ValueError:
        raise SolidError(f"{what} {plain.shape} does not broadcast to truth {shape} (N, C, H, W)") from None


@dataclass(frozen=True)
class Measured:
    """What every score of every region is a mean of, cell by cell: computed once, then selected."""

    cells: Cells
    crps: np.ndarray  # (P,)
    error: np.ndarray  # (P,) of the ensemble mean
    variance: np.ndarray  # (P,) of the members, NaN for one
    median_error: np.ndarray  # (P,)
    below: np.ndarray  # (P,) members below the truth
    equal: np.ndarray  # (P,) members equal to it

    def __getitem__(self, rows: np.ndarray) -> Measured:  # (P,) bool
        """Some of the cells; cases keep their numbers."""
        cells = Cells(self.cells.members[:, rows], self.cells.truth[rows], self.cells.case[rows], self.cells.cases)
        names = ("crps", "error", "variance", "median_error", "below", "equal")
        return Measured(cells, **{name: getattr(self, name)[rows] for name in names})


def measure(cells: Cells) -> Measured:
    return Measured(cells, crps_cells(cells.members, cells.truth), *moments(cells), median_error(cells), *ranks(cells))


def summarise(
    found: Measured,
    std: float,  # of the field
    levels: Sequence[float] = (0.5, 0.9),
    seed: int = 0,
    groups: Array | None = None,  # (N,) labels of the cases
) -> dict[str, Any]:
    """Scores of the cells of one region. Where every reading is a case of its own, all readings count alike."""
    cells = found.cells

    def mean(values: np.ndarray) -> Estimate:
        return bootstrap(values, seed, groups=groups)

    crps, mse = cells.per_case(found.crps), cells.per_case(found.error**2)
    mae = cells.per_case(found.median_error)
    return {
        "cells": cells.truth.size,
        "cases": int(np.isfinite(crps).sum()),
        "crps": mean(crps),
        "crps_scaled": mean(crps / std),
        "mse": mean(mse),
        "mse_scaled": mean(mse / std**2),
        "mae": mean(mae),
        "mae_scaled": mean(mae / std),
        **_reliability(found, levels, seed, groups),
        "crps_per_case": crps,  # for paired comparisons between models
    }


def _reliability(found: Measured, levels: Sequence[float], seed: int, groups: Array | None) -> dict[str, Any]:
    """What only an ensemble has; None for a single member."""
    cells, K = found.cells, found.cells.members.shape[0]
    if K == 1:
        nothing = ("spread", "spread_skill", "correlation", "rank_histogram")
        return {"coverage": {str(level): None for level in levels}} | dict.fromkeys(nothing)
    return {
        "coverage": {str(level): _coverage(found, level, seed, groups) for level in levels},
        "spread": np.sqrt((K + 1) / K * cells.mean(found.variance)),
        "spread_skill": _spread_skill(cells, found.error, found.variance, seed, groups),
        "correlation": correlate(cells, found.error, found.variance),
        "rank_histogram": counted(found.below, found.equal, K),
    }


def _coverage(found: Measured, level: float, seed: int, groups: Array | None) -> Estimate | None:
    K = found.cells.members.shape[0]
    if not resolved(K, level):
        return None
    return bootstrap(found.cells.per_case(covered(found.below, found.equal, K, level)), seed, groups=groups)


def _spread_skill(cells: Cells, error: np.ndarray, variance: np.ndarray, seed: int, groups: Array | None) -> Estimate:
    K = cells.members.shape[0]
    squares = np.stack([cells.per_case((K + 1) / K * variance), cells.per_case(error**2)], axis=1)  # (N, 2)
    return bootstrap(squares, seed, of=lambda means: ratio(means[..., 0], means[..., 1]), groups=groups)


def _structure(
    members: np.ndarray,  # (K, N, H, W)
    truth: np.ndarray,  # (N, H, W)
    grid: np.ndarray,  # (N, H, W) bool
    std: float,
    periodic: tuple[bool, bool],
    block: int,
    seed: int,
    groups: Array | None,
) -> dict[str, Any]:
    """What needs whole maps: the joint law, which scores of single cells cannot see."""
    rough = [roughness(member, periodic, std, grid) ** 2 for member in members]
    table: dict[str, Any] = {
        "energy_score_scaled": bootstrap(energy_scores(select(members, truth, grid)) / std, seed, groups=groups),
        "roughness": {"members": np.sqrt(np.mean(rough)), "truth": roughness(truth, periodic, std, grid)},
        "block": block,
        "block_crps": None,
        "block_crps_scaled": None,
        "block_spread_skill": None,
    }
    if min(truth.shape[-2:]) < block or not (whole := block_means(grid, block) == 1).any():
        return table
    cells = select(block_means(members, block), block_means(truth, block), whole)
    crps = cells.per_case(crps_cells(cells.members, cells.truth))
    table["block_crps"] = bootstrap(crps, seed, groups=groups)
    table["block_crps_scaled"] = bootstrap(crps / std, seed, groups=groups)
    if len(members) > 1:
        table["block_spread_skill"] = _spread_skill(cells, *moments(cells), seed, groups)
    return table
