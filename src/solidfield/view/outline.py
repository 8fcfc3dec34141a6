"""The user's own lines over the map: coasts, districts, roads, from GeoJSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import SolidError

LARGEST = 20_000_000  # bytes of one file

Line = list[list[float]]  # of (x, y)


def outline_of(paths: Sequence[Path]) -> list[Line]:
    """Every ring of polygons and every line of these files; points are left out."""
    return [line for path in paths for line in _read(path)]


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
