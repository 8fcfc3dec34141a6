"""Low-pass filters and resampling as matrices: what keeps a network's layers from aliasing.

A Kaiser-windowed sinc of N taps at sampling rate s passes up to f_c and has fallen off at f_c + width / 2,

    h[n] = (2 f_c / s) sinc(2 f_c n' / s) w_beta[n'],    n' = n - (N - 1) / 2,    sum_n h[n] = 1,

with beta from Kaiser's attenuation A = 2.285 (N - 1) pi width / (s / 2) + 7.95 dB. Resampling along an axis
inserts zeros, pads, filters and keeps every `down`-th sample. That is linear, so it is written here once as a
matrix per axis: grids are small, a dense product is faster on a processor than a strided filter of a dozen
taps, and it differentiates twice.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Boundary = Literal["zero", "wrap", "reflect"]

SLOPE = 0.2  # of the leaky ReLU of all style-based networks
GAIN = math.sqrt(2.0)  # keeps the variance of a standard normal through it, nearly


def kaiser_lowpass(
    taps: int,
    cutoff: float,  # f_c, in the units of `rate`
    width: float,  # of the transition band
    rate: float,  # sampling rate s
) -> np.ndarray:  # (taps,)
    """The windowed sinc of the equation above; one tap is the identity."""
    if taps == 1:
        return np.ones(1)
    attenuation = 2.285 * (taps - 1) * math.pi * width / (rate / 2) + 7.95
    if attenuation > 50:
        beta = 0.1102 * (attenuation - 8.7)
    elif attenuation > 21:
        beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)
    else:
        beta = 0.0
    n = np.arange(taps) - (taps - 1) / 2
    h = np.sinc(2 * cutoff / rate * n) * np.kaiser(taps, beta)
    return h / h.sum()


def resample_matrix(
    size: int,  # n, samples that come in
    taps: np.ndarray,  # (N,) a symmetric filter
    up: int = 1,
    down: int = 1,
    padding: tuple[int, int] = (0, 0),  # at the rate after `up`; negative crops
    boundary: Boundary = "zero",  # what lies beyond the samples
) -> Tensor:  # (m, n)
    """Insert up - 1 zeros after each sample, pad, filter (valid), keep every down-th; the gain is `up`."""
    before, after = padding
    full = size * up + before + after - len(taps) + 1
    rows = -(-full // down)
    matrix = np.zeros((rows, size))
    for row in range(rows):
        for tap, weight in enumerate(taps):
            sample, between = divmod(row * down + tap - before, up)
            if between:
                continue  # one of the inserted zeros
            column = _fold(sample, size, boundary)
            if column is not None:
                matrix[row, column] += up * weight
    return torch.tensor(matrix, dtype=torch.float32)


def _fold(sample: int, size: int, boundary: Boundary) -> int | None:
    """Which sample stands at this place; None for a zero."""
    if 0 <= sample < size:
        return sample
    if boundary == "wrap":
        return sample % size
    if boundary == "reflect":
        around = sample % (2 * size)  # half-sample symmetric, as the DCT-II continues a field
        return min(around, 2 * size - 1 - around)
    return None


def resample(
    x: Tensor,  # (B, C, H, W)
    rows: Tensor,  # (H', H)
    columns: Tensor,  # (W', W)
) -> Tensor:  # (B, C, H', W')
    """Both axes, one matrix each."""
    return rows @ (x @ columns.T)


def leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, SLOPE) * GAIN


def filtered_leaky(
    x: Tensor,  # (B, C, n, n)
    up: Tensor,  # (m, n) to a higher rate
    down: Tensor,  # (n', m) low-pass, and back to the rate of the layer
    clamp: float = 256.0,
) -> Tensor:  # (B, C, n', n')
    """The alias-free non-linearity: kinks are made at a high rate, what the layer cannot hold is removed."""
    x = leaky(resample(x, up, up)).clamp(-clamp, clamp)
    return resample(x, down, down)
