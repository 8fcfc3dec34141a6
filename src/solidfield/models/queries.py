"""How a network reads a query: readings, mask, lead, place and covariates as channels of one image."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import SolidError
from ..fields import Source
from ..forecast import Spec
from ..grid import Grid
from ..interpolate import FILLS, fill


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


def coordinate_channels(grid: Grid) -> Tensor:  # (E, H, W)
    """Where a cell is: waves of 1, 2 and 4 periods along an axis that wraps, a ramp from -1 to 1 along another."""
    channels: list[Tensor] = []
    for axis, (n, wraps) in enumerate(zip(grid.shape, grid.periodic, strict=True)):
        position = torch.arange(n) / n
        if wraps:
            waves = [f(2 * math.pi * k * position) for k in (1, 2, 4) for f in (torch.sin, torch.cos)]
        else:
            waves = [2 * (position + 0.5 / n) - 1]
        shape = (n, 1) if axis == 0 else (1, n)
        channels += [wave.reshape(shape).expand(grid.shape) for wave in waves]
    return torch.stack(channels).float()
