"""`solid bench gaussian --variables 2`: two variables that hang together, measured at places of their own.

A Gaussian field of two variables in space and time (`theory/spacetime.py` with a known covariance, six frames of
16 x 16), many independent stretches of it. The first variable is read at 5 % of the cells, the second at 15 %, anew in
every frame. A scheme learns from readings alone and answers maps of the middle frame, given the frames around it.
Ratios are to the joint posterior of the same readings in closed form. Beside the model that learns both jointly stand
the model that learns each variable alone, and the exact posterior given the own variable alone: what cannot be had
without the other. Also judged: the sum of both variables, whose law asks for a law across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...engine import Progress
from ...grid import Grid
from ...keys import numpy_generator
from ...prediction.answer import Scene, answer
from ...questions.drawing import Plan
from ...questions.record import Record
from ...scores.calibration import covered, ranks
from ...scores.estimate import bootstrap
from ...scores.metrics import crps_map, select
from ...theory.covariance_table import across
from ...theory.spacetime import SpaceTime
from ..cell import Cell, Place, Result
from ..text import Table
from ..trainer import trained_on_questions
from .exact import asked_tables, normal_crps, ratio

GRID, FRAMES, MIDDLE = Grid((16, 16)), 6, 3
DENSITY = (0.05, 0.15)
VARIABLES = ("first", "second")
SPLIT = {"train": 240, "validation": 40, "test": 24}  # stretches
SCHEMES = ("together", "alone", "exact, alone")


def world() -> SpaceTime:
    """The covariance: two components that drift, of which the variables share 0.8, in either direction."""
    model = SpaceTime(GRID, (1.0, 1.0), components=2, channels=2)
    with torch.no_grad():
        model.reach.copy_(torch.tensor([2.5, 6.0]).log())
        model.duration.copy_(torch.tensor([2.0, 6.0]).log())
        model.drift.copy_(torch.tensor([[0.4, 0.2], [0.0, 0.3]]))
        model.bend.fill_(1.0)
        model.tie.copy_(torch.tensor([[1.0, 0.0], [-0.8, 0.6]]).expand(3, 2, 2))
    return model.requires_grad_(False)


@dataclass(frozen=True)
class Joint:
    """Draws of the world and what is read of them; values are in the order (frame, variable, cell)."""

    seed: int

    @cached_property
    def covariance(self) -> np.ndarray:  # (n, n) of a stretch, float64
        every = torch.cartesian_prod(*(torch.arange(n) for n in (FRAMES, 2, *GRID.shape)))[:, [0, 2, 3, 1]]
        return torch.cat([across(world(), part[:, None], every[None]) for part in every.split(256)]).double().numpy()

    @cached_property
    def nugget(self) -> np.ndarray:  # (n,)
        return np.tile(np.repeat(world().nugget.double().numpy(), GRID.cells), FRAMES)

    @cached_property
    def truth(self) -> np.ndarray:  # (stretches, n) of what a sensor without error would read
        root = np.linalg.cholesky(self.covariance + 1e-6 * np.eye(len(self.nugget)))
        draws = numpy_generator(self.seed, "two variables").normal(size=(sum(SPLIT.values()), len(root)))
        return draws @ root.T

    @cached_property
    def record(self) -> Record:
        generator = numpy_generator(self.seed, "readings of two variables")
        values = self.truth + self.nugget**0.5 * generator.normal(size=self.truth.shape)
        shape = (-1, 2, *GRID.shape)
        share = np.broadcast_to(np.reshape(DENSITY, (1, 2, 1, 1)), values.reshape(shape).shape)
        read = np.where(generator.random(share.shape) < share, values.reshape(shape), np.nan)
        split = np.repeat(np.repeat(np.arange(3), list(SPLIT.values())), FRAMES)
        return Record.of_frames(read, GRID, VARIABLES, split, np.arange(len(read)) // FRAMES)

    @property
    def tests(self) -> range:
        return range(SPLIT["train"] + SPLIT["validation"], sum(SPLIT.values()))

    def posterior(self, stretch: int, variable: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the middle frame given all readings of a stretch, or those of one variable."""
        record = self.record.window(stretch * FRAMES, (stretch + 1) * FRAMES)
        site = record.frames * 2 * GRID.cells + record.cells
        use = np.ones(len(site), bool) if variable is None else record.cells // GRID.cells == variable
        site, values = site[use], record.values[use].astype(np.float64)
        asked = MIDDLE * 2 * GRID.cells + np.arange(2 * GRID.cells)
        k = self.covariance[np.ix_(site, site)] + np.diag(self.nugget[site])
        weight = np.linalg.solve(k, self.covariance[np.ix_(site, asked)])
        left = self.covariance[np.ix_(asked, asked)] - self.covariance[np.ix_(asked, site)] @ weight
        return weight.T @ values, left


@dataclass(frozen=True)
class JointCell(Cell):
    HOME = "gaussian"
    JUDGED = ("members",)

    scheme: str  # of SCHEMES
    minutes: float  # CPU time of one thread, of all trainings together
    members: int
    variables: int = 2

    @property
    def words(self) -> tuple[str, ...]:
        return ("two variables", self.scheme)

    @property
    def sheet(self) -> str:
        return "gaussian-joint"

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        joint = Joint(self.seed)
        if self.scheme == "exact, alone":
            members = np.concatenate([self._exact(joint, c) for c in range(2)], 2)
        elif self.scheme == "alone":
            parts = [self._learned(joint, (c,), place.work, progress) for c in range(2)]
            members = np.concatenate(parts, 2)
        else:
            members = self._learned(joint, (0, 1), place.work, progress)
        return {"asked": compare(joint, members)}

    def _exact(self, joint: Joint, c: int) -> np.ndarray:  # (K, N, cells)
        generator = numpy_generator(self.seed, "exact", c)
        mine = slice(c * GRID.cells, (c + 1) * GRID.cells)
        drawn = []
        for stretch in joint.tests:
            mean, left = joint.posterior(stretch, c)
            root = np.linalg.cholesky(left[mine, mine] + 1e-6 * np.eye(GRID.cells))
            drawn.append(mean[mine] + generator.normal(size=(self.members, GRID.cells)) @ root.T)
        return np.stack(drawn, 1)

    def _learned(self, joint: Joint, variables: tuple[int, ...], work: Path, progress: Progress | None) -> np.ndarray:
        record = only(joint.record, variables)
        plan = Plan(MIDDLE, FRAMES - 1 - MIDDLE, unread=0.0, outage=0.0, sparse=0.3, as_was=0.0, longest=2)
        folder = work / "runs" / f"{self.run}-{'-'.join(map(str, variables))}"
        minutes = self.minutes * len(variables) / 2
        model, task, _ = trained_on_questions(
            record, plan, folder, minutes, self.seed, progress, ("none",) * len(variables)
        )
        asked = np.arange(len(variables) * GRID.cells)
        drawn = []
        for stretch in joint.tests:
            when = np.full(len(asked), stretch * FRAMES + MIDDLE)
            scene = Scene.filling(when, asked, MIDDLE, FRAMES - 1 - MIDDLE)
            drawn.append(answer(model, task.record, scene, self.members, self.seed, stretch))
        channel = torch.from_numpy(asked // GRID.cells)
        return task.scaling.physical_of(torch.from_numpy(np.stack(drawn, 1)), channel).numpy()


def only(record: Record, variables: tuple[int, ...]) -> Record:
    """The record of some of the variables, at all times and places."""
    channel = record.cells // GRID.cells
    kept = record.without(np.flatnonzero(~np.isin(channel, variables)))
    place = np.searchsorted(variables, kept.cells // GRID.cells)
    names = tuple(VARIABLES[c] for c in variables)
    return replace(kept, cells=place * GRID.cells + kept.cells % GRID.cells, variables=names)


def compare(joint: Joint, members: np.ndarray) -> dict[str, Any]:  # (K, N, 2 * cells)
    """Ratios to the joint posterior at cells that were not read then: each variable, and their sum."""
    exact = [joint.posterior(stretch) for stretch in joint.tests]
    nugget = joint.nugget[: 2 * GRID.cells]
    frame = np.array(joint.tests) * FRAMES + MIDDLE
    read = np.zeros((len(frame), 2 * GRID.cells), bool)
    for n, at in enumerate(frame):
        read[n, joint.record.cells[joint.record.frames == at]] = True
    begin = MIDDLE * 2 * GRID.cells
    truth = joint.truth[np.array(joint.tests)][:, begin : begin + 2 * GRID.cells]
    noise = numpy_generator(joint.seed, "errors of what judges").normal(size=truth.shape)
    truth = truth + nugget**0.5 * noise  # what is predicted is a reading: the field and its nugget
    per = GRID.cells
    sums = np.concatenate([np.eye(per), np.eye(per)])  # (2 * cells, cells)
    asked = {"first": np.eye(2 * per)[:, :per], "second": np.eye(2 * per)[:, per:], "sum": sums}
    found = {}
    for name, weights in asked.items():
        mean = np.stack([m @ weights for m, _ in exact])
        std = np.stack([np.sqrt(np.diag(weights.T @ (left + np.diag(nugget)) @ weights)) for _, left in exact])
        here, free = members @ weights, (read @ (weights > 0)) == 0
        value = truth @ weights
        crps = crps_map(here, value.astype(here.dtype))
        inside = covered(*ranks(select(here, value, free)), len(here), 0.9)
        whole = np.full(free.shape, np.nan)
        whole[free] = inside
        best, spread = normal_crps(value - mean, std), here.std(0, ddof=1)
        per_scene = [np.nanmean(np.where(free, part, np.nan), 1) for part in (crps, best, spread, std, whole)]
        found[name] = {
            "crps": ratio(per_scene[0], per_scene[1]),
            "spread": ratio(per_scene[2], per_scene[3]),
            "coverage": bootstrap(per_scene[4])._asdict(),
        }
    return found


def tables(results: Sequence[Result]) -> list[Table]:
    return asked_tables("two variables", ("first", "second", "sum"), results)
