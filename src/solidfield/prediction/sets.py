"""Maps and filled records from a run of the model of sets: any place, any time, both sides.

A map at the time of readings knows what came before and after it (`past_only`: before); maps ahead have direct laws
of every lead, and assimilation is their window moving on; the gaps of every cell's record are filled a day at a time.
Members are coherent in space and time within a map, its leads, or a day of gaps; mean, spread and quantiles are of the
laws that members are draws of (`laws.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr

from ..clock import from_seconds
from ..engine import Engine, Progress
from ..errors import SolidError
from ..models.solid_set import SolidSet
from ..pairs.frames import Frames
from ..pairs.records import record_of
from ..questions.drawing import Plan
from ..questions.record import Record
from ..readings.stations import names_at
from ..theory.nearby import is_large
from ..training.record import RunRecord
from .answer import Scene, answer_shown
from .ask import QUANTILES
from .at_hand import SAID, TOO_FEW, recalibrated
from .ensemble import DRAWN, GIB, Summary, check_memory, join
from .maps import for_file, open_maps, to_dataset
from .predict import provenance
from .shares import draw_scenes
from .stream import placeholder
from .stream_sets import stream_sets

TOGETHER = 24  # frames whose gaps are drawn together
INTERVAL = (0.05, 0.5, 0.95)  # what is said of a gap
LONG_AGO = 0.9  # of maps for which what is usual counts less than so far, it is said
HELD = 4  # times that members are in memory while they are drawn, put on maps and joined


def standard_record(run: RunRecord, frames: Frames, ahead: int = 0) -> Record:
    """What was read, in the units of the model."""
    static = None if run.static is None else np.asarray(run.static)
    return run.scaling.of_readings(record_of(replace(frames, grid=run.grid), run.recipe, static, ahead=ahead))


def set_maps(
    run: RunRecord,
    frames: Frames,
    rows: np.ndarray,  # (N,) which frames to start from
    times: np.ndarray,  # (T,) that label maps
    leads: Sequence[int],  # (0,): at the time of the frames
    *,
    members: int = 100,
    seed: int = 0,
    past_only: bool = False,
    as_read: bool = False,  # what a sensor there would read, not the field?
    until: int | None = None,  # row of the last frame that may be known on the way; None: each frame itself
    quantiles: Sequence[float] = QUANTILES,
    keep_members: bool = True,
    max_memory: float = DRAWN,  # GiB
    notes: str = "",
    recalibrate: bool = False,  # are laws to be as the readings given ask?
    engine: Engine = Engine(),  # where scenes, and parts of them, are drawn
    progress: Progress | None = None,
    out: Path | None = None,  # a Zarr store to draw into, piece by piece; see `in_pieces`
) -> xr.Dataset:
    """Maps of these frames, or ahead of them."""
    _check_members(members)
    plan = run.info["data"]["plan"]
    record = standard_record(run, frames, ahead=max(leads))
    tick = np.round((frames.seconds - record.start) / record.step).astype(np.int64)
    inside = np.flatnonzero(np.tile(run.grid.inside.ravel(), len(run.variables)))
    size = (len(run.variables), *run.grid.shape)
    if out is None:
        check_memory(members, len(rows) if keep_members else 1, (len(leads), *size), max_memory)
    scenes = []
    for row in rows:
        if tuple(leads) == (0,):
            after = 0 if past_only else plan["after"]
            scenes.append(Scene.filling(np.full(len(inside), tick[row]), inside, plan["before"], after, tiled=True))
        else:
            last = int(tick[row] if until is None else tick[until])
            check_lead(run, int(tick[row]) + max(leads) - last)
            scenes.append(Scene.course(int(tick[row]), leads, inside, plan["before"], last, tiled=True))
    told = None  # workers open the run as it was trained
    if recalibrate:
        told = _recalibrated(run, record, None if tuple(leads) == (0,) and not past_only else int(tick[rows].min()))
    notes = "; ".join(filter(None, (notes, _said(run, record, tick[rows], told))))
    numbers, drawn = [int(tick[row]) for row in rows], members if keep_members else 0
    lead_time = (np.array(leads) * run.step * 1e9).round().astype("timedelta64[ns]")
    attributes = provenance(run, seed, members) | ({"notes": notes} if notes else {})

    def maps_of(summary: Summary) -> xr.Dataset:
        observed, taught = np.isfinite(frames.values[rows]), run.never_supervised.numpy()
        place = (run.grid, run.variables, run.units, observed, taught, times[rows], lead_time)
        return to_dataset(summary, *place, None, attributes, frames.values[rows])

    drawing: dict[str, Any] = {"members": drawn, "seed": seed, "as_read": as_read, "quantiles": quantiles}
    if out is not None:
        template = for_file(maps_of(placeholder((len(rows), len(leads), *size), drawn, quantiles, "law")))
        where: dict[str, Any] = {"told": told, "max_memory": max_memory, "engine": engine, "progress": progress}
        stream_sets(run, record, scenes, numbers, len(leads), template, out, **drawing, **where)
        return open_maps(out)
    found = dict[int, Summary]()
    for place, values, laws in draw_scenes(run, record, scenes, numbers, engine, told, scaling=run.scaling, **drawing):
        standard, shown = (_on_the_map(part, inside, len(leads), size) for part in (values, laws))
        kept = run.scaling.restore(torch.from_numpy(standard)).numpy() if keep_members else None
        found[place] = Summary(shown[0], shown[1], dict(zip(quantiles, shown[2:], strict=True)), kept, "law")
        if progress is not None:
            progress("drawing scenes", len(found), len(rows))
    return maps_of(join([found[place] for place in range(len(rows))]))


def _said(run: RunRecord, record: Record, frames: np.ndarray, told: SolidSet | None) -> str:  # (n,) that are asked for
    """What to say of answers in another season than that of training; `told`: recalibrated, if it was asked for."""
    if told is not None:
        return TOO_FEW if told is run.model else SAID
    still = run.model.still(torch.from_numpy(record.start + record.step * frames.astype(np.float64)))
    if not len(frames) or float(still.min()) > LONG_AGO or not bool(run.model.usual.any()):
        return ""
    return (
        f"what was usual at places in training counts for {100 * float(still.min()):.0f} % at these times; "
        "--recalibrate asks the readings given how far to trust the run"
    )


def in_pieces(
    run: RunRecord, out: Path | None, members: int, times: int, leads: int, max_memory: float, keep_members: bool
) -> bool:
    """Are these maps drawn into their store piece by piece? Large ones are, and all that memory would not hold."""
    if out is None or out.suffix != ".zarr":
        return False
    held = 4 * (members if keep_members else 1) * times * leads * len(run.variables) * run.grid.cells
    return is_large(run.grid) or HELD * held > max_memory * GIB


def _on_the_map(
    values: np.ndarray,  # (K, L * n)
    inside: np.ndarray,  # (n,) flat cells of (C, H, W)
    leads: int,  # L
    size: tuple[int, ...],  # (C, H, W)
) -> np.ndarray:  # (K, 1, L, C, H, W), NaN elsewhere
    maps = np.full((len(values), 1, leads, int(np.prod(size))), np.nan, np.float32)
    maps[:, 0, :, inside] = values.reshape(len(values), leads, len(inside)).transpose(2, 0, 1)
    return maps.reshape(*maps.shape[:3], *size)


def _check_members(members: int) -> None:
    if members < 1:
        raise SolidError(f"members is {members}; ask for at least 1")


def check_lead(run: RunRecord, lead: int) -> None:
    """Refuse a lead that the run never learned."""
    most = max(run.info["data"]["plan"]["leads"], default=0)
    if lead > most:
        raise SolidError(
            f"the run {run.path} learned leads up to {most}, not {lead}; ask for fewer steps, or train it with --leads"
        )


def _recalibrated(run: RunRecord, record: Record, last: int | None) -> SolidSet:
    plan = Plan(**(run.info["data"]["plan"] | {"leads": tuple(run.info["data"]["plan"]["leads"])}))
    return recalibrated(run.model, record, plan, last)


def fill_record(
    run: RunRecord, frames: Frames, members: int, seed: int, past_only: bool, keep: bool, recalibrate: bool = False
) -> pd.DataFrame:
    """Every reading, and a law for every gap of the record of every cell that was ever read."""
    _check_members(members)
    plan = run.info["data"]["plan"]
    record = standard_record(run, frames)
    if recalibrate and past_only:
        raise SolidError("widths that all readings ask for look on what came later; leave recalibrate or past_only out")
    told = _recalibrated(run, record, None) if recalibrate else None
    model = told or run.model
    cells, column = np.unique(record.cells, return_inverse=True)
    read = np.zeros((len(record), len(cells)), bool)
    read[record.frames, column] = True
    frame, place = np.nonzero(~read)
    cell = cells[place]
    check_memory(members, 1, (len(frame),), DRAWN)
    drawn, laws = np.empty((members if keep else 0, len(frame)), np.float32), np.empty((5, len(frame)), np.float32)
    for number, block in enumerate(np.unique(frame // TOGETHER)):
        mine = np.flatnonzero(frame // TOGETHER == block)
        scene = Scene.filling(frame[mine], cell[mine], plan["before"], 0 if past_only else plan["after"])
        drawn[:, mine], laws[:, mine] = answer_shown(
            model, record, scene, len(drawn), seed, run.scaling, INTERVAL, number, as_read=True
        )
    _, _, low, median, high = laws
    gaps = _table(run, record, frame, cell).assign(value=median, low=low, high=high, filled=True)
    if keep:
        channel = torch.from_numpy(cell // run.grid.cells)
        values = run.scaling.physical_of(torch.from_numpy(drawn), channel).numpy()
        gaps = gaps.join(pd.DataFrame(values.T, columns=[f"member_{k}" for k in range(members)]))
    given = np.isfinite(frames.values)
    t, flat = np.nonzero(given.reshape(len(given), -1))
    ticks = np.round((frames.seconds[t] - record.start) / record.step).astype(np.int64)
    known = _table(run, record, ticks, flat).assign(value=frames.values.reshape(len(given), -1)[t, flat], filled=False)
    y, x = run.grid.axes
    filled = pd.concat([known, gaps]).sort_values(["time", "variable", y, x], kind="stable").reset_index(drop=True)
    if frames.stations:
        iy, ix = run.grid.index(filled[y].to_numpy(), filled[x].to_numpy())
        filled.insert(1, "sensor", names_at(frames.stations, run.grid)[iy * run.grid.shape[1] + ix])
    notes = _said(run, record, frame, told)
    filled.attrs |= {"notes": notes} if notes else {}
    return filled


def _table(run: RunRecord, record: Record, frame: np.ndarray, cell: np.ndarray) -> pd.DataFrame:
    """Where and when, in words of the run."""
    y, x = run.grid.axes
    place = cell % run.grid.cells
    return pd.DataFrame(
        {
            "time": from_seconds(record.start + record.step * frame),
            y: np.round(run.grid.y, 10)[place // run.grid.shape[1]],  # 22.46, not 22.460000000000001
            x: np.round(run.grid.x, 10)[place % run.grid.shape[1]],
            "variable": np.asarray(run.variables)[cell // run.grid.cells],
        }
    )
