"""How wide the laws of sets are, and how far from kriging's: by held-out questions, after training.

    depart        laws of unread places, between the prior's and the network's, by their CRPS at places set aside
    calibrate     widths by kind of question (`stretch.py`): length of a gap, lead of a forecast, unread places
    recalibrate   both by readings at hand, of a season that training may not have seen

A place set aside was never asked about as if it were unread, and one network was asked nothing about it at all. That
one answers there alone: what the others know of it from gaps of its record no law of a truly unread place can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor

from ..questions.asking import Lesson
from ..scores.conformal import FEWEST
from .solid_set import SolidSet, in_units_of
from .stretch import AHEAD_KINDS, KINDS, NARROWEST, PLACED_KINDS, SLIMMEST, UNREAD_KINDS, WIDEST, body, stretches, wider

BLOCKS = 10  # of the held-out time: what they differ by is no evidence
DEPARTURES = [place / 10 for place in range(10, -1, -1)]  # of which the one of lowest CRPS is taken


@torch.no_grad()
def depart(model: SolidSet, aside: Iterable[Lesson]) -> None:
    """Let laws of unread places depart from the prior's as far as lowers their CRPS at places set aside.

    What the network learned at the places it practised at may be theirs alone. Where kriging is better at those it was
    never asked about, it is better between the sensors, too.
    """
    model.departure.fill_(1.0)
    _depart(model, aside, UNREAD_KINDS)


def _depart(model: SolidSet, lessons: Iterable[Lesson], kinds: list[int], trust: float = 1.0) -> None:
    """Move how far laws of these kinds go from the prior's towards where their CRPS is lowest."""
    found = []
    for lesson in lessons:
        features, law, _ = model.evened(lesson.questions, True, lesson.usual)
        observed = in_units_of(law, features, lesson, model.answering(lesson))
        scale = law.scale * model.slope(law.mean, observed.channel)
        ways = [replace(observed, departure=torch.full_like(scale, far)) for far in DEPARTURES]
        each = torch.stack([scale * model.law.crps(way) for way in ways], 1)
        found.append((each, model.kind(lesson), observed.channel))
    if not found:
        return
    crps, kind, channel = (torch.cat(part) for part in zip(*found, strict=True))
    for c in range(model.prior.channels):
        for ahead in (True, False):
            alike = [place for place in kinds if bool(AHEAD_KINDS[place]) is ahead]
            rows = (channel == c) & torch.isin(kind, torch.tensor(alike))
            if int(rows.sum()) >= FEWEST:
                best = DEPARTURES[int(crps[rows].mean(0).argmin())]
                model.departure[c, alike] = torch.lerp(model.departure[c, alike], torch.tensor(best), trust)


@torch.no_grad()
def calibrate(model: SolidSet, held_out: Iterable[Lesson], everywhere: Iterable[Lesson] = ()) -> dict[str, float]:
    """Stretch the laws of each kind until central intervals hold their share of held-out targets.

    `held_out` asks about unread places only where these were set aside, and they are few, by chance easy or hard.
    `everywhere` asks about all: the prior, which learned no place by heart, tells how much wider to be there, by its
    90 % intervals and by one ratio for all kinds: places are hard or easy, whatever is asked about them. The network
    practised at most of these, so its laws must hold their share there in any case.
    """
    own, prior, kinds, channel, block = _latents(model, held_out)
    for c in range(model.prior.channels):
        mine = channel == c
        model.stretch[c] = stretches(own[mine].abs(), kinds[mine], tails=False, block=block[mine])
        model.prior_stretch[c] = stretches(prior[mine].abs(), kinds[mine], SLIMMEST, block=block[mine])
    every = list(everywhere)
    if every:
        own, prior, kinds, channel, block = _latents(model, every)
        for c in channel.unique().tolist():
            mine = channel == c
            harder = wider(prior[mine].abs(), kinds[mine], model.prior_stretch[c])
            least = stretches(own[mine].abs(), kinds[mine], tails=False, block=block[mine])[UNREAD_KINDS]
            found = torch.maximum(harder * model.stretch[c, UNREAD_KINDS], least)
            model.stretch[c, UNREAD_KINDS] = found.clamp(NARROWEST, WIDEST)
            asked = stretches(prior[mine].abs(), kinds[mine], SLIMMEST, block=block[mine])
            model.prior_stretch[c, UNREAD_KINDS] = asked[UNREAD_KINDS]
    return dict(zip(KINDS, body(model.stretch[0])[:, 0].tolist(), strict=True))


@torch.no_grad()
def recalibrate(model: SolidSet, lessons: Callable[[], Iterable[Lesson]], trust: float) -> None:
    """Move laws towards what readings at hand ask for, first their departure, then their widths; with a trust of 1 all
    the way.

    Training knows the places at hand in part, so laws of unread ones widen as the prior's do, which knows none, and
    depart from it as they did. The lessons are asked for twice, since few of them fit into memory at once.
    """
    _depart(model, lessons(), PLACED_KINDS, trust)
    own, prior, kinds, channel, _ = _latents(model, lessons())
    for c in range(model.prior.channels):
        mine = channel == c
        if int(mine.sum()) < FEWEST:
            continue
        asked = stretches(own[mine].abs(), kinds[mine], SLIMMEST, tails=False)
        prior_asked = stretches(prior[mine].abs(), kinds[mine], SLIMMEST)
        change = (prior_asked / model.prior_stretch[c]) ** trust
        unread = model.stretch[c, UNREAD_KINDS] * change[UNREAD_KINDS]
        model.stretch[c] *= (asked / model.stretch[c]) ** trust
        model.stretch[c, UNREAD_KINDS] = unread.clamp(SLIMMEST, WIDEST)
        model.prior_stretch[c] *= change


def _latents(model: SolidSet, lessons: Iterable[Lesson]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # (n,) each
    """z under the laws and under the prior, kinds and variables of what was read, and blocks of its time."""
    found = [
        (*model.latent(lesson), model.kind(lesson), lesson.questions.asked_channel, lesson.frame) for lesson in lessons
    ]
    own, prior, kinds, channel, frame = (torch.cat(part) for part in zip(*found, strict=True))
    frames, order = frame.unique(return_inverse=True)
    return own, prior, kinds, channel, order * BLOCKS // max(1, len(frames))
