"""`solid` for sets of readings: kriging in space and time, attention over the nearest readings, a law per target.

    m, s = kriging of the k nearest readings, s as these disagree   (`theory/spacetime.py`, `theory/disagreement.py`)
    f    = attention over those readings, relative to the target   (`set_encoder.py`)
    x    = m + s Q(z; f)                                           a law (`theory/laws.py`), learned at observed targets

The law of a target costs what its k readings cost, however large the map, and nothing in it is bound to a cell.
What the network learned at a few places is in part what is special about each of them, and would make a map of it
rough: f is averaged over the places within two steps of the target (AROUND), where its own place is not known. It is
known by readings of its own in the window or, where a sensor's reading is asked for and not the field, by what is
usual there (`questions/usual.py`), which the encoder is told of all places.
The loss is the CRPS in physical units, which is what people are scored by, and a little of the likelihood, which keeps
the tails honest where the CRPS hardly sees them. After training, z is stretched as held-out questions ask, and laws of
unread places depart from the prior's as far as places set aside bear out (`set_calibration.py`).
No law goes on beyond the readings' own tails (`theory/tails.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..forecast import Objective
from ..grid import Grid
from ..questions.asking import Lesson, Questions
from ..questions.usual import NUMBERS, LeftOut
from ..theory.disagreement import LocalSpread, Target
from ..theory.law import Observed
from ..theory.laws import LAWS
from ..theory.spacetime import STEPS, Covariance, Known, Laws, SpaceTime, krige
from ..theory.tails import bounded, ends_of, unbounded
from .neighbours import NEAREST, nearest_readings
from .set_encoder import Blur, SetEncoder
from .stretch import KINDS, LEVELS, kind_of, stretched

NETWORKS = 2  # whose laws are pooled
LOCAL = 0.2  # times as many questions as the fit of the covariance sees tell how spreads follow the readings
LIKELIHOOD = 0.1  # its weight beside the CRPS
AROUND = [(y, x) for y in range(-2, 3) for x in range(-2, 3) if 0 < abs(y) + abs(x) <= 2]  # rows, columns: see above
TRUSTED = 0.5  # from such a trust on a place is known by what is usual there
FEW = 160  # places that a network learns by heart; of many more it cannot
STEEPEST = 10.0  # a target counts at most so many times as much as a typical one
TRANSFORMS = ("none", "log", "sqrt")


class SolidSet(nn.Module):
    """Laws of values anywhere in space and time, given sets of readings."""

    name = "solid-set"
    leaks = False
    crops = False  # it answers cell by cell, so a large map needs no parts

    def __init__(
        self,
        grid: Grid,
        channels: int,
        lengths: tuple[float, float],  # size of a cell along (y, x)
        frames: int,  # the largest time between two readings of a question
        *,
        calendar: int = 0,
        static: Tensor | None = None,  # (S, H, W)
        nearest: int = NEAREST,
        features: int = 48,
        layers: int = 2,
        networks: int = NETWORKS,
        offsets: bool = False,  # does every sensor have an offset of its own, which maps leave out?
        law: str = "mixture",
        law_options: dict[str, Any] | None = None,
    ):
        super().__init__()
        self.grid, self.frames, self.nearest = grid, frames, nearest
        self.prior = SpaceTime(grid, lengths, channels=channels, globe=True, offsets=offsets).requires_grad_(False)
        self.local = LocalSpread(channels)
        self.register_buffer("static", torch.zeros(0, *grid.shape) if static is None else static)
        self.static: Tensor
        told = NUMBERS + len(self.static)
        self.encoder = SetEncoder(features, layers, calendar=calendar, told=told, channels=channels, networks=networks)
        self.law = LAWS[law](networks * features, channels, networks=networks, **(law_options or {}))
        self.law.begin_as_normal()
        self.register_buffer("steps", torch.ones(3))
        self.steps: Tensor  # typical steps between readings: frames, rows, columns
        self.register_buffer("stretch", torch.ones(channels, len(KINDS), len(LEVELS)))
        self.stretch: Tensor
        self.register_buffer("departure", torch.ones(channels, len(KINDS)))
        self.departure: Tensor  # of laws from the prior's
        self.register_buffer("prior_stretch", torch.ones(channels, len(KINDS), len(LEVELS)))
        self.prior_stretch: Tensor  # of the Gaussian laws of the prior alone: a fair rival is calibrated, too
        self.register_buffer("ends", torch.tensor([[-1e6, 1.0, 1e6, 1.0]]).repeat(channels, 1))
        self.ends: Tensor  # (C, 4): the smallest training reading and the length of the tail there; the largest, too
        self.register_buffer("units", torch.tensor([[0.0, 0.0, 1.0, 1.0]]).repeat(channels, 1))
        self.units: Tensor  # (C, 4): transform, mean and std of transformed readings, std of the readings themselves
        self.register_buffer("blurred", torch.ones(()))
        self.blurred: Tensor  # share of the questions about unread places that training blurs
        self.register_buffer("usual", torch.zeros(channels * grid.cells, NUMBERS))
        self.usual: Tensor  # what is usual at every place, by all training readings
        self.register_buffer("taught", torch.tensor([-torch.inf, torch.inf]).double())
        self.taught: Tensor  # times of the first and of the last training reading,
        self.register_buffer("lasting", torch.ones(channels).double())
        self.lasting: Tensor  # (C,) ... and for how long beyond them it counts
        self.look: Covariance | None = None

    def in_units(
        self,
        transforms: Sequence[str],  # (C,) of TRANSFORMS
        mean: Sequence[float],  # (C,) of the transformed readings
        std: Sequence[float],  # (C,)
        physical: Sequence[float],  # (C,) standard deviation of the readings themselves
    ) -> None:
        """Be told how standard units came about, so that errors count as they do in physical ones."""
        rows = zip(map(TRANSFORMS.index, transforms), mean, std, physical, strict=True)
        self.units.copy_(torch.tensor(list(rows)))

    def bounded_by(self, readings: Sequence[Tensor]) -> None:  # (C,) of (n,) standardised training readings
        """Let no law go on beyond what the readings' own tails support."""
        for channel, values in enumerate(readings):
            self.ends[channel] = ends_of(values)

    def slope(self, location: Tensor, channel: Tensor) -> Tensor:  # (B,) -> (B,)
        """Physical standard deviations per standard unit, at a location."""
        transform, mean, std, physical = self.units[channel].T
        raised = mean + std * location
        steep = torch.where(transform == 1, raised.exp(), torch.where(transform == 2, 2 * raised, 1.0))
        return (steep * std / physical).clamp(1 / STEEPEST, STEEPEST)

    def objectives(self) -> list[Objective]:
        return [Objective("loss", self.loss, [p for p in self.parameters() if p.requires_grad])]

    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def label(self) -> str:
        return self.name

    def prepare(
        self, lessons: Callable[[int], Lesson], spacing: tuple[float, float], places: int, steps: int = STEPS
    ) -> None:
        """Fit the prior to training questions; `spacing`: rows and columns between sensors, at so many places."""
        self.steps.copy_(torch.tensor([1.0, *spacing]))
        self.blurred.fill_(min(1.0, (FEW / max(places, 1)) ** 2))

        def batch(step: int, look: Covariance) -> tuple[Known, Tensor, Tensor]:
            lesson = lessons(step)
            known = self._nearest(look, lesson.questions)
            return known, lesson.values, lesson.errors.square()

        self.prior.fit(batch, self.frames, steps)
        self.look = self.prior.lookup(self.frames)
        found = []
        for step in range(steps, steps + round(LOCAL * steps)):
            known, values, errors = batch(step, self.look)
            found.append(Target(krige(self.prior, known, self.look), known, values, errors))
        self.local.fit(found)
        self.look = None

    def kriged(self, questions: Questions, as_read: bool = True) -> tuple[Known, Laws]:
        """The nearest readings and the prior's law, of what a sensor reads there or of the field without its offset."""
        if self.look is None:
            self.look = self.prior.lookup(self.frames)
        known = self._nearest(self.look, questions)
        return known, self.local(krige(self.prior, known, self.look, as_read), known)

    def laws(
        self,
        questions: Questions,
        practice: torch.Generator | None = None,
        as_read: bool = True,
        usual: LeftOut | None = None,  # None: what is usual by all that was trained on
    ) -> tuple[Tensor, Laws, Known]:
        """Features (B, F) of the targets, and the Gaussian laws in whose units their own are; in practice blurred."""
        known, law = self.kriged(questions, as_read)
        variance = self.prior.variance[questions.asked_channel]
        placed = self.placed(questions, usual)
        at, there = self._fields(questions, known, placed, usual)
        blur = None if practice is None else Blur(~placed, practice, float(self.blurred))
        features = self.encoder(known, law, self.steps, variance[:, None], questions.calendar, at, there, blur)
        return features, law, known

    def placed(self, questions: Questions, usual: LeftOut | None = None) -> Tensor:  # (B,) bool
        """Is the place of a target known, by readings of its own in the window or by what is usual there?"""
        cell = questions.asked_channel * self.grid.cells + questions.asked_cell
        trust = self._usually(cell[:, None], questions, usual)[:, 0, -1]
        return _read(questions) | (~questions.asked_new & (trust >= TRUSTED))

    def evened(
        self, questions: Questions, as_read: bool, usual: LeftOut | None = None
    ) -> tuple[Tensor, Laws, Tensor]:  # and (B,) bool: which targets are taken for places of their own
        """Features, and how spreads follow readings, averaged over places around each target, unless its own is known.

        A map shows the field: a place that was silent for the whole window is like any other there. What a sensor
        would read at that place (`as_read`) is another matter.
        """
        alone = self.placed(questions, usual) if as_read else _read(questions)
        if self.prior.apart is not None and not as_read:
            alone = torch.zeros_like(alone)
        each, place, first = self._around(replace(questions, asked_new=~alone), alone)
        features, law, _ = self.laws(each, as_read=as_read, usual=None if usual is None else usual.where(first))
        wider = (law.scale / law.std)[place].mean(0)
        here = Laws(*(part[place[0]] for part in vars(law).values()))
        return features[place].mean(0), replace(here, scale=here.std * wider), alone

    def _around(
        self, questions: Questions, alone: Tensor
    ) -> tuple[Questions, Tensor, Tensor]:  # (U,), (1 + AROUND, B), (U,)
        """Questions about targets and, but for those alone, the places around them; where those of a target stand, and
        which target each question is like.

        Targets of a map share their readings and are themselves places around others: each is asked about but once.
        """
        height, width = self.grid.shape
        cells = [questions.asked_cell]
        for step in AROUND:
            place = questions.asked_cell // width + step[0], questions.asked_cell % width + step[1]
            row, column = (
                at % count if wraps else at.clamp(0, count - 1)
                for at, count, wraps in zip(place, (height, width), self.grid.periodic, strict=True)
            )
            cells.append(torch.where(alone, questions.asked_cell, row * width + column))
        told = [tensor.flatten(1) for name, tensor in vars(questions).items() if not name.startswith("asked")]
        alike = (*told, questions.asked_channel[:, None], questions.asked_new[:, None])
        same = torch.stack([(part[1:] == part[:-1]).all(1) for part in alike])
        group = F.pad((~same.all(0)).long().cumsum(0), (1, 0))  # targets in a row that know the same
        key, place = (group * height * width + torch.stack(cells)).unique(return_inverse=True)
        first = torch.searchsorted(group, key // (height * width))
        return replace(questions.where(first), asked_cell=key % (height * width)), place, first

    def _nearest(self, look: Covariance, questions: Questions) -> Known:
        return nearest_readings(look, questions, self.grid.shape, self.nearest, self.grid.periodic)

    def _fields(
        self, questions: Questions, known: Known, placed: Tensor, usual: LeftOut | None
    ) -> tuple[Tensor, Tensor]:  # (B, S), (B, k, S)
        """What is told of the target's place and, relative to it, of its readings': what is usual, static fields."""
        fields, (height, width) = self.static.flatten(1), self.grid.shape
        row = ((questions.asked_cell // width)[:, None] + known.offset[..., 1]) % height
        cell = row * width + ((questions.asked_cell % width)[:, None] + known.offset[..., 2]) % width
        cells = torch.cat([questions.asked_cell[:, None], cell], 1)  # (B, 1 + k)
        channel = questions.asked_channel[:, None].expand_as(cell) if known.channel is None else known.channel
        channels = torch.cat([questions.asked_channel[:, None], channel], 1)
        place = channels * self.grid.cells + cells
        usually = self._usually(place, questions, usual)
        own, theirs = usually[:, 0] * placed[:, None], usually[:, 1:]
        apart = theirs[..., :1] - own[:, None, :1]
        here = fields[:, questions.asked_cell].T
        there = torch.cat([apart, theirs[..., 1:], fields[:, cell].movedim(0, -1) - here[:, None]], -1)
        return torch.cat([own, here], 1), there * known.valid[..., None]

    def _usually(self, place: Tensor, questions: Questions, usual: LeftOut | None) -> Tensor:  # (B, n) -> (B, n, 3)
        """What is usual at places, flat in (C, H, W), when it is asked for."""
        if usual is not None:
            return usual.at(place)
        still = self.still(questions.asked_time).to(self.usual).gather(1, place // self.grid.cells)
        return self.usual[place] * still[..., None]

    def still(self, time: Tensor) -> Tensor:  # (B,) float64 -> (B, C)
        """How far what is usual at places counts at a time, which may lie beyond those of training."""
        first, last = self.taught
        beyond = (first - time).clamp_min(0) + (time - last).clamp_min(0)
        return (-(beyond[:, None] / self.lasting).square() / 2).exp()

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Tensor:
        features, law, _ = self.laws(lesson.questions, practice=generator, usual=lesson.usual)
        observed = in_units_of(law, features, lesson, self._learning(lesson))
        crps = law.scale * self.slope(law.mean, observed.channel) * self.law.crps(observed)
        return (crps + LIKELIHOOD * self.law.loss(observed, generator)).mean()

    def _learning(self, lesson: Lesson) -> Tensor:  # (B, M)
        """What each network learns from a target: of places set aside the first learns nothing."""
        first = self._first(lesson)
        return ~(first & lesson.aside[:, None]) / len(first)

    def answering(self, lesson: Lesson) -> Tensor:  # (B, M)
        """Shares in the pool: of unread places set aside all is the first network's, which was never asked there."""
        first, new = self._first(lesson), ~self.placed(lesson.questions, lesson.usual)
        return torch.where((lesson.aside & new)[:, None], first.float(), 1 / len(first))

    def _first(self, lesson: Lesson) -> Tensor:  # (M,) bool: which network is the first
        return torch.arange(len(self.encoder.networks), device=lesson.aside.device) == 0

    @torch.no_grad()
    def crps(self, lesson: Lesson) -> Tensor:  # (B,)
        """The CRPS of every target in standard units, before any stretch."""
        features, law, _ = self.laws(lesson.questions, usual=lesson.usual)
        return law.scale * self.law.crps(in_units_of(law, features, lesson))

    def quantiles(
        self, questions: Questions, latents: Tensor, as_read: bool = True
    ) -> Tensor:  # (B,) or (K, 1) or (K, B) -> (K, B)
        """Values at latents z: normal quantiles for levels, correlated draws for members."""
        return self.quantile_function(questions, as_read)(latents)

    @torch.no_grad()
    def quantile_function(self, questions: Questions, as_read: bool = True) -> Callable[[Tensor], Tensor]:
        """As `quantiles`, for latents of several kinds: the features of the questions are made once."""
        features, law, placed = self.evened(questions, as_read)
        channel, kind = questions.asked_channel, kind_of(questions, placed)
        factors, departure = self.stretch[channel, kind], self.departure[channel, kind]

        @torch.no_grad()
        def values(latents: Tensor) -> Tensor:  # (B,) or (K, 1) or (K, B) -> (K, B)
            z = torch.atleast_2d(latents)
            z = stretched(z.expand(len(z), len(questions)), factors)
            found = self.law.value(features, z[..., None].expand(*z.shape, self.prior.channels), departure)  # (K, B, C)
            mine = channel[None, :, None].expand(len(z), -1, 1)
            return bounded(law.mean + law.scale * found.gather(2, mine)[..., 0], self.ends[channel])

        return values

    @torch.no_grad()
    def prior_quantiles(
        self, questions: Questions, latents: Tensor, errors: Tensor | None = None
    ) -> Tensor:  # as for `quantiles`
        """The same under the prior alone, kriging with the same readings, calibrated in the same way.

        With `errors`, (B,) standard deviations: of readings with these errors.
        """
        _, law = self.kriged(questions)
        if errors is not None:
            law = replace(law, std=torch.hypot(law.std, errors))
        z = torch.atleast_2d(latents)
        factors = self.prior_stretch[questions.asked_channel, kind_of(questions, self.placed(questions))]
        z = stretched(z.expand(len(z), len(questions)), factors)
        return bounded(law.mean + law.std * z, self.ends[questions.asked_channel])

    @torch.no_grad()
    def latent(self, lesson: Lesson) -> tuple[Tensor, Tensor]:  # (B,), (B,)
        """z of what was read, with its error, under its law, before any stretch; and under the prior alone."""
        features, law, _ = self.evened(lesson.questions, True, lesson.usual)
        channel = lesson.questions.asked_channel
        free = replace(lesson, values=unbounded(lesson.values, self.ends[channel]))
        departure = self.departure[channel, self.kind(lesson)]
        observed = in_units_of(law, features, free, self.answering(lesson), departure)
        return self.law.latent(observed), (free.values - law.mean) / torch.hypot(law.std, lesson.errors)

    def kind(self, lesson: Lesson) -> Tensor:  # (B,) positions in KINDS
        return kind_of(lesson.questions, self.placed(lesson.questions, lesson.usual))


def in_units_of(
    law: Laws, features: Tensor, lesson: Lesson, shares: Tensor | None = None, departure: Tensor | None = None
) -> Observed:
    """What was read, and its errors, in units of the targets' laws."""
    target, error = (lesson.values - law.mean) / law.scale, lesson.errors / law.scale
    return Observed(features, target, lesson.questions.asked_channel, error, shares, departure)


def _read(questions: Questions) -> Tensor:  # (B,) bool
    """Is a reading of the target's own place known?"""
    return (questions.known & questions.own).any(1)
