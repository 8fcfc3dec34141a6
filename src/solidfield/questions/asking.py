"""Questions: a target, the frames that may be known, and what is hidden of them. The one place of strictness.

A question asks for the value at a cell and a frame t. It may know the readings of frames t + first .. t + last:

    forecast by L steps      last = -L
    now-cast                 last = 0
    filling                  last > 0

of the same stretch, in frames of its own split or of splits that it may look on (training knows training frames
alone), and not those that are hidden. The target itself is never known: neither its reading, nor, where a gap, an
outage or an unread place is asked for, what would not be there either (`Hiding`). What a question may not know does
not enter its arrays at all, so nothing computed from them can depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .record import Record
from .usual import LeftOut

# What the questions of a split may know: training frames train alone, validation also looks on training frames.
MAY_KNOW = {"train": (0,), "validation": (0, 1), "test": (0, 1, 2)}


@dataclass(frozen=True)
class Hiding:
    """What is hidden of the known frames, one row a question; frames relative to the target's, both ends hidden."""

    own: Tensor  # (B, 2) the target's own cell, from .. to
    all: Tensor  # (B, 2) every cell, from .. to
    thin: Tensor  # (B,) share of the remaining cells that is hidden in the whole window
    as_at: Tensor | None = None  # (B,) a frame: what stations missed around it is hidden around the target; -1: nothing
    alone: Tensor | None = None  # (B,) bool: of the own cell, only the variable that is asked for; None: never
    new: Tensor | None = None  # (B,) bool: as if no sensor had ever stood there; None: never
    near: Tensor | None = None  # (B,) all places nearer than so far, in the unit of `lengths`; None: none

    @classmethod
    def nothing(cls, count: int) -> Hiding:
        """Only the target itself is hidden."""
        never = torch.tensor([1, 0]).expand(count, 2)
        return cls(never, never, torch.zeros(count))

    @classmethod
    def unread(cls, count: int) -> Hiding:
        """As if no sensor stood at the target's cell."""
        ever = torch.tensor([-(2**30), 2**30]).expand(count, 2)
        return cls(ever, torch.tensor([1, 0]).expand(count, 2), torch.zeros(count), new=torch.ones(count).bool())


@dataclass(frozen=True)
class Questions:
    """A batch of B questions with at most R known readings each. Frames are relative to each target's own."""

    values: Tensor  # (B, R) standardised; 0 where not known
    errors: Tensor  # (B, R) standardised standard deviations of the readings' errors
    frame: Tensor  # (B, R) int64
    cell: Tensor  # (B, R) int64, y * W + x
    channel: Tensor  # (B, R) int64
    known: Tensor  # (B, R) bool
    asked_cell: Tensor  # (B,) int64, y * W + x
    asked_channel: Tensor  # (B,) int64
    asked_new: Tensor  # (B,) bool: as if no sensor had ever stood there, whatever is usual at the place
    asked_time: Tensor  # (B,) float64, as the record counts it
    calendar: Tensor  # (B, D) of the time that is asked for

    def __len__(self) -> int:
        return len(self.asked_cell)

    @property
    def own(self) -> Tensor:  # (B, R) bool
        """Readings of the variable and the cell that are asked for."""
        return (self.cell == self.asked_cell[:, None]) & (self.channel == self.asked_channel[:, None])

    def where(self, rows: Tensor) -> Questions:  # (B,) bool, or positions
        """Some of the questions; what all know alike (`ask_together`) stays one row of memory."""
        count = int(rows.sum()) if rows.dtype == torch.bool else len(rows)
        return Questions(
            **{
                name: tensor[:1].expand(count, -1) if _one_row(tensor) else tensor[rows]
                for name, tensor in vars(self).items()
            }
        )

    def __getitem__(self, rows: slice) -> Questions:
        return Questions(**{name: tensor[rows] for name, tensor in vars(self).items()})

    def to(self, device: torch.device | str) -> Questions:
        return Questions(**{name: tensor.to(device) for name, tensor in vars(self).items()})


@dataclass(frozen=True)
class Lesson:
    """Questions and what was read where they ask: what training and calibration learn from."""

    questions: Questions
    values: Tensor  # (B,) standardised
    errors: Tensor  # (B,) standardised standard deviations of their errors: a law is of the field, a reading has more
    aside: Tensor  # (B,) bool: about places that are set aside
    frame: Tensor  # (B,) int64: when
    usual: LeftOut | None = None  # what is usual, the time around each question left out; None: as training had it

    def __len__(self) -> int:
        return len(self.values)

    def to(self, device: torch.device | str) -> Lesson:
        usual = None if self.usual is None else self.usual.to(device)
        values, errors, aside, frame = (part.to(device) for part in (self.values, self.errors, self.aside, self.frame))
        return Lesson(self.questions.to(device), values, errors, aside, frame, usual)

    def where(self, rows: Tensor) -> Lesson:  # (B,) bool
        usual = None if self.usual is None else self.usual.where(rows)
        values, errors, aside, frame = (part[rows] for part in (self.values, self.errors, self.aside, self.frame))
        return Lesson(self.questions.where(rows), values, errors, aside, frame, usual)


def _one_row(tensor: Tensor) -> bool:
    return tensor.ndim == 2 and len(tensor) > 1 and tensor.stride(0) == 0


def ask_together(
    record: Record,  # values standardised
    frame: int,
    cell: np.ndarray,  # (B,) flat in (C, H, W), of one variable, none of which was read at the frame
    first: int,
    last: int,
) -> Questions:
    """Questions about places beside one another, which all know the same: one row of memory for all."""
    near = record.around_all(cell)
    near = None if near is None else near[None]
    window = np.array([first]), np.array([last])
    one = ask(record, np.array([frame]), cell[:1], *window, Hiding.nothing(1), "test", torch.Generator(), near)
    told = {name: tensor.expand(len(cell), -1) for name, tensor in vars(one).items() if not name.startswith("asked")}
    per = record.grid.cells
    return Questions(
        **told,
        asked_cell=torch.from_numpy(cell % per),
        asked_channel=torch.from_numpy(cell // per),
        asked_new=torch.zeros(len(cell)).bool(),
        asked_time=one.asked_time.expand(len(cell)),
    )


def ask(
    record: Record,  # values standardised
    frame: np.ndarray,  # (B,) of the targets
    cell: np.ndarray,  # (B,) flat in (C, H, W)
    first: np.ndarray,  # (B,)
    last: np.ndarray,  # (B,)
    hiding: Hiding,
    split: str,
    generator: torch.Generator,
    near: np.ndarray | None = None,  # (B, Q) places of a large network whose readings each may know; None: the nearest
) -> Questions:
    """The readings that each question may know, those that it may not left out."""
    stretch = record.stretch[frame]
    begin, end = np.clip(frame + first, 0, len(record)), np.clip(frame + last + 1, 0, len(record))
    position, known = _readings_within(record, cell, begin, np.maximum(begin, end), near)
    frames = record.frames
    when = frames[position]  # (B, R)
    allowed = np.isin(record.split, MAY_KNOW[split])
    known &= (record.stretch[when] == stretch[:, None]) & allowed[when]
    cells, per = record.cells[position], record.grid.cells
    lag = torch.from_numpy(when - frame[:, None])
    same, own = torch.from_numpy(cells % per == (cell % per)[:, None]), torch.from_numpy(cells == cell[:, None])
    seen = torch.from_numpy(known)
    seen &= ~(own & (lag == 0))
    there = same if hiding.alone is None else torch.where(hiding.alone[:, None], own, same)
    seen &= ~(there & (lag >= hiding.own[:, :1]) & (lag <= hiding.own[:, 1:]))
    seen &= ~((lag >= hiding.all[:, :1]) & (lag <= hiding.all[:, 1:]))
    if bool((hiding.thin > 0).any()):
        draw = torch.rand(len(frame), len(record.places), generator=generator)
        away = draw.gather(1, torch.from_numpy(record.place[position])) < hiding.thin[:, None]
        seen &= ~(away & ~same)
    if hiding.near is not None and bool((hiding.near > 0).any()):
        seen &= ~torch.from_numpy(record.beside(cell, record.place[position], hiding.near.numpy()))
    if hiding.as_at is not None and bool((hiding.as_at >= 0).any()):
        rows = np.flatnonzero(hiding.as_at.numpy() >= 0)
        then = hiding.as_at.numpy()[rows, None] + (when - frame[:, None])[rows]
        inside = (then >= 0) & (then < len(record))
        gap = record.gaps[np.where(inside, then, 0), record.place[position[rows]]] & inside
        seen[torch.from_numpy(rows)] &= ~torch.from_numpy(gap)
    # What is not known leaves the arrays: rows are packed to the longest, zeros elsewhere.
    width = max(1, int(seen.sum(1).max()))
    order = (~seen).to(torch.int8).argsort(dim=1, stable=True)[:, :width]
    seen = seen.gather(1, order)

    def packed(values: np.ndarray, fill: float = 0) -> Tensor:  # (B, R)
        column = torch.from_numpy(values).gather(1, order)
        return torch.where(seen, column, torch.full((), fill, dtype=column.dtype))

    errors = record.own_errors
    depth = 0 if record.calendar is None else record.calendar.shape[1]
    calendar = np.zeros((len(record), 0), np.float32) if record.calendar is None else record.calendar
    return Questions(
        packed(record.values[position]),
        packed(errors[position]),
        packed((when - frame[:, None]).astype(np.int64)),
        packed(cells % per),
        packed(cells // per),
        seen,
        torch.from_numpy(cell % per),
        torch.from_numpy(cell // per),
        torch.zeros(len(frame)).bool() if hiding.new is None else hiding.new,
        torch.from_numpy(record.start + record.step * frame.astype(np.float64)),
        torch.from_numpy(calendar[frame]).reshape(len(frame), depth),
    )


def _readings_within(
    record: Record,
    cell: np.ndarray,  # (B,)
    begin: np.ndarray,  # (B,) frames, the end left out
    end: np.ndarray,  # (B,)
    near: np.ndarray | None,  # (B, Q) places
) -> tuple[np.ndarray, np.ndarray]:  # (B, R) positions of readings, and which of them there are
    """All readings of a window; of a large network those of the places around the target."""
    near = record.around(cell) if near is None else near
    if near is None:
        start, stop = record.offsets[begin], record.offsets[end]
        position = start[:, None] + np.arange(max(1, int((stop - start).max(initial=0))))
        return np.minimum(position, max(len(record.cells) - 1, 0)), position < stop[:, None]
    order, key = record.by_place
    start, stop = (np.searchsorted(key, near * len(record) + when[:, None]) for when in (begin, end))  # (B, Q)
    count = stop - start
    total = count.sum(1)
    rows = np.repeat(np.arange(len(cell)), total)
    within = np.arange(total.sum()) - np.repeat(np.cumsum(count.ravel()) - count.ravel(), count.ravel())
    column = np.arange(total.sum()) - np.repeat(np.cumsum(total) - total, total)
    position = np.zeros((len(cell), max(1, int(total.max(initial=0)))), np.int64)
    known = np.zeros(position.shape, bool)
    position[rows, column] = order[np.repeat(start.ravel(), count.ravel()) + within]
    known[rows, column] = True
    return position, known
