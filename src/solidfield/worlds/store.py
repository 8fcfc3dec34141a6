"""The truth store: simulated trajectories in a Zarr v3 group, in chunks, resumable, at constant memory.

    truth     (trajectory, frame, channel, y, x) float32, one file for `chunk` trajectories, with a checksum
    finished  (chunk,) int64, the size in bytes of each chunk's file once it is safely on disk, 0 before
    time, y, x  coordinates; attributes: the world's parameters, grid, variables, shifts

A chunk is written under another name, renamed, synchronised, and only then recorded as finished, so after a
crash at any moment the unrecorded chunks are computed again, to the same bits. Only `observe.py`
brings truth and masks together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..disk import atomic, flush, writing
from ..engine import Progress
from ..errors import SolidError
from ..grid import Grid

FORMAT = "solidfield-truth-1"
DIMENSIONS = ("trajectory", "frame", "channel", "y", "x")


# apply(function, items) -> (item, what the function returned or raised), in any order
Apply = Callable[[Callable[[range], np.ndarray], Sequence[range]], Iterable[tuple[range, Any]]]


class World(Protocol):
    """What can be simulated: trajectories that are pure functions of their index."""

    @property
    def grid(self) -> Grid: ...

    @property
    def frames(self) -> int: ...

    @property
    def times(self) -> np.ndarray: ...  # (F,), first frame = 0

    @property
    def variables(self) -> tuple[str, ...]: ...  # C names

    @property
    def shifts(self) -> tuple[int, int]: ...  # translations in cells along (y, x) that the law allows; 0: none

    def trajectories(self, indices: Sequence[int]) -> np.ndarray: ...  # (n, F, C, H, W) float32

    def describe(self) -> dict[str, Any]: ...  # all parameters that determine the data


@dataclass(frozen=True)
class Truth:
    """A complete truth store, open for reading."""

    path: Path
    count: int  # trajectories
    grid: Grid
    times: np.ndarray  # (F,)
    variables: tuple[str, ...]  # C names
    shifts: tuple[int, int]
    world: dict[str, Any]  # the parameters it was made with
    array: zarr.Array[Any]  # (count, F, C, H, W)

    @property
    def frames(self) -> int:
        return len(self.times)

    def read(self, indices: Sequence[int]) -> np.ndarray:  # (n, F, C, H, W) float32
        """These trajectories, in this order."""
        wanted = np.asarray(indices, np.int64).reshape(-1)
        outside = wanted[(wanted < 0) | (wanted >= self.count)]
        if len(outside):
            raise SolidError(f"{self.path} has trajectories 0 to {self.count - 1}, not {outside[0]}")
        if len(wanted) == 0:
            return np.empty((0, *self.array.shape[1:]), np.float32)
        rows, order = np.unique(wanted, return_inverse=True)
        try:
            values = self.array.oindex[rows]
        except ValueError as error:
            raise SolidError(f"{self.path} is damaged ({error}); delete it and simulate again") from None
        return np.asarray(values, np.float32)[order]


def write_truth(
    world: World,
    path: str | Path,
    trajectories: int,
    chunk: int = 16,  # trajectories a file: a few megabytes, and a few seconds of work lost by a crash
    progress: Progress | None = None,
    apply: Apply | None = None,  # how to compute chunks elsewhere; None: here, one after another
) -> Truth:
    """Simulate into a store, or finish one that was begun with the same parameters (in its own chunks).

    Parameters
    ----------
    world : World
        What to simulate (`gaussian_world`, `NavierStokes`).
    path : path
        Folder of the store; one that is complete is opened.
    trajectories : int
        How many.
    chunk : int, default 16
        Trajectories a file: a few megabytes, and a few seconds of work lost by a crash.
    progress : callable, optional
        Called as `progress(what, done, total)`, with numbers of trajectories.
    apply : callable, optional
        Computes chunks elsewhere. Default: here, one after another.

    Returns
    -------
    Truth
        The complete store, open for reading.

    Raises
    ------
    SolidError
        If the folder holds a truth of other parameters, or cannot be written.

    Examples
    --------
    >>> from solidfield import gaussian_world
    >>> truth = write_truth(gaussian_world(cells=8, frames=3), "truth.zarr", trajectories=4)
    >>> truth.count, truth.read([2]).shape  # (trajectory, frame, variable, y, x)
    (4, (1, 3, 1, 8, 8))
    """
    path = Path(path)
    if trajectories < 1 or chunk < 1:
        raise SolidError(f"trajectories={trajectories} and chunk={chunk} must be at least 1")
    attributes = _attributes(world, trajectories)
    with writing(path, "mend that and run simulate again to resume"):
        if path.is_dir() and any(path.iterdir()):
            _refuse_difference(path, _read_attributes(path), attributes)
        else:
            with atomic(path) as part:
                _create(part, world, attributes, min(chunk, trajectories))
        _fill(world, path, progress, apply or _here)
    return open_truth(path)


def open_truth(path: str | Path) -> Truth:
    """Open a complete truth store for reading.

    Parameters
    ----------
    path : path
        A folder that `write_truth` or `solid simulate` wrote.

    Returns
    -------
    Truth
        Grid, times, variables and parameters of the world; `read(indices)` gives float32 fields (n, F, C, H, W).

    Raises
    ------
    SolidError
        If there is no such store, or it is not finished.

    Examples
    --------
    >>> from solidfield import gaussian_world
    >>> _ = write_truth(gaussian_world(cells=8, frames=3), "truth.zarr", trajectories=4)
    >>> open_truth("truth.zarr").times.tolist()
    [0.0, 0.1, 0.2]
    """
    path = Path(path)
    attributes = _read_attributes(path)
    group = zarr.open_group(path, mode="r")
    sizes, finished = _chunks(path, group)
    if not finished.all():
        done = f"{sizes[finished].sum()} of {sizes.sum()}"
        raise SolidError(f"{path} is incomplete: {done} trajectories; run simulate again to resume")
    return Truth(
        path=path,
        count=int(attributes["trajectories"]),
        grid=Grid.from_dict(attributes["grid"]),
        times=np.asarray(_array(group, "time")[:]),
        variables=tuple(attributes["variables"]),
        shifts=(int(attributes["shifts"][0]), int(attributes["shifts"][1])),
        world=dict(attributes["world"]),
        array=_array(group, "truth"),
    )


def _attributes(world: World, trajectories: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "trajectories": trajectories,
        "world": world.describe(),
        "grid": world.grid.as_dict(),
        "variables": list(world.variables),
        "shifts": list(world.shifts),
    }


def _read_attributes(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise SolidError(f"{path} does not exist; make it with solid simulate")
    try:
        attributes = dict(zarr.open_group(path, mode="r").attrs)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        attributes = {}
    if attributes.get("format") != FORMAT:
        raise SolidError(f"{path} is not a truth store of this version; give a path that solid simulate wrote")
    return attributes


def _refuse_difference(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    """One store, one world: name the first parameter that differs."""
    before, now = ({**plain["world"], "trajectories": plain["trajectories"]} for plain in (there, here))
    for name in [*now, *before]:
        old, new = before.get(name), now.get(name)
        if old != new:
            raise SolidError(f"{path} was made with {name}={old}, not {new}; use another path or delete it")


def _create(path: Path, world: World, attributes: dict[str, Any], chunk: int) -> None:
    """An empty store."""
    group = zarr.create_group(path, attributes=attributes)
    shape = (world.frames, len(world.variables), *world.grid.shape)
    group.create_array(
        "truth",
        shape=(attributes["trajectories"], *shape),
        chunks=(chunk, *shape),
        dtype="float32",
        fill_value=np.nan,  # a gap can never pass for data
        compressors=[Crc32cCodec()],  # turbulence does not compress; a checksum finds damage
        dimension_names=DIMENSIONS,
    )
    files = -(-attributes["trajectories"] // chunk)
    group.create_array("finished", shape=(files,), dtype="int64", chunks=(files,), dimension_names=("chunk",))
    for name, values, dimension in (("time", world.times, "frame"), ("y", world.grid.y, "y"), ("x", world.grid.x, "x")):
        group.create_array(name, data=np.asarray(values), dimension_names=(dimension,))


def _fill(world: World, path: Path, progress: Progress | None, apply: Apply) -> None:
    group = zarr.open_group(path, mode="r+")
    truth, record = _array(group, "truth"), _array(group, "finished")
    sizes, finished = _chunks(path, group)
    starts = np.cumsum(sizes) - sizes
    done, total = int(sizes[finished].sum()), int(sizes.sum())
    if progress is not None:
        progress("simulating trajectories", done, total)
    missing = {int(starts[n]): n for n in np.flatnonzero(~finished).tolist()}
    for rows, fields in apply(world.trajectories, [range(a, a + int(sizes[n])) for a, n in missing.items()]):
        if isinstance(fields, Exception):
            raise fields
        n = missing[rows.start]
        truth[rows.start : rows.stop] = fields
        record[n] = _synchronise(_chunk_file(path, n))
        _synchronise(path / "finished" / "c" / "0")
        done += len(rows)
        if progress is not None:
            progress("simulating trajectories", done, total)


def _here(function: Callable[[range], np.ndarray], items: Sequence[range]) -> Iterable[tuple[range, Any]]:
    return ((item, function(item)) for item in items)


def _chunks(path: Path, group: zarr.Group) -> tuple[np.ndarray, np.ndarray]:  # (chunks,) int, (chunks,) bool
    """Trajectories in each chunk, and whether its file is there in the size that was recorded."""
    truth, recorded = _array(group, "truth"), np.asarray(_array(group, "finished")[:])
    edges = np.minimum(np.arange(len(recorded) + 1) * truth.chunks[0], truth.shape[0])
    present = [(f := _chunk_file(path, n)).is_file() and f.stat().st_size == size for n, size in enumerate(recorded)]
    return np.diff(edges), np.array(present) & (recorded > 0)


def _chunk_file(path: Path, n: int) -> Path:
    return path.joinpath("truth", "c", str(n), "0", "0", "0", "0")


def _synchronise(file: Path) -> int:
    """Force a file and its entry in the folder to disk; its size in bytes."""
    for target in (file, file.parent):
        flush(target)
    return file.stat().st_size


def _array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    array = group.get(name)
    if not isinstance(array, zarr.Array):
        raise SolidError(f"{group.store_path} has no array '{name}'; it is damaged, delete it and simulate again")
    return array
