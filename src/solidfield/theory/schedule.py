"""How much noise at diffusion time tau = 1 .. T: alpha_bar_tau = prod_{s <= tau} (1 - beta_s), and 1 at 0.

    x_tau = sqrt(alpha_bar_tau) x_0 + sqrt(1 - alpha_bar_tau) eps                          (the paper's Eq. 1)
    log-SNR(tau) = log(alpha_bar_tau / (1 - alpha_bar_tau))

The paper has T = 1000 and does not name the schedule; DDPM, which it follows, has beta linear from 1e-4 to
0.02. The cosine one is Nichol and Dhariwal's. Between whole times log-SNR is interpolated linearly, so that
samplers may stop at any log-SNR. The paper counts tau from 1; `diffusers` counts from 0, so its timestep t is
our tau - 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import SolidError

SCHEDULES = ("linear", "cosine")


@dataclass(frozen=True)
class Schedule:
    """The table of log-SNR at tau = 1 .. T, falling, in double precision."""

    name: str
    table: Tensor  # (T,) float64

    @property
    def T(self) -> int:
        return len(self.table)

    def log_snr(self, tau: Tensor | float) -> Tensor:  # any shape -> the same, float64; infinite at tau = 0
        """log-SNR at any tau in [1, T], and at 0; there is no noise level between 0 and 1."""
        tau = torch.as_tensor(tau, dtype=torch.float64)
        place = (tau - 1).clamp(0, self.T - 1)
        below = place.floor().clamp(max=self.T - 2).long()
        table = self.table.to(tau.device)
        between = torch.lerp(table[below], table[below + 1], place - below)
        return torch.where(tau <= 0, math.inf, between)

    def tau(self, log_snr: Tensor | float) -> Tensor:  # any shape -> the same, float64
        """The inverse: the tau in [1, T] with this log-SNR, and 0 for an infinite one."""
        log_snr = torch.as_tensor(log_snr, dtype=torch.float64)
        rising = self.table.flip(0).to(log_snr.device)  # at tau = T .. 1
        above = torch.searchsorted(rising, log_snr.contiguous()).clamp(1, self.T - 1)
        low, high = rising[above - 1], rising[above]
        place = above - 1 + ((log_snr - low) / (high - low)).clamp(0, 1)
        return torch.where(log_snr == math.inf, 0.0, self.T - place)

    def alpha_bar(self, tau: Tensor | float) -> Tensor:  # any shape -> the same, float64
        return torch.sigmoid(self.log_snr(tau))

    def alpha_sigma(self, tau: Tensor | float) -> tuple[Tensor, Tensor]:
        """sqrt(alpha_bar) and sqrt(1 - alpha_bar), each as accurate as doubles allow."""
        log_snr = self.log_snr(tau)
        return torch.sigmoid(log_snr).sqrt(), torch.sigmoid(-log_snr).sqrt()


def linear(T: int = 1000, first: float = 1e-4, last: float = 0.02) -> Schedule:
    """beta rises linearly from `first` to `last`."""
    return _of_betas("linear", torch.linspace(first, last, T, dtype=torch.float64))


def cosine(T: int = 1000, offset: float = 0.008) -> Schedule:
    """alpha_bar falls as a squared cosine; beta is held below 0.999, which matters at the very end only."""
    tau = torch.arange(T + 1, dtype=torch.float64)
    alpha_bar = torch.cos((tau / T + offset) / (1 + offset) * math.pi / 2) ** 2
    return _of_betas("cosine", (1 - alpha_bar[1:] / alpha_bar[:-1]).clamp(max=0.999))


def schedule(name: str, T: int = 1000) -> Schedule:
    """A schedule by name."""
    if name not in SCHEDULES:
        raise SolidError(f"schedule '{name}' is unknown; choose one of {', '.join(SCHEDULES)}")
    return linear(T) if name == "linear" else cosine(T)


def _of_betas(name: str, betas: Tensor) -> Schedule:
    log_alpha_bar = torch.log1p(-betas).cumsum(0)
    return Schedule(name, log_alpha_bar - torch.log(-torch.expm1(log_alpha_bar)))
