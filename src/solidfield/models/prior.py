"""The prior of a query: what kriging says of each cell, for a whole batch at once.

A covariance fitted to the training pairs gives every cell a mean m(p) and a standard deviation s(p), given the
readings (`theory/gaussian.py`). A network that reads both, and predicts u = (x - m) / s instead of x, begins as kriging
and learns what kriging cannot know; with few examples it stays near it. Where readings are many the grid falls into
tiles, each with the readings nearest to its centre: the cost stays linear in the cells. Of a large map or a crop of it
(`theory/nearby.py`) a tree finds them, and the covariance is that of parts of the map, with one mean for all of it.

Kriging may be that of normal scores, z = Phi^-1(F_p(x)), where cells have laws of their own that are skewed or differ
in width (`theory/marginals.py`): where it predicts the last fifth of the training targets better than kriging of the
values does. Readings, prior and laws of `solid` are then all in scores (`units`), and members are brought back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from scipy.stats import norm
from torch import Tensor, nn

from ..fields import Pair, Source, Target
from ..forecast import Spec
from ..theory.covariance import collect
from ..theory.gaussian import Given, between, unrolled
from ..theory.marginals import LEVELS, Marginals, Widths, choose_widths, estimate, listed, pinball
from ..theory.nearby import BOX, cut, is_large, nearby
from .kriging import Kriging
from .normal_scores import NormalScores

MOST = 128  # readings of a query up to which every cell uses them all ...
TILE, NEAREST = 8, 64  # ... else tiles of so many cells a side use the nearest
JITTER = 1e-5  # of the variance, added to K
JUDGED = 128  # examples by which kriging of scores is compared with kriging ...
LEAST_GAIN = 0.01  # ... and the share of the CRPS that it must gain
LEAST_SPREAD = 0.02  # standardised: where a sensor is, s would be 0 and u undefined


class Prior(nn.Module):
    """Kriging as two input channels per variable, fitted once before training."""

    def __init__(self, spec: Spec, obs_std: float = 0.0):
        super().__init__()
        self.spec, self.large = spec, is_large(spec.grid)
        self.kriging = Kriging(replace(spec, grid=cut(spec.grid, BOX)), obs_std, level=self.large)
        self.units = NormalScores(spec)

    def fit(self, batches: Iterable[Pair]) -> None:
        if self.large or self.kriging.obs_std > 0:  # an error of reading would differ from score to score
            self.kriging.fit(batches)
            return
        device = self.kriging.mean.device
        self.to("cpu")  # where pairs are collected
        pair = collect(batches)
        widths = [choose_widths(listed(pair, c), self.spec) for c in range(self.spec.channels)]
        self.units.take(self._worthwhile(pair, widths) if any(widths) else [])
        self.kriging.fit([self.units.of_pair(pair)])
        self.to(device)

    def _worthwhile(
        self,
        pair: Pair,
        widths: Sequence[Widths | None],  # (C,)
    ) -> list[Marginals | None]:  # (C,)
        """The laws of those variables whose later targets kriging of scores predicts better than kriging itself."""
        ahead = (len(pair) * 4) // 5
        early, late = part_of(pair, 0, ahead, ahead), part_of(pair, ahead, len(pair), JUDGED)
        errors = []
        for tried in ([None] * len(widths), widths):
            self.units.take([w and estimate(listed(early, c), self.spec, *w) for c, w in enumerate(tried)])
            self.kriging.fit([self.units.of_pair(early)])
            errors.append(self._errors(late))
        return [
            estimate(listed(pair, c), self.spec, *w) if w and scored < (1 - LEAST_GAIN) * plain else None
            for c, (w, plain, scored) in enumerate(zip(widths, *errors, strict=True))
        ]

    def _errors(self, pair: Pair) -> list[float]:  # (C,)
        """The CRPS of kriging at targets that were not read themselves."""
        mean, std = self(self.units.of_source(pair.source))
        levels = torch.from_numpy(norm.ppf(LEVELS)).to(mean)
        quantiles = self.units.values(mean + std * levels[:, None, None, None, None]).movedim(0, -1)  # (B, C, H, W, k)
        free = pair.target.mask & ~pair.source.read_then().mask
        found = [(quantiles[:, c][free[:, c]], pair.target.values[:, c][free[:, c]]) for c in range(free.shape[1])]
        return [pinball(q.double().numpy(), v.double().numpy()) if len(v) else 0.0 for q, v in found]

    @torch.no_grad()
    def forward(self, source: Source, rows: slice | None = None) -> tuple[Tensor, Tensor]:  # (B, C, h, W) mean and std
        """Standardised; of a large map, of these rows alone."""
        laws = self._near if self.large else self._of_lead
        mean, variance = laws(source, rows or slice(0, source.values.shape[-2]))
        return mean, (variance.clamp_min(0) + LEAST_SPREAD**2).sqrt()

    def _of_lead(self, source: Source, rows: slice) -> tuple[Tensor, Tensor]:  # (B, C, H, W) mean and variance
        mean, variance = torch.empty_like(source.values), torch.empty_like(source.values)
        for lead in source.lead.unique():
            those = source.lead == lead
            for channel in range(self.spec.channels):
                m, v = self._laws(source.values[those, channel], source.mask[those, channel], float(lead), channel)
                mean[those, channel], variance[those, channel] = m, v
        return mean, variance

    def _near(self, source: Source, rows: slice) -> tuple[Tensor, Tensor]:  # (B, C, h, W) mean and variance
        """Of whole maps in these rows, or of crops and their surroundings."""
        values, mask, periodic, columns = (
            source.values,
            source.mask,
            self.spec.grid.periodic,
            slice(0, source.mask.shape[-1]),
        )
        if source.around is not None:
            values, mask, periodic = source.around.values, source.around.mask, cut(self.spec.grid, BOX).periodic
            beyond = [(wide - n) // 2 for wide, n in zip(mask.shape[-2:], source.mask.shape[-2:], strict=True)]
            rows, columns = (slice(b, b + n) for b, n in zip(beyond, source.mask.shape[-2:], strict=True))
        found = values.new_empty(2, *mask.shape[:2], rows.stop - rows.start, columns.stop - columns.start)
        for b, lead in enumerate(source.lead.tolist()):
            for c in range(self.spec.channels):
                covariance = self.kriging.covariance(c)
                kernels = (covariance.kernel, covariance.at(lead).to(values.dtype))
                reach = [unrolled(kernel, (BOX, BOX)) for kernel in kernels]
                level, variance = self.kriging.mean[c, 0, 0].to(values.dtype), float(covariance.kernel[0, 0])
                reading = values[b, c][mask[b, c]] - level
                reading = torch.cat([reading, reading.new_zeros(1)])  # there may be none at all
                for near in nearby(mask[b, c], periodic, TILE, NEAREST, rows, columns):
                    among = between(reach[0], near.place, near.place)
                    across = between(reach[1], near.place, near.cells)
                    given = Given.of(among, self.kriging.obs_std**2 + JITTER * variance, near.valid)
                    m, v = given.law(across, reading[near.site], variance)
                    part = slice(near.rows.start - rows.start, near.rows.stop - rows.start)
                    found[0, b, c, part], found[1, b, c, part] = near.unfold(m) + level, near.unfold(v)
        return found[0], found[1]

    def _laws(
        self,
        values: Tensor,  # (B, H, W)
        mask: Tensor,  # (B, H, W) bool
        lead: float,
        channel: int,
    ) -> tuple[Tensor, Tensor]:  # (B, H, W) mean and variance
        shape = (mask.shape[1], mask.shape[2])
        covariance = self.kriging.covariance(channel)
        base = self.kriging.mean[channel].to(values.dtype)
        count = int(mask.flatten(1).sum(1).max())
        site = mask.flatten(1).int().argsort(dim=1, descending=True, stable=True)[:, : max(count, 1)]  # (B, n)
        rows, columns = (tiles(n, TILE if count > MOST else n).to(mask.device) for n in shape)  # (T_y, t_y), (T_x, t_x)
        around = covariance.kernel.shape
        site = _nearest(site, mask, rows, columns, around) if count > MOST else site[:, None]  # (B, T, n)
        reach = unrolled(covariance.kernel, shape), unrolled(covariance.at(lead).to(values.dtype), shape)
        cells = cells_of(rows, columns, shape)  # (T, t)
        laws = [  # a query at a time, whose matrices fit into a cache
            self._law((v - base).flatten(), known.flatten(), where, cells, reach)
            for v, known, where in zip(values, mask, site, strict=True)
        ]
        mean, variance = (assembled(torch.stack(part), rows, columns, shape) for part in zip(*laws, strict=True))
        return mean + base, variance

    def _law(
        self,
        anomaly: Tensor,  # (H * W,)
        mask: Tensor,  # (H * W,) bool
        site: Tensor,  # (T, n) flat cells whose readings a tile uses
        cells: Tensor,  # (T, t) flat cells of the tiles
        reach: tuple[Tensor, Tensor],  # (2 H - 1, 2 W - 1) covariances of the source time, and with the target's
    ) -> tuple[Tensor, Tensor]:  # (T, t) mean and variance
        known = mask[site]
        among, across = between(reach[0], site, site), between(reach[1], site, cells)  # (T, n, n), (T, n, t)
        variance = among[0, 0, 0].to(anomaly.dtype)
        error = self.kriging.obs_std**2 + JITTER * float(variance)
        return Given.of(among, error, known).law(across, anomaly[site], variance)


def part_of(pair: Pair, first: int, last: int, most: int) -> Pair:
    """At most so many of these examples, evenly."""
    rows = torch.linspace(first, last - 1, min(most, last - first)).long()
    return Pair(pair.source[rows], Target(pair.target.values[rows], pair.target.mask[rows]))


def tiles(length: int, size: int) -> Tensor:  # (T, t) cells of each tile along an axis; a last one may overhang
    return torch.arange(-(-length // size))[:, None] * size + torch.arange(size)


def cells_of(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:  # (T, t) flat cells of each tile
    y, x = rows.clamp(max=shape[0] - 1), columns.clamp(max=shape[1] - 1)
    return (y[:, None, :, None] * shape[1] + x[None, :, None, :]).flatten(2).flatten(0, 1)


def _nearest(
    site: Tensor,  # (B, n) flat cells, those with a reading first
    mask: Tensor,  # (B, H, W) bool
    rows: Tensor,  # (T_y, t_y)
    columns: Tensor,  # (T_x, t_x)
    around: torch.Size,  # of the torus
) -> Tensor:  # (B, T, NEAREST)
    """The readings nearest to the centre of each tile."""
    centre = torch.cartesian_prod(rows.double().mean(1), columns.double().mean(1))  # (T, 2)
    apart = torch.zeros(site.shape[0], len(centre), site.shape[1], dtype=torch.double, device=site.device)
    for axis, place in enumerate((site // mask.shape[2], site % mask.shape[2])):
        gap = (place[:, None, :] - centre[None, :, None, axis]).abs()
        apart += torch.minimum(gap, around[axis] - gap) ** 2
    apart.masked_fill_(~mask.flatten(1).gather(1, site)[:, None], torch.inf)
    nearest = apart.topk(min(NEAREST, site.shape[1]), dim=2, largest=False).indices
    return site[:, None].expand(-1, len(centre), -1).gather(2, nearest)


def assembled(
    tiles: Tensor,  # (B, T, t_y * t_x)
    rows: Tensor,  # (T_y, t_y)
    columns: Tensor,  # (T_x, t_x)
    shape: tuple[int, int],
) -> Tensor:  # (B, H, W)
    grid = tiles.unflatten(1, (len(rows), len(columns))).unflatten(3, (rows.shape[1], columns.shape[1]))
    return grid.transpose(2, 3).flatten(3, 4).flatten(1, 2)[:, : shape[0], : shape[1]]
