"""`solid-paper`: the paper's network, objective and sampler.

    eps_hat = UNet([x_tau, X_c, M_i], tau),   T = 1000,   DDIM with 50 steps

Reference: the SOLID paper, section "SOLID" and its table of hyper-parameters. At the size `paper` the network
has exactly the table's 8,950,913 parameters; `paper-large` is the text's 36 M.

What differs. The paper noises the dense field U^{t_o}; here x_0 is the target on M_o and zero elsewhere
unless `oracle` is asked for (see denoising.py). M_i is one channel per variable, covariates are further
channels. At the size `laptop` the network sees blocks of cells and answers with the velocity (denoising.py),
since after minutes on one core the members of the other form are still far too wide. The last
layer starts at zero, so that training starts from an answer of 0. The lead is not an input, as in the paper:
train one model per lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import SolidError
from ..fields import Source
from ..forecast import Spec
from ..nn.unet import UNet
from .denoising import Denoising
from .queries import check_fill, coordinate_channels, earlier_channels, earlier_width, in_patches, readings, silence
from .regression import known_channels


class SolidPaper(Denoising):
    name = "solid-paper"
    reference = "SOLID: sparse-conditioned denoising diffusion with a dual-masked objective"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"base": 16, "multipliers": (1, 2), "blocks": 1, "attention_levels": (), "steps": 10},
        "laptop": {
            "base": 32,
            "multipliers": (1, 2),
            "blocks": 1,
            "attention_levels": (),
            "patch": 2,
            "predict": "velocity",
        },
        "paper": {"base": 64, "multipliers": (1, 2, 2, 2), "blocks": 2},
        "paper-large": {"base": 128, "multipliers": (1, 2, 2, 2), "blocks": 2},
    }

    def __init__(
        self,
        spec: Spec,
        base: int = 64,
        multipliers: Sequence[int] = (1, 2, 2, 2),
        blocks: int = 2,
        attention_levels: Sequence[int] = (2,),
        patch: int = 1,  # cells along the side of a block that the network sees as one; the paper's sees cells
        dropout: float = 0.1,  # the paper's table
        periodic: bool | str = False,  # False: zeros beyond the edge, as in the paper; "auto": wrap periodic axes
        coordinates: bool = False,  # tell the network where a cell is; the paper does not
        schedule: str = "linear",  # DDPM's, which the paper follows
        sampler: str = "ddim",
        steps: int = 50,
        temper: bool = False,  # correct the sampler's error of spread by its temperature; the paper does not
        predict: str = "noise",  # as the paper; "velocity" learns sooner
        clip: float = 5.0,  # hold data predictions within so many standard deviations, as the family does
        lam: float = 0.05,  # the paper's range is 0.05 to 0.1
        fill: str = "none",  # densify X_c first: "nearest", "idw" or "rbf", the strategies of the paper's ablation
        oracle: bool = False,  # train on dense truth, labelled as leaking
    ):
        super().__init__(spec, schedule, sampler, steps, lam, oracle, temper, predict, clip)
        if periodic not in (False, "auto"):
            raise SolidError(f"periodic={periodic!r}: choose false (zeros beyond the edge) or 'auto' (the grid's axes)")
        self.patch, self.fill = patch, check_fill(fill)
        place = coordinate_channels(spec, coordinates)
        self.register_buffer("place", place, persistent=False)
        self.place: Tensor
        width = 3 * spec.channels + spec.covariates + earlier_width(spec)
        self.net = UNet(
            in_channels=(width + len(place)) * patch**2,
            out_channels=spec.channels * patch**2,
            base=base,
            multipliers=multipliers,
            blocks=blocks,
            attention_levels=attention_levels,
            dropout=dropout,
            periodic=spec.grid.periodic if periodic else (False, False),
        )
        silence(self.net.stem, width, len(place), patch)
        for p in self.net.head.parameters():
            nn.init.zeros_(p)

    def denoise(
        self,
        x_tau: Tensor,  # (B, C, H, W)
        source: Source,
        tau: Tensor,  # (B,)
        known: Tensor | None = None,  # of no use: white noise tells nothing of a neighbour's
    ) -> Tensor:  # (B, C, H, W)
        x_c, m_i = readings(source, self.fill, self.spec.grid), source.mask.to(x_tau.dtype)
        place = self.place.to(x_tau).expand(len(x_tau), -1, -1, -1)
        told = torch.cat([known_channels(source, self.spec), earlier_channels(source, self.spec)], dim=1)
        inputs = torch.cat([x_tau, x_c, m_i, told, place], dim=1)
        return in_patches(lambda patches: self.net(patches, tau), inputs, self.patch)
