"""The warped world: a Gaussian field seen through a monotone warp that differs from cell to cell.

    x(p) = m(p) + s(p) (exp(k(p) g(p)) - 1) / k(p),      g: the Gaussian world on a box twice as large

Skewness k and spread s vary smoothly over a closed grid that is not square (a window of the box, so nothing wraps
around). A warp that increases changes no conditioning: given exact readings of x, those of g are known, g has a normal
posterior, and x is that posterior warped. So the best possible CRPS is known in closed form (a shifted lognormal's),
yet kriging of x is not of the right family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import pi
from typing import Any

import numpy as np
from scipy.stats import norm

from ..errors import SolidError
from ..grid import Grid
from .gaussian import GaussianWorld, Posterior

SMALL = 1e-12  # a standard deviation where the field is known


@dataclass(frozen=True)
class Warp:
    """x = m + s (exp(k g) - 1) / k, cell by cell."""

    shift: np.ndarray  # m, (...)
    scale: np.ndarray  # s > 0
    skew: np.ndarray  # k > 0

    def __call__(self, g: np.ndarray) -> np.ndarray:  # (..., H, W) both ways
        return self.shift + self.scale * np.expm1(self.skew * g) / self.skew

    def inverse(self, x: np.ndarray) -> np.ndarray:
        return np.log1p((x - self.shift) * self.skew / self.scale) / self.skew

    def at(self, cells: np.ndarray) -> Warp:  # (n,) flat
        return Warp(*(part.ravel()[cells] for part in (self.shift, self.scale, self.skew)))

    def crps(self, mean: np.ndarray, std: np.ndarray, x: np.ndarray) -> np.ndarray:
        """CRPS at x of the warp of N(mean, std): s / k times that of the lognormal exp(k g)."""
        mu, sigma = self.skew * mean, self.skew * np.maximum(std, SMALL)
        y = 1 + (x - self.shift) * self.skew / self.scale
        omega = (np.log(y) - mu) / sigma
        beyond = norm.cdf(omega - sigma) + norm.cdf(sigma / np.sqrt(2)) - 1
        return self.scale / self.skew * (y * (2 * norm.cdf(omega) - 1) - 2 * np.exp(mu + sigma**2 / 2) * beyond)


@dataclass(frozen=True)
class WarpedWorld:
    shape: tuple[int, int] = (24, 40)
    frames: int = 50
    seed: int = 0
    skew: tuple[float, float] = (0.25, 0.75)  # k, from one corner to the other
    spread: tuple[float, float] = (0.5, 2.0)  # s, in waves

    def __post_init__(self) -> None:
        if min(self.shape) < 2 or min(*self.skew, *self.spread) <= 0:
            raise SolidError("a warped world needs a shape of 2 x 2 or more, and positive skew and spread")

    @property
    def field(self) -> GaussianWorld:
        """g, on a box so large that no reading is felt around it; cells of the size of the Gaussian world's."""
        cells = 2 * max(self.shape)
        return GaussianWorld(cells=cells, side=cells / 32, frames=self.frames, seed=self.seed)

    @property
    def grid(self) -> Grid:
        return Grid(self.shape, self.field.grid.spacing)

    @property
    def times(self) -> np.ndarray:  # (F,)
        return self.field.times

    @property
    def variables(self) -> tuple[str, ...]:
        return ("field",)

    @property
    def shifts(self) -> tuple[int, int]:
        """No translation leaves the law unchanged."""
        return (0, 0)

    @property
    def warp(self) -> Warp:
        y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in self.shape), indexing="ij")
        low, high = np.log(self.spread)
        waves = (1 + np.sin(2 * pi * x) * np.cos(pi * y)) / 2
        skew = self.skew[0] + (self.skew[1] - self.skew[0]) * (x + y) / 2
        return Warp(2.0 * x - y, np.exp(low + (high - low) * waves), skew)

    def describe(self) -> dict[str, Any]:
        """Everything that determines the data, as plain JSON."""
        lists = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return {"kind": "warped gaussian", **lists}

    def trajectories(self, indices: Sequence[int]) -> np.ndarray:  # (n, F, 1, H, W) float32
        height, width = self.shape
        g = self.field.trajectories(indices)[..., :height, :width].astype(np.float64)
        return self.warp(g).astype(np.float32)

    def joint(
        self,
        observations: np.ndarray,  # (T, H, W); NaN = not observed
        leads: Sequence[int] = (0,),
        cells: np.ndarray | None = None,  # (n,) flat; None: all
        frames: Sequence[int] = (0,),  # (T,) when each was observed
    ) -> WarpedPosterior:
        """The joint law of the field at these cells and leads; lags are counted in frames."""
        observed = np.asarray(observations, np.float64).reshape(len(frames), *self.shape)
        box = np.full((len(frames), *self.field.grid.shape), np.nan)
        box[:, : self.shape[0], : self.shape[1]] = self.warp.inverse(observed)
        asked = np.arange(self.grid.cells) if cells is None else cells
        row, column = np.divmod(asked, self.shape[1])
        law = self.field.joint(box, leads, row * self.field.cells + column, frames)
        return WarpedPosterior(law, self.warp.at(asked))


@dataclass(frozen=True)
class WarpedPosterior:
    """What a normal law of g is as a law of x; every array is (L, n): leads and cells."""

    normal: Posterior
    warp: Warp

    def crps(self, truth: np.ndarray) -> np.ndarray:
        """Of each cell and lead, in closed form."""
        return self.warp.crps(self.normal.mean, self.normal.std, truth)

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:  # (count, L, n)
        return self.warp(self.normal.sample(count, generator))
