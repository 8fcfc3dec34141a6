"""How far readings disagree, and kriging with a spread that follows it.

A covariance that is fitted to all days has one variance, but on some days readings surprise one another far more than
on others. How much shows before the target is known: each reading against what all the others of its question say of
it (Dubrule 1983), in standard deviations, and from these a spread of the target's own,

    z_i = [K^-1 y]_i / [K^-1]_ii^(1/2),      rho = mean |z_i|,      s_local = s e^a (nu + rho)^(g e^(-h / d)),

h frames from the reading nearest in time: a rough hour says little of how rough it will be six hours later. nu, g and
d of each variable maximise the likelihood of observed targets under Student laws of these spreads, whose tails let no
single target decide; a is such that 80 % of the targets lie within normal intervals of 80 %. In a Gaussian field rho
tells nothing and g is nearly 0. The mean is of |z|, not of z^2, and readings that are heard with an error count
less: one bad reading must not widen a whole map. In a Student-t process (Shah, Wilson and Ghahramani 2014) the variance
is scaled by y' K^-1 y; here data say how much is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import torch
from torch import Tensor, nn

from .spacetime import Known, Laws

TYPICAL = (2 / torch.pi) ** 0.5  # mean |z| of a Gaussian field,
FAINT = 1e-3  # ... which so little of a reading is heard with, so that no reading at all is typical
HALF = 0.1  # variance of an error with which a reading counts half: a standard field has variance one
STEPS, RATE = 300, 0.05  # of the fit
MOST = 2.0  # g
HELD = 0.8  # of the targets, by normal intervals of as much
FEWEST = 500  # targets of a variable, below which its spread is kriging's


@dataclass(frozen=True)
class Target:
    """Laws of targets, what they know, and what was read."""

    law: Laws
    known: Known
    values: Tensor  # (B,)
    errors: Tensor  # (B,) their variances

    def of(self, channel: int) -> tuple[Tensor, ...]:  # five of (n,)
        """Of one variable: how far off kriging's mean is, its spread, the errors, rho and h."""
        asked = self.known.asked
        mine = torch.ones_like(self.values).bool() if asked is None else asked == channel
        rho, late = disagreement(self.law, self.known), self.known.late
        parts = self.values - self.law.mean, self.law.std, self.errors, rho, late
        return tuple(part[mine] for part in parts)


class LocalSpread(nn.Module):
    """a, log nu, g and log d of every variable; as it begins, spreads are kriging's."""

    def __init__(self, channels: int = 1):
        super().__init__()
        self.register_buffer("told", torch.zeros(channels, 4))
        self.told: Tensor

    def forward(self, law: Laws, known: Known) -> Laws:
        """The same laws with spreads of their own."""
        told = self.told[0] if known.asked is None else self.told[known.asked]
        return replace(law, scale=law.std * _factor(told, disagreement(law, known), known.late))

    def fit(self, targets: Sequence[Target]) -> None:
        """Maximise the likelihood of what was read."""
        for channel in range(len(self.told)):
            parts = [target.of(channel) for target in targets]
            off, *told = (torch.cat(part) for part in zip(*parts, strict=True))
            if len(off) >= FEWEST:
                self.told[channel] = _fitted(off, *told)


def disagreement(law: Laws, known: Known) -> Tensor:  # (B,)
    """rho: the mean |z| of a question's readings of the target's own variable."""
    weight = known.valid * HALF / (HALF + known.errors)
    if known.channel is not None and known.asked is not None:
        weight = weight * (known.channel == known.asked[:, None])
    return (FAINT * TYPICAL + (weight * law.against.abs()).sum(1)) / (FAINT + weight.sum(1))


def _factor(told: Tensor, rho: Tensor, late: Tensor) -> Tensor:  # (4,) or (B, 4), (B,), (B,) -> (B,)
    level, doubt, power, lasting = told.unbind(-1)
    return (level + power * (-late / lasting.exp()).exp() * (doubt.exp() + rho).log()).exp()


@torch.enable_grad()
def _fitted(off: Tensor, std: Tensor, errors: Tensor, rho: Tensor, late: Tensor) -> Tensor:  # (n,) each -> (4,)
    told = torch.tensor([0.0, 0.0, 0.1, 1.0], requires_grad=True)
    freedom = torch.tensor(1.5, requires_grad=True)

    def spread() -> Tensor:
        return ((std * _factor(told, rho, late)).square() + errors).sqrt()

    optimiser = torch.optim.Adam([told, freedom], RATE)
    for step in range(STEPS):
        loss = -torch.distributions.StudentT(2 + freedom.exp(), 0.0, spread()).log_prob(off).mean()
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - step / STEPS) + 0.002
        optimiser.step()
        with torch.no_grad():
            told[1].clamp_(-5.0, 3.0)
            told[2].clamp_(0.0, MOST)
            told[3].clamp_(-2.0, 5.0)
    with torch.no_grad():
        told[0] += ((off.abs() / spread()).quantile(HELD) / NormalDist().inv_cdf((1 + HELD) / 2)).log()
    return told.detach()
