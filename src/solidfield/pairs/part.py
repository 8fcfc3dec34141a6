"""A pair store cut down to a share of its training trajectories: what would have been learned from less?"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from .store import PairStore


class Part(PairStore):
    """A pair store with only the first share of its training trajectories."""

    def __init__(self, path: Path, share: float):
        super().__init__(path)
        self.share = share

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{super().fingerprint}, first {self.share:g}".encode()).hexdigest()

    def split(self, name: str) -> np.ndarray:  # (n,)
        indices = super().split(name)
        if name != "train":
            return indices
        trajectory = self.columns["trajectory"][indices]
        every = np.unique(trajectory)
        return indices[trajectory <= every[max(1, round(self.share * len(every))) - 1]]


def part_of(store: PairStore, share: float) -> PairStore:
    """The store itself, or its first share with the readings loaded."""
    if share == 1:
        return store
    part = Part(store.path, share)
    part.load()
    return part
