"""Muon: matrices move along all of their directions at the same pace, everything else by AdamW.

For a matrix W of shape (m, n) with gradient g (Jordan et al. 2024),

    b <- mu b + (1 - mu) g
    u  = (1 - mu) g + mu b                                   Nesterov's look ahead
    O  = Q of the polar decomposition u = Q P, nearly        (`orthogonal`)
    W <- (1 - eta lambda) W - eta 0.2 sqrt(max(m, n)) O

where the last factor makes a step as large as one of AdamW (Liu et al. 2025), so that one learning rate serves all.
Plain gradients of attention are ruled by a few directions; orthogonal ones also learn what is rare.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

MOMENTUM = 0.95  # mu
PACE = 0.2  # the root mean square of a typical step of AdamW, in learning rates
ITERATIONS, QUINTIC = 5, (3.4445, -4.7750, 2.0315)  # takes singular values of 0.01 to 1 into 0.7 to 1.2
TINY = 1e-8


class Muon(torch.optim.Optimizer):
    """Muon for matrices, AdamW for vectors and all else; its memory is plain tensors."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], weight_decay: float):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            torch._foreach_mul_(moving, 1 - group["lr"] * group["weight_decay"])
            self._matrices([p for p in moving if p.ndim == 2], group["lr"])
            self._others([p for p in moving if p.ndim != 2], group["lr"], group["betas"])

    def _matrices(self, matrices: list[nn.Parameter], rate: float) -> None:
        alike = defaultdict[torch.Size, list[nn.Parameter]](list)  # many small products cost more than a few large
        for p in matrices:
            alike[p.shape].append(p)
        for shape, some in alike.items():
            gradient = torch.stack([_gradient(p) for p in some])
            before = torch.stack([self._slot(p, "momentum") for p in some])
            momentum = before.lerp(gradient, 1 - MOMENTUM)
            step = orthogonal(gradient.lerp(momentum, MOMENTUM))
            for place, p in enumerate(some):
                self.state[p]["momentum"].copy_(momentum[place])
                p.add_(step[place], alpha=-rate * PACE * math.sqrt(max(shape)))

    def _others(self, others: list[nn.Parameter], rate: float, betas: tuple[float, float]) -> None:
        for p in others:
            gradient, count = _gradient(p), self._slot(p, "count", torch.zeros(()))
            first, second = self._slot(p, "first"), self._slot(p, "second")
            count += 1
            first.lerp_(gradient, 1 - betas[0])
            second.lerp_(gradient.square(), 1 - betas[1])
            mean, square = first / (1 - betas[0] ** float(count)), second / (1 - betas[1] ** float(count))
            p.addcdiv_(mean, square.sqrt() + TINY, value=-rate)

    def _slot(self, p: nn.Parameter, name: str, start: Tensor | None = None) -> Tensor:
        return self.state[p].setdefault(name, torch.zeros_like(p) if start is None else start)


def orthogonal(matrices: Tensor) -> Tensor:  # (N, m, n) -> (N, m, n)
    """Nearly the orthogonal factors of polar decompositions: U S' V^T, S' in 0.7 .. 1.2, by a quintic iteration."""
    a, b, c = QUINTIC
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + TINY)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.mT


def _gradient(p: nn.Parameter) -> Tensor:
    assert p.grad is not None
    return p.grad
