"""What is equal between the models of the studies and what is not, and how much of it is stored."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from ..cell import Result
from .catalog import TUNED, all_cells
from .scale import PILOT
from .shelf import Shelf


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


def _origin(stored: list[Result]) -> str:
    commits = sorted({result["provenance"]["commit"][:10] for result in stored})
    machines = sorted({result["provenance"]["machine"] for result in stored})
    if not stored:
        return ""
    return f", computed at commit {', '.join(commits)} on {'; '.join(machines)}"


PARTS = {"setup": setup}
FIGURES: dict[str, Callable[[Shelf], Figure | None]] = {}
