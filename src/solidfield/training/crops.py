"""Examples of a large map: crops around targets, with what was read around them, so that a step costs what a crop does.

A crop is laid around a random target of its example, so that none is empty; targets count alike, wherever they are.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..fields import Around, Pair, Source, Target
from ..keys import numpy_generator
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..theory.nearby import AROUND, BOX, CROP, LARGE, cut


def corners(store: PairStore, indices: np.ndarray, shape: tuple[int, int], seed: tuple[int | str, ...]) -> np.ndarray:
    """Where a crop of this shape begins, (B, 2): somewhere around a random target, inside the map."""
    generator = numpy_generator(*seed)
    rows, cells, _ = store.readings_of("target", indices)
    lot = np.where(np.bincount(rows, minlength=len(indices)) > 0, generator.random(len(indices)), 0)
    first = np.searchsorted(rows, np.arange(len(indices)))
    count = np.bincount(rows, minlength=len(indices))
    chosen = cells[np.minimum(first + (lot * count).astype(np.int64), len(cells) - 1)] % store.grid.cells
    found = np.zeros((len(indices), 2), dtype=np.int64)
    for axis, target in enumerate(np.divmod(chosen, store.grid.shape[1])):
        length, side = store.grid.shape[axis], shape[axis]
        start = target - generator.integers(0, side, len(indices))
        whole = 0 if side == length else start % length
        found[:, axis] = whole if store.grid.periodic[axis] else start.clip(0, length - side)
    return found


def wide(store: PairStore, indices: np.ndarray, corner: np.ndarray) -> Pair:  # (B,), (B, 2)
    """Crops that begin there, with their surroundings, physical units."""
    beyond = np.array([AROUND if n > LARGE else 0 for n in store.grid.shape])
    height, width = np.array(crop_shape(store)) + 2 * beyond
    return store.crop(indices, corner - beyond, (int(height), int(width)))


def crop_shape(store: PairStore) -> tuple[int, int]:
    return cut(store.grid, CROP).shape


def large_parts(store: PairStore, indices: np.ndarray) -> Pair:
    """Parts as large as a covariance reaches, physical units."""
    shape = cut(store.grid, BOX).shape
    return store.crop(indices, corners(store, indices, shape, ("part", int(indices[0]))), shape)


def centred(pair: Pair, corner: np.ndarray, store: PairStore) -> Pair:
    """The crops of `wide`, knowing what surrounds them."""
    source, inner = pair.source, crop_shape(store)
    top, left = ((wide - n) // 2 for wide, n in zip(source.mask.shape[-2:], inner, strict=True))

    def middle(field: Tensor) -> Tensor:
        return field[..., top : top + inner[0], left : left + inner[1]]

    around = Around(source.values, source.mask, torch.from_numpy(corner))
    known = None if source.covariates is None else middle(source.covariates)
    crop = Source(middle(source.values), middle(source.mask), source.lead, known, None, around)
    return Pair(crop, Target(middle(pair.target.values), middle(pair.target.mask)))


def standard_crops(store: PairStore, scaling: Scaling, indices: np.ndarray) -> Pair:
    """Crops of examples outside the loop, standardised: of an example always the same."""
    shape = crop_shape(store)
    corner = np.concatenate(
        [corners(store, indices[i : i + 1], shape, ("crop", int(indices[i]))) for i in range(len(indices))]
    )
    return centred(scaling.standardise(wide(store, indices, corner)), corner, store)
