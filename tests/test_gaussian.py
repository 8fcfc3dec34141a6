"""Conditioning is that of the joint normal law, written out; steps between cells are those around the torus."""

import pytest
import torch

from solidfield.errors import SolidError
from solidfield.keys import torch_generator
from solidfield.theory.gaussian import Given, between, root_of, unrolled

N, M = 7, 5


def joint() -> torch.Tensor:  # (N + M, N + M)
    root = torch.randn(N + M, N + M, generator=torch_generator(0), dtype=torch.float64)
    return root @ root.T + 0.1 * torch.eye(N + M)


def given(error: float = 0.0) -> tuple[Given, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The readings, then what the textbook needs: K^-1, X and C."""
    law = joint()
    inverse = torch.linalg.inv(law[:N, :N] + error * torch.eye(N))
    return Given.of(law[:N, :N], error), inverse, law[:N, N:], law[N:, N:]


@pytest.mark.parametrize("error", [0.0, 0.5])
def test_mean_and_covariance_are_those_of_the_conditional_law(error):
    readings, inverse, across, around = given(error)
    y = torch.randn(N, generator=torch_generator(1), dtype=torch.float64)
    mean, variance = readings.law(across, y, around.diagonal())
    covariance = around - across.T @ inverse @ across
    torch.testing.assert_close(mean, across.T @ inverse @ y)
    torch.testing.assert_close(variance, covariance.diagonal())
    torch.testing.assert_close(readings.variance(across, around.diagonal()), variance)
    torch.testing.assert_close(readings.covariance(across, around), covariance)
    torch.testing.assert_close(readings.solve(y[:, None])[:, 0], inverse @ y)


def test_left_out_is_conditioning_on_all_but_one():
    law, y = joint()[:N, :N], torch.randn(N, generator=torch_generator(2), dtype=torch.float64)
    mean, variance = Given.of(law, 0.0).left_out(y)
    for i in range(N):
        others = torch.arange(N) != i
        expected = Given.of(law[others][:, others], 0.0).law(law[others][:, i : i + 1], y[others], law[i, i])
        torch.testing.assert_close(torch.stack([mean[i], variance[i]]), torch.cat(expected))


def test_padding_says_nothing_and_a_batch_is_each_of_its_rows():
    law, y = joint(), torch.randn(N, generator=torch_generator(3), dtype=torch.float64)
    valid = torch.arange(N) < torch.tensor([[N], [4], [0]])  # (3, N)
    together = Given.of(law[:N, :N].expand(3, -1, -1), 0.2, valid).law(law[:N, N:], y.expand(3, -1), 1.0)
    for row, count in enumerate((N, 4, 0)):
        alone = Given.of(law[:count, :count], 0.2).law(law[:count, N:], y[:count], 1.0)
        torch.testing.assert_close(torch.stack([part[row] for part in together]), torch.stack(alone))


@pytest.mark.parametrize("torus", [(3, 4), (6, 4), (6, 8)])  # both axes of a 3 x 4 grid wrap, one, none
def test_covariances_between_cells_are_the_kernel_at_their_step(torus):
    kernel = torch.rand(2, *torus, generator=torch_generator(4))
    cells = torch.arange(12)
    found = between(unrolled(kernel, (3, 4)), cells, cells)
    for p in range(12):
        for q in range(12):
            expected = kernel[:, (q // 4 - p // 4) % torus[0], (q % 4 - p % 4) % torus[1]]
            assert (found[:, p, q] == expected).all()


def test_what_is_positive_definite_is_factored_as_it_is_and_what_is_not_nearly_so():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 6, 6, dtype=torch.float64, generator=generator)
    good = a @ a.mT + 0.1 * torch.eye(6, dtype=torch.float64)
    assert torch.equal(root_of(good), torch.linalg.cholesky(good))
    values, vectors = torch.linalg.eigh(good)
    values[1, 0] = -1e-4  # one matrix of three is not quite a covariance
    bad = vectors @ torch.diag_embed(values) @ vectors.mT
    root = root_of(bad)
    assert torch.equal(root[0], torch.linalg.cholesky(bad[0]))
    assert torch.allclose(root[1] @ root[1].mT, bad[1], atol=2e-2 * float(bad[1].diagonal().mean()))
    with pytest.raises(SolidError, match="not finite"):
        root_of(torch.full((2, 2), torch.nan))
