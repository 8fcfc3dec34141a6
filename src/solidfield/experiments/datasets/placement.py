"""Kolkata's candidates for new sensors (AirShot, set kk1): one sensor, thirteen candidates, readings elsewhere.

`kk1_init.csv`, `kk1_pool.csv`, `kk1_valid.csv` and `kk1_test.csv` with columns lat, lon, hour (of the day), month, time
and value (PM2.5, ug/m3, hourly). `init` is one fixed sensor and `pool` thirteen others; `valid` and `test` are readings
of buses and other sensors. `test` is for judging alone: `read_pool` does not open it. Data: Kolkata PM2.5 Pollution
Dataset, S. Chauhan et al., IIT Delhi, CC BY 4.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import SolidError
from ...grid import Grid
from .kolkata import find

CELL = 0.01  # degrees: places are rounded to it
START = pd.Timestamp("2023-03-28")


@dataclass(frozen=True)
class Rows:
    """Readings as rows."""

    lat: np.ndarray  # (n,)
    lon: np.ndarray  # (n,)
    hour: np.ndarray  # (n,) int64, since START
    value: np.ndarray  # (n,)

    @classmethod
    def read(cls, path: Path) -> Rows:
        if not path.is_file():
            raise SolidError(f"{path} is missing; name the folder of the kk1 files with --data")
        table = pd.read_csv(path, parse_dates=["time"])
        hour = (table["time"] - START) // pd.Timedelta(hours=1)
        return cls(*(column.to_numpy() for column in (table["lat"], table["lon"], hour, table["value"])))

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, rows: np.ndarray) -> Rows:
        return Rows(self.lat[rows], self.lon[rows], self.hour[rows], self.value[rows])

    def and_also(self, other: Rows) -> Rows:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Rows(*(np.concatenate(pair) for pair in pairs))

    def features(self) -> np.ndarray:  # (n, 3)
        return np.stack([self.lat, self.lon, self.hour], 1)


@dataclass(frozen=True)
class Pool:
    """What a choice may look at."""

    init: Rows
    pool: Rows
    valid: Rows

    @property
    def places(self) -> np.ndarray:  # (13, 2) lat and lon of the candidates
        return np.unique(np.stack([self.pool.lat, self.pool.lon], 1), axis=0)

    @property
    def which(self) -> np.ndarray:  # (n,) the candidate of each row of the pool
        rows = np.stack([self.pool.lat, self.pool.lon], 1)
        return np.unique(rows, axis=0, return_inverse=True)[1].ravel()

    def trained_on(self, chosen: tuple[int, ...]) -> Rows:
        """The rows of the first sensor and of those chosen."""
        return self.init.and_also(self.pool[np.isin(self.which, chosen)])

    def grid(self) -> Grid:
        every = self.init.and_also(self.pool).and_also(self.valid)
        low = every.lat.min(), every.lon.min()
        shape = [
            round((axis.max() - first) / CELL) + 1 for axis, first in zip((every.lat, every.lon), low, strict=True)
        ]
        return Grid(
            (shape[0], shape[1]), (CELL, CELL), (float(low[0]), float(low[1])), axes=("lat", "lon"), units="degrees"
        )


def read_pool(folder: Path | str) -> Pool:
    """All but `test`, which lie in the folder or in its `placement`."""
    folder = find(Path(folder), "placement", "kk1_*.csv")
    return Pool(*(Rows.read(folder / f"kk1_{name}.csv") for name in ("init", "pool", "valid")))


def read_test(folder: Path | str) -> Rows:
    """What judges."""
    return Rows.read(find(Path(folder), "placement", "kk1_*.csv") / "kk1_test.csv")
