"""Covariances of whole offsets in frames, rows and columns, and a table that looks them up.

Offsets in a table are rows as long as any difference, so a place is one number and a difference of places another
(`along`, `at`). The table of a map of H x W cells holds every offset, and grows with the map. Of a large map it holds
those of neighbours: what a cell is told by lies near it, however large the map. Offsets up to some rows and columns are
looked up, and the few beyond are computed as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from ..grid import Grid

AT_ONCE = 2**17  # offsets whose covariances are computed together


class Covariance(Protocol):
    """A covariance of whole offsets in frames, rows and columns."""

    channels: int

    def __call__(  # (..., 3), (...), (...) -> (...)
        self, offset: Tensor, link: Tensor | None = None, row: Tensor | None = None
    ) -> Tensor: ...

    def between(  # (B, k, 3), (B, k), (B,) -> (B, k, k)
        self, offset: Tensor, channel: Tensor | None = None, row: Tensor | None = None
    ) -> Tensor: ...


def linked(here: Tensor, there: Tensor, channels: int) -> Tensor:
    """Two variables as one number."""
    return here * channels + there


def pairwise(channel: Tensor | None, channels: int) -> Tensor | None:  # (B, k) -> (B, k, k)
    """The variables of every two readings; None where there is one variable."""
    return None if channel is None else linked(channel[:, :, None], channel[:, None, :], channels)


def across(covariance: Covariance, here: Tensor, there: Tensor) -> Tensor:  # (..., 4), (..., 4) -> (...)
    """The covariance of values at places: frame, row, column, variable."""
    link = None if covariance.channels == 1 else linked(here[..., 3], there[..., 3], covariance.channels)
    return covariance(there[..., :3] - here[..., :3], link, here[..., 1])


class CovarianceTable:
    """C of offsets up to `reach` frames, rows and columns from a table, of others, if there are any, as computed."""

    @torch.no_grad()
    def __init__(
        self,
        covariance: Callable[..., Tensor],
        grid: Grid,
        frames: int,
        channels: int = 1,
        most: int | None = None,  # entries, for a table of neighbours; None: of every offset of the map
    ):
        self.covariance, self.frames, self.channels, self.whole = covariance, frames, channels, most is None
        side = max(grid.shape) if most is None else max(3, int(math.sqrt(most / channels**2 / (2 * frames + 1)))) // 2
        self.reach = torch.tensor([frames, *(min(n - 1, side) for n in grid.shape)])
        axes = [torch.arange(-n, n + 1) for n in self.reach.tolist()]
        self.strides = torch.tensor([len(axes[1]) * len(axes[2]), len(axes[2]), 1])
        offsets = torch.cartesian_prod(*axes)
        links: Sequence[Tensor | None] = [None] if channels == 1 else list(torch.arange(channels**2))
        parts = offsets.split(AT_ONCE)
        self.table = torch.cat(
            [covariance(part) if link is None else covariance(part, link) for link in links for part in parts]
        )
        self.entries, self.centre = len(offsets), len(offsets) // 2

    def __call__(self, offset: Tensor, link: Tensor | None = None, row: Tensor | None = None) -> Tensor:
        far = None if self.whole else (offset.abs() > self.reach).any(-1)
        if far is None or not bool(far.any()):
            return self.at(self.along(offset), link)
        near = self.at(self.along(torch.where(far[..., None], 0, offset)), link)
        which = None if link is None else link.expand(far.shape)[far]
        return near.masked_scatter(far, self.covariance(offset[far], which))

    def along(self, offset: Tensor) -> Tensor:  # (..., 3) -> (...)
        """A place as one number: its offset from a common one, times the strides."""
        return (offset * self.strides).sum(-1)

    def at(self, difference: Tensor, link: Tensor | None = None) -> Tensor:
        """C of differences of places (`along`), all within reach."""
        where = difference + self.centre
        return self.table[where if link is None else where + link * self.entries]

    def between(self, offset: Tensor, channel: Tensor | None = None, row: Tensor | None = None) -> Tensor:
        """The covariances of readings with one another: (B, k, 3), (B, k) -> (B, k, k)."""
        both = pairwise(channel, self.channels)
        if self.whole or bool((offset.abs() * 2 <= self.reach).all()):  # no two of them can be too far apart
            place = self.along(offset)
            return self.at(place[:, None, :] - place[:, :, None], both)
        return self(offset[:, None, :] - offset[:, :, None], both)

    def covers(self, here: Tensor, there: Tensor) -> bool:  # (..., 3), (..., 3)
        """Are all offsets from any of the one to any of the other in the table?"""
        if self.whole:
            return True
        ends = [(part.flatten(0, -2).amin(0), part.flatten(0, -2).amax(0)) for part in (here, there)]
        farthest = torch.maximum(ends[1][1] - ends[0][0], ends[0][1] - ends[1][0])
        return bool((farthest <= self.reach).all())

    def places(self, cells: Tensor, width: int) -> Tensor:  # flat cells of rows so wide, at frame 0
        return cells // width * self.strides[1] + cells % width * self.strides[2]
