"""solid bench: studies that print what they measured and store it with its provenance."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..experiments.bench.flow import run_flow
from ..experiments.bench.gaussian import run_gaussian
from ..experiments.bench.page import tables, write_tables
from ..experiments.bench.record import store
from ..experiments.studies.report import write_page
from ..experiments.studies.scale import scale as scale_of
from ..training.loop import Progress
from . import real, show, studies

app = typer.Typer(help="Studies: train schemes side by side, measure, store.", no_args_is_help=True)
studies.register(app)
real.register(app)

Work = Annotated[Path, typer.Option(help="Where data and runs are kept, so that an interrupted study goes on.")]
Out = Annotated[Path, typer.Option(help="The JSON file of results.")]
Schemes = Annotated[str, typer.Option(help="Comma-separated; see docs/heart.md.")]
Minutes = Annotated[float, typer.Option(help="Training budget of each scheme, wall time on this machine.")]
Scenes = Annotated[int, typer.Option(help="Held-out scenes to judge on.")]
Members = Annotated[int, typer.Option(help="Of each ensemble.")]


@app.command()
def gaussian(
    work: Work = Path("bench/gaussian"),
    out: Out = Path("results/gaussian.json"),
    schemes: Schemes = "solid,solid-diffusion,solid-onepass,solid-paper,oracle",
    lead: Annotated[list[int], typer.Option(help="0 and 1; repeatable.")] = [0, 1],  # noqa: B006
    minutes: Minutes = 4.0,
    trajectories: Annotated[int, typer.Option(help="Simulated; most of them train.")] = 400,
    scenes: Scenes = 64,
    members: Members = 100,
    seed: int = 0,
    figure: Annotated[Path | None, typer.Option(help="Also draw one scene into this file.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Every scheme against the exact posterior of the Gaussian world; 1 is perfect."""
    with show.progress("training", "", json) as update:
        results = run_gaussian(
            work,
            schemes.split(","),
            lead,
            minutes,
            trajectories,
            scenes,
            members,
            seed,
            figure,
            report=lambda name, progress: update(progress.step, progress.total, _note(name, progress)),
        )
    store(out, _command(), seed, results)
    if json:
        show.as_json(results)
        return
    _show(results, out)


@app.command()
def flow(
    work: Work = Path("bench/flow"),
    out: Out = Path("results/flow.json"),
    schemes: Schemes = "solid,solid-diffusion,solid-onepass,solid-paper,oracle",
    minutes: Minutes = 10.0,
    trajectories: Annotated[int, typer.Option(help="Simulated; most of them train.")] = 1000,
    scenes: Scenes = 64,
    members: Members = 100,
    seed: int = 0,
    share: Annotated[float, typer.Option(help="Of the training trajectories that are used.")] = 1.0,
    json: show.JsonOption = False,
) -> None:
    """Schemes and simple rivals on turbulence, one step ahead, 10 % observed."""
    with show.progress("training", "", json) as update:
        results = run_flow(
            work,
            schemes.split(","),
            minutes,
            trajectories,
            scenes,
            members,
            seed,
            share,
            report=lambda name, progress: update(progress.step, progress.total, _note(name, progress)),
        )
    store(out, _command(), seed, results)
    if json:
        show.as_json(results)
        return
    _show(results, out)


@app.command()
def report(
    pages: Annotated[list[Path] | None, typer.Argument(help="Pages with markers; else those in docs/.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of stored results.")] = Path("results"),
    scale: studies.ScaleOption = "laptop",
) -> None:
    """Write the tables, sentences and figures of pages from stored results alone."""
    for page in pages or [Path("docs", f"{name}.md") for name in ("heart", "studies", "rivals")]:
        for name in write_tables(page, results):
            show.line("table", f"{name} from {results / name}.json into {page}")
        for name in write_page(page, results / "studies", scale_of(scale)):
            show.line("study", f"{name} from {results / 'studies'} into {page}")


def _note(name: str, progress: Progress) -> str:
    crps = "" if progress.crps is None else f"  validation CRPS {progress.crps:.3f}"
    return f"{name}  loss {progress.loss:.3f}{crps}"


def _command() -> str:
    """The words that were typed, without the place of the work: it changes nothing, and is nobody's business."""
    words = sys.argv[1:]
    if "--work" in words:
        at = words.index("--work")
        words = words[:at] + words[at + 2 :]
    return " ".join(["solid", *words])


def _show(results: dict[str, Any], out: Path) -> None:
    for header, rows in tables(results):
        print()
        show.table(header, rows)
    show.line("stored", str(out))
