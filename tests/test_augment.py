"""Augmentation: a roll is torch.roll and nothing else; thinning only ever removes."""

from dataclasses import replace

import pytest
import torch

from solidfield.fields import OraclePair, Pair, Source, Target
from solidfield.keys import torch_generator
from solidfield.training.augment import hide, hide_history, roll, thin


def pair_of(batch=64, channels=2, height=12, width=10, density=0.3) -> Pair:
    generator = torch_generator(0, "test")
    shape = (batch, channels, height, width)
    field = torch.randn(shape, generator=generator)
    masks = [torch.rand(shape, generator=generator) < density for _ in range(2)]
    covariates = torch.randn(batch, 3, height, width, generator=generator)
    return Pair(Source.of(field, masks[0], torch.arange(batch), covariates), Target.of(field, masks[1]))


@pytest.mark.parametrize("shifts", [(1, 1), (0, 1), (3, 0), (4, 5), (0, 0), (5, 4)])
def test_each_example_is_torch_roll_by_one_multiple(shifts):
    pair = pair_of()
    rolled = roll(pair, shifts, torch_generator(1))
    seen = set()
    for b in range(len(pair)):
        shift = [
            (dy, dx)
            for dy in range(12)
            for dx in range(10)
            if torch.equal(rolled.source.values[b], torch.roll(pair.source.values[b], (dy, dx), (1, 2)))
        ]
        assert len(shift) == 1
        seen.add(shift[0])
        for before, after in (
            (pair.source.mask, rolled.source.mask),
            (pair.source.covariates, rolled.source.covariates),
            (pair.target.values, rolled.target.values),
            (pair.target.mask, rolled.target.mask),
        ):
            assert torch.equal(after[b], torch.roll(before[b], shift[0], (1, 2)))
    assert {dy for dy, _ in seen} <= {k * shifts[0] % 12 for k in range(12)}
    assert {dx for _, dx in seen} <= {k * shifts[1] % 10 for k in range(10)}
    if shifts == (4, 5):  # 3 x 2 translations, 64 draws: all appear
        assert {dy for dy, _ in seen} == {0, 4, 8}
        assert {dx for _, dx in seen} == {0, 5}
    assert torch.equal(rolled.source.lead, pair.source.lead)


def test_roll_moves_the_dense_target_of_an_oracle_pair_along():
    pair = pair_of()
    both = roll(OraclePair(pair, pair.source.covariates), (1, 1), torch_generator(1))
    assert torch.equal(both.dense, both.pair.source.covariates)
    assert torch.equal(both.pair.source.values, roll(pair, (1, 1), torch_generator(1)).source.values)


def test_translations_are_uniform():
    field = torch.zeros(6000, 1, 3, 4)
    field[:, :, 0, 0] = 1
    mask = field.bool()
    pair = Pair(Source(field, mask, torch.zeros(6000)), Target(field, mask))
    share = roll(pair, (1, 2), torch_generator(2)).source.values.mean(0)[0]
    expected = torch.tensor([[1 / 6, 0, 1 / 6, 0]] * 3)
    assert (share - expected).abs().max() < 0.025


def test_thinning_only_removes_and_leaves_one():
    source = pair_of(density=0.05).source
    thinned = thin(source, 1.0, 1.0, torch_generator(3))
    assert not (thinned.mask & ~source.mask).any()
    assert torch.equal(thinned.values, torch.where(thinned.mask, source.values, 0))
    assert torch.equal(thinned.covariates, source.covariates)
    assert torch.equal(thinned.lead, source.lead)
    had, has = (s.mask.any(1).flatten(1).sum(1) for s in (source, thinned))
    assert (has[had > 0] >= 1).all()
    assert (has < had).any()


def test_a_hidden_sensor_is_hidden_in_all_variables():
    source = pair_of().source
    thinned = thin(source, 1.0, 0.9, torch_generator(4))
    kept = thinned.mask.any(1, keepdim=True)
    assert torch.equal(thinned.mask, source.mask & kept)


def test_counts_follow_the_law():
    """Share `probability` of the examples lose floor(u n) of n sensors, u uniform in [0, most]."""
    mask = torch.zeros(4000, 1, 10, 10, dtype=torch.bool)
    mask[:, :, :4] = True  # 40 sensors
    source = Source.of(torch.ones(4000, 1, 10, 10), mask, torch.zeros(4000))
    lost = 40 - thin(source, 0.5, 0.5, torch_generator(5)).mask.flatten(1).sum(1)
    assert lost.max() <= 20
    expected = 0.5 * sum(range(20)) / 20  # u uniform: floor(40 u) uniform on 0 .. 19
    assert abs(lost.double().mean() - expected) < 5 * lost.double().std() / 4000**0.5
    untouched = 0.5 + 0.5 / 20
    assert abs((lost == 0).double().mean() - untouched) < 0.04
    assert (thin(source, 0.0, 0.5, torch_generator(5)).mask == source.mask).all()


def test_every_sensor_is_hidden_equally_often():
    mask = torch.ones(4000, 1, 3, 3, dtype=torch.bool)
    source = Source.of(torch.ones(4000, 1, 3, 3), mask, torch.zeros(4000))
    kept = thin(source, 1.0, 0.9, torch_generator(6)).mask.double().mean(0)
    assert kept.max() - kept.min() < 0.05


def test_an_example_without_sensors_stays_as_it_is():
    source = Source(torch.zeros(2, 1, 3, 3), torch.zeros(2, 1, 3, 3, dtype=torch.bool), torch.zeros(2))
    assert not thin(source, 1.0, 0.5, torch_generator(0)).mask.any()


def test_both_are_pure_in_their_generator():
    pair = pair_of()
    for change in (
        lambda key: roll(pair, (1, 1), torch_generator(key)).source.values,
        lambda key: thin(pair.source, 0.5, 0.5, torch_generator(key)).values,
    ):
        assert torch.equal(change(7), change(7))
        assert not torch.equal(change(7), change(8))


def test_a_reading_hidden_at_lead_0_becomes_a_target_and_at_lead_1_it_does_not():
    pair = a_pair_of_both_leads()
    hidden = hide(pair, 1.0, 0.9, torch_generator(0))
    lost = pair.source.mask & ~hidden.source.mask
    assert lost[0].any()
    assert lost[1].any()
    assert torch.equal(hidden.target.mask[0], pair.target.mask[0] | lost[0])
    assert torch.equal(hidden.target.values[0][lost[0]], pair.source.values[0][lost[0]])
    assert torch.equal(hidden.target.mask[1], pair.target.mask[1])
    assert torch.equal(hidden.target.values[1], pair.target.values[1])


def a_pair_of_both_leads() -> Pair:
    generator = torch_generator(1)
    mask = torch.rand(2, 1, 8, 8, generator=generator) < 0.5
    values = torch.randn(2, 1, 8, 8, generator=generator)
    return Pair(Source.of(values, mask, torch.tensor([0.0, 1.0])), Target.of(values + 1, ~mask))


def test_a_hidden_cell_loses_its_past_in_half_of_the_examples_and_nothing_else_is_lost():
    count, past = 4000, 2
    generator = torch_generator(2)
    mask = torch.rand(count, 1, 4, 4, generator=generator) < 0.5
    covariates = 1 + torch.rand(count, 3, 4, 4, generator=generator)
    source = Source.of(torch.randn(mask.shape, generator=generator), mask, torch.ones(count), covariates)
    hidden = (mask & (torch.rand(mask.shape, generator=generator) < 0.5))[:, 0]
    result = hide_history(source, hidden, 0.5, past, torch_generator(3))
    assert torch.equal(result.covariates[:, :-past], covariates[:, :-past])
    kept = result.covariates[:, -past:] == covariates[:, -past:]
    gone = result.covariates[:, -past:] == 0
    assert (kept ^ gone).all()
    assert torch.equal(gone[:, 0], gone[:, 1])  # the value and its weight go together
    of_hidden = [gone[row, 0][hidden[row]] for row in range(count) if hidden[row].any()]
    assert all(bool(lost.all()) or not bool(lost.any()) for lost in of_hidden)  # all of the hidden cells or none
    without_history = torch.stack([lost.any() for lost in of_hidden]).float().mean()
    assert abs(float(without_history) - 0.5) < 5 * 0.5 / len(of_hidden) ** 0.5
    others = gone[:, 0][~hidden].float().mean()  # half of the examples, a share uniform in [0, 1/2]
    assert abs(float(others) - 0.125) < 0.01


def test_readings_are_hidden_alike_with_and_without_a_past():
    pair = a_pair_of_both_leads()
    told = replace(pair, source=replace(pair.source, covariates=torch.ones(2, 3, 8, 8)))
    without, within = hide(pair, 1.0, 0.9, torch_generator(0)), hide(told, 1.0, 0.9, torch_generator(0), past=2)
    assert torch.equal(without.source.mask, within.source.mask)
    assert torch.equal(without.target.values, within.target.values)
