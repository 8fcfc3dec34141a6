"""The dual-masked loss: what it counts, what it weighs, and what it can never see."""

import math

import pytest
import torch

from solidfield.keys import torch_generator
from solidfield.theory.objective import denoising_loss, draw_tau, masked_mean, noised
from solidfield.theory.schedule import linear

M_O = torch.tensor([[[[True, True], [False, True]]]])  # (1, 1, 2, 2)
M_I = torch.tensor([[[[True, False], [True, False]]]])


def test_two_by_two_by_hand() -> None:
    eps = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=torch.float64)
    eps_hat = torch.tensor([[[[0.5, 0.0], [9.0, 5.0]]]], dtype=torch.float64)
    # targets at (0,0), (0,1), (1,1); (0,0) is also a source: (1.5 * 0.25 + 4 + 1) / 3
    assert math.isclose(float(denoising_loss(eps_hat, eps, M_O, M_I, lam=0.5)), (1.5 * 0.25 + 4 + 1) / 3)
    assert math.isclose(float(denoising_loss(eps_hat, eps, M_O)), 5.25 / 3)


def gradient(m_o: torch.Tensor, m_i: torch.Tensor, lam: float, off: float = 0.0) -> torch.Tensor:
    """d loss / d eps_hat where eps - eps_hat = 1 on m_o and `off` elsewhere."""
    eps = torch.where(m_o, 1.0, off)
    eps_hat = torch.zeros_like(eps, requires_grad=True)
    denoising_loss(eps_hat, eps, m_o, m_i, lam).backward()
    assert eps_hat.grad is not None
    return eps_hat.grad


def random_masks(overlap: bool) -> tuple[torch.Tensor, torch.Tensor]:
    m_o = torch.rand(3, 2, 8, 8, generator=torch_generator("m_o")) < 0.3
    m_i = torch.rand(3, 2, 8, 8, generator=torch_generator("m_i")) < 0.3
    return m_o, m_i if overlap else m_i & ~m_o


def test_gradient_is_exactly_zero_off_the_target_mask() -> None:
    m_o, m_i = random_masks(overlap=True)
    grad = gradient(m_o, m_i, 0.1, off=7.0)
    assert (grad[~m_o] == 0).all()
    assert (grad[m_o] != 0).all()


@pytest.mark.parametrize("lam", [1.0, 3.0])  # 1 + lam is a power of two: rounding cannot blur it
def test_overlap_scales_gradients_by_exactly_one_plus_lam(lam: float) -> None:
    m_o, m_i = random_masks(overlap=True)
    plain, weighted = gradient(m_o, m_i, 0.0), gradient(m_o, m_i, lam)
    both = m_o & m_i
    assert torch.equal(weighted[both] / plain[both], torch.full((int(both.sum()),), 1 + lam))
    assert torch.equal(weighted[~both], plain[~both])


def test_overlap_weight_is_inactive_without_overlap() -> None:
    m_o, m_i = random_masks(overlap=False)
    assert torch.equal(gradient(m_o, m_i, 0.0), gradient(m_o, m_i, 0.1))


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_nothing_off_the_mask_can_enter(poison: float) -> None:
    m_o, m_i = random_masks(overlap=True)
    assert torch.equal(gradient(m_o, m_i, 0.1, off=poison), gradient(m_o, m_i, 0.1, off=0.0))
    error = torch.where(m_o, 2.0, poison)
    assert masked_mean(error, m_o) == 2.0


def test_examples_count_equally_however_many_targets_they_have() -> None:
    m_o = torch.zeros(2, 1, 4, 4, dtype=torch.bool)
    m_o[0, 0, 0, 0] = True
    m_o[1, 0, :3] = True
    error = torch.tensor([8.0, 2.0]).view(2, 1, 1, 1).expand(2, 1, 4, 4)
    assert masked_mean(error, m_o) == 5.0


def test_an_example_without_targets_contributes_zero() -> None:
    m_o = torch.cat((M_O, torch.zeros_like(M_O)))
    error = torch.full((2, 1, 2, 2), 3.0, requires_grad=True)
    loss = masked_mean(error, m_o)
    loss.backward()
    assert loss == 1.5
    assert error.grad is not None
    assert (error.grad[1] == 0).all()


def test_noised_has_the_stated_mean_and_variance() -> None:
    x_0, eps = torch.full((3, 1, 50, 50), 2.0), torch.randn(3, 1, 50, 50, generator=torch_generator(0))
    tau, schedule = torch.tensor([1, 300, 1000]), linear()
    x_tau = noised(x_0, eps, tau, schedule)
    for b in range(3):
        alpha_bar = float(schedule.alpha_bar(tau[b]))
        expected = math.sqrt(alpha_bar) * 2 + math.sqrt(1 - alpha_bar) * eps[b]
        torch.testing.assert_close(x_tau[b], expected)


def test_tau_is_uniform_on_one_to_t() -> None:
    tau = draw_tau(20_000, linear(T=10), torch_generator(1))
    counts = tau.bincount(minlength=11)
    assert counts[0] == 0
    assert len(counts) == 11
    assert (counts[1:] - 2000).abs().max() < 5 * math.sqrt(2000 * 0.9)
