"""The paper's denoising objective as the law of a cell.

The denoiser (Eq. 2) reads x_tau at its own cell only and begins where a mixture ends. The mixture's own latent y of a
value is nearly N(0, 1) by then; what is noised is y, and what is learned is how far it still is from normal. With
tan(theta) = sigma / alpha,

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
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SolidError
from .law import NODES, Law, Maybe, Observed, interpolate, pick
from .mixture import normal_score
from .mixture_law import MixtureLaw

SPARSE = 3  # of so many nodes one is moved by the flow, which is smooth; the others go along
AT_ONCE = 64  # cells whose flow is run together: what it remembers fits into a cache


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

    def loss(self, observed: Observed, generator: torch.Generator) -> Tensor:
        values, shares = observed.values, observed.shares
        log_pi, mu, s = self.mixture.of(replace(observed, shares=None))
        count = math.ceil(self.levels * len(values))  # L in all
        heard = torch.randperm(len(values), generator=generator)[torch.arange(count) % len(values)].to(values.device)
        with torch.no_grad():
            y = normal_score(log_pi[heard], mu[heard], s[heard], values[heard])
        strata = torch.arange(count) + torch.rand(count, generator=generator)
        theta = (0.5 * math.pi * strata / count).clamp(0.02, 0.5 * math.pi - 0.02).to(values).expand(2, -1)  # (2, L)
        eps = torch.randn(count, generator=generator).to(values)
        eps, sin, cos = torch.stack([eps, -eps]), theta.sin(), theta.cos()
        # The encoder learns from the mixture's likelihood, which has no sampling noise; the head takes what it finds.
        condition = pick(self.conditions(observed.features.detach()[heard]), observed.channel[heard])
        g = self.velocity(cos * y + sin * eps, theta, condition)
        zeta = cos * eps - sin * y
        weight = cos / sin if self.weight == "likelihood" else cos**2
        changed = 0.5 * math.pi * (weight * g * (g - 2 * zeta)).mean(0)  # (L,)
        if shares is not None:  # the head reads the features of all networks, and learns what all of them may
            changed = changed * (shares > 0).all(1)[heard]
        own = self.mixture.loss(observed, generator)
        return own.index_add(0, heard, changed * len(values) / max(count, 1))

    def crps(self, observed: Observed) -> Tensor:
        return self.mixture.crps(observed)

    def latent(self, observed: Observed) -> Tensor:
        condition = pick(self.conditions(observed.features), observed.channel)
        return self._flow(self.mixture.latent(observed), condition, 0.0, 0.5 * math.pi, observed.departure)

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
