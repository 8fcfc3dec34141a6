"""Pages from stored cells alone: `solid bench report`.

A page marks the place of a part by a line `<!-- study NAME -->` and its end by `<!-- end -->`; what stands between is
replaced. NAME is a table, a sentence or a figure of a study. Nothing is trained and no truth is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from ...errors import SolidError
from ...plot.style import DPI
from . import ablation, efficiency, forecasting, patterns, tuning, uncertainty
from .catalog import TUNED, all_cells
from .scale import PILOT, Scale
from .shelf import Shelf

STUDIES = (forecasting, tuning, efficiency, uncertainty, ablation, patterns)
PLACE = re.compile(r"<!-- study (?P<name>[\w-]+) -->\n.*?<!-- end -->", re.DOTALL)

Part = Callable[[Shelf], str]


def parts() -> dict[str, Part]:
    """Every table and sentence by name."""
    found: dict[str, Part] = {"setup": setup}
    for study in STUDIES:
        found |= study.TABLES | study.WORDS
    return found


def figures() -> dict[str, Callable[[Shelf], Figure | None]]:
    return {name: draw for study in STUDIES for name, draw in study.FIGURES.items()}


def write_page(page: Path, results: Path, scale: Scale) -> list[str]:
    """Replace every marked part of a page and write its figures beside it; returns the names of what was written."""
    if not page.is_file():
        raise SolidError(f"no page at {page}; name a Markdown file with study markers")
    shelf, written = Shelf(scale, results), list[str]()
    known, drawn = parts(), figures()

    def part(match: re.Match[str]) -> str:
        name = match["name"]
        if name in known:
            body = known[name](shelf)
        elif name.removesuffix("-figure") in drawn:
            body = _figure(name.removesuffix("-figure"), drawn[name.removesuffix("-figure")], shelf, page)
        else:
            raise SolidError(f"{page} wants '{name}', which no study has; known: {', '.join([*known, *drawn])}")
        written.append(name)
        return f"<!-- study {name} -->\n{body}\n<!-- end -->"

    text = PLACE.sub(part, page.read_text())
    if written:
        page.write_text(text)
    return written


def _figure(name: str, draw: Callable[[Shelf], Figure | None], shelf: Shelf, page: Path) -> str:
    figure = draw(shelf)
    path = page.parent / "images" / "studies" / f"{name}.png"
    if figure is None:
        return f"*The cells of this figure ({name}) are not stored yet.*"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return f"![{name}](images/studies/{name}.png)"


def setup(shelf: Shelf) -> str:
    """What is equal between the models and what is not, at this scale, and how much of it is stored."""
    scale, world = shelf.scale, shelf.scale.world
    every = all_cells(scale)
    stored = [result for cell in every if (result := shelf.get(cell)) is not None]
    budget = f"{scale.minutes:g} CPU minutes of one thread" if scale.minutes else f"{scale.steps:,} steps"
    short = f" ({scale.short:g} at other densities and in studies 4 and 5)" if scale.short else ""
    tests, held = round(scale.test * scale.trajectories), round(scale.validation * scale.trajectories)
    lines = [
        f"- **World.** Navier-Stokes on a periodic box of side {world.side:.4g}, {world.cells} x {world.cells} "
        f"cells, Re {world.reynolds:g}; {scale.trajectories:,} trajectories of {world.frames} frames "
        f"{world.spacing:g} time units apart after a warm-up of {world.warmup:g}; even frames train, odd frames are "
        f"kept; forecasts go one even frame ({2 * world.spacing:g} time units) ahead. {tests} trajectories test, "
        f"{held} validate.",
        f"- **Equal for all.** The readings; the budget: {budget}{short}, validation and the choice of the learning "
        f"rate included; batch {scale.batch}; AdamW with a cosine; averaged weights; random shifts along the world's "
        f"symmetries; thinned sensors in half of the examples; {scale.scenes} test scenes, one a trajectory, with "
        "truth on the whole grid.",
        f"- **Learning rate.** At 10 % each of {_listed(scale.rates)} (the adversarial games: "
        f"{_listed(scale.rates_of('adversarial'))}) has {100 * PILOT:g} % of the budget from "
        "the same initial weights; the one with the lowest validation CRPS has the rest. "
        + (
            "Other cells take over the rate that their model chose at 10 %; those of study 2 train as long as it did."
            if TUNED.get(scale.name)
            else ""
        ),
        "- **Not equal.** Size and architecture (below 3 M parameters at laptop scale); how many steps fit into the "
        f"budget; members: {scale.members}, of diffusion models {scale.dear_members} (the fair CRPS does not depend "
        "on their number), of point forecasts one. `solid` fits its copula after the budget, from validation "
        "readings; the simple methods have no budget. `+ mask` gives a rival the mask as a channel and, where it has "
        "convolutions that can, the wrap-around; without it a rival runs the paper's way.",
        "- **Scores.** CRPS in standard deviations of the field, at cells without a sensor unless a table says "
        "otherwise, ± the standard error over scenes. One seed: what training itself varies is not in the error bars.",
        f"- **Stored.** {len(stored)} of {len(every)} cells{_origin(stored)}.",
    ]
    return "\n".join(lines)


def _listed(rates: tuple[float, ...]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def _origin(stored: list[dict[str, object]]) -> str:
    commits = sorted({result["provenance"]["commit"][:10] for result in stored})  # type: ignore[index]
    machines = sorted({result["provenance"]["machine"] for result in stored})  # type: ignore[index]
    if not stored:
        return ""
    return f", computed at commit {', '.join(commits)} on {'; '.join(machines)}"
