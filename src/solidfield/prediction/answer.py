"""Members at any places and times from a record of readings: one law per question, one joint draw per scene.

A scene is a set of (frame, cell) that belong together: a map, a map at several leads, the gaps of a week. Each value
has the law of its own question; what hangs together in space and time does so in every member, since the latents of a
scene are drawn together (`theory/trajectories.py`). Members come in mirrored pairs, z and -z: each is a draw of the
joint law, and their mean is free of most of the noise of drawing. What was read is as it was read, within its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..models.solid_set import SolidSet
from ..noise import MemberNoise
from ..questions.asking import Hiding, ask
from ..questions.record import Record
from ..theory.trajectories import joint_latents

AT_ONCE = 1024  # questions answered together


@dataclass(frozen=True)
class Scene:
    """Values that are asked for together."""

    frame: np.ndarray  # (N,)
    cell: np.ndarray  # (N,) flat in (C, H, W)
    first: np.ndarray  # (N,) the window of each question, relative to its frame
    last: np.ndarray  # (N,)

    @classmethod
    def course(cls, frame: int, leads: Sequence[int], cells: np.ndarray, before: int, until: int) -> Scene:
        """Cells at several leads after a frame, each given what was read up to its own time, and never after `until`.

        With `until` = `frame` it is a forecast; with a later one the window moves on, which is assimilation.
        """
        when = frame + np.repeat(leads, len(cells))
        last = np.minimum(until - when, 0)
        return cls(when, np.tile(cells, len(leads)), np.where(last < 0, last - before + 1, -before), last)

    @classmethod
    def filling(cls, frame: np.ndarray, cell: np.ndarray, before: int, after: int) -> Scene:
        """Any places and times, given what was read around each; `after` = 0 looks on nothing later."""
        return cls(frame, cell, np.full(len(frame), -before), np.full(len(frame), after))


def answer(
    model: SolidSet,
    record: Record,  # values standardised
    scene: Scene,
    members: int,
    seed: int,
    number: int = 0,  # of the scene: scenes have their own noise
) -> np.ndarray:  # (K, N) standardised
    """Draw members of a scene."""
    z = _latents(model, record, scene, MemberNoise(seed, [number], range((members + 1) // 2)))
    z = torch.stack([z, -z], 1).flatten(0, 1)[:members]
    parts = []
    for start in range(0, len(scene.frame), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        frame, cell = scene.frame[rows], scene.cell[rows]
        questions = ask(
            record,
            frame,
            cell,
            scene.first[rows],
            scene.last[rows],
            Hiding.nothing(len(frame)),
            "test",
            torch.Generator(),
        )
        parts.append(model.quantiles(questions, z[:, rows]))
    return _pinned(record, scene, torch.cat(parts, 1), z).numpy()


def _latents(model: SolidSet, record: Record, scene: Scene, noise: MemberNoise) -> Tensor:  # (K, N)
    width, cells = record.grid.shape[1], record.grid.cells
    begin = int(np.clip((scene.frame + scene.first).min(), 0, len(record)))
    end = int(np.clip((scene.frame + scene.last).max() + 1, begin, len(record)))
    rows = slice(record.offsets[begin], record.offsets[end])
    frame, flat = record.frames[rows], record.cells[rows]
    errors = np.zeros(len(flat), np.float32) if record.errors is None else record.errors[rows]
    places, sites = (
        torch.from_numpy(np.stack([t, c % cells // width, c % cells % width, c // cells], 1))
        for t, c in ((scene.frame, scene.cell), (frame, flat))
    )
    return joint_latents(model.prior, places, sites, torch.from_numpy(errors).square(), noise)


def _pinned(record: Record, scene: Scene, values: Tensor, z: Tensor) -> Tensor:
    """Where the scene asks for what was read, the reading itself, within its error."""
    size = len(record.variables) * record.grid.cells
    key, asked = record.frames * size + record.cells, scene.frame * size + scene.cell
    place = np.searchsorted(key, asked).clip(max=max(len(key) - 1, 0))
    if not len(key):
        return values
    known = torch.from_numpy((key[place] == asked) & (scene.last >= 0))
    reading = torch.from_numpy(record.values[place])
    error = torch.zeros(()) if record.errors is None else torch.from_numpy(record.errors[place])
    return torch.where(known, reading + error * z, values)
