"""The tables are the published ones, and log-SNR and tau are inverse to each other in between."""

import math

import pytest
import torch

from solidfield.errors import SolidError
from solidfield.theory.schedule import SCHEDULES, cosine, linear, schedule


def test_linear_alpha_bar_is_the_product_of_one_minus_beta() -> None:
    expected, alpha_bar = 1.0, linear().alpha_bar(torch.arange(1.0, 1001.0))
    for tau in range(1, 1001):
        expected *= 1 - (1e-4 + (0.02 - 1e-4) * (tau - 1) / 999)
        assert math.isclose(float(alpha_bar[tau - 1]), expected, rel_tol=1e-10)


def test_cosine_alpha_bar_is_the_squared_cosine() -> None:
    tau = torch.arange(1.0, 999.0, dtype=torch.float64)
    f = torch.cos((torch.cat((torch.zeros(1), tau)) / 1000 + 0.008) / 1.008 * math.pi / 2) ** 2
    torch.testing.assert_close(cosine().alpha_bar(tau), f[1:] / f[0], atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize(("name", "theirs"), [("linear", "linear"), ("cosine", "squaredcos_cap_v2")])
def test_equals_diffusers(name: str, theirs: str) -> None:
    diffusers = pytest.importorskip("diffusers", reason="the independent schedules are in the test extra")
    reference = diffusers.DDPMScheduler(num_train_timesteps=1000, beta_schedule=theirs).alphas_cumprod
    mine = schedule(name).alpha_bar(torch.arange(1, 1001))
    torch.testing.assert_close(mine.float(), reference, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", SCHEDULES)
def test_tau_and_log_snr_are_inverse_and_monotone(name: str) -> None:
    table = schedule(name)
    tau = torch.linspace(1, table.T, 3001, dtype=torch.float64)
    log_snr = table.log_snr(tau)
    assert (log_snr.diff() < 0).all()
    torch.testing.assert_close(table.tau(log_snr), tau, atol=1e-8, rtol=0)
    torch.testing.assert_close(log_snr, torch.logit(table.alpha_bar(tau)), atol=1e-6, rtol=1e-6)


def test_clean_end_and_variance_preservation() -> None:
    table = linear()
    assert table.alpha_bar(0.0) == 1
    assert table.alpha_sigma(0.0)[1] == 0
    assert table.tau(math.inf) == 0
    alpha, sigma = table.alpha_sigma(torch.linspace(1, 1000, 77))
    torch.testing.assert_close(alpha**2 + sigma**2, torch.ones(77, dtype=torch.float64))


def test_between_whole_times_log_snr_is_linear() -> None:
    table = linear(T=10)
    assert math.isclose(float(table.log_snr(3.25)), 0.75 * float(table.table[2]) + 0.25 * float(table.table[3]))


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(SolidError, match=r"'quadratic'.*linear, cosine"):
        schedule("quadratic")
