"""What the verbs print: progress on standard error, results on standard output, JSON where a machine reads."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..disk import plain, replace
from ..engine import Progress as Told
from ..errors import SolidError

PresetOption = Annotated[str, typer.Option("--preset", help="smoke, laptop, paper, paper-large, or a TOML file.")]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Override one value of the preset; repeatable.")
]
EngineOption = Annotated[str, typer.Option(help="Where to work: here, processes, or dask: a cluster.")]
JobsOption = Annotated[
    int, typer.Option(help="Processes here or of a local cluster; of another, how many share the work.")
]
SchedulerOption = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Of a Dask cluster; else a local one.")]
FigureOption = Annotated[Path | None, typer.Option(help="One page of pictures: .png, .pdf or .svg.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

PLACES = ("--data", "--work", "--results", "--out", "--figure", "--jobs", "--engine", "--scheduler", "--within")
PAUSE = 30.0  # seconds between two lines of a log
LABEL = 12  # width of the first column, so that the verbs of the demo line up


@contextmanager
def progress(label: str, what: str, quiet: bool = False) -> Iterator[Told]:
    """A bar on standard error, or lines now and then where that is a file; yields `update(what, done, total)`."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        with _lines(f"{label:<{LABEL}} {what}", quiet) as update:
            yield update
        return
    bar = Progress(
        TextColumn(f"{label:<{LABEL}} {what:<40}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[what]}"),
        console=console,
    )
    with bar:
        task = bar.add_task(label, total=None, what="")

        def update(what: str, done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, what=what)

        yield update


@contextmanager
def _lines(what: str, quiet: bool) -> Iterator[Told]:
    """Progress for a log: a line every half minute, and the last word."""
    begun = time.monotonic()
    told, last = begun, ""

    def say(now: float, words: str) -> None:
        print(f"{what}   {now - begun:,.0f} s   {words}".rstrip(), file=sys.stderr, flush=True)

    def update(words: str, done: int, total: int | None) -> None:
        nonlocal told, last
        last, now = words or "done", time.monotonic()
        if not quiet and now - told >= PAUSE:
            told = now
            say(now, f"{done:,} of {total:,}   {words}" if total else words)

    yield update
    if last and not quiet:
        say(time.monotonic(), last)


def short(value: float) -> str:
    """Four digits, and all of a large number: 101325 and 101290 Pa are not the same.

    >>> short(15.0612), short(101325.4), short(0.000123)
    ('15.06', '101325', '0.000123')
    """
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def line(label: str, text: str, quiet: bool = False) -> None:
    if not quiet:
        print(f"{label:<{LABEL}} {text}", flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table: the first column left, the others right, so that it pastes into a mail or a paper."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        first, *rest = (str(cell) for cell in row)
        print(
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
            sep="   ",
        )


def as_json(values: dict[str, Any]) -> None:
    print(json.dumps(plain(json.loads(json.dumps(values, default=float))), indent=2, allow_nan=False))


def command() -> str:
    """The words that were typed, without what changes no result: places, and how the work was shared."""
    words, kept = iter(sys.argv[1:]), ["solid"]
    for word in words:
        option, equals, _ = word.partition("=")
        if option not in PLACES:
            kept.append(word)
            continue
        if not equals:
            next(words, None)
        kept += ["--data", "DIR"] if option == "--data" else []
    return " ".join(kept)


def override(options: dict[str, Any]) -> tuple[str, ...]:
    """Named options that were given, in the form of --set: {"train.steps": 10} -> ("train.steps=10",)."""
    return tuple(f"{name}={json.dumps(value)}" for name, value in options.items() if value is not None)


def save_figure(figure: Any, path: Path) -> None:
    """Draw in memory, then put the file in place in one step."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "pdf", "svg"):
        raise SolidError(f"cannot draw {path}: end the name in .png, .pdf or .svg")
    content = io.BytesIO()
    figure.savefig(content, format=kind)
    replace(path, content.getvalue())
