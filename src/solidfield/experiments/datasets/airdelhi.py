"""AirDelhi (AD-B): PM2.5 from buses in Delhi, November 2020 to January 2021, and the protocol of its benchmark.

Raw files are one CSV a day, `YYYY-MM-DD_all.csv`, with columns (index), uid, dateTime (ISO, +05:30), deviceId, lat,
long, pm1_0, pm2_5, pm10 and, in one variant, pressure, temperature and humidity. AD-B rounds the time to 30 minutes,
keeps minutes 300 .. 1350 of the day, numbers cells by int((lat - 28.48) / 0.009) and int((long - 77.10) / 0.0102), and
takes the mean of every (day, slot, cell).

Each day's rows, ordered by slot and cell, are cut by a 5-fold shuffle with seed 0 into 4/5 and 1/5. Of a day that is
judged these are C and D; of the three days before it they are A and B. Modes: C->D, AC->D (interpolation), ABC->D
(missing data), AB->CD (forecasting). The public text names neither the fold nor the order of rows nor the window of
21 x 20 cells: ours are the first fold, (slot, y, x), and the window that holds most rows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...clock import local, zone
from ...errors import SolidError
from ...grid import Grid
from ...pairs.frames import Frames
from ...readings import open_table
from .kolkata import find

PATTERN = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]_all.csv"
TIMEZONE = "+05:30"
FIRST, LAST = "2020-11-12", "2021-01-30"
EVERY = 30  # minutes
EARLIEST, LATEST = 300, 1350  # minutes of the day
CORNER, CELL = (28.48, 77.10), (0.009, 0.0102)  # degrees: of cell (0, 0), and its size
MOST_CELLS = 40_000  # the benchmark's box has 27 x 22; a box far beyond it comes from wrong coordinates
FOLDS = 5
KEYS = ["slot", "y", "x"]
VARIABLE = "pm2_5"


def read_airdelhi(folder: Path | str) -> Frames:
    """The daily files as frames of 30 minutes on the benchmark's cells, all of them that were ever visited."""
    folder = find(Path(folder), "airdelhi", PATTERN)
    files = sorted(folder.glob(PATTERN))
    if not files:
        raise SolidError(f"{folder} has no daily file YYYY-MM-DD_all.csv; name the folder of AirDelhi with --data")
    columns = {"time": "dateTime", "y": "lat", "x": "long", "value": VARIABLE, "sensor": "deviceId"}
    table = open_table(files, columns=columns, timezone=TIMEZONE, units="ug/m3")
    sums = pd.DataFrame({"total": [], "count": []}, index=pd.MultiIndex.from_arrays([[], [], []], names=KEYS))
    for rows, _ in table.chunks(sensors=False):
        placed = place(rows.time, rows.y, rows.x).assign(value=rows.values[:, 0]).dropna()
        part = placed.groupby(KEYS)["value"].agg(total="sum", count="count")
        sums = pd.concat([sums, part]).groupby(level=KEYS).sum()
    if sums.empty:
        raise SolidError(f"no reading in {folder} lies between {FIRST} and {LAST}, 05:00 to 22:30; check its times")
    return _frames(sums["total"] / sums["count"])


def place(time: np.ndarray, y: np.ndarray, x: np.ndarray) -> pd.DataFrame:  # (n,) UTC, degrees -> slot, y, x
    """Slot (local time) and cell of each reading; NaT where the benchmark leaves it out. int() cuts towards 0."""
    slot = local(time, TIMEZONE).round(f"{EVERY}min")
    minute = slot.hour * 60 + slot.minute
    kept = (minute >= EARLIEST) & (minute <= LATEST)
    kept &= (slot.normalize() >= pd.Timestamp(FIRST)) & (slot.normalize() <= pd.Timestamp(LAST))
    cells = [((at - corner) / size).astype(np.int64) for at, corner, size in zip((y, x), CORNER, CELL, strict=True)]
    return pd.DataFrame({"slot": slot.where(kept), "y": cells[0], "x": cells[1]})


def _frames(means: pd.Series) -> Frames:  # by (slot, y, x)
    slot, iy, ix = (means.index.get_level_values(name) for name in KEYS)
    slot, iy, ix = pd.DatetimeIndex(slot), iy.to_numpy(np.int64), ix.to_numpy(np.int64)
    first, shape = (int(iy.min()), int(ix.min())), (int(np.ptp(iy)) + 1, int(np.ptp(ix)) + 1)
    if shape[0] * shape[1] > MOST_CELLS:
        raise SolidError(f"the readings span {shape[0]} x {shape[1]} cells of 1 km; drop those that are not in Delhi")
    slots, row = np.unique(slot.to_numpy(), return_inverse=True)
    values = np.full((len(slots), 1, *shape), np.nan, np.float32)
    values[row, 0, iy - first[0], ix - first[1]] = means.to_numpy()
    times = pd.DatetimeIndex(slots).tz_localize(zone(TIMEZONE)).tz_convert("UTC").tz_localize(None)
    middle = tuple(corner + (at + 0.5) * size for corner, at, size in zip(CORNER, first, CELL, strict=True))
    grid = Grid(shape, CELL, (middle[0], middle[1]), axes=("lat", "lon"), units="degrees")
    stamps = times.to_numpy().astype("datetime64[ns]")
    return Frames(values, stamps, grid, (VARIABLE,), ("ug/m3",), EVERY * 60.0, timezone=TIMEZONE, anchor="round")


def larger_part(
    frames: Frames,
) -> np.ndarray:  # (T, H, W) bool: the 4/5 of each day's rows (A or C); what else was read is the 1/5 (B or D)
    """The benchmark's cut, of all rows of a day."""
    seen = np.isfinite(frames.values[:, 0])
    larger = seen.copy()
    days = local(frames.times, frames.timezone).normalize().to_numpy()
    for day in np.unique(days):
        rows = np.argwhere(seen & (days == day)[:, None, None])  # (n, 3), in the order of slot, y, x
        larger[tuple(rows[fold_rows(len(rows))].T)] = False
    return larger


def fold_rows(count: int, fold: int = 0) -> np.ndarray:  # (m,) ascending
    """Which of `count` rows form a fold of a 5-fold shuffle, as scikit-learn's KFold draws it.

    >>> fold_rows(10).tolist()
    [2, 8]
    """
    order = np.arange(count)
    np.random.RandomState(0).shuffle(order)  # the benchmark's generator and seed
    sizes = np.full(FOLDS, count // FOLDS)
    sizes[: count % FOLDS] += 1
    end = int(sizes[: fold + 1].sum())
    return np.sort(order[end - sizes[fold] : end])


def busiest_box(
    counts: np.ndarray,  # (H, W) rows in each cell
    size: tuple[int, int] = (21, 20),
) -> tuple[int, int, int, int]:  # first row, first column, height, width
    """The window that holds most rows; the southernmost, then westernmost of equals."""
    height, width = (min(a, b) for a, b in zip(size, counts.shape, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(counts, (height, width)).sum(axis=(2, 3))
    y, x = np.unravel_index(int(windows.argmax()), windows.shape)
    return int(y), int(x), height, width


def trim(frames: Frames, box: tuple[int, int, int, int]) -> Frames:
    """The frames of a window; those without a reading in it are left out."""
    y, x, height, width = box
    values = frames.values[:, :, y : y + height, x : x + width]
    kept = np.isfinite(values).any((1, 2, 3))
    (dy, dx), (south, west) = frames.grid.spacing, frames.grid.origin
    grid = replace(frames.grid, shape=(height, width), origin=(south + y * dy, west + x * dx))
    return replace(frames, values=values[kept], times=frames.times[kept], grid=grid)
