"""The rule that does not bend: nothing outside the masks reaches a store, a scaling, a loss, a gradient or a
weight.

Every unobserved value of the truth is filled with 1e30 or NaN before it is measured; everything downstream must come
out bit-identical. The files of a store are compared in `test_pairs.py`, losses and gradients by the models' contract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny
from solidfield.fields import OraclePair, Pair, Source, Target
from solidfield.forecast import Forecaster
from solidfield.keys import torch_generator
from solidfield.models import MODELS, build
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import PairStore
from solidfield.training.augment import roll, thin
from solidfield.training.checkpoint import load_state
from solidfield.training.loop import train
from solidfield.training.record import RunRecord

POISONS = (1e30, math.nan)
STRICT = ("tiny", *MODELS)


@dataclass(frozen=True)
class Strict:
    """The clean store, and the same readings taken from poisoned truth."""

    clean: PairStore
    poisoned: dict[float, PairStore]
    share: float  # of the truth that was poisoned


def measured(truth: tiny.TinyTruth, store: PairStore) -> np.ndarray:  # (N, F, C, H, W) bool
    """Every value of the truth that some example holds, on either side."""
    seen = np.zeros(truth.fields.shape, dtype=bool)
    for side in ("source", "target"):
        for example in range(len(store)):
            where = store.columns["trajectory"][example], store.columns[f"frame_{side}"][example]
            seen[where].reshape(-1)[store.readings_of(side, [example])[1]] = True
    return seen


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Strict:
    folder = tmp_path_factory.mktemp("strict")
    truth = tiny.TinyTruth.make(channels=1)
    clean = tiny.tiny_store(folder / "clean", truth, leads=(0, 1))
    seen = measured(truth, clean)
    poisoned = {
        poison: tiny.tiny_store(
            folder / str(poison),
            tiny.TinyTruth(np.where(seen, truth.fields, np.float32(poison))),
            leads=(0, 1),
        )
        for poison in POISONS
    }
    return Strict(clean, poisoned, 1 - seen.mean())


def bits(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def all_bits(tensors: dict[str, Tensor]) -> dict[str, bytes]:
    return {name: bits(tensor) for name, tensor in tensors.items()}


def pair_bits(pair: Pair) -> list[bytes]:
    return [bits(t) for t in (pair.source.values, pair.source.mask, pair.target.values, pair.target.mask)]


def made(name: str, store: PairStore) -> Forecaster:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(name, tiny.spec_of(store), {} if name == "tiny" else {"size": "smoke"})


@pytest.mark.parametrize("poison", POISONS)
def test_a_store_and_its_scaling_hold_no_unobserved_value(strict: Strict, poison: float) -> None:
    assert strict.share > 0.5  # the poison is real
    clean, other = strict.clean, strict.poisoned[poison]
    everything = np.arange(len(clean))
    assert pair_bits(other.batch(everything)) == pair_bits(clean.batch(everything))
    fitted = [Scaling.fit(store, store.split("train")) for store in (clean, other)]
    assert fitted[0] == fitted[1]


@pytest.mark.parametrize("name", STRICT)
def test_weights_after_ten_steps_are_bit_identical(strict: Strict, name: str, run: Path) -> None:
    at_the_end = {"checkpoint_every": 10, "validate_every": 10, "validation_examples": 1}
    config = tiny.tiny_config(steps=10, thin=0.5, **at_the_end)
    found = []
    for place, store in enumerate((strict.clean, strict.poisoned[1e30])):
        model = made(name, store)
        start = all_bits(model.state_dict())
        train(model, store, run / str(place), config, {} if name == "tiny" else {"size": "smoke"})
        used = all_bits(RunRecord.open(run / str(place)).model.state_dict())
        saved = load_state(run / str(place) / "state")
        found.append((used, None if saved is None else all_bits(dict(saved[1].tensors["model"]))))
        assert used != start or not start  # something was learnt, by whoever has anything to learn
    assert found[0] == found[1]


@pytest.mark.parametrize("poison", POISONS)
def test_a_pair_made_of_poisoned_fields_is_the_same_pair(poison: float) -> None:
    pair = tiny.random_pair(channels=2)
    wrong = torch.tensor(poison)
    source = torch.where(pair.source.mask, pair.source.values, wrong)
    target = torch.where(pair.target.mask, pair.target.values, wrong)
    again = Pair(Source.of(source, pair.source.mask, pair.source.lead), Target.of(target, pair.target.mask))
    assert pair_bits(again) == pair_bits(pair)


def test_scaling_rolling_and_thinning_keep_exact_zeros_off_the_masks() -> None:
    scaling = Scaling((3.0, -40.0), (0.5, 7.0))
    pair = roll(scaling.standardise(tiny.random_pair(channels=2)), (1, 1), torch_generator(0))
    pair = Pair(thin(pair.source, 1.0, 0.5, torch_generator(1)), pair.target)
    for part in (pair.source, pair.target):
        assert not part.values[~part.mask].any()
        assert part.values[part.mask].all()


def test_a_strict_pair_has_no_slot_for_a_dense_field() -> None:
    assert set(Pair.__dataclass_fields__) == {"source", "target"}
    assert not isinstance(tiny.random_pair(), OraclePair)
