"""Standardising: z = (u - mean) / std per variable, with statistics of observed training values only.

Off the mask a standardised field is exactly zero again, so a cell that was not measured looks the same
whatever the mean is. A reading that several examples share is counted as often as it appears.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from .errors import SolidError
from .fields import OraclePair, Pair, Source, Target
from .pairstore import Indices, PairStore

CHUNK = 4096  # examples whose readings are gathered at a time


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of every variable, in physical units."""

    mean: tuple[float, ...]  # (C,)
    std: tuple[float, ...]  # (C,)

    @classmethod
    def fit(cls, store: PairStore, indices: Indices) -> Scaling:
        """Pooled statistics of the sources' and targets' readings in the given (training) examples."""
        count = _sums(store, indices, lambda values, channel: np.ones_like(values))
        for variable, n in zip(store.variables, count, strict=True):
            if n == 0:
                raise SolidError(f"variable '{variable}' has no reading in the training examples; leave it out")
        mean = _sums(store, indices, lambda values, channel: values) / count
        std = np.sqrt(_sums(store, indices, lambda values, channel: (values - mean[channel]) ** 2) / count)
        for variable, centre, width in zip(store.variables, mean, std, strict=True):
            if width <= 1e-7 * abs(centre):  # below the resolution of a float32 reading
                raise SolidError(
                    f"variable '{variable}' is constant ({centre:g}) in the training readings; leave it out"
                )
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    @overload
    def standardise(self, sparse: Source) -> Source: ...
    @overload
    def standardise(self, sparse: Target) -> Target: ...
    @overload
    def standardise(self, sparse: Pair) -> Pair: ...
    @overload
    def standardise(self, sparse: OraclePair) -> OraclePair: ...
    def standardise(self, sparse: Source | Target | Pair | OraclePair) -> Source | Target | Pair | OraclePair:
        """Physical units to standard ones; exact zeros stay off the mask."""
        if isinstance(sparse, Source):
            values = self._to_standard(sparse.values)
            return Source.of(values, sparse.mask, sparse.lead, sparse.covariates)
        if isinstance(sparse, Target):
            return Target.of(self._to_standard(sparse.values), sparse.mask)
        if isinstance(sparse, Pair):
            return Pair(self.standardise(sparse.source), self.standardise(sparse.target))
        return OraclePair(self.standardise(sparse.pair), self._to_standard(sparse.dense))

    def restore(self, values: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        """Standard units back to physical ones, at every cell."""
        return values * self._column(self.std, values) + self._column(self.mean, values)

    def as_dict(self) -> dict[str, Any]:
        return {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Scaling:
        return cls(tuple(map(float, plain["mean"])), tuple(map(float, plain["std"])))

    def _to_standard(self, values: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        return (values - self._column(self.mean, values)) / self._column(self.std, values)

    @staticmethod
    def _column(statistics: tuple[float, ...], like: Tensor) -> Tensor:  # (C, 1, 1)
        return torch.tensor(statistics, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)


def _sums(
    store: PairStore,
    indices: Indices,
    term: Callable[[np.ndarray, np.ndarray], np.ndarray],  # (values, channel of each) -> terms
) -> np.ndarray:  # (C,)
    """The sum of a term over all readings of the examples, by variable, in double precision."""
    cells = store.grid.cells
    total = np.zeros(len(store.variables))
    for start in range(0, len(indices), CHUNK):
        for side in ("source", "target"):
            _, flat, values = store.readings_of(side, indices[start : start + CHUNK])
            channel = flat // cells
            total += np.bincount(channel, term(values.astype(np.float64), channel), minlength=len(total))
    return total
