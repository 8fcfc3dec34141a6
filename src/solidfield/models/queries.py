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
    return 2 * spec.channels + 1 + len(place) + spec.covariates


def check_fill(how: str) -> str:
    if how not in ("none", *FILLS):
        raise SolidError(f"no filling is called '{how}'; choose one of none, {', '.join(FILLS)}")
    return how


def readings(source: Source, how: str, grid: Grid) -> Tensor:  # (B, C, H, W)
    """X_c as it is, or densified before a network sees it (the paper's NN and RBF strategies)."""
    return source.values if how == "none" else fill(source, how, grid)


def query_channels(
    source: Source,
    place: Tensor,  # (E, H, W), see `coordinate_channels`
    how: str = "none",  # see `readings`
    grid: Grid | None = None,  # for a filling
) -> Tensor:  # (B, query_width, H, W)
    """[X_c, M_i, lead, place, covariates]."""
    like, shape = source.values, source.values.shape[-2:]
    inputs = [
        source.values if grid is None else readings(source, how, grid),
        source.mask.to(like.dtype),
        source.lead.to(like.dtype)[:, None, None, None].expand(-1, 1, *shape),
        place.to(like).expand(len(source), -1, *shape),
    ]
    if source.covariates is not None:
        inputs.append(source.covariates)
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


def coordinate_channels(spec: Spec) -> Tensor:  # (E, H, W)
    """Where a cell is: a ramp from -1 to 1 along an axis that ends, waves of 1, 2 and 4 periods along one that wraps.

    Along an axis on which the world repeats itself there is nothing to tell: position is noise there or nearly so, and
    learning to ignore it takes long (docs/decisions.md).
    """
    channels: list[Tensor] = [torch.zeros(0, *spec.grid.shape)]
    for axis, (n, wraps) in enumerate(zip(spec.grid.shape, spec.grid.periodic, strict=True)):
        position = torch.arange(n) / n
        if spec.shifts[axis]:
            continue
        waves = [f(2 * math.pi * k * position) for k in (1, 2, 4) for f in (torch.sin, torch.cos)]
        if not wraps:
            waves = [2 * (position + 0.5 / n) - 1]
        shape = (1, n, 1) if axis == 0 else (1, 1, n)
        channels += [wave.reshape(shape).expand(1, *spec.grid.shape) for wave in waves]
    return torch.cat(channels).float()
