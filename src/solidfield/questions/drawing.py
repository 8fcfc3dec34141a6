"""The questions that training asks: every kind that will be asked, as if gaps and unread places were normal.

A target is any reading of a training frame. What its question may know is drawn:

    side     filling (both sides), now-cast, or a forecast by one of the leads, as the plan says
    hidden   with `unread` the whole record of the target's own cell, and what is usual there (where sensors move, also
             all that was read within a part of the way between them); else with `silent` all of it in the window; else
             with `outage` every cell for a while around the target; else a gap of the cell's own record around it.
             Lengths are log-uniform, from one frame to `longest`: as many hours as days. With `as_was`, what the
             record itself missed around another gap of the station instead. Places that are set aside are never asked
             about as if they were unread, and one network is asked nothing about them at all: how wide to be at unread
             places is learned there
    thin     with `sparse`, a share of all other cells: other networks than this one
    usual    with `stale`, what is usual at places is told from farther away in time: nothing of as many blocks on
             either side of the target as chance has it, log-uniform up to the length of the record
    alone    of several variables, with one chance in two the cell's others stay: they may be measured there as well

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
from .usual import LeftOut


@dataclass(frozen=True)
class Plan:
    """Which questions are asked, and how often."""

    before: int = 18  # frames that may be known before the target
    after: int = 18  # ... and after it, when filling
    leads: tuple[int, ...] = ()  # of forecasts; the window of a forecast is as long as `before`
    fill: float = 1.0  # shares of the questions: filling,
    now: float = 0.0  # now-casts,
    ahead: float = 0.0  # forecasts
    unread: float = 0.35  # of all: as if no sensor stood there
    outage: float = 0.15  # of the others: nobody was read around the target
    longest: int = 48  # frames of a gap
    sparse: float = 0.1  # of all: a random share of the other cells is away,
    sparse_unread: float = 1.0  # ... and of those about unread places
    silent: float = 0.1  # of the others: the place is known, but nothing of it in the window
    as_was: float = 0.3  # of the others at stations: gaps as the record itself had them at another time
    stale: float = 0.25  # of all: what is usual is known from farther away in time alone

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
    hiding = _hiding(record, record.place[chosen], plan, split, generator)
    questions = ask(record, frame, cell, first, last, hiding, split, generator)
    values, errors = (torch.from_numpy(part[chosen]) for part in (record.values, record.own_errors))
    aside = torch.from_numpy(record.place_aside[record.place[chosen]])
    when = torch.from_numpy(frame)
    if split == "test":
        return Lesson(questions, values, errors, aside, when)
    chance, far = torch.rand(2, count, generator=generator)
    reach = torch.where(chance < plan.stale, (far * math.log(record.usual.blocks)).exp().long(), 1)
    return Lesson(questions, values, errors, aside, when, LeftOut(record.usual, when, reach))


def _sides(count: int, plan: Plan, generator: torch.Generator) -> tuple[np.ndarray, np.ndarray]:  # first, last
    shares = torch.tensor([plan.fill, plan.now, plan.ahead if plan.leads else 0.0])
    kind = torch.multinomial(shares, count, replacement=True, generator=generator)
    leads = torch.tensor(plan.leads or (1,))
    lead = leads[torch.randint(len(leads), (count,), generator=generator)]
    last = torch.where(kind == 0, plan.after, torch.where(kind == 1, 0, -lead))
    first = torch.where(kind == 2, -lead - plan.before + 1, -plan.before)
    return first.numpy(), last.numpy()


def _hiding(
    record: Record,
    at: np.ndarray,  # (B,) places of the targets
    plan: Plan,
    split: str,
    generator: torch.Generator,
) -> Hiding:
    count = len(at)

    def rand() -> Tensor:
        return torch.rand(count, generator=generator)

    length, part = (rand() * math.log(plan.longest)).exp(), rand()
    around = torch.stack([-(length * part).floor(), (length * (1 - part)).floor()], 1).long()
    short = around.clamp(-plan.before // 2, max(plan.after // 2, 0))  # something must be left
    ever, never = torch.tensor([-(2**30), 2**30]), torch.tensor([1, 0])
    known = torch.from_numpy(record.place_aside[at] & (split == "train"))  # never asked about as if it were unread
    unread, out, was = (rand() < plan.unread) & ~known, rand() < plan.outage, rand() < plan.as_was
    # An unread place is asked about with other sensors away in training: else the network learns each training place by
    # the pattern of its neighbours, and never practises to be far from all of them.
    thinned = rand() < torch.where(unread, plan.sparse_unread, plan.sparse)
    thin = torch.where(thinned, rand(), torch.zeros(count))
    as_at = _gaps_of(record, at, rand())
    silent = (rand() < plan.silent) & ~unread & ~known
    was = was & ~unread & ~known & ~silent & (as_at >= 0)
    own = torch.where(known[:, None], short, torch.where(was[:, None], 0, around))
    return Hiding(
        torch.where((unread | silent)[:, None], ever, own),
        torch.where((out & ~unread & ~was)[:, None], short, never),
        thin,
        torch.where(was, as_at, -1),
        rand() < 0.5 if len(record.variables) > 1 else None,
        unread,
        None if record.clearance == 0 else torch.where(unread, record.clearance * rand(), 0.0),
    )


def _gaps_of(record: Record, at: np.ndarray, draw: Tensor) -> Tensor:  # (B,), (B,) -> (B,)
    """A frame at which each of these places was not read; -1 where it never missed one, or is no station."""
    frames, first = record.gap_frames
    count = np.diff(first)[at]
    chosen = first[at] + (draw.numpy() * count).astype(np.int64)
    padded = np.append(frames, -1)
    return torch.from_numpy(np.where(count > 0, padded[np.minimum(chosen, len(frames))], -1))
