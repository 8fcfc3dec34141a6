"""`solid bench kolkata`: one hour ahead in Kolkata, every fifth day held out, beside every simple rival and the UNet.

    held-out days     all observed target cells of days 4 mod 5 since 1 January 2023 (local), also split into cells
                      seen and unseen an hour before; and six hours ahead, every model rolled forward
    held-out sensors  a second store in which a tenth of the cells is never source nor training target, and another
                      tenth is met in validation only, to learn how wide to be at such cells; solid and kriging alone

    without ...       held-out days again, solid alone, with one of its inputs left out (asked for: `--ablate`)

PM2.5 is modelled by its logarithm and scored in ug/m3. Solid and the UNet are told the calendar and the last reading of
each cell within 24 hours; kriging, persistence and climatology know the source and their training examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ...engine import Progress
from ...pairs.covariates import Covariates
from ...pairs.holdout import Holdout
from ...pairs.pairing import frame_pairs
from ...pairs.store import PairStore
from ...training.record import RunRecord
from ..cell import Cell, Experiment, Result
from ..datasets.kolkata import CREDIT, TIMEZONE, read_kolkata
from .brief import in_brief, tables, verdicts
from .real import Members, Minutes, Models, RealCell, Scenes, Seeds, Steps, some

AT_SENSORS = ("solid", "kriging")
DAYS = Holdout(timezone=TIMEZONE)
PARTS = {"held-out days": DAYS, "held-out sensors": replace(DAYS, sensors=0.1, calibration=0.1)}
WITHOUT = {"without calendar": Covariates(calendar=()), "without history": Covariates(history=0.0)}


@dataclass(frozen=True)
class KolkataCell(RealCell):
    HOME = "kolkata"
    CREDIT = CREDIT

    leads: tuple[int, ...]

    @property
    def region(self) -> str:
        return "held_sensors" if self.part == "held-out sensors" else "all"

    @property
    def home(self) -> str:
        return f"{super().home}-lead{'-'.join(map(str, self.leads))}"

    def pairs(self, data: Path, path: Path) -> PairStore:
        """Validation days choose the weights."""
        holdout, known = PARTS.get(self.part, DAYS), WITHOUT.get(self.part)
        frames = read_kolkata(data)
        return frame_pairs(frames, path, leads=self.leads, holdout=holdout, covariates=known, transform="log")

    def judge(self, runs: Sequence[RunRecord], store: PairStore, data: Path, progress: Progress | None) -> Result:
        findings = self.findings(runs, store, progress)
        return in_brief(findings.table, findings.verdict)


def kolkata_cells(
    models: Models = "solid,unet,kriging,persistence,climatology,nearest",
    lead: Annotated[list[int], "Hours ahead; 0 and 1; repeatable."] = [0, 1],  # noqa: B006
    minutes: Minutes = 8.0,
    seeds: Seeds = 1,
    members: Members = 100,
    scenes: Scenes = None,
    ablate: Annotated[bool, "Also train solid without calendar, and without history."] = False,
    steps: Steps = 6,
) -> list[Cell]:
    names = tuple(models.split(","))
    wanted = {"held-out days": names, "held-out sensors": tuple(name for name in names if name in AT_SENSORS)}
    wanted |= dict.fromkeys(WITHOUT, ("solid",)) if ablate else {}
    return [
        KolkataCell(part, asked, minutes, members, scenes, ahead, tuple(lead), seed=seed)
        for part, asked in wanted.items()
        for ahead in [steps if part == "held-out days" and 1 in lead else 1]
        for seed in some(seeds)
        if asked
    ]


EXPERIMENT = Experiment(
    "kolkata",
    "PM2.5 in Kolkata, one hour ahead, every fifth day held out; a second part holds sensors out.",
    kolkata_cells,
    tables,
    verdicts,
    reads=True,
    work="bench/kolkata",
    jobs=2,
)
