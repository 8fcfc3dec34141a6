"""Latents of many values given readings: unit marginals, and the correlations that conditioning gives."""

import numpy as np
import torch

from solidfield.noise import MemberNoise
from solidfield.theory import trajectories
from solidfield.theory.trajectories import joint_latents
from test_spacetime import GRID, covariance


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    asked = torch.cartesian_prod(torch.arange(2, 4), torch.arange(1, 5), torch.arange(2, 5))
    known = torch.tensor([[0, 1, 1], [1, 3, 3], [2, 5, 6], [1, 0, 4]])
    return asked, known, torch.tensor([0.0, 0.1, 0.0, 0.3])


def expected(asked: torch.Tensor, known: torch.Tensor, errors: torch.Tensor) -> np.ndarray:
    model = covariance()
    k = model(known[None] - known[:, None]).double() + torch.diag(errors.double() + float(model.nugget))
    cross = model(known[None] - asked[:, None]).double()
    left = model(asked[None] - asked[:, None]).double() - cross @ torch.linalg.solve(k, cross.T)
    scale = left.diagonal().sqrt()
    return (left / scale / scale[:, None]).numpy()


def check(members: int, tolerance: float) -> None:
    asked, known, errors = scene()
    z = joint_latents(covariance(), asked, known, errors, MemberNoise(0, [0], range(members))).numpy()
    found = z.T @ z / members
    np.testing.assert_allclose(found, expected(asked, known, errors), atol=tolerance)
    assert abs(z.mean()) < 0.05


def test_few_values_have_the_conditional_correlations():
    check(4000, 0.09)  # six standard errors of a correlation


def test_many_values_have_them_by_fourier_transform(monkeypatch):
    monkeypatch.setattr(trajectories, "DENSE", 1)
    check(4000, 0.12)


def test_without_readings_the_field_is_drawn_as_it_is():
    asked = scene()[0]
    nothing = torch.zeros(0, 3, dtype=torch.long)
    z = joint_latents(covariance(), asked, nothing, torch.zeros(0), MemberNoise(1, [0], range(3000))).numpy()
    np.testing.assert_allclose(z.T @ z / 3000, expected(asked, nothing, torch.zeros(0)), atol=0.11)
    assert GRID.shape == (6, 7)
