"""`solid bench gaussian --window 4`: both encoders against the exact posterior given several frames.

A cell is a scheme: one training, judged at leads 0, 1, 4 and 8, when filling (the frame two steps before the last of
the window, so that it is known from both sides) and for the mean over the eight steps ahead, whose law asks that
members hang together in time. Ratios are to the posterior of the same readings in closed form.

`solid` learns from pairs with a window. `solid-set` learns from a record of the same sources, a trajectory a stretch:
its targets are sources, too, each hidden from its own question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...engine import Progress
from ...keys import evenly, numpy_generator
from ...models.solid_set import SolidSet
from ...pairs.store import PairStore
from ...prediction.answer import Scene, answer
from ...prediction.ensemble import draw_members
from ...questions.drawing import Plan
from ...questions.record import SPLITS, Record
from ...worlds import GaussianWorld, Posterior
from ..cell import Cell, Place, Result
from ..schemes import train_scheme
from ..text import Table
from ..trainer import trained_on_questions
from .exact import asked_tables, compare, measured, normal_crps

AHEAD, FILLED, STRIDE = tuple(range(1, 9)), -2, 2
LEADS = (FILLED, 0, *AHEAD)
VALIDATION = 0.15  # of the trajectories: eight steps ahead, a trajectory is hardly more than one scene to calibrate by
ASKED: dict[str, int | tuple[int, ...]] = {
    "filling": FILLED,
    "lead 0": 0,
    "lead 1": 1,
    "lead 4": 4,
    "lead 8": 8,
    "mean of 8 steps": AHEAD,
}
SPARSE = 4  # of so many rows and columns the model of sets is asked for one: its laws cost by the cell


@dataclass(frozen=True)
class WindowCell(Cell):
    HOME = "gaussian"
    JUDGED = ("members",)
    WORDS = ("scheme", "window")

    scheme: str  # solid, solid-set or exact
    window: int
    minutes: float | None  # CPU time of one thread; None: nothing is trained
    trajectories: int
    scenes: int
    members: int

    @property
    def sheet(self) -> str:
        return "gaussian-window"

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        home = place.work / f"{self.trajectories}-trajectories-seed{self.seed}"
        judge = Judge.of(home, self)
        run = home / "runs" / self.run
        told: dict[str, Any] = {}
        every = SPARSE if self.scheme == SolidSet.name else 1
        if self.minutes is None:
            members = judge.exact_members(self.members, self.seed)
        elif self.scheme == SolidSet.name:
            members = set_members(judge, run, self, progress)
        else:
            trained = train_scheme(self.scheme, judge.store, run, self.minutes, self.seed, progress)
            source = judge.store.batch(judge.chosen).source
            drawn = draw_members(
                trained.model, trained.scaling, source, self.members, steps=len(LEADS), leads=LEADS, seed=self.seed
            )
            members = {name: _asked(drawn[:, :, :, 0], lead) for name, lead in ASKED.items()}
            told = {"stretch": dict(zip(map(str, LEADS), trained.model.stretch[0].tolist(), strict=True))}
        return {"asked": {name: judge.compare(name, members[name], every) for name in ASKED}} | told


def _asked(members: np.ndarray, lead: int | tuple[int, ...]) -> np.ndarray:  # (K, N, leads, ...) -> (K, N, ...)
    return members[:, :, [LEADS.index(one) for one in np.atleast_1d(lead)]].mean(2)


@dataclass(frozen=True)
class Judge:
    """Scenes of the test trajectories that have a whole window before them and eight steps after."""

    store: PairStore
    world: GaussianWorld
    window: int
    chosen: np.ndarray  # (N,) examples of lead 1
    readings: np.ndarray  # (N, window, H, W), newest first; NaN = not read
    truth: np.ndarray  # (N, F, H, W) of their trajectories

    @classmethod
    def of(cls, home: Path, cell: WindowCell) -> Judge:
        """Simulated and measured once, whoever comes first."""
        world = GaussianWorld(seed=cell.seed)
        options: dict[str, Any] = {"leads": LEADS, "validation": VALIDATION, "test": cell.scenes / cell.trajectories}
        name = f"pairs-window{cell.window}-{cell.scenes}.zarr"
        truth, store = measured(world, home, cell.trajectories, name, window=cell.window, **options)
        test, columns = store.split("test"), store.columns
        first, last = STRIDE * (cell.window - 1), len(truth.times) - 1 - STRIDE * AHEAD[-1]
        frame = columns["frame_source"][test]
        chosen = evenly(test[(columns["lead"][test] == 1) & (frame >= first) & (frame <= last)], cell.scenes)
        frames = store.batch(chosen).source.frames
        readings = np.where(frames.mask[:, :, 0], frames.values[:, :, 0], np.nan)
        return cls(
            store, world, cell.window, chosen, readings, truth.read(list(columns["trajectory"][chosen]))[:, :, 0]
        )

    @property
    def frame(self) -> np.ndarray:  # (N,) of the sources
        return self.store.columns["frame_source"][self.chosen]

    def posterior(self, scene: int, lead: int | tuple[int, ...]) -> Posterior:
        """Leads and the window in frames of the world, of which a step has two."""
        ages, leads = (
            [-STRIDE * back for back in range(self.window)],
            [STRIDE * int(one) for one in np.atleast_1d(lead)],
        )
        return self.world.posterior(self.readings[scene], leads, frames=ages)

    def exact_members(self, count: int, seed: int) -> dict[str, np.ndarray]:  # each (K, N, H, W)
        draws = numpy_generator(seed, "exact members")
        return {
            name: np.stack([self.posterior(n, lead).sample(count, draws) for n in range(len(self.chosen))], axis=1)
            for name, lead in ASKED.items()
        }

    def compare(self, name: str, members: np.ndarray, every: int = 1) -> dict[str, Any]:  # (K, N, H, W) of every row
        """Ratios of CRPS and spread to the exact posterior's, and coverage, at cells that were not read then."""
        some = (slice(None), slice(None, None, every), slice(None, None, every))
        leads = np.atleast_1d(ASKED[name])
        rows = np.arange(len(self.chosen))
        truth = np.mean([self.truth[rows, self.frame + STRIDE * lead] for lead in leads], axis=0)
        back = -int(leads[0])
        free = np.isnan(self.readings[:, back]) if 0 <= back < self.window else np.ones(truth.shape, bool)
        exact = [self.posterior(n, ASKED[name]) for n in range(len(rows))]
        mean, std = (np.stack([getattr(p, part) for p in exact])[some] for part in ("mean", "std"))
        truth, free = truth[some], free[some]
        best = normal_crps(truth - mean, np.where(free, std, 1.0))
        return compare(members, truth, free, best, std)


def record_of_sources(store: PairStore) -> tuple[Record, dict[tuple[int, int], int]]:
    """The sources of a store as a record, a trajectory a stretch; and the frame of each (trajectory, frame)."""
    columns = store.columns
    even = np.flatnonzero(columns["frame_source"] % STRIDE == 0)
    keys, first = np.unique(
        np.stack([columns["trajectory"][even], columns["frame_source"][even]]), axis=1, return_index=True
    )
    pair = store.batch(even[first])
    frames = np.where(pair.source.mask, pair.source.values, np.nan)
    split = columns["split"][even[first]]  # the names of pairs' splits begin with those of records
    record = Record.of_frames(frames, store.grid, store.variables, split.clip(max=len(SPLITS) - 1), keys[0])
    return record, {(int(r), int(f)): place for place, (r, f) in enumerate(keys.T)}


def set_members(judge: Judge, run: Path, cell: WindowCell, progress: Progress | None) -> dict[str, np.ndarray]:
    """Train the model of sets and answer the scenes with the readings of their windows alone."""
    record, place = record_of_sources(judge.store)
    plan = Plan(cell.window, -FILLED, AHEAD, fill=0.25, now=0.25, ahead=0.5, unread=0.0, outage=0.0, sparse=0.5)
    assert cell.minutes is not None
    model, task, _ = trained_on_questions(record, plan, run, cell.minutes, cell.seed, progress, ("none",))
    scaling = task.scaling
    cells = np.arange(record.grid.cells).reshape(record.grid.shape)[::SPARSE, ::SPARSE]
    lead = np.repeat(LEADS, cells.size)
    drawn = np.empty((cell.members, len(judge.chosen), len(LEADS), *cells.shape), np.float32)
    trajectory = judge.store.columns["trajectory"][judge.chosen]
    for n, begins in enumerate(zip(trajectory.tolist(), judge.frame.tolist(), strict=True)):
        scene = Scene(place[begins] + lead, np.tile(cells.ravel(), len(LEADS)), -lead - cell.window + 1, -lead)
        values = answer(model, task.record, scene, cell.members, cell.seed, n)
        drawn[:, n] = values.reshape(drawn[:, n].shape) * scaling.std[0] + scaling.mean[0]
    return {name: _asked(drawn, lead) for name, lead in ASKED.items()}


def tables(results: Sequence[Result]) -> list[Table]:
    return asked_tables(f"window of {results[0]['cell']['window']}", ASKED, results)
