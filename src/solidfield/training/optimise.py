"""One step down a loss, and the running average of the weights.

    rate      eta_n = eta (n + 1) / W                                          for n < W, the warm-up
              eta_n = eta_end + (eta - eta_end) (1 + cos(pi (n - W) / (N - W))) / 2        after it, to N
    average   a_{n+1} = d_n a_n + (1 - d_n) w_{n+1},      d_n = min(ema, (1 + n) / (10 + n))

The average's decay grows with the step, so that an early one is not ruled by the initial weights.

Gradients of several processes are averaged by hand before clipping rather than by a wrapper around the model,
so that a game of two objectives, each with parameters of its own, needs nothing special.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricOptimizer
from torch import Tensor, nn
from torch.optim import Optimizer

from ..config import TrainConfig
from ..errors import SolidError
from ..forecast import Objective
from ..keys import key, torch_generator
from .muon import Muon


def learning_rate(
    step: int,  # n, from 0
    total: int | None,  # N; None while a budget of minutes is being measured: the cosine has not begun
    config: TrainConfig,
) -> float:
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    if total is None or total <= config.warmup:
        return config.lr
    progress = (step - config.warmup) / (total - config.warmup)
    return config.lr_end + (config.lr - config.lr_end) * (1 + math.cos(math.pi * progress)) / 2


def optimiser_of(objective: Objective, config: TrainConfig) -> Optimizer:
    settings: dict[str, Any] = {"lr": config.lr, "betas": objective.betas, "weight_decay": config.weight_decay}
    if config.optimiser == "muon":
        return Muon(objective.parameters, **settings)
    # The fused kernel is several times faster on small models; loss scaling in half precision cannot use it.
    return torch.optim.AdamW(objective.parameters, **settings, fused=config.precision != "16-mixed")


def moments(objectives: list[Objective], optimisers: list[Optimizer]) -> dict[str, Tensor]:
    """All that the optimisers remember, by `objective/parameter/slot`; the rest of them is configuration."""
    return {
        f"{objective.name}/{index}/{slot}": tensor
        for objective, optimiser in zip(objectives, optimisers, strict=True)
        for index, slots in optimiser.state_dict()["state"].items()
        for slot, tensor in slots.items()
    }


def restore_moments(objectives: list[Objective], optimisers: list[Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Put everything back where `moments` took it from."""
    for objective, optimiser in zip(objectives, optimisers, strict=True):
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            owner, index, slot = name.rsplit("/", 2)
            if owner == objective.name:
                slots.setdefault(int(index), {})[slot] = tensor
        optimiser.load_state_dict({"state": slots, "param_groups": optimiser.state_dict()["param_groups"]})


def descend(
    fabric: Fabric,
    model: nn.Module,
    objective: Objective,
    optimiser: _FabricOptimizer,
    examples: Any,  # a batch of what the objective learns from
    rate: float,
    step: int,
    config: TrainConfig,
) -> tuple[float, float]:  # the loss and the norm of its gradient, over all processes
    """One optimiser step of one objective; a loss that is not finite never reaches the weights."""
    name, rank = objective.name, fabric.global_rank
    for group in optimiser.param_groups:
        group["lr"] = rate
    # Dropout layers can draw from torch's global stream only; seeded here, it too is a function of the step.
    torch.manual_seed(key(config.seed, "dropout", name, step, rank))
    with fabric.autocast():
        noise = torch_generator(config.seed, "loss", name, step, rank)
        loss = objective.loss(examples, noise)
    fabric.backward(loss, inputs=objective.parameters)
    average_gradients(fabric, objective.parameters)
    norm = fabric.clip_gradients(model, optimiser, max_norm=config.clip, error_if_nonfinite=False)
    mean, length = float(fabric.all_reduce(loss.detach().clone())), float(norm)  # type: ignore[arg-type]
    # In half precision the loss scaling meets infinite gradients on purpose: it skips the step and goes down.
    if not (math.isfinite(mean) and (math.isfinite(length) or config.precision == "16-mixed")):
        raise SolidError(
            f"the {name} is {mean} with a gradient of norm {length} at step {step + 1}; train again with a "
            f"lower train.lr (now {config.lr:g}), the checkpoints before it stay usable"
        )
    optimiser.step()
    optimiser.zero_grad()
    return mean, length


def average_gradients(fabric: Fabric, parameters: list[nn.Parameter]) -> None:
    """The mean over all processes, in one message; a parameter without a gradient counts as zero."""
    if fabric.world_size == 1:
        return
    gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    flat = fabric.all_reduce(torch.cat([g.flatten() for g in gradients]))
    assert isinstance(flat, Tensor)
    for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = part.reshape(parameter.shape)


@torch.no_grad()
def update_average(
    average: nn.Module,
    model: nn.Module,
    step: int,  # n, from 0
    ema: float,
) -> None:
    """Move the average towards the weights, running statistics included; what counts in whole numbers is copied."""
    decay = min(ema, (1 + step) / (10 + step))
    averaged: list[Tensor] = list(average.parameters())
    latest: list[Tensor] = list(model.parameters())
    for kept, buffer in zip(average.buffers(), model.buffers(), strict=True):
        # A running statistic (batch norm's, a layer's magnitude) is a smooth function of the weights: averaged with
        # them it is right for the averaged weights to first order, copied it belongs to the last weights instead.
        if buffer.is_floating_point():
            averaged.append(kept)
            latest.append(buffer)
        else:
            kept.copy_(buffer)
    torch._foreach_lerp_(averaged, latest, 1 - decay)
