"""Scores of value against brute force, closed forms and scoringrules; nothing off the mask is read."""

from functools import partial

import numpy as np
import pytest
import scoringrules
import torch
from scipy.stats import norm

from shared import standard_normal
from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.scores.metrics import (
    block_means,
    crps,
    crps_map,
    energy_score,
    law_crps,
    mae,
    mse,
    ripple,
    roughness,
    spectrum,
)

drawn = partial(standard_normal, key="metrics")


def brute_force(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The definition, pair by pair."""
    K = len(x)
    gaps = sum(np.abs(x[k] - x[l]) for k in range(K) for l in range(K))
    return np.abs(x - y).mean(axis=0) - gaps / (2 * K * (K - 1))


@pytest.mark.parametrize("K", [2, 3, 10, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_crps_is_the_pairwise_definition(K: int, dtype: type) -> None:
    x, y = drawn(K, 7, 5, 4).astype(dtype), drawn(7, 5, 4).astype(dtype)
    assert np.allclose(crps_map(x, y), brute_force(x.astype(float), y.astype(float)), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_crps_equals_scoringrules_fair_estimator(dtype: type) -> None:
    x, y = drawn(100, 900).astype(dtype), drawn(900).astype(dtype)
    theirs = scoringrules.crps_ensemble(y.astype(float), x.astype(float), m_axis=0, estimator="fair")
    assert np.abs(crps_map(x, y) - theirs).max() < 1e-6
    assert abs(crps(x, y) - theirs.mean()) < 1e-6


def test_the_crps_of_a_law_given_by_its_quantiles_is_that_of_the_law() -> None:
    """Of a normal law, averaged over its own truths: 1 / sqrt(pi). Taken for draws they seem better by 1 / K."""
    truth = norm.ppf((np.arange(4000) + 0.5) / 4000)
    for K in (25, 99):
        law = np.tile(norm.ppf((np.arange(K) + 0.5) / K)[:, None], truth.size)
        assert law_crps(law, truth).mean() == pytest.approx(np.pi**-0.5, rel=0.6 / K**1.5)
        assert crps_map(law, truth).mean() == pytest.approx((1 - 1 / K) * np.pi**-0.5, rel=0.6 / K**1.5)
        theirs = scoringrules.crps_ensemble(truth, law, m_axis=0, estimator="nrg")
        assert np.abs(law_crps(law, truth) - theirs).max() < 1e-9


def test_crps_is_stable_far_from_zero() -> None:
    """A surface pressure in pascal scores as well as its anomaly: members and truth are subtracted first."""
    x, y = np.round(drawn(50, 300) * 64) / 64, np.round(drawn(300) * 64) / 64  # exact in float32 even at 1e5
    shifted = crps((x + 1e5).astype(np.float32), (y + 1e5).astype(np.float32))
    assert abs(shifted - crps(x, y)) < 1e-6


@pytest.mark.parametrize("K", [2, 5, 200])
def test_crps_of_gaussian_members_has_the_closed_form_on_average(K: int) -> None:
    """Fair: for N(mu, sigma) members of any number the mean is the CRPS of the normal law itself."""
    n, mu, sigma = 400_000 // K, 0.3, 1.7
    y = drawn(n)
    scores = crps_map(mu + sigma * drawn(K, n, key="members"), y)
    differences = scores - scoringrules.crps_normal(y, mu, sigma)
    assert abs(differences.mean()) < 4 * differences.std() / np.sqrt(n)


def test_one_member_gives_the_absolute_error() -> None:
    x, y = drawn(1, 3, 4, 4), drawn(3, 4, 4)
    assert crps(x, y) == pytest.approx(np.abs(x[0] - y).mean(), rel=1e-14)
    assert crps(x, y) == pytest.approx(mae(x, y), rel=1e-14)
    assert mse(x, y) == pytest.approx(((x[0] - y) ** 2).mean(), rel=1e-14)


@pytest.mark.parametrize("metric", [crps, energy_score, mse, mae])
def test_members_have_no_order(metric) -> None:
    x, y = drawn(12, 2, 6, 6), drawn(2, 6, 6)
    assert metric(x[numpy_generator(0).permutation(12)], y) == pytest.approx(metric(x, y), rel=1e-12)


@pytest.mark.parametrize("metric", [crps, energy_score, mse, mae])
def test_what_is_off_the_mask_is_never_read(metric) -> None:
    x, y = drawn(6, 3, 1, 5, 5), drawn(3, 1, 5, 5)
    mask = drawn(3, 1, 5, 5, key="mask") > 0
    expected = metric(x, y, mask)
    for poison in (np.nan, 1e30, np.inf):
        assert metric(np.where(mask, x, poison), np.where(mask, y, poison), mask) == expected


def test_a_field_counts_once_however_many_cells_it_has() -> None:
    x, y = drawn(4, 3, 5, 5), drawn(3, 5, 5)
    mask = np.zeros((3, 5, 5), dtype=bool)
    mask[0], mask[1, 0, 0] = True, True  # 25 cells, 1 cell, none
    cells = crps_map(x, y)
    assert crps(x, y, mask) == pytest.approx((cells[0].mean() + cells[1, 0, 0]) / 2)
    assert crps(x[:, 0], y[0], mask[0]) == pytest.approx(cells[0].mean())  # two axes: a single case


def test_tensors_in_tensors_out() -> None:
    x, y = torch.from_numpy(drawn(8, 2, 4, 4)).float(), torch.from_numpy(drawn(2, 4, 4)).float()
    mask = y > 0
    assert isinstance(crps_map(x, y), torch.Tensor)
    for metric in (crps, energy_score, mse, mae):
        assert isinstance(metric(x, y, mask), torch.Tensor)
        assert metric(x, y, mask).item() == metric(x.numpy(), y.numpy(), mask.numpy())
    assert crps(x.bfloat16(), y.bfloat16()).item() == pytest.approx(crps(x, y).item(), abs=0.02)


def test_energy_score_in_one_dimension_is_the_crps() -> None:
    x, y = drawn(9, 20, 1, 1), drawn(20, 1, 1)
    assert energy_score(x, y) == pytest.approx(crps(x, y), rel=1e-12)


def test_energy_score_prefers_the_right_joint_law() -> None:
    """Members with the same marginals but no correlation lose, which the CRPS cannot see."""
    n, K, P = 300, 20, 64
    truth = np.repeat(drawn(n, 1, 1), P, axis=2)  # perfectly correlated cells
    joint = np.repeat(drawn(K, n, 1, 1), P, axis=3)
    shuffled = drawn(K, n, 1, P)
    assert crps(joint, truth) == pytest.approx(crps(shuffled, truth), rel=0.05)
    assert energy_score(joint, truth) < 0.95 * energy_score(shuffled, truth)


def test_point_scores_use_the_mean_and_the_median() -> None:
    x, y = np.array([0.0, 0.0, 6.0]).reshape(3, 1), np.array([1.0])
    assert (mse(x, y), mae(x, y)) == (pytest.approx(1.0), pytest.approx(1.0))  # mean 2, median 0
    assert mae(x, y) != crps(x, y)


def test_mistakes_are_named() -> None:
    x, y = drawn(4, 3, 5, 5), drawn(3, 5, 5)
    with pytest.raises(SolidError, match="mask is empty"):
        crps(x, y, np.zeros((3, 5, 5), dtype=bool))
    with pytest.raises(SolidError, match="does not fit truth"):
        crps(x, y[:2])
    with pytest.raises(SolidError, match="does not broadcast"):
        crps(x, y, np.ones((4, 4), dtype=bool))
    for metric in (crps, energy_score, mse, mae):
        with pytest.raises(SolidError, match="NaN or infinity on the mask"):
            metric(x, np.where(y > 0, np.nan, y))


def test_block_means_keep_the_total_and_cut_the_rest() -> None:
    field = drawn(2, 8, 12)
    assert block_means(field, 4).shape == (2, 2, 3)
    assert block_means(field, 4).mean() == pytest.approx(field.mean())
    assert np.array_equal(block_means(np.pad(field, ((0, 0), (0, 3), (0, 1))), 4), block_means(field, 4))
    assert block_means(field, 4)[1, 1, 2] == pytest.approx(field[1, 4:8, 8:12].mean())
    with pytest.raises(SolidError, match="do not fit"):
        block_means(field, 9)


def test_roughness_of_a_wave_and_of_white_noise() -> None:
    wave = np.tile(np.sin(2 * np.pi * np.arange(32) / 16), (32, 1))  # varies along x only
    assert roughness(wave, (True, True)) == pytest.approx(np.sqrt(2) * np.sin(np.pi / 16))  # 2 sin over sqrt 2
    assert roughness(drawn(200, 32, 32)) == pytest.approx(np.sqrt(2), rel=0.01)
    assert roughness(wave * 3, (True, True), std=wave.std()) == pytest.approx(3 * roughness(wave, (True, True)))


def test_roughness_sees_the_seam_only_if_periodic_and_no_unmarked_cell() -> None:
    ramp = np.tile(np.arange(10.0), (10, 1))
    assert roughness(ramp, std=1.0) == pytest.approx(np.sqrt(0.5))
    assert roughness(ramp, (False, True), std=1.0) == pytest.approx(np.sqrt((90 + 10 * 81) / 190))
    mask = np.ones((10, 10), dtype=bool)
    mask[3, 4] = False
    assert roughness(np.where(mask, ramp, np.nan), std=1.0, mask=mask) == pytest.approx(np.sqrt(88 / 176))


def test_ripple_sees_stripes_along_their_axis_and_no_plane() -> None:
    x, everywhere = np.arange(40), np.ones((6, 40), bool)
    stripes, wave = np.tile(3 * (-1.0) ** x, (6, 1)), np.tile(np.sin(2 * np.pi * x / 5), (6, 1))
    np.testing.assert_allclose(ripple(stripes, everywhere), [0, 9])
    np.testing.assert_allclose(ripple(stripes + x, everywhere), [0, 9])
    mean_square = (wave[:, 1:-1] ** 2).mean()
    np.testing.assert_allclose(ripple(wave, everywhere), [0, np.sin(np.pi / 5) ** 4 * mean_square], atol=1e-12)
    spiked = np.where(x == 7, 1e9, stripes)
    np.testing.assert_allclose(ripple(spiked, everywhere & (x != 7)), [0, 9])


def test_spectrum_adds_up_and_finds_the_wave() -> None:
    field = drawn(3, 16, 24)
    k, power = spectrum(field)
    assert power.shape == (3, len(k))
    assert np.allclose(power.sum(axis=-1), (field**2).mean(axis=(-2, -1)))
    y, x = np.mgrid[:32, :32] * 2 * np.pi / 32
    _, power = spectrum(np.cos(3 * x + 4 * y))
    assert power[5] == pytest.approx(0.5)
    assert power.sum() == pytest.approx(0.5)
