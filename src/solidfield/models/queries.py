"""How a network reads a query: readings, mask, lead, place and covariates as channels of one image."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import SolidError
from ..fields import Source
from ..forecast import Spec
from ..grid import Grid
from ..theory.interpolate import FILLS, fill


def query_width(spec: Spec, place: Tensor) -> int:
    """Channels of `query_channels`."""
    return 2 * spec.channels + 1 + len(place) + spec.covariates + window_width(spec)


def window_width(spec: Spec) -> int:
    """Channels of `window_channels`."""
    return 2 * spec.channels * (spec.window - 1)


def window_channels(source: Source, spec: Spec) -> Tensor:  # (B, window_width, H, W)
    """The readings and masks of the frames before, checked against what the model was built for."""
    found = 1 if source.window is None else 1 + source.window.mask.shape[1]
    if found != spec.window:
        raise SolidError(f"the query knows {found} frames, the model was built for a window of {spec.window}")
    if source.window is None:
        return source.values[:, :0]
    values, mask = source.window.values, source.window.mask.to(source.values.dtype)
    return torch.cat([values, mask], dim=2).flatten(1, 2)


def earlier_width(spec: Spec) -> int:
    """Channels of `earlier_channels`."""
    return window_width(spec) + (spec.window > 1)


def earlier_channels(source: Source, spec: Spec) -> Tensor:  # (B, earlier_width, H, W)
    """The window, and with one the lead, for a network that is told of no lead otherwise."""
    window = window_channels(source, spec)
    return torch.cat([window, lead_channel(source, spec)], dim=1) if spec.window > 1 else window


def lead_channel(source: Source, spec: Spec) -> Tensor:  # (B, 1, H, W)
    """How far ahead; with a window leads are many, and a step counts for less the further ahead it is."""
    lead = source.lead.to(source.values.dtype)
    if spec.window > 1:
        lead = lead.sign() * lead.abs().log1p()
    return lead[:, None, None, None].expand(-1, 1, *source.values.shape[-2:])


def check_fill(how: str) -> str:
    if how not in ("none", *FILLS):
        raise SolidError(f"no filling is called '{how}'; choose one of none, {', '.join(FILLS)}")
    return how


def readings(source: Source, how: str, grid: Grid) -> Tensor:  # (B, C, H, W)
    """X_c as it is, or densified before a network sees it (the paper's NN and RBF strategies)."""
    return source.values if how == "none" else fill(source, how, grid)


def query_channels(
    source: Source,
    spec: Spec,
    place: Tensor,  # (E, H, W), see `coordinate_channels`
    how: str = "none",  # see `readings`
) -> Tensor:  # (B, query_width, H, W)
    """[X_c, M_i, lead, place, covariates, window]."""
    like, shape = source.values, source.values.shape[-2:]
    inputs = [
        readings(source, how, spec.grid),
        source.mask.to(like.dtype),
        lead_channel(source, spec),
        place.to(like).expand(len(source), -1, *shape),
    ]
    if source.covariates is not None:
        inputs.append(source.covariates)
    inputs.append(window_channels(source, spec))
    return torch.cat(inputs, dim=1)


def in_patches(network: Callable[[Tensor], Tensor], x: Tensor, patch: int) -> Tensor:  # (B, C, H, W) -> (B, C', H, W)
    """Run a network on blocks of patch x patch cells; a ragged edge is filled with zeros: not measured."""
    height, width = x.shape[-2:]
    x = F.pad(x, (0, -width % patch, 0, -height % patch))
    y = F.pixel_shuffle(network(F.pixel_unshuffle(x, patch)), patch)
    return y[..., :height, :width]


def silence(stem: nn.Conv2d, first: int, count: int, patch: int) -> None:
    """Let some of the inputs say nothing until it is learned what they say; at first they would drown the readings."""
    with torch.no_grad():
        stem.weight[:, first * patch**2 : (first + count) * patch**2] = 0


def coordinate_channels(spec: Spec, told: bool = True) -> Tensor:  # (E, H, W), none unless told
    """Where a cell is: a ramp from -1 to 1 along an axis that ends, waves of 1, 2 and 4 periods along one that wraps.

    Along an axis on which the world repeats itself there is nothing to tell: position is noise there or nearly so, and
    learning to ignore it takes long (docs/decisions.md).
    """
    channels: list[Tensor] = [torch.zeros(0, *spec.grid.shape)]
    for axis, (n, wraps) in enumerate(zip(spec.grid.shape, spec.grid.periodic, strict=True)):
        position = torch.arange(n) / n
        if spec.shifts[axis] or not told:
            continue
        waves = [f(2 * math.pi * k * position) for k in (1, 2, 4) for f in (torch.sin, torch.cos)]
        if not wraps:
            waves = [2 * (position + 0.5 / n) - 1]
        shape = (1, n, 1) if axis == 0 else (1, 1, n)
        channels += [wave.reshape(shape).expand(1, *spec.grid.shape) for wave in waves]
    return torch.cat(channels).float()
