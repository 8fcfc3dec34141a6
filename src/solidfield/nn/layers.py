"""The pieces of the UNet: convolutions that may wrap around, residual blocks, attention, change of level.

Each piece is the one of the improved-diffusion family, which is the paper's network, equal to `diffusers` in
value. Where it is computed differently, it is because that is faster on a CPU (`benchmarks/unet.py`):

- nearest upsampling followed by a 3 x 3 convolution is one transposed 4 x 4 convolution of stride 2, whose
  kernel is the 3 x 3 one summed over the four phases: 16 instead of 36 multiplications per coarse cell;
- dropout draws 16 random bits a cell instead of a floating-point number;
- attention over few cells is two matrix products and a softmax;
- periodic axes are padded by concatenation, not by circular `F.pad`.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SolidError

Axes = tuple[bool, bool]  # is the (y, x) axis periodic?
FEW_TOKENS = 256  # up to here the explicit (N, N) attention is faster on a CPU, beyond it costs too much memory


def group_norm(channels: int, most: int = 32) -> nn.GroupNorm:
    """At most 32 groups and at least two channels in each, as in the paper's narrowest layer (64 channels).

    >>> [group_norm(c).num_groups for c in (16, 32, 48, 64, 192, 256)]
    [8, 16, 24, 32, 32, 32]
    """
    limit = max(1, min(most, channels // 2))
    return nn.GroupNorm(max(g for g in range(1, limit + 1) if channels % g == 0), channels)


def wrap(
    x: Tensor,  # (B, C, H, W)
    periodic: Axes,
    margin: int = 1,
) -> Tensor:  # (B, C, H + 2 margin, W + 2 margin) where periodic
    """Continue the field across the seam of each periodic axis."""
    if periodic[1]:
        x = torch.cat((x[..., -margin:], x, x[..., :margin]), dim=-1)
    if periodic[0]:
        x = torch.cat((x[..., -margin:, :], x, x[..., :margin, :]), dim=-2)
    return x


def sinusoid(
    tau: Tensor,  # (B,) any real number
    width: int,
) -> Tensor:  # (B, width)
    """cos and sin of tau at width / 2 frequencies falling geometrically from 1 to 1e-4."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half, device=tau.device) * (-math.log(10_000.0) / half))
    angles = tau.float()[:, None] * frequencies
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


class Conv3(nn.Conv2d):
    """A 3 x 3 convolution that keeps the grid, or halves it; beyond the edge are zeros or the far side."""

    def __init__(self, inputs: int, outputs: int, periodic: Axes, stride: int = 1):
        super().__init__(inputs, outputs, 3, stride, padding=(int(not periodic[0]), int(not periodic[1])))
        self.periodic = periodic

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, C', H / stride, W / stride)
        return super().forward(wrap(x, self.periodic))


class Up(nn.Conv2d):
    """Nearest upsampling by 2 and a 3 x 3 convolution, in one transposed convolution of the coarse grid."""

    spread: Tensor

    def __init__(self, channels: int, periodic: Axes):
        super().__init__(channels, channels, 3)
        self.periodic = periodic
        # Row a of the 3-tap kernel meets the coarse cell at taps a and a + 1 of the 4-tap one.
        rows = torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
        self.register_buffer("spread", rows, persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, C, 2 H, 2 W)
        # A transposed convolution turns its kernel around; turn it first, so that weights keep their meaning.
        kernel = torch.einsum("oiab,ap,bq->iopq", self.weight.flip(2, 3), self.spread, self.spread)
        margin = (1 + 2 * self.periodic[0], 1 + 2 * self.periodic[1])  # a wrapped coarse cell is two fine ones
        return F.conv_transpose2d(wrap(x, self.periodic), kernel, self.bias, stride=2, padding=margin)


class Dropout(nn.Module):
    """Zero each number with probability p and scale the rest by 1 / (1 - p), from 16 random bits a number."""

    def __init__(self, p: float):
        super().__init__()
        if not 0 <= p < 1:
            raise SolidError(f"dropout {p} must be at least 0 and below 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:  # any shape; overwrites x, which nothing else may need
        if not self.training or self.p == 0:
            return x
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform on -2^15 .. 2^15 - 1
        # Comparing straight into numbers is several times faster than converting truth values afterwards.
        keep = torch.ge(bits, round(self.p * 2**16) - 2**15, out=torch.empty_like(x, requires_grad=False))
        return x.mul_(keep.mul_(1 / (1 - self.p)))


class ResBlock(nn.Module):
    """x + conv(drop(silu(norm(conv(silu(norm(x))) + shift)))), the shift a projection of tau's embedding."""

    def __init__(self, inputs: int, outputs: int, embedding: int | None, dropout: float, periodic: Axes, groups: int):
        super().__init__()
        self.norm1 = group_norm(inputs, groups)
        self.conv1 = Conv3(inputs, outputs, periodic)
        self.shift = None if embedding is None else nn.Linear(embedding, outputs)
        self.norm2 = group_norm(outputs, groups)
        self.drop = Dropout(dropout)
        self.conv2 = Conv3(outputs, outputs, periodic)
        self.skip = None if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        # Residual branches start at zero, so that the network starts shallow, as in the paper's family.
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(cast(Tensor, self.conv2.bias))

    def forward(
        self,
        x: Tensor,  # (B, C, H, W)
        embedding: Tensor | None,  # (B, E), already through its non-linearity
    ) -> Tensor:  # (B, C', H, W)
        h = self.conv1(F.silu(self.norm1(x)))
        if self.shift is not None:
            h += self.shift(embedding)[:, :, None, None]
        h = self.conv2(self.drop(F.silu(self.norm2(h))))
        return h.add_(x if self.skip is None else self.skip(x))


class Attention(nn.Module):
    """x + out(softmax(q k' / sqrt(d)) v): every cell looks at every cell, in heads of d channels."""

    def __init__(self, channels: int, head_dim: int, groups: int):
        super().__init__()
        if channels % head_dim:
            raise SolidError(f"attention over {channels} channels needs a head_dim that divides it, got {head_dim}")
        self.heads = channels // head_dim
        self.norm = group_norm(channels, groups)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(cast(Tensor, self.out.bias))

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) -> the same
        b, c, height, width = x.shape
        n, d = height * width, c // self.heads
        tokens = self.norm(x).view(b, c, n).transpose(1, 2)  # (B, N, C)
        q, k, v = self.qkv(tokens).view(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)  # each (B, heads, N, d)
        if x.device.type == "cpu" and n <= FEW_TOKENS:
            mixed = torch.softmax((q * d**-0.5) @ k.transpose(-1, -2), dim=-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        mixed = self.out(mixed.transpose(1, 2).reshape(b, n, c))  # (B, N, C)
        return x + mixed.transpose(1, 2).reshape(x.shape)
