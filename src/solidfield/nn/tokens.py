"""Cells as tokens: the cells of a mask, gathered into a list that is padded to the longest of the batch.

Row b of a batch has n_b cells in its mask; the list has N = max n_b slots (at least one, so that an empty
mask has a shape), the cells of the mask come first, in the order of the grid, and `keys` says which slots
are real. Whoever reads the list must pass `keys` on; nothing in a padded slot may reach a result.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """A padded list of cells: sensors, or places where a value is asked for."""

    features: Tensor  # (B, N, F), zeros in padded slots
    positions: Tensor  # (B, N, 2), (y, x) on the unit square, zeros in padded slots
    keys: Tensor  # (B, N) bool, True = a real cell
    index: Tensor  # (B, N) position of the cell in the flattened grid
    shape: tuple[int, int]  # (H, W)

    @property
    def count(self) -> Tensor:  # (B,) n_b
        return self.keys.sum(1)

    def to_grid(self, values: Tensor) -> Tensor:  # (B, N, C) -> (B, C, H, W)
        """Put values of the cells back on the grid, exact zeros elsewhere."""
        kept = torch.where(self.keys[..., None], values, 0.0).transpose(1, 2)  # (B, C, N)
        flat = kept.new_zeros(*kept.shape[:2], self.shape[0] * self.shape[1])
        return flat.scatter_add(2, self.index[:, None].expand_as(kept), kept).unflatten(2, self.shape)


def tokens_at(
    features: Tensor,  # (B, F, H, W)
    mask: Tensor,  # (B, H, W) bool
    coordinates: Tensor,  # (H, W, 2)
) -> Tokens:
    """Gather the cells of the mask, with what is known there."""
    flat = mask.flatten(1)  # (B, H * W)
    longest = max(1, int(flat.sum(1).max()))
    index = flat.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :longest]
    keys = flat.gather(1, index)
    picked = features.flatten(2).gather(2, index[:, None].expand(-1, features.shape[1], -1)).transpose(1, 2)
    positions = coordinates.flatten(0, 1)[index]
    return Tokens(
        features=torch.where(keys[..., None], picked, 0.0),
        positions=torch.where(keys[..., None], positions, 0.0),
        keys=keys,
        index=index,
        shape=(mask.shape[1], mask.shape[2]),
    )
