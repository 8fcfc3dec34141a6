"""`solid`: an encoder, a law per cell, and a copula; the strict form of the paper's idea, and the default model.

    f     = UNet([X_c, M_i, lead, coordinates, covariates])      once per query; knows nothing of tau or of members
    x(p)  = Q(z(p); f_p)                                         a law per cell (`laws.py`), learned on M_o alone
    z     ~ copula(f, M_i)                                       latent fields with N(0, 1) marginals (`copula.py`)

Reference: SOLID (Valencia et al. 2026) for the task and the dual-masked objective. Departures, and why:
- the paper's denoiser reads x_tau at every cell, which is unknown off M_o; ours reads it at its own cell only, so
  training and sampling meet the same distribution and nothing leaks (docs/heart.md measures what the alternatives
  cost);
- the expensive network does not see tau and runs once per query, not fifty times per member;
- at lead 0 the reading of a sensor is known: it is supervised, and pinned in every member (within `obs_std` of it
  where the readings have an error).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..copula import Latents, channel_mixing, make_copula
from ..errors import SolidError
from ..fields import Pair, Source
from ..forecast import Forecaster, Spec
from ..laws import LAWS, interpolate
from ..nn.unet import UNet
from ..noise import Noise
from .queries import coordinate_channels, in_patches, query_channels, query_width


class Solid(Forecaster):
    name = "solid"
    family = "distribution"
    reference = "this project, after SOLID (Valencia et al. 2026)"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"base": 8, "multipliers": (1, 2), "blocks": 1, "attention_levels": (), "features": 16},
        "laptop": {
            "base": 32,
            "multipliers": (1, 2),
            "blocks": 1,
            "attention_levels": (),
            "features": 32,
            "patch": 2,
        },
        "paper": {
            "base": 64,
            "multipliers": (1, 2, 2, 2),
            "blocks": 2,
            "attention_levels": (2,),
            "features": 64,
        },
    }

    def __init__(
        self,
        spec: Spec,
        *,
        base: int = 32,
        multipliers: tuple[int, ...] = (1, 2),
        blocks: int = 1,
        attention_levels: tuple[int, ...] = (),
        features: int = 32,
        patch: int = 1,  # cells along the side of a block that the encoder sees as one, with its cells as channels
        dropout: float = 0.1,
        law: str = "mixture",
        law_options: dict[str, Any] | None = None,
        copula: str = "conditioned",
        coordinates: bool = True,
        lam: float = 0.05,  # the paper's overlap weight, from the range it recommends
        obs_std: float = 0.0,  # error of a reading, in standardised units; 0 pins readings exactly
    ):
        super().__init__(spec)
        if law not in LAWS:
            raise SolidError(f"unknown law '{law}'; choose one of {', '.join(LAWS)}")
        self.lam, self.obs_std, self.patch = lam, obs_std, patch
        place = coordinate_channels(spec.grid) if coordinates else torch.zeros(0, *spec.grid.shape)
        self.register_buffer("place", place, persistent=False)
        self.place: Tensor
        self.encoder = UNet(
            query_width(spec, place) * patch**2,
            features * patch**2,
            base=base,
            multipliers=multipliers,
            blocks=blocks,
            attention_levels=attention_levels,
            dropout=dropout,
            time=False,
            periodic=spec.grid.periodic,
        )
        self.activate = nn.SiLU()
        self.law = LAWS[law](features, spec.channels, **(law_options or {}))
        self.copula = make_copula(copula, spec.grid, spec.channels, features).requires_grad_(False)

    def encode(self, source: Source) -> Tensor:  # (B, F, H, W)
        return self.activate(in_patches(self.encoder, query_channels(source, self.place), self.patch))

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        source, target = pair.source, pair.target
        known = source.mask & (source.lead == 0)[:, None, None, None]  # a sensor's reading is also a target now
        mask = target.mask | known
        values = torch.where(target.mask, target.values, source.values)
        b, c, y, x = mask.nonzero(as_tuple=True)
        features = self.encode(source).movedim(1, -1)[b, y, x]  # (P, F)
        each = self.law.loss(features, values[b, c, y, x], c, generator)
        overlap = 1 + self.lam * (source.mask & target.mask)[b, c, y, x]
        count = mask.flatten(1).sum(1).clamp_min(1)[b]  # per example |M_o|_1, then the mean over examples
        return (each * overlap / count).sum() / len(pair)

    @torch.no_grad()
    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        features = self.encode(source)
        z = self.copula(source, features, noise)  # (K, B, C, H, W)
        table = self.law.table(features.movedim(1, -1).flatten(0, 2))  # (B * H * W, C, nodes)
        flat = z.movedim(2, -1).flatten(1, 3)  # (K, B * H * W, C)
        fields = interpolate(table, flat).unflatten(1, (len(source), *self.spec.grid.shape)).movedim(-1, 2)
        pinned = source.mask & (source.lead == 0)[:, None, None, None]
        return torch.where(pinned, source.values + self.obs_std * z, fields)

    def conclude(self, held_out: Iterable[Pair]) -> None:
        """Fit the copula to the latents of the observed targets of held-out examples."""
        examples: list[Latents] = []
        together: list[Tensor] = []
        with torch.no_grad():
            for pair in held_out:
                features = self.encode(pair.source).movedim(1, -1)  # (B, H, W, F)
                mask = pair.target.mask & ~(pair.source.mask & (pair.source.lead == 0)[:, None, None, None])
                b, c, y, x = mask.nonzero(as_tuple=True)
                z = torch.zeros_like(pair.target.values)
                z[b, c, y, x] = self.law.latent(features[b, y, x], pair.target.values[b, c, y, x], c)
                together.append(z.movedim(1, -1)[mask.all(1)])
                for row in range(len(pair)):
                    for channel in range(self.spec.channels):
                        cells = mask[row, channel].flatten().nonzero()[:, 0]
                        examples.append(
                            Latents(
                                z[row, channel].flatten()[cells],
                                cells,
                                pair.source.mask[row, channel].flatten().nonzero()[:, 0],
                                features[row].flatten(0, 1)[cells],
                                float(pair.source.lead[row]),
                            )
                        )
        self.copula.requires_grad_(True)
        self.copula.fit(examples)
        self.copula.requires_grad_(False)
        self.copula.mixing.copy_(channel_mixing(together))
