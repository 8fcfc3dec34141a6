"""Members at any places and times from a record of readings: one law per question, one joint draw per scene.

A scene is a set of (frame, cell) that belong together: a map, a map at several leads, the gaps of a week. Each value
has the law of its own question; what hangs together in space and time does so in every member, since the latents of a
scene are drawn together (`theory/trajectories.py`), and members know nothing of one another. What a map shows of a
single value, its mean, spread and quantiles, needs no draws: it comes from the law itself (`laws.py`), whatever the
seed and the number of members.

What was read without error is as it was read. A reading y with an error e meets the law of its place given the others,
of mean m and variance s^2, as Gaussian laws meet (exact where they are): every member x becomes

    m' + (s' / s) (x - m),      m' = (m e^2 + y s^2) / (e^2 + s^2),      s'^2 = e^2 s^2 / (e^2 + s^2),

so an error of any size leaves what it should: none the reading, a huge one the law.

A scene of whole maps is answered tile by tile: the unread places of a tile know what any of them would (the readings
around the tile), so that these are gathered once and places that help one another are asked about once. Tiles are
counted from the first cell of the map: a part of a map that is cut along tiles has the laws, and the very bits, of the
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..models.solid_set import SolidSet
from ..noise import MemberNoise
from ..pairs.scaling import Scaling
from ..questions.asking import Hiding, Questions, ask, ask_together
from ..questions.record import Record
from ..theory.covariance_table import Covariance
from ..theory.trajectories import DENSE, joint_latents
from .laws import LATENTS, latents_of, moments, shown

AT_ONCE = 1024  # questions answered together
TILE = 32  # rows and columns of a tile of a map
DRAWS = 256  # members that values are made of together


@dataclass(frozen=True)
class Scene:
    """Values that are asked for together."""

    frame: np.ndarray  # (N,)
    cell: np.ndarray  # (N,) flat in (C, H, W)
    first: np.ndarray  # (N,) the window of each question, relative to its frame
    last: np.ndarray  # (N,)
    tiled: bool = False  # is it whole maps, or a part of them along tiles? Then windows are those of their frames
    new: np.ndarray | None = None  # (N,) bool: as if no sensor had ever stood there, whatever training saw of the place

    def part(self, rows: np.ndarray) -> Scene:  # (n,) positions
        new = None if self.new is None else self.new[rows]
        return Scene(self.frame[rows], self.cell[rows], self.first[rows], self.last[rows], self.tiled, new)

    def questions(self, record: Record, rows: slice | np.ndarray) -> Questions:  # positions
        """Some of its values as questions to a record, of which they may know all that their windows hold."""
        frame, cell, first, last = self.frame[rows], self.cell[rows], self.first[rows], self.last[rows]
        new = None if self.new is None else torch.from_numpy(self.new[rows])
        hiding = replace(Hiding.nothing(len(frame)), new=new)
        return ask(record, frame, cell, first, last, hiding, "test", torch.Generator())

    def among(self, record: Record) -> tuple[Record, Scene]:
        """The frames that any of the questions may know, or asks for, and the scene in them: all that answers need."""
        begin = max(int(min(self.frame.min(), (self.frame + self.first).min())), 0)
        end = int(max(self.frame.max(), (self.frame + self.last).max())) + 1
        return record.window(begin, end), replace(self, frame=self.frame - begin)

    @classmethod
    def course(
        cls, frame: int, leads: Sequence[int], cells: np.ndarray, before: int, until: int, tiled: bool = False
    ) -> Scene:
        """Cells at several leads after a frame, each given what was read up to its own time, and never after `until`.

        With `until` = `frame` it is a forecast; with a later one the window moves on, which is assimilation.
        """
        when = frame + np.repeat(leads, len(cells))
        last = np.minimum(until - when, 0)
        return cls(when, np.tile(cells, len(leads)), np.where(last < 0, last - before + 1, -before), last, tiled)

    @classmethod
    def filling(cls, frame: np.ndarray, cell: np.ndarray, before: int, after: int, tiled: bool = False) -> Scene:
        """Any places and times, given what was read around each; `after` = 0 looks on nothing later."""
        return cls(frame, cell, np.full(len(frame), -before), np.full(len(frame), after), tiled)


def answer(
    model: SolidSet,
    record: Record,  # values standardised
    scene: Scene,
    members: int,
    seed: int,
    number: int = 0,  # of the scene: scenes have their own noise
    as_read: bool = False,  # what a sensor there would read, not the field?
) -> np.ndarray:  # (K, N) standardised
    """Draw members of a scene."""
    z = scene_latents(model, record, scene, members, seed, number)
    drawn = np.empty((members, len(scene.frame)), np.float32)
    for asked in _laws(model, record, scene, as_read, chunks(record, scene)):
        drawn[:, asked.rows] = _values(model, asked, z[:, asked.rows])
    return drawn


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
    part: tuple[int, int] | None = None,  # which of its chunks; None: all
    latents: Tensor | None = None,  # (K, N) where they were drawn before
) -> tuple[np.ndarray, np.ndarray]:  # (K, N) standardised, (2 + Q, N) in physical units; of a part, those of its chunks
    """Draw members of a scene, or of a part of it; with mean, standard deviation and quantiles of their laws."""
    nodes, some = latents_of(quantiles), chunks(record, scene)[slice(*part or (None,))]
    z = scene_latents(model, record, scene, members, seed, number) if latents is None else latents
    drawn, laws = [], []
    for asked in _laws(model, record, scene, as_read, some):
        drawn.append(_values(model, asked, z[:, asked.rows]))
        told = _updated(model, asked, asked.at(nodes[:, None].expand(-1, len(asked.rows))))
        laws.append(shown(scaling.physical_of(told, asked.questions.asked_channel)))
    order = slice(None) if part else in_order(some)
    return torch.cat(drawn, 1)[:, order].numpy(), torch.cat(laws, 1)[:, order].numpy()


Chunk = tuple[np.ndarray, bool]  # positions of values that are answered together; do they know the same?


def chunks(record: Record, scene: Scene) -> list[Chunk]:
    """What is answered together: of maps the unread places of a tile, then those that were read; else some in a row."""
    every = np.arange(len(scene.frame))
    if not scene.tiled:
        return [(every[start : start + AT_ONCE], False) for start in range(0, len(every), AT_ONCE)]
    (height, width), per = record.grid.shape, record.grid.cells
    place = scene.cell % per
    tiles = -(-height // TILE), -(-width // TILE)
    tile = place // width // TILE * tiles[1] + place % width // TILE
    group = (scene.frame * len(record.variables) + scene.cell // per) * (tiles[0] * tiles[1]) + tile
    key = 2 * group + ~_read_there(record, scene)[0].isnan().numpy()
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    return [(rows, key[rows[0]] % 2 == 0) for rows in np.split(order, cuts) if len(rows)]


def in_order(some: Sequence[Chunk]) -> np.ndarray:  # (N,)
    """Where each value of a scene stands among those of its chunks, one after the other."""
    return np.argsort(np.concatenate([rows for rows, _ in some]))


@dataclass(frozen=True)
class _Asked:
    """Some values of a scene: their laws given all readings but their own, and what was read there."""

    rows: np.ndarray
    questions: Questions
    at: Callable[[Tensor], Tensor]  # latents (K, B) to values (K, B)
    reading: Tensor  # (B,) NaN where nothing was read
    error: Tensor  # (B,)
    as_read: bool


def _laws(model: SolidSet, record: Record, scene: Scene, as_read: bool, some: Sequence[Chunk]) -> Iterator[_Asked]:
    reading, error = _read_there(record, scene)
    for rows, alike in some:
        if alike:
            frame, first, last = (int(part[rows[0]]) for part in (scene.frame, scene.first, scene.last))
            questions = ask_together(record, frame, scene.cell[rows], first, last)
        else:
            questions = scene.questions(record, rows)
        at = model.quantile_function(questions, as_read)
        yield _Asked(rows, questions, at, reading[rows], error[rows], as_read)


def _values(model: SolidSet, asked: _Asked, z: Tensor) -> Tensor:  # (K, B)
    """Some members at a time: what a law makes of latents takes several times their memory on the way."""
    parts = [_updated(model, asked, asked.at(part)) for part in z.split(DRAWS)]
    return torch.cat([z.new_zeros(0, len(asked.rows)), *(parts if len(z) else ())])


def scene_latents(
    model: SolidSet,
    record: Record,
    scene: Scene,
    members: int,
    seed: int,
    number: int,
    out: Tensor | None = None,  # (N, K) to draw into
    drawn_more: Callable[[int], None] | None = None,  # see `joint_latents`
) -> Tensor:  # (K, N)
    """What makes the values of a scene hang together."""
    if not members:
        return torch.empty(0, len(scene.frame))
    noise = MemberNoise(seed, [number], range(members))
    width, cells = record.grid.shape[1], record.grid.cells
    begin = int(np.clip((scene.frame + scene.first).min(), 0, len(record)))
    end = int(np.clip((scene.frame + scene.last).max() + 1, begin, len(record)))
    rows = slice(record.offsets[begin], record.offsets[end])
    frame, flat = record.frames[rows], record.cells[rows]
    places, sites = (
        torch.from_numpy(np.stack([t, c % cells // width, c % cells % width, c // cells], 1))
        for t, c in ((scene.frame, scene.cell), (frame, flat))
    )
    span = int(max(scene.frame.max(), end - 1) - min(scene.frame.min(), begin)) if len(scene.frame) else 0
    errors = torch.from_numpy(record.own_errors[rows]).square()
    return joint_latents(model.prior, places, sites, errors, noise, _table(model, span, len(places)), out, drawn_more)


def _table(model: SolidSet, span: int, values: int) -> Covariance | None:
    """The model's own table where it has all frames of the scene; of more frames one that many values are worth."""
    if span <= model.frames:
        if model.look is None:
            model.look = model.prior.lookup(model.frames)
        return model.look
    return model.prior.lookup(span) if values > DENSE else None


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
