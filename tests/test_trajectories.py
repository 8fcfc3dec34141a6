"""Latents of many values given readings: unit marginals, and the correlations that conditioning gives."""

import numpy as np
import pytest
import torch

from solidfield.grid import Grid
from solidfield.noise import MemberNoise
from solidfield.theory import trajectories
from solidfield.theory.spacetime import SpaceTime
from solidfield.theory.trajectories import joint_latents
from test_spacetime import GRID, covariance


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    asked = torch.cartesian_prod(torch.arange(2, 4), torch.arange(1, 5), torch.arange(2, 5), torch.zeros(1).long())
    known = torch.tensor([[0, 1, 1, 0], [1, 3, 3, 0], [2, 5, 6, 0], [1, 0, 4, 0]])
    return asked, known, torch.tensor([0.0, 0.1, 0.0, 0.3])


def expected(asked: torch.Tensor, known: torch.Tensor, errors: torch.Tensor) -> np.ndarray:
    model = covariance()
    asked, known = asked[:, :3], known[:, :3]
    k = model(known[None] - known[:, None]).double() + torch.diag(errors.double() + float(model.nugget))
    cross = model(known[None] - asked[:, None]).double()
    left = model(asked[None] - asked[:, None]).double() - cross @ torch.linalg.solve(k, cross.T)
    scale = left.diagonal().sqrt()
    return (left / scale / scale[:, None]).numpy()


def check(members: int, tolerance: float, rows: torch.Tensor | slice = slice(None)) -> None:
    asked, known, errors = scene()
    asked = asked[rows]
    z = joint_latents(covariance(), asked, known, errors, MemberNoise(0, [0], range(members))).numpy()
    found = z.T @ z / members
    np.testing.assert_allclose(found, expected(asked, known, errors), atol=tolerance)
    assert abs(z.mean()) < 0.05


def test_few_values_have_the_conditional_correlations():
    check(4000, 0.09)  # six standard errors of a correlation


@pytest.mark.parametrize("dense", [1, 5])
def test_many_values_have_them_level_by_level(monkeypatch, dense):
    monkeypatch.setattr(trajectories, "DENSE", dense)
    check(4000, 0.09)


def test_a_covariance_that_reaches_far_beyond_the_map_leaves_marginals_as_they_are():
    """A field that hardly varies over the map, drawn at more places than are factored at once."""
    grid = Grid((48, 48))
    model = SpaceTime(grid, (1.0, 1.0))
    with torch.no_grad():
        model.reach += 3.0
        model.drift += 0.5
    asked = torch.cartesian_prod(torch.tensor([5]), torch.arange(48), torch.arange(48), torch.tensor([0]))
    known = torch.tensor([[5, 3, 4, 0], [4, 30, 40, 0], [3, 20, 20, 0], [5, 45, 2, 0]])
    assert len(asked) > trajectories.DENSE
    z = joint_latents(model, asked, known, torch.zeros(4), MemberNoise(0, [0], range(1500)))
    assert z.std(0).sub(1).abs().max() < 0.1  # five standard errors
    assert z.std(0).mean() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("few", [1, 7, 31])
def test_levels_hold_every_value_once_and_begin_with_a_few(few):
    """Also of values that lie on no lattice, such as gaps of a few stations in a few hours."""
    rng = np.random.default_rng(0)
    for count in (1, 5, 40, 300):
        scattered = torch.from_numpy(rng.integers(0, 50, (count, 4)) * [1, 1, 1, 0])
        odd = scattered[((scattered - scattered.amin(0)) % 2).any(1)]  # on no coarser lattice
        for asked in (scattered, odd) if len(odd) else (scattered,):
            (_, coarsest), *finer = trajectories._levels(asked, few)
            assert 0 < len(coarsest) <= few
            every = torch.cat([coarsest, *(mine for _, mine in finer)])
            assert sorted(every.tolist()) == list(range(len(asked)))


def test_values_that_lie_on_no_lattice_have_the_conditional_correlations(monkeypatch):
    monkeypatch.setattr(trajectories, "DENSE", 3)
    asked = scene()[0]
    check(4000, 0.09, ((asked - asked.amin(0)) % 2).any(1))


def test_without_readings_the_field_is_drawn_as_it_is():
    asked = scene()[0]
    nothing = torch.zeros(0, 4, dtype=torch.long)
    z = joint_latents(covariance(), asked, nothing, torch.zeros(0), MemberNoise(1, [0], range(3000))).numpy()
    np.testing.assert_allclose(z.T @ z / 3000, expected(asked, nothing, torch.zeros(0)), atol=0.11)
    assert GRID.shape == (6, 7)
