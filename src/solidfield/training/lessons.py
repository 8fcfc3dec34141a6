"""The task of questions: training draws them anew at every step, validation asks the same ones each time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..config import TrainConfig
from ..errors import SolidError
from ..keys import torch_generator
from ..models.set_calibration import calibrate, depart
from ..models.solid_set import SolidSet
from ..pairs.scaling import Scaling
from ..questions.asking import Lesson
from ..questions.drawing import Plan, draw
from ..questions.record import Record
from ..theory.spacetime import STEPS
from .record import CELLS, READINGS
from .task import Task

PRIOR_BATCH = 192  # questions of a step of the prior's fit
FEWEST_STEPS = 6  # of its fit
CALIBRATION = 8000  # held-out questions that stretch the laws: about a thousand of each kind
FEWEST_QUESTIONS = 2000  # of them, after however short a training
AT_ONCE = 500  # of them in memory
TARGETS = 32  # questions that count as one example of validation: an example of pairs has about so many targets


@dataclass(frozen=True)
class QuestionTask(Task):
    """Questions of a record, for models that answer them."""

    record: Record  # values standardised
    scaling: Scaling
    plan: Plan
    config: TrainConfig
    about: dict[str, Any]  # what a run must remember besides: epoch, clock, recipe, hold-out
    judged_by: Mapping[str, Tensor] | None = None  # what the run keeps to be judged by

    @property
    def held_out(self) -> int:  # type: ignore[override]
        return TARGETS * self.config.validation_examples if len(self.record.of_split("validation")) else 0

    def check(self, model: SolidSet) -> None:
        made, found = (model.prior.channels, *model.grid.shape), (len(self.record.variables), *self.record.grid.shape)
        if made != found:
            raise SolidError(f"the model is made for (variables, y, x) = {made} and the record has {found}")
        if not len(self.record.of_split("train")):
            raise SolidError("no frame of the record trains; hold fewer days out")

    def batch(self, step: int, rank: int, processes: int, model: SolidSet) -> Lesson:
        return self._draw("train", self.config.batch // processes, ("questions", step, rank))

    def _draw(self, split: str, count: int, key: tuple[int | str, ...]) -> Lesson:
        generator = torch_generator(self.config.seed, *key)
        return draw(self.record, self.record.of_split(split), count, self.plan, split, generator)

    @property
    def thoroughness(self) -> float:
        """How much of the prior's fit and of the calibration suits a training so short, between 0 and 1."""
        given = self.config.steps if self.config.minutes is None else 60 * self.config.minutes
        return min(1.0, given / STEPS)

    @property
    def questions(self) -> int:
        """Of calibration, of all kinds together."""
        return round(max(FEWEST_QUESTIONS, self.thoroughness * CALIBRATION))

    def prepare(self, model: SolidSet, device: torch.device | str = "cpu", brief: float = 1.0) -> None:
        """`brief`: the share of the prior's fit that is enough."""
        scaling, count = self.scaling, len(self.record.variables)
        transforms = scaling.transforms or ("none",) * count
        model.in_units(transforms, scaling.mean, scaling.std, scaling.physical_std)
        train = self.record.of_split("train")
        values, channel = self.record.values[train], self.record.cells[train] // self.record.grid.cells
        everywhere = replace(self.record, aside=None)  # a covariance learns no place by heart

        def lesson(step: int) -> Lesson:
            generator = torch_generator(self.config.seed, "prior", step)
            return draw(everywhere, train, PRIOR_BATCH, self.plan, "train", generator)

        usual, frames = self.record.usual, self.record.frames[train]
        model.usual.copy_(usual.at(torch.arange(len(model.usual))))
        model.lasting.copy_(self.record.step * torch.tensor(usual.lasting))
        model.taught.copy_(self.record.start + self.record.step * torch.tensor([frames.min(), frames.max()]).double())
        model.bounded_by([torch.from_numpy(values[channel == c]) for c in range(count)])
        model.prepare(
            lesson,
            self.spacing(),
            len(self.record.places),
            round(max(FEWEST_STEPS, brief * self.thoroughness * STEPS)),
        )

    def spacing(self) -> tuple[float, float]:
        """Rows and columns between a cell that was ever read and the nearest other: the scale of what is learned."""
        cells = np.unique(self.record.cells % self.record.grid.cells)
        places = np.stack([cells // self.record.grid.shape[1], cells % self.record.grid.shape[1]], 1)[:2000]
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        np.fill_diagonal(apart, np.inf)
        typical = float(np.median(apart.min(1))) if len(places) > 1 else 1.0
        return typical, typical

    def lessons(self, count: int, word: str) -> Iterator[Lesson]:
        """Held-out questions, or training ones where nothing is held out."""
        for number, start in enumerate(range(0, count, AT_ONCE)):
            yield self._draw(self._judges, min(AT_ONCE, count - start), (word, number))

    @property
    def _judges(self) -> str:
        return "validation" if self.held_out else "train"

    def calibration(self, model: SolidSet) -> Iterator[Lesson]:
        """Held-out questions of every kind; unread places are those that training never took for unread."""
        readings = self.record.of_split(self._judges)
        for word, plan in self._plans().items():
            for lesson in self._drawn(readings, plan, 1 / 2 if word == "around" else 1 / 4, word):
                known = model.placed(lesson.questions, lesson.usual)
                yield lesson if self.record.aside is None else lesson.where(known)
        yield from self.aside()

    def _plans(self) -> dict[str, Plan]:
        """Questions as people ask them, which training does not: no sensor is away but those that are.

        Gaps around the time that is asked for; forecasts from all that was read before; places silent in the window.
        """
        plan = replace(self.plan, sparse=0.0, sparse_unread=0.0, silent=0.0, stale=0.0)
        here, ahead = plan.fill + plan.now > 0, plan.ahead > 0 and bool(plan.leads)
        found = {}
        if here:
            found["around"] = replace(plan, ahead=0.0)
            found["silent"] = replace(plan, ahead=0.0, unread=0.0, silent=1.0)
        if ahead:
            found["ahead"] = replace(plan, fill=0.0, now=0.0, outage=0.0, as_was=0.0, longest=1)
        return found

    def aside(self) -> Iterator[Lesson]:
        """Held-out questions about places that are set aside, as if they were unread."""
        readings = self.record.of_split(self._judges)
        return self._unread(readings[self.record.place_aside[self.record.place[readings]]], "unread")

    def everywhere(self) -> Iterator[Lesson]:
        """Held-out questions about all places as if they were unread, where some of them are set aside."""
        return self._unread(
            self.record.of_split(self._judges) if self.record.aside is not None else np.zeros(0, int), "everywhere"
        )

    def _unread(self, readings: np.ndarray, word: str) -> Iterator[Lesson]:
        plan = replace(self.plan, unread=1.0, sparse_unread=0.0, stale=0.0)  # the network as it is
        if plan.leads and plan.ahead:
            plan = replace(plan, fill=0.3, now=0.2, ahead=0.5)  # the kinds ahead are many
        return self._drawn(readings, plan, 1 / 4, word)

    def _drawn(self, readings: np.ndarray, plan: Plan, share: float, word: str) -> Iterator[Lesson]:
        """A share of the questions of calibration, about some of the held-out readings."""
        count = round(share * self.questions) if len(readings) else 0
        for number, start in enumerate(range(0, count, AT_ONCE)):
            generator = torch_generator(self.config.seed, word, number)
            yield draw(self.record, readings, min(AT_ONCE, count - start), plan, self._judges, generator)

    def total_crps(self, model: SolidSet, rank: int, processes: int, device: torch.device | str) -> float:
        lessons = list(self.lessons(self.held_out, "validation"))[rank::processes]
        return sum(float(model.crps(lesson.to(device)).double().sum()) for lesson in lessons)

    def conclude(self, model: SolidSet, device: torch.device | str) -> None:
        model.look = None
        depart(model, (lesson.to(device) for lesson in self.aside()))
        held_out, everywhere = self.calibration(model), self.everywhere()
        calibrate(model, (lesson.to(device) for lesson in held_out), (lesson.to(device) for lesson in everywhere))

    def describe(self, model: SolidSet) -> dict[str, Any]:
        record = self.record
        content = hashlib.sha256()
        for array in (record.offsets, record.cells, record.values, record.own_errors, record.split, record.stretch):
            content.update(np.ascontiguousarray(array).data)
        return {
            "fingerprint": content.hexdigest(),
            "grid": record.grid.as_dict(),
            "variables": list(record.variables),
            "units": list(record.units),
            "start": record.start,
            "step": record.step,
            "plan": asdict(self.plan),
            "leads": [0, *self.plan.leads],
            "calendar": 0 if record.calendar is None else record.calendar.shape[1],
            **self.about,
        }

    def files(self) -> dict[str, dict[str, Tensor]]:
        record = self.record
        taught = np.zeros(len(record.variables) * record.grid.cells, bool)
        taught[record.cells[record.of_split("train")]] = True
        never = ~taught.reshape(len(record.variables), *record.grid.shape)
        cells = {"never_supervised": torch.from_numpy(never)}
        if record.grid.domain is not None:
            cells["domain"] = torch.as_tensor(record.grid.domain, dtype=torch.bool)
        if record.static is not None:
            cells["static"] = torch.from_numpy(record.static)
        return {CELLS: cells} | ({} if self.judged_by is None else {READINGS: dict(self.judged_by)})
