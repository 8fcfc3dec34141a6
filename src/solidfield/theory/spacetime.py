"""A covariance in space and time, and kriging with the nearest readings under it.

    C(h, u) = c + sum_j a_j exp(-(|h - v_j u| / l_j)^q_j) exp(-(|u| / t_j)^p_j),      0 < p, q <= 2

for a displacement h and a time u: a level that stays, and components of their own reach, duration and drift, so that
space and time need not separate and what the wind carries is where the wind has carried it. Each factor is positive
definite, so the sum is. Around a periodic axis h is the chord, (L / pi) sin(pi h / L): the length of the way around
would not leave it positive definite. A reading has an error of its own besides: nugget + its own variance.

On a grid of degrees whose columns are of different widths (`globe`), |h| is the chord below the great circle between
latitudes a and b, which is a straight distance in space, so C stays positive definite,

    |h|^2 = 4 R^2 (sin^2((b - a) / 2) + cos a cos b sin^2(dlon / 2)).

Several variables have components of the same shapes; variables c and d share sqrt(a_jc a_jd) r_jcd of component j,
where r_j is a correlation matrix, learned from no correlation at all (a linear model of coregionalisation: positive
definite as a sum of products that are).

The law of a value given the k readings that the covariance finds nearest is Gaussian,

    w = K^-1 c,   m = w . y,   s^2 = C(0) + nugget - w . c,

where K may hold, besides, a variance o for every two readings of one sensor: its offset, constant within a question's
window and unlike that of any other (`offsets`; a random effect, so estimates of it are shrunk). The law of what a
sensor reads has it, too: o in C(0), and in c for its own readings. The law of the field has neither, so a map leaves
offsets out,

and the parameters maximise the likelihood of observed targets under just these laws, given what their questions know
(a composite likelihood; Vecchia 1988, Stein, Chi and Welty 2004): what is fitted is what is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..grid import RADIUS, Grid, narrowing
from .covariance_table import Covariance, CovarianceTable, linked, pairwise
from .gaussian import root_of

TABLE = 2**24  # entries of a table of all covariances of a map, 64 MB; beyond, of those of neighbours,
NEAR = 2**22  # ... of which a table has so many, 16 MB: what a processor keeps at hand
TINY = 1e-3  # of a length or a duration: keeps gradients finite at zero
STEPS, RATE = 150, 0.05  # of the fit
FLAT_EARTH = 1.1  # the widest column over the narrowest: up to here all are as wide as in the middle


@dataclass(frozen=True)
class Known:
    """The readings nearest to each target, in the order of their covariance with it."""

    values: Tensor  # (B, k) standardised, zeros where there are fewer
    errors: Tensor  # (B, k) variances of their errors
    offset: Tensor  # (B, k, 3) int64: frames, rows and columns from the target to the reading
    valid: Tensor  # (B, k) bool
    channel: Tensor | None = None  # (B, k) int64; None: there is one variable
    asked: Tensor | None = None  # (B,) int64: the target's variable
    row: Tensor | None = None  # (B,) int64: the target's row, which says how wide columns are on the globe
    heard: Tensor | None = None  # (B, k) 1, and less of those that fade out; None: nothing fades

    @property
    def late(self) -> Tensor:  # (B,)
        """Frames between the target and the reading nearest to it in time; none where nothing is known."""
        frames = torch.where(self.valid, self.offset[..., 0].abs(), self.offset.new_tensor(2**31))
        return torch.where(self.valid.any(1), frames.amin(1), 0)


@dataclass(frozen=True)
class Laws:
    """Gaussian laws of targets, and how they came about."""

    mean: Tensor  # (B,)
    std: Tensor  # (B,)
    weight: Tensor  # (B, k) of the readings
    covariance: Tensor  # (B, k) of the target with each
    against: Tensor  # (B, k) standard deviations from each reading to what all the others say of it; zero: padding
    scale: Tensor  # (B,) the spread as the readings at hand have it (`disagreement.py`); kriging's own is `std`


class SpaceTime(nn.Module):
    """The covariance of variables on a grid, in units of their standard deviations."""

    def __init__(
        self,
        grid: Grid,
        lengths: tuple[float, float],  # size of a cell along (y, x)
        components: int = 6,
        channels: int = 1,
        offsets: bool = False,
        globe: bool = False,  # are distances those of the globe, where that matters? Then `lengths` are in km
    ):
        super().__init__()
        self.grid, self.lengths, self.channels = grid, lengths, channels
        self.globe = globe and narrowing(grid) > FLAT_EARTH
        span = math.hypot(*(n * size for n, size in zip(grid.shape, lengths, strict=True)))
        reach = torch.logspace(-2, 0, components) * span
        self.reach = nn.Parameter(reach.log())
        self.duration = nn.Parameter(torch.logspace(0.3, 1.5, components).log())  # frames
        self.share = nn.Parameter(torch.full((channels, components), -math.log(components)))
        self.bend = nn.Parameter(torch.zeros(2, components))  # of the exponents q, p: 2 sigmoid
        self.drift = nn.Parameter(torch.zeros(components, 2))  # cells a frame
        self.level = nn.Parameter(torch.full((channels,), -3.0))
        self.noise = nn.Parameter(torch.full((channels,), -4.5))
        self.apart = nn.Parameter(torch.full((channels,), -4.0)) if offsets else None
        self.tie = nn.Parameter(
            torch.eye(channels).repeat(components + 1, 1, 1)
        )  # rows of a root of each r_j, level last

    @property
    def nugget(self) -> Tensor:  # (C,)
        return self.noise.exp() + 1e-5

    @property
    def offset(self) -> Tensor:  # (C,)
        """The variance of sensors' offsets."""
        return torch.zeros(self.channels) if self.apart is None else self.apart.exp()

    @property
    def variance(self) -> Tensor:  # (C,)
        """C(0) of every variable, without errors of reading."""
        every = torch.arange(self.channels)
        return self(torch.zeros(self.channels, 3), linked(every, every, self.channels))

    def shared(self) -> Tensor:  # (C * C, components + 1)
        """What two variables share of every component, the level last."""
        root = (torch.cat([self.share, self.level[:, None]], 1) / 2).exp().T  # (components + 1, C)
        rows = nn.functional.normalize(self.tie, dim=-1)
        return (root[:, :, None] * root[:, None] * (rows @ rows.mT)).flatten(1).T

    def forward(
        self,
        offset: Tensor,  # (..., 3) frames, rows, columns
        link: Tensor | None = None,  # (...) the two variables (`linked`); None: both the first
        row: Tensor | None = None,  # (...) where offsets begin; None: in the middle of the grid
    ) -> Tensor:  # (...)
        frames = offset[..., :1].to(self.reach.dtype)
        steps = [offset[..., 1 + axis : 2 + axis] - frames * self.drift[:, axis] for axis in (0, 1)]
        apart = self._on_globe(offset, steps, row) if self.globe else self._on_plane(steps)
        distance = (apart + (TINY * self.reach.exp()).square()).sqrt()
        q, p = 2 * self.bend.sigmoid()
        away = (distance / self.reach.exp()) ** q + (frames.abs() / self.duration.exp() + TINY) ** p
        shared = self.shared()
        shared = shared[0] if link is None else shared[link]
        return ((-away).exp() * shared[..., :-1]).sum(-1) + shared[..., -1]

    def _on_plane(self, steps: Sequence[Tensor]) -> Tensor:  # of (..., components) -> the same
        """Squared distances; along a periodic axis the chord."""
        total = torch.zeros(())
        for step, size, length, wraps in zip(steps, self.lengths, self.grid.shape, self.grid.periodic, strict=True):
            way = (math.pi / length * step).sin() * length / math.pi if wraps else step
            total = total + (way * size).square()
        return total

    def _on_globe(self, offset: Tensor, steps: Sequence[Tensor], row: Tensor | None) -> Tensor:  # as `_on_plane`
        origin, spacing = math.radians(self.grid.origin[0]), [math.radians(step) for step in self.grid.spacing]
        first = torch.tensor((self.grid.shape[0] - 1) / 2) if row is None else row
        here, there = (origin + spacing[0] * at for at in (first, first + offset[..., 1]))
        wide = (here.cos() * there.cos()).clamp_min(0)[..., None]
        down, along = ((0.5 * angle * step).sin().square() for angle, step in zip(spacing, steps, strict=True))
        return (2 * RADIUS) ** 2 * (down + wide * along)

    def between(
        self, offset: Tensor, channel: Tensor | None = None, row: Tensor | None = None
    ) -> Tensor:  # (B, k, 3), (B, k), (B,) -> (B, k, k)
        """The covariances of readings with one another; `row`: of the targets that offsets begin at."""
        first = None if row is None else (row[:, None] + offset[..., 1])[:, :, None]
        return self(offset[:, None, :] - offset[:, :, None], pairwise(channel, self.channels), first)

    def lookup(self, frames: int) -> Covariance:
        """C of whole offsets up to so many frames: a table, of a large map one of the offsets of neighbours.

        On the globe it is computed: there C depends on where an offset begins, too.
        """
        height, width = self.grid.shape
        entries = self.channels**2 * (2 * frames + 1) * (2 * height - 1) * (2 * width - 1)
        most = None if entries <= TABLE else NEAR
        return self if self.globe else CovarianceTable(self, self.grid, frames, self.channels, most)

    def fit(
        self,
        targets: Callable[[int, Covariance], tuple[Known, Tensor, Tensor]],
        frames: int,
        steps: int = STEPS,
    ) -> float:
        """Maximise the likelihood of targets.

        `targets(step, C)` gives a batch: its readings nearest under C, its values, the variances of their errors.
        """
        self.requires_grad_(True)
        optimiser = torch.optim.Adam(self.parameters(), RATE)
        loss = torch.zeros(())
        for step in range(steps):
            if step % max(1, steps // 3) == 0:
                look = self.lookup(frames)
            known, values, errors = targets(step, look)
            law = krige(self, known, self)
            std = (law.std.square() + errors).sqrt()  # of the reading, not of the field alone
            loss = (std.log() + 0.5 * ((values - law.mean) / std).square()).mean()
            optimiser.zero_grad()
            loss.backward()
            steepness = nn.utils.clip_grad_norm_(self.parameters(), 10.0)
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - step / steps) + 0.002
            if bool(steepness.isfinite()):  # a batch that can hardly be factored teaches nothing
                optimiser.step()
        self.requires_grad_(False)
        return float(loss.detach())


def krige(model: SpaceTime, known: Known, covariance: Covariance, as_read: bool = True) -> Laws:
    """The Gaussian law of each target given its nearest readings: as a sensor reads it, or of the field."""
    valid = known.valid
    both = valid[:, :, None] & valid[:, None, :]
    k = covariance.between(known.offset, known.channel, known.row) * both
    nugget, variance, link = model.nugget, model.variance, None
    if known.channel is not None and known.asked is not None:
        link = linked(known.asked[:, None], known.channel, model.channels)
        noise, nugget, variance = nugget[known.channel], nugget[known.asked], variance[known.asked]
    else:
        noise = nugget
    extra = torch.where(valid, noise + known.errors, 1.0)  # padding: unit rows without effect
    c = covariance(known.offset, link, None if known.row is None else known.row[:, None]) * valid
    if model.apart is not None:
        among, toward, own = _offsets(model.offset, known)
        k = k + among
        c, variance = (c + toward, variance + own) if as_read else (c, variance)
    factor = root_of(k + torch.diag_embed(extra))
    weight = torch.cholesky_solve(c[..., None], factor)[..., 0]
    mean = (weight * known.values).sum(1)
    std = (variance + nugget - (weight * c).sum(1)).clamp_min(1e-6).sqrt()
    return Laws(mean, std, weight, c, _against(factor, known), std)


@torch.no_grad()
def _against(factor: Tensor, known: Known) -> Tensor:  # (B, k, k), the Cholesky factor of K -> (B, k)
    inverse = torch.cholesky_inverse(factor)
    off = (inverse @ known.values[..., None])[..., 0]
    return off * inverse.diagonal(dim1=1, dim2=2).rsqrt() * known.valid


def _offsets(variance: Tensor, known: Known) -> tuple[Tensor, Tensor, Tensor]:  # (C,) -> (B, k, k), (B, k), (B,)
    """What sensors' offsets add to the covariances of readings, with what is read at the target, and to that itself."""
    place, nothing = known.offset[..., 1:], torch.zeros_like(known.offset[..., 0])
    mine = nothing if known.channel is None else known.channel
    asked = nothing[:, 0] if known.asked is None else known.asked
    one = (place[:, :, None] == place[:, None]).all(-1) & (mine[:, :, None] == mine[:, None])
    both = known.valid[:, :, None] & known.valid[:, None]
    here = (place == 0).all(-1) & (mine == asked[:, None]) & known.valid
    own = variance[asked]
    return variance[mine][:, :, None] * (one & both), own[:, None] * here, own
