"""What the loop needs of the data: a batch for every step, held-out examples to judge by, and what a run must know.

A `Task` hides whether examples are pairs or questions; the loop, its checkpoints and its budget know neither.

Which examples a step sees is a pure function of (seed, step, rank). Epochs follow each other without a gap: position p
of that endless sequence is entry p mod E of the permutation of epoch p div E, so each example comes once an epoch
whatever the batch size, and step n takes positions [n B, (n + 1) B). Rank r of R processes takes the r-th of R equal
shares.

Validation is the fair CRPS of the averaged weights at the observed targets of held-out examples. Examples and members
are the same at every validation of a run, so that a difference between two of them is the weights' and not the draw's.
Values are standardised: variables of different units can share the score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from ..config import TrainConfig
from ..errors import SolidError
from ..fields import OraclePair, Pair
from ..forecast import Forecaster
from ..keys import evenly, key, numpy_generator, torch_generator
from ..noise import MemberNoise
from ..pairs.covariates import Recipe
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..scores.metrics import crps
from .augment import hide, roll
from .crops import centred, corners, crop_shape, large_parts, standard_crops, wide
from .record import CELLS


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


def validation_examples(store: PairStore, config: TrainConfig) -> np.ndarray | None:  # (V,) indices
    """At most `validation_examples` of the validation split; None where the store has none."""
    if store.attributes["splits"]["validation"] == 0:
        return None
    held_out = store.split("validation")
    order = numpy_generator(config.seed, "validation").permutation(len(held_out))
    return np.sort(held_out[order[: config.validation_examples]])


@torch.no_grad()
def total_crps(
    model: Forecaster,
    store: PairStore,
    scaling: Scaling,
    examples: np.ndarray,  # (V,)
    config: TrainConfig,
    device: torch.device | str = "cpu",
) -> float:
    """The sum over examples of their mean CRPS, so that the shares of several processes can be added."""
    members = config.validation_members if model.stochastic else 1
    at_once = max(1, config.batch // members)  # as many fields in memory as a training batch has
    seed = key(config.seed, "validation")
    total = 0.0
    for start in range(0, len(examples), at_once):
        chosen = examples[start : start + at_once]
        pair = standard_crops(store, scaling, chosen) if model.crops else scaling.standardise(store.batch(chosen))
        pair = pair.to(device)
        noise = MemberNoise(seed, chosen.tolist(), range(members), device)
        ensemble = model.sample_few(pair.source, members, noise)
        if not torch.isfinite(ensemble).all():
            raise SolidError(
                "the model draws values that are not finite at validation; train again with a lower train.lr"
            )
        total += float(crps(ensemble.float(), pair.target.values, pair.target.mask)) * len(chosen)
    return total


PREPARE_EXAMPLES = 2000  # training examples for `Forecaster.prepare`: a covariance settles long before
CONCLUDE_EXAMPLES = 400  # held-out examples for `Forecaster.conclude`: about 10,000 pairs of targets a lag
CONCLUDE_WITH_WINDOW = 2000  # ... with a window, where several leads share them


class Batch(Protocol):
    """Examples that can be moved to a device; what is in them is between the task and the model."""

    def to(self, device: torch.device | str) -> Self: ...


class Task(ABC):
    """The data of a training run."""

    scaling: Scaling
    held_out: int  # examples that validation judges; 0: there are none

    @abstractmethod
    def check(self, model: Any) -> None:
        """Refuse a model that is not made for these data."""

    @abstractmethod
    def batch(self, step: int, rank: int, processes: int, model: Any) -> Batch:
        """This rank's share of the examples of a step: a pure function of its arguments."""

    @abstractmethod
    def prepare(self, model: Any, device: torch.device | str = "cpu") -> None:
        """Give a new model training examples for what its loss starts from."""

    @abstractmethod
    def total_crps(self, model: Any, rank: int, processes: int, device: torch.device | str) -> float:
        """The sum of the CRPS of this rank's share of the held-out examples, in standard deviations."""

    @abstractmethod
    def conclude(self, model: Any, device: torch.device | str) -> None:
        """Give the finished model held-out examples for what its loss did not see."""

    @abstractmethod
    def describe(self, model: Any) -> dict[str, Any]:
        """What decides the data, and what a run needs to use the model again; plain JSON."""

    @abstractmethod
    def files(self) -> dict[str, dict[str, Tensor]]:
        """What a run keeps in files: of the grid the cells that count, those never supervised, static fields."""


@dataclass(frozen=True)
class PairTask(Task):
    """Pairs of a store, for every model that forecasts a target from a source."""

    store: PairStore
    scaling: Scaling
    config: TrainConfig
    examples: np.ndarray | None  # (V,) of validation

    @classmethod
    def of(cls, store: PairStore, config: TrainConfig, scaling: Scaling | None = None) -> PairTask:
        """The task of a store; statistics are those of its training readings unless they are given."""
        held_out = validation_examples(store, config)
        return cls(store, scaling or Scaling.fit(store, store.split("train")), config, held_out)

    @property
    def held_out(self) -> int:  # type: ignore[override]
        return 0 if self.examples is None else len(self.examples)

    def check(self, model: Forecaster) -> None:
        store = self.store
        made, found = (model.spec.channels, *model.spec.grid.shape), (len(store.variables), *store.grid.shape)
        if made != found:
            raise SolidError(
                f"the model is made for (variables, y, x) = {made} and {store.path} has {found}; "
                "build it from the store's grid and variables"
            )
        if model.leaks and not store.leaks:
            raise SolidError(
                f"'{model.name}' run as oracle needs dense truth and {store.path} has readings only; "
                "observe with oracle on"
            )

    def batch(self, step: int, rank: int, processes: int, model: Forecaster) -> Pair | OraclePair:
        """Standardised, rolled along the world's symmetries, thinned; with dense targets for a model that leaks."""
        store, config = self.store, self.config
        train = store.split("train")
        chosen = train[rows_of_step(len(train), config.batch, step, config.seed, rank, processes)]
        corner = None
        if model.crops:
            corner = corners(store, chosen, crop_shape(store), (config.seed, "crop", step, rank))
            drawn: Pair | OraclePair = wide(store, chosen, corner)
        else:
            drawn = store.oracle_batch(chosen) if model.leaks else store.batch(chosen)
        drawn = self.scaling.standardise(drawn)
        if config.shifts and any(store.shifts) and corner is None:
            drawn = roll(drawn, store.shifts, torch_generator(config.seed, "roll", step, rank))
        if config.thin > 0:
            pair = drawn.pair if isinstance(drawn, OraclePair) else drawn
            generator = torch_generator(config.seed, "thin", step, rank)
            past = Recipe.from_dict(store.recipe).past if store.recipe else 0
            pair = hide(pair, config.thin, config.thin_most, generator, past)
            drawn = replace(drawn, pair=pair) if isinstance(drawn, OraclePair) else pair
        return drawn if corner is None or isinstance(drawn, OraclePair) else centred(drawn, corner, store)

    def batches(
        self, indices: np.ndarray, device: torch.device | str = "cpu", model: Forecaster | None = None
    ) -> Iterator[Pair]:
        """Examples in chunks, standardised, for what is estimated outside the loop; crops for a model of crops."""
        for start in range(0, len(indices), self.config.batch):
            rows = indices[start : start + self.config.batch]
            if model is not None and model.crops:
                yield standard_crops(self.store, self.scaling, rows).to(device)
            else:
                yield self.scaling.standardise(self.store.batch(rows)).to(device)

    def prepare(self, model: Forecaster, device: torch.device | str = "cpu") -> None:
        train = self.store.split("train")
        some = evenly(train, PREPARE_EXAMPLES)
        if self.store.window > 1:  # whole sources, so that every lead is among them
            some = np.concatenate(self.store.of_sources(train, PREPARE_EXAMPLES))
        if model.crops:
            parts = (large_parts(self.store, some[i : i + 16]) for i in range(0, len(some), 16))
            model.prepare(self.scaling.standardise(part).to(device) for part in parts)
            return
        model.prepare(self.batches(some, device))

    def total_crps(self, model: Forecaster, rank: int, processes: int, device: torch.device | str) -> float:
        assert self.examples is not None
        share = self.examples[rank::processes]
        return total_crps(model, self.store, self.scaling, share, self.config, device)

    def conclude(self, model: Forecaster, device: torch.device | str) -> None:
        """Held-out examples, or training ones where there are none."""
        indices = self.store.split("validation" if self.held_out else "train")
        earlier, later = (
            self.batches(evenly(r, CONCLUDE_EXAMPLES), device, model) for r in self.store.followed(indices)
        )
        held_out: Iterable[Pair] = self.batches(evenly(indices, CONCLUDE_EXAMPLES), device, model)
        if self.store.window > 1:
            groups = self.store.of_sources(indices, CONCLUDE_WITH_WINDOW)
            held_out = chain.from_iterable(self.batches(group, device) for group in groups)
        model.conclude(held_out, self.never_supervised().to(device), zip(earlier, later, strict=True))

    def describe(self, model: Forecaster) -> dict[str, Any]:
        store = self.store
        data = {
            "fingerprint": store.fingerprint,
            "grid": model.spec.grid.as_dict(),
            "variables": list(store.variables),
            "units": list(store.units),
            "covariates": model.spec.covariates,
            "shifts": list(model.spec.shifts),
            "leads": sorted(int(lead) for lead in store.leads),
            "step": float(store.step),
        }
        if store.recipe is not None:
            data["recipe"] = store.recipe
        if store.window > 1:
            data["window"] = store.window
        if store.epoch is not None:
            data |= {"epoch": store.epoch, "clock": store.attributes["clock"]}
        return data

    def never_supervised(self) -> Tensor:  # (C, H, W) bool
        """The cells that no training target teaches, moved ones included."""
        return torch.from_numpy(~_rolled(self.store.supervised(), self.store.shifts if self.config.shifts else (0, 0)))

    def files(self) -> dict[str, dict[str, Tensor]]:
        cells = {"never_supervised": self.never_supervised()}
        if self.store.grid.domain is not None:
            cells["domain"] = torch.as_tensor(self.store.grid.domain, dtype=torch.bool)
        if self.store.channels is not None:
            cells["static"] = torch.from_numpy(self.store.channels.static)
        return {CELLS: cells}


def _rolled(
    supervised: np.ndarray,  # (C, H, W) bool
    shifts: tuple[int, int],
) -> np.ndarray:  # (C, H, W) bool
    """The cells that targets reach once examples are rolled along the world's symmetries, too."""
    for axis, step in zip((1, 2), shifts, strict=True):
        if step:
            rolls = range(0, supervised.shape[axis] * step, step)
            supervised = np.any([np.roll(supervised, roll, axis) for roll in rolls], axis=0)
    return supervised
