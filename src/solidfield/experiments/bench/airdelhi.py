"""`solid bench airdelhi`: the AD-B protocol on AirDelhi's daily files, or on Kolkata's readings in the same way.

The letters are those of `datasets/airdelhi.py`; a mode says what is asked of a judged day and what may be known:

    C-D, AC-D, ABC-D   lead 0: D of each slot from C of the slot; the history knows C of earlier slots of the day and
                       nothing, A, or A and B of the days before
    AB-CD              lead 1: all readings (C and D) of each slot from the slot before, as the paper's 30-minute
                       forecast; the history knows all days before

What is ours: AD-B fits a model to each day by itself. Here every fifth day is judged, one model is trained on all days
that are not (but one in ten, which choose its weights): they hold A and B of every judged day, and other days besides.
Nothing of a judged day trains or is history of a training example. A judged day needs its three days before it. Within
AB-CD the readings of the slot before are of the judged day itself, without which there is nothing to condition on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...clock import local
from ...engine import Progress
from ...errors import SolidError
from ...pairs.covariates import Covariates
from ...pairs.frames import Frames
from ...pairs.holdout import FIRST_DAY, Holdout
from ...pairs.masked import masked_pairs
from ...pairs.pairing import frame_pairs
from ...pairs.store import PairStore
from ...report import Findings
from ...report.scoring import measure_targets
from ...training.record import RunRecord
from ..cell import Cell, Experiment, Result
from ..datasets.airdelhi import busiest_box, larger_part, read_airdelhi, trim
from ..datasets.kolkata import CREDIT, read_kolkata
from .brief import in_brief, tables, verdicts
from .real import Members, Minutes, Models, RealCell, Scenes, Seeds, some

MODES = ("C-D", "AC-D", "ABC-D", "AB-CD")
LAYOUTS = ("airdelhi", "kolkata")
BEFORE = 3  # days whose readings are A and B
PAST = Covariates(history=24.0 * BEFORE, fade=12.0)
OFFSET = 1.0  # ug/m3: log(x + 1), since a low-cost sensor may report 0


@dataclass(frozen=True)
class AirDelhiCell(RealCell):
    """Its part is the mode."""

    HOME = "airdelhi"
    WORDS = ("layout", *RealCell.WORDS)

    layout: str
    box: tuple[int, int]

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, word, words in (("mode", self.part, MODES), ("layout", self.layout, LAYOUTS)):
            if word not in words:
                raise SolidError(f"no {what} '{word}' of AirDelhi's protocol; choose one of {', '.join(words)}")

    @property
    def sheet(self) -> str:
        return f"adb-{self.layout}-{self.part.lower()}"

    @property
    def home(self) -> str:
        return f"{self.layout}/{self.part}-{self.box[0]}x{self.box[1]}"

    def pairs(self, data: Path, path: Path) -> PairStore:
        frames = read_airdelhi(data) if self.layout == "airdelhi" else read_kolkata(data)
        holdout = Holdout(timezone=frames.timezone)
        larger = larger_part(frames)  # of all rows; the window is cut afterwards
        window = busiest_box(np.isfinite(frames.values[:, 0]).sum(axis=0), self.box)
        frames, larger = judgeable(frames, larger, holdout)
        seen = np.isfinite(trim_mask(frames.values[:, 0], window)).any((1, 2))
        larger, frames = trim_mask(larger, window)[seen], trim(frames, window)
        options: dict[str, Any] = {"holdout": holdout, "covariates": PAST, "transform": "log", "offset": OFFSET}
        if self.part == "AB-CD":
            return frame_pairs(frames, path, leads=(1,), **options)
        read = np.isfinite(frames.values[:, 0])
        known = {"C-D": np.zeros_like(read), "AC-D": larger, "ABC-D": read}[self.part]
        about = {"mode": self.part}
        return masked_pairs(frames, path, larger, read & ~larger, leads=(0,), known=known, scenario=about, **options)

    def judge(self, runs: Sequence[RunRecord], store: PairStore, data: Path, progress: Progress | None) -> Result:
        findings = self.findings(runs, store, progress)
        data_of = CREDIT if self.layout == "kolkata" else "AirDelhi"
        return in_brief(findings.table, findings.verdict) | {"by_day": by_day(findings), "data": data_of}


def airdelhi_cells(
    mode: Annotated[str, f"{', '.join(MODES)}."] = "AB-CD",
    models: Models = "solid,unet,kriging,persistence,climatology,nearest",
    layout: Annotated[str, "Whose files: airdelhi, or kolkata in the same protocol."] = "airdelhi",
    box: Annotated[str, "Height x width of the window that holds most rows."] = "21x20",
    minutes: Minutes = 8.0,
    seeds: Seeds = 3,
    members: Members = 100,
    scenes: Scenes = None,
) -> list[Cell]:
    size = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", box)
    if size is None:
        raise SolidError(f"cannot take '{box}' for a window; write it as 21x20")
    part, names = mode.upper().replace("->", "-"), tuple(models.split(","))
    window = (int(size[1]), int(size[2]))
    return [AirDelhiCell(part, names, minutes, members, scenes, 1, layout, window, seed=seed) for seed in some(seeds)]


def trim_mask(mask: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:  # (T, H, W) -> (T, h, w)
    y, x, height, width = window
    return mask[:, y : y + height, x : x + width]


def judgeable(frames: Frames, larger: np.ndarray, holdout: Holdout) -> tuple[Frames, np.ndarray]:  # (T, H, W) bool
    """Without the judged days that lack one of the three days before them."""
    days = local(frames.times, frames.timezone).normalize()
    present = set(days[np.isfinite(frames.values).any((1, 2, 3))])
    whole = {day for day in present if all(day - pd.Timedelta(days=n) in present for n in range(1, BEFORE + 1))}
    kept = (holdout.splits(frames.times) != "test") | np.array([day in whole for day in days])
    return replace(frames, values=frames.values[kept], times=frames.times[kept]), larger[kept]


def by_day(findings: Findings) -> dict[str, dict[str, dict[str, Any]]]:  # model -> date -> scores
    """MAE of the median, RMSE of the mean and CRPS on each judged day, of the store's only lead."""
    evidence = findings.evidence[0]
    targets, table = evidence.targets, {}
    group = targets.group
    dates = {day: str((FIRST_DAY + pd.Timedelta(days=int(day))).date()) for day in np.unique(group)}
    for name, members in evidence.members.items():
        measured = measure_targets(targets, members, np.ones(len(group), dtype=bool), findings.run)
        table[name] = {
            date: {
                "readings": int((group == day).sum()),
                "mae": measured.median_error[group == day].mean(),
                "rmse": np.sqrt((measured.error[group == day] ** 2).mean()),
                "crps": measured.crps[group == day].mean(),
            }
            for day, date in dates.items()
        }
    return table


EXPERIMENT = Experiment(
    "airdelhi",
    "AirDelhi's benchmark (AD-B): split letters, modes, scores by day.",
    airdelhi_cells,
    tables,
    verdicts,
    reads=True,
    work="bench/airdelhi",
    jobs=2,
)
