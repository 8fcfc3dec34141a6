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

`independent`  white noise.

Where readings and cells are many, those of `conditioned` are explained by the readings near them (`nearby.py`), and the
field g is of a whole member all the same: sd(p) is that of the very readings used, so latents stay N(0, 1).

All are fitted to the latents of co-observed targets of held-out examples by the likelihood of random subsets of at
most SUBSET targets of an example (a composite likelihood; whole where fewer are observed). Several channels share
the dependence in space and have a correlation between them, z_c = sum_d L_cd g_d with L L' the channels'
correlation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import SolidError
from ..fields import Source
from ..grid import Grid
from ..keys import torch_generator
from ..noise import Noise
from .gaussian import Given, between, unrolled
from .nearby import BOX, CROP, cut, nearby


def descend(module: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float) -> list[float]:
    """Lower the loss of every step, such as that of a random part of the data; returns what it was."""
    optimiser = torch.optim.Adam(module.parameters(), rate)
    history = []
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        found = loss(step)
        optimiser.zero_grad()
        found.backward()
        steepness = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        if bool(steepness.isfinite()):  # a matrix that can hardly be factored teaches nothing
            optimiser.step()
        history.append(found.item())
    return history


SCALES = (0.0, 0.5, 0.8, 1.2, 1.8, 2.7, 4.0, 6.0, 9.0)  # in cells; 0 is white
SUBSET = 64
JITTER = 1e-4
DENSE = 2**21  # readings x cells up to which every cell hears every reading ...
TILE = 16  # cells a side of the tiles that else hear the nearest
NEAREST = 240  # of the readings; 256 would fall on few lines of caches
AT_ONCE = 16  # tiles whose matrices are in memory together: few, so that they stay in the cache


@dataclass(frozen=True)
class Latents:
    """The latents of one example's observed targets of one variable, and what they may depend on."""

    z: Tensor  # (n,)
    cells: Tensor  # (n,) flat cell indices
    sensors: Tensor  # (m,) flat cell indices of the source's readings of that variable
    lead: float


class Torus:
    """The padded grid on which noise is smoothed, and the kernels kappa_s on it."""

    def __init__(self, grid: Grid, scales: Sequence[float]):
        reach = math.ceil(6 * max(scales))  # where the widest kernel has fallen to exp(-9)
        self.shape = tuple(n if wraps else n + reach for n, wraps in zip(grid.shape, grid.periodic, strict=True))
        self.grid, self.scales = grid.shape, scales

    def spectrum(self, s: float) -> Tensor:  # (H', W'), of mean 1: unit variance
        along = [torch.exp(-((2 * math.pi * torch.fft.fftfreq(n)) ** 2) * s**2) for n in self.shape]
        power = along[0][:, None] * along[1]  # |transform of a Gaussian of width s|^2 is that of width sqrt(2) s
        return power / power.mean()

    @cached_property
    def spectra(self) -> Tensor:  # (S, H', W')
        return torch.stack([self.spectrum(s) for s in self.scales]).float()

    @cached_property
    def kernels(self) -> Tensor:  # (S, H', W'), kappa_s by lag
        return torch.fft.ifft2(self.spectra.double()).real.float()

    @cached_property
    def table(self) -> Tensor:  # (S, 2 H - 1, 2 W - 1)
        """For `between`."""
        return unrolled(self.kernels, self.grid)

    def smooth(self, white: Tensor, power: Tensor) -> Tensor:  # (..., H', W') -> (..., H, W)
        """White noise with this power spectrum (mean 1), cropped to the grid."""
        half = power[..., : self.shape[1] // 2 + 1].sqrt()
        field = torch.fft.irfft2(torch.fft.rfft2(white) * half, s=self.shape)
        return field[..., : self.grid[0], : self.grid[1]]


class Copula(nn.Module, ABC):
    name: ClassVar[str]

    def __init__(self, grid: Grid, channels: int):
        super().__init__()
        # A scale much longer than the grid cannot be told from a constant, and its padding would cost the most.
        scales = [s for s in SCALES if s <= max(grid.shape) / 4]
        self.grid, self.channels, self.scales = grid, channels, len(scales)
        self.torus = Torus(cut(grid, CROP), scales)  # of a large grid, that of a crop
        _ = self.torus.table  # made here, so that no draw pays for it
        self.register_buffer("mixing", torch.eye(channels))  # L, rows of unit length
        self.mixing: Tensor

    @abstractmethod
    def correlation(self, latents: Latents) -> Tensor:  # (n, n)
        """The correlation of an example's latents: what the fit maximises the likelihood of."""

    @abstractmethod
    def draw(self, source: Source, noise: Noise, rows: slice) -> Tensor:  # (K, B, C, h, W)
        """Latent fields, N(0, 1) at every cell of these rows of the map, before the channels are mixed."""

    def forward(self, source: Source, noise: Noise, rows: slice | None = None) -> Tensor:  # (K, B, C, h, W)
        fields = self.draw(source, noise, rows or slice(0, source.values.shape[-2]))
        return torch.einsum("cd,kbdhw->kbchw", self.mixing, fields)

    def fit(self, examples: Sequence[Latents], steps: int = 300, lr: float = 0.05, seed: int = 0) -> list[float]:
        """Maximise the composite likelihood of the examples' latents; returns the loss at every step."""
        usable = [e for e in examples if len(e.z) >= 2]
        if not usable or not any(p.requires_grad for p in self.parameters()):
            return []
        scale = torch.cat([e.z for e in usable]).std().clamp_min(0.1)  # dependence is fitted, not spread

        def loss(step: int) -> Tensor:
            generator = torch_generator(seed, "copula", step)
            rows = torch.randint(len(usable), (8,), generator=generator).tolist()
            return torch.stack([self._nll(_subset(usable[row], generator), scale) for row in rows]).mean()

        return descend(self, loss, steps, lr)

    def _nll(self, latents: Latents, scale: Tensor) -> Tensor:
        rho = self.correlation(latents).double()  # smooth kernels are nearly singular: float32 would not do
        factor = torch.linalg.cholesky((rho + JITTER * torch.eye(len(rho))) / (1 + JITTER))
        white = torch.linalg.solve_triangular(factor, (latents.z / scale).double()[:, None], upper=False)
        return (0.5 * white.square().sum() + factor.diagonal().log().sum()) / len(rho)


class Independent(Copula):
    name = "independent"

    def correlation(self, latents: Latents) -> Tensor:
        return torch.eye(len(latents.z))

    def draw(self, source: Source, noise: Noise, rows: slice) -> Tensor:
        return noise(source.values.shape[1:])[..., rows, :]


class Stationary(Copula):
    name = "stationary"

    def __init__(self, grid: Grid, channels: int):
        super().__init__(grid, channels)
        self.logits = nn.Parameter(torch.zeros(2, self.scales))  # one row to reconstruct, one to forecast

    def weights(self, lead: Tensor) -> Tensor:  # (...,) -> (..., S)
        return self.logits.softmax(-1)[(lead > 0).long()]

    def prior(self, latents: Latents, p: Tensor, q: Tensor) -> Tensor:  # (n, m)
        weights = self.weights(torch.tensor(latents.lead))
        return torch.einsum("s,snm->nm", weights, between(self.torus.table, p, q))

    def correlation(self, latents: Latents) -> Tensor:
        return self.prior(latents, latents.cells, latents.cells)

    def draw(self, source: Source, noise: Noise, rows: slice) -> Tensor:
        return self._fields(source, noise)[..., rows, :]

    def _fields(self, source: Source, noise: Noise) -> Tensor:  # (K, B, C, H, W), before anything is read
        weights = self.weights(source.lead)  # (B, S)
        if source.values.shape[-2:] == self.torus.grid:
            power = torch.einsum("bs,shw->bhw", weights, self.torus.spectra.to(weights))
            return self.torus.smooth(noise((self.channels, *self.torus.shape)), power[:, None])
        whole = Torus(self.grid, self.torus.scales)  # large: nothing of it is kept, and members come one by one
        each = zip(weights.T, whole.scales, strict=True)
        power = sum(w[:, None, None] * whole.spectrum(s).to(weights) for w, s in each)  # (B, H', W')
        white = noise((self.channels, *whole.shape))
        return torch.stack([whole.smooth(one, power[:, None]) for one in white])


class Conditioned(Stationary):
    name = "conditioned"

    def __init__(self, grid: Grid, channels: int):
        super().__init__(grid, channels)
        self.log_nu = nn.Parameter(torch.zeros(2))

    def _nugget(self, lead: Tensor) -> Tensor:
        return (2 * self.log_nu).exp()[(lead > 0).long()] + JITTER

    def correlation(self, latents: Latents) -> Tensor:
        around = self.prior(latents, latents.cells, latents.cells)
        if len(latents.sensors) == 0:
            return around
        across = self.prior(latents, latents.sensors, latents.cells).double()  # (m, n)
        among = self.prior(latents, latents.sensors, latents.sensors)
        left = Given.of(among, self._nugget(torch.tensor(latents.lead))).covariance(across, around.double())
        sd = left.diagonal().clamp_min(JITTER).sqrt()
        return (left / sd[:, None] / sd).float()

    def draw(self, source: Source, noise: Noise, rows: slice) -> Tensor:
        fields = self._fields(source, noise)  # (K, B, C, H, W)
        eta = noise(source.values.shape[1:])
        for b, lead in enumerate(source.lead):
            for c in range(fields.shape[2]):
                mask, field = source.mask[b, c], fields[:, b, c]
                count = int(mask.sum())
                if count == 0:
                    continue
                nugget = self._nugget(lead)
                if count * mask.numel() > DENSE or mask.shape != self.torus.grid:
                    reading = field[:, mask] + nugget.sqrt() * eta[:, b, c, mask]  # (K, m)
                    self._explain(field, reading, mask, lead, rows)
                    continue
                table = torch.einsum("s,shw->hw", self.weights(lead), self.torus.table.to(fields))
                sensors = mask.flatten().nonzero()[:, 0]
                across = between(table, sensors, torch.arange(mask.numel(), device=mask.device)).double()  # (m, HW)
                given = Given.of(across[:, sensors], nugget)
                own = field.flatten(1).double()
                reading = own[:, sensors] + nugget.sqrt() * eta[:, b, c, mask]  # (K, m), by Matheron's rule
                explained = given.solve(reading.T).T @ across
                sd = given.variance(across, 1.0).clamp_min(JITTER).sqrt()
                fields[:, b, c] = ((own - explained) / sd).to(fields.dtype).view_as(field)
        return fields[..., rows, :]

    def _explain(
        self,
        field: Tensor,  # (K, H, W), changed in place
        reading: Tensor,  # (K, m)
        mask: Tensor,  # (H, W) bool
        lead: Tensor,
        rows: slice,
    ) -> None:
        """The same by the readings near each tile, tile by tile."""
        kernels = Torus(cut(self.grid, BOX), self.torus.scales).kernels.to(field)
        table = torch.einsum("s,shw->hw", self.weights(lead), unrolled(kernels, (BOX, BOX)))
        periodic = self.grid.periodic if mask.shape == self.grid.shape else cut(self.grid, CROP).periodic
        nugget, asked = self._nugget(lead), reading.T
        for near in nearby(mask, periodic, TILE, NEAREST, rows, slice(0, mask.shape[1])):
            explained, sd = [], []
            for some in torch.arange(len(near.site)).split(AT_ONCE):
                place = near.place[some]
                given = Given.of(between(table, place, place), nugget, near.valid[some])
                half = given.whitened(between(table, place, near.cells))  # (T, n, t)
                explained.append(given.whitened(asked[near.site[some]]).mT @ half)  # (T, K, t)
                sd.append((1 - half.square().sum(1)).clamp_min(JITTER).sqrt())  # (T, t)
            part = field[:, near.rows, near.columns]
            part.sub_(near.unfold(torch.cat(explained).transpose(0, 1))).div_(near.unfold(torch.cat(sd)))


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
    return Latents(latents.z[some], latents.cells[some], latents.sensors, latents.lead)


COPULAS: dict[str, type[Copula]] = {c.name: c for c in (Independent, Stationary, Conditioned)}


def make_copula(name: str, grid: Grid, channels: int) -> Copula:
    if name not in COPULAS:
        raise SolidError(f"unknown copula '{name}'; choose one of {', '.join(COPULAS)}")
    return COPULAS[name](grid, channels)
