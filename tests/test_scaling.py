"""Standardising: statistics of observed training values only, exact zeros off the mask, and the way back."""

import numpy as np
import pytest
import torch

from solidfield.errors import SolidError
from solidfield.fields import OraclePair, Pair, Source, Target
from solidfield.grid import Grid
from solidfield.pairs.limits import SHARE, check_within, floor_of, limits_of_record, parse_within
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import PairStore
from solidfield.pairs.writing import Example, write_pairs
from solidfield.questions.record import Record

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


def positive(cells, values):
    """The first variable log-normal, the second as it was."""
    return np.where(cells < 20, np.exp((values - 100) / 4), values).astype(np.float32)


def logged_store(path, offsets=(0.0, 0.0), make=positive) -> PairStore:
    plain = store_of(path / "plain", make=make)
    pair = plain.batch(range(len(plain)))

    def example(n: int) -> Example:
        sides = []
        for side in (pair.source, pair.target):
            cells = np.flatnonzero(side.mask[n].numpy())
            sides += [cells, side.values[n].numpy().ravel()[cells]]
        return Example(*sides, lead=1, split="train", time_source=n, time_target=n + 1)

    examples = (example(n) for n in range(len(plain)))
    return write_pairs(path / "log", GRID, ("pm", "wind"), examples, transforms=("log", "none"), offsets=offsets)


@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_a_logarithm_is_fitted_on_logs_and_comes_back(tmp_path, offset):
    store = logged_store(tmp_path, offsets=(offset, 0.0))
    scaling = Scaling.fit(store, store.split("train"))
    pair = store.batch(store.split("train"))
    standard = scaling.standardise(pair)
    pooled = torch.cat([side.values[:, 0][side.mask[:, 0]] for side in (pair.source, pair.target)]).double()
    assert scaling.mean[0] == pytest.approx((pooled + offset).log().mean().item(), rel=1e-9)
    assert scaling.std[0] == pytest.approx((pooled + offset).log().std(correction=0).item(), rel=1e-9)
    assert scaling.physical_std[0] == pytest.approx(pooled.std(correction=0).item(), rel=1e-9)
    assert scaling.physical_std[1] == pytest.approx(scaling.std[1])
    for side, before in ((standard.source, pair.source), (standard.target, pair.target)):
        assert (side.values[~before.mask] == 0).all()
        torch.testing.assert_close(scaling.restore(side.values)[before.mask], before.values[before.mask])
    assert Scaling.from_dict(scaling.as_dict()) == scaling


def test_logarithms_are_of_their_own_variable_alone(tmp_path):
    store = logged_store(tmp_path)
    scaling = Scaling.fit(store, store.split("train"))
    members = torch.zeros(3, 2, 4, 5)
    restored = scaling.restore(members)
    assert restored[0, 0, 0, 0].item() == pytest.approx(np.exp(scaling.mean[0]), rel=1e-6)
    assert restored[0, 1, 0, 0].item() == pytest.approx(scaling.mean[1], rel=1e-6)


def test_a_reading_without_a_logarithm_names_the_remedy(tmp_path):
    store = logged_store(tmp_path, make=lambda cells, values: np.where(cells == 3, 0.0, positive(cells, values)))
    with pytest.raises(SolidError, match=r"'pm' holds 0.*offset"):
        Scaling.fit(store, store.split("train"))


def test_without_a_transform_the_physical_deviation_is_the_deviation():
    assert Scaling((1.0,), (2.0,)).physical_std == (2.0,)
    assert Scaling((1.0,), (2.0,)).as_dict() == {"mean": [1.0], "std": [2.0]}


def rounded(values, step):
    return np.round(np.asarray(values) / step) * step


@pytest.mark.parametrize("step", [1e-6, 0.1, 1.0])
def test_a_limit_is_a_pile_that_nothing_passes_and_a_tail_is_none(step):
    normal = rounded(10 + 4 * np.random.default_rng(0).standard_normal(5000), step)
    assert floor_of(normal) is None
    cut = np.maximum(normal, 8.0)
    found = floor_of(cut)
    assert found is not None
    assert found.value == 8.0
    assert found.share == np.mean(cut == 8.0)
    assert found.edge == pytest.approx(8 + step / 2, abs=0.01 if step < 0.1 else 1e-9)
    assert floor_of(-cut) is None  # the other end is a tail


def test_a_small_pile_is_a_limit_only_where_the_kind_of_quantity_ends():
    values = np.concatenate([np.zeros(30), np.random.default_rng(0).uniform(1, 2, 970)])
    assert SHARE <= 0.03
    assert floor_of(values) is None
    assert floor_of(values, own=0.0).share == 0.03


def test_where_the_kind_of_quantity_ends_nothing_lies_beyond_unless_readings_pass_it():
    values = np.random.default_rng(0).uniform(1, 2, 1000)
    assert floor_of(values) is None
    assert floor_of(values, own=0.0) == (0.0, 0.0, 0.0)
    assert floor_of(values - 1.5, own=0.0) is None


def test_limits_that_a_user_gives_hold_where_the_kind_says_nothing_or_other():
    values = np.random.default_rng(0).uniform(1, 2, (50, 1, 4, 5)).astype(np.float32)
    record = Record.of_frames(values, GRID, ("index",), np.zeros(50, int))
    everything = np.arange(len(record.values))
    assert limits_of_record(record, everything)[:2] == ((None,), (None,))
    for given in ({"index": (0.5, 3.0)}, {"*": (0.5, 3.0)}):
        floors, ceilings, _ = limits_of_record(record, everything, given)
        assert (floors, ceilings) == (((0.5, 0.5, 0.0),), ((3.0, 3.0, 0.0),))
    assert limits_of_record(record, everything, {"index": (None, 3.0)})[0] == (None,)
    with pytest.raises(SolidError, match="widen --within"):
        limits_of_record(record, everything, {"index": (1.5, None)})


@pytest.mark.parametrize("text", ["5", "a..b", "0-100", "pm=", "0..1,x"])
def test_a_range_that_is_none_is_refused(text):
    with pytest.raises(SolidError, match="is no range"):
        parse_within(text)


def test_limits_of_no_variable_and_ends_in_the_wrong_order_are_refused():
    for given in ({"x": (0.0, 1.0)}, {"*": (0.0, 1.0)}, {"pm": (1.0, 0.0)}, {"pm": (0.0, 0.0)}):
        with pytest.raises(SolidError, match="within"):
            check_within(given, ("pm", "no2"))
    check_within({"*": (0.0, None)}, ("pm",))


def test_nothing_comes_back_beyond_a_limit_and_all_else_as_without():
    generator = np.random.default_rng(1)
    wet, humid = np.maximum(generator.normal(-1, 2, (40, 20)), 0), np.minimum(generator.normal(95, 6, (40, 20)), 100)
    frames = np.stack([wet, humid], 1).reshape(40, 2, 4, 5).astype(np.float32)
    record = Record.of_frames(frames, GRID, ("rain", "humidity"), np.zeros(40, int))
    everything = np.arange(len(record.values))
    floors, ceilings, words = limits_of_record(record, everything)
    assert len(words) == 2
    plain = Scaling.of_record(record, everything, ("sqrt", "none"))
    scaling = plain.within(floors, ceilings)
    latents = torch.linspace(-4, 4, 1001)[:, None, None, None].expand(-1, 2, 1, 1)
    free, bound = plain.restore(latents), scaling.restore(latents)
    edge = scaling.floors[0][1], scaling.ceilings[1][1]
    assert torch.equal(bound[:, 0], torch.where(free[:, 0] < edge[0], torch.zeros(()), free[:, 0]))
    assert torch.equal(bound[:, 1], torch.where(free[:, 1] > edge[1], torch.tensor(100.0), free[:, 1]))
    assert Scaling.from_dict(scaling.as_dict()) == scaling
    assert scaling.sound(2)
    listed = scaling.physical_of(
        torch.from_numpy(scaling.of_readings(record).values), torch.from_numpy(record.cells // 20)
    )
    assert torch.allclose(listed, torch.from_numpy(record.values), atol=1e-3)
