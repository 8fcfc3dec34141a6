"""The test of ranks: uniform ones pass as often as they should, 3 % of bias in spread is caught."""

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.experiments.bench.calibration import ASKED, Scenes
from solidfield.scores.uniformity import rank_scores, uniformity
from solidfield.worlds import GaussianWorld


def scored(truth, members):  # (N, P), (K, N, P) -> (N, 3)
    return rank_scores((members < truth).sum(0), (members == truth).sum(0), len(members)).mean(1)


def test_scores_of_all_ranks_have_mean_zero_and_ties_share():
    scores = rank_scores(np.arange(101), np.zeros(101, int), 100)
    np.testing.assert_allclose(scores.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose((scores**2).mean(0), 1, atol=0.005)
    np.testing.assert_allclose(rank_scores(np.array([4]), np.array([2]), 100)[0], scores[4:7].mean(0), atol=1e-12)
    np.testing.assert_allclose(rank_scores(np.array([0]), np.array([20]), 20), 0, atol=1e-12)  # pinned: neutral


def test_p_is_uniform_for_honest_members_however_cells_depend():
    rng = np.random.default_rng(0)
    common = rng.standard_normal((100, 150, 1))  # all cells of a case share half of their variance
    truth = (common + rng.standard_normal((100, 150, 4)))[..., None]
    members = rng.standard_normal((100, 150, 4, 19)) * np.sqrt(2)
    below = (members < truth).sum(-1)
    p = np.array([uniformity(rank_scores(b, np.zeros_like(b), 19).mean(1)).p for b in below])
    assert 0.4 < p.mean() < 0.6
    assert (p < 0.05).mean() < 0.15


def test_bias_skewness_and_spread_are_told_apart():
    rng = np.random.default_rng(1)
    truth, members = rng.standard_normal((400, 30)), rng.standard_normal((60, 400, 30))
    wide = uniformity(scored(truth, 1.05 * members))
    assert wide.p < 1e-3
    assert wide.spread == pytest.approx(0.05, abs=0.02)
    assert wide.sees == pytest.approx(np.sqrt(18 / 12000) * np.pi / np.sqrt(15), rel=0.1)  # independent cells
    low = uniformity(scored(truth - 0.05, members))
    assert low.p < 1e-3
    assert low.bias < 0


def test_the_exact_sampler_passes_and_three_per_cent_too_wide_is_caught():
    """The judge of the bench on a small world: exact members of many scenes, and members that are too wide."""
    honest, wide = (_tested(scenes=count, wide=factor) for count, factor in ((120, 1.0), (340, 1.03)))
    assert set(honest) == set(ASKED)
    assert all(test.p > 0.01 for test in honest.values())
    for name in ("cells, lead 0", "cells, lead 1"):
        assert wide[name].sees < 0.033
        assert wide[name].p < 0.01
        assert wide[name].spread == pytest.approx(0.03, abs=0.02)


def _tested(scenes, wide):
    world = GaussianWorld(cells=8, frames=15, side=1.6, seed=6)
    fields = world.trajectories(range(scenes))[:, :, 0]
    readings = np.where(np.random.default_rng(2).random((scenes, 4, 8, 8)) < 0.05, fields[:, 6::-2], np.nan)
    truth, other = fields[:, [6, 8, 10, 12, 14]], np.roll(fields[:, 0], 1, axis=0)
    found = Scenes(None, world, np.arange(scenes), readings, truth, other).of_exact(40, wide, 0, None)
    return {name: uniformity(np.array(rows)) for name, rows in found.items()}


def test_few_cases_are_refused():
    with pytest.raises(SolidError, match="too few"):
        uniformity(np.zeros((5, 3)))
