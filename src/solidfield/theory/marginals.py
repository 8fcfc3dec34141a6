"""Marginal laws of cells, and normal scores by them: units in which every cell has the same law.

    z = Phi^-1(F_p(x)),      x = m_p + s_p q_p(z)

F_p is the law of cell p over all frames: location m and scale s by local lines over the map, shape q by the quantiles
of (x - m) / s of the cells around. A map that increases changes no conditioning, so a law of z is a law of x; a field
that is skewed, or wider in one place than in another, may be Gaussian in z where it is far from it in x.

How far around a cell is looked is decided by the CRPS of laws of cells whose own readings were left out, in the other
half of the frames. Along an axis on which the world repeats itself all cells share one law. Doubt (some readings' worth
of the law of the whole map) rules where nothing was read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from ..fields import Pair
from ..forecast import Spec
from ..grid import Grid
from ..keys import numpy_generator

STEP = 0.25  # between the scores at which quantiles are kept; straight between and beyond them
SCORES = np.arange(-3, 3 + STEP / 2, STEP)  # (J,)
EDGES = np.linspace(-8, 8, 641)  # of the bins in which shapes are counted, in scales
NARROW = 0.1  # of the normal law's: the least distance of two quantiles, where readings are equal
WIDTHS = (1.5, 3.0, 6.0, 12.0, math.inf)  # of the surroundings to try, in cells
LEAST_SCALE = 1e-6  # standardised, where all readings are one number
DOUBT = 20.0  # readings' worth of the law of the whole map
FEWEST = 1000  # readings, below which cells are not told apart
LEAST_GAIN = 0.01  # share of the CRPS below which laws of their own are not worth trying
JUDGED = 20_000  # left-out readings that judge, at most
LEVELS = np.arange(0.05, 0.96, 0.05)  # of the quantiles that are judged


Widths = tuple[float, float]  # of the surroundings for location and scale, and for the shape


@dataclass(frozen=True)
class Marginals:
    """The marginal laws of one variable."""

    location: np.ndarray  # (P,)
    scale: np.ndarray  # (P,)
    quantiles: np.ndarray  # (P, J) of (x - location) / scale at SCORES

    def at(self, cells: np.ndarray, scores: np.ndarray) -> np.ndarray:  # (n,), (k,) -> (n, k) values
        left = np.clip(((scores - SCORES[0]) / STEP).astype(int), 0, len(SCORES) - 2)
        shape, along = self.quantiles[cells], (scores - SCORES[left]) / STEP
        between = shape[:, left] + along * (shape[:, left + 1] - shape[:, left])
        return self.location[cells, None] + self.scale[cells, None] * between


@dataclass(frozen=True)
class Listed:
    """The readings of a variable."""

    cells: np.ndarray  # (n,) flat
    values: np.ndarray  # (n,)
    late: np.ndarray  # (n,) bool: of the second half of the frames

    def __getitem__(self, rows: np.ndarray) -> Listed:
        return Listed(self.cells[rows], self.values[rows], self.late[rows])


class Surroundings:
    """Sums over the cells around each cell, with weights exp(-d^2 / 2 h^2)."""

    def __init__(self, spec: Spec, width: float):  # in cells; infinite: the whole map
        self.shape = spec.grid.shape
        self.offsets = [_offsets(spec.grid, axis) for axis in (0, 1)]
        self.widths = [math.inf if spec.shifts[axis] else width for axis in (0, 1)]

    def sums(self, field: np.ndarray, powers: tuple[int, int] = (0, 0)) -> np.ndarray:  # (P, ...) -> (P, ...)
        """Weighted by (offset / h)^power along each axis, too."""
        grid = field.reshape(*self.shape, -1)
        for axis, (offset, h, power) in enumerate(zip(self.offsets, self.widths, powers, strict=True)):
            far = offset / h  # all zeros where h is infinite: no slope
            grid = np.moveaxis(np.tensordot(np.exp(-0.5 * far**2) * far**power, grid, (1, axis)), 0, axis)
        return grid.reshape(field.shape)

    def level(self, count: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (P,) each
        """The mean around each cell of what sums to `total` over `count` readings, plain and by a local line."""
        whole = total.sum() / count.sum()
        powers = [(0, 0), (1, 0), (0, 1)]
        matrix = np.stack(
            [np.stack([self.sums(count, (a[0] + b[0], a[1] + b[1])) for a in powers], -1) for b in powers], -1
        )  # (P, 3, 3)
        right = np.stack([self.sums(total - whole * count, power) for power in powers], -1)  # (P, 3)
        line = np.linalg.solve(matrix + DOUBT * np.eye(3), right[..., None])[:, 0, 0]
        return whole + right[:, 0] / (matrix[:, 0, 0] + DOUBT), whole + line


def estimate(readings: Listed, spec: Spec, width: float, around: float | None) -> Marginals:
    """Location and scale from surroundings of one width, shape from those of another; None: the normal shape."""
    cells, number, near = readings.cells, spec.grid.cells, Surroundings(spec, width)
    count = np.bincount(cells, minlength=number).astype(float)
    _, location = near.level(count, np.bincount(cells, readings.values, number))
    apart = readings.values - location[cells]
    plain, line = near.level(count, np.bincount(cells, apart**2, number))
    scale = np.sqrt(np.clip(line, plain / 4, plain * 4)).clip(LEAST_SCALE)
    if around is None:
        return Marginals(location, scale, np.tile(SCORES, (number, 1)))
    bins = len(EDGES) - 1
    which = np.clip(np.searchsorted(EDGES, apart / scale[cells]) - 1, 0, bins - 1)
    counted = np.bincount(cells * bins + which, minlength=number * bins).reshape(number, bins).astype(float)
    counted = counted.sum(0, keepdims=True) if math.isinf(around) else Surroundings(spec, around).sums(counted)
    counted = counted + DOUBT * np.diff(norm.cdf(EDGES))
    below = np.cumsum(counted, 1) / counted.sum(1, keepdims=True)
    quantiles = np.stack([np.interp(norm.cdf(SCORES), each, EDGES[1:]) for each in below])
    rises = np.maximum(np.diff(quantiles, axis=1), NARROW * STEP)
    shape = quantiles[:, :1] + np.pad(np.cumsum(rises, 1), ((0, 0), (1, 0)))
    return Marginals(location, scale, np.broadcast_to(shape, (number, len(SCORES))).copy())


def choose_widths(readings: Listed, spec: Spec) -> Widths | None:
    """Those of location and scale, and of the shape; None where one normal law for all cells is nearly as good, or
    readings are too few to tell."""
    if len(readings.values) < FEWEST or np.ptp(readings.values) == 0:
        return None
    left_out = numpy_generator("marginals", "cells").random(spec.grid.cells) < 0.5
    tests = [(left_out[readings.cells] == cells, readings.late == late) for cells in (0, 1) for late in (0, 1)]
    parts = [(readings[~cells & ~late], readings[cells & late]) for cells, late in tests]
    parts = [part for part in parts if min(len(each.values) for each in part) > DOUBT]
    if not parts:
        return None

    def error(width: float, around: float | None) -> float:
        judged = [(estimate(known, spec, width, around), some(test)) for known, test in parts]
        return float(np.mean([pinball(laws.at(s.cells, norm.ppf(LEVELS)), s.values) for laws, s in judged]))

    widths = (math.inf,) if all(spec.shifts) else WIDTHS
    width = min(widths, key=lambda each: error(each, math.inf))
    around = min(widths, key=lambda each: error(width, each))
    return (width, around) if error(width, around) < (1 - LEAST_GAIN) * error(math.inf, None) else None


def some(readings: Listed) -> Listed:
    return readings[np.linspace(0, len(readings.values) - 1, min(JUDGED, len(readings.values))).astype(int)]


def pinball(quantiles: np.ndarray, values: np.ndarray) -> float:  # (n, LEVELS), (n,)
    """Twice the mean loss of quantiles: their CRPS."""
    off = values[:, None] - quantiles
    return 2 * float(np.maximum(LEVELS * off, (LEVELS - 1) * off).mean())


def _offsets(grid: Grid, axis: int) -> np.ndarray:  # (n, n) from each row or column to each other, in cells
    n = grid.shape[axis]
    step = np.arange(n)[None] - np.arange(n)[:, None]
    return (step + n // 2) % n - n // 2 if grid.periodic[axis] else step


def unchanged(cells: int) -> Marginals:
    """Laws in whose scores a value is itself."""
    return Marginals(np.zeros(cells), np.ones(cells), np.tile(SCORES, (cells, 1)))


def listed(pair: Pair, channel: int) -> Listed:
    """All readings of a variable, of sources and targets alike, in the order of the examples."""
    found = []
    for side in (pair.source, pair.target):
        mask = side.mask[:, channel].flatten(1)
        rows, cells = (part.numpy() for part in mask.nonzero(as_tuple=True))
        found.append((cells, side.values[:, channel].flatten(1)[mask].double().numpy(), rows >= len(pair) / 2))
    cells, values, late = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Listed(cells, values, late)
