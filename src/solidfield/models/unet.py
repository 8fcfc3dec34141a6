"""UNet: the plain convolutional encoder-decoder, from the zero-filled sparse field to the dense one.

Reference: Ronneberger, Fischer, Brox, "U-Net: Convolutional networks for biomedical image segmentation"
(2015), in the size of the paper's table: 466,593 parameters.

    double(i, o)   twice [3 x 3 convolution without bias, batch norm, ReLU]
    down           double, then 2 x 2 max pooling, at each of the two upper levels; double at the lowest
    up             2 x 2 transposed convolution of stride 2, joined with the skip, double
    head           1 x 1 convolution

Where we depart from it: two poolings, zero padding and batch norm (the count proves the widths, not these);
a grid whose sides are not multiples of four is padded inside (by zeros, or by wrapping) and cropped;
`periodic` pads convolutions by wrapping along the periodic axes of the grid, which the paper's table does
not.
Learning rate: 1e-3, cosine (no recipe is published).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..fields import Source
from ..forecast import Spec
from ..nn.layers import Axes, wrap
from ..nn.unet import fit
from .regression import Regression, input_channels, input_width

DEPTH = 2  # poolings


class UNet(Regression):
    name = "unet"
    reference = "Ronneberger et al., U-Net: Convolutional networks for biomedical image segmentation, MICCAI 2015"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"width": 8},
        "laptop": {"width": 32},
        "paper": {"width": 32},
    }

    def __init__(self, spec: Spec, *, mask_channel: bool = False, width: int = 32, periodic: bool = False):
        super().__init__(spec, mask_channel)
        self.net = PlainUNet(input_width(spec, mask_channel), spec.channels, width, wrapped_axes(spec, periodic))

    def forecast(
        self, source: Source, cells: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:  # (B, C, H, W)
        return self.net(input_channels(source, self.spec, self.mask_channel))


class PlainUNet(nn.Module):
    """The network itself, for any number of channels in and out and any grid."""

    def __init__(self, inputs: int, outputs: int, width: int, periodic: Axes):
        super().__init__()
        widths = [width * 2**level for level in range(DEPTH + 1)]
        above = list(reversed(widths[:-1]))
        self.periodic = periodic
        self.down = nn.ModuleList(Double(i, o, periodic) for i, o in zip([inputs, *widths[:-1]], widths, strict=True))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, kernel_size=2, stride=2) for w in above)
        self.up = nn.ModuleList(Double(2 * w, w, periodic) for w in above)
        self.head = nn.Conv2d(width, outputs, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:  # (B, inputs, H, W) -> (B, outputs, H, W)
        height, width = x.shape[-2:]
        x, (top, left) = fit(x, 2**DEPTH, self.periodic)
        skips = []
        for level, double in enumerate(self.down):
            x = double(x if level == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for rise, double in zip(self.rise, self.up, strict=True):
            x = double(torch.cat([skips.pop(), rise(x)], dim=1))
        return self.head(x)[..., top : top + height, left : left + width]


class Double(nn.Module):
    """Twice: convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, periodic: Axes):
        super().__init__()
        self.periodic = periodic
        zeros = (int(not periodic[0]), int(not periodic[1]))
        self.convs = nn.ModuleList(nn.Conv2d(i, outputs, 3, padding=zeros, bias=False) for i in (inputs, outputs))
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:  # (B, inputs, H, W) -> (B, outputs, H, W)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(wrap(x, self.periodic))))
        return x


def wrapped_axes(spec: Spec, periodic: bool) -> Axes:
    """The axes along which convolutions wrap: the grid's periodic ones, if asked for."""
    return spec.grid.periodic if periodic else (False, False)
