"""The law of one cell: a distribution on the line, given what the encoder says of the cell.

A law turns features f into a monotone map x = Q(z; f) of a standard normal latent z, and learns it from observed
targets alone: it never needs a neighbour, so nothing off M_o is ever missing. Two laws share one interface.

`MixtureLaw`: x ~ sum_j pi_j N(mu_j, s_j^2), by likelihood; z = Phi^{-1}(F(x)). Of M networks whose features stand side
by side it is the pool, the mixture of their mixtures with equal weights; each learns alone, as if it were the only one:
the pool is then wider where they disagree, and its CRPS is at most the mean of theirs.

`DiffusionLaw`: the paper's denoising objective (Eq. 2) for a denoiser that reads x_tau at its own cell only, begun
where a mixture ends. The mixture's own latent y of a value is nearly N(0, 1) by then; what is noised is y, and what is
learned is how far it still is from normal. With tan(theta) = sigma / alpha,

    v    = cos(theta) y + sin(theta) eps                        the noised latent, y_tau
    zeta = cos(theta) eps - sin(theta) y                        what is unknown, given v
    eps  = sin(theta) v + cos(theta) zeta                       so  eps_hat = sin(theta) v + cos(theta) g(v, theta; f)

and the probability flow is d v / d theta = g: from v = z at theta = pi/2 to v = y at theta = 0. Where the mixture is
right g = 0 is exact and the flow is the identity. Levels are drawn uniformly in theta, in strata over all targets of a
batch, with antithetic eps. Weighted by likelihood, 1 / (sin cos), the denoising objective is a likelihood, of which the
mixture's share is known; only what g changes is left to sampling:

    -log p(x) = -log mixture(x) + pi/2 E[ cot(theta) (g^2 - 2 zeta g) ],      theta ~ U(0, pi/2), eps ~ N(0, 1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SolidError
from .mixture import mixture_cdf, mixture_crps, mixture_quantile, normal_cdf, normal_score, surprise

NODES = torch.linspace(-4.5, 4.5, 91)  # latents at which a law is tabulated: 0.1 apart, tails beyond by extrapolation
SPARSE = 3  # of so many nodes one is moved by the flow, which is smooth; the others go along
TABLES = 2**13  # cells whose tables are in memory together, some MB
AT_ONCE = 64  # cells whose flow is run together: what it remembers fits into a cache
NEWTON = 2  # steps to a quantile of a mixture from a close bracket: within 1e-3 of its latent ...
NEWTON_AFAR = 16  # ... and from the widest one
NOTHING = 1e-30  # the share of a network that has none, so that it has a logarithm
LEAST_SCALE = 0.01  # in standard deviations of the variable: a law narrower than its data's rounding is no use
Maybe = Tensor | None


class Law(nn.Module, ABC):
    """A distribution per cell and channel, behind four verbs. P is a number of cells anywhere."""

    name: ClassVar[str]

    @abstractmethod
    def loss(
        self,
        features: Tensor,  # (P, F)
        values: Tensor,  # (P,)
        channel: Tensor,  # (P,) which variable
        generator: torch.Generator,
        error: Maybe = None,  # (P,) standard deviations: values are read with it, the law is of what is read
        shares: Maybe = None,  # (P, M) of the networks, what each learns from a value; None: alike
    ) -> Tensor:  # (P,)
        """What training minimises at observed targets."""

    @abstractmethod
    def crps(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe = None,
        shares: Maybe = None,
        departure: Maybe = None,  # (P,) from the standard normal law: 0 is that law; None: 1, all the way
    ) -> Tensor:
        """The CRPS of observed targets, in closed form and differentiable; of a diffusion law, that of its mixture."""

    @abstractmethod
    def latent(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe = None,
        shares: Maybe = None,  # (P, M) of the networks in the pool, which add up to 1; None: alike
        departure: Maybe = None,
    ) -> Tensor:  # (P,)
        """z with Q(z) = value."""

    @abstractmethod
    def value(
        self, features: Tensor, latents: Tensor, departure: Maybe = None
    ) -> Tensor:  # (P, F), (K, P, C) -> (K, P, C)
        """Q(z) itself: for a few latents a cell cheaper than a table."""

    @abstractmethod
    def table(self, features: Tensor) -> Tensor:  # (P, C, nodes)
        """Q at NODES, increasing along the last axis: for many latents a cell, by `interpolate`."""

    @abstractmethod
    def begin_as_normal(self) -> None:
        """Start close to the standard normal law, whatever the features: in the units of a prior, as that prior."""

    def quantiles(
        self,
        features: Tensor,  # (B, F, H, W)
        latents: Tensor,  # (K, B, C, H, W)
        few: bool = False,  # members of a cell are so few that its table would not pay
    ) -> Tensor:  # (K, B, C, H, W)
        """Q of whole fields of latents."""
        return self.lookup(features, few)(latents)

    def lookup(self, features: Tensor, few: bool = False) -> Callable[[Tensor], Tensor]:
        """As `quantiles`, for latents that come part by part: the tables are made once."""
        parts = features.movedim(1, -1).flatten(0, 2).split(TABLES)  # (P, F) each
        tables = [] if few else [self.table(part) for part in parts]

        def values(latents: Tensor) -> Tensor:  # (K, B, C, H, W) -> (K, B, C, H, W)
            z = latents.movedim(2, -1)
            found = [
                self.value(parts[i], some) if few else interpolate(tables[i], some)
                for i, some in enumerate(z.flatten(1, 3).split(TABLES, 1))  # (K, P, C) each
            ]
            return torch.cat(found, 1).reshape(z.shape).movedim(-1, 2)

        return values


def interpolate(
    table: Tensor,  # (P, C, nodes)
    latents: Tensor,  # (K, P, C)
) -> Tensor:  # (K, P, C)
    """Q(z) between the nodes of a table, linearly; beyond the last node along the last segment."""
    step = (NODES[-1] - NODES[0]) / (len(NODES) - 1)
    position = (latents - NODES[0]) / step
    left = position.floor().clamp(0, len(NODES) - 2)
    index = left.long().permute(1, 2, 0)  # (P, C, K)
    low, high = table.gather(-1, index), table.gather(-1, index + 1)
    weight = (position - left).permute(1, 2, 0)
    return torch.lerp(low, high, weight).permute(2, 0, 1)


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

    def of(
        self, features: Tensor, channel: Tensor, error: Maybe = None, shares: Maybe = None, departure: Maybe = None
    ) -> tuple[Tensor, Tensor, Tensor]:  # three of (P, M * J)
        """The parts of one variable's law; with an error, of what is read."""
        log_pi, mu, s = (_pick(part, channel) for part in self.parts(features, shares, departure))
        return log_pi, mu, s if error is None else torch.hypot(s, error[:, None])

    def _each(
        self,
        score: Callable[..., Tensor],
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe,
        shares: Maybe,
        departure: Maybe = None,
    ) -> Tensor:  # (P,)
        """The sum of a score over the networks, each alone, by their shares."""
        log_pi, mu, s = (_pick(part, channel).flatten(0, 1) for part in self.alone(features, departure))  # (P * M, J)
        own = [None if one is None else one.repeat_interleave(self.networks) for one in (values, error)]
        s = s if own[1] is None else torch.hypot(s, own[1][:, None])
        each = score(log_pi, mu, s, own[0]).unflatten(0, (-1, self.networks))
        return each.mean(1) if shares is None else (shares * each).sum(1)

    def loss(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        generator: torch.Generator,
        error: Maybe = None,
        shares: Maybe = None,
    ) -> Tensor:
        return self._each(surprise, features, values, channel, error, shares)

    def crps(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe = None,
        shares: Maybe = None,
        departure: Maybe = None,
    ) -> Tensor:
        if self.training:
            return self._each(mixture_crps, features, values, channel, error, shares, departure)
        return mixture_crps(*self.of(features, channel, error, shares, departure), values)

    def latent(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe = None,
        shares: Maybe = None,
        departure: Maybe = None,
    ) -> Tensor:
        return normal_score(*self.of(features, channel, error, shares, departure), values)

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


class DiffusionLaw(Law):
    """A pointwise denoiser of a mixture's latents by the paper's objective, its one-dimensional flow tabulated."""

    name = "diffusion"

    def __init__(
        self,
        features: int,
        channels: int = 1,
        components: int = 3,  # of the mixture; with 1 the head learns all that is not Gaussian
        width: int = 32,  # of the denoiser
        levels: float = 0.25,  # noise levels per target and encoder pass; each with eps and -eps
        weight: str = "likelihood",  # of a level: "likelihood" or "paper" (1 on |eps - eps_hat|^2)
        steps: int = 2,  # of the flow, classical Runge-Kutta in theta
        networks: int = 1,  # whose features stand side by side
    ):
        super().__init__()
        if weight not in ("likelihood", "paper"):
            raise SolidError(f"weight '{weight}' of the diffusion law: choose likelihood or paper")
        if levels <= 0:
            raise SolidError(f"levels = {levels} of the diffusion law would teach it nothing; give more than 0")
        self.channels, self.levels, self.weight, self.steps = channels, levels, weight, steps
        self.mixture = MixtureLaw(features, channels, components, networks=networks)
        self.condition = nn.Linear(features, channels * width)
        self.noisy = nn.Linear(5, width, bias=False)
        self.inner = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)
        nn.init.zeros_(self.out.weight)  # begin as the mixture
        nn.init.zeros_(self.out.bias)

    def begin_as_normal(self) -> None:
        self.mixture.begin_as_normal()

    def conditions(self, features: Tensor) -> Tensor:  # (P, C, width)
        return self.condition(features).unflatten(-1, (self.channels, -1))

    def velocity(self, v: Tensor, theta: Tensor, condition: Tensor) -> Tensor:
        """g(v, theta; f); shapes (...) and (..., width)."""
        sin, cos = theta.sin(), theta.cos()
        # tanh keeps the tails tame: far out, the law is the mixture.
        noisy = torch.stack([v, torch.tanh(v), sin, cos, v * sin], dim=-1)
        hidden = F.silu(condition + self.noisy(noisy))
        # Without noise nothing is unknown and g = 0; built in, it also bounds what a likelihood's weights do to noise.
        return sin * self.out(F.silu(self.inner(hidden))).squeeze(-1)

    def denoise(self, y_tau: Tensor, log_snr: Tensor, condition: Tensor) -> Tensor:
        """eps_hat for a latent noised to this log-SNR: what `sample.py` calls."""
        theta = torch.atan2((-log_snr).sigmoid().sqrt(), log_snr.sigmoid().sqrt())
        return theta.sin() * y_tau + theta.cos() * self.velocity(y_tau, theta, condition)

    def loss(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        generator: torch.Generator,
        error: Maybe = None,
        shares: Maybe = None,
    ) -> Tensor:
        log_pi, mu, s = self.mixture.of(features, channel, error)
        count = math.ceil(self.levels * len(values))  # L in all
        heard = torch.randperm(len(values), generator=generator)[torch.arange(count) % len(values)].to(values.device)
        with torch.no_grad():
            y = normal_score(log_pi[heard], mu[heard], s[heard], values[heard])
        strata = torch.arange(count) + torch.rand(count, generator=generator)
        theta = (0.5 * math.pi * strata / count).clamp(0.02, 0.5 * math.pi - 0.02).to(values).expand(2, -1)  # (2, L)
        eps = torch.randn(count, generator=generator).to(values)
        eps, sin, cos = torch.stack([eps, -eps]), theta.sin(), theta.cos()
        # The encoder learns from the mixture's likelihood, which has no sampling noise; the head takes what it finds.
        condition = _pick(self.conditions(features.detach()[heard]), channel[heard])
        g = self.velocity(cos * y + sin * eps, theta, condition)
        zeta = cos * eps - sin * y
        weight = cos / sin if self.weight == "likelihood" else cos**2
        changed = 0.5 * math.pi * (weight * g * (g - 2 * zeta)).mean(0)  # (L,)
        if shares is not None:  # the head reads the features of all networks, and learns what all of them may
            changed = changed * (shares > 0).all(1)[heard]
        own = self.mixture.loss(features, values, channel, generator, error, shares)
        return own.index_add(0, heard, changed * len(values) / max(count, 1))

    def crps(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe = None,
        shares: Maybe = None,
        departure: Maybe = None,
    ) -> Tensor:
        return self.mixture.crps(features, values, channel, error, shares, departure)

    def latent(
        self,
        features: Tensor,
        values: Tensor,
        channel: Tensor,
        error: Maybe = None,
        shares: Maybe = None,
        departure: Maybe = None,
    ) -> Tensor:
        y = self.mixture.latent(features, values, channel, error, shares, departure)
        return self._flow(y, _pick(self.conditions(features), channel), 0.0, 0.5 * math.pi, departure)

    def value(self, features: Tensor, latents: Tensor, departure: Maybe = None) -> Tensor:
        slower = None if departure is None else departure[:, None]
        y = self._flow(latents, self.conditions(features), 0.5 * math.pi, 0.0, slower)
        return self.mixture.value(features, y, departure)

    def table(self, features: Tensor) -> Tensor:
        return torch.cat([self._table(part) for part in features.split(AT_ONCE)])

    def _table(self, features: Tensor) -> Tensor:
        condition = self.conditions(features)
        some = NODES[::SPARSE].to(features).expand(*condition.shape[:2], -1)
        moved = self._flow(some, condition[..., None, :], 0.5 * math.pi, 0.0) - some
        y = NODES.to(features) + F.interpolate(moved, len(NODES), mode="linear", align_corners=True)
        # The exact flow is monotone; rounding and a coarse step must not undo that.
        return interpolate(self.mixture.table(features), y.movedim(-1, 0)).movedim(0, -1).cummax(-1).values

    def _flow(
        self, v: Tensor, condition: Tensor, start: float, end: float, departure: Maybe = None
    ) -> Tensor:  # departure: like v, and 0 lets it stay
        h = (end - start) / self.steps
        way = h if departure is None else h * departure
        for step in range(self.steps):
            theta = torch.full((), start + step * h, dtype=v.dtype, device=v.device)
            k1 = self.velocity(v, theta.expand_as(v), condition)
            k2 = self.velocity(v + 0.5 * way * k1, (theta + 0.5 * h).expand_as(v), condition)
            k3 = self.velocity(v + 0.5 * way * k2, (theta + 0.5 * h).expand_as(v), condition)
            k4 = self.velocity(v + way * k3, (theta + h).expand_as(v), condition)
            v = v + way / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return v


def _pick(part: Tensor, channel: Tensor) -> Tensor:  # (P, C, ...), (P,) -> (P, ...)
    return part[torch.arange(len(channel), device=channel.device), channel]


LAWS: dict[str, type[Law]] = {law.name: law for law in (MixtureLaw, DiffusionLaw)}
