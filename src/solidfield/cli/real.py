"""solid bench kolkata, era5, airdelhi: the model and its rivals on real data that the user keeps in a folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SolidError
from ..experiments.bench import airdelhi as airdelhi_bench
from ..experiments.bench import era5 as era5_bench
from ..experiments.bench import kolkata as kolkata_bench
from ..experiments.bench.real_brief import real_tables
from ..experiments.bench.record import store
from . import show

Data = Annotated[Path, typer.Option(help="Folder of the files; they are read, never copied.")]
Work = Annotated[Path, typer.Option(help="Where pairs and runs are kept, so that an interrupted bench goes on.")]
Out = Annotated[Path, typer.Option(help="The JSON file of results.")]
Models = Annotated[str, typer.Option(help="Comma-separated names of `solid models`; the first trained one is the run.")]
Minutes = Annotated[float, typer.Option(help="CPU time on one thread for each trained model.")]
Seeds = Annotated[int, typer.Option(help="Trainings of each model.")]
Members = Annotated[int, typer.Option(help="Of each ensemble.")]
Scenes = Annotated[int | None, typer.Option(help="Test examples of a lead, evenly in time; else all.")]
Steps = Annotated[int, typer.Option(min=2, help="Hours that every model is rolled forward, held-out days.")]
Jobs = Annotated[int, typer.Option(help="Models trained side by side.")]


def register(app: typer.Typer) -> None:
    """Add a verb for each data set."""
    for verb in (kolkata, era5, airdelhi):
        app.command()(verb)


def kolkata(
    data: Data,
    work: Work = Path("bench/kolkata"),
    out: Out = Path("results/kolkata.json"),
    models: Models = ",".join(kolkata_bench.MODELS),
    lead: Annotated[list[int], typer.Option(help="Hours ahead; 0 and 1; repeatable.")] = [0, 1],  # noqa: B006
    minutes: Minutes = 8.0,
    seeds: Seeds = 1,
    members: Members = 100,
    scenes: Scenes = None,
    jobs: Jobs = 2,
    ablate: Annotated[bool, typer.Option(help="Also train solid without calendar, and without history.")] = False,
    steps: Steps = 6,
    json: show.JsonOption = False,
) -> None:
    """PM2.5 in Kolkata, one hour ahead, every fifth day held out; a second part holds sensors out."""
    with show.progress("kolkata", "", json) as update:
        result = kolkata_bench.run_kolkata(
            data,
            work,
            models.split(","),
            tuple(lead),
            minutes,
            seeds,
            members,
            scenes,
            jobs,
            ablate,
            steps,
            note=lambda what, done, total: update(done, total, what),
        )
    _tell(result, out, json)


def era5(
    data: Data,
    work: Work = Path("bench/era5"),
    out: Out = Path("results/era5.json"),
    models: Models = ",".join(era5_bench.MODELS),
    share: Annotated[float, typer.Option(help="Of the cells that have a sensor.")] = 0.03,
    minutes: Minutes = 8.0,
    seeds: Seeds = 1,
    members: Members = 100,
    scenes: Scenes = None,
    jobs: Jobs = 2,
    steps: Steps = 6,
    json: show.JsonOption = False,
) -> None:
    """2 m temperature from few random sensors, now and an hour ahead, against the dense truth of held-out days."""
    with show.progress("era5", "", json) as update:
        result = era5_bench.run_era5(
            data,
            work,
            models.split(","),
            share,
            minutes,
            seeds,
            members,
            scenes,
            jobs,
            steps,
            note=lambda what, done, total: update(done, total, what),
        )
    _tell(result, out, json)


def airdelhi(
    data: Data,
    mode: Annotated[str, typer.Option(help=f"{', '.join(airdelhi_bench.MODES)}.")] = "AB-CD",
    work: Work = Path("bench/airdelhi"),
    out: Annotated[
        Path | None, typer.Option(help="The JSON file of results; else results/adb-LAYOUT-MODE.json.")
    ] = None,
    models: Models = ",".join(airdelhi_bench.MODELS),
    layout: Annotated[str, typer.Option(help="Whose files: airdelhi, or kolkata in the same protocol.")] = "airdelhi",
    box: Annotated[str, typer.Option(help="Height x width of the window that holds most rows.")] = "21x20",
    minutes: Minutes = 8.0,
    seeds: Seeds = 3,
    members: Members = 100,
    scenes: Scenes = None,
    jobs: Jobs = 2,
    json: show.JsonOption = False,
) -> None:
    """AirDelhi's benchmark (AD-B): split letters, modes, scores by day."""
    size = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", box)
    if size is None:
        raise SolidError(f"cannot take '{box}' for a window; write it as 21x20")
    with show.progress("airdelhi", "", json) as update:
        result = airdelhi_bench.run_airdelhi(
            data,
            work,
            mode,
            models.split(","),
            layout,
            (int(size[1]), int(size[2])),
            minutes,
            seeds,
            members,
            scenes,
            jobs,
            note=lambda what, done, total: update(done, total, what),
        )
    name = f"adb-{layout}-{result['mode'].lower()}.json"
    _tell(result, out or Path("results") / name, json)


def _tell(result: dict[str, Any], out: Path, json: bool) -> None:
    store(out, _command(), 0, result)
    if json:
        show.as_json(result)
        return
    for header, rows in real_tables(result):
        print()
        show.table(header, rows)
    for entry in result["parts"].values():
        for sentence in entry["found"][0].get("verdict", ()):
            print(f"\n{sentence}")
    show.line("\nstored", str(out))


def _command() -> str:
    """The words that were typed, without places: they change nothing, and are nobody's business."""
    words = sys.argv[1:]
    for option in ("--work", "--out", "--data"):
        if option in words:
            at = words.index(option)
            words = words[:at] + ([option, "DIR"] if option == "--data" else []) + words[at + 2 :]
    return " ".join(["solid", *words])
