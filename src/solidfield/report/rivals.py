"""The rivals of a run of questions, scene by scene: kriging, rules and trees, with the readings that the run has.

Every member of a rival is a draw of its law, as every member of the run is: one judge scores all, and takes members for
draws.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..keys import evenly, numpy_generator
from ..prediction.answer import AT_ONCE, Scene
from ..questions.record import SPLITS, Record
from ..training.record import RunRecord
from .exam import GAPS, KNOWN, Exam
from .rules import Desk
from .trees import NAMES, RULES, WIDTH, Trees, features

LESSONS = 240  # training frames that trees learn from ...
FEWEST = 30  # ... if they have so many readings


def scene_of(known: Record, frame: int, lead: int, cells: np.ndarray, new: np.ndarray | None = None) -> Scene:
    """Cells at a frame of a record that holds what may be known, and nothing else; `new`: taken for unread."""
    count, last = len(cells), -lead if lead else len(known) - 1 - frame
    return Scene(np.full(count, frame), cells, np.full(count, -frame), np.full(count, last), new=new)


def physical(run: RunRecord, values: np.ndarray, cells: np.ndarray) -> np.ndarray:  # (K, n)
    channel = torch.from_numpy(cells // run.grid.cells)
    return run.scaling.physical_of(torch.from_numpy(np.asarray(values, np.float32)), channel).numpy()


def fit_trees(exam: Exam, lead: int) -> dict[int, Trees]:  # by variable
    """Fitted to training frames, which are asked as test frames are and know training frames alone."""
    split, read = exam.record.split, np.diff(exam.record.offsets) > 0
    frames = evenly(np.flatnonzero((split == SPLITS.index("train")) & read), LESSONS)
    told: dict[int, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for number, frame in enumerate(frames):
        known, judged, begin, regions = exam.scene(number, int(frame), lead)
        known = known.without(np.flatnonzero(known.split[known.frames] != SPLITS.index("train")))
        held = [mask for name, mask in regions.items() if name not in ("left_out", GAPS, KNOWN)]
        judged = judged[~np.logical_or.reduce(held)] if held else judged
        scene = scene_of(known, int(frame) - begin, lead, exam.record.cells[judged])
        about, channel = _told(exam, known, scene, int(frame)), scene.cell // exam.run.grid.cells
        for c in np.unique(channel).tolist():
            rows = channel == c
            told.setdefault(c, []).append((about[rows], exam.record.values[judged[rows]], np.full(rows.sum(), frame)))
    found = {}
    for c, parts in told.items():
        about, answers, when = (np.concatenate(part) for part in zip(*parts, strict=True))
        if len(answers) >= FEWEST:
            found[c] = Trees.fit(about, answers, when, exam.seed)
    return found


def _told(exam: Exam, known: Record, scene: Scene, frame: int) -> np.ndarray:  # (n, F)
    """What rules say of each question, and what else trees are told."""
    readings = known.with_values(physical(exam.run, known.values[None], known.cells)[0])
    channel = scene.cell // exam.run.grid.cells
    told = np.empty((len(channel), WIDTH), np.float32)
    for c in np.unique(channel):
        rows = np.flatnonzero(channel == c)
        cells = scene.cell[rows] % exam.run.grid.cells
        told[rows] = features(Desk.of(readings, scene, rows), cells, exam.run.grid.shape, float(exam.hours[frame]))
    return told


def rivals(
    exam: Exam,
    known: Record,
    scene: Scene,
    members: int,
    usual: np.ndarray,  # (C, 24, Q) `climatology`
    frame: int,
    errors: np.ndarray,  # (n,) of the readings that judge
) -> tuple[dict[str, np.ndarray], np.ndarray]:  # each (K, n) or (1, n), physical units; and (n, F) for trees
    run, channel = exam.run, scene.cell // exam.run.grid.cells
    draws, shape = numpy_generator(exam.seed, "rivals", frame), (members, len(channel))
    latents = torch.from_numpy(draws.standard_normal(shape, np.float32))
    found = {"kriging": kriged(run, known, scene, latents, torch.from_numpy(errors))}
    usually = usual[channel, exam.hours[frame]]
    found["climatology"] = np.take_along_axis(usually.T, draws.integers(usually.shape[1], size=shape), 0)
    told = _told(exam, known, scene, frame)
    for name, answers in zip(RULES, told.T, strict=False):
        found[name] = np.where(np.isfinite(answers), answers, usually.mean(1))[None]
    return found, told


def tree_members(
    exam: Exam,
    lead: int,
    told: np.ndarray,  # (P, F) of all scenes
    channel: np.ndarray,  # (P,)
    usual: np.ndarray,  # (K, P) climatology, for variables that trees have too few readings of
) -> dict[str, np.ndarray]:  # (K, P) each
    """Trees are fitted to training frames, and asked for all scenes at once."""
    trees, draws = fit_trees(exam, lead), numpy_generator(exam.seed, "trees", lead)
    laws = {name: usual.copy() for name in NAMES}
    for c, fitted in trees.items():
        rows = channel == c
        if rows.any():
            for name, drawn in fitted.members(told[rows], len(usual), draws).items():
                laws[name][:, rows] = drawn
    return laws


def kriged(
    run: RunRecord, known: Record, scene: Scene, latents: Tensor, errors: Tensor | None = None
) -> np.ndarray:  # (K, n) or (K, 1) latents -> (K, n), physical units
    """The prior alone; with errors, of readings that have them."""
    found = []
    for start in range(0, len(scene.cell), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        questions, z = scene.questions(known, part), latents if latents.shape[1] == 1 else latents[:, part]
        found.append(run.model.prior_quantiles(questions, z, None if errors is None else errors[part]))
    return physical(run, torch.cat(found, 1).numpy(), scene.cell)
