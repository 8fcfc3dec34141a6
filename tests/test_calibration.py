"""Laws of a perfect ensemble at any size, what ties do, and what over- and underconfidence look like."""

from functools import partial

import numpy as np
import pytest
import torch

from shared import standard_normal
from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.scores.bins import distance_bins, distance_edges
from solidfield.scores.calibration import (
    correlate,
    coverage,
    error_by_spread,
    fold_ranks,
    rank_histogram,
    resolved,
    spread_skill,
)
from solidfield.scores.metrics import crps, crps_map, moments, mse, select
from solidfield.scores.registry import measure, summarise

drawn = partial(standard_normal, key="calibration")


@pytest.mark.parametrize("K", [2, 3, 5, 10, 100])
def test_a_perfect_ensemble_of_any_size_covers_at_its_level(K: int) -> None:
    n = 60_000
    x, y = drawn(K, n), drawn(n, key="truth")
    for level in (0.01, 0.1, 0.5, 0.8, 0.9, 0.99):
        assert abs(coverage(x, y, level) - level) < 4 * np.sqrt(level * (1 - level) / n)


@pytest.mark.parametrize("K", [2, 3, 4, 7, 10, 101])
def test_coverage_of_uniform_ranks_is_exactly_the_level(K: int) -> None:
    """One truth in each gap between the members 1 .. K: every rank exactly once."""
    x, y = np.tile(np.arange(1.0, K + 1)[:, None], (1, K + 1)), np.arange(K + 1) + 0.5
    for level in (0.001, 0.05, 0.37, 0.5, 0.9, 0.999):
        assert coverage(x, y, level) == pytest.approx(level, abs=1e-12)
    assert np.array_equal(rank_histogram(x, y), np.ones(K + 1))


def test_coverage_grows_with_the_level() -> None:
    x, y = drawn(7, 500), 2 * drawn(500, key="truth")
    values = [coverage(x, y, level) for level in np.linspace(0.02, 0.98, 49)]
    assert (np.diff(values) >= 0).all()


def test_overconfidence_covers_too_little_and_spreads_too_little() -> None:
    K, n = 300, 10_000
    x, y = 0.5 * drawn(K, n), drawn(n, key="truth")
    inside = 0.589  # P(|N(0, 1)| < 0.5 * 1.645), the interval of half the width
    assert coverage(x, y, 0.9) == pytest.approx(inside, abs=0.02)
    assert spread_skill(x, y) == pytest.approx(0.5 * np.sqrt(1 + 1 / K) / np.sqrt(1 + 0.25 / K), rel=0.03)


def test_pinned_cells_are_neutral_and_a_confident_miss_is_outside() -> None:
    same = np.ones((20, 8))
    assert coverage(same, np.ones(8), 0.9) == pytest.approx(0.9)  # all members equal the truth
    assert np.allclose(rank_histogram(same, np.ones(8)), 8 / 21)
    assert coverage(same, np.full(8, 1.1), 0.9) == 0.0
    assert rank_histogram(same, np.full(8, 1.1))[-1] == 8


def test_ties_of_a_discrete_law_are_shared_fairly() -> None:
    """Truth and members thrown from the same die: coverage and ranks as for a continuous law."""
    n, K = 60_000, 9
    dice = numpy_generator(0, "dice").integers(0, 3, size=(K + 1, n)).astype(float)
    assert coverage(dice[1:], dice[0], 0.6) == pytest.approx(0.6, abs=0.01)
    counts = rank_histogram(dice[1:], dice[0])
    assert counts.sum() == pytest.approx(n)
    assert np.allclose(counts, n / (K + 1), rtol=0.05)


@pytest.mark.parametrize("K", [2, 10, 40])
def test_ranks_of_a_perfect_ensemble_are_flat(K: int) -> None:
    n = 40_000
    counts = rank_histogram(drawn(K, n), drawn(n, key="truth"))
    chi2 = ((counts - n / (K + 1)) ** 2 / (n / (K + 1))).sum()  # mean K, variance 2 K
    assert counts.shape == (K + 1,)
    assert counts.sum() == n
    assert abs(chi2 - K) < 4 * np.sqrt(2 * K)


def test_folded_ranks_keep_the_count_and_stay_flat() -> None:
    counts = numpy_generator(0, "counts").integers(0, 50, 101)
    assert fold_ranks(counts, 20).sum() == pytest.approx(counts.sum())
    assert np.allclose(fold_ranks(np.full(101, 3.0), 20), 303 / 20)
    assert np.array_equal(fold_ranks(np.arange(6.0), 3), [1, 5, 9])


@pytest.mark.parametrize("K", [2, 5, 50])
def test_spread_skill_of_a_perfect_ensemble_is_one(K: int) -> None:
    """Also with a spread that differs from cell to cell, and however few the members."""
    n = 100_000
    scale = np.exp(0.5 * drawn(n, key="scale"))
    assert spread_skill(scale * drawn(K, n), scale * drawn(n, key="truth")) == pytest.approx(1, abs=0.02)


def test_off_mask_values_are_never_read() -> None:
    x, y = drawn(6, 3, 5, 5), drawn(3, 5, 5)
    mask = drawn(3, 5, 5, key="mask") > 0
    hidden_x, hidden_y = np.where(mask, x, np.nan), np.where(mask, y, np.nan)
    for metric in (coverage, rank_histogram, spread_skill):
        assert np.array_equal(metric(hidden_x, hidden_y, mask=mask), metric(x, y, mask=mask))
        with pytest.raises(SolidError, match="NaN"):
            metric(hidden_x, hidden_y)


def test_one_member_has_no_reliability() -> None:
    for metric in (coverage, rank_histogram, spread_skill):
        with pytest.raises(SolidError, match="at least 2 members"):
            metric(drawn(1, 9), drawn(9))
    assert [resolved(K, 0.9) for K in (1, 10, 18, 19, 100)] == [False, False, False, True, True]
    with pytest.raises(SolidError, match="level 90"):
        coverage(drawn(5, 9), drawn(9), 90)


def test_tensors_in_tensors_out() -> None:
    x, y = torch.from_numpy(drawn(8, 2, 4, 4)), torch.from_numpy(drawn(2, 4, 4))
    for metric in (coverage, rank_histogram, spread_skill):
        assert isinstance(metric(x, y), torch.Tensor)
        assert np.array_equal(metric(x, y).numpy(), metric(x.numpy(), y.numpy()))


def test_spread_that_follows_the_error_correlates_with_it() -> None:
    """With error = c * spread exactly, both correlations are 1; a constant spread has none."""
    scale = np.exp(drawn(6, 5, 5, key="scale"))
    x = np.stack([scale, -scale, 0 * scale])  # mean 0, standard deviation = scale

    def correlation(members, truth):
        cells = select(members, truth)
        return correlate(cells, *moments(cells))

    assert correlation(x, 2 * scale) == (pytest.approx(1), pytest.approx(1))
    assert np.isnan(correlation(np.stack([np.ones_like(scale)] * 2), scale)).all()


@pytest.mark.parametrize("K", [4, 7, 40])
def test_error_equals_spread_in_every_group_of_a_perfect_ensemble(K: int) -> None:
    """However few the members, sure cells are as reliable as unsure ones."""
    n = 120_000
    scale = np.exp(0.5 * drawn(n, key="scale"))
    spread, rmse = error_by_spread(select(scale * drawn(K, n), scale * drawn(n, key="truth")), groups=6)
    assert (np.diff(spread) > 0).all()
    assert np.allclose(rmse / spread, 1, atol=0.05)


def test_bins_of_distance_add_up_to_the_whole() -> None:
    x, y = drawn(20, 400), drawn(400)
    distance = numpy_generator(0, "distance").integers(0, 6, size=400).astype(float)
    found = measure(select(x, y))
    bins = [
        (bin, summarise(found[inside].pooled(), bins=True)) for bin, inside in distance_bins(distance, distance >= 0)
    ]
    share = np.array([((distance >= bin.low) & (distance <= bin.high)).mean() for bin, _ in bins])
    assert share.sum() == pytest.approx(1)
    assert (bins[0][0].low, bins[0][0].high) == (0, 0)  # the sensors themselves are a bin of their own
    for name, whole in (("crps", crps(x, y)), ("mse", mse(x, y)), ("coverage_90", coverage(x, y, 0.9))):
        assert share @ [row[name].mean for _, row in bins] == pytest.approx(whole)
    assert share @ [row["spread"].mean ** 2 for _, row in bins] == pytest.approx(21 / 20 * x.var(axis=0, ddof=1).mean())
    second = bins[1][0]
    inside = (distance >= second.low) & (distance <= second.high)
    assert bins[1][1]["crps"].mean == pytest.approx(crps_map(x, y)[inside].mean())


def test_bins_hold_every_cell_with_a_sensor_somewhere() -> None:
    distance = np.abs(drawn(500, key="distance"))
    distance[:100] = np.inf  # a field without any sensor
    counts = [inside.sum() for _, inside in distance_bins(distance, distance > 0)]
    assert sum(counts) == 400
    assert max(counts) - min(counts) <= 2
    assert list(distance_bins(distance, np.isinf(distance))) == []
    assert (np.diff(distance_edges(np.ones(10))) > 0).all()


def test_rings_that_a_label_cannot_tell_apart_are_one() -> None:
    """Cells of a map of degrees are not quite square: the next cell is 1.000 or 1.001 away."""
    distance = np.repeat([1.0, 1.0005, 1.001, 1.415, 2.0], 60)
    bins = [(bin.low, bin.high) for bin, _ in distance_bins(distance, distance > 0)]
    assert bins == [(1.0, 1.001), (1.415, 1.415), (2.0, 2.0)]
