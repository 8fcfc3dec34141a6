"""Standardising: z = (g(u) - mean) / std per variable, with statistics of observed training values only.

g is the identity, or log(u + offset) or sqrt(u + offset) for what is positive and skewed, such as a concentration. Off
the mask a standardised field is exactly zero again, so a cell that was not measured looks the same whatever the mean
is. A reading that several examples share is counted as often as it appears; of a record, once. On the way back a value
beyond the floor or the ceiling of its variable (`limits.py`) is that of the floor or the ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from ..errors import SolidError
from ..fields import OraclePair, Pair, Source, Target, Window
from ..questions.record import Record
from .limits import Limit
from .store import Indices, PairStore

CHUNK = 4096  # examples whose readings are gathered at a time
TRANSFORMS = ("none", "log", "sqrt")


@dataclass(frozen=True)
class Scaling:
    """Physical units to standard ones and back, by the statistics of training readings.

    Parameters
    ----------
    mean, std : tuple of float
        (C,) of each variable, after its transform.
    transforms : tuple of str
        (C,) "none", "log" or "sqrt". Default: none at all.
    offsets : tuple of float
        (C,) of log(x + offset) and sqrt(x + offset), physical units.
    physical : tuple of float
        (C,) standard deviations of the untransformed readings. Default: `std` itself.
    floors, ceilings : tuple of (value, edge) or None
        (C,) beyond the edge, the value is read, physical units. Default: none at all.

    Examples
    --------
    >>> scaling = Scaling(mean=(10.0,), std=(2.0,))
    >>> scaling.restore(torch.ones(1, 1, 1)).item()
    12.0
    """

    mean: tuple[float, ...]  # (C,)
    std: tuple[float, ...]  # (C,)
    transforms: tuple[str, ...] = ()  # (C,) of TRANSFORMS; empty: none at all
    offsets: tuple[float, ...] = ()  # (C,) of the transforms, physical units
    physical: tuple[float, ...] = ()  # (C,) standard deviation of the untransformed readings; empty: std itself
    floors: tuple[tuple[float, float] | None, ...] = ()  # (C,) value, and the edge below which it is read; empty: none
    ceilings: tuple[tuple[float, float] | None, ...] = ()  # (C,) the same above

    @classmethod
    def fit(cls, store: PairStore, indices: Indices) -> Scaling:
        """Pooled statistics of the sources' and targets' readings in the given (training) examples."""
        transforms, offsets = store.transforms, store.offsets
        plain = all(transform == "none" for transform in transforms)

        def change(values: np.ndarray, channel: np.ndarray) -> np.ndarray:
            return values if plain else transformed(values, channel, transforms, offsets, store.variables)

        count = _sums(store, indices, lambda values, channel: np.ones_like(values))
        for variable, n in zip(store.variables, count, strict=True):
            if n == 0:
                raise SolidError(f"variable '{variable}' has no reading in the training examples; leave it out")
        mean, std = _moments(store, indices, count, change)
        for variable, centre, width in zip(store.variables, mean, std, strict=True):
            if width <= 1e-7 * abs(centre):  # below the resolution of a float32 reading
                raise SolidError(
                    f"variable '{variable}' is constant ({centre:g}) in the training readings; leave it out"
                )
        statistics = (tuple(mean.tolist()), tuple(std.tolist()))
        if plain:
            return cls(*statistics)
        _, physical = _moments(store, indices, count, lambda values, channel: values)
        return cls(*statistics, tuple(transforms), tuple(offsets), tuple(physical.tolist()))

    @classmethod
    def of_record(cls, record: Record, readings: np.ndarray, transforms: Sequence[str]) -> Scaling:
        """Statistics of these (training) readings of a record, each counted once."""
        values, channel = record.values[readings].astype(np.float64), record.cells[readings] // record.grid.cells
        offsets = (0.0,) * len(transforms)
        changed = transformed(values, channel, transforms, offsets, record.variables)
        by_variable = [channel == c for c in range(len(record.variables))]
        for variable, mine in zip(record.variables, by_variable, strict=True):
            if not mine.any() or np.ptp(values[mine]) == 0:
                raise SolidError(f"variable '{variable}' has no training readings that differ; leave it out")
        mean, std = (tuple(float(of(changed[mine])) for mine in by_variable) for of in (np.mean, np.std))
        physical = tuple(float(values[mine].std()) for mine in by_variable)
        return cls(mean, std, tuple(transforms), offsets, physical)

    def within(self, floors: Sequence[Limit | None], ceilings: Sequence[Limit | None]) -> Scaling:
        """The same, with these limits of the variables (C,)."""
        low, high = (tuple(one and (one.value, one.edge) for one in limits) for limits in (floors, ceilings))
        return replace(self, floors=low if any(low) else (), ceilings=high if any(high) else ())

    def of_readings(self, record: Record) -> Record:
        """The record in standard units."""
        channel = record.cells // record.grid.cells
        transforms, offsets = self.transforms or ("none",) * len(self.mean), self.offsets or (0.0,) * len(self.mean)
        changed = transformed(record.values.astype(np.float64), channel, transforms, offsets, record.variables)
        standard = (changed - np.asarray(self.mean)[channel]) / np.asarray(self.std)[channel]
        if record.errors is None:
            return record.with_values(standard)
        nudged = record.values + np.maximum(record.errors, 1e-6).astype(np.float64)  # the slope, at each reading
        moved = transformed(nudged, channel, transforms, offsets, record.variables) - changed
        return replace(record.with_values(standard), errors=(moved / np.asarray(self.std)[channel]).astype(np.float32))

    def physical_of(self, values: Tensor, channel: Tensor) -> Tensor:  # (..., n), (n,) -> (..., n)
        """Values in a list, each of a variable, back in physical units."""
        spread = values.new_zeros(len(self.mean), *values.shape[:-1], values.shape[-1]) + values
        every = self.restore(spread.movedim(0, -1)[..., None, None])[..., 0, 0]  # (..., n, C)
        return every.gather(-1, channel.expand(values.shape)[..., None])[..., 0]

    @property
    def physical_std(self) -> tuple[float, ...]:  # (C,)
        """The standard deviation of the readings themselves: what a score in physical units is divided by."""
        return self.physical or self.std

    def standard_error(self, obs_std: float) -> float:
        """An error of reading in physical units, in standard ones, at a typical reading; the mean over variables.

        >>> Scaling((5.0,), (2.0,)).standard_error(1.0)
        0.5
        """
        names = self.transforms or ("none",) * len(self.mean)
        slope_of = {"none": lambda m: 1.0, "log": lambda m: math.exp(-m), "sqrt": lambda m: 0.5 / m}
        slopes = [slope_of[name](m) for m, name in zip(self.mean, names, strict=True)]
        return obs_std * sum(slope / std for slope, std in zip(slopes, self.std, strict=True)) / len(self.std)

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
            window = sparse.window
            if window is not None:
                window = Window.of(self._to_standard(window.values), window.mask)
            return Source.of(values, sparse.mask, sparse.lead, sparse.covariates, window)
        if isinstance(sparse, Target):
            return Target.of(self._to_standard(sparse.values), sparse.mask)
        if isinstance(sparse, Pair):
            return Pair(self.standardise(sparse.source), self.standardise(sparse.target))
        return OraclePair(self.standardise(sparse.pair), self._to_standard(sparse.dense))

    def restore(self, values: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        """Standard units back to physical ones, at every cell, and within the limits of each variable."""
        values = values * self._column(self.std, values) + self._column(self.mean, values)
        if self.transforms:
            lowered = torch.where(self._are("log", values), values.exp(), values.clamp_min(0) ** 2)
            values = torch.where(self._are("none", values), values, lowered - self._column(self.offsets, values))
        for limits, sign in ((self.floors, 1.0), (self.ceilings, -1.0)):
            if any(limits):
                value, edge = zip(*(limit or (0.0, -sign * math.inf) for limit in limits), strict=True)
                beyond = sign * values < sign * self._column(edge, values)
                values = torch.where(beyond, self._column(value, values), values)
        return values

    def as_dict(self) -> dict[str, Any]:
        """Plain lists; a scaling without transforms needs two."""
        return {name: list(column) for name, column in asdict(self).items() if column}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Scaling:
        return TypeAdapter(cls).validate_python(plain)

    def sound(self, variables: int) -> bool:
        """Can this be a scaling of so many variables?"""
        lengths = {len(column) for column in (self.mean, self.std, self.physical_std)}
        optional = (self.transforms, self.offsets, self.floors, self.ceilings)
        lengths |= {len(column) for column in optional if column}
        limits = [number for limit in (*self.floors, *self.ceilings) if limit for number in limit]
        return (
            lengths == {variables}
            and all(map(math.isfinite, limits))
            and all(map(math.isfinite, (*self.mean, *self.offsets)))
            and all(0 < std < math.inf for std in (*self.std, *self.physical_std))
            and {*self.transforms} <= {*TRANSFORMS}
        )

    def _to_standard(self, values: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        if self.transforms:
            raised = values + self._column(self.offsets, values)
            changed = torch.where(self._are("log", values), raised.log(), raised.clamp_min(0).sqrt())
            values = torch.where(self._are("none", values), values, changed)
        return (values - self._column(self.mean, values)) / self._column(self.std, values)

    def _are(self, transform: str, like: Tensor) -> Tensor:  # (C, 1, 1) bool
        return torch.tensor([name == transform for name in self.transforms], device=like.device).reshape(-1, 1, 1)

    @staticmethod
    def _column(statistics: tuple[float, ...], like: Tensor) -> Tensor:  # (C, 1, 1)
        return torch.tensor(statistics, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)


def check_transform(transform: str, offset: float, name: str = "the readings") -> None:
    """Refuse what is no transform, before anything is read for it."""
    if transform not in TRANSFORMS:
        raise SolidError(f"unknown transform '{transform}' of {name}; choose one of {', '.join(TRANSFORMS)}")
    if not math.isfinite(offset):
        raise SolidError(f"the offset {offset} of {name} is no number to add; give one such as 1")


def transformed(
    values: np.ndarray,  # (n,) float64
    channel: np.ndarray,  # (n,) which variable each is of
    transforms: Sequence[str],  # (C,)
    offsets: Sequence[float],  # (C,)
    variables: Sequence[str],  # (C,) names, for the error
) -> np.ndarray:  # (n,)
    """g of every reading; a reading that has no logarithm or root is an error that names the remedy."""
    logs, roots = (np.array([name == wanted for name in transforms])[channel] for wanted in ("log", "sqrt"))
    raised = values + np.asarray(offsets)[channel]
    impossible = (logs & (raised <= 0)) | (roots & (raised < 0))
    if impossible.any():
        first = int(np.flatnonzero(impossible)[0])
        what = "logarithm" if logs[first] else "square root"
        raise SolidError(
            f"variable '{variables[channel[first]]}' holds {values[first]:g}, which has no {what}; give an offset "
            "above its lowest reading, or transform none"
        )
    changed = np.where(logs, np.log(np.where(logs, raised, 1.0)), values)
    return np.where(roots, np.sqrt(np.where(roots, raised, 1.0)), changed)


def _moments(
    store: PairStore,
    indices: Indices,
    count: np.ndarray,  # (C,)
    change: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:  # (C,) mean, (C,) std
    mean = _sums(store, indices, change) / count
    squares = _sums(store, indices, lambda values, channel: (change(values, channel) - mean[channel]) ** 2)
    return mean, np.sqrt(squares / count)


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
