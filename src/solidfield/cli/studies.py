"""solid bench STUDY: the paper's studies, cell by cell, at the scale of the machine at hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ..engine import Engine
from ..errors import SolidError
from ..experiments.studies.catalog import STRONG, STUDIES, all_cells, cells
from ..experiments.studies.cell import Cell, read_result
from ..experiments.studies.run import State, chosen, run_cells
from ..experiments.studies.scale import scale as scale_of
from . import show

ScaleOption = Annotated[str, typer.Option(help="smoke, laptop or paper.")]
WorkOption = Annotated[Path, typer.Option(help="Where data and runs are kept, so that an interrupted study goes on.")]
ResultsOption = Annotated[Path, typer.Option(help="Folder of results, one JSON a cell.")]
OnlyOption = Annotated[str | None, typer.Option(metavar="PATTERN", help="Cells with this in their name; * and ? work.")]
BudgetOption = Annotated[float | None, typer.Option(metavar="MINUTES", help="Begin no further cell after this time.")]
JobsOption = Annotated[int, typer.Option(help="Cells side by side, one thread each.")]
StepsOption = Annotated[int | None, typer.Option(help="A trial: so many steps a cell, on few examples.")]
StrongOption = Annotated[str, typer.Option(help="Rivals to ask at 4 and 40 %, too; comma-separated.")]
ListOption = Annotated[bool, typer.Option("--list", help="Print the cells and whether they are stored; run nothing.")]

ABOUT = {
    "forecasting": "Study 1: CRPS of all models at 10 %, of the main ones at 4 and 40 %.",
    "efficiency": "Study 2: a tenth of the data, three sizes, and what they cost.",
    "uncertainty": "Study 3: spread against error, distance and time.",
    "ablation": "Study 4: lambda with overlapping masks, and filling before the network.",
    "patterns": "Study 5: the twelve ways of measuring.",
    "between": "Odd frames, which no training example has seen.",
    "all": "Every cell of every study, the most important first.",
}


def register(app: typer.Typer) -> None:
    """Add a verb for each study, and one for all."""
    for study in (*STUDIES, "all"):
        app.command(study, help=ABOUT[study])(_verb(study))


def _verb(study: str) -> Callable[..., None]:
    def verb(
        scale: ScaleOption = "laptop",
        work: WorkOption = Path("bench/studies"),
        results: ResultsOption = Path("results/studies"),
        only: OnlyOption = None,
        budget: BudgetOption = None,
        jobs: JobsOption = 1,
        engine: show.EngineOption = "here",
        scheduler: show.SchedulerOption = None,
        steps: StepsOption = None,
        strong: StrongOption = ",".join(STRONG),
        list_only: ListOption = False,
        json: show.JsonOption = False,
    ) -> None:
        size, rivals = scale_of(scale, steps), strong.split(",")
        every = all_cells(size, rivals) if study == "all" else cells(study, size, rivals)
        picked = chosen(every, only)
        if not picked:
            raise SolidError(f"no cell of '{study}' matches '{only}'; see them with --list")
        if list_only:
            _list(picked, results, json)
            return
        kind = "processes" if engine == "here" and jobs > 1 else engine
        _run(study, picked, work, results, budget, Engine(kind, jobs, scheduler), json)

    return verb


def _run(
    study: str, picked: list[Cell], work: Path, results: Path, budget: float | None, engine: Engine, json: bool
) -> None:
    with show.progress(study, f"{len(picked)} cells", json) as update:

        def report(state: State) -> None:
            left = "" if state.seconds_left is None else f"{state.seconds_left / 60:.0f} min left  "
            update(state.done, state.total, left + " | ".join(state.running))

        outcome = run_cells(picked, work, results, command(), engine, budget, report)
    if json:
        show.as_json({"run": outcome.run, "stored": outcome.skipped, "failed": outcome.failed, "left": outcome.left})
    else:
        counts = f"{len(outcome.run)} run, {outcome.skipped} were stored, {len(outcome.failed)} failed"
        show.line("cells", f"{counts}, {outcome.left} not begun; results in {results}")
        for key, error in outcome.failed.items():
            show.line("failed", f"{key}: {error}")
    if outcome.failed:
        raise typer.Exit(2)


def _list(picked: list[Cell], results: Path, json: bool) -> None:
    stored = {cell.key: read_result(cell, results) is not None for cell in picked}
    if json:
        show.as_json(stored)
        return
    show.table(("cell", "stored"), [(key, "yes" if there else "-") for key, there in stored.items()])


def command() -> str:
    """The words that were typed, without what changes nothing: places, and how the work was shared."""
    words = sys.argv[1:]
    for option in ("--work", "--results", "--scheduler", "--budget"):
        while option in words:
            at = words.index(option)
            words = words[:at] + words[at + 2 :]
    return " ".join(["solid", *words])
