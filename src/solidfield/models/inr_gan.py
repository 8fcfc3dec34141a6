"""INR-GAN: a field as a function of the coordinate, its layers modulated by a hypernetwork.

Reference: Skorokhodov, Ignatyev, Elhoseiny, "Adversarial generation of continuous images" (2021). There is no
spatial convolution: every cell is one pass of a small MLP through its coordinates, whose weights depend on
the style w,

    W'(w) = W * (1 + A(w) B(w) / sqrt(r)),   rows of W' scaled to unit length

(factorised multiplicative modulation), with W (o x i) shared and A (o x r), B (r x i) from a dense layer of
w. To spare work the first layers run on a coarser grid of cells (multi-scale INR): features go to the next
grid by nearest neighbour, where coordinates are embedded anew; each grid adds its part to the field. A
coordinate is embedded by sines and cosines at the frequencies 2^k along both axes and both diagonals, and by
a learned constant per cell.

Where we depart from it: the condition is a vector of a convolutional encoder, joined to the latent (the paper
does not say how it conditioned it); supervision is the masked game of `adversarial.py`; a grid may have any
size, the coarser ones are its halves rounded up; `spatial` appends the encoder's features, sampled bilinearly
at the coordinate, to its embedding (off in the paper's size). Frequencies are whole numbers of periods of the
grid, so on a periodic axis the sines already agree at the seam; only the learned constants know of an edge.
Size: four modulated layers of width 512 and rank 10, the discriminator of StyleGAN2, and an encoder that
brings the sum near the paper's 55.3 M. Learning rate: about 2e-3 for both sides, thanks to equalised weights
(2.5e-3 in the reference).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..forecast import Spec
from ..nn.filters import leaky
from ..nn.style import EqualLinear, Mapping
from .adversarial import Adversarial


class INRGAN(Adversarial):
    name = "inr-gan"
    reference = "Skorokhodov et al., Adversarial generation of continuous images, CVPR 2021"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 12, "rank": 2, "style": 16, "constants": 4, "encoder": (8, 8, 16), "judge": 8},
        "laptop": {
            "width": 64,
            "rank": 4,
            "style": 64,
            "constants": 16,
            "encoder": (16, 32, 64, 64),
            "judge": 32,
            "spatial": True,
            "gamma": 1.0,
            "beta": 1.0,
        },
        "paper": {},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        width: int = 512,
        rank: int = 10,
        style: int = 512,  # size of z, c and w
        scales: int = 2,  # grids of cells: 32 and 64 for the paper's 64
        layers: int = 2,  # modulated layers on each grid
        constants: int = 128,  # learned numbers per cell and grid
        encoder: Sequence[int] = (40, 80, 160, 320, 320),
        judge: int = 512,
        spatial: bool = False,
        gamma: float = 10.0,  # R1, the reference's
        beta: float = 0.0,  # weight of the masked L1
    ):
        super().__init__(spec, mask_channel, style, encoder, judge, gamma, beta)
        maps = tuple(encoder) if spatial else ()
        self.generator = Generator(spec, width, rank, style, scales, layers, constants, maps)


class Generator(nn.Module):
    """z, c (and the encoder's maps) to a field."""

    def __init__(
        self,
        spec: Spec,
        width: int,
        rank: int,
        style: int,
        scales: int,
        layers: int,
        constants: int,
        maps: Sequence[int],
    ):
        super().__init__()
        self.shape = spec.grid.shape
        self.mapping = Mapping(style)
        stages, inputs = [], 0
        for scale in reversed(range(scales)):
            stages.append(Stage(spec, scale, inputs, width, rank, style, layers, constants, maps))
            inputs = width
        self.stages = nn.ModuleList(stages)

    def forward(
        self,
        z: Tensor,  # (B, Z)
        c: Tensor,  # (B, condition)
        features: Sequence[Tensor],  # the encoder's levels
    ) -> Tensor:  # (B, C, H, W)
        w = self.mapping(z, c)
        x = field = None
        for stage in self.stages:
            x, part = stage(x, w, features)
            field = part if field is None else part + enlarge(field, part.shape)
        assert field is not None  # there is at least one stage
        return field


class Stage(nn.Module):
    """The layers that run on one grid of cells."""

    waves: Tensor

    def __init__(
        self,
        spec: Spec,
        scale: int,  # 0 is the field's own grid, 1 its half, ...
        inputs: int,
        width: int,
        rank: int,
        style: int,
        layers: int,
        constants: int,
        maps: Sequence[int],
    ):
        super().__init__()
        height, columns = (-(-n // 2**scale) for n in spec.grid.shape)
        self.shape, self.scale = (height, columns), scale
        waves = log_waves(height, columns)
        self.register_buffer("waves", waves, persistent=False)  # (F, h, w)
        self.constants = nn.Parameter(torch.randn(constants, height, columns))
        self.levels = [level for level in range(len(maps)) if level >= scale]
        self.local = nn.ModuleList(nn.Conv2d(maps[level], width, 1) for level in self.levels)
        embedded = waves.shape[0] + constants + (width if self.local else 0)
        sizes = [inputs + embedded] + [width] * layers
        self.layers = nn.ModuleList(FMM(i, o, rank, style) for i, o in pairwise(sizes))
        self.affine = EqualLinear(style, width, bias=1.0)
        self.head = nn.Parameter(torch.randn(spec.channels, width))
        self.bias = nn.Parameter(torch.zeros(spec.channels, 1))

    def forward(
        self,
        x: Tensor | None,  # (B, width, h / 2, w / 2) of the coarser grid
        w: Tensor,  # (B, style)
        features: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor]:  # (B, width, h, w), (B, C, h, w)
        embedding = torch.cat([self.waves, self.constants]).expand(len(w), -1, -1, -1)
        parts = [embedding] if x is None else [enlarge(x, self.shape), embedding]
        if self.local:
            pairs = zip(self.local, self.levels, strict=True)
            parts.append(sum((self._at(project(features[level]), level) for project, level in pairs), torch.zeros(())))
        h = torch.cat(parts, dim=1).flatten(2)  # (B, i, cells)
        for layer in self.layers:
            h = leaky(layer(h, w))
        shaded = h * self.affine(w)[:, :, None]
        field = torch.einsum("ci,bin->bcn", self.head / math.sqrt(self.head.shape[1]), shaded) + self.bias
        return h.unflatten(2, self.shape), field.unflatten(2, self.shape)

    def _at(self, features: Tensor, level: int) -> Tensor:  # (B, width, h, w)
        """A coarser map at the cells of this grid; what the encoder padded is cropped."""
        ratio = 2 ** (level - self.scale)
        fine = F.interpolate(features, scale_factor=ratio, mode="bilinear", align_corners=False)
        return fine[..., : self.shape[0], : self.shape[1]]


class FMM(nn.Module):
    """A dense layer per cell with factorised multiplicative modulation of its weights."""

    def __init__(self, inputs: int, outputs: int, rank: int, style: int):
        super().__init__()
        self.rank = rank
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs, 1))
        self.hyper = EqualLinear(style, (inputs + outputs) * rank)

    def modulated(self, w: Tensor) -> Tensor:  # (B, style) -> (B, o, i)
        """W'(w) of the equation above."""
        outputs, inputs = self.weight.shape
        a, b = self.hyper(w).split([outputs * self.rank, self.rank * inputs], dim=1)
        a, b = a.unflatten(1, (outputs, self.rank)), b.unflatten(1, (self.rank, inputs))
        weight = self.weight * (1 + a @ b / math.sqrt(self.rank))
        return weight * (weight.square().sum(dim=2, keepdim=True) + 1e-8).rsqrt()

    def forward(
        self,
        x: Tensor,  # (B, i, cells)
        w: Tensor,  # (B, style)
    ) -> Tensor:  # (B, o, cells)
        return self.modulated(w) @ x + self.bias


def enlarge(x: Tensor, shape: Sequence[int]) -> Tensor:  # (B, C, h, w) -> (B, C, H, W), shape (..., H, W)
    """Nearest neighbour, cropped where the finer grid is odd."""
    twice = x.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    return twice[..., : shape[-2], : shape[-1]]


def log_waves(height: int, width: int) -> Tensor:  # (F, H, W)
    """sin and cos of pi 2^k p along y, x and both diagonals, p in [-1, 1), k up to the grid's limit."""
    y = (2 * torch.arange(height) / height - 1)[:, None].expand(height, width)
    x = (2 * torch.arange(width) / width - 1)[None, :].expand(height, width)
    octaves = max(1, math.ceil(math.log2(max(height, width))))
    rates = math.pi * 2.0 ** torch.arange(octaves)  # (k,)
    directions = torch.stack([y, x, y + x, y - x])  # (4, H, W)
    angles = (rates[:, None, None, None] * directions).flatten(0, 1)
    return torch.cat([angles.sin(), angles.cos()])
