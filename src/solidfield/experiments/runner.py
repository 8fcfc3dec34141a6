"""Run cells: skip what is stored, finish what was begun, note what fails, and go on.

A cell sends word of how far it is through a small file in the work folder, so that whoever started it can show it,
wherever it runs. Its result travels back and is stored here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ..disk import replace
from ..engine import Engine, spread
from ..errors import SolidError
from .cell import Cell, Place
from .store import provenance, read_result, write_result

SAY_EVERY = 1.0  # seconds between two words of a cell
STALE = 120.0  # a word that old comes from a cell that is no longer running


@dataclass(frozen=True)
class Task:
    """A cell on its way to wherever it is run; importable, picklable."""

    cell: Cell
    place: Place
    command: str


@dataclass(frozen=True)
class State:
    """What a live display shows."""

    done: int  # cells, stored ones included
    total: int
    running: tuple[str, ...]  # one line a cell
    seconds_left: float | None


@dataclass(frozen=True)
class Outcome:
    run: tuple[str, ...]  # keys of the cells that were run
    skipped: int  # found in store
    failed: dict[str, str]  # key -> the error in one line
    left: int  # not begun before the time was over


def chosen(cells: Sequence[Cell], only: str | None) -> list[Cell]:
    """Those whose key matches the pattern: a part of it, or with * and ?."""
    if only is None:
        return list(cells)
    pattern = only if any(mark in only for mark in "*?[") else f"*{only}*"
    return [cell for cell in cells if fnmatch(cell.key, pattern)]


def run_cells(
    cells: Sequence[Cell],
    place: Place,
    results: Path,
    command: str,
    engine: Engine = Engine(),
    minutes: float | None = None,  # of wall time, after which no further cell is begun
    report: Callable[[State], None] | None = None,
) -> Outcome:
    """Run every cell that has no sound result yet."""
    missing = [cell for cell in cells if read_result(cell, results) is None]
    skipped, start, begun = len(cells) - len(missing), time.monotonic(), 0
    run: list[str] = []
    failed: dict[str, str] = {}

    def tasks() -> Iterator[Task]:
        nonlocal begun
        for cell in missing:
            if minutes is not None and time.monotonic() - start > 60 * minutes:
                return
            begun += 1
            yield Task(cell, place, command)

    def tell() -> None:
        if report is not None:
            finished = len(run) + len(failed)
            passed = time.monotonic() - start
            left = passed / finished * (len(missing) - finished) if finished else None
            report(State(skipped + finished, len(cells), words(place.work), left))

    function: Callable[[Task], Any] = work_on
    if engine.kind == "here":
        function = lambda task: work_on(task, tell)  # noqa: E731
    tell()
    for task, outcome in spread(function, tasks(), engine, tell):
        if isinstance(outcome, Exception):
            failed[task.cell.key] = f"{type(outcome).__name__}: {' '.join(str(outcome).split())}"
        else:
            write_result(task.cell, results, outcome)
            run.append(task.cell.key)
        tell()
    return Outcome(tuple(run), skipped, failed, len(missing) - begun)


def work_on(task: Task, tell: Callable[[], None] | None = None) -> dict[str, Any]:
    """Measure a cell and say from time to time how far it is."""
    path = task.place.work / "running" / f"{task.cell.key}.json"
    said = 0.0

    def progress(stage: str, done: int, total: int | None) -> None:
        nonlocal said
        if time.monotonic() - said < SAY_EVERY and done != total:
            return
        said = time.monotonic()
        with suppress(SolidError):  # only a display
            word = {"key": task.cell.key, "stage": stage, "done": done, "total": total}
            replace(path, json.dumps(word).encode())
        if tell is not None:
            tell()

    try:
        result = task.cell.measure(task.place, progress)
        return result | {"provenance": provenance(task.command, task.cell.seed)}
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def words(work: Path) -> tuple[str, ...]:
    """What the running cells last said."""
    lines = []
    for path in sorted((work / "running").glob("*.json")):
        with suppress(OSError, ValueError, KeyError):
            if time.time() - path.stat().st_mtime < STALE:
                word = json.loads(path.read_text())
                share = f" {100 * word['done'] / word['total']:.0f} %" if word["total"] else ""
                lines.append(f"{word['key'].rpartition('-')[0]}: {word['stage']}{share}")
    return tuple(lines)
