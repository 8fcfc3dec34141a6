"""solid models: what there is to choose from, and what it costs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..experiments.bench.record import store
from ..experiments.costs import SENSORS, survey, table
from . import show

MEMBERS = 100


def models(
    size: Annotated[str, typer.Option(help="smoke, laptop, paper or paper-large.")] = "paper",
    grid: Annotated[int, typer.Option(min=8, help="Cells along a side of the grid.")] = 64,
    out: Annotated[Path | None, typer.Option(help="Also store the table, for `solid bench report`.")] = None,
    json: show.JsonOption = False,
) -> None:
    """List the models with family, reference, parameters and multiply-accumulates, beside the paper's table."""
    costs = {name: asdict(cost) for name, cost in survey(size, grid, MEMBERS).items()}
    result = {"size": size, "grid": grid, "sensors": SENSORS, "members": MEMBERS, "costs": costs}
    if out is not None:
        store(out, " ".join(["solid", *sys.argv[1:]]), 0, result)
    if json:
        show.as_json(result)
        return
    show.table(*table(costs, MEMBERS))
    show.line("at", f"size {size} on {grid} x {grid} cells, {SENSORS:.0%} of them read; in the paper: its Table 3")
