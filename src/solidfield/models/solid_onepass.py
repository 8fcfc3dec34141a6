"""`solid-onepass`: a generator that maps (noise, X_c, M_i) to a field in one pass, scored where targets were
observed.

    x_k = G(w_k, X_c, M_i)
    L   = mean over scales b of CRPS_alpha({block mean_b of x_k on M_o}, block mean_b of the target on M_o)

A block mean is taken over the observed targets inside the block, for the members and for the target alike, so a
coarse scale teaches how cells move together without a value off M_o. CRPS_alpha mixes the fair estimator (alpha)
with the plain one (1 - alpha).

Reference: this project; the loss is the almost fair CRPS of Lang et al. 2024 (AIFS-CRPS) on sparse targets.
Departures: masked, and on several scales.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ..fields import Pair, Source
from ..forecast import Forecaster, Spec
from ..nn.unet import UNet
from ..noise import Noise
from .queries import coordinate_channels, in_patches, query_channels, query_width, silence


class SolidOnepass(Forecaster):
    name = "solid-onepass"
    family = "distribution"
    reference = "this project, with the almost fair CRPS of Lang et al. 2024"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"base": 8, "multipliers": (1, 2), "blocks": 1, "attention_levels": ()},
        "laptop": {"base": 32, "multipliers": (1, 2), "blocks": 1, "attention_levels": (), "patch": 2},
        "paper": {"base": 64, "multipliers": (1, 2, 2, 2), "blocks": 2, "attention_levels": (2,)},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        base: int = 32,
        multipliers: tuple[int, ...] = (1, 2),
        blocks: int = 1,
        attention_levels: tuple[int, ...] = (),
        patch: int = 1,
        dropout: float = 0.1,
        coordinates: bool = True,
        noises: int = 4,  # channels of white noise that make members differ
        members: int = 4,  # drawn per example in training
        scales: tuple[int, ...] = (1, 2, 4, 8),  # sides of the blocks, in cells
        alpha: float = 0.95,  # of the fair estimator: with 1 a few members could agree to be anywhere
    ):
        super().__init__(spec)
        self.noises, self.members, self.scales, self.alpha, self.patch = noises, members, scales, alpha, patch
        place = coordinate_channels(spec, coordinates)
        self.register_buffer("place", place, persistent=False)
        self.place: Tensor
        self.generator = UNet(
            (noises + query_width(spec, place)) * patch**2,
            spec.channels * patch**2,
            base=base,
            multipliers=multipliers,
            blocks=blocks,
            attention_levels=attention_levels,
            dropout=dropout,
            time=False,
            periodic=spec.grid.periodic,
        )
        silence(self.generator.stem, noises + 2 * spec.channels + 1, len(place), patch)

    def fields(self, source: Source, white: Tensor) -> Tensor:  # (K, B, noises, H, W) -> (K, B, C, H, W)
        query = query_channels(source, self.spec, self.place).expand(len(white), -1, -1, -1, -1)
        inputs = torch.cat([white, query], dim=2).flatten(0, 1)
        return in_patches(self.generator, inputs, self.patch).unflatten(0, white.shape[:2])

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        source, target = pair.source, pair.target
        white = torch.randn(self.members, len(pair), self.noises, *self.spec.grid.shape, generator=generator).to(
            source.values
        )
        ensemble = self.fields(source, white)
        scales = [block_crps(ensemble, target.values, target.mask, b, self.alpha) for b in self.scales]
        return torch.stack(scales).mean()

    @torch.no_grad()
    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        return self.fields(source, noise((self.noises, *self.spec.grid.shape)))


def block_crps(
    ensemble: Tensor,  # (K, B, C, H, W)
    values: Tensor,  # (B, C, H, W), zeros off the mask
    mask: Tensor,  # (B, C, H, W) bool
    block: int,
    alpha: float,
) -> Tensor:
    """Almost fair CRPS of block means over observed targets, averaged over the blocks that hold one."""
    weight = mask.to(values.dtype)

    def block_sums(field: Tensor) -> Tensor:  # (N, C, H, W) -> (N, C, H / b, W / b)
        return F.avg_pool2d(field, block, ceil_mode=True, divisor_override=1)

    count = block_sums(weight)
    x = block_sums((ensemble * weight).flatten(0, 1)).unflatten(0, ensemble.shape[:2]) / count.clamp_min(1)
    y = block_sums(values) / count.clamp_min(1)
    K = len(ensemble)
    distance = (x - y).abs().mean(0)
    spread = (x[:, None] - x[None]).abs().sum((0, 1))
    each = distance - (alpha / (2 * K * (K - 1)) + (1 - alpha) / (2 * K**2)) * spread
    held = count > 0
    return each[held].sum() / held.sum().clamp_min(1)
