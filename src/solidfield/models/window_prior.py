"""The prior of a query with a window: kriging in space and time of the readings of all its frames, at any lead.

The covariance is that of `theory/spacetime.py`, fitted by likelihood to the targets of training pairs given the
readings nearest to them. The grid falls into tiles whose cells share the readings with the largest covariance with the
tile's centre at the time that is asked for, so that drift is followed: one Cholesky factor a tile, and a cost that is
linear in the cells. Where a tile uses all readings the law is exact for a Gaussian field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..fields import Pair, Source
from ..forecast import Spec
from ..grid import lengths
from ..keys import torch_generator
from ..theory.covariance_table import Covariance, CovarianceTable
from ..theory.gaussian import Given
from ..theory.spacetime import STEPS, Known, SpaceTime
from .prior import LEAST_SPREAD, assembled, cells_of, tiles

TILE, NEAREST = 8, 64  # cells along the side of a tile; readings that it uses
FIT_TARGETS, FIT_NEAREST = 256, 32  # of a step of the fit


class WindowPrior(nn.Module):
    """Kriging of a window as two input channels per variable, fitted once before training."""

    def __init__(self, spec: Spec, obs_std: float = 0.0):
        super().__init__()
        self.spec, self.error = spec, obs_std**2
        size = lengths(spec.grid)[0]
        self.covariances = nn.ModuleList(SpaceTime(spec.grid, size).requires_grad_(False) for _ in range(spec.channels))
        self.tables: list[CovarianceTable] = []
        self.register_load_state_dict_post_hook(_forget)

    @property
    def covariance(self) -> list[SpaceTime]:  # (C,)
        return [each for each in self.covariances if isinstance(each, SpaceTime)]

    def fit(self, batches: Iterable[Pair], steps: int = STEPS) -> None:
        """Maximise the likelihood of targets, all leads together."""
        pairs = list(batches)
        reach = max(self._reach(pair.source) for pair in pairs)
        for channel, covariance in enumerate(self.covariance):

            def some(step: int, look: Covariance, channel: int = channel) -> tuple[Known, Tensor, Tensor]:
                generator = torch_generator(channel, "window prior", step)
                known, values = drawn_targets(pairs[step % len(pairs)], channel, look, self.error, generator)
                return known, values, torch.zeros_like(values)  # laws of pairs are of what is read

            covariance.fit(some, reach, steps)
        self.tables = []

    def _reach(self, source: Source) -> int:
        """Frames between a target and the oldest reading, or between two readings."""
        return int(source.lead.abs().max()) + self.spec.window - 1

    @torch.no_grad()
    def forward(self, source: Source) -> tuple[Tensor, Tensor]:  # (B, C, H, W) mean and std, standardised
        reach = self._reach(source)
        if not self.tables or self.tables[0].frames < reach:
            self.tables = [CovarianceTable(covariance, covariance.grid, reach) for covariance in self.covariance]
        laws = [self._law(source, channel) for channel in range(self.spec.channels)]
        mean, variance = (torch.stack(part, 1) for part in zip(*laws, strict=True))
        return mean, (variance.clamp_min(0) + LEAST_SPREAD**2).sqrt()

    def _law(self, source: Source, channel: int) -> tuple[Tensor, Tensor]:  # (B, H, W) mean and variance
        look, shape = self.tables[channel], self.spec.grid.shape
        value, valid, offset = window_readings(source, channel)  # (B, R), (B, R), (B, R, 3)
        rows, columns = (tiles(n, TILE) for n in shape)
        cells = cells_of(rows, columns, shape)  # (T, t)
        place, cell = look.along(offset), look.places(cells, shape[1])  # (B, R), (T, t)
        centre = cell[:, cell.shape[1] // 2 + columns.shape[1] // 2]  # (T,)
        near = torch.where(valid[:, None], look.at(place[:, None] - centre[:, None]), -torch.inf)  # (B, T, R)
        which = near.topk(min(NEAREST, near.shape[2]), dim=2).indices  # (B, T, n)
        # A query at a time, whose matrices fit into a cache.
        laws = [
            self._tiles(channel, p[w], v[w], k[w], cell) for p, v, k, w in zip(place, value, valid, which, strict=True)
        ]
        mean, variance = (assembled(torch.stack(part), rows, columns, shape) for part in zip(*laws, strict=True))
        return mean, variance

    def _tiles(
        self,
        channel: int,
        place: Tensor,  # (T, n) of the readings that each tile uses
        value: Tensor,  # (T, n)
        valid: Tensor,  # (T, n) bool
        cell: Tensor,  # (T, t) places of its cells
    ) -> tuple[Tensor, Tensor]:  # (T, t) mean and variance
        covariance, look = self.covariance[channel], self.tables[channel]
        among, across = look.at(place[:, :, None] - place[:, None]), look.at(place[:, :, None] - cell[:, None])
        nugget = float(covariance.nugget)
        return Given.of(among, nugget + self.error, valid).law(across, value, float(covariance.variance) + nugget)


def _forget(prior: WindowPrior, keys: Any) -> None:
    """Tables of other weights are of no use."""
    prior.tables = []


def window_readings(source: Source, channel: int) -> tuple[Tensor, Tensor, Tensor]:  # (B, R), (B, R) bool, (B, R, 3)
    """The readings of all frames in a list: value, whether there is one, and frame, row and column.

    Frames count from the time that is asked for, rows and columns from the first cell.
    """
    frames = source.frames
    mask = frames.mask[:, :, channel]  # (B, W, H, W)
    most = max(1, int(mask.flatten(1).sum(1).max()))
    order = mask.flatten(1).int().argsort(dim=1, descending=True, stable=True)[:, :most]
    valid, value = mask.flatten(1).gather(1, order), frames.values[:, :, channel].flatten(1).gather(1, order)
    height, width = mask.shape[2:]
    back = order // (height * width) + source.lead.long()[:, None]
    return value, valid, torch.stack([-back, order // width % height, order % width], -1)


def drawn_targets(
    pair: Pair, channel: int, look: Covariance, error: float, generator: torch.Generator
) -> tuple[Known, Tensor]:
    """Some targets of a batch that were not read themselves, each with its nearest readings."""
    free = pair.target.mask[:, channel] & ~pair.source.read_then().mask[:, channel]
    b, y, x = free.nonzero(as_tuple=True)
    some = torch.randperm(len(b), generator=generator)[:FIT_TARGETS]
    b, y, x = b[some], y[some], x[some]
    value, valid, offset = (part[b] for part in window_readings(pair.source, channel))
    offset = offset - torch.stack([torch.zeros_like(y), y, x], -1)[:, None]
    best = torch.where(valid, look(offset), -torch.inf).topk(min(FIT_NEAREST, valid.shape[1]), dim=1).indices
    known = valid.gather(1, best)
    errors = torch.full(best.shape, error)
    near = Known(value.gather(1, best), errors, offset.gather(1, best[..., None].expand(-1, -1, 3)), known)
    return near, pair.target.values[b, channel, y, x]
