"""Laws of an image's cells in the units of its readings.

An image may be modelled as it is, in square roots or in logarithms (`pairs/scaling.py`). A cell then has the law

    x = G(c + s T(z)),       z ~ N(0, 1),

where G leads back: an increasing map of z, so that quantiles go straight through it, while mean and standard deviation
are sums over latents (`laws.py`): the mean of an exponential is not the exponential of the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.stats import norm

from ..errors import SolidError
from ..pairs.scaling import Scaling, check_transform, transformed
from .laws import LATENTS, moments

CELLS = 2**15  # whose values at all latents are in memory together


def possible(values: np.ndarray) -> tuple[str, ...]:  # (H, W), NaN in the gaps
    """The transforms that all readings have."""
    lowest = np.nanmin(values)
    return ("none", *(["sqrt"] if lowest >= 0 else []), *(["log"] if lowest > 0 else []))


def check_possible(values: np.ndarray, transform: str) -> None:
    """Refuse a transform that some reading does not have."""
    check_transform(transform, 0.0, "the image")
    if transform not in possible(values):
        what = "logarithm" if transform == "log" else "square root"
        others = " or ".join(possible(values))
        raise SolidError(f"the image holds {np.nanmin(values):g}, which has no {what}; give transform {others}")


def changed(values: np.ndarray, transform: str) -> np.ndarray:  # (H, W), NaN in the gaps -> the same
    """The readings as they are modelled."""
    if transform == "none":
        return values
    mask = np.isfinite(values)
    seen = np.full_like(values, np.nan)
    seen[mask] = transformed(values[mask], np.zeros(mask.sum(), int), (transform,), (0.0,), ("image",))
    return seen


def restored(values: np.ndarray, transform: str) -> np.ndarray:  # (..., n) -> the same
    """Back in the units of the readings."""
    scaling = Scaling((0.0,), (1.0,), (transform,), (0.0,))
    return scaling.restore(torch.from_numpy(values)[..., None, None, :])[..., 0, 0, :].numpy()


def log_slope(values: np.ndarray, transform: str) -> np.ndarray:
    """Of the transform at readings: what the logarithm of a density gains on the way back to their units."""
    if transform == "none":
        return np.zeros_like(values)
    with np.errstate(divide="ignore"):  # a root at 0
        return -np.log(values) if transform == "log" else -np.log(2 * np.sqrt(values))


@dataclass(frozen=True)
class ImageLaws:
    """Of n cells."""

    centre: np.ndarray  # (n,) as modelled
    scale: np.ndarray  # (n,)
    tail: Callable[[np.ndarray | float], np.ndarray]  # T, by the level of z
    transform: str = "none"

    def quantile(self, level: float) -> np.ndarray:  # (n,)
        return restored(self.centre + self.scale * self.tail(level), self.transform)

    def around(self, level: float) -> np.ndarray:  # (n,)
        """The quantile, from the mean on."""
        if self.transform == "none":
            return self.scale * self.tail(level)
        return self.quantile(level) - self.mean

    @property
    def mean(self) -> np.ndarray:  # (n,)
        return self._moments[0]

    @property
    def spread(self) -> np.ndarray:  # (n,)
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        tail = self.tail(norm.cdf(LATENTS.double().numpy()))[:, None]  # (L, 1)
        if self.transform == "none":  # as far up as down
            return self.centre, self.scale * moments(torch.from_numpy(tail))[1].numpy()
        parts = []
        for i in range(0, len(self.centre), CELLS):
            values = restored(self.centre[i : i + CELLS] + self.scale[i : i + CELLS] * tail, self.transform)
            parts.append([part.double().numpy() for part in moments(torch.from_numpy(values))])
        mean, spread = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, spread


def scores(error: np.ndarray, quantile: Callable[[float], np.ndarray]) -> dict[str, float]:
    """MAE, RMSE, CRPS, and the 95 % interval's score and coverage, of laws around their mean."""
    levels = (np.arange(99) + 0.5) / 99
    pinball = [np.mean((error - (q := quantile(p))) * (p - (error < q))) for p in levels]
    low, high = quantile(0.025), quantile(0.975)
    outside = np.maximum(low - error, 0) + np.maximum(error - high, 0)
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "crps": float(2 * np.mean(pinball)),
        "interval_score": float(np.mean(high - low + outside * 2 / 0.05)),
        "coverage": float(np.mean(outside == 0)),
    }
