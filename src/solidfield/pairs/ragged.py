"""Lists of unequal length on disk: Zarr arrays that grow, a store that appears only when complete, checksums.

E lists of readings are one flat array and offsets (E + 1,): list e is flat[offsets[e] : offsets[e + 1]].
Zarr reads a chunk that is missing as zeros, so a store keeps the checksum of every array and a damaged one
is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ..disk import atomic
from ..errors import SolidError

CHUNK = 2**18  # numbers per Zarr chunk: 1 MiB of float32


class Growing:
    """A Zarr array that grows at its end by whole chunks, and the checksum of what went in."""

    def __init__(self, group: zarr.Group, name: str, dtype: str, tail: tuple[int, ...] = ()):
        self.rows = max(1, CHUNK // int(np.prod(tail, dtype=np.int64)))  # per chunk
        self.array = group.create_array(name, shape=(0, *tail), chunks=(self.rows, *tail), dtype=dtype)
        self.dtype = dtype
        self.waiting: list[np.ndarray] = []
        self.buffered = 0
        self.length = 0
        self.checksum = hashlib.sha256()

    def add(self, rows: np.ndarray | list[Any]) -> None:
        block = np.array(rows, dtype=self.dtype)  # a copy: a view would keep the whole frame it was cut from
        self.waiting.append(block)
        self.buffered += len(block)
        self.length += len(block)
        if self.buffered >= self.rows:
            self.flush()

    def flush(self, everything: bool = False) -> None:
        if not self.buffered:
            return
        block = np.concatenate(self.waiting)
        ready = len(block) if everything else len(block) // self.rows * self.rows
        self.array.append(block[:ready])
        self.checksum.update(block[:ready].tobytes())
        self.waiting, self.buffered = [block[ready:].copy()], len(block) - ready


@contextmanager
def appearing(path: Path, kind: str) -> Iterator[zarr.Group]:
    """A new group that takes its name, or another's of its kind, when all went well; else it vanishes."""
    empty = path.is_dir() and not any(path.iterdir())
    if path.exists() and not empty and kind_of(path) != kind:
        raise SolidError(f"{path} exists and is not a {kind} store; choose another path or remove it")
    with atomic(path) as part:
        yield zarr.open_group(part, mode="w", zarr_format=3)


def label(group: zarr.Group, kind: str, version: int, attributes: dict[str, Any]) -> None:
    """Write what a store says of itself; numbers of NumPy become plain ones."""
    text = json.dumps(
        {"format": f"solidfield-{kind}", "version": version, **attributes}, default=lambda value: value.tolist()
    )
    group.attrs.update(json.loads(text))


def read_label(path: Path, kind: str, version: int) -> dict[str, Any]:
    """What the store says of itself, or an error that says why it is not one."""
    if not path.exists():
        raise SolidError(f"there is no {kind} store at {path}; check the path")
    if kind_of(path) != kind:
        raise SolidError(f"{path} is not a {kind} store; give the folder that was written as one")
    attributes = dict(zarr.open_group(path, mode="r").attrs)
    if attributes.get("version") != version:
        raise SolidError(
            f"{path} has format version {attributes.get('version')}, {version} is read here; write it anew"
        )
    return attributes


def kind_of(path: Path) -> str | None:
    """Which kind of store a folder is; None for anything else."""
    try:
        return str(zarr.open_group(path, mode="r").attrs.get("format")).removeprefix("solidfield-")
    except Exception:  # whatever Zarr makes of a folder that is something else
        return None


def load(path: Path, name: str, checksum: str) -> np.ndarray:
    """One whole array in memory, checked."""
    try:
        array = np.asarray(zarr.open_group(path, mode="r")[name][...])  # type: ignore[index]
        sound = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest() == checksum
    except Exception as error:  # missing or undecodable, in any of Zarr's ways
        raise SolidError(f"{path} is damaged ('{name}': {error}); write it anew") from error
    if not sound:
        raise SolidError(f"{path} is damaged (checksum of '{name}'); write it anew")
    return array


def positions(
    offsets: np.ndarray,  # (E + 1,)
    lists: Sequence[int] | np.ndarray,  # (B,) which lists
) -> tuple[np.ndarray, np.ndarray]:  # (N,) row of each entry in 0 .. B-1, (N,) its position in the flat array
    """The entries of some lists, one list after another, without a loop.

    >>> positions(np.array([0, 2, 3, 6]), [2, 0])
    (array([0, 0, 0, 1, 1]), array([3, 4, 5, 0, 1]))
    """
    starts = offsets[lists]
    lengths = offsets[np.asarray(lists) + 1] - starts
    ends = np.cumsum(lengths)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(len(rows)) + np.repeat(starts - (ends - lengths), lengths)
