"""Error bars: whole groups of cases are resampled, and what is measured once may be selected afterwards."""

import warnings
from functools import partial

import numpy as np
import pytest

from shared import standard_normal
from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.scores.estimate import bootstrap
from solidfield.scores.metrics import Cells, select
from solidfield.scores.registry import measure, summarise

drawn = partial(standard_normal, key="scores")


def test_bootstrap_of_equal_cases_has_no_width() -> None:
    estimate = bootstrap(np.full(17, 0.3))
    assert estimate == pytest.approx((0.3, 0.3, 0.3, 0.0), abs=1e-15)


def test_a_resampled_mean_stays_among_its_cases_and_a_ratio_to_nothing_has_no_bar() -> None:
    """Nights without sun: days of no error at all beside others, whose mean square is never below zero."""
    draws, seen = numpy_generator("nights"), list[np.ndarray]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            squares = np.where(
                np.arange(35) < 28, 0.0, draws.random(35)
            )  # five days of seven hours, four without error
            bootstrap(squares, of=lambda means: seen.append(means) or np.sqrt(means), groups=np.arange(35) // 7)
        with np.errstate(divide="ignore"):
            both = np.stack([np.ones(4), [0.0, 0.0, 0.0, 1.0]], 1)
            found = bootstrap(both, of=lambda means: means[..., 0] / means[..., 1])
    assert min(means.min() for means in seen) == 0
    assert found.mean == 4
    assert not found.has_bar


def test_bootstrap_knows_the_standard_error_and_the_interval() -> None:
    values = drawn(400)
    estimate = bootstrap(values, draws=4000)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.error == pytest.approx(values.std() / 20, rel=0.05)
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)
    assert bootstrap(values) == bootstrap(values)
    assert bootstrap(values) != bootstrap(values, seed=1)


def test_error_bars_resample_fields_not_pixels() -> None:
    """A hundred copies of a pixel are no more evidence than one: the error bar is that of the fields."""
    fields = drawn(40, 1, 1)
    found = measure(select(np.zeros((1, 40, 10, 10)), np.broadcast_to(fields, (40, 10, 10))))
    assert summarise(found)["crps"].error == pytest.approx(np.abs(fields).std() / np.sqrt(40), rel=0.1)


def test_bootstrap_leaves_out_cases_without_cells_and_says_nothing_of_a_single_one() -> None:
    assert bootstrap(np.array([1.0, np.nan, 3.0])).mean == 2.0
    alone = bootstrap(np.array([1.0, np.nan]))
    assert alone.mean == 1.0
    assert np.isnan([alone.low, alone.high, alone.error]).all()
    with pytest.raises(SolidError, match="no case"):
        bootstrap(np.array([np.nan]))


def test_a_group_of_identical_scenes_is_one_piece_of_evidence() -> None:
    """Ten copies of a scene in one group have the interval of the scene alone, to the last bit of rounding."""
    values = drawn(12)
    copies = bootstrap(np.repeat(values, 10), groups=np.repeat(np.arange(12), 10))
    assert copies == pytest.approx(bootstrap(values))
    assert bootstrap(np.repeat(values, 10)).error < 0.5 * copies.error  # without groups they would pass for 120


def test_the_error_of_a_grouped_mean_is_that_of_the_means_of_its_groups() -> None:
    """Scenes g + e with a shock g per group of n: Var(mean) = (var g + var e / n) / G."""
    G, n = 300, 6
    shock, own = drawn(G, key="shock"), drawn(G, n, key="own")
    values = (2.0 * shock[:, None] + own).reshape(-1)
    estimate = bootstrap(values, groups=np.repeat(np.arange(G), n), draws=3000)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.error == pytest.approx(np.sqrt((4.0 + 1.0 / n) / G), rel=0.12)
    shuffled = numpy_generator(0, "order").permutation(len(values))
    again = bootstrap(values[shuffled], groups=np.repeat(np.arange(G), n)[shuffled], draws=3000)
    assert again == pytest.approx(estimate)  # the order of the cases does not matter


def test_groups_of_unequal_size_count_by_their_cases() -> None:
    values, groups = np.array([1.0, 1.0, 1.0, 5.0]), np.array(["a", "a", "a", "b"])
    estimate = bootstrap(values, groups=groups, draws=4000)
    assert estimate.mean == 2.0
    assert (estimate.low, estimate.high) == (1.0, 5.0)  # all of one group, or all of the other
    alone = bootstrap(values, groups=np.zeros(4))
    assert alone.mean == 2.0
    assert np.isnan([alone.low, alone.high, alone.error]).all()
    with pytest.raises(SolidError, match="3 group labels"):
        bootstrap(values, groups=np.zeros(3))


def test_chances_of_the_upper_tail_are_reliable_where_members_are_draws_of_the_truths_law() -> None:
    """Forecast and observed frequency, and their difference with a bar of days; a law twice as wide is told apart."""
    truth, members, days = drawn(4000), standard_normal(50, 4000, key="members"), np.repeat(np.arange(40), 100)
    for width in (1.0, 2.0):
        cells = Cells(width * members, truth, np.arange(4000), 4000)
        found = summarise(measure(cells, days, tail=1.645))
        chance, above = (width * members > 1.645).mean(0), truth > 1.645
        assert found["tail_forecast"].mean == pytest.approx(chance.mean())
        assert found["tail_observed"].mean == pytest.approx(above.mean())
        excess = found["tail_excess"]
        assert excess.mean == pytest.approx(chance.mean() - above.mean())
        by_day = (chance - above).reshape(40, 100).mean(1)
        assert excess.error == pytest.approx(by_day.std() / np.sqrt(40), rel=0.1)
        assert (excess.low <= 0 <= excess.high) == (width == 1.0)
    assert summarise(measure(cells, days))["tail_excess"] is None


def test_scores_of_selected_cells_are_those_of_the_cells_alone() -> None:
    """What is measured once and then selected equals what is measured on the selection."""
    members, truth = drawn(25, 40), drawn(40, key="truth")
    here = drawn(40, key="here") > 0
    groups = np.arange(40) // 4
    whole = measure(Cells(members, truth, np.arange(40), 40), groups)
    some = Cells(members[:, here], truth[here], np.arange(int(here.sum())), int(here.sum()))
    selected, alone = summarise(whole[here]), summarise(measure(some, groups[here]))
    for name in ("crps", "mae", "mse", "spread_skill", "coverage_90"):
        assert selected[name] == pytest.approx(alone[name])
    assert selected["rank_histogram"] == alone["rank_histogram"]
    assert summarise(whole[here].pooled())["crps"] == pytest.approx(alone["crps"])
