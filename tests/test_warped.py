"""The warped world: its posterior is that of the Gaussian field below it, and its exact members measure as perfect."""

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.experiments.bench.warped import EXACT, Judge, WarpedCell, verdict
from solidfield.worlds import GaussianWorld, WarpedWorld
from solidfield.worlds.warped import Warp

WORLD = WarpedWorld(shape=(5, 8), frames=4)


def test_a_warp_increases_and_has_an_inverse():
    g = np.linspace(-4, 4, 9)[:, None, None] * np.ones(WORLD.shape)
    x = WORLD.warp(g)
    assert (np.diff(x, axis=0) > 0).all()
    np.testing.assert_allclose(WORLD.warp.inverse(x), g, atol=1e-9)


def test_crps_in_closed_form_is_that_of_many_members():
    warp = Warp(np.array(1.0), np.array(2.0), np.array(0.6))
    members = np.sort(warp(0.3 + 0.5 * np.random.default_rng(0).standard_normal(200_000)))
    for truth in (0.2, 2.5):
        weights = 2 * np.arange(1, len(members) + 1) - len(members) - 1
        brute = np.abs(members - truth).mean() - (weights * members).mean() / len(members)
        assert float(warp.crps(np.array(0.3), np.array(0.5), np.array(truth))) == pytest.approx(brute, rel=0.01)


def test_the_posterior_keeps_readings_and_agrees_with_that_of_the_gaussian_field():
    truth = WORLD.trajectories([3])[0, :, 0].astype(float)  # (F, H, W)
    readings = np.where(np.random.default_rng(1).random(WORLD.shape) < 0.3, truth[0], np.nan)
    law = WORLD.joint(readings[None], (0, 2))
    read = np.flatnonzero(~np.isnan(readings))
    drawn = law.sample(3, np.random.default_rng(0))[:, 0, read]
    np.testing.assert_allclose(drawn, np.tile(truth[0].flat[read], (3, 1)), atol=1e-3)
    box = np.full(WORLD.field.grid.shape, np.nan)
    box[:5, :8] = WORLD.warp.inverse(readings)
    for row, lead in enumerate((0, 2)):
        whole = WORLD.field.posterior(box, lead)
        np.testing.assert_allclose(law.normal.mean[row].reshape(5, 8), whole.mean[:5, :8], atol=1e-9)
        np.testing.assert_allclose(law.normal.std[row].reshape(5, 8), whole.std[:5, :8], atol=1e-6)


def test_a_joint_law_over_leads_implies_that_of_their_mean():
    world = GaussianWorld(cells=6, frames=4)
    readings = np.where(np.eye(6) > 0, world.trajectories([0])[0, 0, 0], np.nan)
    joint, mean = world.joint(readings[None], (0, 1, 2)), world.posterior(readings, (0, 1, 2))
    average = np.tile(np.eye(36), (1, 3)) / 3  # (36, 3 x 36)
    np.testing.assert_allclose(average @ joint.covariance @ average.T, mean.covariance, atol=1e-9)
    np.testing.assert_allclose(joint.mean.mean(0).reshape(6, 6), mean.mean, atol=1e-9)


def test_a_warped_world_must_spread():
    with pytest.raises(SolidError, match="positive"):
        WarpedWorld(spread=(0.0, 1.0))


def test_exact_members_measure_as_perfect_and_shifted_ones_do_not(tmp_path):
    judge = Judge.of(tmp_path, WarpedCell(EXACT, None, frames=50, scenes=4, members=40))
    members = judge.exact_members(1, 40, np.random.default_rng(0))
    found = judge.compare(1, members)
    assert found["crps"]["mean"] == pytest.approx(1, abs=0.03)
    assert found["block_crps"]["mean"] == pytest.approx(1, abs=0.06)
    assert found["coverage"]["mean"] == pytest.approx(0.9, abs=0.04)
    shifted = judge.compare(1, members + 0.5)
    assert shifted["crps"]["mean"] > 1.1
    result = {"cell": {"scheme": "solid"}, "leads": {"1": shifted}}
    assert sum("outside" in line for line in verdict([result])) >= 2
