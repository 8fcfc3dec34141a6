"""The family of denoising models: the paper's objective and samplers around any predictor of the noise.

    loss    x_tau = sqrt(alpha_bar) x_0 + sqrt(1 - alpha_bar) eps,  eps_hat = denoise(x_tau, source, tau),
            and Eq. 2 between eps_hat and eps, on M_o alone
    sample  the same denoiser walked from noise to data, one state per member and query

Strict by default: x_0 is the target on M_o and zero elsewhere, since nothing else is known; the noise is
everywhere. As `oracle` the family takes the paper literally: x_0 is the dense field, which only simulated truth can
give, and the model says `leaks`.

The network answers with the noise itself, or with the velocity v = alpha eps - sigma x_0, so that eps_hat =
sigma x_tau + alpha v_hat. The objective is the same; but near tau = T, where eps is almost x_tau and
x_0 = (x_tau - sigma eps) / alpha magnifies an error a hundredfold, the second form is right from the start.

A model of the family says what its network answers (`denoise`) and, if the noise is not white, how white noise
becomes it (`colour`); nothing else.

`FieldDenoising` has coloured noise eps = G white, G a filter of `nn/spectral.py`: a field, smooth in space, and met in
training at the observed targets alone. It asks for more care than white noise. Off M_o the target is unknown; filled
with zeros, x_tau = sigma eps there, and a neighbour's noise, nearly one's own, could be read off it in training and not
in sampling. So the network is told where x_tau is known: on M_o in training, everywhere when sampling.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import SolidError
from ..fields import OraclePair, Pair, Source
from ..forecast import Forecaster, Spec
from ..nn.spectral import FieldFilter, Gain
from ..noise import Noise
from ..theory.objective import denoising_loss, draw_tau, noised
from ..theory.sample import clipped, sampler, temperature, tempered
from ..theory.schedule import schedule


class Denoising(Forecaster):
    """A forecaster that learns to remove noise at observed targets."""

    family = "diffusion"

    def __init__(
        self,
        spec: Spec,
        schedule_name: str,
        sampler_name: str,
        steps: int,
        lam: float,
        oracle: bool,
        temper: bool,
        predict: str = "noise",  # or "velocity"
        clip: float = math.inf,  # bound on data predictions while sampling, in standard deviations
    ):
        super().__init__(spec)
        if lam < 0:
            raise SolidError(f"lam {lam} must not be negative; the paper uses 0.05 to 0.1, 0 switches it off")
        if clip <= 0:
            raise SolidError(f"clip {clip} must be positive, in standard deviations of the data; inf for none")
        if predict not in ("noise", "velocity"):
            raise SolidError(f"predict '{predict}' is unknown; choose noise or velocity")
        self.velocity = predict == "velocity"
        self.schedule = schedule(schedule_name)
        self.sampler = sampler(sampler_name, steps)
        self.lam = lam
        self.leaks = oracle
        self.clip = clip
        self.temperature = temperature(self.sampler, self.schedule) if temper else 1.0

    @abstractmethod
    def denoise(
        self,
        x_tau: Tensor,  # (B, C, H, W)
        source: Source,
        tau: Tensor,  # (B,)
        known: Tensor | None = None,  # (B, C, H, W) bool, where x_tau holds a noised value; None: everywhere
    ) -> Tensor:  # (B, C, H, W)
        """What the network answers: the noise in x_tau, or the velocity; meant where x_tau is known."""

    def noise_in(
        self,
        answer: Tensor,  # (B, C, H, W) of `denoise`
        x_tau: Tensor,  # (B, C, H, W)
        tau: Tensor,  # (B,)
    ) -> Tensor:  # (B, C, H, W)
        """eps_hat."""
        if not self.velocity:
            return answer
        alpha, sigma = (s.to(x_tau)[:, None, None, None] for s in self.schedule.alpha_sigma(tau))
        return sigma * x_tau + alpha * answer

    def colour(self, white: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        """The noise of the forward process, made of white noise; white unless a model says otherwise."""
        return white

    def loss(self, pair: Pair | OraclePair, generator: torch.Generator) -> Tensor:
        if self.leaks and not isinstance(pair, OraclePair):
            raise SolidError(f"{self.name} as oracle needs dense simulated targets, got sparse ones; set oracle=false")
        if isinstance(pair, OraclePair) and not self.leaks:
            raise SolidError(
                f"{self.name} is strict, got dense targets; give sparse pairs, or build it with oracle=true"
            )
        sparse = pair.pair if isinstance(pair, OraclePair) else pair
        x_0 = pair.dense if isinstance(pair, OraclePair) else sparse.target.values
        source, m_o = sparse.source, sparse.target.mask

        tau = draw_tau(len(x_0), self.schedule, generator).to(x_0.device)
        white = torch.randn(x_0.shape, generator=generator, dtype=x_0.dtype).to(x_0.device)
        eps = self.colour(white)
        x_tau = noised(x_0, eps, tau, self.schedule)
        eps_hat = self.noise_in(self.denoise(x_tau, source, tau, m_o), x_tau, tau)
        return denoising_loss(eps_hat, eps, m_o, source.mask, self.lam)

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        # (K B, ...), members slowest
        repeated = source.map(lambda part: part.repeat(members, *[1] * (part.ndim - 1)))

        def denoise(x: Tensor, tau: float) -> Tensor:  # (K, B, C, H, W) -> the same
            flat = x.flatten(0, 1)
            times = flat.new_full((len(flat),), tau)
            return self.noise_in(self.denoise(flat, repeated, times), flat, times).view_as(x)

        def coloured(shape: Sequence[int]) -> Tensor:  # (K, B, C, H, W)
            return self.colour(noise(shape))

        walked = clipped(denoise, self.schedule, self.clip)
        started = tempered(coloured, self.temperature)
        return self.sampler(walked, self.schedule, started, source.values.shape[1:])


class FieldDenoising(Denoising):
    """Strict denoising with noise that is a filter of white noise."""

    def __init__(self, spec: Spec, gain: Gain, schedule_name: str, sampler_name: str, steps: int, predict: str):
        super().__init__(spec, schedule_name, sampler_name, steps, lam=0.0, oracle=False, temper=False, predict=predict)
        self.filter = FieldFilter(spec.grid, gain)

    def colour(self, white: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        return self.filter(white)
