"""The joint law of maps at several leads, given a window of readings: latent fields on (time, y, x).

As the conditioned copula of `copula.py`, with time as a third axis: what is left of a Gaussian field g of covariance C
(`spacetime.py`) once noisy readings r = g + nu eta of the window are explained, in units of its own standard deviation,

    z(p, t) = [g(p, t) - c_pt' (C_rr + nu^2)^{-1} r] / sd(p, t),

so that members are trajectories: short dependence near a sensor and soon after it, long dependence in a void. With
the field's own covariance and nu = 0 it is exact for a Gaussian field. It starts from the covariance of the prior and
is fitted, with nu, to the latents of held-out targets of all leads of a source, by the likelihood of random subsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..fields import Source
from ..grid import Grid
from ..keys import torch_generator
from ..noise import Noise
from .copula import descend
from .covariance_table import CovarianceTable
from .gaussian import Given, root_of
from .spacetime import SpaceTime

SUBSET = 96  # latents whose likelihood is computed at a time
MOST = 1000  # readings that are conditioned on: the newest
JITTER = 1e-4
STEPS, RATE = 120, 0.03  # of the fit


@dataclass(frozen=True)
class TrajectoryLatents:
    """The latents of one variable at the targets of all leads of a source; frames count from the source's."""

    z: Tensor  # (n,)
    places: Tensor  # (n, 3) int64: frame, row, column
    known: Tensor  # (m, 3) int64: of the window's readings


class TrajectoryCopula(nn.Module):
    """Latents N(0, 1) at every cell and lead, that hang together in space and time."""

    def __init__(self, grid: Grid, channels: int, lengths: tuple[float, float]):
        super().__init__()
        self.grid = grid
        self.covariance = SpaceTime(grid, lengths)  # one for all channels
        self.log_nu = nn.Parameter(torch.tensor(-4.0))
        self.register_buffer("mixing", torch.eye(channels))  # L, rows of unit length; L L' the channels' correlation
        self.mixing: Tensor
        self.boxes: dict[int, _Box] = {}  # by the number of their frames
        self.register_load_state_dict_post_hook(_forget)

    def adopt(self, covariance: SpaceTime) -> None:
        """Start from this covariance."""
        self.covariance.load_state_dict(covariance.state_dict())
        self.boxes = {}

    @property
    def _error(self) -> Tensor:
        """Variance of what a reading does not tell of the field."""
        return self.covariance.nugget + (2 * self.log_nu).exp()

    def correlation(self, latents: TrajectoryLatents) -> Tensor:  # (n, n) float64
        both = torch.cat([latents.known, latents.places])
        whole = self.covariance(both[None] - both[:, None]).double()
        count = len(latents.known)
        among = whole[:count, :count] + self._error.double() * torch.eye(count, dtype=torch.double)
        half = torch.linalg.solve_triangular(root_of(among), whole[:count, count:], upper=False)
        left = whole[count:, count:] - half.T @ half
        left = left + (self.covariance.nugget + JITTER).double() * torch.eye(len(left), dtype=torch.double)
        scale = left.diagonal().clamp_min(JITTER).sqrt()  # around a periodic axis more may be explained than there is
        return left / (scale[:, None] * scale)

    def fit(self, examples: Sequence[TrajectoryLatents], steps: int = STEPS, seed: int = 0) -> list[float]:
        """Maximise the composite likelihood of held-out latents; returns the loss at every step."""
        usable = [e for e in examples if len(e.z) >= 2]
        if not usable:
            return []
        scale = torch.cat([e.z for e in usable]).std().clamp_min(0.1)  # dependence is fitted, not spread

        def loss(step: int) -> Tensor:
            generator = torch_generator(seed, "trajectory copula", step)
            rows = torch.randint(len(usable), (4,), generator=generator).tolist()
            return torch.stack([self._surprise(_subset(usable[row], generator), scale) for row in rows]).mean()

        self.requires_grad_(True)
        history = descend(self, loss, steps, RATE)
        self.requires_grad_(False)
        self.boxes = {}
        return history

    def _surprise(self, latents: TrajectoryLatents, scale: Tensor) -> Tensor:
        factor = root_of(self.correlation(latents))
        white = torch.linalg.solve_triangular(factor, (latents.z / scale).double()[:, None], upper=False)
        return (0.5 * white.square().sum() + factor.diagonal().log().sum()) / len(latents.z)

    @torch.no_grad()
    def forward(
        self,
        source: Source,
        leads: Tensor,  # (B, L)
        noise: Noise,
        furthest: int,  # lead that the box reaches, so that noise does not depend on what else is asked for
    ) -> Tensor:  # (K, B, L, C, H, W)
        frames = source.frames
        window, channels, height, width = frames.mask.shape[1:]
        furthest = max(furthest, int(leads.max()), 0)
        box = self._box(window + furthest)
        field = box.smooth(noise((channels, *box.sizes)), window + furthest)[..., :height, :width]
        eta = noise((channels, window, height, width))
        own = self.covariance.nugget.sqrt() * noise((channels, leads.shape[1], height, width))
        z = torch.empty(*field.shape[:2], leads.shape[1], channels, height, width)
        same: tuple[Tensor, Tensor] | None = None
        for b in range(len(source)):
            for c in range(channels):
                asked = (frames.mask[b, :, c], leads[b])
                if same is None or not all(map(torch.equal, same, asked)):  # members of a rollout share their sensors
                    same, told = asked, self._told(box.look, *asked)
                k, y, x = told.site
                when = window - 1 - k  # frames of the box count from the oldest of the window
                reading = field[:, b, c, when, y, x] + self._error.sqrt() * eta[:, b, c, k, y, x]
                ahead = field[:, b, c, (leads[b] + window - 1).long()].flatten(1) + own[:, b, c].flatten(1)
                explained = told.given.solve(reading.double().T).T.float() @ told.across
                z[:, b, :, c] = ((ahead - explained) / told.sd).unflatten(1, (-1, height, width))
        return torch.einsum("cd,kbldhw->kblchw", self.mixing, z)

    def _told(self, look: CovarianceTable, mask: Tensor, leads: Tensor) -> _Told:  # (W, H, W) bool, (L,)
        site = mask.nonzero()[:MOST]  # newest first
        known = look.along(site * torch.tensor([-1, 1, 1]))
        cells = look.places(torch.arange(self.grid.cells), self.grid.shape[1])
        asked = (leads.long()[:, None] * look.strides[0] + cells).flatten()
        given = Given.of(look.at(known[:, None] - known), float(self._error) + JITTER)
        across = look.at(known[:, None] - asked)
        nugget = float(self.covariance.nugget)
        variance = given.variance(across, float(self.covariance.variance) + nugget)
        k, y, x = site.T
        return _Told((k, y, x), given, across, variance.clamp_min(JITTER).sqrt())

    def _box(self, frames: int) -> _Box:
        if frames not in self.boxes:
            axes = zip(self.grid.shape, self.grid.periodic, strict=True)
            sizes = [2 * frames, *(n if wraps else 2 * n for n, wraps in axes)]
            steps = [torch.fft.fftfreq(n, 1 / n).round().long() for n in sizes]
            offsets = torch.stack(torch.meshgrid(*steps, indexing="ij"), -1).flatten(0, 2)
            kernel = torch.cat([self.covariance(part) for part in offsets.split(2**18)]).reshape(sizes)
            spectrum = torch.fft.fftn(kernel.double()).real.clamp_min(0)
            spectrum *= float(self.covariance.variance) / float(spectrum.mean())  # what clipping added is taken off
            drawn = torch.fft.ifftn(spectrum).real.float()  # the covariance of what is drawn, to condition it by

            def at(offset: Tensor) -> Tensor:
                frame, row, column = (offset % torch.tensor(sizes)).unbind(-1)
                return drawn[frame, row, column]

            look = CovarianceTable(at, self.grid, frames - 1)
            self.boxes[frames] = _Box(sizes, look, spectrum[..., : sizes[2] // 2 + 1].sqrt().float())
        return self.boxes[frames]


@dataclass(frozen=True)
class _Box:
    """Where noise becomes a field: twice as long as what is asked for along every axis that does not wrap."""

    sizes: list[int]
    look: CovarianceTable
    root: Tensor  # of the spectrum, its non-negative half along the last axis

    def smooth(self, white: Tensor, frames: int) -> Tensor:
        """The first frames of white noise with this spectrum; time is undone first, so that only they are."""
        spectrum = torch.fft.rfftn(white, dim=(-3, -2, -1)) * self.root
        spectrum = torch.fft.ifft(spectrum, dim=-3)[..., :frames, :, :]
        return torch.fft.irfftn(spectrum, s=self.sizes[1:], dim=(-2, -1))


@dataclass(frozen=True)
class _Told:
    """What the sensors of a query say of the cells that are asked for."""

    site: tuple[Tensor, Tensor, Tensor]  # frames back, rows and columns of the readings
    given: Given
    across: Tensor  # (m, N)
    sd: Tensor  # (N,)


def _forget(copula: TrajectoryCopula, keys: object) -> None:
    """Tables of other weights are of no use."""
    copula.boxes = {}


def _subset(latents: TrajectoryLatents, generator: torch.Generator) -> TrajectoryLatents:
    some = torch.randperm(len(latents.z), generator=generator)[:SUBSET]
    return TrajectoryLatents(latents.z[some], latents.places[some], latents.known)
