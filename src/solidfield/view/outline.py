"""Lines over the map: the user's own (districts, roads) from GeoJSON, and the coasts of the world.

Coasts are those of Natural Earth (1:50m, public domain), shipped as hundredths of a degree: the steps from point to
point of all lines after one another, and how many points each has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SolidError
from ..grid import Bounds

LARGEST = 20_000_000  # bytes of one file

Line = list[list[float]]  # of (x, y)


def outline_of(paths: Sequence[Path]) -> list[Line]:
    """Every ring of polygons and every line of these files; points are left out."""
    return [line for path in paths for line in _read(path)]


def coast_lines(bounds: Bounds) -> list[Line]:
    """The coasts within these bounds and a little beyond, cut where they leave them."""
    with as_file(files(__package__) / "coast.npz") as path, np.load(path) as packed:
        points, lengths = packed["steps"].cumsum(0) / 100, packed["lengths"]
    south, west, north, east = bounds
    beyond = 0.1 * max(north - south, east - west) + 0.5  # so that a line across a corner is not lost
    near = (np.abs(points[:, 0] - (west + east) / 2) < (east - west) / 2 + beyond) & (
        np.abs(points[:, 1] - (south + north) / 2) < (north - south) / 2 + beyond
    )
    line = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.flatnonzero(~near[1:] | ~near[:-1] | (np.diff(line) != 0)) + 1
    return [part.tolist() for part in np.split(points, ends) if len(part) > 1]


def _read(path: Path) -> list[Line]:
    try:
        if path.stat().st_size > LARGEST:
            raise SolidError(f"{path} is larger than {LARGEST / 1e6:.0f} MB; simplify its lines")
        shape = json.loads(path.read_text(encoding="utf-8-sig"))
        found = [[[float(x), float(y)] for x, y, *_ in line] for line in _lines(shape)]
    except OSError as error:
        raise SolidError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise SolidError(f"{path} is no sound GeoJSON; give a file of lines or polygons") from None
    if not found:
        raise SolidError(f"{path} holds neither lines nor polygons; give a file that does")
    return found


def _lines(shape: Any) -> Iterator[Any]:
    kind = shape["type"]
    if kind in ("FeatureCollection", "GeometryCollection"):
        for part in shape["features" if kind == "FeatureCollection" else "geometries"]:
            yield from _lines(part)
    elif kind == "Feature" and shape["geometry"] is not None:
        yield from _lines(shape["geometry"])
    elif kind == "LineString":
        yield shape["coordinates"]
    elif kind in ("Polygon", "MultiLineString"):
        yield from shape["coordinates"]
    elif kind == "MultiPolygon":
        for polygon in shape["coordinates"]:
            yield from polygon
