"""Ensembles: chunking changes nothing, summaries are those of the members, rollouts condition on themselves."""

import numpy as np
import pytest
import torch

from solidfield.errors import SolidError
from solidfield.fields import Source
from solidfield.forecast import Forecaster, Spec
from solidfield.grid import Grid
from solidfield.noise import MemberNoise
from solidfield.pairs.scaling import Scaling
from solidfield.prediction.ensemble import draw, rollout

SCALING = Scaling((10.0,), (2.0,))


class Shifted(Forecaster):
    """x = mean reading of the query + unit noise: its law is known, and it shows what it was conditioned on."""

    name, family, reference, SIZES = "shifted", "test", "none", {}

    def loss(self, pair, generator):
        raise AssertionError("not trained")

    def sample(self, source, members, noise):
        readings = source.values.sum((1, 2, 3)) / source.mask.sum((1, 2, 3))
        return readings[:, None, None, None] + noise((1, *self.spec.grid.shape))


def a_source(n=3, shape=(4, 5), lead=1.0):
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(n, 1, *shape, generator=generator) < 0.4
    mask[:, :, 0, 0] = True
    return Source.of(10 + torch.randn(n, 1, *shape, generator=generator), mask, torch.full((n,), lead))


@pytest.fixture
def model():
    return Shifted(Spec(Grid((4, 5))))


def test_members_do_not_depend_on_how_they_are_chunked(model):
    whole = draw(model, SCALING, a_source(), 7, seed=3)
    tiny = draw(model, SCALING, a_source(), 7, seed=3, max_memory=1e-6)  # one member of one query at a time
    np.testing.assert_array_equal(whole.members, tiny.members)
    np.testing.assert_allclose(whole.mean, tiny.mean, rtol=1e-6)
    np.testing.assert_allclose(whole.std, tiny.std, rtol=1e-5)


def test_a_query_is_the_same_in_any_company(model):
    source = a_source(3)
    together = draw(model, SCALING, source, 4, queries=[5, 8, 9]).members
    alone = draw(model, SCALING, source[1:2], 4, queries=[8]).members
    np.testing.assert_array_equal(together[:, 1:2], alone)


def test_more_members_extend_the_ensemble(model):
    few, many = (draw(model, SCALING, a_source(), k).members for k in (3, 6))
    np.testing.assert_array_equal(few, many[:3])


def test_summaries_are_those_of_the_members_and_are_kept_without_them(model):
    kept = draw(model, SCALING, a_source(), 50, quantiles=(0.1, 0.5))
    np.testing.assert_allclose(kept.mean, kept.members.mean(0), rtol=1e-5)
    np.testing.assert_allclose(kept.std, kept.members.std(0, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(kept.quantiles[0.1], np.quantile(kept.members, 0.1, axis=0), rtol=1e-6)
    lean = draw(model, SCALING, a_source(), 50, quantiles=(0.1,), keep_members=False)
    assert lean.members is None
    np.testing.assert_array_equal(lean.quantiles[0.1], kept.quantiles[0.1])


def test_a_single_member_has_no_spread(model):
    assert (draw(model, SCALING, a_source(), 1).std == 0).all()


def test_a_rollout_restricts_its_own_prediction_to_the_sensors(model):
    source = a_source(2)
    states = rollout(model, source, MemberNoise(0, [0, 1], range(3)), steps=3)  # (K, B, L, C, H, W)
    noise = MemberNoise(0, [0, 1], range(3))
    state = model.sample(source, 3, noise)
    for step in range(3):
        torch.testing.assert_close(states[:, :, step], state, rtol=0, atol=1e-6)
        fresh = noise((1, 4, 5))
        mean = (state * source.mask).sum((2, 3, 4)) / source.mask.sum((1, 2, 3))
        state = mean[..., None, None, None] + fresh


class Walk(Shifted):
    """A random walk: x_h = x_{h-1} + e_h, with noise that lasts."""

    memory = 0.6

    def sample(self, source, members, noise):
        return source.values + noise((1, *self.spec.grid.shape))


def test_noise_lasts_from_step_to_step_as_the_model_says():
    """Steps of a walk correlate like memory^lag, each has unit variance, and the walk spreads as their sum does."""
    shape, steps, m = (40, 50), 6, Walk.memory
    source = Source.of(torch.zeros(1, 1, *shape), torch.ones(1, 1, *shape, dtype=torch.bool), torch.ones(1))
    states = rollout(Walk(Spec(Grid(shape))), source, MemberNoise(0, [0], range(20)), steps)[:, 0, :, 0]
    increments = torch.diff(states, dim=1, prepend=torch.zeros_like(states[:, :1])).movedim(1, 0).flatten(1)
    lags = torch.arange(steps)
    expected = m ** (lags[:, None] - lags).abs().double()
    torch.testing.assert_close(torch.cov(increments).double(), expected, rtol=0, atol=0.03)
    assert states[:, -1].var() == pytest.approx(float(expected.sum()), rel=0.03)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": 0}, "members"),
        ({"steps": 0}, "steps"),
        ({"quantiles": (1.5,)}, "quantiles"),
        ({"source": a_source(shape=(5, 4))}, "4 x 5 grid"),
        ({"source": a_source(lead=0.0), "steps": 2}, "lead 0"),
    ],
)
def test_bad_requests_are_refused_by_name(model, change, message):
    arguments = {"source": a_source(), "members": 2} | change
    source, members = arguments.pop("source"), arguments.pop("members")
    with pytest.raises(SolidError, match=message):
        draw(model, SCALING, source, members, **arguments)


class Echo(Shifted):
    """Shows its covariates: x = their first channel, plus what Shifted draws."""

    def sample(self, source, members, noise):
        return super().sample(source, members, noise) + source.covariates[:, :1]


def sources_on_the_way(count, density, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [
        Source.of(
            torch.randn(2, 1, 4, 5, generator=generator),
            torch.rand(2, 1, 4, 5, generator=generator) < density,
            torch.ones(2),
            torch.full((2, 1, 4, 5), 100.0 * (h + 1)),
        )
        for h in range(count)
    ]


def test_what_is_read_on_the_way_is_held_by_every_member():
    """Readings replace members, enlarge what is known, and condition the next step; by hand, step by step."""
    model, source, later = Shifted(Spec(Grid((4, 5)))), a_source(2), sources_on_the_way(3, 0.3)
    states = rollout(model, source, MemberNoise(0, [0, 1], range(3)), 3, later)
    noise = MemberNoise(0, [0, 1], range(3))
    known, state = source.mask, model.sample(source, 3, noise)
    for h, read in enumerate(later):
        state = torch.where(read.mask, read.values, state)
        torch.testing.assert_close(states[:, :, h], state)
        known = known | read.mask
        white = noise((1, 4, 5))
        conditioned = torch.where(known, state, 0).sum((2, 3, 4)) / known.sum((1, 2, 3))
        state = conditioned[:, :, None, None, None] + white


def test_reading_nothing_on_the_way_is_a_plain_rollout(model):
    source, nothing = a_source(2), sources_on_the_way(3, 0.0)
    plain, through = (rollout(model, source, MemberNoise(0, [0, 1], range(3)), 3, later) for later in ((), nothing))
    assert torch.equal(plain, through)


def test_each_step_of_a_rollout_has_its_own_covariates():
    source = a_source(2)
    source = Source(source.values, source.mask, source.lead, torch.zeros(2, 1, 4, 5))
    model, later = Echo(Spec(Grid((4, 5)), covariates=1)), sources_on_the_way(2, 0.0)
    with_clock = rollout(model, source, MemberNoise(0, [0, 1], range(3)), 3, later)
    still = [Source(s.values, s.mask, s.lead, torch.zeros(2, 1, 4, 5)) for s in later]
    without = rollout(model, source, MemberNoise(0, [0, 1], range(3)), 3, still)
    torch.testing.assert_close(with_clock[:, :, 0], without[:, :, 0])
    torch.testing.assert_close(with_clock[:, :, 1], without[:, :, 1] + 100)
    torch.testing.assert_close(with_clock[:, :, 2], without[:, :, 2] + 300)  # its own 200 and the 100 it conditions on
