"""Which of the readings that a question knows speak most of its target: those with the largest correlation with it.

Without errors these are the nearest under the covariance; a reading with a large error makes room for a better one.
Where the target's own place was not read, other hours of a place say little that its nearest ones do not: of each there
are two at most, as long as others have any. So a law hears of many places, and neighbouring cells of nearly the same.
Where it was read, other hours tell how the others have moved since.
A question may know thousands of readings, of which some dozens are taken: questions are gone through some at a time,
so that what is computed of all their readings stays small, and what all of them know alike is computed once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..questions.asking import Questions
from ..theory.covariance_table import Covariance, CovarianceTable, linked
from ..theory.spacetime import Known

NEAREST = 32  # readings of a law
OF_A_PLACE = 2  # of them, at most, where the target's own place was not read
AMONG = 4  # times as many as are taken are looked at for it
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
    of_a_place: int = OF_A_PLACE,
) -> Known:
    """The readings with the largest correlation with the target: of its own variable, half as many of each other."""
    some = max(1, AT_ONCE // questions.known.shape[1])
    parts = [
        _nearest(covariance, questions[start : start + some], shape, count, of_a_place, wraps)
        for start in range(0, max(len(questions), 1), some)
    ]
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    for name, first in vars(parts[0]).items():
        columns[name] = None if first is None else torch.cat([getattr(part, name) for part in parts])
    return Known(**columns)


def _nearest(
    covariance: Covariance,
    questions: Questions,
    shape: tuple[int, int],
    count: int,
    of_a_place: int,
    wraps: tuple[bool, bool],
) -> Known:
    target, asked, channels = questions.asked_cell // shape[1], questions.asked_channel, covariance.channels
    several = channels > 1
    own = linked(asked, asked, channels)[:, None].expand_as(questions.channel) if several else None
    score = (
        _covariances(covariance, questions, shape, wraps, own) * (1 + questions.errors.square()).rsqrt()
    )  # a standard field has variance one
    order = (questions.channel - asked[:, None]) % channels if several else None  # 0: the target's own
    rows, valid = [], []
    for other in range(channels):
        most = min(count if other == 0 else count // 2, score.shape[1])
        there = questions.known if order is None else questions.known & (order == other)
        usable = torch.where(there, score, -torch.inf)
        row, found = _best(usable, questions.cell, questions.asked_cell, most, of_a_place)
        rows.append(row)
        valid.append(found)
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
        calendar=questions.calendar,
    )
    return Known(
        near.values,
        near.errors.square(),
        torch.where(there[..., None], offsets(near, shape, wraps), 0),
        there,
        near.channel if several else None,
        asked if several else None,
        target,
    )


def _best(
    score: Tensor,  # (B, R), -inf: not to be taken
    place: Tensor,  # (B, R)
    own: Tensor,  # (B,) the target's
    most: int,
    of_a_place: int,
) -> tuple[Tensor, Tensor]:  # (B, most): which, and whether there is one
    """Those of the highest score; where there is none of the target's own place, but a few of each other."""
    best = score.topk(min(AMONG * most, score.shape[1]), dim=1)
    there = best.values > -torch.inf
    if best.indices.shape[1] <= most:
        return best.indices, there
    at = place.gather(1, best.indices)
    by_place = at.argsort(dim=1, stable=True)  # within a place by score
    of_place, again = at.gather(1, by_place), torch.zeros_like(there)
    again[:, of_a_place:] = of_place[:, of_a_place:] == of_place[:, :-of_a_place]
    later = again.scatter(1, by_place, again) & ~((at == own[:, None]) & there).any(1, keepdim=True)
    order = (later + 2 * ~there).argsort(dim=1, stable=True)[:, :most]
    return best.indices.gather(1, order), there.gather(1, order)


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
