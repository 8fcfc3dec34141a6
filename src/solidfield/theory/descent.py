"""Fit a few parameters by descent: Adam with a cosine from its rate to nothing, gradients clipped."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def descend(module: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float) -> list[float]:
    """Lower the loss of every step, such as that of a random part of the data; returns what it was."""
    optimiser = torch.optim.Adam(module.parameters(), rate)
    history = []
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        found = loss(step)
        optimiser.zero_grad()
        found.backward()
        steepness = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        if bool(steepness.isfinite()):  # a matrix that can hardly be factored teaches nothing
            optimiser.step()
        history.append(found.item())
    return history
