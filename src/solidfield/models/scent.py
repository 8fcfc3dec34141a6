"""SCENT: sensors carried into a fixed set of latents at the target time, and read out anywhere.

Reference: Park et al., "SCENT: Robust spatiotemporal learning for continuous scientific data via scalable
conditioned neural fields" (2025), near the size of the paper's table (28.99 M).

    tokens    frozen linear code of the values beside learned codes (dyadic features, MLP) of place and lead
    context   sparse self-attention among sensors: each reads a few others, drawn at random
    encoder   learnable latents read the tokens; GEGLU
    warp      a stack of self-attention blocks on the latents, from the time of the readings to the lead
    answer    codes of place and lead read the latents, without a residual; GEGLU with one; a linear head

In training the cost is linear in sensors and in queries.

Where we depart from it (no code of the authors' full model is public; widths and the core follow their
reduced one): one context layer, narrow enough to stay near the published count; the sensors each one reads
are drawn with replacement, in training only: in prediction every sensor reads all, so that an answer depends
on nothing random nor on the order of the sensors; seven bands for place (up to 64 pi, the Nyquist wave of 64
cells) where the reduced model's sixteen or more code what no cell can show; time is the lead alone, divided
by a fixed horizon; masked squared error. `mask_channel` tells each sensor which of several variables it
measured; with one variable a sensor is its own mask and nothing is added. Covariates are features of sensors
and of queries.
Learning rate: 1e-4 at the paper's size, 1e-3 at laptop size, cosine.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fields import Source
from ..forecast import Spec
from ..nn.attention import Attention, SelfBlock, feed_forward
from ..nn.coords import HORIZON, dyadic_features
from ..nn.tokens import Tokens
from .regression import PointRegression

LATENT_SCALE = 1.0  # of the latents at the start: small ones drown in the first reading and become all alike


class Scent(PointRegression):
    name = "scent"
    reference = (
        "Park et al., SCENT: Robust spatiotemporal learning for continuous scientific data via scalable "
        "conditioned neural fields, ICML 2025"
    )
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 16, "latents": 8, "layers": 2, "heads": 2, "head_dim": 8, "codes": (8, 4, 4), "reads": 4},
        "laptop": {"width": 96, "latents": 48, "layers": 3, "heads": 3, "head_dim": 32, "codes": (64, 16, 16)},
        "paper": {"width": 512, "latents": 192, "layers": 6, "heads": 8, "head_dim": 64, "codes": (96, 32, 64)},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        width: int = 512,  # of a latent
        latents: int = 192,
        layers: int = 6,  # of the warp
        heads: int = 8,
        head_dim: int = 64,
        codes: tuple[int, int, int] = (96, 32, 64),  # widths of the codes of place, lead and values
        context_layers: int = 1,
        reads: int = 32,  # sensors that each sensor reads in training
        bands: int = 7,
    ):
        super().__init__(spec, mask_channel)
        self.reads, self.bands = reads, bands
        place, time, value = codes
        token, query = place + time + value, place + time + spec.covariates
        self.place = nn.Sequential(nn.Linear(4 * bands, place), nn.GELU(), nn.Linear(place, place))
        self.time = nn.Sequential(nn.Linear(2 * bands, time), nn.GELU(), nn.Linear(time, time))
        self.value = nn.Linear(self.token_width, value).requires_grad_(False)
        self.context = nn.ModuleList(SelfBlock(token, 1, head_dim, factor=1) for _ in range(context_layers))
        self.latents = nn.Parameter(LATENT_SCALE * torch.randn(latents, width))
        self.read = Attention(width, 1, head_dim, context_dim=token)
        self.feed = feed_forward(width)
        self.warp = nn.Sequential(*(SelfBlock(width, heads, head_dim) for _ in range(layers)))
        self.answer = Attention(query, 1, head_dim, context_dim=width)
        self.answer_feed = feed_forward(query)
        self.head = nn.Linear(query, spec.channels)

    def forecast(
        self, source: Source, cells: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:  # (B, C, H, W)
        sensors, queries = self.tokens(source, cells)
        lead = source.lead[:, None, None].to(source.values.dtype) / HORIZON  # (B, 1, 1)

        tokens = torch.cat([*self.codes(sensors, lead), self.value(sensors.features)], dim=-1)  # (B, N, token)
        choice = random_reads(sensors, self.reads, generator)
        for layer in self.context:
            tokens = layer(tokens, sensors.keys, choice)

        z = self.latents.repeat(len(source), 1, 1)  # (B, latents, width)
        z = z + self.read(z, tokens, sensors.keys)
        z = z + self.feed(z)
        z = self.warp(z)

        asked = torch.cat([*self.codes(queries, lead), queries.features], dim=-1)  # (B, N_q, query)
        u = self.answer(asked, z)
        u = u + self.answer_feed(u)
        return queries.to_grid(self.head(u))

    def codes(self, tokens: Tokens, lead: Tensor) -> tuple[Tensor, Tensor]:
        """Codes of place and of lead, (B, N, place) and (B, N, time)."""
        place = self.place(dyadic_features(tokens.positions, self.bands))
        time = self.time(dyadic_features(lead, self.bands))
        return place, time.expand(-1, place.shape[1], -1)


def random_reads(sensors: Tokens, reads: int, generator: torch.Generator | None) -> Tensor | None:  # (B, N, S)
    """The real tokens that each slot reads, drawn with replacement; None: all, if few or not training."""
    slots = sensors.keys.shape[1]
    if generator is None or slots <= reads:
        return None
    draw = torch.rand(*sensors.keys.shape, reads, generator=generator).to(sensors.positions.device)
    count = sensors.count.clamp(min=1)[:, None, None]  # real tokens come first
    return (draw * count).long().clamp(max=count - 1)
