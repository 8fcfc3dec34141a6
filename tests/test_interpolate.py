"""The plain interpolators against brute force, scipy, and their limits."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator

from solidfield.errors import SolidError
from solidfield.fields import Source
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.theory.interpolate import fill, inverse_distance, nearest, radial_basis, squared_distances

WRAPS = [(False, False), (True, True), (False, True)]


def scene(shape=(9, 7), count=8, seed=0):
    generator = torch_generator(seed, "scene")
    chosen = torch.randperm(shape[0] * shape[1], generator=generator)[:count]
    mask = torch.zeros(shape[0] * shape[1], dtype=torch.bool)
    mask[chosen] = True
    values = torch.randn(shape, generator=generator)
    mask = mask.view(shape)
    return torch.where(mask, values, 0.0), mask


def distance(p, q, shape, periodic, spacing):
    """The length of the shortest of all images of a step."""
    total = 0.0
    for axis in (0, 1):
        images = [0] if not periodic[axis] else [-shape[axis], 0, shape[axis]]
        total += min(abs(p[axis] - q[axis] + image) for image in images) ** 2 * spacing[axis] ** 2
    return math.sqrt(total)


@pytest.mark.parametrize("periodic", WRAPS)
def test_nearest_is_the_closest_reading_by_brute_force(periodic):
    values, mask = scene()
    spacing = (1.0, 1.7)
    field = nearest(values, mask, periodic, spacing)
    sites = mask.nonzero().tolist()
    for p in np.ndindex(9, 7):
        lengths = [distance(p, q, (9, 7), periodic, spacing) for q in sites]
        y, x = sites[int(np.argmin(np.round(lengths, 9)))]
        assert field[p] == values[y, x]


@pytest.mark.parametrize("periodic", WRAPS)
def test_inverse_distance_is_its_formula(periodic):
    values, mask = scene()
    spacing = (1.0, 1.7)
    field = inverse_distance(values, mask, periodic, spacing, power=3.0)
    sites = mask.nonzero().tolist()
    for p in np.ndindex(9, 7):
        if mask[p]:
            assert field[p] == values[p]
            continue
        weights = np.array([distance(p, q, (9, 7), periodic, spacing) ** -3.0 for q in sites])
        readings = np.array([float(values[y, x]) for y, x in sites])
        assert float(field[p]) == pytest.approx(float(weights @ readings / weights.sum()), abs=1e-5)


def test_inverse_distance_runs_from_the_mean_to_the_nearest():
    values, mask = scene()
    spacing = (1.0, 1.7)
    far = inverse_distance(values, mask, spacing=spacing, power=1e-9)
    torch.testing.assert_close(far[~mask], values[mask].mean().expand(int((~mask).sum())))
    close = inverse_distance(values, mask, spacing=spacing, power=2000.0)
    lengths = squared_distances(mask, (False, False), spacing).sort(-1).values
    clear = lengths[..., 1] > 1.02 * lengths[..., 0]  # no two readings at nearly one distance
    assert clear.sum() > 40
    torch.testing.assert_close(close[clear], nearest(values, mask, spacing=spacing)[clear])


@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_radial_basis_is_scipys_spline(smoothing):
    values, mask = scene((10, 10), count=30)
    y, x = torch.meshgrid(torch.arange(10.0), torch.arange(10.0), indexing="ij")
    values = torch.where(mask, torch.sin(y / 3) + torch.cos(x / 4), 0.0)  # smooth: no clipping
    sites = mask.nonzero().numpy()
    spline = RBFInterpolator(sites, values[mask].numpy(), smoothing=smoothing, kernel="thin_plate_spline")
    expected = spline(np.indices((10, 10)).reshape(2, -1).T).reshape(10, 10)
    field = radial_basis(values, mask, spacing=(0.2, 0.2), smoothing=smoothing)
    np.testing.assert_allclose(field.numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("periodic", WRAPS)
def test_radial_basis_passes_through_readings_and_stays_in_range(periodic):
    values, mask = scene((12, 11), count=20)
    field = radial_basis(values, mask, periodic)
    assert torch.equal(field[mask], values[mask])
    room = 0.5 * (values[mask].max() - values[mask].min()) + 1e-5
    assert field.max() <= values[mask].max() + room
    assert field.min() >= values[mask].min() - room


def test_radial_basis_sees_across_the_seam():
    """A wave on the torus: with wrapping the seam is as well filled as the middle, without it is not."""
    wave = torch.cos(2 * math.pi * torch.arange(24) / 24)[:, None].expand(24, 24).roll(5, 0)
    mask = torch.rand(24, 24, generator=torch_generator("seam")) < 0.1
    values = torch.where(mask, wave, 0.0)
    errors = [(radial_basis(values, mask, (wraps, wraps)) - wave).abs().max() for wraps in (True, False)]
    assert errors[0] < 0.1 < 2 * errors[0] < errors[1]


@pytest.mark.parametrize("where", [[(2, 3)], [(2, 3), (5, 5)], [(1, 1), (2, 2), (3, 3)]])
def test_readings_that_span_no_plane_fall_back_to_nearest(where):
    mask = torch.zeros(8, 8, dtype=torch.bool)
    for cell in where:
        mask[cell] = True
    values = torch.where(mask, torch.arange(64.0).view(8, 8), 0.0)
    assert torch.equal(radial_basis(values, mask), nearest(values, mask))


@pytest.mark.parametrize("how", ["nearest", "idw", "rbf"])
@pytest.mark.parametrize("grid", [Grid.box(32, 32, 1.0), Grid((21, 20))])
def test_filling_any_number_of_sensors(how, grid):
    """None: the prior mean. One: a constant. All: the readings themselves. Channels fill independently."""
    field = torch.randn(2, *grid.shape, generator=torch_generator("filling"))
    none = torch.zeros(2, *grid.shape, dtype=torch.bool)
    one = none.clone()
    one[:, 4, 5] = True
    mask = torch.stack([none, one, ~none])
    dense = fill(Source.of(field.expand(3, -1, -1, -1), mask, torch.zeros(3)), how, grid)
    assert torch.equal(dense[0], torch.zeros_like(field))
    assert torch.equal(dense[1], field[:, 4:5, 5:6].expand_as(field))
    assert torch.equal(dense[2], field)


def test_an_unknown_filling_is_named():
    values, mask = scene()
    with pytest.raises(SolidError, match=r"'cubic'.*nearest"):
        fill(Source.of(values[None, None], mask[None, None], torch.zeros(1)), "cubic", Grid((9, 7)))
