"""The paper's dual-masked objective: noise the target, ask for the noise, count only measured targets.

    x_tau = sqrt(alpha_bar_tau) x_0 + sqrt(1 - alpha_bar_tau) eps                                    (Eq. 1)
    L = sum_p M_o(p) (1 + lam M_i(p)) (eps(p) - eps_hat(p))^2 / |M_o|_1                (Eq. 2, overlap weight)

for each example, then averaged over the batch. The weight 1 + lam acts exactly where a cell is both source
and target, and |M_o|_1 does not count it, so that lam scales gradients there and leaves all others as they
were. An example without targets contributes zero. `masked_mean` is the same average for any other error, and
serves every model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..fields import restrict
from .schedule import Schedule


def masked_mean(
    error: Tensor,  # (B, C, H, W) one non-negative number a cell; anything at all off m_o
    m_o: Tensor,  # (B, C, H, W) bool: where targets were measured
    m_i: Tensor | None = None,  # (B, C, H, W) bool: where sources were measured
    lam: float = 0.0,  # extra weight on the overlap of both
) -> Tensor:  # scalar
    """The mean error over the measured targets of each example, then over the batch.

    Off the mask the error itself is dropped. If it was computed from numbers that may be infinite or NaN
    there, restrict those first: a zero gradient times an infinite derivative is NaN.
    """
    error = restrict(error, m_o)
    if m_i is not None and lam:
        error = error * (1 + lam * m_i.to(error.dtype))
    count = m_o.flatten(1).sum(1).clamp(min=1)
    return (error.flatten(1).sum(1) / count).mean()


def denoising_loss(
    eps_hat: Tensor,  # (B, C, H, W) predicted noise; anything at all off m_o
    eps: Tensor,  # (B, C, H, W) true noise
    m_o: Tensor,  # (B, C, H, W) bool
    m_i: Tensor | None = None,  # (B, C, H, W) bool
    lam: float = 0.0,
) -> Tensor:  # scalar
    """Eq. 2 with the overlap weight."""
    return masked_mean(restrict(eps - eps_hat, m_o).square(), m_o, m_i, lam)


def noised(
    x_0: Tensor,  # (B, ...)
    eps: Tensor,  # (B, ...)
    tau: Tensor,  # (B,) in [0, T]
    schedule: Schedule,
) -> Tensor:  # (B, ...)
    """Eq. 1, a noise level per example."""
    alpha, sigma = (s.to(x_0.dtype).view(-1, *[1] * (x_0.ndim - 1)) for s in schedule.alpha_sigma(tau))
    return alpha * x_0 + sigma * eps


def draw_tau(
    count: int,
    schedule: Schedule,
    generator: torch.Generator,
) -> Tensor:  # (count,) whole numbers 1 .. T
    """Diffusion times, uniform as in the paper."""
    return torch.randint(1, schedule.T + 1, (count,), generator=generator)
