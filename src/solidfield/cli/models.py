"""solid models: what there is to choose from, and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..experiments.costs import MEMBERS, SENSORS, known_costs, survey, table
from ..experiments.store import rounded, write_measured
from . import show


def models(
    size: Annotated[str, typer.Option(help="smoke, laptop, paper or paper-large.")] = "paper",
    grid: Annotated[int, typer.Option(min=8, help="Cells along a side of the grid.")] = 64,
    count: Annotated[bool, typer.Option("--count", help="Count again instead of showing what is stored.")] = False,
    out: Annotated[Path | None, typer.Option(help="Count again, and store the table here.")] = None,
    json: show.JsonOption = False,
) -> None:
    """List the models with family, reference, parameters and multiply-accumulates, beside the paper's table."""
    again = count or out is not None
    costs = {name: asdict(c) for name, c in survey(size, grid).items()} if again else known_costs(size, grid)
    result = rounded({"size": size, "grid": grid, "sensors": SENSORS, "members": MEMBERS, "costs": costs})
    if out is not None:
        write_measured(out, show.command(), 0, result)
    if json:
        show.as_json(result)
        return
    show.table(*table(costs, MEMBERS))
    show.line("at", f"size {size} on {grid} x {grid} cells, {SENSORS:.0%} of them read; in the paper: its Table 3")
