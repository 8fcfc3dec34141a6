"""A mixture of Gaussians as the law of a cell: x ~ sum_j pi_j N(mu_j, s_j^2), by likelihood; z = Phi^{-1}(F(x)).

Of M networks whose features stand side by side it is the pool, the mixture of their mixtures with equal weights; each
learns alone, as if it were the only one: the pool is then wider where they disagree, and its CRPS is at most the mean
of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .law import NODES, Law, Maybe, Observed, pick
from .mixture import mixture_cdf, mixture_crps, mixture_quantile, normal_cdf, normal_score, surprise

NEWTON = 2  # steps to a quantile of a mixture from a close bracket: within 1e-3 of its latent ...
NEWTON_AFAR = 16  # ... and from the widest one
NOTHING = 1e-30  # the share of a network that has none, so that it has a logarithm
LEAST_SCALE = 0.01  # in standard deviations of the variable: a law narrower than its data's rounding is no use


class SideBySide(nn.Module):
    """Networks that each read their own share of the features."""

    def __init__(self, each: list[nn.Sequential]):
        super().__init__()
        self.each = nn.ModuleList(each)

    def forward(self, features: Tensor) -> Tensor:  # (..., M * F) -> (..., M * outputs)
        shares = features.chunk(len(self.each), -1)
        return torch.cat([one(share) for one, share in zip(self.each, shares, strict=True)], -1)


def _head(features: int, width: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(width, outputs)
    return nn.Sequential(nn.Linear(features, width), nn.SiLU(), last)


class MixtureLaw(Law):
    """A mixture of Gaussians by likelihood, closed form both ways."""

    name = "mixture"

    def __init__(self, features: int, channels: int = 1, components: int = 3, width: int = 64, networks: int = 1):
        super().__init__()
        self.channels, self.components, self.networks = channels, components, networks
        heads = [_head(features // networks, width, 3 * channels * components) for _ in range(networks)]
        self.head = heads[0] if networks == 1 else SideBySide(heads)
        with torch.no_grad():  # spread the components, so that they do not begin as copies of one another
            for last in self.last:
                last.bias.view(channels, components, 3)[..., 1] += torch.linspace(-0.5, 0.5, components)

    @property
    def last(self) -> list[nn.Linear]:
        """The last layer of each network's head."""
        heads = self.head.each if isinstance(self.head, SideBySide) else [self.head]
        return [cast(nn.Linear, cast(nn.Sequential, head)[-1]) for head in heads]

    @torch.no_grad()
    def begin_as_normal(self) -> None:
        for last in self.last:
            last.weight *= 0.1
            start = last.bias.view(self.channels, self.components, 3)
            start[..., 0] = 0.0
            start[..., 2] = math.log(math.expm1(0.9))  # the components' own spread; their places add the rest

    def alone(self, features: Tensor, departure: Maybe = None) -> tuple[Tensor, Tensor, Tensor]:  # three: (P, C, M, J)
        """log pi, mu, s of each network's own mixture; on the way to the normal law all components move towards it."""
        raw = self.head(features).unflatten(-1, (self.networks, self.channels, self.components, 3)).transpose(-4, -3)
        log_pi, mu, s = raw[..., 0].log_softmax(-1), raw[..., 1], LEAST_SCALE + F.softplus(raw[..., 2])
        if departure is None:
            return log_pi, mu, s
        far = departure[:, None, None, None]
        return log_pi, far * mu, 1 + far * (s - 1)

    def parts(
        self, features: Tensor, shares: Maybe = None, departure: Maybe = None
    ) -> tuple[Tensor, Tensor, Tensor]:  # three of (P, C, M * J)
        """log pi, mu, s of the pool."""
        log_pi, mu, s = self.alone(features, departure)
        share = -math.log(self.networks) if shares is None else shares.clamp_min(NOTHING).log()[:, None, :, None]
        return (log_pi + share).flatten(-2), mu.flatten(-2), s.flatten(-2)

    def of(self, observed: Observed) -> tuple[Tensor, Tensor, Tensor]:  # three of (P, M * J)
        """The parts of one variable's law; with an error, of what is read."""
        parts = self.parts(observed.features, observed.shares, observed.departure)
        log_pi, mu, s = (pick(part, observed.channel) for part in parts)
        return log_pi, mu, s if observed.error is None else torch.hypot(s, observed.error[:, None])

    def _each(self, score: Callable[..., Tensor], observed: Observed) -> Tensor:  # (P,)
        """The sum of a score over the networks, each alone, by their shares."""
        alone = self.alone(observed.features, observed.departure)
        log_pi, mu, s = (pick(part, observed.channel).flatten(0, 1) for part in alone)  # (P * M, J)
        if observed.error is not None:
            s = torch.hypot(s, observed.error.repeat_interleave(self.networks)[:, None])
        values = observed.values.repeat_interleave(self.networks)
        each = score(log_pi, mu, s, values).unflatten(0, (-1, self.networks))
        return each.mean(1) if observed.shares is None else (observed.shares * each).sum(1)

    def loss(self, observed: Observed, generator: torch.Generator) -> Tensor:
        return self._each(surprise, observed)

    def crps(self, observed: Observed) -> Tensor:
        if self.training:
            return self._each(mixture_crps, observed)
        return mixture_crps(*self.of(observed), observed.values)

    def latent(self, observed: Observed) -> Tensor:
        return normal_score(*self.of(observed), observed.values)

    def value(self, features: Tensor, latents: Tensor, departure: Maybe = None) -> Tensor:
        log_pi, mu, s = self.parts(features, departure=departure)  # (P, C, J)
        # The upper half is the lower one of the mirrored law: there F keeps its digits.
        side = torch.where(latents > 0, -1.0, 1.0)
        mu, z = side[..., None] * mu, -latents.abs()
        alone = mu + s * z[..., None]  # Q(z) of each component: that of the mixture lies between them
        pi, wanted = log_pi.exp(), normal_cdf(z)
        start, low, high = (pi * alone).sum(-1), alone.amin(-1), alone.amax(-1)
        return side * mixture_quantile(pi, mu, s, wanted, start, low, high, NEWTON_AFAR)

    def table(self, features: Tensor) -> Tensor:
        log_pi, mu, s = (part[..., None, :] for part in self.parts(features))  # (P, C, 1, J)
        pi, nodes = log_pi.exp(), NODES.to(features)
        # Between neighbouring points of all components F is smooth and rises a little: a bracket for every quantile.
        coarse = (mu + s * nodes[::5, None]).flatten(-2).sort(-1).values  # (P, C, J * n)
        rising = mixture_cdf(pi, mu, s, coarse)
        wanted = normal_cdf(nodes).expand(*coarse.shape[:-1], -1).contiguous()
        right = torch.searchsorted(rising, wanted).clamp(1, coarse.shape[-1] - 1)
        low, high = coarse.gather(-1, right - 1), coarse.gather(-1, right)
        # In latents a quantile is nearly straight between such points: two steps of Newton's method are left to do.
        latent = torch.special.ndtri(rising.clamp(1e-12, 1 - 1e-7))
        start, end = latent.gather(-1, right - 1), latent.gather(-1, right)
        between = torch.lerp(low, high, ((nodes - start) / (end - start).clamp_min(1e-6)).clamp(0, 1))
        return mixture_quantile(pi, mu, s, wanted, between, low, high, NEWTON).cummax(-1).values
