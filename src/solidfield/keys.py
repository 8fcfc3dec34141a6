"""Randomness as an argument: every draw is a pure function of a key such as (seed, "mask", index).

A key is hashed to a seed, so draws are the same in every process, at every batch size, and in any order; changing one
part of the key gives an independent stream. Nothing in solidfield reads global random state. Where a few of many
will do and no dice are needed, `evenly` picks them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

KeyPart = int | str


def key(*parts: KeyPart) -> int:
    """Hash the parts to a non-negative 63-bit integer.

    >>> key(0, "mask", 7) == key(0, "mask", 7), key(0, "mask", 7) == key(0, "mask", 8)
    (True, False)
    """
    text = "/".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_generator(*parts: KeyPart) -> np.random.Generator:
    """A NumPy generator for this key alone."""
    return np.random.Generator(np.random.Philox(key(*parts)))


def torch_generator(*parts: KeyPart) -> torch.Generator:
    """A CPU torch generator for this key alone; draws are moved to a device afterwards, so devices agree."""
    import torch  # not needed to read tables, and slow to load

    return torch.Generator().manual_seed(key(*parts))


@contextmanager
def initial_weights(seed: int) -> Iterator[None]:
    """Layers draw their first weights from torch's global stream; here it is this seed's, and nobody else's moves."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "weights"))
        yield


def evenly(items: np.ndarray, count: int) -> np.ndarray:  # (n, ...) -> (min(n, count), ...)
    """At most `count` items at equal distances, the first and the last among them.

    >>> evenly(np.arange(10), 4)
    array([0, 3, 6, 9])
    """
    return items[np.linspace(0, len(items) - 1, min(len(items), count)).round().astype(int)]
