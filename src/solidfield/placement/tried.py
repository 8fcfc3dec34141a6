"""Readings of candidates that were tried, and readings kept aside to judge them, at the times of a run's own readings.

What judges is never known to the run: a reading in a cell and frame that a sensor or a candidate read judges nothing
(no candidate judges itself), and what judges reaches a choice through the score of a set alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import SolidError
from ..pairs.frames import Frames
from ..prediction.context import FramesLike, frames_for
from ..readings.intake import Say
from ..training.record import RunRecord
from .law import Wanted


@dataclass(frozen=True)
class Tried:
    """What candidates read, and what judges, at the times of the run's own readings; physical units."""

    values: np.ndarray  # (T, H W) NaN = not read
    judging: np.ndarray | None  # (T, H W) of the time that is cared about: a lead later

    @classmethod
    def read(
        cls, run: RunRecord, known: Frames, tried: FramesLike, judge: FramesLike | None, wanted: Wanted, say: Say | None
    ) -> Tried:
        given = _frames(run, tried, "the tried candidates", say)
        values = _on_times(given, known.seconds, wanted.variable)
        if judge is None:
            return cls(values, None)
        later = known.seconds + wanted.lead * known.every
        judging = _on_times(_frames(run, judge, "the judging readings", say), later, wanted.variable)
        hidden = ~np.isin(np.arange(run.grid.cells), wanted.cells) | np.isfinite(
            _on_times(given, later, wanted.variable)
        )
        if wanted.lead == 0:
            hidden |= np.isfinite(known.values[:, wanted.variable]).reshape(judging.shape)
        return cls(values, np.where(hidden, np.nan, judging))

    @property
    def places(self) -> np.ndarray:  # (H W,) bool: was a candidate ever read here?
        return np.isfinite(self.values).any(0)

    def also(self, read: np.ndarray, moved: np.ndarray) -> Tried:  # (T, H, W), (H W,) bool
        """Sensors that may move were tried where they stand."""
        return replace(self, values=np.where(moved, read.reshape(self.values.shape), self.values))

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Those of these frames at which a candidate was read and, where there are judges, one of them."""
        there = np.isfinite(self.values[rows]).any(1)
        if not there.any():
            raise SolidError("the tried candidates were read at no time of the readings; give readings of these times")
        if self.judging is not None:
            there &= np.isfinite(self.judging[rows]).any(1)
        if not there.any():
            raise SolidError(
                "no reading judges the tried candidates: none is of their times, in the area that is cared about, and "
                "elsewhere than sensors and candidates; give others"
            )
        return rows[there]


def _frames(run: RunRecord, given: FramesLike, what: str, say: Say | None) -> Frames:
    try:
        return frames_for(run, given, say)[0]
    except SolidError as error:
        raise SolidError(f"{what}: {error}") from None


def _on_times(frames: Frames, seconds: np.ndarray, variable: int) -> np.ndarray:  # (T, H W)
    rows = frames.rows_at(seconds)
    values = frames.values[:, variable].reshape(len(frames.values), -1).astype(float)
    return np.where((rows >= 0)[:, None], values[rows], np.nan)
