"""How far a cell is from the nearest sensor: along great circles on the Earth, else straight, around periodic axes."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

from ..grid import RADIUS, Grid, lengths, points


def grid_distance(mask: np.ndarray, grid: Grid) -> np.ndarray:  # (H, W) bool -> (H, W)
    """To the nearest sensor in the unit of `lengths`; inf without any."""
    if grid.axes != ("lat", "lon") or not mask.any():
        return distance_to_sensor(mask, lengths(grid)[0], grid.periodic)
    row, column = (part.ravel() for part in np.indices(mask.shape))
    places = points(grid, row, column)
    chord, _ = cKDTree(places[mask.ravel()]).query(places)
    return (2 * RADIUS * np.arcsin(np.minimum(chord / (2 * RADIUS), 1.0))).reshape(mask.shape)


def grid_distances(masks: np.ndarray, grid: Grid) -> np.ndarray:  # (N, C, H, W) bool -> (N, H, W)
    """For each scene, to the nearest sensor of any variable."""
    return np.stack([grid_distance(mask.any(0), grid) for mask in masks])


def distances_to_sensor(
    masks: np.ndarray,  # (N, C, H, W) bool
    spacing: tuple[float, float] = (1.0, 1.0),
    periodic: tuple[bool, bool] = (False, False),
) -> np.ndarray:  # (N, H, W)
    """For each scene, the distance to the nearest sensor of any variable; in cells unless a spacing is given."""
    return np.stack([distance_to_sensor(mask.any(0), spacing, periodic) for mask in masks])


def distance_to_sensor(
    mask: np.ndarray,  # (H, W) bool
    spacing: tuple[float, float] = (1.0, 1.0),  # size of a cell along (y, x)
    periodic: tuple[bool, bool] = (False, False),
) -> np.ndarray:  # (H, W) in the unit of the spacing
    """Euclidean distance to the nearest sensor, around the edges of periodic axes; inf without any."""
    if not mask.any():
        return np.full(mask.shape, np.inf)
    # The nearest image of a sensor is at most half an axis away: half an axis of wrapped cells shows it.
    edge = [length // 2 if wraps else 0 for length, wraps in zip(mask.shape, periodic, strict=True)]
    wrapped = np.pad(mask, [(width, width) for width in edge], mode="wrap")
    distance = distance_transform_edt(~wrapped, sampling=spacing)
    return distance[edge[0] : edge[0] + mask.shape[0], edge[1] : edge[1] + mask.shape[1]]
