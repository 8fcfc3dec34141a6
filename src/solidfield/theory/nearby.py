"""Tiles of cells, each with the readings nearest to its centre: how a cell costs the same on a map of any size.

Conditioning on all n readings costs n^3, on those nearby a constant: what lies behind nearer readings adds little (the
screening of kriging; Vecchia 1988, Datta et al. 2016). A tile and its readings lie in a box of BOX x BOX cells, so a
table of the covariance over the steps inside a box serves every tile of the map.

An axis longer than LARGE cells is large: along it models learn and speak in crops (`cut`, `crops`), whose features
are blended where crops overlap, so that no edge of a crop can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..grid import Grid

LARGE = 128  # cells along an axis from which on a map is drawn, and learned, in parts
BOX = 128  # cells along the side of the box around a tile
REACH = BOX // 2 - 1  # cells from the centre of a tile to the farthest reading it hears: two of them fit into a box
CROP, OVERLAP, AROUND = 64, 16, 32  # cells along the side of a crop; shared with the next; known beyond its edges
TILES_AT_ONCE = 128  # whose matrices are in memory together, or a row of them


def is_large(grid: Grid) -> bool:
    return max(grid.shape) > LARGE


def cut(grid: Grid, side: int) -> Grid:
    """The grid of a part: large axes are cut to `side` cells and end there; others stay whole."""
    shape = tuple(min(n, side) if n > LARGE else n for n in grid.shape)
    periodic = tuple(wraps and n <= LARGE for n, wraps in zip(grid.shape, grid.periodic, strict=True))
    return replace(grid, shape=(shape[0], shape[1]), periodic=(periodic[0], periodic[1]), domain=None)


def crops(length: int, wraps: bool) -> Tensor:  # (n, t) cells of each crop along an axis, evenly spread
    """Overlapping crops that cover an axis; one that wraps is covered across its seam, too."""
    if length <= LARGE:
        return torch.arange(length)[None]
    room = length if wraps else length - CROP
    count = -(-room // (CROP - OVERLAP))
    first = torch.linspace(0, room, count + 1).round().long()
    return ((first[:-1] if wraps else first)[:, None] + torch.arange(CROP)) % length


def ramp(size: int) -> Tensor:  # (t,)
    """How much a cell of a crop counts: little at its edges, where the crop knows least and another one more."""
    cell = torch.arange(size) + 1.0
    return torch.minimum(cell, cell.flip(0)).clamp(max=OVERLAP) / OVERLAP


@dataclass(frozen=True)
class Nearby:
    """Some tiles of a map, all of one size, and the readings that each of them hears."""

    rows: slice  # of the map: those that were asked for and that the tiles cover
    columns: slice
    skip: tuple[int, int]  # rows and columns of the tiles before these
    across: int  # tiles in a row of tiles
    site: Tensor  # (T, n) which of the map's readings, in row order; 0 where there are fewer
    valid: Tensor  # (T, n) bool
    place: Tensor  # (T, n) flat position of each in the box around the tile
    cells: Tensor  # (t * t,) flat positions of the tile's own cells in it

    def unfold(self, values: Tensor) -> Tensor:  # (..., T, t * t) -> (..., h, w)
        """What was computed for the tiles, as a part of the map."""
        size = round(len(self.cells) ** 0.5)
        grid = values.unflatten(-1, (size, size)).unflatten(-3, (-1, self.across)).transpose(-3, -2)
        whole = grid.flatten(-2).flatten(-3, -2)
        (top, left), height, width = self.skip, *(part.stop - part.start for part in (self.rows, self.columns))
        return whole[..., top : top + height, left : left + width]


def nearby(
    mask: Tensor,  # (H, W) bool
    periodic: tuple[bool, bool],
    size: int,  # cells along the side of a tile
    most: int,  # readings that a tile hears
    rows: slice,  # of the map that are asked for
    columns: slice,
) -> Iterator[Nearby]:
    """The tiles that cover a part of the map, a few rows of them at a time.

    Tiles are counted from the first cell of the map, whichever part is asked for: what a cell hears depends on the cell
    alone, and parts of a map fit together.
    """
    sites = mask.nonzero().numpy()  # (m, 2)
    around = [n if wraps else 0 for n, wraps in zip(mask.shape, periodic, strict=True)]
    tree = cKDTree(sites + 0.5, boxsize=around) if len(sites) else None
    left = np.arange(columns.start // size * size, columns.stop, size)
    before = BOX // 2 - size // 2  # cells of the box before the tile
    inside = before + torch.arange(size)
    cells = (inside[:, None] * BOX + inside).flatten()
    step = max(1, TILES_AT_ONCE // len(left)) * size
    for start in range(rows.start // size * size, rows.stop, step):
        top = np.arange(start, min(start + step, rows.stop), size)
        first = np.stack(np.meshgrid(top, left, indexing="ij"), -1).reshape(-1, 2)  # (T, 2)
        near, valid = _nearest(tree, first + size / 2, min(most, len(sites)), around)
        place = np.zeros(near.shape, np.int64)
        for axis, length in enumerate(around):
            along = sites[near, axis] - first[:, None, axis] if len(sites) else place
            if length:  # the short way round
                along = (along - size // 2 + length // 2) % length - length // 2 + size // 2
            place = place * BOX + np.where(valid, along + before, 0)
        yield Nearby(
            slice(max(start, rows.start), min(start + step, rows.stop)),
            columns,
            (max(0, rows.start - start), columns.start - int(left[0])),
            len(left),
            torch.from_numpy(near),
            torch.from_numpy(valid),
            torch.from_numpy(place),
            cells,
        )


def _nearest(
    tree: cKDTree | None, centre: np.ndarray, most: int, around: list[int]
) -> tuple[np.ndarray, np.ndarray]:  # (T, n) sites, (T, n) bool
    """Those within REACH, the nearest first; columns that no tile needs are left out."""
    if tree is None:
        return np.zeros((len(centre), 1), np.int64), np.zeros((len(centre), 1), bool)
    wrapped = np.where(around, centre % np.maximum(around, 1), centre)
    apart, near = tree.query(wrapped, k=range(1, most + 1), distance_upper_bound=REACH)
    valid = np.isfinite(apart)
    used = max(1, int(valid.sum(1).max()))
    return np.where(valid, near, 0)[:, :used], valid[:, :used]
