"""Ensembles of large maps, drawn and written in pieces: memory is bounded whatever the map and its members.

A piece is a band of rows and some members of one query. Members have noise of their own and every cell its own readings
and crops, so pieces are what the whole would be, in any order and on any worker. They go straight into the shards of a
Zarr store (a file holds many chunks, and no two pieces share one); when all are there, mean, standard deviation and
quantiles are computed band by band. What is finished is noted, so that a killed prediction goes on where it stopped;
the store takes its name when it is whole. Maps of sets are written into the same stores (`stream_sets.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
import zarr
from torch import Tensor

from ..disk import digest, flush, read_json, refuse_existing, remove, save_dataset, write_json, writing
from ..engine import Engine, Progress, spread_all
from ..fields import Source
from ..noise import MemberNoise, Noise
from ..training.record import RunRecord
from .ensemble import GIB, Summary, keep_digits, members_at_once
from .shares import opened

SHARD, CHUNK = (32, 256), (32, 64)  # members, and rows as well as columns, of a file and of a chunk in it
LAW = 768  # bytes that the laws of a cell take while members are drawn from them
NOTES = "pieces.json"


@dataclass(frozen=True)
class Piece:
    """Some members of one query in some rows; of maps of sets also in some columns and at one lead."""

    query: int
    rows: tuple[int, int]
    members: tuple[int, int]
    columns: tuple[int, int] | None = None  # None: all
    lead: int = 0


def pieces(
    queries: int, shape: tuple[int, ...], members: int, max_memory: float, jobs: int
) -> list[Piece]:  # shape: (C, H, W)
    """Whole shards of members and rows, as many as fit: few bands, since a member's noise is made for each of them."""
    channels, height, width = shape
    rows = int(max_memory * GIB / 2 / (LAW * channels * width))
    bands = parts(height, min(rows, -(-height // jobs)), SHARD[1])
    some = parts(members, members_at_once(max_memory, shape), SHARD[0])
    return [Piece(query, band, part) for query in range(queries) for band in bands for part in some]


def parts(length: int, most: int, shard: int) -> list[tuple[int, int]]:
    step = max(1, most // shard) * shard
    return [(start, min(start + step, length)) for start in range(0, length, step)]


def stream(
    run: RunRecord,
    source: Source,  # physical units, N queries
    template: xr.Dataset,  # the maps without their numbers, see `placeholder`
    out: Path,
    members: int,
    *,
    keep_members: bool,
    seed: int,
    queries: Sequence[int] | None,
    max_memory: float,
    engine: Engine,
    progress: Progress | None,
) -> None:
    """Draw all pieces into the store, or those that are missing in one that was begun for the same maps."""
    identities = list(range(len(source))) if queries is None else list(queries)
    known = [run.info["config_hash"], run.info["data"]["fingerprint"], _fingerprint(source)]
    asked = digest([*known, seed, members, identities])
    part = begin(out, template, asked)
    todo = pieces(len(source), tuple(source.values.shape[1:]), members, max_memory, engine.jobs)
    work = partial(draw_piece, run.path.resolve(), source, part.resolve(), seed, identities, asked)
    waiting = missing(part, todo)
    go_on(part, work, waiting, engine, progress, len(todo))
    _summarise(part, run.variables, max_memory, progress)
    for name in () if keep_members else (*run.variables, "member"):
        remove(part / name)
    end(part, out)


def begin(out: Path, template: xr.Dataset, asked: str) -> Path:
    """The store that is to take the name `out`: what was begun for the same question, or all but the numbers."""
    refuse_existing(out)
    part = out.with_name(f"{out.name}-unfinished")
    if not ((part / NOTES).exists() and read_json(part / NOTES)["asked"] == asked):
        _create(part, template, asked)
    return part


def missing(part: Path, todo: Sequence[Piece]) -> list[Piece]:
    done = set(read_json(part / NOTES)["done"])
    return [piece for piece in todo if str(piece) not in done]


def go_on(
    part: Path,
    work: Callable[[Any], None],
    waiting: Iterable[Any],  # pieces, or what has one
    engine: Engine,
    progress: Progress | None,
    total: int,
) -> None:
    """Do the work of these pieces, and note each when it is there."""
    notes = read_json(part / NOTES)
    for item, _ in spread_all(work, waiting, engine):
        notes["done"].append(str(getattr(item, "piece", item)))
        write_json(part / NOTES, notes)
        if progress is not None:
            progress("drawing pieces", len(notes["done"]), total)


def end(part: Path, out: Path) -> None:
    """Give the store its name."""
    (part / NOTES).unlink()
    with writing(out):
        os.rename(part, out)
        flush(out.parent)


def placeholder(
    shape: tuple[int, ...],  # (N, L, C, H, W)
    members: int,  # 0: none are to be kept
    quantiles: Sequence[float],
    of: str = "members",
) -> Summary:
    """A summary that takes no memory, for the names, dimensions and attributes of maps yet to be drawn."""
    nothing = np.broadcast_to(np.float32(np.nan), shape)
    drawn = np.broadcast_to(nothing, (members, *shape)) if members else None
    return Summary(nothing, nothing, dict.fromkeys(quantiles, nothing), drawn, of)


def _create(part: Path, template: xr.Dataset, asked: str) -> None:
    remove(part)
    drawn = [name for name in template.data_vars if "lead_time" in template[name].dims]
    with writing(part):
        save_dataset(template.drop_vars(drawn), part.with_suffix(".zarr"))
        os.rename(part.with_suffix(".zarr"), part)
    group = zarr.open_group(part)
    for name in drawn:
        values = template[name]
        side = [SHARD[1] if size > SHARD[1] else size for size in values.shape[-2:]]
        inner = [CHUNK[1] if size % CHUNK[1] == 0 else size for size in side]
        first = (SHARD[0],) if "member" in values.dims else ()
        group.create_array(
            str(name),
            shape=values.shape,
            shards=(*first, 1, 1, *side),
            chunks=(*first, 1, 1, *inner),
            dtype="float32",
            fill_value=float("nan"),
            dimension_names=[str(dim) for dim in values.dims],
            attributes=dict(values.attrs),
        )
    write_json(part / NOTES, {"asked": asked, "done": []})


def draw_piece(
    path: Path, source: Source, part: Path, seed: int, identities: list[int], asked: str, piece: Piece
) -> None:
    """One piece, by the run at `path`, into the store."""
    run, sample, one, standard = _laws(path, source, asked, piece)
    rows, numbers = slice(*piece.rows), range(*piece.members)
    noise = MemberNoise(seed, [identities[piece.query]], numbers)
    drawn = sample(len(numbers), noise)  # (k, 1, C, h, W)
    physical = run.scaling.restore(drawn)
    cropped = [query.map(lambda x: x[..., rows, :] if x.ndim > 2 else x) for query in (one, standard)]
    keep_digits(physical, drawn, *cropped)
    group = zarr.open_group(part, mode="r+")
    for c, name in enumerate(run.variables):
        array: Any = group[name]
        array[slice(*piece.members), piece.query, 0, rows] = physical[:, 0, c].numpy()


Laws = tuple[RunRecord, Callable[[int, Noise], Tensor], Source, Source]
_KEPT: dict[tuple[Any, ...], Laws] = {}  # those of the last band: pieces of one band follow each other


def _laws(path: Path, source: Source, asked: str, piece: Piece) -> Laws:
    """The run, how it draws in these rows, and the query in physical and in standard units."""
    key = (path, asked, piece.query, piece.rows)
    if key not in _KEPT:
        _KEPT.clear()
        run = opened(path)
        one = source[piece.query : piece.query + 1]
        standard = run.scaling.standardise(one)
        _KEPT[key] = run, run.model.eval().drawing(standard, slice(*piece.rows)), one, standard
    return _KEPT[key]


def _summarise(part: Path, variables: Sequence[str], max_memory: float, progress: Progress | None) -> None:
    """Mean, standard deviation and quantiles of all members, band by band."""
    group: Any = zarr.open_group(part, mode="r+")
    for name in variables:
        members = group[name]
        count, queries, _, height, width = members.shape
        keys = [path.name for path in part.glob(f"{name}_q*")]
        levels = {key: group[key].attrs["quantile"] for key in keys}
        for query in range(queries):
            for start, stop in parts(height, int(max_memory * GIB / 4 / (8 * count * width)), SHARD[1]):
                values = np.sort(members[:, query, 0, start:stop], axis=0)  # (K, h, W)
                at = (query, 0, slice(start, stop))
                group[f"{name}_mean"][at] = values.mean(0, dtype=np.float64)
                group[f"{name}_std"][at] = values.std(0, ddof=min(1, count - 1), dtype=np.float64)
                for key, level in levels.items():
                    low = int(level * (count - 1))
                    high, share = min(low + 1, count - 1), level * (count - 1) - low
                    group[key][at] = values[low] + share * (values[high] - values[low])
                if progress is not None:
                    progress(f"summarising {name}", stop, height)


def _fingerprint(source: Source) -> str:
    content = hashlib.sha256()
    for tensor in (source.values, source.mask, source.lead, source.covariates):
        if tensor is not None:
            content.update(torch.as_tensor(tensor).contiguous().numpy().tobytes())
    return content.hexdigest()
