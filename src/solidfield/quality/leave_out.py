"""Kriging without one reading: the law of each reading of a frame given the others, in closed form.

One factor of the covariance of a frame's readings (their own scatter included) serves them all (`theory/gaussian.py`).
The covariance is the one that `models/kriging.py` fits, about one constant m for all cells: a cell's own mean would
absorb the bias that is looked for. A level that all cells share in a frame is part of the covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import SolidError
from ..fields import Pair, Source, Target
from ..grid import Grid
from ..theory.covariance import CONSTANT, TorusCovariance, mean_field, moments
from ..theory.gaussian import Given, between, unrolled
from ..theory.likelihood import refine

JITTER = 1e-8  # of the variance, added to K
Laws = tuple[np.ndarray, np.ndarray]  # mean and standard deviation of hidden readings, (F, S) each, NaN: none


@dataclass(frozen=True)
class Panel:
    """Readings of S sensors (cells that were read often enough) in F frames, in the space where z is taken."""

    grid: Grid  # lengths in kilometres where coordinates are degrees
    rows: np.ndarray  # (F,) which frames
    site: np.ndarray  # (S, 2) row and column
    value: np.ndarray  # (F, S), NaN = not read


def fit_covariance(panel: Panel, sound: np.ndarray) -> tuple[float, float, TorusCovariance]:  # centre, width, law
    """The stationary covariance of the sound sensors' standardised readings about one constant."""
    value = panel.value[:, sound]
    centre, width = float(np.nanmean(value)), float(np.nanstd(value))
    if not width > 0:
        raise SolidError(f"all readings are {centre:g}: there is nothing to tell sensors apart by")
    frames = np.full((len(value), 1, *panel.grid.shape), np.nan)
    frames[:, 0, panel.site[sound, 0], panel.site[sound, 1]] = (value - centre) / width
    x, mask = torch.from_numpy(frames).float(), torch.from_numpy(np.isfinite(frames))
    x = torch.where(mask, x, 0.0)
    level = mean_field(x[:, 0], mask[:, 0], [CONSTANT]).float()
    pair = Pair(Source.of(x - level, mask, torch.zeros(len(x))), Target.of(x - level, mask))
    return centre, width, refine(moments(pair, panel.grid), pair)[0]


def hidden_laws(
    covariance: TorusCovariance,
    site: np.ndarray,  # (S, 2)
    value: np.ndarray,  # (F, S), NaN = not read; mean 0
    aside: Sequence[int] = (),  # sensors that no other is judged by
) -> Laws:
    """Mean and standard deviation of each reading given the others of its frame."""
    kernel, cell = covariance.kernel, torch.from_numpy(site[:, 0] * covariance.kernel.shape[1] + site[:, 1])
    full = between(unrolled(kernel, kernel.shape), cell, cell)  # (S, S)
    error, variance = JITTER * kernel[0, 0], (1 + JITTER) * kernel[0, 0]
    mean, std = np.full((2, *value.shape), np.nan)
    sound = ~np.isin(np.arange(len(site)), aside)
    for f, frame in enumerate(value):
        seen = np.isfinite(frame)
        judging, apart = np.flatnonzero(seen & sound), np.flatnonzero(seen & ~sound)
        if len(judging) == 0:
            continue
        reading, given = torch.from_numpy(frame[judging]), Given.of(full[np.ix_(judging, judging)], error)
        laws = given.left_out(reading), given.law(full[np.ix_(judging, apart)], reading, variance)
        for sensors, (centre, square) in zip((judging, apart), laws, strict=True):
            mean[f, sensors], std[f, sensors] = centre, square.sqrt()
    return mean, std
