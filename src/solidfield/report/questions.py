"""Judge a run of questions by the readings of its test frames: at known places, at unread ones, at every lead.

Some sensors are kept away (`exam.py`), and their readings judge the run, its prior, simple rules and trees alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..engine import Progress
from ..errors import SolidError
from ..keys import evenly, numpy_generator
from ..models.stretch import KINDS
from ..prediction.answer import Scene, answer, answer_shown
from ..prediction.laws import LATENTS, moments
from ..prediction.predict import provenance
from ..questions.record import SPLITS, Record
from ..scores.metrics import ripple, roughness
from ..scores.registry import TAIL
from ..scores.table import ScoreTable
from ..theory.distance import grid_distance
from ..training.record import RunRecord
from .ensembles import Drawn
from .exam import GAPS, KNOWN, Exam
from .findings import HIGH, PROBES, Evidence, Findings
from .rivals import kriged, physical, rivals, scene_of, tree_members
from .rules import LAST, NOW, climatology
from .scoring import judge
from .targets import Targets
from .verdict import verdict
from .words import group_of


def evaluate_questions(
    run: RunRecord,
    *,
    members: int = 100,
    scenes: int | None = None,
    leads: Sequence[int] | None = None,
    seed: int = 0,
    past_only: bool = False,
    progress: Progress | None = None,
) -> Findings:
    """Judge a run of questions beside simple rules and its own prior, at several leads."""
    exam, known = Exam.of(run, seed, past_only), run.info["data"]["plan"]["leads"]
    chosen = [0, *evenly(np.array(known), min(3, len(known))).tolist()] if leads is None else list(leads)
    if max(chosen) > max(known, default=0):
        raise SolidError(
            f"the run {run.path} learned leads up to {max(known, default=0)}, not {max(chosen)}; judge those"
        )
    evidence, tables = list[Evidence](), list[ScoreTable]()
    for lead in chosen:
        table, found = _at_lead(exam, lead, members, scenes, progress)
        tables.append(table)
        evidence.append(found)
    table = ScoreTable.join(tables, _about(exam, members))
    return Findings(table, verdict(table), run, exam.held, _high(exam, HIGH), evidence)


def _high(exam: Exam, level: float) -> tuple[float, ...]:  # (C,)
    """A quantile of the training readings."""
    train = exam.record.of_split("train")
    values, channel = exam.record.values[train], exam.record.cells[train] // exam.run.grid.cells
    return tuple(float(np.quantile(values[channel == c], level)) for c in range(len(exam.run.variables)))


def _at_lead(
    exam: Exam, lead: int, members: int, scenes: int | None, progress: Progress | None
) -> tuple[ScoreTable, Evidence]:
    chosen, in_all = exam.frames(lead, scenes)
    run, probes = exam.run, _probes(exam, lead)
    names = (run.model.label(), "kriging", *(LAST if lead else NOW))
    usual = climatology(exam.record, exam.hours)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    rows, where, far, series, told, numbers = [], [], [], [], [], []
    for number, frame in enumerate(chosen):
        known, judged, begin, regions = exam.scene(number, int(frame), lead)
        if len(judged) == 0:  # nobody who is kept away was read: of few sensors that happens
            continue
        cells = exam.record.cells[judged]
        asked = np.concatenate([cells, probes])
        new = ~regions[KNOWN if lead else GAPS]
        scene = scene_of(known, int(frame) - begin, lead, asked, np.concatenate([new, np.zeros(len(probes), bool)]))
        standard = answer(run.model, known, scene, members, exam.seed, int(frame), as_read=True)
        errors = exam.standard.own_errors[judged]  # what judges is a reading: the field, and its error
        if errors.any():
            noise = numpy_generator(exam.seed, "errors", lead, int(frame)).standard_normal((members, len(cells)))
            standard[:, : len(cells)] += (errors * noise).astype(np.float32)
        drawn = physical(run, standard, asked)
        series.append(drawn[:, len(cells) :])
        parts[names[0]].append(drawn[:, : len(cells)])
        few = scene_of(known, int(frame) - begin, lead, cells, new)
        others, about = rivals(exam, known, few, members, usual, int(frame), errors)
        for name in names[1:]:
            parts[name].append(others[name])
        told.append(about)
        rows.append(judged)
        where.append(regions)
        far.append(_distance(known, few)[cells % run.grid.cells])
        numbers.append(number)
        if progress is not None:
            progress(f"{run.model.label()}, lead {lead}", number + 1, len(chosen))
    if not numbers:
        raise SolidError(
            f"{run.path} has no test frame in which a sensor that is kept away was read; hold out more days"
        )
    frames, counts = chosen[numbers], np.array([len(judged) for judged in rows])
    ensembles = {name: np.concatenate(found, 1).astype(np.float32) for name, found in parts.items()}
    channel = exam.record.cells[np.concatenate(rows)] // run.grid.cells
    ensembles |= tree_members(exam, lead, np.concatenate(told), channel, ensembles["climatology"])
    targets = _targets(exam, lead, frames, np.concatenate(rows), where, np.concatenate(far), counts)
    reach = {name: _reach(exam, targets, c) for c, name in enumerate(run.variables)}
    tail = _high(exam, TAIL)
    table = judge(targets, ensembles, run, run.scaling.physical_std, in_all, beyond=reach, tail=tail)
    picture = int(np.argmax(counts))
    whole, shown, given, later = _picture(exam, numbers[picture], int(frames[picture]), lead, members)
    own = Drawn([ensembles[names[0]]], np.stack(series, 1), whole, shown)
    return table, Evidence(table.leads[0], targets, ensembles, own, picture, probes, given, later)


def texture(exam: Exam, scenes: int = 8) -> dict[str, dict[str, float]]:
    """By variable, over kriging's: how rough the mean map is, and its power at the grid's highest frequencies.

    `rougher` is the root mean square step between neighbouring cells, `rippled` the larger ratio along either axis.
    All sensors are given, and cells with a sensor do not count (`_without_sensors`). The means are those of the laws,
    which a map shows. What makes these large is not said by readings and fields, so they should stay near one.
    """
    run, plan = exam.run, exam.run.info["data"]["plan"]
    shape = (len(run.variables), *run.grid.shape)
    cells = np.flatnonzero(np.broadcast_to(run.grid.inside, shape).ravel())
    steps = np.zeros((2, len(run.variables)))  # squared: of the run, of kriging
    power = np.zeros((2, len(run.variables), 2))  # along y, along x
    for frame in exam.frames(0, scenes)[0].tolist():
        begin = max(frame - plan["before"], 0)
        known = exam.standard.window(begin, frame + 1 + (0 if exam.past_only else plan["after"]))
        scene = scene_of(known, frame - begin, 0, cells)
        own = answer_shown(run.model, known, scene, 0, exam.seed, run.scaling)[1][0]
        rival = moments(torch.from_numpy(kriged(run, known, scene, LATENTS[:, None])))[0].numpy()
        counts = _without_sensors(known, frame - begin, shape)
        for row, mean in enumerate((own, rival)):
            field = np.zeros(shape)
            field.reshape(-1)[cells] = mean
            for c, (one, mask) in enumerate(zip(field, counts, strict=True)):
                if _any_neighbours(mask):
                    steps[row, c] += roughness(one, run.grid.periodic, 1.0, mask) ** 2
                    power[row, c] += np.nan_to_num(ripple(one, mask))
    rough, rippled = np.sqrt(steps[0] / np.maximum(steps[1], 1e-30)), (power[0] / np.maximum(power[1], 1e-30)).max(1)
    ratios = {"rougher": rough, "rippled": rippled}
    return {word: dict(zip(run.variables, ratio.tolist(), strict=True)) for word, ratio in ratios.items()}


def _without_sensors(known: Record, frame: int, shape: tuple[int, int, int]) -> np.ndarray:  # (C, H, W) bool
    """Cells of the map that were not read within the window; of a variable that leaves no two, not in the frame.

    What sets a cell apart that was read an hour before is its own reading.
    """
    masks = []
    for read in (known.cells, known.cells[known.frames == frame]):
        mask = np.broadcast_to(known.grid.inside, shape).copy()
        mask.reshape(-1)[read] = False
        masks.append(mask)
    return np.stack([window if _any_neighbours(window) else now for window, now in zip(*masks, strict=True)])


def _any_neighbours(mask: np.ndarray) -> bool:  # (H, W) bool
    return bool((mask[1:] & mask[:-1]).any() or (mask[:, 1:] & mask[:, :-1]).any())


def _distance(known: Record, scene: Scene) -> np.ndarray:  # (H * W,)
    """To the nearest sensor of the last known frame that has any."""
    frames = known.frames[known.frames <= scene.frame[0] + scene.last[0]] if len(scene.frame) else known.frames
    mask = np.zeros(known.grid.cells, bool)
    if len(frames):
        closest = frames[np.abs(frames - scene.frame[0]).argmin()] if len(scene.frame) else frames[-1]
        mask[known.cells[known.frames == closest] % known.grid.cells] = True
    return grid_distance(mask.reshape(known.grid.shape), known.grid).ravel()


def _targets(
    exam: Exam,
    lead: int,
    frames: np.ndarray,
    rows: np.ndarray,
    where: Sequence[dict[str, np.ndarray]],
    far: np.ndarray,
    counts: np.ndarray,
) -> Targets:
    cells = exam.run.grid.cells
    regions = {name: np.concatenate([one[name] for one in where]) for name in where[0]}
    regions = {"all": np.ones(len(rows), bool)} | {name: mask for name, mask in regions.items() if mask.any()}
    return Targets(
        lead=lead,
        examples=frames,
        times=exam.times[frames],
        hours=np.unique(exam.hours),
        scene=np.repeat(np.arange(len(frames)), counts),
        channel=exam.record.cells[rows] // cells,
        cell=exam.record.cells[rows] % cells,
        values=exam.record.values[rows],
        distance=far,
        groups=exam.day[frames],
        regions=regions,
    )


def _probes(exam: Exam, lead: int) -> np.ndarray:  # (S,) flat cells of (C, H, W)
    """Places whose series is drawn, those with most readings first: unread ones; of a few sensors there are none, and
    ahead it is theirs. At the time of the readings theirs are known, and no prediction."""
    never = np.logical_or.reduce([exam.aside, *exam.held.values()]).ravel()
    cells, counts = np.unique(exam.record.cells[exam.record.of_split("test")], return_counts=True)
    chosen = [np.empty(0, np.int64)]
    for c in range(len(exam.run.variables)):
        mine = cells // exam.run.grid.cells == c
        unread = mine & never[cells % exam.run.grid.cells]
        mine = unread if unread.any() or lead == 0 else mine
        chosen.append(cells[mine][np.argsort(-counts[mine], kind="stable")][:PROBES])
    return np.concatenate(chosen)


def _picture(
    exam: Exam, number: int, frame: int, lead: int, members: int
) -> tuple[np.ndarray, ...]:  # (K, C, H, W) members; (2, C, H, W) laws; (C, H, W) readings given, and those that judge
    run = exam.run
    known, judged, begin, _ = exam.scene(number, frame, lead)
    shape = (len(run.variables), *run.grid.shape)
    inside = np.flatnonzero(np.broadcast_to(run.grid.inside, shape).ravel())
    scene = scene_of(known, frame - begin, lead, inside)
    standard, shown = answer_shown(run.model, known, scene, members, exam.seed, run.scaling, number=frame)
    maps = np.full((members + 2, int(np.prod(shape))), np.nan, np.float32)
    maps[:, inside] = np.concatenate([physical(run, standard, inside), shown])
    whole = maps.reshape(-1, *shape)
    given, later = np.full((2, int(np.prod(shape))), np.nan, np.float32)
    latest = known.frames == frame - begin - lead
    given[known.cells[latest]] = physical(run, known.values[latest][None], known.cells[latest])[0]
    later[exam.record.cells[judged]] = exam.record.values[judged]
    return whole[:members], whole[members:], given.reshape(shape), later.reshape(shape)


def _reach(exam: Exam, targets: Targets, c: int) -> tuple[float, float]:
    """The largest distance that was scored, and how much of the map lies farther from every place that is read."""
    away = targets.distance[(targets.channel == c) & np.isfinite(targets.distance)]
    grid, limit = exam.run.grid, float(away.max(initial=0.0))
    read = np.isin(np.arange(grid.cells), exam.record.places).reshape(grid.shape)
    far = grid_distance(read, grid)
    return limit, float((far[grid.inside] > limit).mean())


def _departure(run: RunRecord) -> dict[str, dict[str, float]]:
    """By variable, how far laws of unread places go from kriging's (0) to the network's own (1)."""
    kinds = {"now": KINDS.index("unread"), "ahead": KINDS.index("unread, ahead 1")}
    return {
        name: {word: round(float(run.model.departure[c, kind]), 2) for word, kind in kinds.items()}
        for c, name in enumerate(run.variables)
    }


def _about(exam: Exam, members: int) -> dict[str, Any]:
    run, record = exam.run, exam.record
    never = run.never_supervised.numpy() & run.grid.inside
    frames = {name: int((record.split == place).sum()) for place, name in enumerate(SPLITS)}
    scenario = {name: value for name, value in run.info["data"]["holdout"].items() if value is not None}
    return {
        "judged_by": "held-out readings",
        "group": group_of(scenario),
        "sides": "past" if exam.past_only else "both",
        "map": {
            "cells": int(run.grid.inside.sum()),
            "never_supervised": {name: int(never[c].sum()) for c, name in enumerate(run.variables)},
            "held": {name: int(mask.sum()) for name, mask in exam.held.items()},
            "aside": int(exam.aside.sum()),
            "departure": _departure(run),
            **texture(exam),
        },
        "data": {
            "fingerprint": run.info["data"]["fingerprint"],
            "grid": " x ".join(map(str, run.grid.shape)),
            "examples": {name: count for name, count in frames.items() if count},
            "readings": len(record.values),
            "leads": run.info["data"]["leads"],
            "transforms": list(run.scaling.transforms or ("none",)),
            "scenario": scenario,
            "clock": run.info["data"]["holdout"]["timezone"] or "UTC",
        },
        "run": provenance(run, exam.seed, members) | {"trained_on_this_store": True},
    }
