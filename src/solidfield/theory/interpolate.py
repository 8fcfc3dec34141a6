"""From scattered readings to a dense field: the plain interpolators, as rivals and as pre-filling.

    nearest            u(p) = y_i,  i = argmin |p - p_i|                   ties: the first in row order
    inverse_distance   u(p) = sum_i y_i |p - p_i|^-q / sum_i |p - p_i|^-q  q -> 0: the mean, q -> inf: nearest
    radial_basis       thin-plate spline r^2 log r with a linear trend     smoothing 0 passes through readings

Distances use the grid's spacing and take the short way round along an axis that wraps. Without any reading
each returns the prior mean, 0 for standardised values. (Kriging is `covariance.py` and `models/kriging.py`.)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from scipy.interpolate import RBFInterpolator
from torch import Tensor

from ..errors import SolidError
from ..fields import Source
from ..grid import Grid

Wraps = tuple[bool, bool]  # along (y, x)
Spacing = tuple[float, float]
Interpolator = Callable[[Tensor, Tensor, Wraps, Spacing], Tensor]  # (values, mask, ...) -> field, each (H, W)

TILE = 0.25  # share of a periodic axis that is repeated beyond either end before a spline
OVERSHOOT = 0.5  # a spline may leave the range of the readings by half of it, not run away


def squared_distances(
    mask: Tensor,  # (H, W) bool, n readings
    periodic: Wraps,
    spacing: Spacing,
) -> Tensor:  # (H, W, n) float64, from every cell to every reading in row order
    terms = []
    for axis, where in enumerate(mask.nonzero(as_tuple=True)):
        length = mask.shape[axis]
        steps = (torch.arange(length, device=mask.device)[:, None] - where).abs()  # (length, n)
        if periodic[axis]:
            steps = torch.minimum(steps, length - steps)
        terms.append((steps.double() * spacing[axis]) ** 2)
    return terms[0][:, None] + terms[1][None, :]


def nearest(
    values: Tensor,  # (H, W)
    mask: Tensor,  # (H, W) bool
    periodic: Wraps = (False, False),
    spacing: Spacing = (1.0, 1.0),
) -> Tensor:  # (H, W)
    if not mask.any():
        return torch.zeros_like(values)
    return values[mask][squared_distances(mask, periodic, spacing).argmin(-1)]


def inverse_distance(
    values: Tensor,  # (H, W)
    mask: Tensor,  # (H, W) bool
    periodic: Wraps = (False, False),
    spacing: Spacing = (1.0, 1.0),
    power: float = 2.0,
) -> Tensor:  # (H, W)
    if not mask.any():
        return torch.zeros_like(values)
    square = squared_distances(mask, periodic, spacing)  # (H, W, n)
    closest = square.amin(-1, keepdim=True)
    ratio = torch.where(square == closest, 1.0, closest / square)  # in [0, 1]: no overflow; 0 / d beside a sensor is 0
    weight = ratio ** (power / 2)
    mean = (weight * values[mask].double()).sum(-1) / weight.sum(-1)
    return torch.where(mask, values, mean.to(values.dtype))


def radial_basis(
    values: Tensor,  # (H, W)
    mask: Tensor,  # (H, W) bool
    periodic: Wraps = (False, False),
    spacing: Spacing = (1.0, 1.0),
    smoothing: float = 0.0,
) -> Tensor:  # (H, W)
    """Thin-plate spline through the readings, or near them if smoothed; nearest if they span no plane.

    Lengths are counted in cells (geometric mean of the spacing): a smoothing means the same on every grid.
    """
    if smoothing == 0 and mask.all():
        return values.clone()
    length = np.sqrt(spacing[0] * spacing[1])
    scale = np.array(spacing) / length
    where = mask.nonzero().cpu().numpy()  # (n, 2)
    reading = values[mask].double().cpu().numpy()  # (n,)
    sites, data = _tiled(where, reading, mask.shape, periodic)
    if len(where) < 3 or np.linalg.matrix_rank(sites - sites.mean(0)) < 2:
        return nearest(values, mask, periodic, spacing)
    cells = np.indices(mask.shape).reshape(2, -1).T  # (H W, 2)
    spline = RBFInterpolator(sites * scale, data, smoothing=smoothing, kernel="thin_plate_spline")
    low, high = reading.min(), reading.max()
    room = OVERSHOOT * (high - low)
    field = np.clip(spline(cells * scale), low - room, high + room).reshape(mask.shape)
    dense = torch.from_numpy(field).to(values)
    return torch.where(mask, values, dense) if smoothing == 0 else dense


def _tiled(
    where: np.ndarray,  # (n, 2) rows and columns
    reading: np.ndarray,  # (n,)
    shape: torch.Size,
    periodic: Wraps,
) -> tuple[np.ndarray, np.ndarray]:  # (m, 2), (m,)
    """Repeat the readings beyond both ends of an axis that wraps."""
    for axis, wraps in enumerate(periodic):
        if wraps:
            period, margin = shape[axis], TILE * shape[axis]
            step = np.eye(2, dtype=int)[axis] * period
            below = where[:, axis] >= period - margin
            above = where[:, axis] < margin
            where = np.concatenate([where, where[below] - step, where[above] + step])
            reading = np.concatenate([reading, reading[below], reading[above]])
    return where, reading


FILLS: dict[str, Interpolator] = {"nearest": nearest, "idw": inverse_distance, "rbf": radial_basis}


def fill(source: Source, how: str, grid: Grid) -> Tensor:  # (B, C, H, W)
    """Densify a source before a network sees it (the paper's NN and RBF strategies)."""
    if how not in FILLS:
        raise SolidError(f"no filling is called '{how}'; choose one of {', '.join(FILLS)}")
    return interpolate(source, FILLS[how], grid)


def interpolate(source: Source, method: Interpolator, grid: Grid) -> Tensor:  # (B, C, H, W)
    """One method for every query and channel by itself."""
    field = torch.zeros_like(source.values)
    for b, c in product(range(field.shape[0]), range(field.shape[1])):
        field[b, c] = method(source.values[b, c], source.mask[b, c], grid.periodic, grid.spacing)
    return field
