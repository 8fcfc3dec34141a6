"""Members at any places and times from a record of readings: one law per question, one joint draw per scene.

A scene is a set of (frame, cell) that belong together: a map, a map at several leads, the gaps of a week. Each value
has the law of its own question; what hangs together in space and time does so in every member, since the latents of a
scene are drawn together (`theory/trajectories.py`). Members come in mirrored pairs, z and -z: each is a draw of the
joint law, and their mean is free of most of the noise of drawing.

What was read without error is as it was read. A reading y with an error e meets the law of its place given the others,
of mean m and variance s^2, as Gaussian laws meet (exact where they are): every member x becomes

    m' + (s' / s) (x - m),      m' = (m e^2 + y s^2) / (e^2 + s^2),      s'^2 = e^2 s^2 / (e^2 + s^2),

so an error of any size leaves what it should: none the reading, a huge one the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..models.solid_set import SolidSet
from ..noise import MemberNoise
from ..questions.asking import Hiding, Questions, ask
from ..questions.record import Record
from ..theory.trajectories import joint_latents

AT_ONCE = 1024  # questions answered together
NODES = 16  # latents that tell the mean and the variance of a law, by the rule of Gauss and Hermite


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
    as_read: bool = False,  # what a sensor would read, its offset included? Else the field
    part: tuple[int, int] | None = None,  # which of its values, from a multiple of AT_ONCE on: the bits of the whole
) -> np.ndarray:  # (K, N) standardised
    """Draw members of a scene, or of a part of it."""
    z = _latents(model, record, scene, MemberNoise(seed, [number], range((members + 1) // 2)))
    z = torch.stack([z, -z], 1).flatten(0, 1)[:members]
    reading, error = _read_there(record, scene)
    parts = []
    begin, end = part or (0, len(scene.frame))
    for start in range(begin, end, AT_ONCE):
        rows = slice(start, min(start + AT_ONCE, end))
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
        values = model.quantiles(questions, z[:, rows], as_read)
        parts.append(_updated(model, questions, values, reading[rows], error[rows], as_read))
    return torch.cat(parts, 1).numpy()


def _latents(model: SolidSet, record: Record, scene: Scene, noise: MemberNoise) -> Tensor:  # (K, N)
    width, cells = record.grid.shape[1], record.grid.cells
    begin = int(np.clip((scene.frame + scene.first).min(), 0, len(record)))
    end = int(np.clip((scene.frame + scene.last).max() + 1, begin, len(record)))
    rows = slice(record.offsets[begin], record.offsets[end])
    frame, flat = record.frames[rows], record.cells[rows]
    places, sites = (
        torch.from_numpy(np.stack([t, c % cells // width, c % cells % width, c // cells], 1))
        for t, c in ((scene.frame, scene.cell), (frame, flat))
    )
    return joint_latents(model.prior, places, sites, torch.from_numpy(record.own_errors[rows]).square(), noise)


def _read_there(record: Record, scene: Scene) -> tuple[Tensor, Tensor]:  # (N,) readings, NaN where none; (N,) errors
    """What was read at the very places and times that the scene asks for, where its window reaches them."""
    size = len(record.variables) * record.grid.cells
    key, asked = record.frames * size + record.cells, scene.frame * size + scene.cell
    if not len(key):
        return torch.full((len(asked),), torch.nan), torch.zeros(len(asked))
    place = np.searchsorted(key, asked).clip(max=len(key) - 1)
    known = (key[place] == asked) & (scene.last >= 0)
    reading = np.where(known, record.values[place], np.float32(np.nan))
    return torch.from_numpy(reading), torch.from_numpy(record.own_errors[place])


def _updated(
    model: SolidSet,
    questions: Questions,
    values: Tensor,  # (K, B) members of the laws given all other readings
    reading: Tensor,  # (B,) NaN where nothing was read
    error: Tensor,  # (B,)
    as_read: bool,
) -> Tensor:  # (K, B)
    """Members given also what was read at their own place and time."""
    read, differs = ~reading.isnan(), model.prior.apart is not None and not as_read
    exact = read & (error == 0) & (not differs)
    values = torch.where(exact, reading, values)
    rows = (read & ~exact).nonzero()[:, 0]
    if not len(rows):
        return values
    nodes, weight = (torch.from_numpy(part).float() for part in np.polynomial.hermite_e.hermegauss(NODES))
    some = questions.where(rows)
    there, weight = model.quantiles(some, nodes[:, None], as_read), weight[:, None] / weight.sum()
    mean = (weight * there).sum(0)
    own, other = (weight * (there - mean).square()).sum(0).clamp_min(1e-12), error[rows].square()
    shift, common, wider = torch.zeros(()), torch.ones(()), torch.ones(())
    if differs:  # the reading is of the field and of an offset, of which the sensor's other readings tell
        (_, field), (_, read_there) = model.kriged(some, False), model.kriged(some, True)
        shift, variance = read_there.mean - field.mean, field.std.square()
        common = 1 + (field.weight * (field.covariance - read_there.covariance)).sum(1) / variance
        wider = read_there.std.square() / variance
    gain = common * own / (wider * own + other)
    moved = mean + gain * (reading[rows] - mean - shift)
    moved = moved + (1 - gain * common).clamp_min(0).sqrt() * (values[:, rows] - mean)
    return values.index_copy(1, rows, moved)
