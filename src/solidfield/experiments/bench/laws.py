"""The laws of asked readings as quantiles: the model of sets and its own prior, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from ...models.solid_set import SolidSet
from ...pairs.scaling import Scaling
from ...questions.asking import Hiding, Questions, ask
from ...questions.drawing import Plan
from ...questions.record import Record

LEVELS = 99  # of a law: quantiles (k + 1/2) / 99
AT_ONCE = 256


def laws_at(
    model: SolidSet,
    scaling: Scaling,
    record: Record,  # physical units: what may be known
    frame: np.ndarray,  # (n,)
    cell: np.ndarray,  # (n,)
    plan: Plan,
    unread: bool = False,  # is the record of the asked cell hidden?
) -> dict[str, np.ndarray]:  # of `solid` and `kriging`, each (levels, n), physical units
    """What the model says of every asked reading from its window on both sides, and what its prior says."""
    known, normal = scaling.of_readings(record), latents(levels())
    parts: dict[str, list[np.ndarray]] = {"solid": [], "kriging": []}
    for questions in questions_about(known, frame, cell, plan, AT_ONCE, unread):
        parts["solid"].append(model.quantiles(questions, normal.expand(-1, len(questions))).double().numpy())
        parts["kriging"].append(model.prior_quantiles(questions, normal).double().numpy())
    return {name: physical(scaling, np.concatenate(found, 1)) for name, found in parts.items()}


def questions_about(
    known: Record,  # standardised
    frame: np.ndarray,  # (n,)
    cell: np.ndarray,  # (n,)
    plan: Plan,
    at_once: int,
    unread: bool = False,
) -> Iterator[Questions]:
    """The questions about these readings, from the plan's window on both sides, some at a time."""
    for start in range(0, len(frame), at_once):
        rows = slice(start, start + at_once)
        count = len(frame[rows])
        window = np.full(count, -plan.before), np.full(count, plan.after)
        hiding = Hiding.unread(count) if unread else Hiding.nothing(count)
        yield ask(known, frame[rows], cell[rows], *window, hiding, "test", torch.Generator())


def levels() -> np.ndarray:  # (levels,)
    return (np.arange(LEVELS) + 0.5) / LEVELS


def latents(levels: Iterable[float]) -> Tensor:  # (levels, 1)
    return torch.tensor([NormalDist().inv_cdf(level) for level in levels])[:, None]


def held(law: np.ndarray, truth: np.ndarray, level: float = 0.9) -> np.ndarray:  # (levels, n), (n,) -> (n,) bool
    """Does the central interval of quantiles at `levels()` hold what was read?"""
    low, high = np.quantile(law, ((1 - level) / 2, (1 + level) / 2), axis=0, method="hazen")  # exact at (k + 1/2) / K
    return (truth >= low) & (truth <= high)


def physical(scaling: Scaling, values: np.ndarray) -> np.ndarray:
    return scaling.restore(torch.from_numpy(values)[..., None, None, None])[..., 0, 0, 0].numpy()
