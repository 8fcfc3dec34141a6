"""`solid bench era5`: 2 m temperature from 3 % random sensors, now and an hour ahead, judged on the full grid.

Sensors are drawn anew every hour; training sees their readings and 3 % other cells as targets, never the field. The
judge alone opens the dense truth, on the held-out days, and scores every cell: `grid` is all of them, `unobserved`
those without a sensor. Kriging has a covariance fitted to the same training readings. Several hours ahead every model
is rolled forward and judged at the targets of the later hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from ...engine import Progress
from ...errors import SolidError
from ...grid import Grid
from ...pairs.frames import Frames
from ...pairs.scaling import Scaling
from ...pairs.store import PairStore
from ...report.ensembles import contenders, draw_targets
from ...report.rollouts import judge_rollouts
from ...report.scoring import judge
from ...report.targets import choose_examples, truth_targets
from ...scores.table import ScoreTable
from ...training.record import RunRecord
from ..cell import Cell, Experiment, Result
from ..datasets.era5 import CREDIT, dense_era5, era5_pairs
from .brief import in_brief, tables
from .real import Members, Minutes, Models, RealCell, Scenes, Seeds, Steps, some

KEPT = ("grid", "unobserved", "sensors")  # regions


@dataclass(frozen=True)
class Era5Cell(RealCell):
    HOME = "era5"
    CREDIT = CREDIT
    UNITS = "K"

    share: float  # of the cells that are read

    @property
    def region(self) -> str:
        return "grid"

    @property
    def home(self) -> str:
        return f"share-{self.share:g}"

    def pairs(self, data: Path, path: Path) -> PairStore:
        return era5_pairs(data, path, self.share)

    def judge(self, runs: Sequence[RunRecord], store: PairStore, data: Path, progress: Progress | None) -> Result:
        """Against the whole field of the held-out days; at readings, hours ahead."""
        everyone, truth = contenders(runs[0], store, self.rivals, runs[1:]), Dense(dense_era5(data))
        if truth.grid.shape != store.grid.shape:
            raise SolidError(f"{data} holds another grid than {store.path} was made of; choose another --work")
        tables = []
        for lead in store.leads:
            targets = truth_targets(store, choose_examples(store, lead, self.scenes), truth)
            drawn = {}
            for place, one in enumerate(everyone):
                if progress is not None:
                    progress(f"{one.name}, lead {lead}", place, len(everyone))
                drawn[one.name] = draw_targets(one, store, [targets], self.members, self.seed).members[0]
            found = judge(targets, drawn, store, (float(targets.values.std()),))
            scores = tuple(score for score in found.scores if score.bin is not None or score.region in KEPT)
            gaps = tuple(gap for gap in found.comparisons if gap.region in KEPT)
            tables.append(replace(found, scores=scores, comparisons=gaps))
        std = Scaling.fit(store, store.split("train")).physical_std
        rolled = judge_rollouts(
            everyone, runs[0], store, self.steps, std, self.members, self.scenes, self.seed, progress
        )
        return in_brief(ScoreTable.join([*tables, rolled], {"memory": runs[0].model.memory}))


@dataclass(frozen=True)
class Dense:
    """ERA5 as a truth of one trajectory."""

    fields: Frames

    @property
    def grid(self) -> Grid:
        return self.fields.grid

    @property
    def times(self) -> np.ndarray:  # (F,)
        return self.fields.times

    def read(self, indices: Sequence[int]) -> np.ndarray:  # (n, F, C, H, W)
        return np.stack([self.fields.values for _ in indices])


def era5_cells(
    models: Models = "solid,kriging,persistence,climatology",
    share: Annotated[float, "Of the cells that have a sensor."] = 0.03,
    minutes: Minutes = 8.0,
    seeds: Seeds = 1,
    members: Members = 100,
    scenes: Scenes = None,
    steps: Steps = 6,
) -> list[Cell]:
    names = tuple(models.split(","))
    return [Era5Cell("full grid", names, minutes, members, scenes, steps, share, seed=seed) for seed in some(seeds)]


EXPERIMENT = Experiment(
    "era5",
    "2 m temperature from few random sensors, now and an hour ahead, against the dense truth of held-out days.",
    era5_cells,
    tables,
    reads=True,
    work="bench/era5",
    jobs=2,
)
