"""Recalibration: the conformal guarantee, exactly; a known error of spread is undone; nothing else is touched."""

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.prediction.recalibrate import Recalibration, fit_recalibration
from solidfield.scores.conformal import conformal_quantile

K, N, H, W = 200, 40, 8, 8


def scene(seed, spread):
    """Truth N(0, 1) independent at every cell; members N(0, spread^2)."""
    generator = numpy_generator(seed, "recalibrate")
    members = spread * generator.standard_normal((K, N, 1, H, W))
    return members, generator.standard_normal((N, 1, H, W))


def covers(members, truth):
    low, high = np.quantile(members, [0.05, 0.95], axis=0)
    return float(np.mean((truth >= low) & (truth <= high)))


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
def test_a_wrong_spread_is_put_right_on_new_data(spread):
    distance = np.full((N, H, W), 2.0)
    members, truth = scene(0, spread)
    fitted = fit_recalibration(members, truth, np.ones_like(truth, bool), distance)
    fresh, unseen = scene(1, spread)
    assert covers(fitted.apply(fresh, distance), unseen) == pytest.approx(0.9, abs=0.02)
    assert fitted.scales[2] == pytest.approx(1 / spread, rel=0.08)


def test_the_conformal_quantile_covers_a_new_value_at_least_as_often_as_it_says():
    """Exchangeable values: P(new <= quantile of n) = ceil((n + 1) level) / (n + 1) >= level, checked by counting."""
    generator = numpy_generator(2, "exchangeable")
    for n in (9, 10, 37):
        draws = generator.standard_normal((20000, n + 1))
        hits = np.mean([row[-1] <= conformal_quantile(row[:-1], 0.8) for row in draws])
        assert hits == pytest.approx(np.ceil((n + 1) * 0.8) / (n + 1), abs=0.012)


def test_distance_bins_have_their_own_scales_and_poor_bins_the_common_one():
    distance = np.zeros((N, H, W))
    distance[:, :4] = 1.0
    distance[:, 4:] = 3.0
    distance[0, 0, 0] = 9.0  # one target alone in its bin
    members, truth = scene(3, 1.0)
    members[:, :, :, 4:] *= 0.5  # too narrow far away
    fitted = fit_recalibration(members, truth, np.ones_like(truth, bool), distance)
    assert fitted.scales[1] == pytest.approx(1.0, rel=0.1)
    assert fitted.scales[3] == pytest.approx(2.0, rel=0.1)
    assert fitted.scales[1] < fitted.scales[4] < fitted.scales[3]


def test_stretching_keeps_the_median_and_the_order_of_members():
    members, _ = scene(4, 1.0)
    stretched = Recalibration((2.0,) * 5, (0,) * 5, 0.9).apply(members, np.full((N, H, W), 2.0))
    np.testing.assert_allclose(np.median(stretched, 0), np.median(members, 0), atol=1e-12)
    np.testing.assert_array_equal(np.argsort(stretched, 0), np.argsort(members, 0))
    np.testing.assert_allclose(stretched.std(0), 2 * members.std(0))


def test_only_the_given_targets_count():
    members, truth = scene(5, 1.0)
    mask = numpy_generator(6, "mask").random(truth.shape) < 0.3
    distance = np.full((N, H, W), 2.0)
    poisoned = np.where(mask, truth, 1e30)
    assert fit_recalibration(members, truth, mask, distance) == fit_recalibration(members, poisoned, mask, distance)


def test_too_little_to_go_by_is_refused():
    members, truth = scene(7, 1.0)
    distance = np.full((N, H, W), 2.0)
    with pytest.raises(SolidError, match="held-out"):
        fit_recalibration(members, truth, np.zeros_like(truth, bool), distance)
    with pytest.raises(SolidError, match="20"):
        fit_recalibration(members[:10], truth, np.ones_like(truth, bool), distance)
