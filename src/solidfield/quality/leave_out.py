"""Kriging without one reading: the law of each reading of a frame given the others, in closed form.

With K the covariance of the readings y of a frame (their own scatter included), one inverse serves them all:

    y_i - mean_i = [K^-1 (y - m)]_i / [K^-1]_ii,        var_i = 1 / [K^-1]_ii.

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
from ..theory.covariance import CONSTANT, Covariance, mean_field, moments, offsets
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


def fit_covariance(panel: Panel, sound: np.ndarray) -> tuple[float, float, Covariance]:  # centre, width, law
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
    covariance: Covariance,
    site: np.ndarray,  # (S, 2)
    value: np.ndarray,  # (F, S), NaN = not read; mean 0
    aside: Sequence[int] = (),  # sensors that no other is judged by
) -> Laws:
    """Mean and standard deviation of each reading given the others of its frame."""
    cells, kernel = torch.from_numpy(site), covariance.kernel
    full = kernel.flatten()[offsets(cells, cells, kernel.shape)].numpy()  # (S, S)
    full = full + JITTER * full[0, 0] * np.eye(len(site))
    mean, std = np.full((2, *value.shape), np.nan)
    sound = ~np.isin(np.arange(len(site)), aside)
    for f, frame in enumerate(value):
        seen = np.isfinite(frame)
        given, apart = np.flatnonzero(seen & sound), np.flatnonzero(seen & ~sound)
        if len(given) == 0:
            continue
        inverse = np.linalg.inv(full[np.ix_(given, given)])
        alpha = inverse @ frame[given]
        mean[f, given] = frame[given] - alpha / inverse.diagonal()
        std[f, given] = inverse.diagonal() ** -0.5
        across = full[np.ix_(apart, given)]  # (a, n)
        mean[f, apart] = across @ alpha
        std[f, apart] = np.sqrt(full[apart, apart] - ((across @ inverse) * across).sum(1))
    return mean, std
