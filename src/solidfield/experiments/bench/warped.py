"""`solid bench warped`: schemes against the exact posterior of a skewed field; kriging is not of the right family.

A cell is a scheme, trained once for leads 0 and 1 on 2,400 frames with 8 % of the cells read, other ones in each frame
(and 8 % as targets). Ratios are to the optimum: CRPS to its closed form at cells that were not read, means of blocks to
the fair CRPS of many exact members. The exact posterior's own members are judged the same way (`exact`). Four minutes
of training are enough: the best validation comes early, and what follows learns the frames by heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...engine import Progress
from ...keys import evenly, numpy_generator
from ...pairs.scaling import Scaling
from ...pairs.store import PairStore
from ...report.ensembles import closed_forms, draw_maps
from ...scores.metrics import block_means, crps_map
from ...worlds import WarpedPosterior, WarpedWorld
from ..cell import Cell, Experiment, Place, Result
from ..schemes import account, is_closed, members_of, scheme, train_scheme
from ..text import Table, number, with_error
from .exact import compare, measured, ratio, spread_map

BLOCK, MANY = 4, 400  # side of a block in cells; exact members that tell the best CRPS of a block
LEADS, STRIDE = (0, 1), 2  # frames of the world in a step
READ = 0.08  # of the cells, and as many targets
EXACT = "exact"
SCORES = {"crps": "CRPS", "block_crps": "block CRPS", "spread": "spread", "coverage": "90 % covers"}
BARS = {"crps": (0.0, 1.02), "block_crps": (0.0, 1.03), "coverage": (0.88, 0.92)}


@dataclass(frozen=True)
class WarpedCell(Cell):
    HOME = "warped"
    JUDGED = ("members",)
    WORDS = ("scheme", "minutes")

    scheme: str  # `exact`, a closed form, or a scheme that is trained
    minutes: float | None  # CPU time of one thread; None: nothing is trained
    frames: int  # to train and validate on
    scenes: int
    members: int

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        home = place.work / f"{self.frames}-frames-seed{self.seed}"
        judge = Judge.of(home, self)
        told: dict[str, Any] = {}
        if self.scheme == EXACT:
            draws = numpy_generator(self.seed, "exact members")
            members = {lead: judge.exact_members(lead, self.members, draws) for lead in LEADS}
        elif self.minutes is None:
            (rival,) = closed_forms([self.scheme], judge.store, Scaling.fit(judge.store, judge.store.split("train")))
            members = {
                lead: draw_maps(rival, judge.store, judge.chosen[lead], self.members, self.seed)[:, :, 0, 0]
                for lead in LEADS
            }
        else:
            run = train_scheme(self.scheme, judge.store, home / "runs" / self.run, self.minutes, self.seed, progress)
            sources = {lead: judge.store.batch(judge.chosen[lead]).source for lead in LEADS}
            dear = scheme(self.scheme).dear
            members = {lead: members_of(run, sources[lead], self.members, self.seed, dear)[:, :, 0] for lead in LEADS}
            told = account(run, sources[0])
        return {"leads": {str(lead): judge.compare(lead, members[lead]) for lead in LEADS}} | told


def warped_cells(
    schemes: Annotated[str, "Comma-separated; closed forms such as kriging are not trained."] = "solid,kriging",
    minutes: Annotated[float, "Training budget of each scheme, CPU time on one thread."] = 4.0,
    frames: Annotated[int, "To train and validate on."] = 2400,
    scenes: Annotated[int, "Held-out scenes to judge on."] = 64,
    members: Annotated[int, "Of each ensemble."] = 100,
    seed: Annotated[int, "Of the world, the weights and the members."] = 0,
) -> list[Cell]:
    size = {"frames": frames, "scenes": scenes, "members": members, "seed": seed}
    names = schemes.split(",")
    budgets = {EXACT: None} | {name: None if is_closed(name) else minutes for name in names}
    return [WarpedCell(name, budget, **size) for name, budget in budgets.items()]


@dataclass(frozen=True)
class Judge:
    """Test scenes, one a trajectory, whose posterior is known."""

    store: PairStore
    world: WarpedWorld
    chosen: dict[int, np.ndarray]  # by lead, (N,) examples
    truth: dict[int, np.ndarray]  # (N, H, W)

    @classmethod
    def of(cls, home: Path, cell: WarpedCell) -> Judge:
        """Simulated and measured once, whoever comes first."""
        world = WarpedWorld(seed=cell.seed)
        count = max(2, cell.frames * STRIDE // world.frames) + cell.scenes
        options: dict[str, Any] = {"leads": LEADS, "validation": 0.05, "test": cell.scenes / count}
        truth, store = measured(world, home, count, f"pairs-{cell.scenes}.zarr", 2 * READ, **options)
        test, columns = store.split("test"), store.columns
        chosen = {lead: evenly(test[columns["lead"][test] == lead], cell.scenes) for lead in LEADS}
        fields = {
            lead: np.stack(
                [truth.read([int(columns["trajectory"][n])])[0, columns["frame_target"][n], 0] for n in rows]
            )
            for lead, rows in chosen.items()
        }
        return cls(store, world, chosen, fields)

    def given(self, lead: int) -> np.ndarray:  # (N, H, W), NaN = not read
        source = self.store.batch(self.chosen[lead]).source
        return np.where(source.mask[:, 0], source.values[:, 0], np.nan)

    def exact(self, lead: int) -> list[WarpedPosterior]:
        return [self.world.joint(readings[None], (STRIDE * lead,)) for readings in self.given(lead)]

    def exact_members(self, lead: int, count: int, draws: np.random.Generator) -> np.ndarray:  # (K, N, H, W)
        drawn = np.stack([law.sample(count, draws)[:, 0] for law in self.exact(lead)], axis=1)
        return drawn.reshape(count, -1, *self.world.shape)

    def compare(self, lead: int, members: np.ndarray) -> dict[str, Any]:  # (K, N, H, W)
        truth, free = self.truth[lead], np.isnan(self.given(lead)) | (lead > 0)
        best = np.stack([law.crps(field.reshape(1, -1)) for law, field in zip(self.exact(lead), truth, strict=True)])
        many = self.exact_members(lead, MANY, numpy_generator(1, "blocks of the exact posterior", lead))
        blocks = block_means(truth, BLOCK)
        of_blocks = [crps_map(block_means(drawn, BLOCK), blocks.astype(drawn.dtype)) for drawn in (members, many)]
        found = compare(members, truth, free, best.reshape(truth.shape), spread_map(many))
        return found | {"block_crps": ratio(*(each.mean((1, 2)) for each in of_blocks))}


def tables(results: Sequence[Result]) -> list[Table]:
    rows = [
        (f"{r['cell']['scheme']}, lead {lead}", *(with_error(found[name]) for name in SCORES), _minutes(r))
        for lead in map(str, LEADS)
        for r in results
        if (found := r["leads"].get(lead))
    ]
    return [(("ratio to the optimum", *SCORES.values(), "CPU minutes"), rows)]


def _minutes(result: Result) -> str:
    seconds = result.get("training_seconds")
    return number(None if seconds is None else seconds / 60, 1, "-")


def verdict(results: Sequence[Result]) -> list[str]:
    """Each bar at each lead: held, or missed by how much."""
    said = []
    for result in results:
        if result["cell"]["scheme"] != "solid":
            continue
        for lead, found in result["leads"].items():
            for name, (low, high) in BARS.items():
                value = found[name]["mean"]
                off = max(low - value, value - high, 0.0)
                said.append(
                    f"solid, lead {lead}: {SCORES[name]} {value:.3f}, "
                    + (f"outside {low:g} to {high:g} by {off:.3f}" if off else "as wanted")
                )
    return said


EXPERIMENT = Experiment(
    "warped",
    "Schemes against the exact posterior of a skewed field; 1 is perfect.",
    warped_cells,
    tables,
    verdict,
    work="bench/warped",
)
