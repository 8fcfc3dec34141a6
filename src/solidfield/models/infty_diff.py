"""infinity-Diff: diffusion of functions, by a network that runs on any set of cells.

Reference: Bond-Taylor, Willcocks, "infinity-Diff: infinite resolution diffusion with subsampled mollified
states" (2024), without its autoencoder, in the size of the paper's table: 40,909,722 parameters. Noise is
mollified by a Gaussian blur T of one cell's width, so that states are continuous functions, and the network
predicts the mollified noise,

    x_tau = sqrt(alpha_bar) x_0 + sqrt(1 - alpha_bar) T eps,       eps_hat ~ T eps.

It reads the cells of a set: in training those of M_o (their noisy value) and of M_i (their reading), when
sampling all. Sparse operator blocks on the set, interpolation from the set to a regular grid, a convolutional
U-Net there, interpolation back, sparse blocks with skips (nn/points.py).

Where we depart from it: T x_0 mixes cells and is unknown when x_0 is known on M_o only, so the data are not
mollified (fields are taken as smooth enough), and no Wiener filter undoes it in the end; a cell of M_i
outside M_o has the noisy value 0; the blur wraps around periodic axes, as do sparse blocks and distances,
while the inner U-Net pads with zeros; nodes and cells are aligned so that the way to the grid and back is the
identity (the release mixes two conventions of coordinates); deterministic DDIM, 50 steps; Adam with the usual
betas (its second is 0.99 in the reference). A network trained on few cells samples on all of them: the
reference does the same with a quarter.
At the laptop size the network answers with the velocity, not the noise (denoising.py), which learns sooner.
Learning rate: 5e-4 at the laptop size, 1e-4 in the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..fields import Source, restrict
from ..forecast import Spec
from ..grid import Grid
from ..nn.layers import Dropout, sinusoid
from ..nn.points import Bridge, ChannelNorm, SparseBlock, depthwise, modulate
from ..nn.spectral import mollifier
from ..nn.style import padded_shape
from .denoising import FieldDenoising
from .regression import input_channels, input_width

HEAD = 32  # channels of an attention head
DEEP = 2  # attention and dropout from this level on: 16 x 16 of 64 x 64


class InftyDiff(FieldDenoising):
    name = "infty-diff"
    reference = "Bond-Taylor & Willcocks, infinity-Diff, ICLR 2024"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 8, "sparse_blocks": 1, "embedding": 16, "multipliers": (1, 2, 2), "blocks": 1, "steps": 5},
        "laptop": {
            "width": 12,
            "sparse_blocks": 2,
            "embedding": 64,
            "multipliers": (1, 2, 4),
            "blocks": 1,
            "steps": 20,
            "predict": "velocity",
        },
        "paper": {},
    }
    mask_channel: bool

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        width: int = 64,
        sparse_blocks: int = 3,  # before the grid, and as many after it
        kernel: int = 5,  # of the sparse operator
        neighbours: int = 3,
        embedding: int = 256,  # of tau
        multipliers: Sequence[int] = (1, 2, 4, 8),
        blocks: int = 2,
        dropout: float = 0.1,
        blur: float = 1.0,  # width of the mollifier in cells
        schedule: str = "cosine",
        sampler: str = "ddim",
        steps: int = 50,
        predict: str = "noise",  # or "velocity", which learns sooner
    ):
        super().__init__(spec, mollifier(blur), schedule, sampler, steps, predict)
        self.mask_channel = mask_channel
        self.net = PointUNet(
            spec.grid,
            spec.channels + input_width(spec, mask_channel),
            spec.channels,
            width,
            sparse_blocks,
            kernel,
            neighbours,
            embedding,
            multipliers,
            blocks,
            dropout,
        )

    def denoise(
        self, x_tau: Tensor, source: Source, tau: Tensor, known: Tensor | None = None
    ) -> Tensor:  # (B, C, H, W)
        if known is None:
            points = torch.ones_like(source.mask[:, :1])
        else:
            x_tau = restrict(x_tau, known)
            points = (known | source.mask).any(dim=1, keepdim=True)
        inputs = torch.cat([x_tau, input_channels(source, self.spec, self.mask_channel)], dim=1)
        return self.net(inputs, tau, points)


class PointUNet(nn.Module):
    """A network on a set of cells, its wide part on a regular grid between two interpolations."""

    def __init__(
        self,
        grid: Grid,
        inputs: int,
        outputs: int,
        width: int,
        sparse_blocks: int,
        kernel: int,
        neighbours: int,
        embedding: int,
        multipliers: Sequence[int],
        blocks: int,
        dropout: float,
    ):
        super().__init__()
        self.embedding = embedding
        self.embed = nn.Sequential(nn.Linear(embedding, embedding), nn.GELU(), nn.Linear(embedding, embedding))
        self.lift = nn.Conv2d(inputs, width, 1)
        # How many cells of the set are near; fixed, and counted with the weights as in the reference.
        self.box = nn.Parameter(torch.full((1, 1, kernel, kernel), 1.0 / kernel**2), requires_grad=False)
        self.periodic, self.kernel = grid.periodic, kernel
        self.before = nn.ModuleList(
            SparseBlock(width, 0, kernel, embedding, grid.periodic) for _ in range(sparse_blocks)
        )
        self.to_grid = nn.Conv2d(width, width, 1)
        self.bridge = Bridge(grid, padded_shape(grid.shape, len(multipliers) - 1), neighbours)
        self.unet = GridUNet(width, multipliers, blocks, embedding, dropout)
        self.from_grid = nn.Conv2d(width, width, 1)
        self.after = nn.ModuleList(
            SparseBlock(width, width, kernel, embedding, grid.periodic) for _ in range(sparse_blocks)
        )
        self.head = nn.Conv2d(width, outputs, 1)

    def forward(
        self,
        x: Tensor,  # (B, inputs, H, W), read on the set only
        tau: Tensor,  # (B,)
        points: Tensor,  # (B, 1, H, W) bool, the set
    ) -> Tensor:  # (B, outputs, H, W), meant on the set
        embedding = self.embed(sinusoid(tau, self.embedding))
        m = points.to(x.dtype)
        density = depthwise(m, self.box, self.periodic).clamp(min=1.0 / self.kernel**2)
        x = self.lift(x)
        skips = []
        for block in self.before:
            x = block(x, embedding, m, density)
            skips.append(x)
        x = self.bridge.gather(self.to_grid(x), points)
        x = self.unet(x, embedding)
        x = self.from_grid(self.bridge.spread(x))
        for block in self.after:
            x = block(torch.cat([x, skips.pop()], dim=1), embedding, m, density)
        return self.head(x)


class GridUNet(nn.Module):
    """The convolutional U-Net on the regular grid, with attention and dropout in its deep levels."""

    def __init__(self, width: int, multipliers: Sequence[int], blocks: int, embedding: int, dropout: float):
        super().__init__()
        widths = [width, *(width * m for m in multipliers)]
        levels = list(pairwise(widths))
        last = len(levels) - 1

        def step(inputs: int, outputs: int, level: int) -> GridStep:
            deep = level >= DEEP
            return GridStep(inputs, outputs, embedding, dropout if deep else 0.0, attend=deep)

        self.blocks = blocks
        self.lift = nn.Conv2d(width, width, 1)
        self.down, self.narrow = nn.ModuleList(), nn.ModuleList()
        for level, (inner, outer) in enumerate(levels):
            self.down.extend(step(inner, inner, level) for _ in range(blocks))
            self.narrow.append(nn.Conv2d(inner, outer, 3, stride=1 if level == last else 2, padding=1))
        bottom = widths[-1]
        self.middle = nn.ModuleList(
            [
                GridStep(bottom, bottom, embedding, dropout, attend=True),
                GridStep(bottom, bottom, embedding, dropout, attend=False),
            ]
        )
        self.up, self.widen = nn.ModuleList(), nn.ModuleList()
        for level, (inner, outer) in reversed(list(enumerate(levels))):
            self.up.extend(step(outer + inner, outer, level) for _ in range(blocks))
            grow = nn.ConvTranspose2d(outer, inner, 4, stride=2, padding=1)
            self.widen.append(grow if level else nn.Conv2d(outer, inner, 3, padding=1))
        self.head = nn.Sequential(nn.Conv2d(width, 128, 1), nn.GELU(), nn.Conv2d(128, width, 1))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:  # (B, width, G, G') -> the same
        x = self.lift(x)
        skips = []
        for level, narrow in enumerate(self.narrow):
            for step in self.down[level * self.blocks : (level + 1) * self.blocks]:
                x = step(x, embedding)
                skips.append(x)
            x = narrow(x)
        for step in self.middle:
            x = step(x, embedding)
        for level, widen in enumerate(self.widen):  # from the coarsest
            for step in self.up[level * self.blocks : (level + 1) * self.blocks]:
                x = step(torch.cat([x, skips.pop()], dim=1), embedding)
            x = widen(x)
        return self.head(x)


class GridStep(nn.Module):
    """Norm, GELU, convolution, twice, with a scale and shift by tau between; then attention or not."""

    def __init__(self, inputs: int, outputs: int, embedding: int, dropout: float, attend: bool):
        super().__init__()
        self.norm1, self.norm2 = ChannelNorm(inputs), ChannelNorm(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(embedding, 2 * outputs)
        self.drop = Dropout(dropout)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        self.attention = SelfAttention(outputs) if attend else nn.Identity()

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:  # (B, inputs, G, G') -> (B, outputs, G, G')
        h = self.conv1(F.gelu(self.norm1(x)))
        h = F.gelu(modulate(self.norm2(h), self.time, embedding))
        return self.attention(self.conv2(self.drop(h)) + self.skip(x))


class SelfAttention(nn.Module):
    """x + out(softmax(q k' / sqrt(d)) v) over all cells, in heads of 32 channels, at least 4 of them."""

    def __init__(self, width: int):
        super().__init__()
        self.heads = max(width // HEAD, 4)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * self.heads * HEAD)
        self.out = nn.Linear(self.heads * HEAD, width)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, G, G') -> the same
        tokens = self.norm(x.flatten(2).transpose(1, 2))  # (B, N, C)
        parts = self.qkv(tokens).unflatten(2, (3, self.heads, HEAD))
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each (B, heads, N, HEAD)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(mixed).transpose(1, 2).unflatten(2, x.shape[-2:])
