"""Which readings are dropped, by option and never by stealth: limits on the value, and a robust rule per frame.

The rule "mad:K" needs a first pass that grids everything. A reading of a frame is dropped when it lies further from the
median of the frame's cells than K robust standard deviations,

    |v - median| > K 1.4826 median |cell - median|,

in frames of at least ten cells: hot spots of a whole neighbourhood move the median, a sensor gone wrong does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ..errors import SolidError
from .accumulate import Cube
from .records import Refused, Rows
from .table import Table

FEW = 10  # cells a frame needs before its median can call a reading an outlier


@dataclass(frozen=True)
class Limits:
    """Which readings are dropped, and why."""

    above: float | None = None
    below: float | None = None
    positive: bool = False
    robust: float | None = None
    frames: Mapping[int, np.ndarray] | None = None  # frame -> (V, 2) median and robust standard deviation

    def broken(self, values: np.ndarray, frame: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
        """((n, V) mask, why) rule by rule; readings taken out of `values` meanwhile break no further rule."""
        if self.above is not None:
            yield values > self.above, f"above {self.above:g}"
        if self.below is not None:
            yield values < self.below, f"below {self.below:g}"
        if self.positive:
            yield values <= 0, "not positive"
        if self.robust is not None and self.frames is not None:
            unknown = np.full((values.shape[1], 2), np.nan)
            frames, where = np.unique(frame, return_inverse=True)
            centre = np.array([self.frames.get(int(f), unknown) for f in frames]).reshape(-1, values.shape[1], 2)
            far = np.abs(values - centre[where, :, 0]) > self.robust * centre[where, :, 1]  # False where unknown
            yield far, f"further than {self.robust:g} robust standard deviations from its frame's median"


def parse_outliers(outliers: str | None) -> float | None:
    """K of "mad:K"."""
    if outliers is None or outliers == "none":
        return None
    kind, _, number = outliers.partition(":")
    with suppress(ValueError):
        if kind == "mad" and float(number) > 0:
            return float(number)
    raise SolidError(f"no outlier policy '{outliers}'; give mad:6 (robust deviations), --drop-above or --drop-below")


def drop(
    table: Table,
    rows: Rows,
    values: np.ndarray,  # (n, V)
    frame: np.ndarray,  # (n,)
    limits: Limits,
    chosen: Sequence[int],
) -> tuple[np.ndarray, list[Refused]]:
    """The values with NaN for readings that break a limit, and which those are."""
    dropped = []
    if limits != Limits():
        values = values.copy()  # the rows keep their own
    for bad, why in limits.broken(values, frame):
        for i, v in np.argwhere(bad):
            name = table.columns.values[chosen[v]]
            dropped.append(Refused(table.files[rows.file[i]], int(rows.row[i]), name, f"{values[i, v]:.10g}", why))
        values[bad] = np.nan
    return values, dropped


def frame_centres(cube: Cube) -> dict[int, np.ndarray]:
    """Per frame (V, 2): the median of its cells and 1.4826 times their median distance from it; NaN where too few."""
    centres = {}
    for f, frame in enumerate(cube.frames.tolist()):
        means = cube.mean[f].reshape(cube.mean.shape[1], -1)
        centre = np.full((len(means), 2), np.nan)
        for v, cells in enumerate(means):
            seen = cells[~np.isnan(cells)]
            spread = 1.4826 * np.median(np.abs(seen - np.median(seen))) if len(seen) >= FEW else 0.0
            if spread > 0:
                centre[v] = np.median(seen), spread
        centres[frame] = centre
    return centres
