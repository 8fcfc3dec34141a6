"""Large maps of sets, drawn and written in pieces: memory is bounded whatever the map, its sensors and its members.

A piece is a square of cells of one map with its members, a whole number of tiles (`answer.py`), so it has the laws and
the bits of the whole, in any order and on any worker. It goes straight into the shards of a store (`stream.py`), which
takes its name when it is whole; what is finished is noted, and a killed prediction goes on where it stopped.

What hangs together across a map cannot be drawn piece by piece: its latents (`theory/trajectories.py`) are drawn first,
into a file beside the numbers, from which every piece reads its own, and which goes when the map is there.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
import zarr

from ..disk import TEMPORARY, digest, remove, writing
from ..engine import Engine, Progress, spread_all
from ..errors import SolidError
from ..models.solid_set import SolidSet
from ..questions.record import Record
from ..training.record import RunRecord
from . import stream
from .answer import Scene, answer_shown, scene_latents
from .ask import quantile_name
from .ensemble import GIB
from .shares import opened
from .stream import Piece, begin, end, go_on, missing, parts

VALUE = 160  # bytes for every value of a map while its latents are drawn, besides the latents themselves
DRAWN = 24  # bytes for every value of a member while a piece is drawn


@dataclass(frozen=True)
class Whole:
    """A map, or one at several leads, and the readings that it may know."""

    query: int
    number: int  # maps have noise of their own
    record: Record
    scene: Scene


@dataclass(frozen=True)
class Part:
    """A piece, and all that a worker must be told of it."""

    piece: Piece
    record: Record
    scene: Scene  # its values alone
    place: np.ndarray  # (n,) where they stand in the whole


@dataclass(frozen=True)
class Drawing:
    """How to draw: the same for all pieces."""

    run: RunRecord | Path  # the run that is here, or where a worker finds it
    told: SolidSet | None  # a model instead of the run's own
    store: Path
    members: int  # 0: none are kept
    seed: int
    quantiles: tuple[float, ...]
    as_read: bool

    @property
    def opened(self) -> RunRecord:
        return opened(self.run) if isinstance(self.run, Path) else self.run

    @property
    def model(self) -> SolidSet:
        return self.told or self.opened.model

    def latents(self, query: int) -> Path:
        return self.store / f".latents-{query}.npy"


def stream_sets(
    run: RunRecord,
    record: Record,  # values standardised
    scenes: Sequence[Scene],  # of all cells of the domain, lead after lead
    numbers: Sequence[int],
    leads: int,
    template: xr.Dataset,  # the maps without their numbers, see `stream.placeholder`
    out: Path,
    *,
    members: int,
    seed: int,
    quantiles: Sequence[float],
    as_read: bool,
    told: SolidSet | None,
    max_memory: float,  # GiB
    engine: Engine,
    progress: Progress | None,
) -> None:
    """Draw all maps into the store, or what is missing in one that was begun for the same maps."""
    need = VALUE * max(len(scene.frame) for scene in scenes) / GIB
    if members and need > max_memory:
        raise SolidError(
            f"a map of {len(scenes[0].frame):,} values needs {need:,.1f} GiB while its members are drawn, more than "
            f"{max_memory:g}; ask for fewer leads or without members, take larger cells, or raise max_memory"
        )
    known = [run.info["config_hash"], run.info["data"]["fingerprint"], _fingerprint(record, scenes, told)]
    asked = digest([*known, seed, members, list(numbers), list(quantiles), as_read])
    part = begin(out, template, asked)
    where = run if engine.kind == "here" else run.path.resolve()
    drawing = Drawing(where, told, part.resolve(), members, seed, tuple(quantiles), as_read)
    per_query = squares(run.grid.shape, leads, members, max_memory)
    todo = [replace(piece, query=query) for query in range(len(scenes)) for piece in per_query]
    waiting = missing(part, todo)
    queries = sorted({piece.query for piece in waiting})
    for start in range(0, len(queries), engine.jobs):
        some = queries[start : start + engine.jobs]
        wholes = {query: Whole(query, numbers[query], *scenes[query].among(record)) for query in some}
        fresh = [whole for query, whole in wholes.items() if members and not drawing.latents(query).exists()]
        list(spread_all(partial(draw_latents, drawing, max_memory), fresh, engine))
        items = (told_of(piece, wholes[piece.query], leads) for piece in waiting if piece.query in wholes)
        go_on(part, partial(draw_part, drawing), items, engine, progress, len(todo))
        for query in some:
            remove(drawing.latents(query))
    end(part, out)


def squares(shape: tuple[int, int], leads: int, members: int, max_memory: float) -> list[Piece]:
    """Whole shards; of many members as many at a time as fit, since the laws of a piece are made once for them."""
    side, most = stream.SHARD[1], int(max_memory * GIB / 4 / (DRAWN * stream.SHARD[1] ** 2))
    rows, columns = (parts(length, side, side) for length in shape)
    some = parts(members, max(most, 1), stream.SHARD[0]) if members else [(0, 0)]
    return [Piece(0, y, k, x, lead) for lead in range(leads) for y in rows for x in columns for k in some]


def told_of(piece: Piece, whole: Whole, leads: int) -> Part:
    """The values of a piece among those of its map."""
    assert piece.columns is not None
    (_, width), per = whole.record.grid.shape, whole.record.grid.cells
    count = len(whole.scene.frame) // leads
    cell = whole.scene.cell[:count] % per
    inside = (cell // width >= piece.rows[0]) & (cell // width < piece.rows[1])
    inside &= (cell % width >= piece.columns[0]) & (cell % width < piece.columns[1])
    place = piece.lead * count + np.flatnonzero(inside)
    return Part(piece, whole.record, whole.scene.part(place), place)


def draw_latents(drawing: Drawing, max_memory: float, whole: Whole) -> None:
    """What the members of a map have in common with one another from cell to cell, into a file of its own."""
    path, count = drawing.latents(whole.query), drawing.members
    begun = path.with_name(f"{TEMPORARY}{path.name}")
    with writing(path):
        z = np.lib.format.open_memmap(begun, "w+", np.float32, (len(whole.scene.frame), count))
        file: mmap.mmap = z._mmap  # type: ignore[attr-defined]
        touched = 0

        def forget(values: int) -> None:
            """What was written leaves this process: the file has it."""
            nonlocal touched
            touched += 4 * count * values
            if touched > max_memory * GIB / 8 and hasattr(mmap, "MADV_DONTNEED"):
                file.madvise(mmap.MADV_DONTNEED)
                touched = 0

        words = (drawing.members, drawing.seed, whole.number, torch.from_numpy(z), forget)
        scene_latents(drawing.model, whole.record, whole.scene, *words)
        z.flush()
        os.rename(begun, path)


def draw_part(drawing: Drawing, part: Part) -> None:
    """One piece, by the run that a worker opens, into the store; where no cell counts there is nothing to write."""
    if not len(part.place):
        return
    piece, run = part.piece, drawing.opened
    assert piece.columns is not None
    first, last = piece.members
    latents = torch.empty(0, len(part.place))
    if last:
        kept = np.load(drawing.latents(piece.query), mmap_mode="r")
        latents = torch.from_numpy(kept[part.place, first:last]).T
    told: dict[str, Any] = {"as_read": drawing.as_read, "latents": latents}
    asked = (part.record, part.scene, last - first, drawing.seed, run.scaling, drawing.quantiles)
    members, laws = answer_shown(drawing.model, *asked, **told)
    channel = torch.from_numpy(part.scene.cell // run.grid.cells)
    physical = run.scaling.physical_of(torch.from_numpy(members), channel).numpy()
    group = zarr.open_group(drawing.store, mode="r+")
    for name, values in _arrays(run, part, drawing, physical, laws):
        array: Any = group[name]
        where = (piece.query, piece.lead, slice(*piece.rows), slice(*piece.columns))
        array[(slice(first, last), *where) if values.ndim == 3 else where] = values


def _arrays(
    run: RunRecord, part: Part, drawing: Drawing, members: np.ndarray, laws: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:  # (K, n), (2 + Q, n) -> names with (K, h, w), or (h, w)
    """What is written of a piece: its members, and with the first of them the laws."""
    piece, width = part.piece, run.grid.shape[1]
    assert piece.columns is not None
    shape = piece.rows[1] - piece.rows[0], piece.columns[1] - piece.columns[0]
    place = part.scene.cell % run.grid.cells
    at = (place // width - piece.rows[0]) * shape[1] + place % width - piece.columns[0]

    def unfolded(values: np.ndarray, mine: np.ndarray) -> np.ndarray:  # (k, n) -> (k, h, w)
        maps = np.full((len(values), shape[0] * shape[1]), np.nan, np.float32)
        maps[:, at[mine]] = values[:, mine]
        return maps.reshape(len(values), *shape)

    for c, name in enumerate(run.variables):
        mine = np.flatnonzero(part.scene.cell // run.grid.cells == c)
        if len(members):
            yield name, unfolded(members, mine)
        if piece.members[0] == 0:
            names = (f"{name}_mean", f"{name}_std", *(quantile_name(name, q) for q in drawing.quantiles))
            yield from zip(names, unfolded(laws, mine), strict=True)


def _fingerprint(record: Record, scenes: Sequence[Scene], told: SolidSet | None) -> str:
    """Of readings, of what is asked about them and what each may know, and of widths that the run did not have."""
    content = hashlib.sha256()
    for array in (record.offsets, record.cells, record.values, record.own_errors, record.calendar, record.static):
        content.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    for scene in scenes:
        for array in (scene.frame, scene.cell, scene.first, scene.last):
            content.update(np.ascontiguousarray(array).tobytes())
    if told is not None:
        content.update(told.stretch.numpy().tobytes())
    return content.hexdigest()
