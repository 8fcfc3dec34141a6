"""GeoTIFF laid out for the cloud (COG): what must be read first comes first, so that a program fetches what it shows.

    header | directories: the map, then its overviews | tiles: those of the smallest overview first, of the map last

A directory is a list of tags (TIFF 6.0), among them where the tiles are and, of the map, where it lies on the Earth
(OGC GeoTIFF 1.1). Numbers are float32, NaN where there is none, in tiles of 256 x 256, packed by differences of their
bytes and deflate. Tiles wait in files beside the result, so that memory is that of a tile, whatever the map. Beyond
4 GB offsets take 64 bits (BigTIFF).
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..disk import TEMPORARY, atomic, remove

TILE = 256
LARGE = 4_000_000_000  # bytes that offsets of 32 bits can reach, with room for the directories
SHORT, LONG, DOUBLE, LONG8, ASCII = 3, 4, 12, 16, 2  # types of TIFF
CODES = {SHORT: "H", LONG: "I", DOUBLE: "d", LONG8: "Q"}

Tag = tuple[int, int, Any]  # code, type, values or text
Read = Callable[[int, slice, slice], np.ndarray]  # band, rows, columns -> (h, w) float32


@dataclass(frozen=True)
class Raster:
    """All but the numbers of a map whose first row is the northernmost."""

    shape: tuple[int, int, int]  # bands, rows, columns
    corner: tuple[float, float]  # x and y of the outer corner of the first cell
    cell: tuple[float, float]  # width and height of a cell
    metadata: str  # XML, as GDAL reads it
    epsg: int | None = None  # of the coordinates; None: not known
    degrees: bool = False  # are they latitude and longitude?


def write_geotiff(path: Path, raster: Raster, read: Read, told: Callable[[int, int], None] | None = None) -> None:
    """Write a map that `read` gives tile by tile; `told` is called with the bands that are done, of how many."""
    bands, *shape = raster.shape
    shapes = list(_halvings(shape[0], shape[1]))
    sizes: list[list[int]] = [[] for _ in shapes]  # bytes of each tile of each level
    folder = path.with_name(f"{TEMPORARY}tiles-{path.name}")
    packed = [folder / f"tiles-{level}" for level in range(len(shapes))]
    with atomic(path) as part:
        remove(folder)  # what a killed process left
        folder.mkdir()
        try:
            for band in range(bands):
                for level, tile in _pyramid(shapes, partial(read, band), folder):
                    content = pack(tile)
                    sizes[level].append(len(content))
                    with open(packed[level], "ab") as tiles:
                        tiles.write(content)
                if told is not None:
                    told(band + 1, bands)
            with open(part, "wb") as out:
                out.write(_head(raster, shapes, sizes))
                for path_of_tiles in reversed(packed):
                    with open(path_of_tiles, "rb") as waiting:
                        shutil.copyfileobj(waiting, out)
        finally:
            remove(folder)


def _halvings(height: int, width: int) -> Iterator[tuple[int, int]]:
    """The map and its overviews, down to one tile."""
    yield height, width
    while max(height, width) > TILE:
        height, width = -(-height // 2), -(-width // 2)
        yield height, width


def _pyramid(
    shapes: Sequence[tuple[int, int]], read: Callable[[slice, slice], np.ndarray], folder: Path
) -> Iterator[tuple[int, np.ndarray]]:
    """Tiles of all levels, filled up with NaN; a level is made on the disk while the one before it goes by."""
    for level, (height, width) in enumerate(shapes):
        last = level + 1 == len(shapes)
        half = None if last else np.memmap(folder / f"half-{level % 2}", np.float32, "w+", shape=shapes[level + 1])
        for top in range(0, height, TILE):
            for left in range(0, width, TILE):
                rows, columns = slice(top, min(top + TILE, height)), slice(left, min(left + TILE, width))
                values = read(rows, columns)
                if half is not None:
                    smaller = halve(values)
                    h, w = smaller.shape
                    half[top // 2 : top // 2 + h, left // 2 : left // 2 + w] = smaller
                tile = np.full((TILE, TILE), np.nan, np.float32)
                tile[: values.shape[0], : values.shape[1]] = values
                yield level, tile
        read = partial(_part, half)


def _part(values: Any, rows: slice, columns: slice) -> np.ndarray:
    return values[rows, columns]


def halve(values: np.ndarray) -> np.ndarray:  # (h, w) -> (h / 2, w / 2), rounded up
    """Means of 2 x 2 cells, of those that have a value.

    >>> halve(np.array([[1.0, 3.0, 5.0], [np.nan, 5.0, 7.0]]))
    array([[3., 6.]])
    """
    h, w = values.shape
    even = np.pad(values, ((0, h % 2), (0, w % 2)), constant_values=np.nan)
    blocks = even.reshape((h + 1) // 2, 2, (w + 1) // 2, 2)
    known = ~np.isnan(blocks)
    count = known.sum((1, 3))
    total = np.where(known, blocks, 0).sum((1, 3))
    return np.divide(total, count, out=np.full(total.shape, np.nan, total.dtype), where=count > 0)


def pack(tile: np.ndarray) -> bytes:  # (n, n) float32
    """TIFF's predictor 3, which helps smooth maps: bytes of equal weight side by side, then their differences."""
    n = len(tile)
    planes = tile.astype(">f4").view(np.uint8).reshape(n, n, 4).transpose(0, 2, 1).reshape(n, 4 * n)
    return zlib.compress(np.diff(planes, axis=1, prepend=np.zeros((n, 1), np.uint8)).tobytes())


def _head(raster: Raster, shapes: Sequence[tuple[int, int]], sizes: Sequence[Sequence[int]]) -> bytes:
    """Header and directories, with the places that the tiles will have behind them."""
    total = sum(map(sum, sizes))
    offset = LONG8 if total > LARGE else LONG
    zeros = [np.zeros(len(of_level), np.int64) for of_level in sizes]
    end = len(_encode(_directories(raster, shapes, sizes, zeros, offset), offset))  # places change none of its length
    places = {}
    for level in reversed(range(len(sizes))):
        stops = end + np.cumsum(sizes[level])
        places[level] = stops - sizes[level]
        end = int(stops[-1])
    return _encode(_directories(raster, shapes, sizes, [places[level] for level in range(len(sizes))], offset), offset)


def _directories(
    raster: Raster,
    shapes: Sequence[tuple[int, int]],
    sizes: Sequence[Sequence[int]],
    places: Sequence[np.ndarray],
    offset: int,
) -> list[list[Tag]]:
    bands = raster.shape[0]
    found = []
    for level, (height, width) in enumerate(shapes):
        tags: list[Tag] = [
            (254, LONG, [int(level > 0)]),  # an overview?
            (256, LONG, [width]),
            (257, LONG, [height]),
            (258, SHORT, [32] * bands),
            (259, SHORT, [8]),  # deflate
            (262, SHORT, [1]),  # the larger, the brighter
            (277, SHORT, [bands]),
            (284, SHORT, [2 if bands > 1 else 1]),  # one band after the other
            (317, SHORT, [3]),  # see `pack`
            (322, SHORT, [TILE]),
            (323, SHORT, [TILE]),
            (324, offset, places[level]),
            (325, LONG, sizes[level]),
            *([(338, SHORT, [0] * (bands - 1))] if bands > 1 else []),  # further bands are no colours
            (339, SHORT, [3] * bands),  # IEEE floats
            *(_where(raster) if level == 0 else []),
            *([(42112, ASCII, raster.metadata)] if level == 0 else []),
            (42113, ASCII, "nan"),
        ]
        found.append(tags)
    return found


def _where(raster: Raster) -> list[Tag]:
    """Scale, corner, and keys of GeoTIFF: the kind of coordinates, cells as areas, the code of the coordinates."""
    (x, y), (width, height) = raster.corner, raster.cell
    keys = [(1025, 1)]
    if raster.epsg is not None:
        keys = [(1024, 2), *keys, (2048, raster.epsg)] if raster.degrees else [(1024, 1), *keys, (3072, raster.epsg)]
    listed = [1, 1, 0, len(keys), *(word for key, value in keys for word in (key, 0, 1, value))]
    return [(33550, DOUBLE, [width, height, 0.0]), (33922, DOUBLE, [0.0, 0.0, 0.0, x, y, 0.0]), (34735, SHORT, listed)]


def _encode(directories: Sequence[Sequence[Tag]], offset: int) -> bytes:
    """TIFF's bytes: values that fit into their entry stand there, others behind their directory."""
    big = offset == LONG8
    word, count = ("Q", "Q") if big else ("I", "H")
    out = bytearray(struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16) if big else struct.pack("<2sHI", b"II", 42, 8))
    room = struct.calcsize(f"<{word}")
    for number, tags in enumerate(directories):
        behind = len(out) + struct.calcsize(f"<{count}") + len(tags) * (4 + 2 * room) + room
        out += struct.pack(f"<{count}", len(tags))
        more = bytearray()
        for code, kind, values in tags:
            content = values.encode() + b"\0" if kind == ASCII else struct.pack(f"<{len(values)}{CODES[kind]}", *values)
            length = len(content) if kind == ASCII else len(values)
            if len(content) > room:
                content, more = (
                    struct.pack(f"<{word}", behind + len(more)),
                    more + content + b"\0" * (-len(content) % 8),
                )
            out += struct.pack(f"<HH{word}", code, kind, length) + content.ljust(room, b"\0")
        following = behind + len(more) if number + 1 < len(directories) else 0
        out += struct.pack(f"<{word}", following) + more
    return bytes(out)
