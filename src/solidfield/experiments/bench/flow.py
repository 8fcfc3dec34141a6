"""`solid bench flow`: the schemes and kriging on turbulence, one step of 0.4 time units ahead, 10 % observed.

The world is the laptop scale of the studies: a periodic box of side pi, 32 x 32 cells, random masks per example. A cell
is a scheme, or a simple rival. Every scheme has the same CPU time of one thread to train; kriging has the same training
examples. Truth is opened only to judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ...disk import plain
from ...engine import Progress
from ...keys import evenly
from ...report.ensembles import closed_forms, draw_maps
from ...report.maps import RIVALS
from ...report.targets import truth_targets
from ...scores.table import Score
from ...worlds import NavierStokes
from ..cell import Cell, Experiment, Place, Result
from ..schemes import account, members_of, scheme, train_scheme
from ..studies.judged import judged, structure
from ..text import Table, named, with_error
from .exact import measured
from .figures import flow_figure
from .gaussian import cost_of

HEADER = (
    *("0.4 time units ahead", "CRPS", "spread / skill", "90 % covers", "block CRPS", "block spread / skill"),
    *("energy score", "roughness / truth", "100 members: GMACs", "seconds"),
)


@dataclass(frozen=True)
class FlowCell(Cell):
    HOME = "flow"
    WORDS = ("scheme", "minutes")

    scheme: str  # or a simple rival
    minutes: float | None  # CPU time of one thread; None: fitted in closed form
    share: float  # of the training trajectories
    trajectories: int
    scenes: int
    members: int

    @property
    def words(self) -> tuple[str, ...]:
        return (*super().words, *((f"data{100 * self.share:g}",) if self.share < 1 else ()))

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        home = place.work / f"{self.trajectories}-trajectories-seed{self.seed}"
        world = NavierStokes(cells=32, side=math.pi, frames=50, spacing=0.2, warmup=10.0, seed=self.seed)
        options = {"validation": 0.05, "test": 0.1, "oracle": True}
        truth, store = measured(world, home, self.trajectories, "pairs.zarr", share=self.share, **options)
        chosen = evenly(store.split("test"), self.scenes)
        targets, source = truth_targets(store, chosen, truth), store.batch(chosen).source
        if self.minutes is None:
            (rival,) = closed_forms([self.scheme], store)
            maps = draw_maps(rival, store, chosen, self.members, self.seed)[:, :, 0]
            return summary(judged(store, targets, maps))
        run = train_scheme(self.scheme, store, home / "runs" / self.run, self.minutes, self.seed, progress)
        maps = members_of(run, source, self.members, self.seed, scheme(self.scheme).dear)
        return summary(judged(store, targets, maps)) | account(run, source)


def flow_cells(
    schemes: Annotated[str, "Comma-separated; see docs/heart.md."] = (
        "solid,solid-diffusion,solid-onepass,solid-paper,oracle"
    ),
    minutes: Annotated[float, "Training budget of each scheme, CPU time on one thread."] = 10.0,
    trajectories: Annotated[int, "Simulated; most of them train."] = 1000,
    scenes: Annotated[int, "Held-out scenes to judge on."] = 64,
    members: Annotated[int, "Of each ensemble."] = 100,
    seed: Annotated[int, "Of the world, the weights and the members."] = 0,
    share: Annotated[float, "Of the training trajectories that are used."] = 1.0,
) -> list[Cell]:
    budgets = dict.fromkeys(schemes.split(","), minutes) | dict.fromkeys(RIVALS)
    return [FlowCell(name, budget, share, trajectories, scenes, members, seed=seed) for name, budget in budgets.items()]


def summary(found: list[Score]) -> Result:
    """The scores of the bars, in standard deviations of the field, at cells without a sensor."""
    at = {score.region: score for score in found if score.bin is None}
    free = at["unobserved"]
    return plain(
        {
            "crps": free.scaled("crps"),
            "spread_skill": free["spread_skill"],
            "coverage": free["coverage_90"],
            "crps_at_sensors": at["sensors"].scaled("crps"),
            "structure": structure(at["grid"]),
        }
    )


def tables(results: Sequence[Result]) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for entry in results:
        joint = entry["structure"]
        values = [entry[name] for name in ("crps", "spread_skill", "coverage")]
        values += [joint[name] for name in ("block_crps_scaled", "block_spread_skill", "energy_score_scaled")]
        rough = f"{joint['roughness']['members'] / joint['roughness']['truth']:.3f}"
        name = named(entry["cell"]["scheme"], bool(entry.get("leaks")))
        rows.append((name, *map(with_error, values), rough, *cost_of(entry)))
    return [(HEADER, rows)]


EXPERIMENT = Experiment(
    "flow",
    "Schemes and simple rivals on turbulence, one step ahead, 10 % observed.",
    flow_cells,
    tables,
    figure=lambda results: flow_figure({result["cell"]["scheme"]: result for result in results}),
    work="bench/flow",
)
