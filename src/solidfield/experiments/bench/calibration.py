"""`solid bench calibration`: is the truth one more draw of the law? SBC and TARP on worlds whose posterior is known.

A cell is a scheme on the Gaussian or the warped world, one training with a window of four frames. Test scenes are one a
trajectory, so truths are independent draws of the world, and ranks of the truth among members must be uniform
(simulation-based calibration, Talts et al. 2018), tested by `scores/uniformity.py`:

    cells         at the last frame of the window where nothing was read, and one step ahead everywhere
    blocks        means of 4 x 4 cells, one step ahead
    trajectories  means over four steps ahead, at one cell in sixteen
    TARP          which members are nearer to a random map than the truth is (Lemos et al. 2023), one step ahead

`exact` draws from the posterior itself and must pass; `exact-3%` draws 3 % too wide and must be caught.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...engine import Progress
from ...keys import numpy_generator
from ...pairs.store import PairStore
from ...prediction.ensemble import draw_members
from ...scores.metrics import block_means
from ...scores.uniformity import LEVEL, rank_scores, uniformity
from ...worlds import GaussianWorld, Posterior, WarpedPosterior, WarpedWorld
from ..cell import Cell, Experiment, Place, Result
from ..schemes import train_scheme
from ..text import Table
from .exact import measured

WORLDS = {"gaussian": (GaussianWorld, 0.10), "warped": (WarpedWorld, 0.16)}  # and share of cells: sensors and targets
WINDOW, STRIDE, AHEAD = 4, 2, (1, 2, 3, 4)
LEADS = (0, *AHEAD)
BLOCK, SPARSE = 4, 4  # cells along a block; of so many rows and columns trajectories look at one
REFERENCES = 4  # random maps a scene
WIDE = 1.03
EXACT = {"exact": 1.0, "exact-3%": WIDE}  # how much too wide
AT_ONCE = 16  # scenes drawn together
ASKED = ("cells, lead 0", "cells, lead 1", "blocks, lead 1", "trajectories", "TARP, lead 1")

Scores = dict[str, list[np.ndarray]]  # (3,) a scene


@dataclass(frozen=True)
class CalibrationCell(Cell):
    HOME = "calibration"
    JUDGED = ("members",)
    WORDS = ("scheme", "world")

    world: str
    scheme: str
    minutes: float | None  # CPU time of one thread; None: nothing is trained
    trajectories: int  # to train and validate on
    scenes: int
    members: int

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        home = place.work / f"{self.world}-{self.trajectories}-trajectories-seed{self.seed}"
        scenes = Scenes.of(home, self)
        if self.scheme in EXACT:
            found = scenes.of_exact(self.members, EXACT[self.scheme], self.seed, progress)
        else:
            folder, minutes = home / "runs" / self.run, self.minutes or 0.0
            run = train_scheme(self.scheme, scenes.store, folder, minutes, self.seed, progress)
            found = {name: [] for name in ASKED}
            for some in np.array_split(np.arange(len(scenes.chosen)), -(-len(scenes.chosen) // AT_ONCE)):
                source = scenes.store.batch(scenes.chosen[some]).source
                drawn = draw_members(
                    run.model, run.scaling, source, self.members, steps=len(LEADS), leads=LEADS, seed=self.seed,
                    queries=[int(n) for n in scenes.chosen[some]],
                )  # fmt: skip
                for row, n in enumerate(some):
                    maps = drawn[:, row, :, 0]
                    scenes.judge(found, int(n), maps[:, 0], maps[:, 1], maps[:, 1:].mean(1)[:, ::SPARSE, ::SPARSE])
        return {"tests": {name: uniformity(np.array(rows))._asdict() for name, rows in found.items()}}


@dataclass(frozen=True)
class Scenes:
    """Test scenes, one a trajectory, with a whole window before them and four steps after."""

    store: PairStore
    world: GaussianWorld | WarpedWorld
    chosen: np.ndarray  # (N,) examples of lead 1
    readings: np.ndarray  # (N, window, H, W), newest first; NaN = not read
    truth: np.ndarray  # (N, L, H, W) at LEADS
    other: np.ndarray  # (N, H, W): maps of other times and trajectories

    @classmethod
    def of(cls, home: Path, cell: CalibrationCell) -> Scenes:
        """Simulated and measured once, whoever comes first."""
        kind, amount = WORLDS[cell.world]
        world, count = kind(seed=cell.seed), cell.trajectories + cell.scenes
        options: dict[str, Any] = {"leads": LEADS, "validation": 0.05, "test": cell.scenes / count, "window": WINDOW}
        truth, store = measured(world, home, count, f"pairs-{cell.scenes}.zarr", amount, **options)
        columns, test = store.columns, store.split("test")
        first, last = STRIDE * (WINDOW - 1), world.frames - 1 - STRIDE * AHEAD[-1]
        frame = columns["frame_source"][test]
        test = test[(columns["lead"][test] == 1) & (frame >= first) & (frame <= last)]
        groups = [test[columns["trajectory"][test] == one] for one in np.unique(columns["trajectory"][test])]
        chosen = np.array([group[7 * n % len(group)] for n, group in enumerate(groups)])
        frames = store.batch(chosen).source.frames
        readings = np.where(frames.mask[:, :, 0], frames.values[:, :, 0], np.nan)
        fields = truth.read([int(n) for n in columns["trajectory"][chosen]])[:, :, 0]  # (N, F, H, W)
        at = columns["frame_source"][chosen][:, None] + STRIDE * np.array(LEADS)
        rows = np.arange(len(chosen))
        return cls(store, world, chosen, readings, fields[rows[:, None], at], np.roll(fields[:, 0], 1, axis=0))

    def law(self, n: int, leads: Sequence[int], cells: np.ndarray | None, wide: float) -> Posterior | WarpedPosterior:
        """The exact joint law, or one whose normal field is too wide."""
        ages = [-STRIDE * back for back in range(WINDOW)]
        law = self.world.joint(self.readings[n], [STRIDE * lead for lead in leads], cells, ages)
        if isinstance(law, WarpedPosterior):
            return replace(law, normal=_widened(law.normal, wide))
        return _widened(law, wide)

    def of_exact(self, members: int, wide: float, seed: int, progress: Progress | None) -> Scores:
        found: Scores = {name: [] for name in ASKED}
        shape, draws = self.world.grid.shape, numpy_generator(seed, "exact members")
        some = np.arange(self.world.grid.cells).reshape(shape)[::SPARSE, ::SPARSE]
        for n in range(len(self.chosen)):
            now, then = (self.law(n, (lead,), None, wide).sample(members, draws)[:, 0] for lead in (0, 1))
            along = self.law(n, AHEAD, some.ravel(), wide).sample(members, draws).mean(1)
            now, then = (drawn.reshape(members, *shape) for drawn in (now, then))
            self.judge(found, n, now, then, along.reshape(members, *some.shape))
            if progress is not None:
                progress("drawing scenes", n + 1, len(self.chosen))
        return found

    def judge(
        self,
        found: Scores,
        n: int,
        now: np.ndarray,  # (K, H, W)
        then: np.ndarray,  # (K, H, W) a step ahead
        along: np.ndarray,  # (K, h, w) means of the steps ahead
    ) -> None:
        """Add the mean rank scores of this scene."""
        truth = self.truth[n]
        free = np.isnan(self.readings[n, 0])
        references = self.other[[(n + 3 * k) % len(self.other) for k in range(REFERENCES)]]
        near, far = ((((m[:, None] - references) ** 2).mean((2, 3))) for m in (then, truth[None, 1]))  # (K, R), (1, R)
        pairs = (
            (now[:, free], truth[0][free]),
            (then, truth[1]),
            (block_means(then, BLOCK), block_means(truth[1], BLOCK)),
            (along, truth[1:].mean(0)[::SPARSE, ::SPARSE]),
            (near, far[0]),
        )
        for name, (members, value) in zip(ASKED, pairs, strict=True):
            value = value.astype(members.dtype)
            scores = rank_scores((members < value).sum(0), (members == value).sum(0), len(members))
            found[name].append(scores.reshape(-1, scores.shape[-1]).mean(0))


def _widened(law: Posterior, wide: float) -> Posterior:
    return Posterior(law.mean, law.covariance * wide**2)


def calibration_cells(
    schemes: Annotated[str, "Comma-separated; beside the exact posterior and one that is 3 % too wide."] = "solid",
    worlds: Annotated[str, "gaussian, warped; comma-separated."] = ",".join(WORLDS),
    minutes: Annotated[float, "Training budget of each scheme, CPU time on one thread."] = 4.0,
    trajectories: Annotated[int, "To train and validate on."] = 300,
    scenes: Annotated[int, "Test trajectories, a scene each."] = 300,
    members: Annotated[int, "Of each ensemble."] = 100,
    seed: Annotated[int, "Of the world, the weights and the members."] = 0,
) -> list[Cell]:
    size: dict[str, Any] = {"trajectories": trajectories, "scenes": scenes, "members": members, "seed": seed}
    budgets: dict[str, float | None] = dict.fromkeys(EXACT) | dict.fromkeys(schemes.split(","), minutes)
    return [
        CalibrationCell(world, name, budget, **size) for world in worlds.split(",") for name, budget in budgets.items()
    ]


def tables(results: Sequence[Result]) -> list[Table]:
    header = ("world, scheme, ranks of", "p", "uniform", "members are too wide by", "sees a spread that is wrong by")
    rows: list[tuple[str, ...]] = []
    for result in results:
        cell = result["cell"]
        for name, test in result["tests"].items():
            passed = "yes" if test["p"] >= LEVEL else "no"
            wide, sees = (f"{100 * test[part]:.1f} %" for part in ("spread", "sees"))
            widths = ("-", "-") if name.startswith("TARP") else (wide, sees)  # distances are not normal
            rows.append((f"{cell['world']}, {cell['scheme']}: {name}", f"{test['p']:.3g}", passed, *widths))
    return [(header, rows)]


EXPERIMENT = Experiment(
    "calibration",
    "SBC and TARP: is the truth one more draw of the law? On worlds whose posterior is known.",
    calibration_cells,
    tables,
    work="bench/calibration",
)
