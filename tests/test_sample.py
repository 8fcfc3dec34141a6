"""Samplers against the exact denoiser of a Gaussian, with known mean and spread, and against diffusers."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from solidfield.errors import SolidError
from solidfield.noise import MemberNoise
from solidfield.theory.sample import (
    ancestral,
    clipped,
    ddim,
    dpmpp,
    gaussian_denoiser,
    leading,
    sampler,
    temperature,
    tempered,
    uniform_log_snr,
)
from solidfield.theory.schedule import Schedule, cosine, linear

LINEAR = linear()
START = torch.linspace(-2, 2, 11, dtype=torch.float64).view(1, 1, 11)


def fixed(value: Tensor) -> Callable[[Sequence[int]], Tensor]:
    return lambda shape: value


def affine(run: Callable[..., Tensor], schedule: Schedule, mean: float, std: float) -> tuple[float, float]:
    """Offset and slope of a deterministic sampler, which for Gaussian data is an affine map of its noise."""
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64).view(1, 1, 2)
    at_zero, at_one = run(gaussian_denoiser(schedule, mean, std), schedule, fixed(ends), (2,)).flatten().tolist()
    return at_zero, at_one - at_zero


def spread_ratio(run: Callable[..., Tensor], std: float, schedule: Schedule = LINEAR) -> float:
    return affine(run, schedule, 0.0, std)[1] / std


def test_the_papers_sampler_is_too_narrow_and_dpmpp_is_not() -> None:
    assert abs(spread_ratio(partial(ddim, steps=50), 0.9) - 0.962) < 0.002
    assert abs(spread_ratio(partial(dpmpp, steps=20, order=3), 1.0) - 1.0035) < 0.001
    for std in (1.0, 0.5, 0.2, 0.1):  # the error hardly depends on the spread itself
        assert abs(spread_ratio(partial(dpmpp, steps=20, order=3), std) - 1.003) < 0.002


@pytest.mark.parametrize(
    "run", [partial(ddim, steps=1000), partial(dpmpp, steps=100), partial(dpmpp, steps=200, order=2)]
)
@pytest.mark.parametrize("schedule", [linear(), cosine()], ids=["linear", "cosine"])
def test_mean_and_spread_converge_to_the_truth(run: Callable[..., Tensor], schedule: Schedule) -> None:
    offset, slope = affine(run, schedule, mean=0.7, std=0.5)
    assert abs(offset - 0.7) < 0.005
    assert abs(slope / 0.5 - 1) < 0.005


def gaussian_flow(x: Tensor, start: float, end: float, mean: float, std: float) -> Tensor:
    """The probability flow between two noise levels in closed form: it keeps the standardised value."""
    alpha, sigma = LINEAR.alpha_sigma(torch.tensor([start, end]))
    scale = (alpha**2 * std**2 + sigma**2).sqrt()
    return alpha[1] * mean + scale[1] / scale[0] * (x - alpha[0] * mean)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_dpmpp_converges_with_its_order(order: int) -> None:
    """Error against the closed-form flow at a fixed noise level falls as steps^-order."""
    mean, std, start, end = 0.7, 0.5, 1000.0, 300.0
    x = torch.tensor([[[-1.3, 0.4, 2.0]]], dtype=torch.float64)
    exact = gaussian_flow(x, start, end, mean, std)
    # The last denoising from `end` to 0 is an affine map of the state there: undo it to see the state itself.
    alpha, sigma = (float(s) for s in LINEAR.alpha_sigma(end))
    gain = alpha * std**2 / (alpha**2 * std**2 + sigma**2)
    errors, counts = [], (160, 320)
    for steps in counts:
        levels = torch.linspace(
            float(LINEAR.log_snr(start)), float(LINEAR.log_snr(end)), steps + 1, dtype=torch.float64
        )
        path = torch.cat((LINEAR.tau(levels), torch.zeros(1)))
        data = dpmpp(gaussian_denoiser(LINEAR, mean, std), LINEAR, fixed(x), (3,), order=order, path=path)
        state = (data - mean) / gain + alpha * mean
        errors.append(float((state - exact).abs().max()))
    assert abs(math.log2(errors[0] / errors[1]) - order) < 0.2


def test_ancestral_has_the_true_mean_and_spread() -> None:
    noise = MemberNoise(seed=0, queries=[0], members=range(4))
    members = ancestral(gaussian_denoiser(LINEAR, 0.7, 0.5), LINEAR, noise, (2500,), steps=200)
    assert members.shape == (4, 1, 2500)
    assert abs(float(members.mean()) - 0.7) < 0.025  # five standard errors
    assert abs(float(members.std()) / 0.5 - 1) < 0.05  # 3.5 standard errors, and 200 steps are 1.6 % too narrow
    assert float(members[0].sub(members[1]).abs().min()) > 0


def test_a_temperature_removes_the_error_of_spread() -> None:
    for run in (partial(dpmpp, steps=12), partial(dpmpp, steps=20, order=2), partial(ddim, steps=50)):
        factor = temperature(run, LINEAR)
        ones = fixed(torch.ones(1, 1, 1, dtype=torch.float64))
        x = run(gaussian_denoiser(LINEAR, 0.0, 0.5), LINEAR, tempered(ones, factor), (1,))
        assert math.isclose(float(x), 0.5, rel_tol=1e-12)
    factor = temperature(partial(dpmpp, steps=20, order=2), LINEAR)
    for std in (1.0, 0.3, 0.2):  # one number serves all spreads on uniform log-SNR steps
        assert abs(factor * spread_ratio(partial(dpmpp, steps=20, order=2), std) - 1) < 0.003
    with pytest.raises(SolidError, match="deterministic"):
        temperature(partial(ancestral, steps=10), LINEAR)


def test_clipping_holds_the_data_prediction_and_nothing_else() -> None:
    wild = clipped(lambda x, tau: 0.5 * x, LINEAR, bound=3.0)
    assert ddim(wild, LINEAR, fixed(START), (11,)).abs().max() <= 3.0 + 1e-9
    exact = gaussian_denoiser(LINEAR, 0.3, 0.5)
    loose = ddim(clipped(exact, LINEAR, bound=10.0), LINEAR, fixed(START), (11,))
    torch.testing.assert_close(loose, ddim(exact, LINEAR, fixed(START), (11,)))


def test_paths_fall_to_zero_and_are_spaced_as_stated() -> None:
    assert leading(LINEAR, 50).tolist() == [1.0 + 20 * i for i in range(49, -1, -1)] + [0.0]
    path = uniform_log_snr(LINEAR, 20)
    assert path[[0, -2, -1]].tolist() == [1000.0, 1.0, 0.0]
    gaps = LINEAR.log_snr(path[:-1]).diff()
    torch.testing.assert_close(gaps, gaps[0].expand_as(gaps))


def test_one_denoiser_call_a_step() -> None:
    for name in ("ddim", "ancestral", "dpmpp", "dpmpp-2"):
        calls: list[float] = []

        def counted(x: Tensor, tau: float, calls: list[float] = calls) -> Tensor:
            calls.append(tau)
            return 0.1 * x

        sampler(name, 7)(counted, LINEAR, MemberNoise(0, [0, 1], [0]), (2, 3))
        assert len(calls) == 7
        assert calls == sorted(calls, reverse=True)


def test_nonsense_is_refused_with_a_remedy() -> None:
    with pytest.raises(SolidError, match="'euler'"):
        sampler("euler", 10)
    with pytest.raises(SolidError, match="1000"):
        leading(LINEAR, 1001)
    with pytest.raises(SolidError, match="order"):
        dpmpp(lambda x, tau: x, LINEAR, fixed(torch.ones(1)), (), order=4)


# Against diffusers, on a denoiser that is neither linear nor stationary.


def curved(x: Tensor, tau: float) -> Tensor:
    return torch.tanh(x * (0.5 + tau / 2000)) + 0.1 * torch.sin(3 * x)


def walk(scheduler: object, steps: int, **options: object) -> Tensor:
    """diffusers' own loop; its timestep t is our tau - 1."""
    scheduler.set_timesteps(steps)  # type: ignore[attr-defined]
    x = START.clone()
    for t in scheduler.timesteps:  # type: ignore[attr-defined]
        x = scheduler.step(curved(x, float(t) + 1), t, x, **options).prev_sample  # type: ignore[attr-defined]
    return x


@pytest.mark.parametrize("steps", [10, 50])
@pytest.mark.parametrize("spacing", ["leading", "trailing"])
def test_ddim_equals_diffusers(steps: int, spacing: str) -> None:
    diffusers = pytest.importorskip("diffusers", reason="the independent samplers are in the test extra")
    theirs = diffusers.DDIMScheduler(clip_sample=False, timestep_spacing=spacing)
    path = None if spacing == "leading" else torch.arange(1000.0, -1, -1000 // steps, dtype=torch.float64)
    mine = ddim(curved, LINEAR, fixed(START), (11,), steps, path=path)
    torch.testing.assert_close(mine, walk(theirs, steps), atol=2e-4, rtol=2e-4)  # theirs has alpha_bar in float32


def test_ancestral_equals_diffusers_ddpm() -> None:
    diffusers = pytest.importorskip("diffusers", reason="the independent samplers are in the test extra")
    from diffusers.utils.torch_utils import randn_tensor

    theirs = diffusers.DDPMScheduler(clip_sample=False, timestep_spacing="leading")
    reference = walk(theirs, 20, generator=torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    first = [START]

    def noise(shape: Sequence[int]) -> Tensor:
        return first.pop() if first else randn_tensor(START.shape, generator, dtype=START.dtype)

    torch.testing.assert_close(ancestral(curved, LINEAR, noise, (11,), 20), reference, atol=1e-4, rtol=1e-4)


def multistep(order: int, steps: int) -> tuple[Tensor, Tensor]:  # diffusers' result, and the path it took
    diffusers = pytest.importorskip("diffusers", reason="the independent samplers are in the test extra")
    theirs = diffusers.DPMSolverMultistepScheduler(
        solver_order=order, solver_type="heun", algorithm_type="dpmsolver++", timestep_spacing="trailing"
    )
    result = walk(theirs, steps)
    return result, torch.cat((theirs.timesteps.double() + 1, torch.zeros(1)))


@pytest.mark.parametrize("order", [1, 2])
def test_dpmpp_equals_diffusers(order: int) -> None:
    reference, path = multistep(order, 20)
    mine = dpmpp(curved, LINEAR, fixed(START), (11,), order=order, path=path)
    torch.testing.assert_close(mine, reference, atol=1e-4, rtol=1e-4)


def test_dpmpp_of_order_three_is_nearer_the_truth_than_diffusers_on_the_same_path() -> None:
    """diffusers halves the quadratic term (see sample.py): on uniform log-SNR steps that costs an order."""
    diffusers = pytest.importorskip("diffusers", reason="the independent samplers are in the test extra")
    denoise = gaussian_denoiser(LINEAR, 0.3, 0.5)
    theirs = diffusers.DPMSolverMultistepScheduler(solver_order=3, algorithm_type="dpmsolver++", use_lu_lambdas=True)
    theirs.set_timesteps(50)
    path = torch.cat((LINEAR.tau(-2 * theirs.sigmas[:-1].double().log()), torch.zeros(1)))
    x = START.clone()
    for t, tau in zip(theirs.timesteps, path.tolist(), strict=False):
        x = theirs.step(denoise(x, tau), t, x).prev_sample
    mine = dpmpp(denoise, LINEAR, fixed(START), (11,), path=path)
    truth = dpmpp(denoise, LINEAR, fixed(START), (11,), steps=1000)
    assert (mine - truth).abs().max() < 0.2 * (x - truth).abs().max()
