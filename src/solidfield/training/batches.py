"""Which examples a training step sees: a pure function of (seed, step, rank).

Epochs follow each other without a gap. Position p of that endless sequence is entry p mod E of the
permutation of epoch p div E, so each example comes once an epoch whatever the batch size, and step n takes
positions [n B, (n + 1) B). Rank r of R processes takes the r-th of R equal shares of them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..keys import numpy_generator


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
