"""The turbulent world: closed forms, order of convergence, an independent solver, stationarity, purity."""

from math import pi

import numpy as np
import pytest
import scipy.fft

from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.worlds import NavierStokes, simulate_navier_stokes
from solidfield.worlds.spectral import evaluate, make_modes, random_state, tendency, transform


def fields_like_the_flow(cells: int, count: int = 2, **parameters: float) -> np.ndarray:  # (n, cells, cells)
    """Vorticity after some time of forcing, to start from."""
    world = NavierStokes(cells=cells, frames=1, warmup=3.0, **parameters)  # type: ignore[arg-type]
    return world.trajectories(range(count))[:, 0, 0].astype(np.float64)


def energy(vorticity: np.ndarray, side: float) -> np.ndarray:  # (..., N, N) -> (...)
    """Mean of |u|^2 / 2, from the spectrum."""
    n = vorticity.shape[-1]
    k = 2 * pi / side * n * scipy.fft.fftfreq(n)
    square = k[:, None] ** 2 + k**2
    square[0, 0] = np.inf
    return 0.5 * np.sum(np.abs(scipy.fft.fft2(vorticity, norm="forward")) ** 2 / square, axis=(-2, -1))


@pytest.mark.parametrize("side", [2 * pi, 1.0])
def test_taylor_green_vortices_decay_as_the_closed_form(side):
    k = 2 * pi / side
    world = NavierStokes(
        cells=16, side=side, frames=5, spacing=0.1, warmup=0.0, forcing=0.0, wavenumber=k, reynolds=10.0
    )
    grid = world.grid
    start = np.cos(k * grid.x) * np.cos(k * grid.y[:, None])
    exact = start * np.exp(-2 * k**2 / 10 * world.times)[:, None, None]
    np.testing.assert_allclose(world.evolve(start[None])[0], exact, atol=1e-12)


def test_the_laminar_flow_is_reached_from_rest():
    # A cos(k y) alone gives no advection: w(t) = A Re / k^2 (1 - exp(-k^2 t / Re)) cos(k y).
    world = NavierStokes(cells=16, frames=3, spacing=0.5, warmup=0.0, reynolds=10.0, step=0.01)
    rise = -4.0 * 10 / 16 * (1 - np.exp(-16 / 10 * world.times))
    exact = rise[:, None, None] * np.cos(4 * world.grid.y)[:, None] * np.ones(16)
    np.testing.assert_allclose(world.evolve(np.zeros((1, 16, 16)))[0], exact, atol=1e-8)


def test_the_four_transform_form_is_the_advection():
    # u . grad w formed directly, on a grid fine enough that nothing can alias.
    cells, fine = 16, 96
    modes = make_modes(side=3.0, points=24, viscosity=0.0, forcing=0.0, periods=1)
    state = random_state(np.random.default_rng(0), modes, alpha=2.5, tau=3.0)
    hat = scipy.fft.fft2(evaluate(state, modes, fine))
    k = 2 * pi / 3.0 * fine * scipy.fft.fftfreq(fine)
    k_y, k_x = k[:, None], k[None, :]
    square = np.where(k_x**2 + k_y**2 > 0, k_x**2 + k_y**2, 1.0)

    def real(spectrum: np.ndarray) -> np.ndarray:
        return scipy.fft.ifft2(spectrum).real

    u, v = real(1j * k_y / square * hat), real(-1j * k_x / square * hat)
    advection = u * real(1j * k_x * hat) + v * real(1j * k_y * hat)
    rate, _ = tendency(state[None], modes)
    np.testing.assert_allclose(rate[0], -transform(advection, modes), atol=1e-12)
    assert np.abs(rate).max() > 1e-3
    assert modes.band * 3 < 24 <= 3 * (modes.band + 1)
    assert cells == 2 * (modes.band + 1)


def test_the_error_falls_with_the_fourth_power_of_the_step():
    start = fields_like_the_flow(16)

    def final(step: float) -> np.ndarray:
        return NavierStokes(cells=16, frames=2, spacing=0.8, warmup=0.0, step=step).evolve(start)[:, 1]

    steps = [0.04, 0.02, 0.01]
    reference = final(0.00125)
    errors = [np.sqrt(np.mean((final(step) - reference) ** 2)) for step in steps]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all((orders > 3.8) & (orders < 4.4)), orders


@pytest.mark.parametrize("side", [2 * pi, pi])
def test_agrees_with_torch_cfd_over_one_time_unit(side):
    pytest.importorskip("torch_cfd", reason="the independent solver torch-cfd is not installed (extra 'test')")
    import torch
    from torch_cfd.forcings import KolmogorovForcing
    from torch_cfd.grids import Grid as TheirGrid
    from torch_cfd.spectral import NavierStokes2DSpectral, RK4CrankNicolsonStepper

    m = 48
    start = fields_like_the_flow(32, side=side)
    modes = make_modes(side, m, 0.01, 0.0, 1)
    start = np.stack([evaluate(transform(field, modes), modes, m) for field in start])
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)  # many small operations
    try:
        grid = TheirGrid(shape=(m, m), domain=((0, side), (0, side)))
        forcing = KolmogorovForcing(grid=grid, diam=side, wave_number=round(4 * side / (2 * pi)), vorticity=True)
        theirs = NavierStokes2DSpectral(0.01, grid, forcing_fn=forcing, step_fn=RK4CrankNicolsonStepper())
        # Their filter keeps a row at M / 3, which aliases; with the true 2/3 rule the equations are the same.
        n = m * torch.fft.fftfreq(m)
        theirs.filter.copy_((n.abs()[:, None] < m / 3) & (n.abs()[: m // 2 + 1] < m / 3))
        hat = torch.fft.rfft2(torch.from_numpy(start).transpose(-1, -2))  # their first axis is x
        with torch.no_grad():
            hat, _ = theirs(hat, dt=0.005, steps=200)
        final = torch.fft.irfft2(hat).transpose(-1, -2).numpy()
    finally:
        torch.set_default_dtype(before)
        torch.set_num_threads(threads)
    world = NavierStokes(cells=m, side=side, frames=2, spacing=1.0, warmup=0.0, step=0.01, solver_grid=m)
    ours = world.evolve(start)[:, 1]
    error = np.sqrt(np.mean((ours - final) ** 2) / np.mean(final**2))
    moved = np.sqrt(np.mean((start - final) ** 2) / np.mean(final**2))
    assert error < 1e-4 < 0.3 < moved, (error, moved)


def test_energy_changes_by_what_the_forcing_gives_and_viscosity_takes():
    # d/dt mean |u|^2 / 2 = mean psi A cos(k y) - mean w^2 / Re with the stream function, -lap psi = w.
    start = fields_like_the_flow(16)
    world = NavierStokes(cells=16, frames=41, spacing=0.01, warmup=0.0, step=0.005)
    fields = world.evolve(start)  # (n, F, N, N)
    given = np.mean(fields * -4 * np.cos(4 * world.grid.y)[:, None], axis=(-2, -1)) / 16  # only |k| = 4 counts
    taken = np.mean(fields**2, axis=(-2, -1)) / 100
    budget = np.trapezoid(given - taken, dx=0.01, axis=1)
    course = energy(fields, world.side)
    np.testing.assert_allclose(course[:, -1] - course[:, 0], budget, rtol=1e-3)


def test_energy_becomes_stationary():
    # At Re = 40 the slowest mode forgets in 40 time units; the paper's Re = 100 takes till about time 80.
    world = NavierStokes(cells=16, frames=121, spacing=1.0, warmup=0.0, reynolds=40.0, step=0.1)
    course = energy(world.trajectories(range(8))[:, :, 0].astype(np.float64), world.side)  # (8, 121)
    start, early, late = (course[:, part].mean(axis=1) for part in (slice(1, 6), slice(61, 91), slice(91, 121)))
    error = (late - early).std(ddof=1) / np.sqrt(8)
    assert abs((late - early).mean()) < max(3 * error, 0.03 * late.mean())
    assert error < 0.05 * late.mean()
    assert abs((start - late).mean()) > 0.1 * late.mean()


@pytest.mark.parametrize(("cells", "solver_grid"), [(16, None), (10, 20), (32, None)])
def test_a_trajectory_does_not_depend_on_its_company(cells, solver_grid):
    world = NavierStokes(cells=cells, solver_grid=solver_grid, frames=3, spacing=0.05, warmup=0.1, wavenumber=2.0)
    together = world.trajectories(range(19))
    for batch in ([7], [18, 0, 7], [3, 4, 5, 6, 7, 8, 9]):
        np.testing.assert_array_equal(world.trajectories(batch), together[batch])
    assert len({field.tobytes() for field in together}) == 19


def test_seed_and_index_choose_the_trajectory():
    same = {"cells": 16, "frames": 1, "warmup": 0.0}
    a = simulate_navier_stokes([0, 1], seed=1, **same)
    b = simulate_navier_stokes([1], seed=1, **same)
    assert np.array_equal(a[1], b[0])
    assert not np.array_equal(a[0], b[0])
    assert not np.array_equal(a, simulate_navier_stokes([0, 1], seed=2, **same))


def test_a_finer_grid_refines_the_same_initial_field():
    coarse, fine = (make_modes(2 * pi, points, 0.01, 0.0, 1) for points in (48, 96))
    a, b = (random_state(np.random.default_rng(3), modes, 2.5, 3.0) for modes in (coarse, fine))
    k = coarse.band
    rows = np.r_[0 : k + 1, -k:0]
    np.testing.assert_array_equal(a[rows, : 2 * (k + 1)], b[rows, : 2 * (k + 1)])
    extra = evaluate(b, fine, 64)[::2, ::2] - evaluate(a, coarse, 32)
    assert 0 < extra.std() < 0.1 * evaluate(a, coarse, 32).std()


def test_a_finer_solver_gives_the_same_flow_on_the_same_stored_grid():
    # On the small box 32 cells resolve the flow; the finer solver holds modes that the stored grid folds.
    start = fields_like_the_flow(32, side=pi, reynolds=40.0)
    plain, finer = (
        NavierStokes(
            cells=32, side=pi, reynolds=40.0, frames=2, spacing=0.5, warmup=0.0, step=0.01, solver_grid=m
        ).evolve(start)
        for m in (48, 80)
    )
    np.testing.assert_allclose(finer[:, 0], plain[:, 0], atol=1e-12)
    assert 0 < np.sqrt(np.mean((finer[:, 1] - plain[:, 1]) ** 2)) < 1e-3 * plain.std()


def test_a_field_is_evaluated_at_its_points_on_any_grid():
    modes = make_modes(2 * pi, 48, 0.01, 0.0, 1)
    state = random_state(np.random.default_rng(0), modes, 2.5, 3.0)
    fine = evaluate(state, modes, 60)
    for cells in (10, 12, 15, 20, 30):  # fewer points than modes, odd and even
        np.testing.assert_allclose(evaluate(state, modes, cells), fine[:: 60 // cells, :: 60 // cells], atol=1e-12)
    np.testing.assert_allclose(transform(fine, modes), state, atol=1e-13)


def test_the_initial_field_has_the_covariance_asked_for():
    # Variance of a cell: the sum over modes of tau^(2 alpha - 2) (k^2 + tau^2)^(-alpha), mean zero.
    world = NavierStokes(cells=16, frames=1, warmup=0.0)
    n = np.arange(-7, 8)
    k_squared = (n[:, None] ** 2 + n**2).astype(float)
    k_squared[7, 7] = np.inf
    variance = np.sum(3.0**3 * (k_squared + 9.0) ** -2.5)
    fields = world.trajectories(range(400))[:, 0, 0]
    assert np.abs(fields.mean(axis=(-2, -1))).max() < 1e-6
    means = np.mean(fields**2, axis=(-2, -1))
    assert abs(means.mean() - variance) < 4 * means.std() / 20


def test_a_blow_up_names_the_trajectory_and_the_time():
    world = NavierStokes(cells=16, frames=5, warmup=0.0, spacing=0.5, step=0.5, forcing=0.0)
    start = np.zeros((3, 16, 16))
    start[1] = 40 * np.cos(2 * world.grid.x)
    with pytest.raises(SolidError, match=r"trajectory 1 .* time 0 .*smaller step"):
        world.evolve(start)
    with pytest.raises(SolidError, match=r"trajectory 5 .* time -.*smaller step") as caught:
        NavierStokes(cells=32, step=0.5, frames=2).trajectories([5])
    assert "\n" not in str(caught.value)


def test_the_automatic_step_is_halved_for_a_fast_trajectory_alone():
    same = {"cells": 16, "frames": 3, "warmup": 0.0, "spacing": 0.2, "forcing": 0.0}
    world = NavierStokes(**same)
    fast = 2**1.5 / (world.longest_step * 7) * 1.5  # a speed of one and a half times the limit
    start = np.zeros((3, 16, 16))
    start[:] = np.cos(world.grid.x) + np.sin(2 * world.grid.y)[:, None]
    start[1] = fast * np.cos(world.grid.x)
    found = world.evolve(start)
    halved = NavierStokes(**same, step=world.longest_step / 2)
    np.testing.assert_array_equal(found[1], halved.evolve(start)[1])
    np.testing.assert_array_equal(found[[0, 2]], world.evolve(start[[0, 2]]))
    with pytest.raises(SolidError, match="trajectory 1"):
        world.evolve(start * np.array([1, 100, 1])[:, None, None])
    with pytest.raises(SolidError, match="trajectory 1"):
        NavierStokes(**same, step=world.longest_step).evolve(start)


def test_no_frame_is_returned_that_is_not_finite():
    world = NavierStokes(cells=16, frames=2, warmup=0.0, spacing=0.3, step=0.1, forcing=0.0)
    start = np.zeros((1, 16, 16))
    start[0, 3, 3] = np.nan
    with pytest.raises(SolidError, match="trajectory 0"):
        world.evolve(start)


def test_what_a_world_tells_of_itself():
    world = NavierStokes(cells=32, side=pi, frames=4, spacing=0.25)
    assert world.grid == Grid.box(32, 32, pi)
    assert world.variables == ("vorticity",)
    assert world.shifts == (16, 1)
    assert NavierStokes().shifts == (16, 1)
    assert NavierStokes(cells=30).shifts == (0, 1)
    np.testing.assert_allclose(world.times, [0, 0.25, 0.5, 0.75])
    assert world.points == 48
    assert NavierStokes().points == 96
    assert NavierStokes(cells=20).points == 32
    assert world.describe()["solver_grid"] == 48
    assert world.describe()["kind"] == "navier-stokes"
    array = simulate_navier_stokes(2, cells=16, frames=3, warmup=0.0)
    assert array.dims == ("trajectory", "time", "y", "x")
    assert array.dtype == np.float32


def test_the_law_is_invariant_under_its_shifts():
    # Shifting the start by a period of the forcing shifts the whole trajectory.
    start = fields_like_the_flow(16, count=1)
    world = NavierStokes(cells=16, frames=2, spacing=0.5, warmup=0.0)
    (dy, _), dx = world.shifts, 5
    shifted = world.evolve(np.roll(start, (dy, dx), axis=(-2, -1)))
    np.testing.assert_allclose(shifted, np.roll(world.evolve(start), (dy, dx), axis=(-2, -1)), atol=1e-9)
    broken = world.evolve(np.roll(start, (dy // 2, dx), axis=(-2, -1)))
    assert np.abs(broken - np.roll(world.evolve(start), (dy // 2, dx), axis=(-2, -1))).max() > 0.1


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        ({"side": 3.0}, "wavenumber 4"),
        ({"solver_grid": 50}, "solver_grid=50"),
        ({"solver_grid": 16}, "solver_grid=16"),
        ({"frames": 0}, "frames=0"),
        ({"warmup": -1.0}, "warmup=-1.0"),
        ({"step": 0.0}, "step=0.0"),
        ({"cells": 6}, "6 cells"),
    ],
)
def test_impossible_parameters_are_named(wrong, culprit):
    with pytest.raises(SolidError, match=culprit):
        NavierStokes(**{"cells": 32, **wrong})
