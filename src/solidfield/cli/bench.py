"""solid bench: experiments, cell by cell. What is stored is skipped, what was interrupted goes on.

A verb for each entry of `experiments/registry.py`: its own options are the parameters of the function that names its
cells, and all verbs share those of `_shared`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ..engine import Engine
from ..errors import SolidError
from ..experiments.cell import Cell, Experiment, Place
from ..experiments.pages import PLACE, write_page
from ..experiments.registry import EXPERIMENTS
from ..experiments.runner import Outcome, State, chosen, run_cells
from ..experiments.store import read_result, write_sheet
from ..experiments.studies.scale import scale as scale_of
from . import show

app = typer.Typer(help="Studies: train schemes side by side, measure, store.", no_args_is_help=True)


@dataclass(frozen=True)
class Shared:
    """The options of every verb."""

    work: Annotated[Path, typer.Option(help="Where data and runs are kept, so that what was interrupted goes on.")]
    jobs: Annotated[int, typer.Option(help="Cells side by side, one thread each.")]
    data: Annotated[Path | None, typer.Option(help="Folder of the files; they are read, never copied.")] = None
    results: Annotated[Path, typer.Option(help="Folder of results, one JSON a cell.")] = Path("results")
    out: Annotated[Path | None, typer.Option(help="The list of cells that a page shows; else in results.")] = None
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Cells with this in their name; * and ? work.")
    ] = None
    within: Annotated[float | None, typer.Option(metavar="MINUTES", help="Begin no further cell after this time.")] = (
        None
    )
    engine: show.EngineOption = "here"
    scheduler: show.SchedulerOption = None
    figure: Annotated[Path | None, typer.Option(help="Also draw one scene into this file.")] = None
    list_only: Annotated[bool, typer.Option("--list", help="Print the cells and whether they are stored.")] = False
    json: show.JsonOption = False


def _verb(experiment: Experiment) -> Callable[..., None]:
    """A command whose options are those of the experiment and the shared ones that it has a use for."""
    own = {
        name: option.replace(kind=option.KEYWORD_ONLY, annotation=_option(option.annotation))
        for name, option in inspect.signature(experiment.cells, eval_str=True).parameters.items()
    }
    unused = {"data"} if not experiment.reads else set()
    unused |= {"figure"} if experiment.scene is None else set()
    unused |= {"out"} if experiment.tables is None else set()
    given: dict[str, Any] = {"work": Path(experiment.work), "jobs": experiment.jobs}
    given |= {"data": inspect.Parameter.empty} if experiment.reads else {}
    shared = [
        option.replace(kind=option.KEYWORD_ONLY, default=given.get(name, option.default))
        for name, option in inspect.signature(Shared, eval_str=True).parameters.items()
        if name not in unused
    ]

    def verb(**options: Any) -> None:
        cells = experiment.cells(**{name: options.pop(name) for name in own})
        _run(experiment, cells, Shared(**options))

    verb.__signature__ = inspect.Signature([*own.values(), *shared])  # type: ignore[attr-defined]
    verb.__annotations__ = {}
    return verb


def _option(annotation: Any) -> Any:
    """Annotated[type, help] as the command line wants it."""
    kind, text = get_args(annotation)
    return Annotated[kind, typer.Option(help=text)]


for _experiment in EXPERIMENTS.values():
    app.command(_experiment.name, help=_experiment.about)(_verb(_experiment))


def _run(experiment: Experiment, every: Sequence[Cell], shared: Shared) -> None:
    picked = chosen(every, shared.only)
    if not picked:
        raise SolidError(f"no cell of '{experiment.name}' matches '{shared.only}'; see them with --list")
    if shared.list_only:
        _list(picked, shared)
        return
    kind = "processes" if shared.engine == "here" and shared.jobs > 1 else shared.engine
    engine, place = Engine(kind, shared.jobs, shared.scheduler), Place(shared.work, shared.data)
    with show.progress(experiment.name, f"{len(picked)} cells", shared.json) as update:

        def report(state: State) -> None:
            left = "" if state.seconds_left is None else f"{state.seconds_left / 60:.0f} min left  "
            update(left + " | ".join(state.running), state.done, state.total)

        outcome = run_cells(picked, place, shared.results, show.command(), engine, shared.within, report)
    sheets = dict.fromkeys(cell.sheet for cell in picked if cell.sheet is not None)
    if shared.out is not None:
        write_sheet(shared.out, experiment.name, _listed(every, picked, shared))
    for sheet in sheets if shared.out is None else ():
        mine = [cell for cell in every if cell.sheet == sheet]
        write_sheet(shared.results / f"{sheet}.json", experiment.name, _listed(mine, picked, shared))
    _show(experiment, picked, outcome, shared)
    if outcome.failed:
        raise typer.Exit(2)


def _listed(every: Sequence[Cell], picked: Sequence[Cell], shared: Shared) -> list[Cell]:
    """The cells of a table: what --only leaves out still belongs to it where it is stored."""
    return [cell for cell in every if cell in picked or read_result(cell, shared.results) is not None]


def _show(experiment: Experiment, picked: Sequence[Cell], outcome: Outcome, shared: Shared) -> None:
    stored = [result for cell in picked if (result := read_result(cell, shared.results)) is not None]
    figure = experiment.scene(stored) if experiment.scene is not None and shared.figure is not None else None
    if figure is not None and shared.figure is not None:
        show.save_figure(figure, shared.figure)
    if shared.json:
        counts = {"run": outcome.run, "stored": outcome.skipped, "failed": outcome.failed, "left": outcome.left}
        show.as_json(counts | ({} if experiment.tables is None else {"results": stored}))
        return
    if experiment.tables is not None and stored:
        for header, rows in experiment.tables(stored):
            show.table(header, rows)
            print()
    if experiment.verdict is not None:
        print(*experiment.verdict(stored), sep="\n\n", end="\n\n")
    said = f"{len(outcome.run)} run, {outcome.skipped} were stored, {len(outcome.failed)} failed"
    show.line("cells", f"{said}, {outcome.left} not begun; results in {shared.results}")
    for key, error in outcome.failed.items():
        show.line("failed", f"{key}: {error}")


def _list(picked: Sequence[Cell], shared: Shared) -> None:
    stored = {cell.key: read_result(cell, shared.results) is not None for cell in picked}
    if shared.json:
        show.as_json(stored)
        return
    show.table(("cell", "stored"), [(key, "yes" if there else "-") for key, there in stored.items()])


@app.command()
def report(
    pages: Annotated[list[Path] | None, typer.Argument(help="Pages with markers; else all of docs/.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of stored results.")] = Path("results"),
    scale: Annotated[str, typer.Option(help="Of the studies: smoke, laptop or paper.")] = "laptop",
) -> None:
    """Write the tables, sentences and figures of pages from stored results alone."""
    for page in pages or [page for page in sorted(Path("docs").glob("*.md")) if PLACE.search(page.read_text())]:
        for name in write_page(page, results, scale_of(scale)):
            show.line("part", f"{name} of {page}")
