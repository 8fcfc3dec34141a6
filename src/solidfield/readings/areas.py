"""Areas from GeoJSON: which cells lie inside, and which share of each.

A point is inside a polygon when a ray from it to the east crosses its rings (the outer one and the holes alike) an odd
number of times: the even-odd rule. Several polygons are united. Each row of cells is one scan line: the crossings of
all edges with it are sorted once, and every cell counts those east of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SolidError
from ..grid import Bounds, nearest_turn

POINTS = 200  # along each axis: how much of an area lies off a map is counted on 200 x 200 points
SUBCELLS = 5  # a share is counted on 5 x 5 points in each cell: in steps of 4 %


def area_mask(
    area: str | Path | Mapping[str, Any],  # GeoJSON: a path, or its content
    lat: np.ndarray,  # (H,)
    lon: np.ndarray,  # (W,)
    globe: bool = False,  # are they degrees, so that 181 is -179?
) -> np.ndarray:  # (H, W) bool
    """Which cell centres lie inside."""
    inside = np.zeros((len(lat), len(lon)), bool)
    turns = (-360.0, 0.0, 360.0) if globe and np.abs(lon).max(initial=0) > 180 else (0.0,)
    for edges in polygons(area):
        for turn in turns:
            inside |= _even_odd(edges, np.asarray(lat, float), np.asarray(lon, float) + turn)
    return inside


def area_weights(
    area: str | Path | Mapping[str, Any],
    lat: np.ndarray,  # (H,) regular
    lon: np.ndarray,  # (W,) regular
    globe: bool = False,
) -> np.ndarray:  # (H, W) float64 in 0 .. 1
    """The share of each cell that lies inside, counted on 5 x 5 points."""
    fine = [_fine(np.asarray(axis, float)) for axis in (lat, lon)]
    inside = area_mask(area, fine[0], fine[1], globe).astype(float)
    return inside.reshape(len(lat), len(fine[0]) // len(lat), len(lon), len(fine[1]) // len(lon)).mean((1, 3))


def _fine(axis: np.ndarray) -> np.ndarray:
    """The centres of the subcells along an axis; one cell alone has no known size and stays a point."""
    if len(axis) < 2:
        return axis
    step = (axis[-1] - axis[0]) / (len(axis) - 1)
    offsets = (np.arange(SUBCELLS) + 0.5) / SUBCELLS - 0.5
    return (axis[:, None] + step * offsets).ravel()


def share_within(area: str | Path | Mapping[str, Any], bounds: Bounds, globe: bool = False) -> float:
    """How much of the area lies within these edges, counted on POINTS x POINTS points over its extent."""
    south, west, north, east = area_extent(area)
    middle = (np.arange(POINTS) + 0.5) / POINTS
    lat, lon = south + middle * (north - south), west + middle * (east - west)
    inside = area_mask(area, lat, lon)
    if globe and np.isfinite(bounds[1] + bounds[3]):
        lon = nearest_turn(lon, (bounds[1] + bounds[3]) / 2)
    here = ((lat >= bounds[0]) & (lat <= bounds[2]))[:, None] & (lon >= bounds[1]) & (lon <= bounds[3])
    return float(inside[here].sum() / inside.sum()) if inside.any() else 1.0  # too thin to hold a point: unknown


def area_extent(area: str | Path | Mapping[str, Any]) -> tuple[float, float, float, float]:
    """South, west, north, east of all polygons."""
    edges = np.concatenate(list(polygons(area)))
    y, x = edges[:, [1, 3]], edges[:, [0, 2]]
    return float(y.min()), float(x.min()), float(y.max()), float(x.max())


def polygons(area: str | Path | Mapping[str, Any]) -> list[np.ndarray]:
    """Each polygon as the edges (E, 4) of all its rings: x1, y1, x2, y2."""
    name = "the area" if isinstance(area, Mapping) else str(area)
    if not isinstance(area, Mapping):
        try:
            area = json.loads(Path(area).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise SolidError(f"cannot read {name}: {error.strerror or error}") from None
        except (ValueError, RecursionError):
            raise SolidError(f"{name} is no GeoJSON; give a file of polygons") from None
    try:
        found = [_edges(rings) for rings in _rings(area)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        raise SolidError(f"{name} is no sound GeoJSON: a geometry lacks its type or coordinates") from None
    if not found:
        raise SolidError(f"{name} holds no polygon; points and lines have no inside")
    return found


def _rings(shape: Any) -> Iterator[list[Any]]:
    """The rings of every polygon in a GeoJSON object."""
    kind = shape["type"]
    if kind == "FeatureCollection":
        for feature in shape["features"]:
            yield from _rings(feature)
    elif kind == "GeometryCollection":
        for geometry in shape["geometries"]:
            yield from _rings(geometry)
    elif kind == "Feature":
        if shape["geometry"] is not None:
            yield from _rings(shape["geometry"])
    elif kind == "Polygon":
        yield shape["coordinates"]
    elif kind == "MultiPolygon":
        yield from shape["coordinates"]


def _edges(rings: list[Any]) -> np.ndarray:  # (E, 4)
    edges = []
    for ring in rings:
        points = np.array([position[:2] for position in ring], dtype=float).reshape(-1, 2)
        if len(points) < 3 or not np.isfinite(points).all():
            raise ValueError
        if points[:, 0].max() > 180:
            points[:, 0] -= 360.0 * (points[:, 0].min() >= 180)  # a ring in 0 .. 360, unless it crosses 180
        edges.append(np.concatenate([points, np.roll(points, -1, axis=0)], axis=1))  # an unclosed ring is closed
    return np.concatenate(edges)


def _even_odd(edges: np.ndarray, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:  # (H, W) bool
    x1, y1, x2, y2 = edges.T
    inside = np.zeros((len(lat), len(lon)), bool)
    for i, y in enumerate(lat):
        crossed = (y1 <= y) != (y2 <= y)  # half open, so that a corner on the line counts once
        at = x1[crossed] + (y - y1[crossed]) * (x2[crossed] - x1[crossed]) / (y2[crossed] - y1[crossed])
        east = len(at) - np.searchsorted(np.sort(at), lon, side="right")
        inside[i] = east % 2 == 1
    return inside
