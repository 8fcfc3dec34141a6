"""Simple rules that people really use, answered from what a question may know: the least that a model has to beat.

    nearest      what the nearest sensor read, in the frame nearest to the time asked for
    persistence  the last reading of the place itself, else of the nearest sensor
    moved        the reading of the place itself that is nearest in time, moved as the other sensors have moved since
    neighbours   the five nearest sensors in that frame, by the inverse of their distance
    linear       between the readings of the place itself before and after, in time; one side alone: its last
    climatology  the training readings of that hour of the day

All but climatology are points; `trees.py` has forests and boosting of them. `kriging` is the run's own prior with the
same readings (`SolidSet.prior_quantiles`), calibrated in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..grid import points
from ..prediction.answer import Scene
from ..questions.record import Record

LAST = ("climatology", "persistence", "moved", "neighbours")  # ahead
NOW = ("climatology", "nearest", "moved", "neighbours", "linear")  # at the time
NEIGHBOURS = 5


@dataclass(frozen=True)
class Desk:
    """What may be known of a scene, as a table of frames and places of one variable."""

    values: np.ndarray  # (W, P) NaN where not known
    places: np.ndarray  # (P,) flat cells of (C, H, W)
    away: np.ndarray  # (N, P) distance from each asked cell to each place
    own: np.ndarray  # (N,) column of the asked cell itself; -1 where it has none
    late: np.ndarray  # (W,) frames from the time asked for, without sign

    @classmethod
    def of(cls, record: Record, scene: Scene, rows: np.ndarray) -> Desk:  # (n,) of the scene, one variable and frame
        """`record` holds nothing that may not be known but what lies after the window."""
        asked, frame, last = scene.cell[rows], int(scene.frame[rows[0]]), int(scene.last[rows[0]])
        cells, width = record.grid.cells, record.grid.shape[1]
        mine = (record.cells // cells == asked[0] // cells) & (record.frames <= frame + last)
        places, column = np.unique(record.cells[mine], return_inverse=True)
        values = np.full((len(record), len(places)), np.nan)
        values[record.frames[mine], column] = record.values[mine]
        there, here = (points(record.grid, c % cells // width, c % cells % width) for c in (places, asked))
        own = np.searchsorted(places, asked).clip(max=max(len(places) - 1, 0))
        found = places[own] == asked if len(places) else np.zeros(len(asked), bool)
        away = np.linalg.norm(here[:, None] - there[None], axis=-1)
        return cls(values, places, away, np.where(found, own, -1), np.abs(np.arange(len(record)) - frame))

    def nearest(self) -> np.ndarray:  # (N,)
        """NaN where nothing at all is known."""
        read = np.isfinite(self.values)
        if not read.any():
            return np.full(len(self.own), np.nan)
        frame = self._closest(read.any(1))
        away = np.where(read[frame], self.away, np.inf)
        return self.values[frame, away.argmin(1)]

    def persistence(self) -> np.ndarray:
        return self._of_own(lambda column, frame: self.values[frame, column])

    def moved(self) -> np.ndarray:
        read = np.isfinite(self.values)

        def rule(column: int, frame: int) -> float:
            latest = self._closest(read.any(1))
            both = read[frame] & read[latest]
            both[column] = False
            step = self.values[latest, both] - self.values[frame, both]
            return float(self.values[frame, column] + (step.mean() if both.any() else 0.0))

        return self._of_own(rule)

    def neighbours(self) -> np.ndarray:
        read = np.isfinite(self.values)
        if not read.any():
            return np.full(len(self.own), np.nan)
        frame = self._closest(read.any(1))
        away = np.where(read[frame], self.away, np.inf)
        near = np.argsort(away, axis=1, kind="stable")[:, :NEIGHBOURS]
        weight = 1 / np.maximum(np.take_along_axis(away, near, 1), 1e-9)  # nothing for those that were not read
        return (weight * np.nan_to_num(self.values[frame])[near]).sum(1) / weight.sum(1)

    def linear(self) -> np.ndarray:
        def rule(column: int, frame: int) -> float:
            known = np.flatnonzero(np.isfinite(self.values[:, column]))
            return float(np.interp(int(self.late.argmin()), known, self.values[known, column]))

        return self._of_own(rule)

    def latest(self) -> np.ndarray:  # (P,)
        """The reading of each place that is nearest in time."""
        read = np.isfinite(self.values)
        when = np.where(read, self.late[:, None], np.iinfo(np.int64).max).argmin(0)
        return self.values[when, np.arange(len(self.places))]

    def own_age(self) -> np.ndarray:  # (N,) NaN where it has no reading
        """Frames to the nearest reading of the asked place itself."""
        late = np.where(np.isfinite(self.values), self.late[:, None].astype(float), np.inf).min(0, initial=np.inf)
        age = np.append(late, np.inf)[self.own]
        return np.where(np.isfinite(age), age, np.nan)

    def _closest(self, frames: np.ndarray) -> int:  # (W,) bool
        return int(np.where(frames, self.late, np.iinfo(np.int64).max).argmin())

    def _of_own(self, rule: Callable[[int, int], float]) -> np.ndarray:  # (N,)
        """A rule of the place's own record; the nearest sensor where it has none."""
        found = self.nearest()
        for row, column in enumerate(self.own):
            if column >= 0 and np.isfinite(self.values[:, column]).any():
                found[row] = rule(int(column), self._closest(np.isfinite(self.values[:, column])))
        return found


def climatology(
    record: Record,  # physical units
    hours: np.ndarray,  # (T,) of the day, of every frame
    quantiles: int = 400,
) -> np.ndarray:  # (C, 24, Q)
    """Quantiles of the training readings by variable and hour; of all hours where one has none."""
    levels = (np.arange(quantiles) + 0.5) / quantiles
    train = record.of_split("train")
    values, hour, channel = record.values[train], hours[record.frames[train]], record.cells[train] // record.grid.cells
    found = np.empty((len(record.variables), 24, quantiles))
    for c in range(len(record.variables)):
        for h in range(24):
            mine = values[(channel == c) & (hour == h)]
            found[c, h] = np.quantile(mine if len(mine) else values[channel == c], levels)
    return found
