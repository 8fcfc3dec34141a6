"""`solid bench heaton`: one satellite image of 150,000 cells behind clouds, filled and judged at 42,740 hidden cells.

The competition of Heaton et al. 2019 (MODIS land surface temperature, 300 x 500 cells): `given` holds 105,569 readings,
`truth` those that were hidden as well. Scores are its own: MAE, RMSE, CRPS, score and coverage of the 95 % interval,
and minutes; and one that it has not: do the 95 % intervals of means of 10 x 10 blocks hold, which they do only if
members are right jointly? Nothing is fitted to `truth`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from ...engine import Progress
from ...errors import SolidError
from ...prediction.image import fill_image, scores
from ...scores.calibration import coverage
from ..cell import Cell, Experiment, Place, Result
from ..datasets.kolkata import find
from ..text import Table
from ..trainer import one_thread
from .real import Members, Seeds, some

BLOCK = 10  # cells along the side of a block
HEADING = ("image", "MAE", "RMSE", "CRPS", "95 % score", "95 % holds", "blocks: 95 % holds", "CPU minutes", "GiB")


def read_heaton(folder: Path) -> tuple[np.ndarray, np.ndarray]:  # (H, W) given and truth, NaN where unknown
    path = find(folder, "heaton", "satellite.nc") / "satellite.nc"
    try:
        with xr.open_dataset(path) as data:
            return data["given"].values.astype(float), data["truth"].values.astype(float)
    except (OSError, ValueError, KeyError) as error:
        raise SolidError(f"{path} holds no given and truth on (lat, lon) ({error}); fetch it again") from None


@dataclass(frozen=True)
class HeatonCell(Cell):
    HOME = "heaton"
    JUDGED = ("members",)

    members: int

    @property
    def words(self) -> tuple[str, ...]:
        return ("satellite", f"seed{self.seed}")

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        given, truth = read_heaton(place.files("heaton"))
        start = time.process_time()
        with one_thread():
            filled = fill_image(given, self.members, self.seed)
        minutes = (time.process_time() - start) / 60
        judged = np.isfinite(truth) & ~np.isfinite(given)
        found = scores((truth - filled.mean)[judged], lambda level: filled.around(level)[judged])
        image = filled.image
        covariance = {name: getattr(image.covariance, name).tolist() for name in ("lengths", "sizes", "bends")}
        learned = covariance | {
            "blur": image.blur,
            "slopes": image.slopes.tolist(),
            "slopes_sd": np.sqrt(np.diag(image.doubt)).tolist(),
            "power": image.power,
            "freedom": image.freedom,
            "stretch": image.stretch,
            "transform": image.transform,
        }
        return {
            **found,
            "cells": int(judged.sum()),
            "block_coverage": block_coverage(filled.members, truth, judged),
            "minutes": minutes,
            "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "hidden_by_us": image.honesty,
            "learned": learned,
        }


def block_coverage(members: np.ndarray, truth: np.ndarray, judged: np.ndarray) -> float:  # (K, H, W), (H, W), (H, W)
    """Share of blocks that were hidden whole whose true mean lies in the members' 95 % interval."""

    def blocks(field: np.ndarray) -> np.ndarray:  # (..., H, W) -> (..., H / 10, W / 10) means
        height, width = (n // BLOCK * BLOCK for n in field.shape[-2:])
        cut = field[..., :height, :width]
        return cut.reshape(*cut.shape[:-2], height // BLOCK, BLOCK, width // BLOCK, BLOCK).mean((-3, -1))

    whole = blocks(judged.astype(float)) == 1
    if not whole.any():
        return float("nan")
    return float(coverage(blocks(members)[:, whole], blocks(np.where(judged, truth, 0.0))[whole], 0.95))


def heaton_cells(seeds: Seeds = 1, members: Members = 400) -> list[Cell]:
    return [HeatonCell(members, seed=seed) for seed in some(seeds)]


def heaton_tables(results: Sequence[Result]) -> list[Table]:
    names = ("mae", "rmse", "crps", "interval_score", "coverage", "block_coverage", "minutes", "gib")
    rows: list[tuple[str, ...]] = []
    for result in results:
        rows.append((f"hidden, seed {result['cell']['seed']}", *(f"{result[name]:.3g}" for name in names)))
        own = result["hidden_by_us"]
        rows.append(("as it judges itself", *(f"{own[name]:.3g}" if name in own else "-" for name in names)))
    return [(HEADING, rows)]


EXPERIMENT = Experiment(
    "heaton",
    "One satellite image of 150,000 cells behind clouds: filled, and judged at the cells that were hidden.",
    heaton_cells,
    heaton_tables,
    reads=True,
    work="bench/heaton",
)
