"""`solid bench parts`: what the default is made of. Both encoders without one of their parts at a time, in equal time.

    turbulence, warped   the encoder of grids: a scheme each (`schemes.py`), by the cells of `solid bench flow` and
                         `solid bench warped`
    kolkata, aqi36       the encoder of sets: asked about gaps, and on Kolkata about places that were never read

A part is an option of a model, a constant of its file, a share of the questions, a way of training, or a number that
training leaves behind; a table of what is changed is all there is of it. The last column of each table is the CRPS
over the default's: below 1, the default is better without the part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...engine import Progress
from ...models import solid_set
from ..cell import Cell, Experiment, Place, Result
from ..datasets.aqi36 import CREDIT, read_aqi36
from ..text import Table, number, ratio, with_error
from ..trainer import one_thread, trained_on_questions
from .aqi36 import PLANS
from .contests import GAP, Contest, kolkata_contest
from .flow import FlowCell
from .laws import laws_at
from .peers import judged, mean_crps
from .warped import WarpedCell

WHOLE = "solid"
SCHEMES = (WHOLE, "solid-plain", "solid-no-coordinates", "solid-no-thinning", "solid-no-dropout", "solid-no-stretch")
JOINT = "solid-independent"  # its laws are the default's: only blocks can tell
TRAJECTORIES, FRAMES, SCENES, MEMBERS = 1000, 2400, 64, 100


@dataclass(frozen=True)
class Change:
    """What is done without; nothing: the default."""

    constants: Mapping[str, Any] = field(default_factory=dict)  # of models/solid_set.py
    plan: Mapping[str, Any] = field(default_factory=dict)  # of the questions that training asks
    after: Mapping[str, float] = field(default_factory=dict)  # what training left behind, filled with a number
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model
    training: Mapping[str, Any] = field(default_factory=dict)  # how it is trained
    calendar: bool = True


CHANGES = {
    WHOLE: Change(),
    "no calendar": Change(calendar=False),
    "no thinning": Change(plan={"sparse": 0.0, "sparse_unread": 0.0}),
    "no blur": Change(constants={"FEW": 0}),
    "no averaging": Change(constants={"AROUND": ()}),
    "no likelihood": Change(constants={"LIKELIHOOD": 0.0}),
    "no stretch": Change(after={"stretch": 1.0}),
    "one network": Change(options={"networks": 1}),
    "AdamW": Change(training={"optimiser": "adamw"}),
}


class FlowPart(FlowCell):
    HOME = "parts"  # results of `solid bench flow` may be older than the other parts

    @property
    def words(self) -> tuple[str, ...]:
        return ("turbulence", *super().words)


class WarpedPart(WarpedCell):
    HOME = "parts"

    @property
    def words(self) -> tuple[str, ...]:
        return ("warped", *super().words)


@dataclass(frozen=True)
class SetPart(Cell):
    HOME = "parts"
    JUDGED = ()
    WORDS = ("contest", "change", "minutes", "seed")

    contest: str
    change: str  # of CHANGES
    minutes: float  # CPU time of one thread

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        contest, change = CONTESTS[self.contest](place.files(self.contest)), CHANGES[self.change]
        record = contest.record if change.calendar else replace(contest.record, calendar=None)
        plan, run = replace(contest.plan, **change.plan), place.work / "runs" / self.run
        with constants(change.constants), one_thread():
            changed = {"options": change.options, "training": change.training}
            model, task, seconds = trained_on_questions(
                record, plan, run, self.minutes, self.seed, progress, (contest.transform,), **changed
            )
            for name, value in change.after.items():
                getattr(model, name).fill_(value)
            laws = laws_at(model, task.scaling, record, contest.frame, contest.cell, plan)
        scores = {name: judged(contest, law) for name, law in laws.items()}
        return {"laws": scores, "training_seconds": seconds, **contest.about}


@contextmanager
def constants(changed: Mapping[str, Any]) -> Iterator[None]:
    """Other numbers at the head of the model's file, for a while."""
    before = {name: getattr(solid_set, name) for name in changed}
    vars(solid_set).update(changed)
    try:
        yield
    finally:
        vars(solid_set).update(before)


def aqi36_contest(folder: Path) -> Contest:
    """The gaps of the published protocol (`bench/aqi36.py`)."""
    data = read_aqi36(folder)
    frame, station = np.nonzero(data.asked)
    record = data.record(np.where((data.split < 2)[:, None], data.ground, data.missing))
    truth, kinds = data.ground[frame, station], np.full(len(frame), GAP)
    about = {"units": "ug/m3", "data": CREDIT}
    return Contest(record, frame, data.cells[station], truth, kinds, frame // 24, "sqrt", PLANS["gaps"], 24, about)


CONTESTS = {"kolkata": kolkata_contest, "aqi36": aqi36_contest}


def parts_cells(
    minutes: Annotated[float, "Training budget of each cell, CPU time on one thread."] = 2.0,
    seed: Annotated[int, "Of the worlds, the weights and the members."] = 0,
) -> list[Cell]:
    names = (*SCHEMES, JOINT)
    return [
        *(FlowPart(name, minutes, 1.0, TRAJECTORIES, SCENES, MEMBERS, seed=seed) for name in names),
        *(WarpedPart(name, minutes, FRAMES, SCENES, MEMBERS, seed=seed) for name in names),
        *(SetPart(contest, change, minutes, seed=seed) for contest in CONTESTS for change in CHANGES),
    ]


def tables(results: Sequence[Result]) -> list[Table]:
    """A table for each world and kind of question: the default, then what is left without each part."""
    rows: dict[str, dict[str, tuple[tuple[str, ...], float]]] = {}
    for result in results:
        for title, name, scores, crps in _scores(result):
            rows.setdefault(title, {})[name] = (scores, crps)
    header = ("CRPS", "90 % holds", "CRPS of blocks", "CRPS / default's")
    made: list[Table] = []
    for title, found in rows.items():
        whole = found.get(WHOLE, ((), None))[1]
        lines = [(name, *scores, ratio(crps, whole, 3, "-")) for name, (scores, crps) in found.items()]
        made.append(((title, *header), lines))
    return made


def _scores(result: Result) -> Iterator[tuple[str, str, tuple[str, ...], float]]:
    """Title, name, scores as words, and the CRPS, of what one cell shows."""
    cell = result["cell"]
    if "structure" in result:
        found = {**result, "block_crps": result["structure"]["block_crps_scaled"]}
        yield "turbulence, standard deviations", cell["scheme"], _words(found), result["crps"]["mean"]
    for lead, found in result.get("leads", {}).items():
        yield f"warped, lead {lead}, ratio to the optimum", cell["scheme"], _words(found), found["crps"]["mean"]
    for kind, part in result.get("laws", {}).get("solid", {}).items():
        crps = mean_crps(part)
        words = f"{crps.mean:.3f} ± {crps.error:.3f}", number(part["coverage"]), "-"
        yield f"{cell['contest']}, {kind}, {result['units']}", cell["change"], words, crps.mean


def _words(found: Result) -> tuple[str, ...]:
    return tuple(with_error(found[name]) for name in ("crps", "coverage", "block_crps"))


EXPERIMENT = Experiment(
    "parts",
    "What the default is made of: solid without one of its parts at a time, on four data sets.",
    parts_cells,
    tables,
    reads=True,
    work="bench/parts",
)
