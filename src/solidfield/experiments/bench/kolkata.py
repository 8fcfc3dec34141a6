"""`solid bench kolkata`: one hour ahead in Kolkata, every fifth day held out, beside every simple rival and the UNet.

    held-out days     all observed target cells of days 4 mod 5 since 1 January 2023 (local), also split into cells
                      seen and unseen an hour before; and six hours ahead, every model rolled forward
    held-out sensors  a second store in which a tenth of the cells is never source nor training target, and another
                      tenth is met in validation only, to learn how wide to be at such cells; solid and kriging alone

    without ...       held-out days again, solid alone, with one of its inputs left out (asked for: `ablate`)

PM2.5 is modelled by its logarithm and scored in ug/m3. Solid and the UNet are told the calendar and the last reading of
each cell within 24 hours; kriging, persistence and climatology know the source and their training examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...pairs.covariates import Covariates
from ...pairs.frames import frame_pairs
from ...pairs.holdout import Holdout
from ...pairs.store import PairStore
from ..datasets.kolkata import CREDIT, TIMEZONE, read_kolkata
from .real import Note, Task, fill, judge_readings, judged, plan
from .real_brief import in_brief, part_of

MODELS = ("solid", "unet", "kriging", "persistence", "climatology", "nearest")
AT_SENSORS = ("solid", "kriging")
DAYS = Holdout(timezone=TIMEZONE)
PARTS = {"held-out days": DAYS, "held-out sensors": replace(DAYS, sensors=0.1, calibration=0.1)}
WITHOUT = {"without calendar": Covariates(calendar=()), "without history": Covariates(history=0.0)}
MAIN = {"held-out sensors": "held_sensors"}  # else all


def kolkata_pairs(data: Path, path: Path, part: str, leads: Sequence[int] = (0, 1)) -> PairStore:
    """The pairs of a part; validation days choose the weights."""
    return frame_pairs(
        read_kolkata(data),
        path,
        leads=leads,
        holdout=PARTS.get(part, DAYS),
        covariates=WITHOUT.get(part),
        transform="log",
    )


def run_kolkata(
    data: Path,
    work: Path,
    models: Sequence[str] = MODELS,
    leads: Sequence[int] = (0, 1),
    minutes: float = 8.0,  # CPU time on one thread for each trained model
    seeds: int = 1,
    members: int = 100,
    scenes: int | None = None,  # None: all test examples
    jobs: int = 2,
    ablate: bool = False,
    steps: int = 6,  # of a rollout over held-out days
    note: Note | None = None,
) -> dict[str, Any]:
    """Results by part; runs that are in `work` already are used again."""
    wanted = {"held-out days": list(models), "held-out sensors": [name for name in models if name in AT_SENSORS]}
    if ablate:
        wanted |= {part: ["solid"] for part in WITHOUT}
    tasks: list[Task] = []
    for part, names in wanted.items():
        if names:
            home = work / part.replace(" ", "-")
            pairs = fill(home / "pairs.zarr", partial(kolkata_pairs, data, part=part, leads=leads))
            tasks += plan(part, pairs, home, names, minutes, seeds)

    def judge(group: list[Task]) -> dict[str, Any]:
        part = group[0].part
        ahead = steps if part == "held-out days" and 1 in leads else 1
        return in_brief(judge_readings(group, wanted[part], members, scenes, ahead, note))

    found = judged(tasks, jobs, judge, note)
    return {
        "data": CREDIT,
        "minutes": minutes,
        "members": members,
        "parts": {part: part_of(entries, "ug/m3", MAIN.get(part, "all")) for part, entries in found.items()},
    }
