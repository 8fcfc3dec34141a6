"""Where to put sensors: gains against the closed form of the Gaussian world, choices against brute force."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from solidfield.placement.gain import Covariances, Joint, choose, gain_of, missed, remove
from solidfield.worlds import gaussian_world

CELLS, ERROR = 6, 0.2
WORLD = gaussian_world(cells=CELLS, length=0.25)


def readings(seed: int, count: int = 3) -> np.ndarray:  # (H, W)
    frame = np.full(CELLS * CELLS, np.nan)
    generator = np.random.default_rng(seed)
    frame[generator.choice(len(frame), count, replace=False)] = generator.normal(size=count)
    return frame.reshape(CELLS, CELLS)


def law(seed: int, candidates: np.ndarray, nugget: float = 0.0, **options) -> Joint:
    """The exact posterior; `nugget` is what no reading can remove."""
    k = WORLD.posterior(readings(seed), obs_std=ERROR).covariance
    known = Covariances(k[np.ix_(candidates, candidates)], k[candidates], np.full(len(candidates), ERROR**2))
    v = k.diagonal() + nugget
    return Joint(known, v, v, np.sqrt(v), np.full(len(v), 1 / len(v)), **options)


def singles(count: int) -> list[np.ndarray]:
    return [np.array([p]) for p in range(count)]


def exact_crps(seed: int, cells: np.ndarray) -> float:
    """Of the world's own posterior with readings at these cells, too; their values do not matter."""
    frame = readings(seed)
    frame.ravel()[cells] = 0.0
    return float(WORLD.posterior(frame, obs_std=ERROR).std.mean() / np.sqrt(np.pi))


def test_expected_gains_are_those_of_the_closed_form():
    cells = np.flatnonzero(np.isnan(readings(0).ravel()))
    joint, before = law(0, cells), exact_crps(0, np.zeros(0, int))
    assert joint.mean_score() == pytest.approx(before, rel=1e-9)
    exact = [before - exact_crps(0, cells[[p]]) for p in range(0, len(cells), 5)]
    np.testing.assert_allclose(joint.gains(singles(len(cells)))[::5], exact, rtol=1e-6)
    five = [3, 9, 14, 20, 31]
    assert gain_of([(joint, singles(len(cells)))], five) == pytest.approx(before - exact_crps(0, cells[five]), rel=1e-6)
    track = joint.gains([np.array(five)])[0]  # a track is its readings together
    assert track == pytest.approx(before - exact_crps(0, cells[five]), rel=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_five_are_within_a_hundredth_of_the_best_five(seed):
    cells = np.random.default_rng(seed).choice(CELLS**2, 11, replace=False)
    laws = [(law(seed, cells, nugget=0.01), singles(11))]
    chosen = choose(laws, 5)
    best = max(gain_of(laws, five) for five in combinations(range(11), 5))
    gain = gain_of(laws, [pick.candidate for pick in chosen])
    assert gain > 0.99 * best
    assert sum(pick.gain for pick in chosen) == pytest.approx(gain)
    assert laws[0][0].mean_score() - chosen[-1].score == pytest.approx(gain)


def test_what_no_reading_can_remove_attracts_no_sensor():
    """The target of one candidate is wide for a reason of its own: the other candidate is chosen."""
    own, cross = np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0]])
    known = Covariances(own, cross, np.full(2, 0.1))
    v, spread = np.array([1.0, 1.0 + 50.0]), np.sqrt([1.0, 51.0])
    joint = Joint(known, v, v, spread, np.full(2, 0.5))
    gains = joint.gains(singles(2))
    assert choose([(joint, singles(2))], 1)[0].candidate == 0
    assert gains[1] == pytest.approx(0.5 * (np.sqrt(51) - np.sqrt(51 - 1 / 1.1)) / np.sqrt(np.pi))


def test_the_chance_of_a_threshold_falls_as_simulated():
    joint = law(4, np.array([7]), level=np.linspace(-2, 2, CELLS**2))
    before = norm.sf(joint.level) * norm.cdf(joint.level)
    np.testing.assert_allclose(joint.score(joint.left), before, atol=1e-12)
    after = joint.given(np.array([0])).left
    draws = np.random.default_rng(0).normal(size=(20_000, 1))
    mean = draws * np.sqrt(joint.left - after)  # what the reading moves the mean by
    p = norm.sf((joint.level * np.sqrt(joint.left) - mean) / np.sqrt(after))
    np.testing.assert_allclose(joint.score(after), (p * (1 - p)).mean(0), atol=0.005)


def test_a_sensor_that_is_worse_than_believed_does_harm():
    cells = np.array([5, 17, 30])
    joint = law(3, cells)
    worse = Covariances(joint.believed.own, joint.believed.cross, np.array([ERROR**2, 30.0, ERROR**2]))
    misled = Joint(joint.believed, joint.variance, joint.left, joint.spread, joint.weight, true=worse)
    gains = misled.gains(singles(3))
    assert gains[1] < 0 < min(gains[0], gains[2])
    same = Joint(joint.believed, joint.variance, joint.left, joint.spread, joint.weight, true=joint.believed)
    np.testing.assert_allclose(same.gains(singles(3)), joint.gains(singles(3)), rtol=1e-10)
    # One after the other is the same as together, and as the formula of the head of the file.
    together = misled.given(np.array([0, 1])).left
    w = np.linalg.solve(joint.believed.noisy(np.array([0, 1])), joint.believed.cross[:2])
    direct = joint.left - 2 * (w * worse.cross[:2]).sum(0) + (w * (worse.noisy(np.array([0, 1])) @ w)).sum(0)
    np.testing.assert_allclose(together, direct, rtol=1e-9)
    np.testing.assert_allclose(misled.given(np.array([0])).given(np.array([1])).left, direct, rtol=1e-9)


def test_costs_bound_what_is_chosen():
    cells = np.arange(0, 36, 3)
    laws, cost = [(law(5, cells), singles(12))], np.linspace(1, 3, 12)
    chosen = [pick.candidate for pick in choose(laws, 12, cost, budget=6.0)]
    assert cost[chosen].sum() <= 6.0
    assert len(chosen) >= 2
    assert not choose(laws, 3, cost, budget=0.5)


def test_the_sensor_that_is_missed_least_is_that_of_brute_force():
    cells = np.random.default_rng(0).choice(36, 8, replace=False)
    groups = [*singles(6), np.array([6, 7])]  # the last reads in two places
    joint = law(6, cells)
    every = gain_of([(joint, groups)], range(7))
    loss = [every - gain_of([(joint, groups)], [g for g in range(7) if g != gone]) for gone in range(7)]
    np.testing.assert_allclose(missed(joint, groups), loss, atol=1e-12)
    gone = remove([(joint, groups)], 2)
    assert gone[0].candidate == int(np.argmin(loss))
    rest = [g for g in range(7) if g not in (gone[0].candidate, gone[1].candidate)]
    assert gone[1].score == pytest.approx(joint.mean_score() - gain_of([(joint, groups)], rest))
