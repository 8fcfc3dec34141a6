"""`solid bench shares`: one run that fills, now-casts and forecasts, beside three that do one of them each.

Each training has the same CPU time and learns from all readings of the training months; each is judged by the same
questions about readings of the judged months, each kind apart: filling (both sides), now-casts (past and present), and
forecasts by one to six hours. The CRPS is that of `aqi36.py`. Above 1 the one run loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch

from ...engine import Progress
from ...keys import torch_generator
from ...questions.drawing import Plan, draw
from ..cell import Cell, Experiment, Place, Result
from ..datasets.aqi36 import CREDIT, read_aqi36
from ..text import Table
from ..trainer import one_thread, trained_on_questions
from .aqi36 import LEVELS, published_crps
from .laws import latents

ALL = Plan(leads=tuple(range(1, 7)), fill=0.5, now=0.25, ahead=0.25)  # as `solid train` shares them out
ONLY = {
    "fill": replace(ALL, fill=1.0, now=0.0, ahead=0.0),
    "now": replace(ALL, fill=0.0, now=1.0, ahead=0.0),
    "ahead": replace(ALL, fill=0.0, now=0.0, ahead=1.0),
}
JUDGES, AT_ONCE = 8000, 500  # questions of a kind


@dataclass(frozen=True)
class SharesCell(Cell):
    HOME = "shares"
    JUDGED = ()
    WORDS = ("part", "minutes", "seed")

    part: str  # "all", or the one kind that is learned
    minutes: float  # CPU time of one thread

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        data = read_aqi36(place.data)
        record, run = data.record(data.ground), place.work / "runs" / self.run
        plan = ONLY.get(self.part, ALL)
        model, task, seconds = trained_on_questions(record, plan, run, self.minutes, self.seed, progress)
        normal = latents(LEVELS)
        judges, found = task.record.of_split("test"), {}
        with one_thread():
            for kind in ONLY if self.part == "all" else (self.part,):
                parts = []
                for start in range(0, JUDGES, AT_ONCE):
                    asked = draw(task.record, judges, AT_ONCE, ONLY[kind], "test", torch_generator(0, kind, start))
                    parts.append((model.quantiles(asked.questions, normal), asked.values))
                channel = torch.zeros(JUDGES, dtype=torch.long)
                both = torch.cat([q for q, _ in parts], 1), torch.cat([y for _, y in parts])
                q, y = (task.scaling.physical_of(values, channel).double().numpy() for values in both)
                inside = float(((y >= q[0]) & (y <= q[-1])).mean())
                found[kind] = {"crps": published_crps(q, y), "coverage": inside}
        return {"asked": found, "training_seconds": seconds, "credit": CREDIT}


def shares_cells(
    minutes: Annotated[float, "CPU time on one thread of each training."] = 4.0,
    seed: Annotated[int, "Of the weights and of what training asks."] = 0,
) -> list[Cell]:
    return [SharesCell(part, minutes, seed=seed) for part in ("all", *ONLY)]


def shares_tables(results: Sequence[Result]) -> list[Table]:
    """What one run loses to the three, kind by kind."""
    found = {result["cell"]["part"]: result["asked"] for result in results if "asked" in result}
    rows: list[tuple[str, ...]] = []
    for kind in ONLY:
        both = [found.get(part, {}).get(kind) for part in ("all", kind)]
        if both[0] is not None and both[1] is not None:
            one, own = both[0], both[1]
            ratio = one["crps"] / own["crps"]
            rows.append(
                (kind, f"{one['crps']:.4f}", f"{own['crps']:.4f}", f"{ratio:.3f}", f"{100 * one['coverage']:.1f} %")
            )
    return [(("CRPS", "one run", "a run of its own", "ratio", "90 % holds"), rows)] if rows else []


EXPERIMENT = Experiment(
    "shares",
    "One run that fills, now-casts and forecasts, beside three that do one each.",
    shares_cells,
    shares_tables,
    reads=True,
)
