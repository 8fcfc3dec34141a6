"""OmniField: a neural field conditioned by latents that read the sensors in stages and refine each other.

Reference: Valencia et al., "OmniField: Conditioned neural fields for robust multimodal spatiotemporal
learning" (2026), with one modality, near the size of the paper's table (10.27 M).

    sensors   MLP(value, y, x) beside Gaussian Fourier features of (y, x)
    stage s   its own latents, started at sinusoidal codes, read the sensors; the feedback of stage s - 1 is
              added; self-attention and GEGLU give z_s; a trunk shared by all stages gives f_s
    feedback  Linear(mean of f_s over its latents) -> one vector for each latent of stage s + 1
    answer    Fourier features of the place and of the lead read the last f; GEGLU; a linear head

Where we depart from it: with one modality the cross-talk between modalities is the trunk's self-attention;
the reference's feedback projection of the first stage, never used, is left out, and token and lead widths
make up for it in the count; masked squared error; Fourier matrices are functions of their names; leads are
divided by a fixed horizon. `mask_channel` tells each sensor which of several variables it measured; with one
variable a sensor is its own mask and nothing is added. Covariates are features of sensors and of queries.
Learning rate: 8e-5 -> 8e-6 at the paper's size with warm-up, 2e-3 at laptop size.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fields import Source
from ..forecast import Spec
from ..nn.attention import Attention, SelfBlock, feed_forward
from ..nn.coords import HORIZON, GaussianFeatures, sinusoidal_codes
from .regression import PointRegression

PLACE_SCALE, LEAD_SCALE = (15.0, 10.0)  # of the Gaussian frequencies, in radians per unit: the reference's values


class OmniField(PointRegression):
    name = "omnifield"
    reference = (
        "Valencia et al., OmniField: Conditioned neural fields for robust multimodal spatiotemporal learning, ICLR 2026"
    )
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 16, "latents": 8, "token": 16, "waves": 8, "heads": (2, 2), "head_dim": 8, "trunk": 1},
        "laptop": {"width": 64, "latents": 32, "token": 64, "waves": 16, "heads": (2, 4), "head_dim": 32, "trunk": 2},
        "paper": {
            "width": 128,
            "latents": 128,
            "token": 192,
            "waves": 32,
            "heads": (4, 8),
            "head_dim": 128,
            "trunk": 3,
        },
    }

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        width: int = 128,  # of a latent
        latents: int = 128,  # per stage
        token: int = 192,  # width of a sensor's MLP
        waves: int = 32,  # Gaussian frequencies of place, and of lead
        heads: tuple[int, int] = (4, 8),  # of attention to sensors or latents, and among latents
        head_dim: int = 128,
        stages: int = 3,
        trunk: int = 3,  # self-attention blocks shared by all stages
    ):
        super().__init__(spec, mask_channel)
        query = 4 * waves + spec.covariates
        self.place = GaussianFeatures(f"{self.name} place", 2, waves, PLACE_SCALE)
        self.time = GaussianFeatures(f"{self.name} lead", 1, waves, LEAD_SCALE)
        self.token = nn.Sequential(nn.Linear(self.token_width + 2, token), nn.GELU(), nn.Linear(token, token))
        self.stages = nn.ModuleList(Stage(width, latents, token + 2 * waves, heads, head_dim) for _ in range(stages))
        self.feedback = nn.ModuleList(nn.Linear(width, latents * width) for _ in range(stages - 1))
        self.trunk = nn.Sequential(*(SelfBlock(width, heads[1], head_dim) for _ in range(trunk)))
        self.answer = Attention(query, heads[0], head_dim, context_dim=width)
        self.feed = feed_forward(query)
        self.head = nn.Linear(query, spec.channels)

    def forecast(
        self, source: Source, cells: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:  # (B, C, H, W)
        sensors, queries = self.tokens(source, cells)
        tokens = self.token(torch.cat([sensors.features, sensors.positions], dim=-1))
        tokens = torch.cat([tokens, self.place(sensors.positions)], dim=-1)  # (B, N, token + 2 waves)

        fused = self.trunk(self.stages[0](tokens, sensors.keys))  # (B, latents, width)
        for stage, project in zip(self.stages[1:], self.feedback, strict=True):
            feedback = project(fused.mean(1)).unflatten(-1, fused.shape[1:])
            fused = self.trunk(stage(tokens, sensors.keys, feedback))

        lead = self.time(source.lead[:, None, None].to(source.values.dtype) / HORIZON)  # (B, 1, 2 waves)
        lead = lead.expand(-1, queries.keys.shape[1], -1)
        z = torch.cat([self.place(queries.positions), lead, queries.features], dim=-1)
        z = z + self.answer(z, fused)
        z = z + self.feed(z)
        return queries.to_grid(self.head(z))


class Stage(nn.Module):
    """Latents that read the sensors, take in what the stage before found, and settle among themselves."""

    def __init__(self, width: int, latents: int, token: int, heads: tuple[int, int], head_dim: int):
        super().__init__()
        self.latents = nn.Parameter(sinusoidal_codes(latents, width))  # (latents, width)
        self.read = Attention(width, heads[0], head_dim, context_dim=token)
        self.settle = SelfBlock(width, heads[1], head_dim)

    def forward(
        self,
        tokens: Tensor,  # (B, N, token)
        keys: Tensor,  # (B, N) bool
        feedback: Tensor | None = None,  # (B, latents, width)
    ) -> Tensor:  # (B, latents, width)
        z = self.latents.repeat(tokens.shape[0], 1, 1)
        z = z + self.read(z, tokens, keys)
        if feedback is not None:
            z = z + feedback
        return self.settle(z)
