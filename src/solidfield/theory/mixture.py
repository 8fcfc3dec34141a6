"""Mixtures of Gaussians in closed form: density, distribution function, CRPS, quantiles, normal scores.

    F(x) = sum_j pi_j Phi((x - mu_j) / s_j)

Shapes: pi (or its logarithm), mu and s have one axis more than x, of the J components.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def surprise(log_pi: Tensor, mu: Tensor, s: Tensor, values: Tensor) -> Tensor:  # three of (P, J), (P,) -> (P,)
    """-log of a mixture's density, up to a constant."""
    z = (values[:, None] - mu) / s
    return -torch.logsumexp(log_pi - s.log() - 0.5 * z**2, dim=-1)


def mixture_crps(log_pi: Tensor, mu: Tensor, s: Tensor, values: Tensor) -> Tensor:  # three of (P, J), (P,) -> (P,)
    """E|X - y| - E|X - X'| / 2 for X, X' of the mixture (Grimit et al. 2006)."""
    pi, variance = log_pi.exp(), s**2
    apart = mu[:, :, None] - mu[:, None, :]
    own = pi[:, :, None] * pi[:, None, :] * _mean_size(apart, variance[:, :, None] + variance[:, None, :])
    return (pi * _mean_size(values[:, None] - mu, variance)).sum(-1) - 0.5 * own.sum((1, 2))


def _mean_size(mean: Tensor, variance: Tensor) -> Tensor:
    """E|N(mean, variance)|."""
    s = variance.sqrt()
    z = mean / s
    return s * math.sqrt(2 / math.pi) * torch.exp(-0.5 * z**2) + mean * (2 * torch.special.ndtr(z) - 1)


def normal_cdf(z: Tensor) -> Tensor:
    """Phi(z) with all its digits in the lower tail, which `torch.special.ndtr` rounds to multiples of 3e-8."""
    return 0.5 * torch.erfc(z * -math.sqrt(0.5))


def mixture_cdf(pi: Tensor, mu: Tensor, s: Tensor, x: Tensor) -> Tensor:  # three of (..., J), (...) -> (...)
    """F(x) of a mixture."""
    return _total(pi, mu, s, x, normal_cdf)


def _total(pi: Tensor, mu: Tensor, s: Tensor, x: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
    """The sum over components of pi_j f((x - mu_j) / s_j); component by component, since few are summed slowly."""
    parts = zip(pi.unbind(-1), mu.unbind(-1), s.reciprocal().unbind(-1), strict=True)
    total = torch.zeros(())
    for weight, centre, narrow in parts:
        total = total + weight * of((x - centre) * narrow)
    return total


def mixture_quantile(
    pi: Tensor, mu: Tensor, s: Tensor, wanted: Tensor, x: Tensor, low: Tensor, high: Tensor, steps: int
) -> Tensor:  # three of (..., J), the others (...)
    """log F(x) = log wanted by Newton's method from x, by halves wherever it would leave the bracket.

    In a far tail log F is nearly a parabola, where F itself is flat: there a step of F would lead nowhere.
    """
    height = pi / (s * math.sqrt(2 * math.pi))
    for _ in range(steps):
        below = mixture_cdf(pi, mu, s, x)
        density = _total(height, mu, s, x, lambda z: torch.exp(-0.5 * z.square()))
        low, high = torch.where(below < wanted, x, low), torch.where(below > wanted, x, high)
        newton = x - (below / wanted).log() * below / density
        x = torch.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
    return x


def normal_score(log_pi: Tensor, mu: Tensor, s: Tensor, values: Tensor) -> Tensor:  # three of (P, J), (P,) -> (P,)
    """Phi^{-1}(sum_j pi_j Phi(z_j)), from whichever tail is the smaller so that far values keep their digits."""
    pi, z = log_pi.double().exp(), (values[:, None].double() - mu) / s
    below = (pi * normal_cdf(z)).sum(-1)
    above = (pi * normal_cdf(-z)).sum(-1)
    tiny = 1e-15
    return torch.where(
        below < above, torch.special.ndtri(below.clamp_min(tiny)), -torch.special.ndtri(above.clamp_min(tiny))
    ).to(values.dtype)
