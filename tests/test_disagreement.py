"""Spreads that follow how far readings disagree: closed forms, a field of one spread, one whose days differ."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from solidfield.grid import Grid
from solidfield.models.solid_set import SolidSet
from solidfield.questions.asking import ask_together
from solidfield.questions.record import Record
from solidfield.questions.usual import NUMBERS
from solidfield.theory.disagreement import TYPICAL, LocalSpread, Target, _fitted, disagreement
from solidfield.theory.spacetime import Known, SpaceTime, krige

GRID = Grid((9, 9))
NEAR, DAYS = 16, 4000


def covariance():
    model = SpaceTime(GRID, (1.0, 1.0), components=1).requires_grad_(False)
    model.reach.fill_(1.0)
    model.noise.fill_(-3.0)
    return model


def days(model, spread, count=DAYS, seed=0):
    """Readings around a target in the middle and what was read there, drawn day by day; a spread for each."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.stack([torch.randperm(GRID.cells - 1, generator=generator)[:NEAR] for _ in range(count)])
    places = places + (places >= 40).long()  # every cell but the middle one
    offset = torch.stack([torch.zeros_like(places), places // 9 - 4, places % 9 - 4], -1)
    every = torch.cat([torch.zeros(count, 1, 3, dtype=torch.long), offset], 1)
    k = model.between(every) + model.nugget * torch.eye(NEAR + 1)
    drawn = (torch.linalg.cholesky(k) @ torch.randn(count, NEAR + 1, 1, generator=generator))[..., 0] * spread[:, None]
    valid = torch.ones(count, NEAR, dtype=torch.bool)
    return Known(drawn[:, 1:], torch.zeros(count, NEAR), offset, valid), drawn[:, 0]


def fitted(model, known, values):
    local = LocalSpread()
    local.fit([Target(krige(model, known, model), known, values, torch.zeros_like(values))])
    return local


def test_each_reading_is_set_against_what_kriging_of_the_others_says():
    model = covariance()
    known, _ = days(model, torch.ones(20), 20)
    found = krige(model, known, model)
    for left in range(NEAR):
        others = torch.arange(NEAR) != left
        parts = {name: getattr(known, name)[:, others] for name in ("values", "errors", "valid")}
        one = krige(model, Known(offset=known.offset[:, others] - known.offset[:, left : left + 1], **parts), model)
        expected = (known.values[:, left] - one.mean) / one.std
        torch.testing.assert_close(found.against[:, left], expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(disagreement(found, known), found.against.abs().mean(1), rtol=1e-3, atol=1e-3)


def test_padding_and_readings_that_say_nothing_do_not_count():
    model = covariance()
    known, _ = days(model, torch.ones(20), 20)
    heard = torch.arange(NEAR) < 10
    cut = Known(*(getattr(known, name)[:, :10] for name in ("values", "errors", "offset", "valid")))
    expected = disagreement(krige(model, cut, model), cut)
    padded = replace(known, valid=known.valid & heard, values=known.values * heard)
    faint = replace(known, errors=torch.where(heard, 0.0, 1e6))
    for same, within in ((padded, 1e-5), (faint, 1e-3)):
        torch.testing.assert_close(disagreement(krige(model, same, model), same), expected, rtol=within, atol=within)


def test_unfitted_spreads_and_those_of_questions_that_know_nothing_are_krigings():
    model = covariance()
    known, values = days(model, torch.ones(20), 20)
    law = krige(model, known, model)
    assert torch.equal(LocalSpread()(law, known).scale, law.std)
    few = Target(law, known, values, torch.zeros_like(values))
    local = LocalSpread()
    local.fit([few])  # of twenty targets nothing is learned
    assert torch.equal(local(law, known).scale, law.std)
    nothing = replace(known, valid=torch.zeros_like(known.valid), values=torch.zeros_like(known.values))
    silent = disagreement(krige(model, nothing, model), nothing)
    torch.testing.assert_close(silent, torch.full_like(silent, TYPICAL))


def test_in_a_gaussian_field_spreads_stay_krigings():
    model = covariance()
    local = fitted(model, *days(model, torch.ones(DAYS)))
    known, _ = days(model, torch.ones(1000), 1000, seed=1)
    law = krige(model, known, model)
    ratio = local(law, known).scale / law.std
    assert ratio.mean() == pytest.approx(1, abs=0.04)
    assert ratio.std() < 0.03


def test_where_spreads_change_by_day_laws_follow_them():
    """Of 16 readings the spread of a day can be told within a fifth: standardised errors are normal again."""
    model = covariance()
    spread = torch.exp(torch.randn(2 * DAYS, generator=torch.Generator().manual_seed(2)))
    local = fitted(model, *days(model, spread[:DAYS]))
    known, values = days(model, spread[DAYS:], seed=1)
    law = local(krige(model, known, model), known)
    correlation = np.corrcoef((law.scale / law.std).log(), spread[DAYS:].log())[0, 1]
    assert correlation > 0.95
    off = values - law.mean
    kurtosis = {
        name: float((off / by).pow(4).mean() / (off / by).pow(2).mean() ** 2)
        for name, by in (("kriging", law.std), ("local", law.scale))
    }
    assert kurtosis["kriging"] > 12
    assert kurtosis["local"] < 4.5
    assert float((off.abs() < 1.645 * law.scale).float().mean()) == pytest.approx(0.9, abs=0.03)


def test_one_bad_reading_does_not_widen_a_map():
    """|z| of one reading in sixteen counts a sixteenth, and its neighbours', which it surprises, little more."""
    model = covariance()
    spread = torch.exp(torch.randn(DAYS, generator=torch.Generator().manual_seed(2)))
    local = fitted(model, *days(model, spread))
    known, _ = days(model, torch.ones(1000), 1000, seed=1)
    spoiled = replace(known, values=known.values + 8 * (torch.arange(NEAR) == NEAR - 1))
    before, after = (local(krige(model, some, model), some).scale for some in (known, spoiled))
    squares = [krige(model, some, model).against.square().mean(1).sqrt() for some in (known, spoiled)]
    assert (after / before).median() < 0.75 * (squares[1] / squares[0]).median()
    assert (after / before).median() < 2.5


def test_a_rough_hour_says_less_the_longer_ago_it_is():
    """Spreads follow e^v with v known up to chance, by half as much three frames later: d is 3 / log 2."""
    torch.manual_seed(0)
    count = 60_000
    late, rough = torch.randint(0, 7, (count,)), 0.5 * torch.randn(count)
    fading = 0.5 ** (late / 3)
    off = (fading * rough).exp() * torch.randn(count)
    rho = TYPICAL * rough.exp()
    level, doubt, power, lasting = _fitted(off, torch.ones(count), torch.zeros(count), rho, late).tolist()
    assert math.exp(lasting) == pytest.approx(3 / math.log(2), rel=0.2)
    share = power * TYPICAL / (math.exp(doubt) + TYPICAL)  # of a small change of log rho
    assert share == pytest.approx(1, rel=0.15)
    assert abs(level) < 0.5


def test_the_network_does_not_notice_when_a_reading_that_has_faded_out_goes():
    """Or a map has an edge there: of the last reading nothing is left, whatever it reads and wherever it stands."""
    torch.manual_seed(0)
    known, _ = days(covariance(), torch.ones(8), 8)
    model = SolidSet(GRID, 1, (1.0, 1.0), 4).eval()
    law, steps = krige(model.prior, known, model.prior), torch.ones(3)

    def features(heard: float, values: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        share = torch.ones(known.valid.shape)
        share[:, -1] = heard
        changed = replace(known, values=values, offset=offset, heard=share)
        return model.encoder(changed, law, steps, torch.ones(8, 1), torch.zeros(8, 0), torch.zeros(8, NUMBERS), told)

    told = torch.zeros(*known.valid.shape, NUMBERS)
    other, moved = known.values.clone(), known.offset.clone()
    other[:, -1], moved[:, -1, 1:] = 5.0, 3
    silent = [features(0.0, *which) for which in ((known.values, known.offset), (other, moved))]
    assert torch.equal(*silent)
    loud = [features(1.0, *which) for which in ((known.values, known.offset), (other, moved))]
    assert not torch.allclose(*loud, atol=1e-3)
    nearly = features(1e-6, known.values, known.offset)
    torch.testing.assert_close(nearly, silent[0], atol=1e-4, rtol=0)


def test_laws_of_the_model_are_in_units_of_their_own_spread_and_kriging_keeps_its_own():
    """With a = log 2 and g = 0 every law is twice as wide around the same mean."""
    torch.manual_seed(0)
    model = SolidSet(GRID, 1, (1.0, 1.0), 4).eval()
    field = np.random.default_rng(0).normal(size=(3, 1, *GRID.shape))
    field[:, :, ::2] = np.nan
    record = Record.of_frames(field, GRID, ("x",), np.zeros(3))
    questions = ask_together(record, 1, np.arange(9), -1, 1)
    latents = torch.tensor([[-1.0], [1.0]])
    law = model.kriged(questions)[1]
    before, kriging = model.quantiles(questions, latents), model.prior_quantiles(questions, latents)
    model.local.told.copy_(torch.tensor([[math.log(2), 0.0, 0.0, 0.0]]))
    wider = model.kriged(questions)[1]
    torch.testing.assert_close(wider.scale, 2 * law.std)
    assert torch.equal(model.prior_quantiles(questions, latents), kriging)
    width = [float((q[1] - q[0]).mean()) for q in (before, model.quantiles(questions, latents))]
    assert width[1] == pytest.approx(2 * width[0], rel=0.1)  # features hear a little of it
