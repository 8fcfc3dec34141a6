"""Frames as a record: every reading once, on every tick of the clock from the first frame to the last."""

from __future__ import annotations

import numpy as np

from ..clock import from_seconds
from ..questions.record import SPLITS, Record
from .covariates import Recipe
from .frames import Frames
from .holdout import Holdout


def record_of(
    frames: Frames,
    recipe: Recipe | None = None,  # of calendar and static fields; None: nothing is told beside the readings
    static: np.ndarray | None = None,  # (S, H, W)
    holdout: Holdout | None = None,  # None: all frames are of the last split, to be asked about
    ahead: int = 0,  # ticks beyond the last frame, for forecasts
) -> Record:
    """The readings of frames, in physical units; those of held cells are left out."""
    seconds = frames.seconds
    tick = np.round((seconds - seconds[0]) / frames.every).astype(np.int64)
    count = int(tick[-1]) + 1 + ahead
    times = from_seconds(seconds[0] + frames.every * np.arange(count))
    seen = np.isfinite(frames.values)
    split = np.full(count, len(SPLITS) - 1, np.int8)
    if holdout is not None:
        split = np.array([SPLITS.index(name) for name in holdout.splits(times)], np.int8)
        held = holdout.cells(seen.any((0, 1)))
        seen = seen & ~np.logical_or.reduce([np.zeros(frames.grid.shape, bool), *held.values()])
    row, cell = np.nonzero(seen.reshape(len(seen), -1))
    values = frames.values.reshape(len(seen), -1)[row, cell]
    return Record(
        frames.grid,
        frames.variables,
        np.concatenate([[0], np.cumsum(np.bincount(tick[row], minlength=count))]),
        cell.astype(np.int64),
        values,
        split,
        np.zeros(count, np.int32),
        np.full(len(values), frames.obs_std, np.float32) if frames.obs_std > 0 else None,
        None if recipe is None else recipe.clock(times),
        static if static is not None and len(static) else None,
        float(seconds[0]),
        frames.every,
        frames.units,
    )
