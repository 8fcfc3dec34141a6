"""The paper's five studies as cells, and the tables, sentences and figures that pages show of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Annotated

from matplotlib.figure import Figure

from ...errors import SolidError
from ..cell import Cell, Experiment
from . import ablation, efficiency, forecasting, patterns, rest, setup, tuning, uncertainty
from .catalog import STRONG, all_cells, cells
from .catalog import rest as rest_cells
from .scale import REST
from .scale import scale as scale_of
from .shelf import Shelf

ROOMS = (setup, forecasting, rest, tuning, efficiency, uncertainty, ablation, patterns)
PARTS: dict[str, Callable[[Shelf], str]] = {name: write for room in ROOMS for name, write in room.PARTS.items()}
FIGURES: dict[str, Callable[[Shelf], Figure | None]] = {
    name: draw for room in ROOMS for name, draw in room.FIGURES.items()
}
ABOUT = {
    "forecasting": "Study 1: CRPS of all models at 10 %, of the main ones at 4 and 40 %.",
    "efficiency": "Study 2: a tenth of the data, three sizes, and what they cost.",
    "uncertainty": "Study 3: spread against error, distance and time.",
    "ablation": "Study 4: lambda with overlapping masks, and filling before the network.",
    "patterns": "Study 5: the twelve ways of measuring.",
    "between": "Odd frames, which no training example has seen.",
    "all": "Every cell of every study, the most important first.",
}


def study_cells(
    study: str,
    scale: Annotated[str, "smoke, laptop or paper."] = "laptop",
    steps: Annotated[int | None, "A trial: so many steps a cell, on few examples."] = None,
    strong: Annotated[str, "Rivals to ask at 4 and 40 %, too; comma-separated."] = ",".join(STRONG),
) -> list[Cell]:
    size, rivals = scale_of(scale, steps), strong.split(",")
    return [*(all_cells(size, rivals) if study == "all" else cells(study, size, rivals))]


def forecasting_cells(
    scale: Annotated[str, "smoke, laptop or paper."] = "laptop",
    steps: Annotated[int | None, "A trial: so many steps a cell, on few examples."] = None,
    strong: Annotated[str, "Rivals to ask at 4 and 40 %, too; comma-separated."] = ",".join(STRONG),
    budget: Annotated[str, "short, or rest: the 10 % column, 60 CPU minutes each; or minutes."] = "short",
) -> list[Cell]:
    if budget == "short":
        return study_cells("forecasting", scale, steps, strong)
    if steps is not None:
        raise SolidError(f"--steps and --budget {budget} exclude each other; leave one out")
    return [*rest_cells(scale_of(scale), _minutes(budget))]


def _minutes(budget: str) -> float:
    if budget == "rest":
        return REST
    try:
        minutes = float(budget)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < inf:
        raise SolidError(f"--budget {budget}: say short, rest or a number of CPU minutes")
    return minutes


def _named(study: str) -> Callable[..., list[Cell]]:
    return forecasting_cells if study == "forecasting" else partial(study_cells, study)


EXPERIMENTS = [Experiment(study, about, _named(study), work="bench/studies") for study, about in ABOUT.items()]
