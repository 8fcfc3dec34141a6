"""Parts of style-based adversarial networks: equalised layers, mapping, condition encoder, discriminator.

Equalised layers keep their weights at unit variance and scale them where they are used, W = (g /
sqrt(fan-in)) V, so one learning rate suits all (Karras et al. 2018). The discriminator is StyleGAN2's:
residual blocks of two 3 x 3 convolutions with a [1, 3, 3, 1] blur before each halving, the batch's spread as
an extra channel, two dense layers. The condition encoder is made of the same blocks. Grids that do not halve
evenly are padded with zeros below and to the right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .filters import leaky, resample, resample_matrix

BLUR = np.array([1.0, 3.0, 3.0, 1.0]) / 8.0
SPREAD_GROUP = 4  # examples that the minibatch spread is taken over


class EqualLinear(nn.Linear):
    """Dense layer with equalised weights; `rate` multiplies its learning rate."""

    def __init__(self, inputs: int, outputs: int, rate: float = 1.0, bias: float = 0.0, std: float = 1.0):
        super().__init__(inputs, outputs)
        self.rate = rate
        nn.init.normal_(self.weight, std=std / rate)
        nn.init.constant_(self.bias, bias / rate)

    def forward(self, x: Tensor) -> Tensor:  # (..., inputs) -> (..., outputs)
        scale = self.rate / math.sqrt(self.in_features)
        return F.linear(x, self.weight * scale, self.bias * self.rate)


class EqualConv(nn.Conv2d):
    """Convolution with equalised weights."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0, bias: bool = True):
        super().__init__(inputs, outputs, kernel, stride, padding, bias=bias)
        nn.init.normal_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:  # (B, inputs, H, W) -> (B, outputs, H', W')
        scale = 1.0 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        return F.conv2d(x, self.weight * scale, self.bias, self.stride, self.padding)


def unit(x: Tensor) -> Tensor:  # (B, n)
    """Scale each row to unit second moment."""
    return x * (x.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()


class Mapping(nn.Module):
    """w = MLP([unit(z), unit(A c)]): latent and condition to the style, two layers, learning rate x 0.01."""

    def __init__(self, style: int):  # size of z, c and w
        super().__init__()
        self.embed = EqualLinear(style, style)
        self.layers = nn.ModuleList([EqualLinear(2 * style, style, 0.01), EqualLinear(style, style, 0.01)])

    def forward(self, z: Tensor, c: Tensor) -> Tensor:  # (B, style), (B, style) -> (B, style)
        w = torch.cat([unit(z), unit(self.embed(c))], dim=1)
        for layer in self.layers:
            w = leaky(layer(w))
        return w


class DownBlock(nn.Module):
    """Residual block that halves the grid: conv, blur, strided conv; beside it blur and a 1 x 1 conv."""

    rows: Tensor
    columns: Tensor
    skip_rows: Tensor
    skip_columns: Tensor

    def __init__(self, inputs: int, outputs: int, shape: tuple[int, int]):  # shape before halving, both even
        super().__init__()
        self.conv = EqualConv(inputs, inputs, 3, padding=1)
        self.down = EqualConv(inputs, outputs, 3, stride=2)
        self.skip = EqualConv(inputs, outputs, 1, bias=False)
        for name, size in zip(("rows", "columns"), shape, strict=True):
            self.register_buffer(name, resample_matrix(size, BLUR, padding=(2, 2)), persistent=False)
            halved = resample_matrix(size, BLUR, down=2, padding=(1, 1))
            self.register_buffer(f"skip_{name}", halved, persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (B, inputs, H, W) -> (B, outputs, H / 2, W / 2)
        h = leaky(self.conv(x))
        h = leaky(self.down(resample(h, self.rows, self.columns)))
        return (h + self.skip(resample(x, self.skip_rows, self.skip_columns))) / math.sqrt(2.0)


class Trunk(nn.Module):
    """Pad, lift, and halve n times; gives the features of every level."""

    def __init__(self, channels: int, widths: Sequence[int], shape: tuple[int, int], kernel: int):
        super().__init__()
        self.padded = padded_shape(shape, len(widths) - 1)
        self.lift = EqualConv(channels, widths[0], kernel, padding=kernel // 2)
        blocks, size = [], self.padded
        for inputs, outputs in pairwise(widths):
            blocks.append(DownBlock(inputs, outputs, size))
            size = (size[0] // 2, size[1] // 2)
        self.blocks = nn.ModuleList(blocks)
        self.size = size  # of the last level

    def forward(self, x: Tensor) -> list[Tensor]:  # (B, channels, H, W) -> (B, widths[l], h / 2^l, w / 2^l)
        pad = (0, self.padded[1] - x.shape[-1], 0, self.padded[0] - x.shape[-2])
        levels = [leaky(self.lift(F.pad(x, pad)))]
        for block in self.blocks:
            levels.append(block(levels[-1]))
        return levels


class ConditionEncoder(nn.Module):
    """What the sensors say: features of every level, and one vector c of the coarsest level's cells."""

    def __init__(self, channels: int, widths: Sequence[int], condition: int, shape: tuple[int, int]):
        super().__init__()
        self.trunk = Trunk(channels, widths, shape, kernel=3)
        self.head = EqualLinear(widths[-1] * math.prod(self.trunk.size), condition)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:  # (B, channels, H, W) -> (B, condition), levels
        levels = self.trunk(x)
        return self.head(levels[-1].flatten(1)), levels


class Discriminator(nn.Module):
    """Real or made? One logit per example."""

    def __init__(self, channels: int, width: int, shape: tuple[int, int]):
        super().__init__()
        halvings = max(1, math.ceil(math.log2(max(shape) / 4)))  # to 4 x 4
        self.trunk = Trunk(channels, [width] * (halvings + 1), shape, kernel=1)
        self.conv = EqualConv(width + 1, width, 3, padding=1)
        self.dense = EqualLinear(width * math.prod(self.trunk.size), width)
        self.head = EqualLinear(width, 1)

    def forward(self, x: Tensor) -> Tensor:  # (B, channels, H, W) -> (B,)
        h = with_spread(self.trunk(x)[-1])
        h = leaky(self.dense(leaky(self.conv(h)).flatten(1)))
        return self.head(h)[:, 0]


def with_spread(x: Tensor) -> Tensor:  # (B, C, H, W) -> (B, C + 1, H, W)
    """Append the standard deviation among a few examples, averaged over channels and cells."""
    batch, channels, height, width = x.shape
    group = max(g for g in range(1, SPREAD_GROUP + 1) if batch % g == 0)
    variance = x.reshape(group, batch // group, channels, height, width).var(dim=0, unbiased=False)
    spread = (variance + 1e-8).sqrt().mean(dim=(1, 2, 3))  # (B / group,)
    channel = spread.repeat(group)[:, None, None, None].expand(batch, 1, height, width)
    return torch.cat([x, channel], dim=1)


def padded_shape(shape: tuple[int, int], halvings: int) -> tuple[int, int]:
    """The next shape that halves evenly that often."""
    factor = 2**halvings
    return -(-shape[0] // factor) * factor, -(-shape[1] // factor) * factor
