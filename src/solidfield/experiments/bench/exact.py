"""What is compared with a posterior in closed form: means over cells, and ratios with error bars."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ...scores.estimate import bootstrap


def normal_crps(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    """CRPS of N(mean, std) where the truth is off the mean by `error`."""
    z = error / std
    return std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


def ratio(values: np.ndarray, best: np.ndarray) -> dict[str, float]:  # (N,), (N,)
    """Ratio of the means over scenes, with an error bar from resampling scenes; scenes without cells are left out."""
    return bootstrap(np.stack([values, best], axis=1), of=lambda means: means[..., 0] / means[..., 1])._asdict()


def means(values: np.ndarray, mask: np.ndarray) -> np.ndarray:  # (N, H, W) twice -> (N,), NaN where the mask is empty
    count = mask.sum((1, 2))
    total = np.where(mask, values, 0.0).sum((1, 2))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
