"""Denoising where the noise is a field: smooth in space, and met in training at the observed targets alone.

The family of `denoising.py` with coloured noise eps = G white, G a filter of `nn/spectral.py`. Smooth noise
asks for more care than white noise. Off M_o the target is unknown; filled with zeros, x_tau = sigma eps
there, and a neighbour's noise, nearly one's own, could be read off it in training and not in sampling. So the
network is told where x_tau is known: on M_o in training, everywhere when sampling.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..errors import SolidError
from ..fields import OraclePair, Pair, Source
from ..forecast import Spec
from ..nn.spectral import FieldFilter, Gain
from ..theory.objective import denoising_loss, draw_tau, noised
from .denoising import Denoising


class FieldDenoising(Denoising):
    """Strict denoising with noise that is a filter of white noise."""

    def __init__(self, spec: Spec, gain: Gain, schedule_name: str, sampler_name: str, steps: int, predict: str):
        super().__init__(spec, schedule_name, sampler_name, steps, lam=0.0, oracle=False, temper=False, predict=predict)
        self.filter = FieldFilter(spec.grid, gain)

    @abstractmethod
    def denoise(
        self,
        x_tau: Tensor,  # (B, C, H, W)
        source: Source,
        tau: Tensor,  # (B,)
        known: Tensor | None = None,  # (B, C, H, W) bool, where x_tau may be read; None: everywhere
    ) -> Tensor:  # (B, C, H, W)
        """What the network answers (`Denoising.denoise`); meant where x_tau is known."""

    def colour(self, white: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        return self.filter(white)

    def loss(self, pair: Pair | OraclePair, generator: torch.Generator) -> Tensor:
        if isinstance(pair, OraclePair):
            raise SolidError(f"{self.name} learns from sparse targets only, got dense ones; give sparse pairs")
        x_0, m_o = pair.target.values, pair.target.mask
        tau = draw_tau(len(x_0), self.schedule, generator).to(x_0.device)
        white = torch.randn(x_0.shape, generator=generator, dtype=x_0.dtype).to(x_0.device)
        eps = self.colour(white)
        x_tau = noised(x_0, eps, tau, self.schedule)
        eps_hat = self.noise_in(self.denoise(x_tau, pair.source, tau, m_o), x_tau, tau)
        return denoising_loss(eps_hat, eps, m_o)
