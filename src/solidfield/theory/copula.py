"""The joint law: latent fields z with N(0, 1) at every cell and the dependence that observed targets show.

The marginals are the laws' business (`laws.py`); a copula only says how the latents of two cells hang together. All
correlations are built from Gaussian smoothings of white noise, kappa_s(r) = exp(-r^2 / (4 s^2)) at scales s of a
few cells on the torus (closed axes are padded, so that nothing wraps), which is positive definite whatever the
weights:

`stationary`   rho(r) = sum_s w_s kappa_s(r), weights on the simplex. One draw is one FFT.

`conditioned`  what is left of such a field g once noisy readings g(i) + nu eta_i at the sensors are explained,
                   z(p) = [g(p) - k_p' (K + nu^2)^{-1} (g + nu eta)] / sd(p),    sd(p)^2 = 1 - k_p' (K + nu^2)^{-1} k_p,
               so that dependence is short near a sensor and long in a void, as in any posterior; exact for a
               Gaussian field at lead 0, and `stationary` again as nu grows.

`varying`      z(p) = sum_s a_s(p) (g_s * w_s)(p) with sum_s a_s(p)^2 = 1 predicted from the encoder's features.

`independent`  white noise.

All are fitted to the latents of co-observed targets of held-out examples by the likelihood of random subsets of at
most SUBSET targets of an example (a composite likelihood; whole where fewer are observed). Several channels share
the dependence in space and have a correlation between them, z_c = sum_d L_cd g_d with L L' the channels'
correlation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import SolidError
from ..fields import Source
from ..grid import Grid
from ..keys import torch_generator
from ..noise import Noise

SCALES = (0.0, 0.5, 0.8, 1.2, 1.8, 2.7, 4.0, 6.0, 9.0)  # in cells; 0 is white
SUBSET = 64
JITTER = 1e-4


@dataclass(frozen=True)
class Latents:
    """The latents of one example's observed targets of one variable, and what they may depend on."""

    z: Tensor  # (n,)
    cells: Tensor  # (n,) flat cell indices
    sensors: Tensor  # (m,) flat cell indices of the source's readings of that variable
    features: Tensor  # (n, F)
    lead: float


class Torus:
    """The padded grid on which noise is smoothed, and the kernels kappa_s on it."""

    def __init__(self, grid: Grid, scales: Sequence[float]):
        reach = math.ceil(6 * max(scales))  # where the widest kernel has fallen to exp(-9)
        self.shape = tuple(n if wraps else n + reach for n, wraps in zip(grid.shape, grid.periodic, strict=True))
        self.grid = grid.shape
        spectra = []
        for s in scales:
            along = [torch.exp(-((2 * math.pi * torch.fft.fftfreq(n)) ** 2) * s**2) for n in self.shape]
            power = along[0][:, None] * along[1]  # |transform of a Gaussian of width s|^2 is that of width sqrt(2) s
            spectra.append(power / power.mean())
        self.spectra = torch.stack(spectra).float()  # (S, H', W'), each of mean 1: unit variance
        self.kernels = torch.fft.ifft2(self.spectra.double()).real.float()  # (S, H', W'), kappa_s by lag

    def correlation(self, p: Tensor, q: Tensor) -> Tensor:  # (..., n), (..., m) -> (S, ..., n, m)
        """kappa_s between cells given by flat indices of the grid."""
        dy, dx = self.lags(p, q)
        return self.kernels[:, dy, dx]

    def lags(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:  # two of (..., n, m)
        """From each cell q to each cell p, around the torus."""
        width = self.grid[1]
        dy = (p[..., :, None] // width - q[..., None, :] // width) % self.shape[0]
        dx = (p[..., :, None] % width - q[..., None, :] % width) % self.shape[1]
        return dy, dx

    def smooth(self, white: Tensor, power: Tensor) -> Tensor:  # (..., H', W') -> (..., H, W)
        """White noise with this power spectrum (mean 1), cropped to the grid."""
        half = power[..., : self.shape[1] // 2 + 1].sqrt()
        field = torch.fft.irfft2(torch.fft.rfft2(white) * half, s=self.shape)
        return field[..., : self.grid[0], : self.grid[1]]


class Copula(nn.Module, ABC):
    name: ClassVar[str]

    def __init__(self, grid: Grid, channels: int, features: int):
        super().__init__()
        # A scale much longer than the grid cannot be told from a constant, and its padding would cost the most.
        scales = [s for s in SCALES if s <= max(grid.shape) / 4]
        self.torus, self.channels, self.scales = Torus(grid, scales), channels, len(scales)
        self.register_buffer("mixing", torch.eye(channels))  # L, rows of unit length
        self.mixing: Tensor

    @abstractmethod
    def correlation(self, latents: Latents) -> Tensor:  # (n, n)
        """The correlation of an example's latents: what the fit maximises the likelihood of."""

    @abstractmethod
    def draw(self, source: Source, features: Tensor, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        """Latent fields, N(0, 1) at every cell, before the channels are mixed."""

    def forward(self, source: Source, features: Tensor, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        return torch.einsum("cd,kbdhw->kbchw", self.mixing, self.draw(source, features, noise))

    def fit(self, examples: Sequence[Latents], steps: int = 300, lr: float = 0.05, seed: int = 0) -> list[float]:
        """Maximise the composite likelihood of the examples' latents; returns the loss at every step."""
        usable = [e for e in examples if len(e.z) >= 2]
        if not usable or not any(p.requires_grad for p in self.parameters()):
            return []
        scale = torch.cat([e.z for e in usable]).std().clamp_min(0.1)  # dependence is fitted, not spread
        optimiser = torch.optim.Adam(self.parameters(), lr)
        history = []
        for step in range(steps):
            optimiser.param_groups[0]["lr"] = lr * 0.5 * (1 + math.cos(math.pi * step / steps))
            generator = torch_generator(seed, "copula", step)
            rows = torch.randint(len(usable), (8,), generator=generator).tolist()
            loss = torch.stack([self._nll(_subset(usable[row], generator), scale) for row in rows]).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            optimiser.step()
            history.append(loss.item())
        return history

    def _nll(self, latents: Latents, scale: Tensor) -> Tensor:
        rho = self.correlation(latents).double()  # smooth kernels are nearly singular: float32 would not do
        factor = torch.linalg.cholesky((rho + JITTER * torch.eye(len(rho))) / (1 + JITTER))
        white = torch.linalg.solve_triangular(factor, (latents.z / scale).double()[:, None], upper=False)
        return (0.5 * white.square().sum() + factor.diagonal().log().sum()) / len(rho)


class Independent(Copula):
    name = "independent"

    def correlation(self, latents: Latents) -> Tensor:
        return torch.eye(len(latents.z))

    def draw(self, source: Source, features: Tensor, noise: Noise) -> Tensor:
        return noise(source.values.shape[1:])


class Stationary(Copula):
    name = "stationary"

    def __init__(self, grid: Grid, channels: int, features: int):
        super().__init__(grid, channels, features)
        self.logits = nn.Parameter(torch.zeros(2, self.scales))  # one row to reconstruct, one to forecast

    def weights(self, lead: Tensor) -> Tensor:  # (...,) -> (..., S)
        return self.logits.softmax(-1)[(lead > 0).long()]

    def prior(self, latents: Latents, p: Tensor, q: Tensor) -> Tensor:  # (n, m)
        weights = self.weights(torch.tensor(latents.lead))
        return torch.einsum("s,snm->nm", weights, self.torus.correlation(p, q))

    def correlation(self, latents: Latents) -> Tensor:
        return self.prior(latents, latents.cells, latents.cells)

    def draw(self, source: Source, features: Tensor, noise: Noise) -> Tensor:
        weights = self.weights(source.lead)  # (B, S)
        power = torch.einsum("bs,shw->bhw", weights, self.torus.spectra.to(weights))
        return self.torus.smooth(noise((self.channels, *self.torus.shape)), power[:, None])


class Conditioned(Stationary):
    name = "conditioned"

    def __init__(self, grid: Grid, channels: int, features: int):
        super().__init__(grid, channels, features)
        self.log_nu = nn.Parameter(torch.zeros(2))

    def _nugget(self, lead: Tensor) -> Tensor:
        return (2 * self.log_nu).exp()[(lead > 0).long()] + JITTER

    def correlation(self, latents: Latents) -> Tensor:
        around = self.prior(latents, latents.cells, latents.cells)
        if len(latents.sensors) == 0:
            return around
        around = around.double()
        across = self.prior(latents, latents.sensors, latents.cells).double()  # (m, n)
        among = self.prior(latents, latents.sensors, latents.sensors).double()
        among = among + self._nugget(torch.tensor(latents.lead)) * torch.eye(len(among))
        left = around - across.T @ torch.linalg.solve(among, across)
        sd = left.diagonal().clamp_min(JITTER).sqrt()
        return (left / sd[:, None] / sd).float()

    def draw(self, source: Source, features: Tensor, noise: Noise) -> Tensor:
        g = super().draw(source, features, noise).flatten(-2)  # (K, B, C, HW)
        eta = noise(source.values.shape[1:]).flatten(-2)
        everywhere = torch.arange(g.shape[-1], device=g.device)
        fields = torch.empty_like(g)
        for b in range(g.shape[1]):
            lead = source.lead[b]
            nugget = self._nugget(lead)
            for c in range(g.shape[2]):
                sensors = source.mask[b, c].flatten().nonzero()[:, 0]
                own = g[:, b, c]
                if len(sensors) == 0:
                    fields[:, b, c] = own
                    continue
                kernel = torch.einsum("s,shw->hw", self.weights(lead), self.torus.kernels.to(g))
                across = kernel[self.torus.lags(sensors, everywhere)]  # (m, HW)
                among = across[:, sensors] + nugget * torch.eye(len(sensors), device=g.device)
                solved = torch.linalg.solve(among.double(), across.double()).float()  # (m, HW)
                sd = (1 - (across * solved).sum(0)).clamp_min(JITTER).sqrt()
                readings = own[:, sensors] + nugget.sqrt() * eta[:, b, c][:, sensors]
                fields[:, b, c] = (own - readings @ solved) / sd
        return fields.unflatten(-1, source.values.shape[-2:])


class Varying(Copula):
    name = "varying"

    def __init__(self, grid: Grid, channels: int, features: int):
        super().__init__(grid, channels, features)
        self.head = nn.Sequential(nn.Linear(features, 32), nn.SiLU(), nn.Linear(32, self.scales))

    def amplitudes(self, features: Tensor) -> Tensor:  # (..., F) -> (..., S), squares sum to 1
        return (0.5 * self.head(features).log_softmax(-1)).exp()  # a square root whose slope stays finite at 0

    def correlation(self, latents: Latents) -> Tensor:
        a = self.amplitudes(latents.features)
        return torch.einsum("ns,snm,ms->nm", a, self.torus.correlation(latents.cells, latents.cells), a)

    def draw(self, source: Source, features: Tensor, noise: Noise) -> Tensor:
        a = self.amplitudes(features.movedim(1, -1)).movedim(-1, 0)[:, None, :, None]  # (S, 1, B, 1, H, W)
        white = noise((self.scales, self.channels, *self.torus.shape)).movedim(2, 0)  # (S, K, B, C, H', W')
        spectra = self.torus.spectra.to(white)[:, None, None, None]
        return (a * self.torus.smooth(white, spectra)).sum(0)


def channel_mixing(
    latents: Sequence[Tensor],
) -> Tensor:  # each (n, C) latents of cells where all channels were observed
    """L with unit rows and L L' the correlation of the channels, shrunk a little so that it is never singular."""
    together = torch.cat(list(latents))
    channels = together.shape[-1]
    rho = torch.eye(channels)
    if len(together) > 10 * channels:
        rho = 0.99 * torch.corrcoef(together.T).reshape(channels, channels) + 0.01 * rho
    return torch.linalg.cholesky(rho)


def _subset(latents: Latents, generator: torch.Generator) -> Latents:
    if len(latents.z) <= SUBSET:
        return latents
    some = torch.randperm(len(latents.z), generator=generator)[:SUBSET]
    return Latents(latents.z[some], latents.cells[some], latents.sensors, latents.features[some], latents.lead)


COPULAS: dict[str, type[Copula]] = {c.name: c for c in (Independent, Stationary, Conditioned, Varying)}


def make_copula(name: str, grid: Grid, channels: int, features: int) -> Copula:
    if name not in COPULAS:
        raise SolidError(f"unknown copula '{name}'; choose one of {', '.join(COPULAS)}")
    return COPULAS[name](grid, channels, features)
