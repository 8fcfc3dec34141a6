"""Standardising: statistics of observed training values only, exact zeros off the mask, and the way back."""

import numpy as np
import pytest
import torch

from solidfield.errors import SolidError
from solidfield.fields import OraclePair, Pair, Source, Target
from solidfield.grid import Grid
from solidfield.pairs import Example, PairStore, write_pairs
from solidfield.scaling import Scaling

GRID = Grid((4, 5))
MEANS, STDS = np.array([100.0, -3.0]), np.array([4.0, 0.5])


def store_of(path, make=None, count=30) -> PairStore:
    """Two variables of other statistics, read at other cells and not equally often."""
    generator = np.random.default_rng(0)

    def example(n: int) -> Example:
        sides = []
        for _ in range(2):
            cells = generator.choice(40, size=generator.integers(8, 20), replace=False)
            values = MEANS[cells // 20] + STDS[cells // 20] * generator.standard_normal(len(cells))
            sides += [cells, values if make is None else make(cells, values)]
        return Example(*sides, lead=1, split="train" if n < count - 3 else "test", time_source=n, time_target=n + 1)

    return write_pairs(path, GRID, ("pressure", "wind"), (example(n) for n in range(count)))


def test_fit_is_the_pooled_mean_and_std_of_training_readings(tmp_path):
    store = store_of(tmp_path / "pairs")
    train = store.split("train")
    scaling = Scaling.fit(store, train)
    pair = store.batch(train)
    for channel in range(2):
        pooled = torch.cat([side.values[:, channel][side.mask[:, channel]] for side in (pair.source, pair.target)])
        assert scaling.mean[channel] == pytest.approx(pooled.double().mean().item(), rel=1e-12)
        assert scaling.std[channel] == pytest.approx(pooled.double().std(correction=0).item(), rel=1e-9)


def test_test_examples_do_not_enter(tmp_path):
    """Whatever the held-out readings are, the statistics of training stay the same."""
    plain = store_of(tmp_path / "plain")
    wild = store_of(tmp_path / "wild", count=33)  # six more examples drawn; the first 27 are the same and train
    assert Scaling.fit(plain, plain.split("train")) == Scaling.fit(wild, plain.split("train"))
    assert Scaling.fit(plain, plain.split("train")) != Scaling.fit(plain, np.arange(len(plain)))


def test_standardise_then_restore(tmp_path):
    store = store_of(tmp_path / "pairs")
    scaling = Scaling.fit(store, store.split("train"))
    pair = store.batch(store.split("train"))
    standard = scaling.standardise(pair)
    for side, before in ((standard.source, pair.source), (standard.target, pair.target)):
        assert (side.values[~before.mask] == 0).all()
        assert (side.mask == before.mask).all()
        torch.testing.assert_close(scaling.restore(side.values)[before.mask], before.values[before.mask])
    for channel in range(2):
        both = torch.cat([s.values[:, channel][s.mask[:, channel]] for s in (standard.source, standard.target)])
        assert both.mean().abs() < 1e-3
        assert (both.std() - 1).abs() < 1e-2


def test_every_kind_of_field():
    scaling = Scaling((1.0, 10.0), (2.0, 5.0))
    values = torch.tensor([3.0, 20.0]).reshape(1, 2, 1, 1).expand(1, 2, 4, 5)
    mask = torch.zeros(1, 2, 4, 5, dtype=torch.bool)
    mask[..., 0] = True
    source = scaling.standardise(Source.of(values, mask, torch.zeros(1)))
    assert source.values[0, :, 0, 0].tolist() == [1.0, 2.0]
    assert torch.equal(scaling.standardise(Target.of(values, mask)).values, source.values)
    members = scaling.restore(torch.ones(7, 3, 2, 4, 5))
    assert members[:, :, 0].unique().tolist() == [3.0]
    assert members[:, :, 1].unique().tolist() == [15.0]
    pair = Pair(Source.of(values, mask, torch.zeros(1)), Target.of(values, mask))
    assert scaling.standardise(OraclePair(pair, values)).dense[0, :, 3, 4].tolist() == [1.0, 2.0]


def test_plain_form_comes_back():
    scaling = Scaling((1.0, 0.1), (2.0, 1 / 3))
    assert Scaling.from_dict(scaling.as_dict()) == scaling


def test_constant_and_missing_variables_are_named(tmp_path):
    constant = store_of(tmp_path / "constant", make=lambda cells, values: np.where(cells >= 20, 1.3, values))
    with pytest.raises(SolidError, match=r"'wind' is constant \(1.3\)"):
        Scaling.fit(constant, constant.split("train"))
    lone = Example(np.array([1]), np.array([2.0]), np.array([3]), np.array([4.0]), 1, "train", 0.0, 1.0)
    missing = write_pairs(tmp_path / "missing", GRID, ("pressure", "wind"), [lone])
    with pytest.raises(SolidError, match="'wind' has no reading"):
        Scaling.fit(missing, missing.split("train"))
