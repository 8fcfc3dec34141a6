"""How far expected gains can be trusted: hide each sensor, and compare what it was expected to gain with what it did.

The sensors that were read at a time fall into two halves. One half is hidden and judges; of the other, one sensor j
after the other is hidden, too. At the judging sensors

    realised gain of j = CRPS without j - CRPS with j,      expected gain of j = what `gain.py` says of a reading there,

both means over judging sensors and times. A single CRPS is noisy, so the order and the mean over sensors tell more
than any one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from ..keys import evenly
from ..pairs.frames import Frames
from ..scores.metrics import crps_cells
from ..training.record import RunRecord
from .candidates import of_cells
from .law import Wanted, law_of, predicted

SENSORS = 12  # hidden one by one at each time, at most
FEWEST = 4  # sensors without which nothing can be said


@dataclass(frozen=True)
class Trust:
    """Of every sensor that was hidden, the expected and the realised gain, in the units of the CRPS."""

    sensors: pd.DataFrame  # name, expected, realised: means over times
    error: float  # standard error of the ratio
    how: str = "sensors were hidden one by one: what they gained at others"

    @property
    def rank(self) -> float:
        """Rank correlation of expected and realised gains; 1: the same order."""
        return float(spearmanr(self.sensors["expected"], self.sensors["realised"])[0])

    @property
    def ratio(self) -> float:
        """Realised by expected gain, of all sensors together."""
        return float(self.sensors["realised"].sum() / self.sensors["expected"].sum())

    def sentence(self) -> str:
        said = (
            f"{len(self.sensors)} {self.how} was {self.ratio:.2f} ± {self.error:.2f} times what was expected, with a "
            f"rank correlation of {self.rank:.2f}"
        )
        if self.error > 0.5:
            return f"{said}; too few readings to tell how far gains can be trusted"
        if self.ratio < 2 * self.error:
            return f"{said}; expected gains cannot be trusted here"
        size = "sizes can be trusted" if 0.5 < self.ratio < 2 else f"multiply gains by about {self.ratio:.1g}"
        order = "the order can be trusted" if self.rank > 0.5 else "the order of single places is uncertain"
        return f"{said}; {size}, {order}"

    def as_dict(self) -> dict[str, Any]:
        rows = self.sensors.to_dict("records")
        ratio = {"ratio": self.ratio, "ratio_error": self.error}
        return {**ratio, "rank_correlation": self.rank, "sentence": self.sentence(), "sensors": rows}


def trust(run: RunRecord, frames: Frames, rows: np.ndarray, variable: int, seed: int = 0) -> Trust | None:
    """Hide sensors at these frames; None where too few were read."""
    found = []
    for row in rows:
        read = evenly(np.flatnonzero(np.isfinite(frames.values[row, variable]).ravel()), 2 * SENSORS)
        if len(read) < FEWEST:
            continue
        for judges, others in ((read[::2], read[1::2]), (read[1::2], read[::2])):
            found += _hidden(run, frames, int(row), judges, others, variable, seed)
    if not found:
        return None
    every = pd.DataFrame(found, columns=["cell", "expected", "realised"])
    table = every.groupby("cell").mean()
    names = of_cells(table.index.to_numpy(), run.grid).names
    return Trust(table.reset_index(drop=True).assign(name=names)[["name", "expected", "realised"]], ratio_error(every))


def ratio_error(every: pd.DataFrame) -> float:
    """Standard error of realised by expected gain, from single comparisons: how far each is off the ratio of all."""
    off = every["realised"] - every["expected"] * every["realised"].sum() / every["expected"].sum()
    return float(np.sqrt((off**2).sum()) / abs(every["expected"].sum()))


def _hidden(
    run: RunRecord, frames: Frames, row: int, judges: np.ndarray, others: np.ndarray, variable: int, seed: int
) -> list[tuple[int, float, float]]:  # cell, expected, realised
    wanted = Wanted(judges, np.full(len(judges), 1 / len(judges)), variable)
    truth = frames.values[row, variable].ravel()[judges].astype(float)
    known = _without(frames, judges)
    base = crps_cells(predicted(run, known, row, wanted, seed), truth).mean()
    found = []
    for cell in others[: max(1, SENSORS // 2)]:
        less = _without(known, np.array([cell]))
        if not np.isfinite(less.values[row]).any():
            continue  # nothing is left to start from
        law = law_of(run, less, row, wanted, np.array([cell]), seed=seed)
        expected = float(law.gains([np.zeros(1, int)])[0])
        realised = crps_cells(predicted(run, less, row, wanted, seed), truth).mean() - base
        found.append((int(cell), expected, float(realised)))
    return found


def _without(frames: Frames, cells: np.ndarray) -> Frames:
    """As if no sensor stood in these cells."""
    away = np.zeros(frames.grid.cells, bool)
    away[cells] = True
    values = np.where(away.reshape(frames.grid.shape), np.float32(np.nan), frames.values)
    return replace(frames, values=values)
