"""The questions that training asks: every kind that will be asked, as if gaps and unread places were normal.

A target is any reading of a training frame. What its question may know is drawn:

    side     filling (both sides), now-cast, or a forecast by one of the leads, as the plan says
    hidden   with `unread` the whole record of the target's own cell; else with `outage` every cell for a while around
             the target; else a gap of the cell's own record around it. Lengths are log-uniform, from one frame to
             `longest`: as many hours as days.
    thin     with `sparse`, a share of all other cells: other networks than this one

Everything is a function of the generator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .asking import Hiding, Lesson, ask
from .record import Record


@dataclass(frozen=True)
class Plan:
    """Which questions are asked, and how often."""

    before: int = 18  # frames that may be known before the target
    after: int = 18  # ... and after it, when filling
    leads: tuple[int, ...] = ()  # of forecasts; the window of a forecast is as long as `before`
    fill: float = 1.0  # shares of the questions: filling,
    now: float = 0.0  # now-casts,
    ahead: float = 0.0  # forecasts
    unread: float = 0.25  # of all: as if no sensor stood there
    outage: float = 0.15  # of the others: nobody was read around the target
    longest: int = 48  # frames of a gap
    sparse: float = 0.1  # of all: a random share of the other cells is away

    @property
    def reach(self) -> int:
        """The largest number of frames between a target and a known reading, or two known readings."""
        return max(self.before + max(self.after, 0), self.before + max(self.leads, default=0))


def draw(
    record: Record,
    readings: np.ndarray,  # (n,) positions of possible targets
    count: int,
    plan: Plan,
    split: str,
    generator: torch.Generator,
) -> Lesson:
    """Questions drawn at random."""
    chosen = readings[torch.randint(len(readings), (count,), generator=generator).numpy()]
    first, last = _sides(count, plan, generator)
    frame, cell = record.frames[chosen], record.cells[chosen]
    questions = ask(record, frame, cell, first, last, _hiding(count, plan, generator), split, generator)
    return Lesson(questions, torch.from_numpy(record.values[chosen]))


def _sides(count: int, plan: Plan, generator: torch.Generator) -> tuple[np.ndarray, np.ndarray]:  # first, last
    shares = torch.tensor([plan.fill, plan.now, plan.ahead if plan.leads else 0.0])
    kind = torch.multinomial(shares, count, replacement=True, generator=generator)
    leads = torch.tensor(plan.leads or (1,))
    lead = leads[torch.randint(len(leads), (count,), generator=generator)]
    last = torch.where(kind == 0, plan.after, torch.where(kind == 1, 0, -lead))
    first = torch.where(kind == 2, -lead - plan.before + 1, -plan.before)
    return first.numpy(), last.numpy()


def _hiding(count: int, plan: Plan, generator: torch.Generator) -> Hiding:
    def rand() -> Tensor:
        return torch.rand(count, generator=generator)

    length, place = (rand() * math.log(plan.longest)).exp(), rand()
    around = torch.stack([-(length * place).floor(), (length * (1 - place)).floor()], 1).long()
    ever = torch.tensor([-(2**30), 2**30])
    never = torch.tensor([1, 0])
    unread, out, thin = rand() < plan.unread, rand() < plan.outage, rand() < plan.sparse
    short = around.clamp(-plan.before // 2, max(plan.after // 2, 0))  # something must be left
    return Hiding(
        torch.where(unread[:, None], ever, around),
        torch.where((out & ~unread)[:, None], short, never),
        torch.where(thin, rand(), torch.zeros(count)),
    )
