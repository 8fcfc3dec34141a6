"""What is kept aside to be judged by: whole days, sensors for ever (a share, a list, a fold), blocks of the map.

Day n counts from 1 January 2023 in a local zone; it tests where n mod `days` = `day_offset`, validates where
n mod `validation_days` = `validation_offset`, and trains otherwise. A held cell is never a source, and a target only of
test examples: what is scored there was seen by nothing that was trained or conditioned on. A calibration
cell is the same for validation: a target of validation examples alone, it tells how wide a law must be where nothing
was ever read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..clock import local
from ..disk import open_dataset
from ..errors import SolidError
from ..grid import Grid
from ..keys import numpy_generator
from ..readings.names import LATITUDES, LONGITUDES, plain

FIRST_DAY = pd.Timestamp("2023-01-01")
RANK = {"train": 0, "validation": 1, "test": 2}  # what a split may look back on: its own frames and those before it


@dataclass(frozen=True)
class Holdout:
    """What is kept aside to validate and to test: days, sensors, blocks of the map.

    Parameters
    ----------
    days : int
        Every so many days one tests; 0: none. Default 5.
    day_offset : int
        Which of them: day n since 2023-01-01 where n mod `days` is this. Default 4.
    validation_days, validation_offset : int
        The same for validation, on days that do not test. Default 10 and 2.
    hours : float
        Length of a "day"; a record of few days is cut finer. Default 24.
    timezone : str, optional
        Where a day begins at midnight. Default: as the frames say, else UTC.
    sensors : float
        Share of the cells with readings held for ever: targets of test pairs only. Default 0.
    blocks : float
        Share of the map held for ever, in blocks that hold readings. Default 0.
    block : int
        Side of a block in cells. Default 3.
    calibration : float
        Share of the cells with readings that only validation targets show: they tell how wide a law must be where
        nothing was ever read. Default 0.
    places : sequence of (float, float)
        Coordinates along (y, x), or (lat, lon), whose cells are held for ever: a list of stations, the cells of a
        mask. `hold_list` and `hold_mask` read them from files. Default: none.
    folds, fold : int
        The cells with readings fall into so many folds, of which number `fold` (from 0) is held for ever; each cell is
        in one of them. Default 0: no folds.
    seed : int
        Of the choice of cells.

    Raises
    ------
    SolidError
        If a share is not in [0, 1), every day would be held, or there is no such fold.

    Examples
    --------
    >>> Holdout(days=2, day_offset=1, validation_days=0).splits(np.array(["2023-01-01", "2023-01-02"], "M8[ns]"))
    array(['train', 'test'], dtype='<U10')
    """

    days: int = 5  # every so many days one tests; 0: none
    day_offset: int = 4
    validation_days: int = 10  # every so many days one validates, unless it tests; 0: none
    validation_offset: int = 2  # with the test days above, 2 mod 10 never falls on one
    hours: float = 24.0  # length of a "day": a record of few days is cut finer
    timezone: str | None = None  # where a day begins at midnight; None: as the frames say, else UTC
    sensors: float = 0.0  # share of the cells with readings that are held for ever
    blocks: float = 0.0  # share of the map, in blocks that hold readings, that is held for ever
    block: int = 3  # side of a block in cells
    calibration: float = 0.0  # share of the cells with readings that only validation targets show
    places: tuple[tuple[float, float], ...] = ()  # along (y, x), whose cells are held for ever
    folds: int = 0  # of the cells with readings ...
    fold: int = 0  # ... of which this one is held for ever
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds == 1 or self.folds < 0 or not 0 <= self.fold < max(self.folds, 1):
            raise SolidError(f"fold {self.fold} of {self.folds} folds: take 2 or more, counted from 0")
        for name in ("sensors", "blocks", "calibration"):
            if not 0 <= getattr(self, name) < 1:
                raise SolidError(f"holdout {name} = {getattr(self, name)} is a share; give 0 or more and less than 1")
        if min(self.days, self.validation_days) < 0 or 1 in (self.days, self.validation_days):
            raise SolidError("every day held out leaves none to train; hold one of 2 or more, or 0 for none")
        if self.hours <= 0 or self.block < 1:
            raise SolidError("holdout hours and block must be positive; a day has 24 hours, a block 1 cell or more")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def splits(
        self,
        times: np.ndarray,  # (T,) datetime64, UTC
    ) -> np.ndarray:  # (T,) "train", "validation" or "test"
        """Which split each frame belongs to."""
        since = local(times, self.timezone or "UTC") - FIRST_DAY
        number = np.floor(since / pd.Timedelta(hours=self.hours)).to_numpy().astype(np.int64)
        splits = np.full(len(times), "train", dtype="<U10")
        if self.validation_days:
            splits[number % self.validation_days == self.validation_offset % self.validation_days] = "validation"
        if self.days:
            splits[number % self.days == self.day_offset % self.days] = "test"
        return splits

    def cells(
        self,
        read: np.ndarray,  # (H, W) bool: cells that ever had a reading
        grid: Grid | None = None,  # where places are on it
    ) -> dict[str, np.ndarray]:  # held_sensors, held_blocks, calibration_cells: (H, W) bool
        """The cells that are held for ever: disjoint kinds, of which only those asked for are there."""
        held: dict[str, np.ndarray] = {}
        listed = self._listed(read, grid)
        blocks = np.zeros_like(read)
        if self.blocks > 0:
            blocks = _some_blocks(read, self.blocks, self.block, numpy_generator(self.seed, "held blocks"))
            held["held_blocks"] = blocks
        free = read & ~blocks & ~listed
        # The last word is the key of the draw, older than the name: a seed goes on holding the cells it always held.
        for name, share, word in (
            ("held_sensors", self.sensors, "held sensors"),
            ("calibration_cells", self.calibration, "strangers"),
        ):
            if share > 0:
                held[name] = _some_cells(free, share, numpy_generator(self.seed, word))
                free = free & ~held[name]
        if listed.any():
            held["held_sensors"] = held.get("held_sensors", np.zeros_like(read)) | (listed & ~blocks)
            if not free.any():
                raise SolidError("every cell with readings is held out, none is left to learn from; hold fewer")
        return held

    def _listed(self, read: np.ndarray, grid: Grid | None) -> np.ndarray:  # (H, W) bool, both
        """The cells of the places and of the fold."""
        listed = np.zeros_like(read)
        if self.places:
            if grid is None:
                raise SolidError("places are held out on a grid; give one")
            rows, columns = grid.index(*np.array(self.places, float).T)
            inside = (rows >= 0) & (rows < read.shape[0]) & (columns >= 0) & (columns < read.shape[1])
            known = inside.copy()
            known[inside] = read[rows[inside], columns[inside]]
            if not known.all():
                place = self.places[int(np.flatnonzero(~known)[0])]
                raise SolidError(f"nothing was ever read at the place to hold out {place}; leave it out of the list")
            listed[rows, columns] = True
        if self.folds:
            cells = numpy_generator(self.seed, "folds").permutation(np.flatnonzero(read))
            listed.flat[cells[self.fold :: self.folds]] = True
        return listed


def hold_list(path: str | Path) -> tuple[tuple[float, float], ...]:
    """The places of a CSV file with columns of coordinates (lat and lon, y and x, or their usual names), a row each."""
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise SolidError(f"cannot read the list of places {path}: {error}") from None
    names = {plain(str(name)): name for name in table.columns}
    found = [next((names[word] for word in words if word in names), None) for words in (LATITUDES, LONGITUDES)]
    if None in found:
        raise SolidError(f"{path} has no columns lat and lon, or y and x; it has {', '.join(map(str, table.columns))}")
    places = table[found].apply(pd.to_numeric, errors="coerce").to_numpy(float)
    if len(places) == 0 or not np.isfinite(places).all():
        raise SolidError(f"{path} lists a place without two numbers, or none; give lat and lon of each")
    return tuple((float(y), float(x)) for y, x in np.unique(places, axis=0))


def hold_mask(path: str | Path) -> tuple[tuple[float, float], ...]:
    """The centres of the cells that a mask in a NetCDF file marks: its first variable of (y, x) or (lat, lon)."""
    with open_dataset(Path(path), "give a mask of (y, x) or (lat, lon)") as opened:
        found = [v.load() for v in opened.data_vars.values() if v.ndim == 2 and all(d in v.coords for d in v.dims)]
    if not found:
        raise SolidError(f"{path} has no mask; give a variable of (y, x) or (lat, lon) with coordinates")
    mask = found[0]
    rows, columns = np.nonzero(np.nan_to_num(mask.to_numpy()))
    if len(rows) == 0:
        raise SolidError(f"the mask of {path} is zero everywhere; mark the cells to hold out by 1")
    y, x = (mask[name].to_numpy().astype(float) for name in mask.dims)
    return tuple((float(a), float(b)) for a, b in zip(y[rows], x[columns], strict=True))


def _some_cells(
    free: np.ndarray,  # (H, W) bool
    share: float,
    generator: np.random.Generator,
) -> np.ndarray:  # (H, W) bool
    candidates = np.flatnonzero(free)
    count = max(1, round(share * len(candidates)))
    if count >= len(candidates):
        raise SolidError(
            f"holding {count} of {len(candidates)} cells with readings leaves none to learn from; hold fewer"
        )
    return np.isin(np.arange(free.size), generator.permutation(candidates)[:count]).reshape(free.shape)


def _some_blocks(
    read: np.ndarray,  # (H, W) bool
    share: float,
    side: int,
    generator: np.random.Generator,
) -> np.ndarray:  # (H, W) bool
    """Tiles of a regular tiling at a random offset: a share of those that hold readings, whole."""
    rows, columns = (
        (np.arange(length) + generator.integers(side)) // side for length in read.shape
    )  # which tile along an axis
    tile = rows[:, None] * (columns[-1] + 1) + columns[None, :]
    filled = np.unique(tile[read])
    count = max(1, round(share * len(filled)))
    if count >= len(filled):
        raise SolidError(
            f"holding {count} of the {len(filled)} blocks of {side} x {side} cells with readings leaves none to learn "
            "from; hold a smaller share or smaller blocks"
        )
    return np.isin(tile, generator.permutation(filled)[:count])
