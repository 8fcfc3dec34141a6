"""StyleGAN3: an alias-free generator, its style from a latent and the sensors.

Reference: Karras, Aittala, Laine, Haerkoenen, Hellsten, Lehtinen, Aila, "Alias-free generative adversarial
networks" (2021), configuration T. A feature map is the samples of a continuous signal, band-limited at the
cutoff of its layer:

    input      x(p) = A sin(2 pi (f . R(w) (p - t(w)) + phase)): waves in a disc, in a frame the style turns
    table      cutoffs f_c and stop bands f_t grow geometrically from 2 to half the resolution; the rate is
               the power of two that holds f_t; every map carries a margin of cells beyond the image
    layer      3 x 3 convolution, weights scaled by the style and renormalised, divided by the running
               magnitude of its input; then the filtered non-linearity: up, leaky ReLU, low-pass, down

so moving the waves of the input moves the field, by any fraction of a cell.

Where we depart from it: the condition is a vector of a convolutional encoder, which takes the place of the
class label (the paper does not say how it conditioned it); supervision is the masked game of
`adversarial.py`; in training a layer is divided by the magnitude of the batch and the running one serves
afterwards, as in batch normalisation, so that the loss is a function of its inputs; styles are not normalised
over the batch, so a member does not depend on its neighbours; the field leaves at unit scale (no tanh, no
factor 1/4); a grid that is not a power-of-two square is the top left corner of one; `spatial` adds the
encoder's maps to the layers (off in the paper's size: the reference steers by style alone). The generator
knows nothing of periodic axes.
Size: the generator and discriminator of the reference at 64 x 64 (64.25 M) and a 12 M encoder, near the
paper's 76.3 M.
Learning rate: about 2e-3 for both sides, thanks to equalised weights (2.5e-3 and 2e-3 in the reference).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..forecast import Spec
from ..keys import torch_generator
from ..nn.filters import filtered_leaky, kaiser_lowpass, resample_matrix
from ..nn.style import EqualLinear, Mapping
from .adversarial import Adversarial

CRITICAL = 2  # last layers, sampled at the limit
FIRST_CUTOFF, FIRST_STOPBAND = 2.0, 2.0**2.1  # in cycles per image
STOPBAND = 2.0**0.3  # of the last layers, relative to their cutoff
TAPS = 6  # of a filter, per factor of resampling
DECAY = 0.99  # of the running magnitude


class StyleGAN3(Adversarial):
    name = "stylegan3"
    reference = "Karras et al., Alias-free generative adversarial networks, NeurIPS 2021"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"layers": 3, "width": 8, "style": 16, "margin": 3, "encoder": (8, 8, 16), "judge": 8},
        "laptop": {
            "layers": 6,
            "width": 16,
            "style": 64,
            "margin": 3,
            "encoder": (16, 32, 32, 32),
            "judge": 16,
            "spatial": True,
            "beta": 1.0,
        },
        "paper": {},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        mask_channel: bool = False,
        layers: int = 14,
        width: int = 512,  # most channels of a layer
        capacity: int = 32768,  # channels of a layer times twice its cutoff, at most
        style: int = 512,  # size of z, c and w
        margin: int = 10,  # cells beyond the image
        encoder: Sequence[int] = (64, 128, 256, 512, 512),
        judge: int = 512,
        spatial: bool = False,
        gamma: float = 0.1,  # R1, for 64 x 64
        beta: float = 0.0,  # weight of the masked L1
    ):
        super().__init__(spec, mask_channel, style, encoder, judge, gamma, beta)
        table = layer_table(spec, layers, width, capacity, margin)
        maps = tuple(encoder) if spatial else ()
        self.generator = Generator(spec, table, style, maps)


@dataclass(frozen=True)
class Band:
    """The signal that leaves a layer."""

    cutoff: float  # f_c, cycles per image
    half_width: float  # of the transition band
    rate: int  # samples per image
    size: int  # samples, with the margin
    channels: int


def layer_table(spec: Spec, layers: int, width: int, capacity: int, margin: int) -> list[Band]:
    """Band 0 is the input's and the first layer's, the last one the field's: layers + 1 of them."""
    resolution = max(8, 2 ** math.ceil(math.log2(max(spec.grid.shape))))
    bands = []
    for i in range(layers + 1):
        along = min(i / (layers - CRITICAL), 1.0)
        cutoff = FIRST_CUTOFF * (resolution / 2 / FIRST_CUTOFF) ** along
        stopband = FIRST_STOPBAND * (resolution / 2 * STOPBAND / FIRST_STOPBAND) ** along
        rate = 2 ** math.ceil(math.log2(min(2 * stopband, resolution)))
        half_width = max(stopband, rate / 2) - cutoff
        last = i == layers
        size = resolution if i >= layers - 1 else rate + 2 * margin
        channels = spec.channels if last else round(min(capacity / 2 / cutoff, width))
        bands.append(Band(cutoff, half_width, rate, size, channels))
    return bands


class Generator(nn.Module):
    """z, c (and the encoder's maps) to a field."""

    def __init__(self, spec: Spec, table: Sequence[Band], style: int, maps: Sequence[int]):
        super().__init__()
        self.shape = spec.grid.shape
        self.mapping = Mapping(style)
        self.input = FourierInput(table[0], style)
        before = [table[0], *table[:-1]]
        self.layers = nn.ModuleList(Layer(a, b, style) for a, b in zip(before[:-1], table[:-1], strict=True))
        self.head = ModulatedConv(table[-2].channels, table[-1].channels, 1, style, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(table[-1].channels, 1, 1))
        self.injections = nn.ModuleList(Injection(b, table[-1].rate, maps) for b in table[:-1]) if maps else None

    def forward(
        self,
        z: Tensor,  # (B, Z)
        c: Tensor,  # (B, condition)
        features: Sequence[Tensor],  # the encoder's levels
    ) -> Tensor:  # (B, C, H, W)
        w = self.mapping(z, c)
        x = self.input(w)
        for i, layer in enumerate(self.layers):
            x = layer(x, w)
            if self.injections is not None:
                x = x + self.injections[i](features)
        x = self.head(x, w) + self.bias
        return x[..., : self.shape[0], : self.shape[1]]


class FourierInput(nn.Module):
    """Waves of the first band, in a frame turned and moved by the style, and mixed."""

    waves: Tensor
    phases: Tensor
    places: Tensor

    def __init__(self, band: Band, style: int):
        super().__init__()
        self.band = band
        generator = torch_generator("stylegan3", "waves", band.channels)
        waves = torch.randn(band.channels, 2, generator=generator, device="cpu")
        radius = waves.norm(dim=1, keepdim=True)
        # Spread over the disc, denser inside.
        waves = band.cutoff * waves / (radius * torch.exp(radius.square() / 4))
        phases = torch.rand(band.channels, generator=generator, device="cpu") - 0.5
        self.register_buffer("waves", waves)
        self.register_buffer("phases", phases)
        steps = (torch.arange(band.size) - (band.size - 1) / 2) / band.rate  # (n,) the image is [-1/2, 1/2]
        places = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), dim=-1)
        self.register_buffer("places", places, persistent=False)  # (n, n, 2)
        self.frame = EqualLinear(style, 4, std=0.0)  # (cos, sin, t_y, t_x): the identity to begin with
        with torch.no_grad():
            self.frame.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0]))
        self.mix = nn.Parameter(torch.randn(band.channels, band.channels))

    def forward(self, w: Tensor) -> Tensor:  # (B, style) -> (B, channels, n, n)
        frame = self.frame(w)
        frame = frame / (frame[:, :2].norm(dim=1, keepdim=True) + 1e-8)
        cos, sin = frame[:, 0], frame[:, 1]
        turn = torch.stack([cos, -sin, sin, cos], dim=1).unflatten(1, (2, 2))  # (B, 2, 2)
        waves = self.waves @ turn  # (B, channels, 2)
        phases = self.phases - (waves @ frame[:, 2:, None])[..., 0]  # (B, channels)
        # A wave that left the disc would alias: fade it between the cutoff and the limit of the rate.
        band = self.band
        fade = 1 - (waves.norm(dim=2) - band.cutoff) / (band.rate / 2 - band.cutoff)
        angles = torch.einsum("hwd,bcd->bchw", self.places, waves) + phases[:, :, None, None]
        x = torch.sin(2 * math.pi * angles) * fade.clamp(0, 1)[:, :, None, None]
        return torch.einsum("oc,bchw->bohw", self.mix / math.sqrt(band.channels), x)


class ModulatedConv(nn.Module):
    """A convolution whose input channels the style scales; outputs are brought back to unit variance."""

    magnitude: Tensor

    def __init__(self, inputs: int, outputs: int, kernel: int, style: int, demodulate: bool = True):
        super().__init__()
        self.demodulate = demodulate
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.affine = EqualLinear(style, inputs, bias=1.0)
        self.register_buffer("magnitude", torch.ones(()))

    def forward(
        self,
        x: Tensor,  # (B, inputs, n, n)
        w: Tensor,  # (B, style)
    ) -> Tensor:  # (B, outputs, n + kernel - 1, n + kernel - 1)
        magnitude = self.magnitude
        if self.training:
            magnitude = x.detach().square().mean()
            if torch.is_grad_enabled():  # the judge's turn moves nothing
                self.magnitude.lerp_(magnitude, 1 - DECAY)
        s = self.affine(w)  # (B, inputs)
        weight: Tensor = self.weight
        if self.demodulate:
            weight = weight * weight.square().mean(dim=(1, 2, 3), keepdim=True).rsqrt()
            scale = (s.square() @ weight.square().sum(dim=(2, 3)).T + 1e-8).rsqrt()  # (B, outputs)
        else:
            weight = weight / math.sqrt(weight[0].numel())
            scale = torch.ones_like(s[:, :1])
        x = x * (s * magnitude.rsqrt())[:, :, None, None]
        return F.conv2d(x, weight, padding=weight.shape[-1] - 1) * scale[:, :, None, None]


class Layer(nn.Module):
    """Convolution, bias, filtered non-linearity: from one band to the next."""

    up: Tensor
    down: Tensor

    def __init__(self, before: Band, after: Band, style: int):
        super().__init__()
        kernel = 3
        self.conv = ModulatedConv(before.channels, after.channels, kernel, style)
        self.bias = nn.Parameter(torch.zeros(after.channels, 1, 1))
        rate = 2 * max(before.rate, after.rate)  # where the kinks are made
        up, down = rate // before.rate, rate // after.rate
        rise = kaiser_lowpass(TAPS * up, before.cutoff, 2 * before.half_width, rate)
        fall = kaiser_lowpass(TAPS * down, after.cutoff, 2 * after.half_width, rate)
        size = before.size + kernel - 1
        # Cells at the high rate that the filters and the decimation need, beyond those that are there.
        missing = (after.size - 1) * down + 1 - size * up + len(rise) + len(fall) - 2
        first = (missing + up) // 2
        lift = resample_matrix(size, rise, up=up, padding=(first, missing - first))
        self.register_buffer("up", lift, persistent=False)
        self.register_buffer("down", resample_matrix(lift.shape[0], fall, down=down), persistent=False)

    def forward(self, x: Tensor, w: Tensor) -> Tensor:  # (B, before, n, n) -> (B, after, n', n')
        return filtered_leaky(self.conv(x, w) + self.bias, self.up, self.down)


class Injection(nn.Module):
    """The encoder's map of about the layer's rate, projected from zero, laid over the image part of it."""

    def __init__(self, band: Band, resolution: int, maps: Sequence[int]):
        super().__init__()
        self.band, self.resolution = band, resolution
        self.level = min(len(maps) - 1, round(math.log2(resolution / band.rate)))
        self.project = nn.Conv2d(maps[self.level], band.channels, 1)
        nn.init.zeros_(self.project.weight)

    def forward(self, features: Sequence[Tensor]) -> Tensor:  # -> (B, channels, size, size)
        x = self.project(features[self.level])
        square = self.resolution // 2**self.level
        # The grid is the top left corner of the square.
        x = F.pad(x, (0, square - x.shape[-1], 0, square - x.shape[-2]))
        x = F.interpolate(x, size=(self.band.rate, self.band.rate), mode="bilinear", align_corners=False)
        margin = (self.band.size - self.band.rate) // 2
        return F.pad(x, (margin, margin, margin, margin))
