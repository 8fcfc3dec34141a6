"""How wide laws must be: latents stretched until central intervals hold their share of held-out targets.

    z  ->  sign(z) s(|z|),      s piecewise linear with s(e_p) = f_p e_p,      e_p = Phi^{-1}((1 + p) / 2)

for p = 50, 90, 98 and 99.8 %, by kind of question: gaps by their length, forecasts by their lead, places that are read
or not. f_p e_p is the p-quantile of |z| at held-out targets of the kind, with its margin for being estimated
(`scores/conformal.py`). Quantiles of 50 and 90 % are each kind's own. Beyond, few targets speak, and those of a bad day
speak together. Of what kinds differ by in 50 and 90 %, too, part is a matter of the days that were held out: how much
is told by leaving one block of them out after the other, and by so much they move towards what all ask for (James and
Stein 1961). A law that learned its tail from all training days goes on as at 90 %. Kriging's has none of its own:
how much farther it goes is one ratio for all kinds ahead and one for all others, whose tails are heavier.
"""

from __future__ import annotations

from statistics import NormalDist

import torch
import torch.nn.functional as F
from torch import Tensor

from ..questions.asking import Questions
from ..scores.conformal import FEWEST, conformal_quantile

GAPS, UNREAD, AHEAD = ("gap 1", "gap 2-6", "gap 7-24", "gap 25+"), ("unread", "unread, outage"), ("1", "2-4", "5+")
KINDS = (*GAPS, *UNREAD, *(f"ahead {lead}" for lead in AHEAD), *(f"unread, ahead {lead}" for lead in AHEAD))
UNREAD_KINDS = [place for place, name in enumerate(KINDS) if name.startswith("unread")]
PLACED_KINDS = [place for place in range(len(KINDS)) if place not in UNREAD_KINDS]
AHEAD_KINDS = torch.tensor(["ahead" in name for name in KINDS])
LEVELS = (0.5, 0.9, 0.98, 0.998)  # of central intervals that are made to hold their share
BODY = LEVELS.index(0.9)  # the last level of which every kind has enough targets
EDGES = torch.tensor([NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS])
NARROWEST, WIDEST = 0.8, 2.0  # limits of a stretch: beyond, something else is wrong
SLIMMEST = 0.4  # ... of one that readings at hand ask for, since seasons differ by more than days, or of kriging's
SLOWEST = 0.2  # of the stretched z, so that levels never cross


def kind_of(questions: Questions, placed: Tensor) -> Tensor:  # (B,) bool -> (B,) positions in KINDS
    """What a question is like, by what it knows; `placed`: its place is known, if only by what is usual there."""
    far, silent = 2**30, 2**29
    lag = torch.where(questions.known, questions.frame, far)
    own = questions.known & questions.own
    gap = torch.where(own, questions.frame.abs(), far).amin(1)
    gap = torch.where(placed, gap.clamp(max=silent), gap)
    latest = torch.where(questions.known, questions.frame, -far).amax(1)
    nearest = lag.abs().amin(1)
    ahead = latest < 0
    by_gap = torch.bucketize(gap, torch.tensor([1, 6, 24]))
    by_lead = 6 + torch.bucketize(-latest, torch.tensor([1, 4])).clamp(max=2) + 3 * (gap == far)
    unread = torch.where(nearest > 0, 5, 4)
    return torch.where(ahead, by_lead, torch.where(gap < far, by_gap, unread))


def stretches(
    sizes: Tensor,  # (n,) |z| of held-out targets
    kinds: Tensor,  # (n,) positions in KINDS
    narrowest: float = NARROWEST,
    tails: bool = True,  # False: beyond 90 % as far as there
    block: Tensor | None = None,  # (n,) of the held-out time; None: what kinds differ by is no chance
) -> Tensor:  # (kinds, levels)
    """What makes central intervals hold their share of the targets of each kind; of all where a kind has too few."""
    groups = [sizes[kinds == place] for place in range(len(KINDS))]
    groups = [group if len(group) >= FEWEST else sizes for group in groups]
    factors = torch.stack([_factors(group)[: BODY + 1] for group in groups])
    factors = (factors if block is None else _evened(factors, sizes, kinds, block)).clamp(narrowest, WIDEST)
    relative = sizes / body(factors)[kinds, 0]
    farther = torch.ones(len(KINDS), len(LEVELS) - BODY - 1)
    for rows in (AHEAD_KINDS, ~AHEAD_KINDS) if tails else ():
        alike = relative[rows[kinds]]
        asked = _factors(alike if len(alike) >= FEWEST else relative)
        farther[rows] = asked[BODY + 1 :]
    return torch.cat([factors, (body(factors) * farther)], 1).clamp(narrowest, WIDEST)


def _evened(factors: Tensor, sizes: Tensor, kinds: Tensor, block: Tensor) -> Tensor:  # (kinds, BODY + 1), then (n,)
    """Factors moved towards their mean, by the share of their differences that other days would not bear out."""
    told = [place for place in range(len(KINDS)) if int((kinds == place).sum()) >= FEWEST]
    if len(told) < 3:  # of two nothing can be said
        return factors
    logs = factors[told].log()
    chance = torch.stack([_chance(sizes[kinds == place], block[kinds == place]) for place in told])
    mean = (logs / chance).sum(0) / (1 / chance).sum(0)
    apart = ((logs - mean).square() - chance).mean(0).clamp_min(0)
    return factors.index_put((torch.tensor(told),), (mean + apart / (apart + chance) * (logs - mean)).exp())


def _chance(sizes: Tensor, block: Tensor) -> Tensor:  # (n,), (n,) -> (BODY + 1,)
    """The variance of the logarithms of factors on other days: the jackknife over blocks of time."""
    left = [sizes[block != one] for one in block.unique()]
    if len(left) < 3 or min(map(len, left)) < FEWEST // 2:
        return torch.ones(BODY + 1)
    logs = torch.stack([_factors(some)[: BODY + 1] for some in left]).log()
    return ((len(left) - 1) * logs.var(0, correction=0)).clamp_min(1e-6)


def wider(sizes: Tensor, kinds: Tensor, factors: Tensor) -> float:  # (n,), (n,), (kinds, levels)
    """By how much all stretches of 90 % intervals must grow for these to hold their share of targets of all kinds."""
    return float(_factors(sizes / body(factors)[kinds, 0])[BODY])


def body(factors: Tensor) -> Tensor:  # (..., levels) -> (..., 1)
    """The stretch of the 90 % interval."""
    return factors[..., BODY : BODY + 1]


def _factors(sizes: Tensor) -> Tensor:  # (n,) -> (levels,)
    """What each level asks for; one that so few targets say nothing of goes on as the level before."""
    asked: list[float] = []
    for level, edge in zip(LEVELS, EDGES.tolist(), strict=True):
        told = not asked or len(sizes) * (1 - level) >= 1
        asked.append(conformal_quantile(sizes.numpy(), level) / edge if told else asked[-1])
    return torch.tensor(asked)


def stretched(z: Tensor, factors: Tensor) -> Tensor:  # (K, B), (B, levels) -> (K, B)
    """z with its central intervals widened level by level, straight lines between them and beyond the last."""
    ends = F.pad(torch.cummax(factors * EDGES, 1).values, (1, 0))  # (B, 1 + levels)
    starts = F.pad(EDGES, (1, 0))
    size, moved = z.abs(), torch.zeros_like(z)
    for place in range(len(LEVELS)):
        slope = (ends[:, place + 1] - ends[:, place]) / (starts[place + 1] - starts[place])
        last = place + 1 == len(LEVELS)
        way = (size - starts[place]).clamp(0, None if last else float(starts[place + 1] - starts[place]))
        moved = moved + way * slope.clamp_min(SLOWEST)
    return moved * z.sign()
