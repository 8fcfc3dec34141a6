"""Which of the readings that a question knows speak most of its target: those with the largest correlation with it.

Without errors these are the nearest under the covariance; a reading with a large error makes room for a better one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..questions.asking import Questions
from ..theory.spacetime import Covariance, Known, linked

NEAREST = 32  # readings of a law


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
    offset, target = offsets(questions, shape, wraps), questions.asked_cell // shape[1]
    asked, channels = questions.asked_channel, covariance.channels
    several = channels > 1
    own = linked(asked, asked, channels)[:, None].expand_as(questions.channel) if several else None
    score = (
        covariance(offset, own, target[:, None]) * (1 + questions.errors.square()).rsqrt()
    )  # a standard field has variance one
    order = (questions.channel - asked[:, None]) % channels  # 0: the target's own
    rows, valid = [], []
    for other in range(channels):
        most = min(count if other == 0 else count // 2, score.shape[1])
        best = torch.where(questions.known & (order == other), score, -torch.inf).topk(most, dim=1)
        rows.append(best.indices)
        valid.append(best.values > -torch.inf)
    row, there = torch.cat(rows, 1), torch.cat(valid, 1)
    return Known(
        torch.where(there, questions.values.gather(1, row), 0.0),
        torch.where(there, questions.errors.gather(1, row).square(), 0.0),
        torch.where(there[..., None], offset.gather(1, row[..., None].expand(-1, -1, 3)), 0),
        there,
        questions.channel.gather(1, row) if several else None,
        asked if several else None,
        target,
    )
