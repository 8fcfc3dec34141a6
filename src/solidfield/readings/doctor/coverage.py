"""Which grid and time step: what each would see, which to take, and what can be learned from it.

For a cell size and a step, the kept readings fall into (frame, cell) slots. A frame's share is the part of the ever
visited box of cells that it sees, two frames one step apart make a pair, and their overlap is the part of the later
frame's cells that the earlier one saw, too. What the readings have in common over distance is the correlation

    rho(d) = sum (v_p - mean of frame) (v_q - mean of frame) / variance,      p, q cells of one frame, d apart,

whose length is where it falls below 1 / e of its value between neighbouring cells. The thresholds are rules of thumb,
and say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...clock import Clock, span
from ...grid import DEGREE, Grid
from ...keys import evenly
from ..layout import endless_grid
from .locations import REPEAT, Places
from .reservoir import DAY, Kept

WORDS = ("0.01s", "0.02s", "0.05s", "0.1s", "0.2s", "0.5s", "1s", "2s", "5s", "10s", "30s", "1min", "2min", "5min",
         "10min", "15min", "30min", "1h", "2h", "3h", "6h", "12h", "1d", "7d")  # fmt: skip
STEPS = {word: round(span(word) * 1e9) for word in WORDS}  # ns
SIDES = (16, 32, 64)  # cells along the longer side, where coordinates are not on a lattice
SENSORS = 2000  # that stay, at most, for a network of stations
WIDER = 4  # steps of the lattice that stations are apart, beyond which it says nothing about them
LEAST_SHARE = 0.03  # of the cells a frame should see
ALIKE = 0.8  # of what a longer step sees, above which the shorter one is as good
PAIRS = (500, 5000)  # below the first, do not expect to beat kriging; above the second, networks have room
FRAMES = 200  # whose readings are correlated
READINGS = 300  # of a frame that are correlated at most


@dataclass(frozen=True)
class Candidate:
    """A grid and step, and what they see."""

    cell: str  # as `solid grid --cell` takes it
    every: str  # as --every takes it
    step: tuple[float, float]  # size of a cell along (y, x), in the units of the coordinates
    shape: tuple[int, int]
    frames: int  # time steps from first to last
    filled: int  # that hold a reading
    share: float  # of cells seen in a filled frame, mean
    pairs: int  # filled frames with a filled next one
    overlap: float  # of a frame's cells that the one before saw, mean over pairs; NaN without any
    never: int  # cells never visited

    @property
    def cells(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class Common:
    """How far apart sensors are, how far their readings go together, and how long they stay."""

    spacing: float  # km or units of the coordinates: median distance to the nearest other reading of the frame
    length: float  # the same; NaN where it cannot be told
    lag: float  # correlation of a cell with itself one step later; NaN where it cannot be told


def candidates(kept: Kept, places: Places, interval: float, geographic: bool) -> tuple[Candidate, ...]:
    """Up to three cell sizes and three steps; `interval` is the usual one between readings, in nanoseconds."""
    if len(kept) == 0 or places.far.all():
        return ()
    inside = ~places.far[places.of]
    here = kept[inside & np.isfinite(kept.values).any(1)]
    if len(here) == 0:
        return ()
    return tuple(
        observed(here, cell, every, places, geographic)
        for cell in cells_to_try(places, geographic)
        for every in steps_to_try(interval, int(here.time.max() - here.time.min()))
    )


def cells_to_try(places: Places, geographic: bool) -> list[str]:
    """Half the distance of fixed sensors and its multiples; or those of the lattice that coordinates are rounded to.

    Where there is neither: round sizes, 64, 32 and 16 along the longer side.
    """
    lattice, apart = places.lattice, _apart(places, geographic)
    unit = 1000 * DEGREE if geographic else 1.0  # metres
    if apart is not None and (lattice is None or apart > WIDER * unit * max(lattice)):
        return _named(sorted({_round(apart * share) for share in (0.5, 1, 2)}), geographic)
    if lattice is not None:
        return [f"{factor * max(lattice):.6g}{'deg' if geographic else ''}" for factor in (1, 2, 4)]
    south, west, north, east = places.box
    if not geographic:
        side = max(north - south, east - west) or 1.0
        return _named(sorted({_round(side / cells) for cells in SIDES}), geographic)
    narrow = np.cos(np.deg2rad((south + north) / 2))
    side = 1000 * DEGREE * max(north - south, (east - west) * narrow) or 1000.0  # metres
    return _named(sorted({_round(side / cells) for cells in SIDES}), geographic)


def _named(sizes: list[float], geographic: bool) -> list[str]:
    """As `solid grid --cell` takes them."""
    if not geographic:
        return [f"{size:g}" for size in sizes]
    return [f"{size / 1000:g}km" if size >= 1000 else f"{size:g}m" for size in sizes]


def _apart(places: Places, geographic: bool) -> float | None:
    """The usual distance from a sensor that stays to the next one, in metres or units; None for sensors that move."""
    fixed = ~places.far & (places.count >= REPEAT)
    if not places.repeated or not 4 <= fixed.sum() <= SENSORS:
        return None
    y, x = places.y[fixed], places.x[fixed]
    if geographic:
        y, x = 1000 * DEGREE * y, 1000 * DEGREE * x * np.cos(np.deg2rad(y.mean()))
    distance = np.hypot(y[:, None] - y, x[:, None] - x)
    np.fill_diagonal(distance, np.inf)
    return float(np.median(distance.min(1)))


def _round(size: float) -> float:
    """The nearest of 1, 2, 5 x 10^k."""
    power = 10.0 ** np.floor(np.log10(size))
    return float(f"{min((1, 2, 5, 10), key=lambda d: abs(np.log(d * power / size))) * power:.3g}")


def steps_to_try(interval: float, length: int) -> list[str]:
    """The usual interval rounded up, and two longer steps that still leave some frames."""
    wanted = [word for word, step in STEPS.items() if step >= 0.9 * interval] or [WORDS[-1]]
    return [word for word in wanted[:3] if word == wanted[0] or length >= 20 * STEPS[word]]


def slots(
    here: Kept, cell: str, every: str, places: Places, geographic: bool
) -> tuple[np.ndarray, np.ndarray, Grid]:  # (n,) frame, (n,) cell, and the cells of the box
    """Where `solid grid` would put these readings."""
    south, west, north, east = places.box
    endless = endless_grid(cell, geographic, places.box, (places.y[~places.far], places.x[~places.far]))
    (low, high), (left, right) = endless.index(np.array([south, north]), np.array([west, east]))
    shape = (int(high - low) + 1, int(right - left) + 1)
    row, column = endless.index(here.y, here.x)
    clock = Clock.fitted(STEPS[every], None, here.time[:: max(1, len(here) // 1000)])
    flat = (row - low) * shape[1] + column - left
    return clock.index(here.time), flat, endless.part((int(low), int(left)), shape)


def observed(here: Kept, cell: str, every: str, places: Places, geographic: bool) -> Candidate:
    frame, flat, grid = slots(here, cell, every, places, geographic)
    cells = grid.cells
    slot = np.unique((frame - frame.min()) * cells + flat)  # sorted by frame, then cell
    at, where = slot // cells, slot % cells
    filled, per = np.unique(at, return_counts=True)
    pairs = np.isin(filled + 1, filled)
    again = np.isin(slot - cells, slot)  # the frame before saw this cell, too
    follows = np.isin(at - 1, filled)
    return Candidate(
        cell,
        every,
        grid.spacing,
        grid.shape,
        _frames(filled, STEPS[every], here.share),
        len(filled),
        float(per.sum() / (len(filled) * cells)),
        int(pairs.sum()),
        float(again.sum() / follows.sum()) if follows.any() else float("nan"),
        cells - len(np.unique(where)),
    )


def _frames(filled: np.ndarray, every: int, share: float) -> int:
    """Time steps from first to last; where days were left out, those of the kept days."""
    if share == 1:
        return int(filled[-1] - filled[0]) + 1
    return max(len(filled), len(np.unique(filled * every // DAY)) * DAY // every)


def choose(table: tuple[Candidate, ...]) -> tuple[Candidate, str] | None:
    """The finest cells, and of these the shortest step, that are seen often enough; else the least bad."""
    if not table:
        return None
    for candidate in sorted(table, key=lambda c: (-c.cells, STEPS[c.every])):
        if not _lacks(candidate):
            shorter = _as_good(table, candidate)
            if shorter is not candidate:
                return shorter, (
                    f"the finest cells of which frames of {candidate.every} see at least {100 * LEAST_SHARE:.0f} % "
                    f"({100 * candidate.share:.1f} %), and the shortest step that sees hardly fewer of them "
                    f"({100 * shorter.share:.1f} %)"
                )
            return candidate, (
                f"the finest cells and the shortest step for which a frame sees at least {100 * LEAST_SHARE:.0f} % of "
                f"the cells ({100 * candidate.share:.0f} %) and there are at least {PAIRS[0]} pairs of consecutive "
                f"frames ({candidate.pairs:,})"
            )
    best = max(table, key=lambda c: (min(c.share / LEAST_SHARE, c.pairs / PAIRS[0], c.filled / c.frames), c.cells))
    return best, f"no candidate sees enough; this one is nearest, but {' and '.join(_lacks(best))}"


def _as_good(table: tuple[Candidate, ...], candidate: Candidate) -> Candidate:
    """The shortest step of the same cells that sees nearly as many: sensors that stand are not seen by waiting."""
    same = [one for one in table if one.cell == candidate.cell and STEPS[one.every] <= STEPS[candidate.every]]
    good = [one for one in same if one.share >= ALIKE * candidate.share and one.pairs >= PAIRS[0]]
    return min(good, key=lambda one: STEPS[one.every], default=candidate)


def _lacks(candidate: Candidate) -> list[str]:
    lacks = []
    if candidate.share < LEAST_SHARE:
        lacks.append(f"a frame sees only {100 * candidate.share:.1f} % of the cells")
    if candidate.pairs < PAIRS[0]:
        lacks.append(f"there are only {candidate.pairs:,} pairs of consecutive frames")
    if candidate.shape[0] * candidate.shape[1] < 4:
        lacks.append("it has hardly any cells")
    return lacks


def common(kept: Kept, places: Places, candidate: Candidate, geographic: bool, variable: int = 0) -> Common:
    """Spacing, correlation length and persistence of the readings on the chosen grid, from some of its frames."""
    here = kept[~places.far[places.of] & np.isfinite(kept.values[:, variable])]
    frame, flat, _ = slots(here, candidate.cell, candidate.every, places, geographic)
    table = pd.Series(here.values[:, variable]).groupby([frame, flat]).mean()
    at, where = (table.index.get_level_values(i).to_numpy() for i in (0, 1))
    value = table.to_numpy()
    unit = np.array(candidate.step)
    if geographic:
        middle = np.deg2rad((places.box[0] + places.box[2]) / 2)
        unit = unit * DEGREE * np.array([1.0, max(np.cos(middle), 0.01)])
    position = np.stack(np.divmod(where, candidate.shape[1]), 1) * unit  # (n, 2)
    nearest, products, distances, squares = [], [], [], []
    filled = np.unique(at)
    for f in evenly(filled, FRAMES):
        chosen = np.flatnonzero(at == f)
        chosen = chosen[:: max(1, -(-len(chosen) // READINGS))]
        if len(chosen) < 3:
            continue
        apart = np.hypot(*(position[chosen][:, None] - position[chosen][None]).T)
        nearest.append(np.where(apart > 0, apart, np.inf).min(0))
        away = value[chosen] - value[chosen].mean()
        upper = np.triu_indices(len(chosen), 1)
        products.append(np.outer(away, away)[upper])
        distances.append(apart[upper])
        squares.append(away**2)
    if not nearest:
        return Common(float("nan"), float("nan"), _lag(at, where, value))
    product, distance, square = (np.concatenate(parts) for parts in (products, distances, squares))
    length = _length(product, distance, square, float(unit.min()))
    return Common(float(np.median(np.concatenate(nearest))), length, _lag(at, where, value))


def _length(products: np.ndarray, distances: np.ndarray, squares: np.ndarray, cell: float) -> float:
    """Where the correlation first falls below 1 / e of its value between neighbours; NaN if they share nothing.

    The mean of n readings that is taken off lowers every correlation by about 1 / n: at least a correlation of 0.1
    between neighbours is asked for.
    """
    variance = squares.mean()
    edges = np.arange(0.5, np.ceil(distances.max() / cell) + 1.5) * cell
    bins = np.digitize(distances, edges)
    count = np.bincount(bins)
    rho = np.bincount(bins, products) / np.maximum(count, 1) / max(variance, 1e-300)
    known = np.flatnonzero(count >= 20)
    if len(known) == 0 or rho[known[0]] < 0.1:
        return float("nan")
    below = known[rho[known] < rho[known[0]] / np.e]
    return float((below[0] if len(below) else known[-1]) * cell)


def _lag(at: np.ndarray, where: np.ndarray, value: np.ndarray) -> float:
    now = pd.Series(value, index=pd.MultiIndex.from_arrays([at, where]))
    later = pd.Series(value, index=pd.MultiIndex.from_arrays([at - 1, where]))
    both = pd.concat([now, later], axis=1, join="inner")
    return float(both.corr().iloc[0, 1]) if len(both) >= 20 else float("nan")
