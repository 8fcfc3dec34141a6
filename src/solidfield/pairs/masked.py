"""Pairs of which masks say what is source and what is target, for protocols that fix both.

Frame t has sensors S_t and targets T_t, disjoint. Lead L pairs (S_t, T_{t+L}); over a gap there is no pair. A pair is
of its target's split and is made only if its source's frame may be seen there, as in `pairing.py`. What the history
knows at frame t: S of the frames before t of the same local day, and `known` of the days before it, of frames that its
split may look back on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..clock import local
from .channels import Channels
from .covariates import Covariates, Past, Recipe, fit_recipe
from .frames import Frames
from .holdout import RANK, Holdout
from .pairing import paired, pairings, training_scaling, write_frames
from .store import PairStore
from .writing import Example


def masked_pairs(
    frames: Frames,  # of one variable
    path: Path | str,
    source: np.ndarray,  # (T, H, W) bool
    target: np.ndarray,  # (T, H, W) bool
    *,
    leads: Sequence[int],
    holdout: Holdout,  # of days, by a named clock
    covariates: Covariates,
    known: np.ndarray | None = None,  # (T, H, W) bool: what the history knows of earlier days; None: nothing
    transform: str = "none",
    offset: float = 0.0,
    scenario: dict[str, Any] | None = None,  # how the masks came about, for the record
) -> PairStore:
    """Write the pairs of all splits, with covariates."""
    known = np.zeros_like(source) if known is None else known
    splits = holdout.splits(frames.times)
    training = ((source | target) & (splits == "train")[:, None, None])[:, None]  # (T, 1, H, W)
    scaling = training_scaling(frames, training, training, [transform], [offset])
    recipe, static = fit_recipe(
        covariates, frames.grid, frames.timezone, frames.times[splits == "train"], frames.variables, scaling
    )
    moving = _moving(frames, recipe, source, known, np.array([RANK[split] for split in splits]))
    channels = Channels(recipe.as_dict(), static, recipe.clock(frames.times), moving, recipe.counts)
    about = {"pattern": "masked", **(scenario or {}), "holdout": holdout.as_dict()}
    examples = _examples(frames, splits, source, target, leads)
    return write_frames(path, frames, examples, channels, scenario=about, transforms=[transform], offsets=[offset])


def _moving(
    frames: Frames,
    recipe: Recipe,
    source: np.ndarray,  # (T, H, W) bool
    known: np.ndarray,  # (T, H, W) bool
    rank: np.ndarray,  # (T,) of the splits; a local day has one
) -> Iterator[np.ndarray]:  # T times (2 or 0, H, W)
    days = local(frames.times, frames.timezone).normalize().to_numpy()
    before = [Past.empty((1, *frames.grid.shape)) for _ in RANK]  # what earlier days tell
    today = list(before)
    for t, now in enumerate(frames.seconds):
        if t and days[t] != days[t - 1]:
            today = list(before)
        yield today[rank[t]].channels(now, recipe) if recipe.history else np.zeros((0, *frames.grid.shape), np.float32)
        for past, told in ((before, known[t]), (today, source[t])):
            values = recipe.standard(frames.values[t : t + 1], told[None, None])[0]
            for r in range(rank[t], len(past)):
                past[r] = past[r].read(values, told[None], now)


def _examples(
    frames: Frames,
    splits: np.ndarray,  # (T,)
    source: np.ndarray,  # (T, H, W) bool
    target: np.ndarray,  # (T, H, W) bool
    leads: Sequence[int],
) -> Iterator[Example]:
    for t, o, lead in pairings(frames, splits, leads):
        yield paired(frames, splits, t, o, lead, source[t][None], target[o][None])
