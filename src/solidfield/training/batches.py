"""Which examples a training step sees, and how they are changed on the way: a pure function of (seed, step,
rank).

Epochs follow each other without a gap. Position p of that endless sequence is entry p mod E of the
permutation of epoch p div E, so each example comes once an epoch whatever the batch size, and step n takes
positions [n B, (n + 1) B). Rank r of R processes takes the r-th of R equal shares of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..config import TrainConfig
from ..fields import OraclePair, Pair
from ..keys import numpy_generator, torch_generator
from ..pairs.covariates import Recipe
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from .augment import hide, roll


@lru_cache(maxsize=4)  # a batch meets two epochs at most, unless it is larger than one
def epoch_order(count: int, epoch: int, seed: int) -> np.ndarray:  # (count,)
    return numpy_generator(seed, "epoch", epoch).permutation(count)


def rows_of_step(
    count: int,  # E, examples in an epoch
    batch: int,  # B, over all processes
    step: int,
    seed: int,
    rank: int = 0,
    processes: int = 1,
) -> np.ndarray:  # (B / R,) positions in the list of training examples
    """
    >>> sorted(np.concatenate([rows_of_step(6, 2, step, seed=0) for step in range(3)]).tolist())
    [0, 1, 2, 3, 4, 5]
    """
    share = batch // processes
    first = step * batch + rank * share
    epochs, entries = np.divmod(np.arange(first, first + share), count)
    parts = [epoch_order(count, int(epoch), seed)[entries[epochs == epoch]] for epoch in np.unique(epochs)]
    return np.concatenate(parts)


def batch_of_step(
    store: PairStore,
    scaling: Scaling,
    indices: np.ndarray,  # (E,) the training examples
    config: TrainConfig,
    rank: int,
    processes: int,
    step: int,
    oracle: bool = False,  # with the dense target, for a model that leaks
) -> Pair | OraclePair:
    """This rank's share of the batch: standardised, rolled along the world's symmetries, thinned."""
    chosen = indices[rows_of_step(len(indices), config.batch, step, config.seed, rank, processes)]
    drawn: Pair | OraclePair = store.oracle_batch(chosen) if oracle else store.batch(chosen)
    drawn = scaling.standardise(drawn)
    if config.shifts and any(store.shifts):
        drawn = roll(drawn, store.shifts, torch_generator(config.seed, "roll", step, rank))
    if config.thin > 0:
        pair = drawn.pair if isinstance(drawn, OraclePair) else drawn
        generator = torch_generator(config.seed, "thin", step, rank)
        past = Recipe.from_dict(store.recipe).past if store.recipe else 0
        pair = hide(pair, config.thin, config.thin_most, generator, past)
        drawn = replace(drawn, pair=pair) if isinstance(drawn, OraclePair) else pair
    return drawn
