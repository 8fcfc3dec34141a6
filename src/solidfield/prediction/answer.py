"""Members at any places and times from a record of readings: one law per question, one joint draw per scene.

A scene is a set of (frame, cell) that belong together: a map, a map at several leads, the gaps of a week. Each value
has the law of its own question; what hangs together in space and time does so in every member, since the latents of a
scene are drawn together (`theory/trajectories.py`). Members come in mirrored pairs, z and -z: each is a draw of the
joint law, and their mean is free of most of the noise of drawing. What a map shows of a single value, its mean, spread
and quantiles, needs no draws: it comes from the law itself (`laws.py`), whatever the seed and the number of members.

What was read without error is as it was read. A reading y with an error e meets the law of its place given the others,
of mean m and variance s^2, as Gaussian laws meet (exact where they are): every member x becomes

    m' + (s' / s) (x - m),      m' = (m e^2 + y s^2) / (e^2 + s^2),      s'^2 = e^2 s^2 / (e^2 + s^2),

so an error of any size leaves what it should: none the reading, a huge one the law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..models.solid_set import SolidSet
from ..noise import MemberNoise
from ..pairs.scaling import Scaling
from ..questions.asking import Hiding, Questions, ask
from ..questions.record import Record
from ..theory.trajectories import joint_latents
from .laws import LATENTS, latents_of, moments, shown

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
    as_read: bool = False,  # what a sensor would read, its offset included? Else the field
) -> np.ndarray:  # (K, N) standardised
    """Draw members of a scene."""
    z = _latents(model, record, scene, members, seed, number)
    found = [_updated(model, asked, asked.at(z[:, asked.rows])) for asked in _laws(model, record, scene, as_read)]
    return torch.cat(found, 1).numpy()


def answer_shown(
    model: SolidSet,
    record: Record,  # values standardised
    scene: Scene,
    members: int,  # 0: the laws alone
    seed: int,
    scaling: Scaling,
    quantiles: Sequence[float] = (),
    number: int = 0,
    as_read: bool = False,
    part: tuple[int, int] | None = None,  # which of its values, from a multiple of AT_ONCE on: the bits of the whole
) -> tuple[np.ndarray, np.ndarray]:  # (K, N) standardised, (2 + Q, N) in physical units
    """Draw members of a scene, or of a part of it; with mean, standard deviation and quantiles of their laws."""
    z, nodes, drawn, laws = _latents(model, record, scene, members, seed, number), latents_of(quantiles), [], []
    for asked in _laws(model, record, scene, as_read, part):
        every = torch.cat([z[:, asked.rows], nodes[:, None].expand(-1, len(asked.questions))])
        values = _updated(model, asked, asked.at(every))
        drawn.append(values[:members])
        laws.append(shown(scaling.physical_of(values[members:], asked.questions.asked_channel)))
    return torch.cat(drawn, 1).numpy(), torch.cat(laws, 1).numpy()


@dataclass(frozen=True)
class _Asked:
    """Some values of a scene: their laws given all readings but their own, and what was read there."""

    rows: slice
    questions: Questions
    at: Callable[[Tensor], Tensor]  # latents (K, B) to values (K, B)
    reading: Tensor  # (B,) NaN where nothing was read
    error: Tensor  # (B,)
    as_read: bool


def _laws(
    model: SolidSet, record: Record, scene: Scene, as_read: bool, part: tuple[int, int] | None = None
) -> Iterator[_Asked]:
    reading, error = _read_there(record, scene)
    begin, end = part or (0, len(scene.frame))
    for start in range(begin, end, AT_ONCE):
        rows = slice(start, min(start + AT_ONCE, end))
        window = scene.frame[rows], scene.cell[rows], scene.first[rows], scene.last[rows]
        questions = ask(record, *window, Hiding.nothing(len(window[0])), "test", torch.Generator())
        at = model.quantile_function(questions, as_read)
        yield _Asked(rows, questions, at, reading[rows], error[rows], as_read)


def _latents(model: SolidSet, record: Record, scene: Scene, members: int, seed: int, number: int) -> Tensor:  # (K, N)
    """One row a member, in mirrored pairs."""
    if not members:
        return torch.empty(0, len(scene.frame))
    noise = MemberNoise(seed, [number], range((members + 1) // 2))
    width, cells = record.grid.shape[1], record.grid.cells
    begin = int(np.clip((scene.frame + scene.first).min(), 0, len(record)))
    end = int(np.clip((scene.frame + scene.last).max() + 1, begin, len(record)))
    rows = slice(record.offsets[begin], record.offsets[end])
    frame, flat = record.frames[rows], record.cells[rows]
    places, sites = (
        torch.from_numpy(np.stack([t, c % cells // width, c % cells % width, c // cells], 1))
        for t, c in ((scene.frame, scene.cell), (frame, flat))
    )
    z = joint_latents(model.prior, places, sites, torch.from_numpy(record.own_errors[rows]).square(), noise)
    return torch.stack([z, -z], 1).flatten(0, 1)[:members]


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
    asked: _Asked,
    values: Tensor,  # (K, B) of the laws given all other readings
) -> Tensor:  # (K, B)
    """Values given also what was read at their own place and time: an increasing move, so quantiles stay quantiles."""
    reading, error, as_read = asked.reading, asked.error, asked.as_read
    read, differs = ~reading.isnan(), model.prior.apart is not None and not as_read
    exact = read & (error == 0) & (not differs)
    values = torch.where(exact, reading, values)
    rows = (read & ~exact).nonzero()[:, 0]
    if not len(rows):
        return values
    mean, std = moments(asked.at(LATENTS[:, None])[:, rows])
    own, other = std.square().clamp_min(1e-12), error[rows].square()
    shift, common, wider = torch.zeros(()), torch.ones(()), torch.ones(())
    if differs:  # the reading is of the field and of an offset, of which the sensor's other readings tell
        some = asked.questions.where(rows)
        (_, field), (_, read_there) = model.kriged(some, False), model.kriged(some, True)
        shift, variance = read_there.mean - field.mean, field.std.square()
        common = 1 + (field.weight * (field.covariance - read_there.covariance)).sum(1) / variance
        wider = read_there.std.square() / variance
    gain = common * own / (wider * own + other)
    moved = mean + gain * (reading[rows] - mean - shift)
    moved = moved + (1 - gain * common).clamp_min(0).sqrt() * (values[:, rows] - mean)
    return values.index_copy(1, rows, moved)
