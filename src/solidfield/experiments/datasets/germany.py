"""Daily PM10 of 69 rural background stations in Germany, 2005.

`readings.csv` has columns station, x, y (metres, UTM zone 32), time (a day) and pm10 in ug/m3; 23,230 rows. From the R
package gstat (GPL >= 2), air quality data of the European Environment Agency's AirBase; converted to CSV.
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

CELL = 2000.0  # metres: fine enough that no two stations share a cell
CREDIT = "PM10 of rural background stations in Germany, AirBase (EEA), from the R package gstat"
VALIDATES = 3  # the last days of each month


@dataclass(frozen=True)
class Germany:
    values: np.ndarray  # (days, stations) ug/m3, NaN = not read
    cells: np.ndarray  # (stations,) flat cells of the grid, ascending
    grid: Grid
    split: np.ndarray  # (days,) positions in SPLITS

    def record(self, values: np.ndarray) -> Record:  # (days, stations)
        frame, station = np.nonzero(np.isfinite(values))
        return Record(
            self.grid,
            ("pm10",),
            np.concatenate([[0], np.cumsum(np.bincount(frame, minlength=len(values)))]),
            self.cells[station],
            values[frame, station].astype(np.float32),
            self.split,
            np.zeros(len(values), np.int32),
            step=86400.0,
            units=("ug/m3",),
        )


def read_germany(folder: Path | str) -> Germany:
    """The file, which lies in the folder or in its `de_rb_2005`."""
    path = find(Path(folder), "de_rb_2005", "readings.csv") / "readings.csv"
    if not path.is_file():
        raise SolidError(f"there is no {path}; name the folder of the German readings with --data")
    table = pd.read_csv(path, parse_dates=["time"])
    places = table.groupby("station")[["y", "x"]].first()
    low = places.min().to_numpy()
    row, column = np.floor((places.to_numpy() - low) / CELL).astype(np.int64).T
    grid = Grid((int(row.max()) + 1, int(column.max()) + 1), (CELL, CELL), tuple(low + CELL / 2), units="m")
    cells = row * grid.shape[1] + column
    if len(np.unique(cells)) < len(cells):
        raise SolidError(f"two stations of {path} lie within {CELL:g} m; that is not the file of the protocol")
    days = pd.date_range(table["time"].min(), table["time"].max())
    values = table.pivot_table(index="time", columns="station", values="pm10").reindex(days)[places.index]
    order = np.argsort(cells)
    split = np.where(days.days_in_month - days.day < VALIDATES, 1, 0).astype(np.int8)
    return Germany(values.to_numpy(np.float64)[:, order], cells[order], grid, split)
