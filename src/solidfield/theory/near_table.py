"""A covariance tabulated for the offsets that a large map is mostly asked about: those of neighbours.

A table of every offset of a map of H x W cells grows with the map, and beyond some size covariances would have to be
computed one by one, many times as slowly. But what a cell is told by lies near it, however large the map: offsets up
to some rows and columns are looked up, and the few beyond are computed as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..grid import Grid

ENTRIES = 2**22  # of a table, 16 MB: what a processor keeps at hand


class NearTable:
    """C for offsets of at most `reach` frames, rows and columns from a table, for others as it is computed."""

    @torch.no_grad()
    def __init__(self, covariance: Callable[..., Tensor], grid: Grid, frames: int, channels: int = 1):
        self.covariance, self.channels = covariance, channels
        side = max(3, int(math.sqrt(ENTRIES / channels**2 / (2 * frames + 1))))
        self.reach = torch.tensor([frames, *(min(n - 1, side // 2) for n in grid.shape)])
        axes = [torch.arange(-n, n + 1) for n in self.reach.tolist()]
        self.strides = torch.tensor([len(axes[1]) * len(axes[2]), len(axes[2]), 1])
        offsets = torch.cartesian_prod(*axes)
        links: Sequence[int | None] = [None] if channels == 1 else range(channels**2)
        self.table = torch.cat(
            [
                covariance(part) if link is None else covariance(part, torch.tensor(link))
                for link in links
                for part in offsets.split(2**17)
            ]
        )
        self.entries, self.centre = len(offsets), len(offsets) // 2

    def __call__(self, offset: Tensor, link: Tensor | None = None, row: Tensor | None = None) -> Tensor:
        far = (offset.abs() > self.reach).any(-1)
        if not bool(far.any()):
            return self.at((offset * self.strides).sum(-1), link)
        near = self.at((torch.where(far[..., None], 0, offset) * self.strides).sum(-1), link)
        which = None if link is None else link.expand(far.shape)[far]
        return near.masked_scatter(far, self.covariance(offset[far], which))

    def at(self, difference: Tensor, link: Tensor | None = None) -> Tensor:
        """C of offsets that are one number each: times the strides, within reach."""
        where = difference + self.centre
        return self.table[where if link is None else where + link * self.entries]

    def between(self, offset: Tensor, channel: Tensor | None = None, row: Tensor | None = None) -> Tensor:
        """The covariances of readings with one another: (B, k, 3), (B, k) -> (B, k, k)."""
        both = None if channel is None else channel[:, :, None] * self.channels + channel[:, None, :]
        if bool((offset.abs() * 2 <= self.reach).all()):  # no two of them can be too far apart
            place = (offset * self.strides).sum(-1)
            return self.at(place[:, None, :] - place[:, :, None], both)
        return self(offset[:, None, :] - offset[:, :, None], both)

    def covers(self, here: Tensor, there: Tensor) -> bool:  # (..., 3), (..., 3)
        """Are all offsets from any of the one to any of the other in the table?"""
        ends = [(part.flatten(0, -2).amin(0), part.flatten(0, -2).amax(0)) for part in (here, there)]
        farthest = torch.maximum(ends[1][1] - ends[0][0], ends[0][1] - ends[1][0])
        return bool((farthest <= self.reach).all())
