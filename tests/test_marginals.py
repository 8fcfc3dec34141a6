"""Normal scores by cell: inverse to each other, right where laws are known, and used only where they predict better."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from solidfield.fields import Pair, Source, Target
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.models import build
from solidfield.models.normal_scores import NormalScores
from solidfield.models.prior import Prior
from solidfield.noise import MemberNoise
from solidfield.theory.marginals import SCORES, Listed, choose_widths, estimate, listed, unchanged

SHAPE = (12, 16)
SPEC = Spec(Grid(SHAPE))
CELLS = SHAPE[0] * SHAPE[1]

pytestmark = pytest.mark.usefixtures("one_thread")


def spreads() -> np.ndarray:  # (P,) smooth, from 0.5 to 2
    return np.exp(np.log(2) * np.sin(np.linspace(0, math.pi, SHAPE[1]) - math.pi / 2))[None].repeat(SHAPE[0], 0).ravel()


def skewed(g: np.ndarray) -> np.ndarray:  # (..., P) normal -> the same, skewed and of a spread that differs
    return spreads() * np.expm1(0.6 * g) / 0.6


def readings(count: int, seed: int = 0, law=skewed) -> Listed:
    g = np.random.default_rng(seed).standard_normal((count, CELLS))
    cells = np.tile(np.arange(CELLS), count)
    return Listed(cells, law(g).ravel(), np.repeat(np.arange(count) >= count / 2, CELLS))


def field(count: int, law=skewed, seed: int = 5) -> Pair:
    """A smooth Gaussian field seen through a law, a third of the cells read and a third of them asked for."""
    generator = np.random.default_rng(seed)
    far = [np.subtract.outer(np.arange(n), np.arange(n)) ** 2 for n in SHAPE]
    roots = [np.linalg.cholesky(np.exp(-d / 8) + 1e-6 * np.eye(len(d))) for d in far]
    g = np.einsum("ij,njk,lk->nil", roots[0], generator.standard_normal((count, *SHAPE)), roots[1])
    x = torch.from_numpy(law(g.reshape(count, -1)).reshape(count, 1, *SHAPE)).float()
    lot = torch.from_numpy(generator.random((count, 1, *SHAPE)))
    return Pair(Source.of(x, lot < 1 / 3, torch.zeros(count)), Target.of(x, lot > 2 / 3))


def test_scores_and_values_are_inverse_to_each_other_beyond_the_last_quantile_too():
    units = NormalScores(SPEC)
    x = torch.randn(5, 3, 1, *SHAPE, dtype=torch.float64).mul(4)
    assert units.scores(x) is x  # before there are laws
    units.take([estimate(readings(200), SPEC, 2.0, 4.0)])
    units.double()
    torch.testing.assert_close(units.values(units.scores(x)), x, atol=1e-6, rtol=1e-6)
    assert bool((units.scores(x + 0.1) > units.scores(x)).all())
    rows = slice(3, 7)
    torch.testing.assert_close(units.values(x[..., rows, :], rows), units.values(x)[..., rows, :])
    units.take([None])
    assert not units.used


def test_one_variable_may_have_scores_and_another_none():
    units = NormalScores(Spec(Grid(SHAPE), channels=2))
    units.take([estimate(readings(200), SPEC, 2.0, 4.0), None])
    x = torch.randn(5, 2, *SHAPE).mul(2)
    torch.testing.assert_close(units.scores(x)[:, 1], x[:, 1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(units.scores(x)[:, 0], x[:, 0], atol=0.1)


def test_weights_from_before_there_were_scores_are_still_read():
    model = build("solid", SPEC, {"size": "smoke"}).eval()
    old = {name: tensor for name, tensor in model.state_dict().items() if ".units." not in name}
    again = build("solid", SPEC, {"size": "smoke"}).eval()
    again.load_state_dict(old)
    source = field(2).source
    one, two = (each.sample(source, 3, MemberNoise(0, range(2), range(3))) for each in (model, again))
    assert torch.equal(one, two)


def test_laws_are_those_the_readings_were_drawn_from():
    laws, z = estimate(readings(2000), SPEC, 1.5, 3.0), np.array([-1.5, -0.5, 0.5, 1.5])
    expected = np.stack([skewed(np.full(CELLS, each)) for each in z], 1)
    np.testing.assert_allclose(laws.at(np.arange(CELLS), z), expected, rtol=0.08, atol=0.05)


def test_where_nothing_was_read_the_law_of_the_whole_map_holds():
    some = readings(400)
    left = estimate(some[some.cells % SHAPE[1] < 4], SPEC, 1.0, 1.0)
    far = np.flatnonzero(np.arange(CELLS) % SHAPE[1] == SHAPE[1] - 1)
    values = some.values[some.cells % SHAPE[1] < 4]
    np.testing.assert_allclose(left.location[far], values.mean(), rtol=0.05)
    np.testing.assert_allclose(left.scale[far], values.std(), rtol=0.05)


def test_along_an_axis_on_which_the_world_repeats_itself_cells_share_their_law():
    spec = Spec(Grid(SHAPE, periodic=(True, False)), shifts=(1, 0))
    laws = estimate(readings(50), spec, 2.0, 4.0)
    for part in (laws.location, laws.scale, laws.quantiles):
        by_row = part.reshape(*SHAPE, -1)
        np.testing.assert_allclose(by_row, by_row[:1].repeat(SHAPE[0], 0), rtol=1e-9, atol=1e-9)


def test_equal_readings_have_finite_scores():
    half = readings(100, law=lambda g: np.maximum(g, 0.0))
    laws = estimate(half, SPEC, math.inf, math.inf)
    assert (np.diff(laws.quantiles, axis=1) > 0).all()
    units = NormalScores(SPEC)
    units.take([laws])
    assert torch.isfinite(units.scores(torch.zeros(1, 1, *SHAPE))).all()


def test_widths_are_chosen_where_cells_differ_and_none_where_they_do_not():
    assert max(choose_widths(readings(200), SPEC)) < math.inf  # spreads differ from column to column
    assert choose_widths(readings(200, law=lambda g: g), SPEC) is None
    assert choose_widths(readings(2), SPEC) is None


def test_the_order_of_two_halves_of_readings_does_not_matter():
    some = readings(100)
    again = some[np.random.default_rng(1).permutation(len(some.values))]
    one, two = (estimate(each, SPEC, 2.0, math.inf) for each in (some, again))
    np.testing.assert_allclose(one.quantiles, two.quantiles, atol=1e-9)


def test_a_warped_field_is_kriged_in_scores_and_a_gaussian_one_as_it_is():
    warped, plain = Prior(SPEC), Prior(SPEC)
    warped.fit([field(80)])
    plain.fit([field(80, law=lambda g: g)])
    assert warped.units.used
    assert not plain.units.used
    values = Prior(SPEC)
    values.kriging.fit([field(80)])
    fresh = field(40, seed=6)
    assert warped._errors(fresh)[0] < 0.95 * values._errors(fresh)[0]


def test_what_was_not_read_reaches_no_law():
    pair = field(20)
    hidden = Pair(
        Source(torch.where(pair.source.mask, pair.source.values, torch.nan), pair.source.mask, pair.source.lead),
        Target(torch.where(pair.target.mask, pair.target.values, 1e30), pair.target.mask),
    )
    one, two = (estimate(listed(each, 0), SPEC, 3.0, 3.0) for each in (pair, hidden))
    for name in ("location", "scale", "quantiles"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_solid_pins_readings_and_keeps_its_units():
    pair = field(80)
    model = build("solid", SPEC, {"size": "smoke"}).eval()
    model.prepare([pair])
    again = build("solid", SPEC, {"size": "smoke"}).eval()
    again.load_state_dict(model.state_dict())
    assert again.prior.units.used
    source = pair.source[:3]
    members, same = (each.sample(source, 8, MemberNoise(0, range(3), range(8))) for each in (again, model))
    assert torch.equal(members, same)
    read = source.mask.expand(8, -1, -1, -1, -1)
    assert torch.equal(members[read], source.values.expand_as(members)[read])
    rows = again.drawing(source, slice(2, 6))(8, MemberNoise(0, range(3), range(8)))
    torch.testing.assert_close(rows, members[..., 2:6, :], atol=1e-4, rtol=1e-4)


def test_scores_that_change_nothing():
    laws = unchanged(CELLS)
    np.testing.assert_allclose(laws.at(np.arange(CELLS), SCORES), np.tile(SCORES, (CELLS, 1)))
    np.testing.assert_allclose(laws.at(np.arange(2), norm.ppf([0.05, 0.95])), np.tile(norm.ppf([0.05, 0.95]), (2, 1)))
