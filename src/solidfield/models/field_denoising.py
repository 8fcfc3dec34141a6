"""Denoising where the noise is a field: smooth in space, and met in training at the observed targets alone.

The family of `denoising.py` with coloured noise eps = G white, G a filter of `nn/spectral.py`. Smooth noise
asks for more care than white noise. Off M_o the target is unknown; filled with zeros, x_tau = sigma eps
there, and a neighbour's noise, nearly one's own, could be read off it in training and not in sampling. So the
network is told where x_tau is known: on M_o in training, everywhere when sampling.
"""

from __future__ import annotations

from torch import Tensor

from ..forecast import Spec
from ..nn.spectral import FieldFilter, Gain
from .denoising import Denoising


class FieldDenoising(Denoising):
    """Strict denoising with noise that is a filter of white noise."""

    def __init__(self, spec: Spec, gain: Gain, schedule_name: str, sampler_name: str, steps: int, predict: str):
        super().__init__(spec, schedule_name, sampler_name, steps, lam=0.0, oracle=False, temper=False, predict=predict)
        self.filter = FieldFilter(spec.grid, gain)

    def colour(self, white: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        return self.filter(white)
