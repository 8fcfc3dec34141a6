"""From noise to a field: plain functions over a denoiser eps_hat = denoise(x_tau, tau) and a source of noise.

A sampler walks down a path of diffusion times tau_1 > tau_2 > ... > 0, one call of the denoiser for each but
the last, which is always 0: every sampler ends on clean data. With alpha = sqrt(alpha_bar), sigma = sqrt(1 -
alpha_bar) and the data prediction D = (x - sigma eps_hat) / alpha, one step from tau to the next (') is

    ddim       x <- alpha' D + sqrt(sigma'^2 - s^2) eps_hat + s z,
               s = eta sigma' / sigma sqrt(1 - alpha^2 / alpha'^2)
    ancestral  the same with eta = 1, which is DDPM's posterior variance
    dpmpp      x <- sigma' / sigma x + alpha' int_0^h e^(u - h) D(u) du,  h the step in log(alpha / sigma)

where for dpmpp D(u) is the polynomial through the last `order` data predictions, integrated exactly
(DPM-Solver++, multistep). At order 3 the widely used implementations give the quadratic term half its weight,
which leaves them at order 2; here it has its full weight, and with 20 steps the spread of a Gaussian comes
out 1.003 of the true one instead of 1.009.

Paths. `leading`, for ddim and ancestral: 1, 1 + T/n, 1 + 2 T/n, ...; it starts a little below T, as DDIM does
(the "leading" spacing of diffusers, whose timestep is tau - 1). `uniform_log_snr`, for dpmpp: equal steps of
log-SNR between T and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ..errors import SolidError
from ..noise import Noise
from .schedule import Schedule

Denoiser = Callable[[Tensor, float], Tensor]  # x_tau (K, B, ...), tau -> eps_hat (K, B, ...)
Sampler = Callable[[Denoiser, Schedule, Noise, Sequence[int]], Tensor]  # ..., shape of one state -> (K, B, *shape)


def leading(schedule: Schedule, steps: int) -> Tensor:  # (steps + 1,) float64
    """Equal steps of tau, counted from 1."""
    stride = schedule.T // _checked(steps, schedule)
    return torch.cat((1 + stride * torch.arange(steps - 1, -1, -1), torch.zeros(1))).double()


def uniform_log_snr(schedule: Schedule, steps: int) -> Tensor:  # (steps + 1,) float64
    """Equal steps of log-SNR from tau = T to tau = 1, then 0."""
    first, last = schedule.log_snr(torch.tensor([float(schedule.T), 1.0])).tolist()
    levels = torch.linspace(first, last, _checked(steps, schedule), dtype=torch.float64)
    return torch.cat((schedule.tau(levels), torch.zeros(1)))


def ddim(
    denoise: Denoiser,
    schedule: Schedule,
    noise: Noise,
    shape: Sequence[int],  # of one state, for instance (C, H, W)
    steps: int = 50,
    eta: float = 0.0,  # 0: all randomness is the first noise; 1: ancestral
    path: Tensor | None = None,  # (n + 1,) falling to 0, instead of `leading` with `steps`
) -> Tensor:  # (K, B, *shape)
    """Denoising diffusion implicit sampling."""
    path = leading(schedule, steps) if path is None else path
    alpha, sigma = (s.tolist() for s in schedule.alpha_sigma(path))
    x = noise(shape)
    for i, tau in enumerate(path[:-1].tolist()):
        eps_hat = denoise(x, tau)
        data = (x - sigma[i] * eps_hat) / alpha[i]
        fresh = eta * sigma[i + 1] / sigma[i] * math.sqrt(max(0.0, 1 - (alpha[i] / alpha[i + 1]) ** 2))
        x = alpha[i + 1] * data + math.sqrt(max(0.0, sigma[i + 1] ** 2 - fresh**2)) * eps_hat
        if fresh > 0:
            x = x + fresh * noise(shape)
    return x


def ancestral(
    denoise: Denoiser,
    schedule: Schedule,
    noise: Noise,
    shape: Sequence[int],
    steps: int = 1000,
    path: Tensor | None = None,
) -> Tensor:  # (K, B, *shape)
    """DDPM: new noise at every step, with the posterior variance of the forward process."""
    return ddim(denoise, schedule, noise, shape, steps, eta=1.0, path=path)


def dpmpp(
    denoise: Denoiser,
    schedule: Schedule,
    noise: Noise,
    shape: Sequence[int],
    steps: int = 20,
    order: int = 3,
    path: Tensor | None = None,  # (n + 1,) falling to 0, instead of `uniform_log_snr` with `steps`
) -> Tensor:  # (K, B, *shape)
    """Multistep DPM-Solver++ of order 1, 2 or 3; the first steps have the order their history allows."""
    if order not in (1, 2, 3):
        raise SolidError(f"dpmpp has order 1, 2 or 3, got {order}")
    path = uniform_log_snr(schedule, steps) if path is None else path
    alpha, sigma = (s.tolist() for s in schedule.alpha_sigma(path))
    level = (schedule.log_snr(path) / 2).tolist()  # log(alpha / sigma), infinite at the end
    x = noise(shape)
    seen: list[Tensor] = []  # data predictions, newest first
    for i, tau in enumerate(path[:-1].tolist()):
        data = (x - sigma[i] * denoise(x, tau)) / alpha[i]
        seen = [data, *seen[: order - 1]]
        if sigma[i + 1] == 0:
            return data  # the limit of a step to infinite log-SNR
        integral = _integral(seen, level[i - len(seen) + 1 : i + 1][::-1], level[i + 1] - level[i])
        x = sigma[i + 1] / sigma[i] * x + alpha[i + 1] * integral
    return x


def _integral(
    seen: list[Tensor],  # D at the newest level first
    level: list[float],  # the levels of `seen`, newest first
    h: float,
) -> Tensor:
    """int_0^h e^(u - h) D(u) du for Newton's D(u) = D0 + D01 u + D012 u (u + l0 - l1), u counted from l0."""
    moment = [-math.expm1(-h)]  # int e^(u - h) u^k du: 1 - e^-h, then by parts h^k - k moment[k - 1]
    moment += [h - moment[0]]
    moment += [h**2 - 2 * moment[1]]
    total = moment[0] * seen[0]
    if len(seen) > 1:
        first = (seen[0] - seen[1]) / (level[0] - level[1])
        total = total + moment[1] * first
    if len(seen) > 2:
        before = (seen[1] - seen[2]) / (level[1] - level[2])
        second = (first - before) / (level[0] - level[2])
        total = total + (moment[2] + moment[1] * (level[0] - level[1])) * second
    return total


SAMPLERS: dict[str, Callable[..., Tensor]] = {
    "ddim": ddim,
    "ancestral": ancestral,
    "dpmpp": dpmpp,
    "dpmpp-2": partial(dpmpp, order=2),
}


def sampler(name: str, steps: int) -> Sampler:
    """A sampler by name, with its number of steps."""
    if name not in SAMPLERS:
        raise SolidError(f"sampler '{name}' is unknown; choose one of {', '.join(SAMPLERS)}")
    return partial(SAMPLERS[name], steps=steps)


def clipped(denoise: Denoiser, schedule: Schedule, bound: float) -> Denoiser:
    """The same denoiser with its data prediction held within +-bound.

    Near tau = T, alpha is below 0.01 and a small error of eps_hat is a huge error of D; a network that has
    not been trained for long would otherwise start its walk far outside the data.
    """

    def held(x: Tensor, tau: float) -> Tensor:
        alpha, sigma = (float(s) for s in schedule.alpha_sigma(tau))
        data = (x - sigma * denoise(x, tau)) / alpha
        return (x - alpha * data.clamp(-bound, bound)) / sigma

    return held


def gaussian_denoiser(schedule: Schedule, mean: Tensor | float, std: Tensor | float) -> Denoiser:
    """The exact eps_hat = E[eps | x_tau] when data are N(mean, std^2): what a perfect network answers."""

    def denoise(x: Tensor, tau: float) -> Tensor:
        alpha, sigma = (float(s) for s in schedule.alpha_sigma(tau))
        return sigma * (x - alpha * mean) / (alpha**2 * std**2 + sigma**2)

    return denoise


def temperature(sampler: Sampler, schedule: Schedule, std: float = 0.5) -> float:
    """The factor on the first noise that gives a Gaussian its true spread under this sampler.

    A deterministic sampler with the exact denoiser is a linear map of the noise; its slope over `std` is the
    error. On uniform log-SNR steps that error is nearly the same for any std, so that one number serves all
    cells; on `leading` steps it is not, and the number is right at `std` only (0.5: a usual posterior spread
    of standardised values).
    """
    draws: list[int] = []

    def ones(shape: Sequence[int]) -> Tensor:
        draws.append(1)
        return torch.ones((1, 1, *shape), dtype=torch.float64)

    spread = float(sampler(gaussian_denoiser(schedule, 0.0, std), schedule, ones, ()))
    if len(draws) > 1:
        raise SolidError("a temperature needs a deterministic sampler; use ddim with eta 0, or dpmpp")
    return std / spread


def tempered(noise: Noise, factor: float) -> Noise:
    """The same noise, wider or narrower by a factor; for samplers that draw once."""
    return lambda shape: factor * noise(shape)


def _checked(steps: int, schedule: Schedule) -> int:
    if not 1 <= steps <= schedule.T:
        raise SolidError(f"{steps} sampler steps: choose between 1 and the schedule's {schedule.T}")
    return steps
