"""Judge a run of questions by the readings of its test frames: at known places, at unread ones, at every lead.

At a test frame some sensors are kept away, and their readings judge:

    held_sensors   held for ever: neither trained on nor known
    set_aside      never taken for unread in training; their whole record is hidden
    left_out       a fifth of the others in turn, with their whole record; training has taken them for unread
    gaps           another fifth, with a gap of their record around the frame; only at the time of the readings
    known_places   ahead: all others, of which everything up to the start is known

The first three are places without a sensor, as every cell of a map is. Every model knows the same readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..clock import from_seconds, local
from ..engine import Progress
from ..errors import SolidError
from ..keys import evenly, numpy_generator
from ..pairs.holdout import FIRST_DAY
from ..pairs.records import set_aside, without_held
from ..prediction.answer import AT_ONCE, Scene, answer
from ..prediction.predict import provenance
from ..questions.asking import Hiding, ask
from ..questions.record import SPLITS, Record
from ..scores.metrics import roughness
from ..scores.table import ScoreTable
from ..theory.distance import grid_distance
from ..training.record import RunRecord
from .ensembles import Drawn
from .findings import HIGH, PROBES, Evidence, Findings
from .rules import LAST, NOW, Desk, climatology
from .scoring import judge
from .targets import Targets
from .verdict import verdict

FOLDS = 5
SCENES = 300  # test frames of a lead, evenly spaced, unless more are asked for


@dataclass(frozen=True)
class Exam:
    """The readings that judge a run, and who is kept away when."""

    run: RunRecord
    record: Record  # all readings, physical units
    standard: Record  # the same in the units of the model
    held: dict[str, np.ndarray]  # each (H, W) bool
    aside: np.ndarray  # (H, W) bool
    fold: np.ndarray  # (H * W,) of each place, -1 where nothing was ever read
    hours: np.ndarray  # (T,) of the day
    day: np.ndarray  # (T,)
    times: np.ndarray  # (T,) local
    seed: int
    past_only: bool

    @classmethod
    def of(cls, run: RunRecord, seed: int, past_only: bool) -> Exam:
        record, held = run.readings()
        taught = set_aside(without_held(record, held))
        aside = np.zeros(run.grid.shape, bool) if taught.aside is None else taught.aside
        free = taught.places[~aside.ravel()[taught.places]]
        fold = np.full(run.grid.cells, -1)
        fold[numpy_generator(seed, "folds").permutation(free)] = np.arange(len(free)) % FOLDS
        holdout = run.info["data"]["holdout"]
        times = local(from_seconds(record.start + record.step * np.arange(len(record))), holdout["timezone"] or "UTC")
        day = np.floor((times - FIRST_DAY).total_seconds().to_numpy() / (3600 * holdout["hours"])).astype(np.int64)
        standard = run.scaling.of_readings(record)
        return cls(
            run, record, standard, held, aside, fold, times.hour.to_numpy(), day, times.to_numpy(), seed, past_only
        )

    def frames(self, lead: int, scenes: int | None) -> tuple[np.ndarray, int]:  # (N,), and of how many
        """Test frames to ask about, in the order of time."""
        first = self.run.info["data"]["plan"]["before"] + lead
        read = np.diff(self.record.offsets) > 0
        test = np.flatnonzero((self.record.split == SPLITS.index("test")) & read)
        test = test[test >= min(first, len(self.record) // 2)]
        if len(test) == 0:
            raise SolidError(f"{self.run.path} kept no frame to be judged by; hold some days out when it is trained")
        return evenly(test, min(SCENES if scenes is None else scenes, len(test))), len(test)

    def scene(self, number: int, frame: int, lead: int) -> tuple[Record, np.ndarray, int, dict[str, np.ndarray]]:
        """What is known, which readings of the frame judge (positions in the record), where the window begins, regions.

        The known record is standardised and holds no reading that is kept away.
        """
        plan, cells = self.run.info["data"]["plan"], self.run.grid.cells
        begin = max(frame - (lead + plan["before"] - 1 if lead else plan["before"]), 0)
        end = frame + 1 + (0 if lead or self.past_only else plan["after"])
        window = self.standard.window(begin, end)
        place = window.cells % cells
        turn, gap = self.fold == number % FOLDS, self.fold == (number + 1) % FOLDS
        never = np.logical_or.reduce([self.aside, *self.held.values()]).ravel()
        away = never[place] | turn[place]
        if lead == 0:
            draw = numpy_generator(self.seed, "gap", frame).random(2)
            length = np.exp(draw[0] * np.log(plan["before"]))
            when = window.frames + begin - frame
            away |= gap[place] & (when >= -length * draw[1]) & (when <= length * (1 - draw[1]))
        rows = np.arange(self.record.offsets[frame], self.record.offsets[frame + 1])
        at = self.record.cells[rows] % cells
        regions = {name: mask.ravel()[at] for name, mask in self.held.items()}
        regions |= {"set_aside": self.aside.ravel()[at], "left_out": turn[at]}
        regions["known_places" if lead else "gaps"] = ~never[at] & ~turn[at] if lead else gap[at]
        asked = np.logical_or.reduce(list(regions.values()))
        return window.without(np.flatnonzero(away)), rows[asked], begin, {n: m[asked] for n, m in regions.items()}


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
    channel, train = exam.record.cells // run.grid.cells, exam.record.of_split("train")
    high = tuple(
        float(np.quantile(exam.record.values[train][channel[train] == c], HIGH)) for c in range(len(run.variables))
    )
    return Findings(table, verdict(table), run, exam.held, high, evidence)


def _at_lead(
    exam: Exam, lead: int, members: int, scenes: int | None, progress: Progress | None
) -> tuple[ScoreTable, Evidence]:
    frames, in_all = exam.frames(lead, scenes)
    run, probes = exam.run, _probes(exam)
    names = (run.model.label(), "kriging", *(LAST if lead else NOW))
    usual = climatology(exam.record, exam.hours, members)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    rows, where, far, series, counts = [], [], [], [], []
    for number, frame in enumerate(frames):
        known, judged, begin, regions = exam.scene(number, int(frame), lead)
        cells = exam.record.cells[judged]
        asked = np.concatenate([cells, probes])
        scene = _scene(known, int(frame) - begin, lead, asked)
        standard = answer(run.model, known, scene, members, exam.seed, int(frame))
        errors = exam.standard.own_errors[judged]  # what judges is a reading: the field, and its error
        if errors.any():
            noise = numpy_generator(exam.seed, "errors", lead, int(frame)).standard_normal((members, len(cells)))
            standard[:, : len(cells)] += (errors * noise).astype(np.float32)
        drawn = _physical(run, standard, asked)
        series.append(drawn[:, len(cells) :])
        parts[names[0]].append(drawn[:, : len(cells)])
        few = _scene(known, int(frame) - begin, lead, cells)
        for name, values in _rivals(exam, known, few, members, usual, int(frame), errors).items():
            if name in parts:
                parts[name].append(values)
        rows.append(judged)
        where.append(regions)
        far.append(_distance(known, few)[cells % run.grid.cells])
        counts.append(len(judged))
        if progress is not None:
            progress(f"{run.model.label()}, lead {lead}", number + 1, len(frames))
    ensembles = {name: np.concatenate(found, 1).astype(np.float32) for name, found in parts.items()}
    targets = _targets(exam, lead, frames, np.concatenate(rows), where, np.concatenate(far), np.array(counts))
    reach = {name: _reach(exam, targets, c) for c, name in enumerate(run.variables)}
    table = judge(targets, ensembles, run, run.scaling.physical_std, in_all, beyond=reach)
    picture = int(np.argmax(counts))
    whole, given, later = _picture(exam, picture, int(frames[picture]), lead, members)
    own = Drawn([ensembles[names[0]]], np.stack(series, 1), whole)
    return table, Evidence(table.leads[0], targets, ensembles, own, picture, probes, given, later)


def _scene(known: Record, frame: int, lead: int, cells: np.ndarray) -> Scene:
    """Cells at a frame of a record that holds what may be known, and nothing else."""
    count, last = len(cells), -lead if lead else len(known) - 1 - frame
    return Scene(np.full(count, frame), cells, np.full(count, -frame), np.full(count, last))


def _rivals(
    exam: Exam,
    known: Record,
    scene: Scene,
    members: int,
    usual: np.ndarray,
    frame: int,
    errors: np.ndarray,  # (n,) of the readings that judge
) -> dict[str, np.ndarray]:  # each (K, n) or (1, n), physical units
    run, count = exam.run, len(scene.cell)
    channel = scene.cell // run.grid.cells
    found = {"kriging": _kriged(run, known, scene, members, torch.from_numpy(errors))}
    found["climatology"] = usual[channel, exam.hours[frame]].T
    points = {name: np.empty((1, count)) for name in ("nearest", "persistence", "moved")}
    physical = known.with_values(_physical(run, known.values[None], known.cells)[0])
    for c in np.unique(channel):
        mine = np.flatnonzero(channel == c)
        desk, unknown = Desk.of(physical, scene, mine), usual[c, exam.hours[frame]].mean()
        for name, values in points.items():
            answers = getattr(desk, name)()
            values[0, mine] = np.where(np.isfinite(answers), answers, unknown)
    return found | points


def _kriged(
    run: RunRecord, known: Record, scene: Scene, members: int, errors: Tensor | None = None
) -> np.ndarray:  # (K, n), physical units
    """The prior alone, at evenly spaced levels; with errors, of readings that have them."""
    levels = torch.tensor([NormalDist().inv_cdf((k + 0.5) / members) for k in range(members)])[:, None]
    found = []
    for start in range(0, len(scene.cell), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        window = scene.frame[part], scene.cell[part], scene.first[part], scene.last[part]
        hiding = Hiding.nothing(len(window[0]))
        questions, own = (
            ask(known, *window, hiding, "test", torch.Generator()),
            None if errors is None else errors[part],
        )
        found.append(run.model.prior_quantiles(questions, levels, own))
    return _physical(run, torch.cat(found, 1).numpy(), scene.cell)


def rougher(exam: Exam, scenes: int = 3, members: int = 100) -> dict[str, float]:
    """By variable: the root mean square step between neighbouring cells of the mean map, over kriging's.

    All sensors are given; steps to cells that were read in the frame do not count. What makes it large is not said by
    readings and fields, so it should stay near one.
    """
    run, plan = exam.run, exam.run.info["data"]["plan"]
    shape = (len(run.variables), *run.grid.shape)
    cells = np.flatnonzero(np.broadcast_to(run.grid.inside, shape).ravel())
    steps = np.zeros((2, len(run.variables)))  # squared: of the run, of kriging
    for frame in exam.frames(0, scenes)[0].tolist():
        begin = max(frame - plan["before"], 0)
        known = exam.standard.window(begin, frame + 1 + (0 if exam.past_only else plan["after"]))
        scene = _scene(known, frame - begin, 0, cells)
        drawn = _physical(run, answer(run.model, known, scene, members, exam.seed, frame), cells)
        counts = np.isin(np.arange(int(np.prod(shape))), cells)
        counts[known.cells[known.frames == frame - begin]] = False
        for row, ensemble in enumerate((drawn, _kriged(run, known, scene, members))):
            field = np.zeros(len(counts))
            field[cells] = ensemble.mean(0)
            for c, (one, mask) in enumerate(zip(field.reshape(shape), counts.reshape(shape), strict=True)):
                steps[row, c] += roughness(one, run.grid.periodic, 1.0, mask) ** 2
    ratio = np.sqrt(steps[0] / np.maximum(steps[1], 1e-30))
    return {name: float(ratio[c]) for c, name in enumerate(run.variables)}


def _physical(run: RunRecord, values: np.ndarray, cells: np.ndarray) -> np.ndarray:  # (K, n)
    channel = torch.from_numpy(cells // run.grid.cells)
    return run.scaling.physical_of(torch.from_numpy(np.asarray(values, np.float32)), channel).numpy()


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


def _probes(exam: Exam) -> np.ndarray:  # (S,) flat cells of (C, H, W)
    """Places whose series is drawn: unread ones, those with most readings first."""
    never = np.logical_or.reduce([exam.aside, *exam.held.values()]).ravel()
    cells, counts = np.unique(exam.record.cells[exam.record.of_split("test")], return_counts=True)
    chosen = [np.empty(0, np.int64)]
    for c in range(len(exam.run.variables)):
        mine = (cells // exam.run.grid.cells == c) & never[cells % exam.run.grid.cells]
        chosen.append(cells[mine][np.argsort(-counts[mine], kind="stable")][:PROBES])
    return np.concatenate(chosen)


def _picture(
    exam: Exam, number: int, frame: int, lead: int, members: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (K, C, H, W) map; (C, H, W) readings given, and those that judge
    run = exam.run
    known, judged, begin, _ = exam.scene(number, frame, lead)
    shape = (len(run.variables), *run.grid.shape)
    inside = np.flatnonzero(np.broadcast_to(run.grid.inside, shape).ravel())
    scene = _scene(known, frame - begin, lead, inside)
    maps = np.full((members, int(np.prod(shape))), np.nan, np.float32)
    maps[:, inside] = _physical(run, answer(run.model, known, scene, members, exam.seed, frame), inside)
    given, later = np.full((2, int(np.prod(shape))), np.nan, np.float32)
    latest = known.frames == frame - begin - lead
    given[known.cells[latest]] = _physical(run, known.values[latest][None], known.cells[latest])[0]
    later[exam.record.cells[judged]] = exam.record.values[judged]
    return maps.reshape(members, *shape), given.reshape(shape), later.reshape(shape)


def _reach(exam: Exam, targets: Targets, c: int) -> tuple[float, float]:
    """The largest distance that was scored, and how much of the map lies farther from every place that is read."""
    away = targets.distance[(targets.channel == c) & np.isfinite(targets.distance)]
    grid, limit = exam.run.grid, float(away.max(initial=0.0))
    read = np.isin(np.arange(grid.cells), exam.record.places).reshape(grid.shape)
    far = grid_distance(read, grid)
    return limit, float((far[grid.inside] > limit).mean())


def _about(exam: Exam, members: int) -> dict[str, Any]:
    run, record = exam.run, exam.record
    never = run.never_supervised.numpy() & run.grid.inside
    frames = {name: int((record.split == place).sum()) for place, name in enumerate(SPLITS)}
    scenario = {name: value for name, value in run.info["data"]["holdout"].items() if value is not None}
    return {
        "judged_by": "held-out readings",
        "group": "day",
        "sides": "past" if exam.past_only else "both",
        "map": {
            "cells": int(run.grid.inside.sum()),
            "never_supervised": {name: int(never[c].sum()) for c, name in enumerate(run.variables)},
            "held": {name: int(mask.sum()) for name, mask in exam.held.items()},
            "aside": int(exam.aside.sum()),
            "rougher": rougher(exam),
        },
        "data": {
            "fingerprint": run.info["data"]["fingerprint"],
            "grid": " x ".join(map(str, run.grid.shape)),
            "examples": {name: count for name, count in frames.items() if count},
            "readings": len(record.values),
            "leads": run.info["data"]["leads"],
            "transforms": list(run.scaling.transforms or ("none",)),
            "scenario": scenario,
        },
        "run": provenance(run, exam.seed, members) | {"trained_on_this_store": True},
    }
