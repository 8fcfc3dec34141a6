"""The Gaussian world against its own formulas, brute force and Monte Carlo."""

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.worlds import GaussianWorld, gaussian_world


def lagged_products(fields: np.ndarray, lag: int) -> np.ndarray:  # (n, F, H, W) -> (n, H, W)
    """For each trajectory the mean over t and p of x_t(p) x_{t+lag}(p + r)."""
    early, late = fields[:, : fields.shape[1] - lag], fields[:, lag:]
    cross = np.conj(np.fft.fft2(early)) * np.fft.fft2(late)
    return np.fft.ifft2(cross).real.mean(axis=1) / early[0, 0].size


def observe(field: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.where(mask, field, np.nan)


@pytest.mark.parametrize("cells", [8, 9])
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_sample_covariance_agrees_with_the_formula(cells, lag):
    world = GaussianWorld(cells=cells, frames=6, length=0.2, velocity=(0.4, -0.9))
    products = lagged_products(world.trajectories(range(1500))[:, :, 0].astype(np.float64), lag)
    error = products.std(axis=0, ddof=1) / np.sqrt(len(products))
    scores = (products.mean(axis=0) - world.covariance(lag)) / error  # (H, W), each about N(0, 1)
    assert np.abs(scores).max() < 4.5
    assert np.mean(scores**2) < 3


def test_every_frame_has_unit_variance_exactly():
    assert GaussianWorld().covariance()[0, 0] == pytest.approx(1.0, abs=1e-14)
    assert GaussianWorld(std=3.0).covariance()[0, 0] == pytest.approx(9.0, abs=1e-13)
    fields = GaussianWorld(cells=8, frames=5).trajectories(range(2000))[:, :, 0]
    per_frame = np.mean(fields**2, axis=(-2, -1))  # (n, F)
    error = per_frame.std(axis=0) / np.sqrt(len(per_frame))
    assert np.all(np.abs(per_frame.mean(axis=0) - 1) < 4 * error)


def test_the_field_moves_with_the_velocity():
    # Without damping and diffusion the kernel at lag 1 is that of lag 0, carried by c dt = (0, 2) cells.
    still = {"diffusion": 0.0, "damping": 0.0, "spacing": 1.0}
    world = GaussianWorld(cells=15, side=15.0, length=2.0, velocity=(0.0, 2.0), **still)
    np.testing.assert_allclose(world.covariance(1), np.roll(world.covariance(0), 2, axis=1), atol=1e-12)
    fields = world.trajectories([0])[0, :, 0]
    np.testing.assert_allclose(fields[1], np.roll(fields[0], 2, axis=1), atol=1e-5)


@pytest.mark.parametrize("lead", [0, 1, 2])
@pytest.mark.parametrize("obs_std", [0.0, 0.3])
def test_posterior_agrees_with_conditioning_the_joint_normal(lead, obs_std):
    # The joint covariance of (x_t, x_{t+lead}) built mode by mode from the dynamics as dense matrices.
    world = GaussianWorld(cells=6, length=0.25, velocity=(0.7, 1.3))
    n, cells = 6, 36
    k0 = np.empty((cells, cells))
    k1 = np.empty((cells, cells))  # Cov(x_t(p), x_{t+lead}(q))
    c0, c1 = world.covariance(0), world.covariance(lead)
    for p in range(cells):
        for q in range(cells):
            r = ((q // n - p // n) % n, (q % n - p % n) % n)
            k0[p, q], k1[p, q] = c0[r], c1[r]
    joint = np.block([[k0, k1], [k1.T, k0]])
    assert np.linalg.eigvalsh(joint).min() > -1e-12  # the lagged kernel is a valid one
    mask = np.random.default_rng(1).random((n, n)) < 0.3
    seen = np.flatnonzero(mask)
    noisy = joint + np.diag(np.r_[np.full(cells, obs_std**2), np.zeros(cells)])
    gain = joint[cells:, :cells][:, seen] @ np.linalg.inv(noisy[np.ix_(seen, seen)])
    field = world.trajectories([0])[0, 0, 0]
    posterior = world.posterior(observe(field, mask), lead, obs_std)
    np.testing.assert_allclose(posterior.mean.ravel(), gain @ field.ravel()[seen], atol=1e-9)
    np.testing.assert_allclose(posterior.covariance, k0 - gain @ joint[:cells, cells:][seen], atol=1e-9)
    np.testing.assert_allclose(posterior.std.ravel() ** 2, np.diag(posterior.covariance), atol=1e-9)


@pytest.mark.parametrize("asked", [0, -3, 4, (1, 2, 4)])
def test_posterior_of_several_frames_agrees_with_conditioning_the_joint_normal(asked):
    # All frames of a history at once, from the dynamics x_{t+1} = A x_t + q as dense matrices.
    world, n, frames, first = GaussianWorld(cells=5, length=0.25, velocity=(0.7, 1.3)), 25, (-4, -3, 0), -4
    shifted = np.stack([np.roll(world.covariance(0).reshape(5, 5), divmod(p, 5), (0, 1)).ravel() for p in range(n)])
    forth = np.stack([np.roll(world.covariance(1), divmod(p, 5), (0, 1)).ravel() for p in range(n)])  # (from, to)
    step = np.linalg.solve(shifted, forth).T
    joint = np.block([[_power(step, shifted, b - a) for b in range(9)] for a in range(9)])  # of frames -4 .. 4
    rng = np.random.default_rng(5)
    fields = np.linalg.cholesky(joint + 1e-12 * np.eye(9 * n)) @ rng.standard_normal(9 * n)
    masks = rng.random((3, n)) < 0.4
    seen = np.concatenate([n * (t - first) + np.flatnonzero(m) for t, m in zip(frames, masks, strict=True)])
    leads = np.atleast_1d(asked)
    average = sum(np.eye(9 * n)[n * (at - first) : n * (at - first + 1)] for at in leads) / len(leads)
    gain = average @ joint[:, seen] @ np.linalg.inv(joint[np.ix_(seen, seen)] + 0.04 * np.eye(len(seen)))
    given = [np.where(m, fields[n * (t - first) :][:n], np.nan) for t, m in zip(frames, masks, strict=True)]
    posterior = world.posterior(np.stack(given).reshape(3, 5, 5), asked, obs_std=0.2, frames=frames)
    np.testing.assert_allclose(posterior.mean.ravel(), gain @ fields[seen], atol=1e-9)
    left = average @ joint @ average.T - gain @ joint[seen] @ average.T
    np.testing.assert_allclose(posterior.covariance, left, atol=1e-9)


def _power(step: np.ndarray, start: np.ndarray, lag: int) -> np.ndarray:
    """Cov(x_t, x_{t+lag}) of x_{t+1} = A x_t + q."""
    later = start @ np.linalg.matrix_power(step.T, abs(lag))
    return later if lag >= 0 else later.T


@pytest.mark.parametrize("lead", [0, 2])
def test_posterior_covers_the_truth_at_its_nominal_level(lead):
    world = GaussianWorld(cells=16, frames=lead + 1)
    rng = np.random.default_rng(0)
    fields = world.trajectories(range(100))[:, :, 0].astype(np.float64)
    inside, squares = [], []
    for field in fields:
        mask = rng.random((16, 16)) < 0.08
        posterior = world.posterior(observe(field[0], mask), lead)
        scores = ((field[lead] - posterior.mean) / np.maximum(posterior.std, 1e-9))[~mask]
        inside.append(np.mean(np.abs(scores) < 1.6449))
        squares.append(np.mean(scores**2))
    for values, nominal in ((inside, 0.9), (squares, 1.0)):
        assert abs(np.mean(values) - nominal) < 4 * np.std(values) / np.sqrt(len(values))
        assert np.std(values) / np.sqrt(len(values)) < 0.03  # the bound means something


def test_samples_have_the_mean_and_covariance_of_the_posterior():
    world = GaussianWorld(cells=6, length=0.25)
    mask = np.random.default_rng(2).random((6, 6)) < 0.3
    posterior = world.posterior(observe(world.trajectories([0])[0, 0, 0], mask), 1)
    draws = posterior.sample(20_000, np.random.default_rng(3)).reshape(20_000, 36)
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean.ravel(), atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T), posterior.covariance, atol=0.05)
    exact = world.posterior(observe(np.ones((6, 6)), mask)).sample(3, np.random.default_rng(4))
    np.testing.assert_allclose(exact[:, mask], 1.0, atol=1e-4)


def test_without_sensors_the_posterior_is_the_prior_and_with_all_it_is_the_field():
    world = gaussian_world(cells=8)
    prior = world.posterior(np.full((8, 8), np.nan), lead=1)
    assert np.all(prior.mean == 0)
    np.testing.assert_allclose(prior.std, 1.0)
    field = world.trajectories([0])[0, 0, 0]
    known = world.posterior(field)
    np.testing.assert_allclose(known.mean, field, atol=1e-6)
    assert known.std.max() < 1e-5


def test_the_default_problem_is_neither_trivial_nor_hopeless():
    world = GaussianWorld()
    mask = np.random.default_rng(0).permutation(1024).reshape(32, 32) < 51
    now, later = (world.posterior(observe(np.zeros((32, 32)), mask), lead).std[~mask] for lead in (0, 2))
    now, later = np.sqrt(np.mean(now**2)), np.sqrt(np.mean(later**2))
    assert 0.5 < now < 0.7
    assert now + 0.05 < later < 0.85


def test_a_trajectory_does_not_depend_on_its_company():
    world = GaussianWorld(cells=9, frames=4)
    together = world.trajectories(range(7))
    np.testing.assert_array_equal(world.trajectories([5, 2]), together[[5, 2]])
    longer = GaussianWorld(cells=9, frames=6).trajectories([3])
    np.testing.assert_array_equal(longer[0, :4], together[3])


def test_what_a_world_tells_of_itself():
    world = GaussianWorld(cells=8, frames=3, spacing=0.5)
    assert world.shifts == (1, 1)
    assert world.variables == ("field",)
    assert world.grid.periodic == (True, True)
    np.testing.assert_allclose(world.times, [0, 0.5, 1.0])
    assert world.trajectories([1]).shape == (1, 3, 1, 8, 8)
    assert world.describe()["velocity"] == [0.05, 0.2]


def test_wrong_arguments_are_named():
    with pytest.raises(SolidError, match="length=0"):
        GaussianWorld(length=0)
    with pytest.raises(SolidError, match=r"damping=-1"):
        GaussianWorld(damping=-1)
    with pytest.raises(SolidError, match=r"\(4, 4\)"):
        GaussianWorld(cells=8).posterior(np.zeros((4, 4)))
    with pytest.raises(SolidError, match="number 1"):
        GaussianWorld(cells=8).posterior(np.zeros((2, 8, 8)))
    with pytest.raises(SolidError, match="lag=-1"):
        GaussianWorld(cells=8).covariance(-1)
