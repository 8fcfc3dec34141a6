"""Which of the readings that a question knows speak most of its target: those nearest under the covariance."""

from __future__ import annotations

import torch
from torch import Tensor

from ..questions.asking import Questions
from ..theory.spacetime import Covariance, Known

NEAREST = 32  # readings of a law


def offsets(questions: Questions, shape: tuple[int, int]) -> Tensor:  # (B, R, 3)
    """From each target to each of its known readings: frames, rows, columns."""
    width = shape[1]
    row = questions.cell // width - (questions.asked_cell // width)[:, None]
    column = questions.cell % width - (questions.asked_cell % width)[:, None]
    return torch.stack([questions.frame, row, column], -1)


@torch.no_grad()
def nearest_readings(covariance: Covariance, questions: Questions, shape: tuple[int, int], count: int) -> Known:
    """The readings of the target's own variable with the largest covariance with it."""
    offset = offsets(questions, shape)
    mine = questions.known & (questions.channel == questions.asked_channel[:, None])
    score = torch.where(mine, covariance(offset), -torch.inf)
    best = score.topk(min(count, score.shape[1]), dim=1)
    valid = best.values > -torch.inf
    rows = best.indices
    return Known(
        torch.where(valid, questions.values.gather(1, rows), 0.0),
        torch.where(valid, questions.errors.gather(1, rows).square(), 0.0),
        torch.where(valid[..., None], offset.gather(1, rows[..., None].expand(-1, -1, 3)), 0),
        valid,
    )
