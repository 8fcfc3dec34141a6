"""DDO: denoising diffusion operators, with noise that is a random field and a U-Net of spectral convolutions.

Reference: Lim et al., "Score-based diffusion models in function space" (2023). In function space white noise
has no meaning as the grid is refined; the noise is a random field xi of trace-class covariance, and the
network, whose convolutions act on Fourier modes and whose resampling does not alias, an operator between
functions:

    z_tau = sqrt(alpha_bar) x_0 + sqrt(1 - alpha_bar) xi,    xi ~ N(0, C)
    xi_hat = FNO-U-Net([z_tau, X_c], tau)

Size: the release's network with 16 modes, 32 channels, levels of 1, 2, 4 times that: 11,103,617 parameters
with three input channels, 163 short of the paper's table.

The state in training. Filled with zeros off M_o (`state = "filled"`), z_tau = sigma xi there, and as a
neighbour's xi is nearly one's own, part of the noise can be read off unobserved cells, which does not carry
over to sampling: after 700 steps on a 32 x 32 flow the loss of the laptop size was 0.17, and 0.34 where that
is impossible. `state = "observed"` shows z_tau on M_o only, with a channel that says where, and everywhere
when sampling. `filled` is the default because it is the plain reading, the one `solid-paper` follows, with
the paper's count of inputs, and learned an easy world better (squared error 0.11 of climatology's, against
0.27); which is better on turbulence is not settled.

Where we depart from it: no blurring of x_0 (it would mix unknown cells into known ones); a Matern-like
spectrum instead of the squared exponential (`spectrum = "rbf"`), as the noise must not be smoother than the
data; norms without affine parameters, by the power of the kept modes; spectral weights start with unit gain;
the cosine schedule in 1000 steps and deterministic DDIM with 50. On an axis that ends, the field is extended
by `margin` cells, resampling reflects, and xi is made of cosines.
At the laptop size the network answers with the velocity, not the noise (denoising.py), which learns sooner.
Learning rate: 1e-3 at the laptop size, 1e-4 to 2e-4 in the reference for a hundred times as many steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SolidError
from ..fields import Source, restrict
from ..forecast import Spec
from ..grid import Grid
from ..nn.coords import unit_coordinates
from ..nn.filters import Boundary, kaiser_lowpass, resample, resample_matrix
from ..nn.layers import Axes, sinusoid
from ..nn.spectral import SpectralConv2d, clamp_modes, random_field, spectral_norm
from ..nn.style import padded_shape
from .denoising import FieldDenoising
from .regression import input_channels, input_width

GROUPS = 32  # of a norm, at most
TAPS = 9  # of the resampling filter on each side
STOPBAND = 2.0**0.3  # relative to its cutoff


class DDO(FieldDenoising):
    name = "ddo"
    reference = "Lim et al., Score-based diffusion models in function space, 2023"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"modes": 4, "width": 8, "multipliers": (1, 2), "steps": 5},
        "laptop": {"modes": 12, "width": 12, "multipliers": (1, 2, 2), "steps": 20, "predict": "velocity"},
        "paper": {},
    }
    mask_channel: bool

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        modes: int = 16,  # of the finest level; halved with the grid
        width: int = 32,
        multipliers: Sequence[int] = (1, 2, 4),
        blocks: int = 1,
        margin: int = 4,
        state: str = "filled",  # or "observed"
        spectrum: str = "matern",  # or "rbf"
        lengthscale: float = 0.05,  # of the noise, in lengths of the longer axis: the release's
        alpha: float = 2.5,  # decay of the Matern spectrum
        schedule: str = "cosine",
        sampler: str = "ddim",
        steps: int = 50,
        predict: str = "noise",  # or "velocity", which learns sooner
    ):
        if state not in ("filled", "observed"):
            raise SolidError(f"state '{state}' is unknown; choose filled or observed")
        gain = random_field(spectrum, lengthscale * max(spec.grid.shape), alpha)
        super().__init__(spec, gain, schedule, sampler, steps, predict)
        self.mask_channel, self.observed = mask_channel, state == "observed"
        inputs = spec.channels * (2 if self.observed else 1) + input_width(spec, mask_channel)
        self.net = FNOUNet(spec.grid, inputs, spec.channels, modes, width, multipliers, blocks, margin)

    def denoise(
        self, x_tau: Tensor, source: Source, tau: Tensor, known: Tensor | None = None
    ) -> Tensor:  # (B, C, H, W)
        inputs = [x_tau, input_channels(source, self.spec, self.mask_channel)]
        if self.observed:
            known = torch.ones_like(source.mask) if known is None else known
            inputs = [restrict(x_tau, known), *inputs[1:], known.to(x_tau.dtype)]
        return self.net(torch.cat(inputs, dim=1), tau)


class FNOUNet(nn.Module):
    """(B, inputs, H, W) and tau (B,) to (B, outputs, H, W)."""

    places: Tensor

    def __init__(
        self,
        grid: Grid,
        inputs: int,
        outputs: int,
        modes: int,
        width: int,
        multipliers: Sequence[int],
        blocks: int,
        margin: int,
    ):
        super().__init__()
        halvings = len(multipliers) - 1
        ends = [n if wraps else n + margin for n, wraps in zip(grid.shape, grid.periodic, strict=True)]
        self.shape = padded_shape((ends[0], ends[1]), halvings)
        self.width = width
        places = unit_coordinates(replace(grid, shape=self.shape, domain=None))
        self.register_buffer("places", places, persistent=False)  # (H, W, 2)
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.lift = nn.Conv2d(inputs + 2, width, 1)

        shapes = [(self.shape[0] // 2**level, self.shape[1] // 2**level) for level in range(halvings + 1)]
        kept = [clamp_modes(modes // 2**level, shape) for level, shape in enumerate(shapes)]
        channels, skips = width, [width]

        def block(outputs: int, level: int, skip: int = 0) -> SpectralBlock:
            nonlocal channels
            made = SpectralBlock(channels + skip, outputs, kept[level], 4 * width)
            channels = outputs
            return made

        self.down = nn.ModuleList()
        for level, multiplier in enumerate(multipliers):
            for _ in range(blocks):
                self.down.append(block(width * multiplier, level))
                skips.append(channels)
            if level < halvings:
                halved = Resample(channels, shapes[level], grid.periodic, kept[level + 1], up=1, down=2)
                self.down.append(halved)
                skips.append(channels)
        self.middle = nn.ModuleList([block(channels, halvings), block(channels, halvings)])
        self.up = nn.ModuleList()
        for level in reversed(range(halvings + 1)):
            for _ in range(blocks + 1):
                self.up.append(block(width * multipliers[level], level, skips.pop()))
            if level:
                self.up.append(Resample(channels, shapes[level], grid.periodic, kept[level], up=2, down=1))
        self.head = nn.Conv2d(channels, outputs, 1)

    def forward(self, x: Tensor, tau: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        x = F.pad(x, (0, self.shape[1] - width, 0, self.shape[0] - height))
        places = self.places.permute(2, 0, 1).expand(len(x), -1, -1, -1)
        embedding = self.embed(sinusoid(tau, self.width))
        skips = [self.lift(torch.cat([x, places], dim=1))]
        for part in self.down:
            skips.append(part(skips[-1], embedding))
        h = skips[-1]
        for part in self.middle:
            h = part(h, embedding)
        for part in self.up:
            h = part(torch.cat([h, skips.pop()], dim=1) if isinstance(part, SpectralBlock) else h, embedding)
        return self.head(F.silu(h))[..., :height, :width]


class SpectralBlock(nn.Module):
    """Norm, SiLU, spectral convolution, twice, with a scale and shift by tau between; plus the identity."""

    def __init__(self, inputs: int, outputs: int, modes: tuple[int, int], embedding: int):
        super().__init__()
        self.modes = modes
        self.groups = math.gcd(inputs, GROUPS), math.gcd(outputs, GROUPS)
        self.conv1 = SpectralConv2d(inputs, outputs, modes)
        self.time = nn.Linear(embedding, 2 * outputs)
        self.conv2 = SpectralConv2d(outputs, outputs, modes)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(
        self,
        x: Tensor,  # (B, inputs, H, W)
        embedding: Tensor,  # (B, E)
    ) -> Tensor:  # (B, outputs, H, W)
        h = self.conv1(F.silu(spectral_norm(x, self.modes, self.groups[0])))
        scale, shift = self.time(F.silu(embedding))[:, :, None, None].chunk(2, dim=1)
        h = spectral_norm(h, self.modes, self.groups[1]) * (1 + scale) + shift
        return self.conv2(F.silu(h)) + self.skip(x)


class Resample(nn.Module):
    """Halve or double the grid without aliasing, then a spectral convolution."""

    rows: Tensor
    columns: Tensor

    def __init__(
        self, channels: int, shape: tuple[int, int], periodic: Axes, modes: tuple[int, int], up: int, down: int
    ):
        super().__init__()
        # The coarser grid has rate 1 and holds frequencies up to 1/2.
        taps = kaiser_lowpass(2 * TAPS + 1, 0.5, STOPBAND - 1, 2.0)
        for name, size, wraps in zip(("rows", "columns"), shape, periodic, strict=True):
            boundary: Boundary = "wrap" if wraps else "reflect"
            matrix = resample_matrix(size, taps, up, down, (TAPS, TAPS), boundary)
            self.register_buffer(name, matrix, persistent=False)
        self.conv = SpectralConv2d(channels, channels, modes)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:  # (B, C, H, W) -> twice or half the grid
        return self.conv(resample(x, self.rows, self.columns))
