"""The prior of a query: what kriging says of each cell, for a whole batch at once.

A covariance fitted to the training pairs gives every cell a mean m(p) and a standard deviation s(p), given the
readings (`kriging.py`). A network that reads both, and predicts u = (x - m) / s instead of x, begins as kriging and
learns what kriging cannot know; with few examples it stays near it. With L L^T = K for the readings y of a query, and
X their covariance with the cells at the lead,

    h = L^-1 X,   m = mean + h^T L^-1 (y - mean),   s^2 = C(0) - sum h^2.

L is factored in double precision; its inverse is small enough for the products to be single. Where readings are many
the grid falls into tiles, each with the readings nearest to its centre: the cost stays linear in the cells.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..covariance import offsets
from ..fields import Pair, Source
from ..forecast import Spec
from .kriging import Kriging

MOST = 128  # readings of a query up to which every cell uses them all ...
TILE, NEAREST = 4, 48  # ... else tiles of so many cells a side use the nearest
JITTER = 1e-5  # of the variance, added to K
LEAST_SPREAD = 0.02  # standardised: where a sensor is, s would be 0 and u undefined


class Prior(nn.Module):
    """Kriging as two input channels per variable, fitted once before training."""

    def __init__(self, spec: Spec, obs_std: float = 0.0):
        super().__init__()
        self.spec = spec
        self.kriging = Kriging(spec, obs_std)

    def fit(self, batches: Iterable[Pair]) -> None:
        self.kriging.fit(batches)

    @torch.no_grad()
    def forward(self, source: Source) -> tuple[Tensor, Tensor]:  # (B, C, H, W) mean and std, standardised
        mean, variance = torch.empty_like(source.values), torch.empty_like(source.values)
        for lead in source.lead.unique():
            rows = source.lead == lead
            for channel in range(self.spec.channels):
                m, v = self._laws(source.values[rows, channel], source.mask[rows, channel], float(lead), channel)
                mean[rows, channel], variance[rows, channel] = m, v
        return mean, (variance.clamp_min(0) + LEAST_SPREAD**2).sqrt()

    def _laws(
        self,
        values: Tensor,  # (B, H, W)
        mask: Tensor,  # (B, H, W) bool
        lead: float,
        channel: int,
    ) -> tuple[Tensor, Tensor]:  # (B, H, W) mean and variance
        height, width = mask.shape[1:]
        covariance = self.kriging.covariance(channel)
        kernel, field_mean = covariance.kernel, self.kriging.mean[channel]
        count = int(mask.flatten(1).sum(1).max())
        site = mask.flatten(1).int().argsort(dim=1, descending=True, stable=True)[:, : max(count, 1)]  # (B, n)
        rows, columns = (_tiles(n, count > MOST).to(mask.device) for n in (height, width))  # (T_y, t_y), (T_x, t_x)
        site = _nearest(site, mask, rows, columns, kernel.shape) if count > MOST else site[:, None]  # (B, T, n)
        known = mask.flatten(1)[:, None].expand(-1, site.shape[1], -1).gather(2, site)  # (B, T, n)
        anomaly = (values.double() - field_mean).flatten(1)[:, None].expand(-1, site.shape[1], -1).gather(2, site)

        place = torch.stack([site // width, site % width], dim=-1)  # (B, T, n, 2)
        k = kernel.flatten()[offsets(place, place, kernel.shape)] * (known[..., None] & known[..., None, :])
        k.diagonal(dim1=-2, dim2=-1).add_(self.kriging.obs_std**2 + JITTER * kernel[0, 0] + (~known).double())
        identity = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
        inverse = torch.linalg.solve_triangular(torch.linalg.cholesky(k), identity, upper=False)  # L^-1
        reading = (inverse @ (anomaly * known)[..., None]).to(values.dtype)  # (B, T, n, 1)

        y = _steps(height, kernel.shape[0], rows).to(site.device)  # (T_y, H, t_y)
        x = _steps(width, kernel.shape[1], columns).to(site.device)
        tiles = torch.cartesian_prod(torch.arange(len(rows)), torch.arange(len(columns))).T.to(site.device)  # (2, T)
        step_y = y[tiles[0][None, :, None], place[..., 0]]  # (B, T, n, t_y)
        step_x = x[tiles[1][None, :, None], place[..., 1]]
        cross = covariance.at(lead).to(values.dtype).flatten()
        at = (step_y[..., None] * kernel.shape[1] + step_x[..., None, :]).flatten(-2)  # (B, T, n, cells of a tile)
        half = inverse.to(values.dtype) @ (cross[at] * known[..., None])
        mean = (half * reading).sum(-2)
        variance = kernel[0, 0].to(values.dtype) - half.square().sum(-2)
        return tuple(  # type: ignore[return-value]
            _assembled(part, rows, columns, (height, width)) + base
            for part, base in ((mean, field_mean.to(values.dtype)), (variance, 0.0))
        )


def _tiles(length: int, many: bool) -> Tensor:  # (T, t) cells of each tile along an axis; a last one may overhang
    size = TILE if many else length
    return torch.arange(-(-length // size))[:, None] * size + torch.arange(size)


def _steps(length: int, around: int, cells: Tensor) -> Tensor:  # (T, length, t)
    """Steps on the torus from every place of an axis to the cells of each tile."""
    return (cells[:, None, :].clamp(max=length - 1) - torch.arange(length, device=cells.device)[:, None]) % around


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


def _assembled(
    tiles: Tensor,  # (B, T, t_y * t_x)
    rows: Tensor,  # (T_y, t_y)
    columns: Tensor,  # (T_x, t_x)
    shape: tuple[int, int],
) -> Tensor:  # (B, H, W)
    grid = tiles.unflatten(1, (len(rows), len(columns))).unflatten(3, (rows.shape[1], columns.shape[1]))
    return grid.transpose(2, 3).flatten(3, 4).flatten(1, 2)[:, : shape[0], : shape[1]]
