"""Pages from stored results alone: `solid bench report`. Nothing is trained and no truth is opened.

A page marks the place of a part by a line `<!-- part NAME -->` and its end by `<!-- end -->`; what stands between is
replaced. NAME is a table, a sentence or a figure of a study, or the stem of a file in results/: a sheet of cells, or
something measured as a whole. So every number on a page has a file with its provenance behind it, and the line below
a table says which command and commit made it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ..disk import read_json
from ..errors import SolidError
from ..plot.style import DPI
from . import costs
from .cell import Result
from .registry import EXPERIMENTS
from .store import read_sheet
from .studies import FIGURES, PARTS
from .studies.scale import Scale
from .studies.shelf import Shelf
from .text import Table, markdown

PLACE = re.compile(r"<!-- part (?P<name>[\w/-]+) -->\n.*?<!-- end -->", re.DOTALL)


def write_page(page: Path, results: Path, scale: Scale) -> list[str]:
    """Replace every marked part of a page and write its figures beside it; returns the names of what was written."""
    if not page.is_file():
        raise SolidError(f"no page at {page}; name a Markdown file with lines <!-- part NAME -->")
    shelf, written = Shelf(scale, results), list[str]()

    def part(match: re.Match[str]) -> str:
        name = match["name"]
        written.append(name)
        return f"<!-- part {name} -->\n{body_of(name, shelf, page)}\n<!-- end -->"

    before = page.read_text()
    text = PLACE.sub(part, before)
    if text != before:
        page.write_text(text)
    return written


def body_of(name: str, shelf: Shelf, page: Path) -> str:
    if name in PARTS:
        return PARTS[name](shelf)
    if name.removesuffix("-figure") in FIGURES:
        return _figure(name.removesuffix("-figure"), FIGURES[name.removesuffix("-figure")], shelf, page)
    path = next((p for p in (shelf.folder / f"{name}.json", costs.STORED / f"{name}.json") if p.is_file()), None)
    if path is None:
        known = ", ".join([*PARTS, *(f"{figure}-figure" for figure in FIGURES)])
        raise SolidError(f"{page} wants '{name}': {name}.json is not in {shelf.folder}, and no study has it ({known})")
    document = read_json(path)
    if "cells" in document:
        return _sheet(name, document, shelf.folder, page)
    return f"{_tables(measured_tables(document['result']))}\n\n{_origin([document])}"


def _sheet(name: str, sheet: dict[str, Any], folder: Path, page: Path) -> str:
    """The tables of its cells, the figure that goes with them, and where they come from."""
    experiment, found = EXPERIMENTS[sheet["experiment"]], read_sheet(sheet, folder)
    if experiment.tables is None or not found:
        return f"*No cell of {name} is stored.*"
    left = len(sheet["cells"]) - len(found)
    parts = [_tables(experiment.tables(found))]
    if experiment.figure is not None and name == experiment.name:
        _save(experiment.figure(found), page.parent / "images" / f"{name}.png")
        parts.append(f"![{name}: the table above as a figure](images/{name}.png)")
    return "\n\n".join([*parts, _origin(found) + (f" {left} cells of it are missing." if left else "")])


def measured_tables(result: dict[str, Any]) -> list[Table]:
    """Of what is measured as a whole: the costs of models, or names and values."""
    if "costs" in result:
        return [costs.table(result["costs"], result["members"])]
    return [(("measured", "value"), [(name, f"{value:.4g}") for name, value in result.items()])]


def _tables(tables: Sequence[Table]) -> str:
    return "\n\n".join(markdown(*table) for table in tables)


def _origin(found: Sequence[Result]) -> str:
    """By which command, at which commit; one entry for all results that agree in it."""
    entries = {}
    for about in (result["provenance"] for result in found):
        made = f"`{about['command']}`, seed {about['seed']}, commit {about['commit'][:10]}"
        entries[made] = f"{made}, {about['date'][:10]}, {about['machine']}"
    return "; ".join(entries.values()) + "."


def _figure(name: str, draw: Callable[[Shelf], Figure | None], shelf: Shelf, page: Path) -> str:
    figure = draw(shelf)
    if figure is None:
        return f"*The cells of this figure ({name}) are not stored yet.*"
    _save(figure, page.parent / "images" / "studies" / f"{name}.png")
    return f"![{name}](images/studies/{name}.png)"


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
