"""`solid bench network`: networks of sensors as a new user meets them: one table, one run, judged everywhere.

    kolkata   buses and fixed sensors, hourly PM2.5, cells of 0.01 degrees
    beijing   the 36 stations of AQI-36, hourly PM2.5, cells of 0.02 degrees
    germany   69 rural stations, daily PM10, cells of 10 km

Every fifth day tests and a tenth of the sensors is held out for ever; the defaults of `solid train` decide all else.
One run fills, now-casts and forecasts; it is judged as `solid evaluate` judges it, beside kriging in space and time
with the same readings and calibrated intervals, and by how much rougher its map is than kriging's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from ...config import TrainConfig
from ...engine import Progress
from ...errors import SolidError
from ...pairs.choices import decide_holdout
from ...pairs.frames import as_frames
from ...readings.intake import grid
from ...report.questions import evaluate_questions
from ...training.record import RUN, RunRecord
from ...training.sets import LEADS, train_sets
from ..cell import Cell, Experiment, Place, Result
from ..datasets import aqi36, kolkata
from ..text import Table
from ..trainer import QUESTIONS, alone, one_thread
from .brief import in_brief, tables, verdicts
from .real import Members, Minutes, Scenes, Seeds, some

HELD = 0.1  # of the sensors, for ever
GERMANY = "daily PM10 of rural stations in Germany 2005, AirBase, from the R package gstat"


def read_network(name: str, data: Path) -> tuple[Any, dict[str, Any]]:
    """A table, or its files, and how a user would ask for it to be read."""
    if name == "kolkata":
        folder = kolkata.find(data, "kolkata", kolkata.FILES[0])
        how = {"cell": "0.01deg", "every": "1h", "timezone": kolkata.TIMEZONE, "dates": "monthfirst"}
        return [folder / file for file in kolkata.FILES], how | {"drop_above": kolkata.HIGHEST}
    if name == "beijing":
        found = aqi36.read_aqi36(data)
        hour, station = np.nonzero(np.isfinite(found.ground))
        row, column = np.divmod(found.cells[station], found.grid.shape[1])
        times = pd.to_datetime(found.start + 3600.0 * hour, unit="s")
        columns = {"time": times, "lat": found.grid.y[row], "lon": found.grid.x[column]}
        table = pd.DataFrame(columns | {"pm25": found.ground[hour, station]})
        return table, {"cell": "0.02deg", "every": "1h", "timezone": "+08:00"}
    file = kolkata.find(data, "de_rb_2005", "readings.csv") / "readings.csv"
    return pd.read_csv(file).drop(columns="station"), {"cell": "10km", "every": "1d", "timezone": "UTC"}


CREDITS = {"kolkata": kolkata.CREDIT, "beijing": aqi36.CREDIT, "germany": GERMANY}


@dataclass(frozen=True)
class NetworkCell(Cell):
    HOME = "network"
    JUDGED = ("members", "scenes", "past_only")

    part: str  # of CREDITS
    minutes: float  # CPU time of one thread
    members: int
    scenes: int | None
    past_only: bool

    @property
    def words(self) -> tuple[str, ...]:
        return (self.part, *(["past"] if self.past_only else []), f"{self.minutes:g}min", f"seed{self.seed}")

    @property
    def sheet(self) -> str:
        return f"network-{self.part}"

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        folder = place.work / "runs" / self.run
        with alone(folder.with_name(f"{folder.name}.lock")), one_thread():
            run = self._trained(folder, place.files(self.part), progress)
            findings = evaluate_questions(
                run,
                members=self.members,
                scenes=self.scenes,
                seed=self.seed,
                past_only=self.past_only,
                progress=progress,
            )
        about = {"data": CREDITS[self.part], "units": "ug/m3", "region": "held_sensors"}
        texture = {word: next(iter(findings.table.about["map"][word].values())) for word in ("rougher", "rippled")}
        return about | texture | in_brief(findings.table, findings.verdict)

    def _trained(self, folder: Path, data: Path, progress: Progress | None) -> RunRecord:
        if not (folder / RUN).is_file():
            readings, how = read_network(self.part, data)
            frames = as_frames(grid(readings, **how))
            frames = replace(frames, timezone=how["timezone"])
            config = TrainConfig(minutes=self.minutes, clock="cpu", seed=self.seed, **QUESTIONS)
            holdout = decide_holdout(frames, {"sensors": HELD}, None, calibration=False)
            train_sets(frames, folder, config, {}, leads=LEADS, holdout=holdout, progress=progress)
        return RunRecord.open(folder)


def network_cells(
    networks: Annotated[str, "Comma-separated: kolkata, beijing, germany."] = "kolkata,beijing,germany",
    minutes: Minutes = 8.0,
    seeds: Seeds = 1,
    members: Members = 100,
    scenes: Scenes = None,
    past_only: Annotated[bool, "Maps at the time of readings know nothing that came later."] = False,
) -> list[Cell]:
    names = networks.split(",")
    for name in names:
        if name not in CREDITS:
            raise SolidError(f"no network '{name}'; choose of {', '.join(CREDITS)}")
    return [NetworkCell(name, minutes, members, scenes, past_only, seed=seed) for name in names for seed in some(seeds)]


def network_tables(results: Sequence[Result]) -> list[Table]:
    """Scores by place and lead, and how much rougher the maps are."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        name = f"{result['cell']['part']}, seed {result['cell']['seed']}"
        ratios = (result["rougher"], result.get("rippled"))  # older results have no power
        rows.append((name, *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)))
    heading = ("the mean map, over kriging's", "steps between cells", "power at the highest frequencies")
    return [*tables(results), (heading, rows)]


EXPERIMENT = Experiment(
    "network",
    "Networks of sensors as a new user meets them: one run, at held-out sensors, gaps and every lead.",
    network_cells,
    network_tables,
    verdicts,
    reads=True,
    work="bench/network",
)
