"""Which of the readings that a question knows speak most of its target: those with the largest correlation with it.

Without errors these are the nearest under the covariance; a reading with a large error makes room for a better one.
Where the target's own place was read, other hours of the others tell how they have moved since.

Where it was not, a map is asked for, and cells beside one another must hear nearly the same, or there is an edge
between them. Nearly all readings are on their way out there and lose their say little by little: one that is not among
the first tenth of k has an error of variance

    0.1 (c_0 - c) / (c - c_k),      c_k < c < c_0,

for its covariance c with the target, between those of the last that is heard in full and of the first that is not heard
at all. The network's attention to it is (c - c_k) / (c_0 - c_k) times what it would be.

A question may know thousands of readings, of which some dozens are taken: questions are gone through some at a time,
so that what is computed of all their readings stays small, and what all of them know alike is computed once.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..questions.asking import Questions
from ..theory.covariance_table import Covariance, CovarianceTable, linked
from ..theory.spacetime import Known

NEAREST = 32  # readings of a law
FADING, FADED = 0.9, 0.1  # share that is on the way out around an unread place, and the variance of its error half way
AT_ONCE = 2**18  # readings of questions that are compared together: 2 MB of whole numbers, and a few times that


def offsets(
    questions: Questions, shape: tuple[int, int], wraps: tuple[bool, bool] = (False, False)
) -> Tensor:  # (B, R, 3)
    """From each target to each of its known readings: frames, rows, columns; the short way around where axes wrap."""
    width, moved = shape[1], [questions.frame]
    for at, length, around in zip((lambda c: c // width, lambda c: c % width), shape, wraps, strict=True):
        step = at(questions.cell) - at(questions.asked_cell)[:, None]
        moved.append((step + length // 2) % length - length // 2 if around else step)
    return torch.stack(moved, -1)


@torch.no_grad()
def nearest_readings(
    covariance: Covariance,
    questions: Questions,
    shape: tuple[int, int],
    count: int,
    wraps: tuple[bool, bool] = (False, False),
) -> Known:
    """The readings with the largest correlation with the target: of its own variable, half as many of each other."""
    some = max(1, AT_ONCE // questions.known.shape[1])
    parts = [
        _nearest(covariance, questions[start : start + some], shape, count, wraps)
        for start in range(0, max(len(questions), 1), some)
    ]
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    width = max(part.valid.shape[1] for part in parts)
    for name, first in vars(parts[0]).items():
        columns[name] = None if first is None else torch.cat([_as_wide(getattr(part, name), width) for part in parts])
    return Known(**columns)


def _as_wide(tensor: Tensor, width: int) -> Tensor:  # (B, k, ...) -> (B, width, ...); (B,) as it is
    return tensor if tensor.ndim == 1 else F.pad(tensor, (*(0, 0) * (tensor.ndim - 2), 0, width - tensor.shape[1]))


def _nearest(
    covariance: Covariance,
    questions: Questions,
    shape: tuple[int, int],
    count: int,
    wraps: tuple[bool, bool],
) -> Known:
    target, asked, channels = questions.asked_cell // shape[1], questions.asked_channel, covariance.channels
    several = channels > 1
    own = linked(asked, asked, channels)[:, None].expand_as(questions.channel) if several else None
    score = (
        _covariances(covariance, questions, shape, wraps, own) * (1 + questions.errors.square()).rsqrt()
    )  # a standard field has variance one
    order = (questions.channel - asked[:, None]) % channels if several else None  # 0: the target's own
    rows, valid, errors = [], [], []
    for other in range(channels):
        most = min(count if other == 0 else count // 2, score.shape[1])
        there = questions.known if order is None else questions.known & (order == other)
        usable = torch.where(there, score, -torch.inf)
        row, found, fading = _best(usable, questions, most)
        rows.append(row)
        valid.append(found)
        errors.append(fading)
    row, there = torch.cat(rows, 1), torch.cat(valid, 1)

    def taken(values: Tensor) -> Tensor:  # (B, R) -> (B, k)
        return torch.where(there, values.gather(1, row), 0)

    near = Questions(
        values=taken(questions.values),
        errors=taken(questions.errors),
        frame=taken(questions.frame),
        cell=taken(questions.cell),
        channel=questions.channel.gather(1, row),
        known=there,
        asked_cell=questions.asked_cell,
        asked_channel=asked,
        asked_new=questions.asked_new,
        asked_time=questions.asked_time,
        calendar=questions.calendar,
    )
    return Known(
        near.values,
        near.errors.square() + torch.cat(errors, 1),
        torch.where(there[..., None], offsets(near, shape, wraps), 0),
        there,
        near.channel if several else None,
        asked if several else None,
        target,
        FADED / (FADED + torch.cat(errors, 1)),
    )


def _best(
    score: Tensor,  # (B, R), -inf: not to be taken
    questions: Questions,
    most: int,
) -> tuple[Tensor, Tensor, Tensor]:  # (B, k): which, whether there is one, and a variance by which it is heard less
    """Those of the highest score; around unread places most of them fade out."""
    there = score > -torch.inf
    unread = ~(there & (questions.cell == questions.asked_cell[:, None])).any(1, keepdim=True)
    best = score.topk(min(score.shape[1], most + 1), dim=1)
    first, row = best.values[:, :most], best.indices[:, :most]
    found, error = first > -torch.inf, torch.zeros_like(first)
    if best.values.shape[1] > most:
        full, none = best.values[:, [round((1 - FADING) * most), most]].split(1, 1)
        fading = FADED * (full - first).clamp_min(0) / (first - none).clamp_min(1e-6)
        error = torch.where(unread & found & (none > -torch.inf), fading, error)
    last = max([1, *found.sum(1).tolist()])
    return row[:, :last], found[:, :last], error[:, :last]


def _covariances(
    covariance: Covariance, questions: Questions, shape: tuple[int, int], wraps: tuple[bool, bool], own: Tensor | None
) -> Tensor:  # (B, R)
    """C of every target with all its readings; from a table with one number a place, made once for what all know."""
    width, target = shape[1], questions.asked_cell
    if isinstance(covariance, CovarianceTable) and not any(wraps):
        frame, cell = (part[:1] if part.stride(0) == 0 else part for part in (questions.frame, questions.cell))
        there = torch.stack([frame, cell // width, cell % width], -1)  # (B or 1, R, 3)
        here = torch.stack([torch.zeros_like(target), target // width, target % width], -1)[:, None]
        if covariance.covers(here, there):
            return covariance.at(covariance.along(there) - covariance.along(here), own)
    return covariance(offsets(questions, shape, wraps), own, (target // width)[:, None])
