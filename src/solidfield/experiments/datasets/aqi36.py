"""AQI-36: hourly PM2.5 of 36 stations in Beijing, May 2014 to April 2015, with gaps cut into it to be filled.

`pm25_ground.txt` has all readings (first column `datetime`, then one column a station, empty = not read),
`pm25_missing.txt` the same with the gaps, `pm25_latlng.txt` the places. Released by Microsoft Research with ST-MVL (Yi
et al. 2016). Months 3, 6, 9 and 12 are judged; the last tenth of months 2, 5, 8 and 11 validates; no question looks
into another month.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import SolidError
from ...grid import Grid
from ...questions.record import Record
from .kolkata import find

JUDGED, VALIDATING = (3, 6, 9, 12), (2, 5, 8, 11)
CELL = 0.01  # degrees: fine enough that no two stations share a cell
CREDIT = "AQI-36, Microsoft Research, with ST-MVL (Yi et al. 2016)"


@dataclass(frozen=True)
class AQI36:
    """The readings as hours x stations; stations in the order of their cells."""

    ground: np.ndarray  # (T, 36) ug/m3, NaN = not read
    missing: np.ndarray  # (T, 36) the same with gaps
    cells: np.ndarray  # (36,) flat cells of the grid
    grid: Grid
    month: np.ndarray  # (T,)
    split: np.ndarray  # (T,) positions in SPLITS
    calendar: np.ndarray  # (T, 4) sine and cosine of the hour, once and twice a day
    start: float  # seconds since 1970, as if local time were UTC

    @property
    def asked(self) -> np.ndarray:  # (T, 36) bool
        """What the protocol judges: in `ground`, not in `missing`, of a judged month."""
        return np.isfinite(self.ground) & ~np.isfinite(self.missing) & np.isin(self.month, JUDGED)[:, None]

    def record(self, values: np.ndarray) -> Record:  # (T, 36)
        """Readings as a record; months never see each other."""
        frame, station = np.nonzero(np.isfinite(values))
        counts = np.bincount(frame, minlength=len(values))
        return Record(
            self.grid,
            ("pm25",),
            np.concatenate([[0], np.cumsum(counts)]),
            self.cells[station],
            values[frame, station].astype(np.float32),
            self.split,
            np.cumsum(np.diff(self.month, prepend=self.month[0]) != 0).astype(np.int32),
            calendar=self.calendar,
            start=self.start,
            step=3600.0,
            units=("ug/m3",),
        )


def read_aqi36(folder: Path | str | None) -> AQI36:
    """The three files, which lie in the folder or in its `aqi36`."""
    if folder is None:
        raise SolidError("the AQI-36 files are not in the repository; name their folder with --data")
    folder = find(Path(folder), "aqi36", "pm25_ground.txt")
    tables = {}
    for name in ("ground", "missing", "latlng"):
        path = folder / f"pm25_{name}.txt"
        if not path.is_file():
            raise SolidError(f"{folder} has no {path.name}; name the folder of the AQI-36 files with --data")
        tables[name] = pd.read_csv(path, index_col=None if name == "latlng" else 0)
    times = pd.to_datetime(tables["ground"].index)
    places = tables["latlng"]
    origin = places["latitude"].min(), places["longitude"].min()
    row, column = (
        np.floor((places[name].to_numpy() - low) / CELL + 1e-9).astype(np.int64)
        for name, low in zip(("latitude", "longitude"), origin, strict=True)
    )
    centre = (float(origin[0]) + CELL / 2, float(origin[1]) + CELL / 2)
    grid = Grid((int(row.max()) + 1, int(column.max()) + 1), (CELL, CELL), centre, axes=("lat", "lon"), units="degrees")
    cells = row * grid.shape[1] + column
    order = np.argsort(cells)
    month = times.month.to_numpy()
    split = np.where(np.isin(month, JUDGED), 2, 0).astype(np.int8)
    for validating in VALIDATING:
        hours = np.flatnonzero(month == validating)
        split[hours[int(0.9 * len(hours)) :]] = 1
    angle = times.hour.to_numpy() * (2 * np.pi / 24)
    calendar = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)], 1)
    return AQI36(
        tables["ground"].to_numpy(np.float64)[:, order],
        tables["missing"].to_numpy(np.float64)[:, order],
        cells[order],
        grid,
        month,
        split,
        calendar.astype(np.float32),
        times[0].timestamp(),
    )
