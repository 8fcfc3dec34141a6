"""The UNet of the paper: f_theta([x_tau, X_c, M_i], tau) on any grid, of the improved-diffusion family.

A level is `blocks` residual blocks, with attention after each where the level is named in `attention_levels`;
between levels the grid is halved by a strided convolution. The way up has one block more per level, and each
block also reads the output of its mirror image on the way down. With 3 channels in, 1 out and the defaults it
has exactly 8,950,913 parameters and is, weight for weight, `diffusers.UNet2DModel` (tests/test_unet.py).

What differs from that model: a grid whose sides are not multiples of 2^(levels - 1) is padded inside and
cropped; axes may be periodic; without tau (`time=False`) it is an encoder; narrow networks have fewer norm
groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SolidError
from .layers import Attention, Axes, Conv3, ResBlock, Up, group_norm, sinusoid


class UNet(nn.Module):
    """(B, in_channels, H, W), and tau (B,) when `time`, to (B, out_channels, H, W)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        base: int = 64,
        multipliers: Sequence[int] = (1, 2, 2, 2),  # width of each level in units of `base`
        blocks: int = 2,
        attention_levels: Sequence[int] = (2,),  # level 2 is the grid coarsened by 4: the paper's 16 x 16
        dropout: float = 0.1,
        time: bool = True,
        periodic: Axes = (False, False),
        head_dim: int = 8,
        groups: int = 32,  # at most; see layers.group_norm
    ):
        super().__init__()
        if base < 2 or base % 2 or not multipliers or blocks < 1:
            raise SolidError(f"a UNet needs an even base and at least one level and block, got base {base}")
        if any(not 0 <= level < len(multipliers) for level in attention_levels):
            raise SolidError(f"attention_levels {list(attention_levels)} must be among 0..{len(multipliers) - 1}")
        self.base, self.periodic, self.multiple = base, periodic, 2 ** (len(multipliers) - 1)
        embedding = 4 * base if time else None
        widths = [base * m for m in multipliers]

        def block(inputs: int, outputs: int) -> ResBlock:
            return ResBlock(inputs, outputs, embedding, dropout, periodic, groups)

        def attend(level: int, channels: int) -> nn.Module | None:
            return Attention(channels, head_dim, groups) if level in attention_levels else None

        self.embed: nn.Sequential | None = None
        if embedding is not None:
            self.embed = nn.Sequential(nn.Linear(base, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.stem = Conv3(in_channels, base, periodic)

        width = base
        skips = [base]  # channels of everything the way up will read
        self.down = nn.ModuleList()
        for level, outputs in enumerate(widths):
            steps = nn.ModuleList()
            for _ in range(blocks):
                steps.append(Step(block(width, outputs), attend(level, outputs)))
                width = outputs
                skips.append(width)
            last = level == len(widths) - 1
            self.down.append(Descent(steps, None if last else Conv3(width, width, periodic, stride=2)))
            if not last:
                skips.append(width)

        self.middle = nn.ModuleList(
            [Step(block(width, width), Attention(width, head_dim, groups)), Step(block(width, width), None)]
        )

        self.up = nn.ModuleList()
        for level, outputs in reversed(list(enumerate(widths))):
            steps = nn.ModuleList()
            for _ in range(blocks + 1):
                steps.append(Step(block(width + skips.pop(), outputs), attend(level, outputs)))
                width = outputs
            self.up.append(Ascent(steps, Up(width, periodic) if level else None))

        self.norm = group_norm(width, groups)
        self.head = Conv3(width, out_channels, periodic)

    def forward(
        self,
        x: Tensor,  # (B, in_channels, H, W)
        tau: Tensor | None = None,  # (B,) diffusion time, or any other number to condition on; only if `time`
    ) -> Tensor:  # (B, out_channels, H, W)
        if (tau is None) != (self.embed is None):
            raise SolidError("a UNet with time=True needs tau, and one with time=False takes none")
        embedding = None
        if self.embed is not None and tau is not None:
            embedding = F.silu(self.embed(sinusoid(tau, self.base).to(x.dtype)))
        height, width = x.shape[-2:]
        x, (top, left) = fit(x, self.multiple, self.periodic)

        skips = [self.stem(x)]
        for level in self.down:
            skips += level(skips[-1], embedding)
        h = skips[-1]
        for step in self.middle:
            h = step(h, embedding)
        for level in self.up:
            h = level(h, embedding, skips)
        y = self.head(F.silu(self.norm(h)))
        return y[..., top : top + height, left : left + width]


class Step(nn.Module):
    """A residual block, and attention after it or not."""

    def __init__(self, block: ResBlock, attention: nn.Module | None):
        super().__init__()
        self.block, self.attention = block, attention

    def forward(self, x: Tensor, embedding: Tensor | None) -> Tensor:  # (B, C, H, W) -> (B, C', H, W)
        x = self.block(x, embedding)
        return x if self.attention is None else self.attention(x)


class Descent(nn.Module):
    """The steps at one coarseness on the way down, then the halving of the grid, if any."""

    def __init__(self, steps: nn.ModuleList, halve: nn.Module | None):
        super().__init__()
        self.steps, self.resize = steps, halve

    def forward(self, h: Tensor, embedding: Tensor | None) -> list[Tensor]:
        outputs = []  # of every stage, for the way up; the last also goes on down
        for step in self.steps:
            h = step(h, embedding)
            outputs.append(h)
        return outputs if self.resize is None else [*outputs, self.resize(h)]


class Ascent(nn.Module):
    """The steps at one coarseness on the way up, each reading its mirror image, then the doubling, if any."""

    def __init__(self, steps: nn.ModuleList, double: nn.Module | None):
        super().__init__()
        self.steps, self.resize = steps, double

    def forward(self, h: Tensor, embedding: Tensor | None, skips: list[Tensor]) -> Tensor:
        for step in self.steps:
            h = step(torch.cat((h, skips.pop()), dim=1), embedding)
        return h if self.resize is None else self.resize(h)


def fit(
    x: Tensor,  # (B, C, H, W)
    multiple: int,
    periodic: Axes,
) -> tuple[Tensor, tuple[int, int]]:  # the padded field, and the (row, column) where the field begins in it
    """Pad both sides of each axis, evenly, to a multiple of `multiple`.

    Beyond a closed edge come zeros: for X_c and M_i that says "not measured here", which is true, where
    repeating the edge would invent readings. A periodic axis continues with the field itself. If its length
    is not a multiple, the wrapping convolutions then meet the seam of the padded axis, not of the field:
    cells near the seam see a few of their neighbours twice. Where the length is a multiple nothing is padded
    and wrapping is exact.
    """
    (height, width), start = x.shape[-2:], []
    for axis, length in ((-2, height), (-1, width)):
        extra = -length % multiple
        before = extra // 2
        start.append(before)
        if extra and periodic[axis]:
            cells = torch.arange(-before, length + extra - before, device=x.device) % length
            x = x.index_select(axis, cells)
        elif extra:
            sides = (before, extra - before)
            x = F.pad(x, (0, 0, *sides) if axis == -2 else sides)
    return x, (start[0], start[1])
