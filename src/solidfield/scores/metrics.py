"""Scores of value: how far an ensemble of maps is from the truth, in the units of the field; less is better.

    CRPS = mean_k |x_k - y|   - 1 / (2 K (K - 1)) sum_{k, l} |x_k - x_l|     fair: unbiased at any K
         = mean_k |d_k|       - 1 / (K (K - 1)) sum_k (2 k - K - 1) d_(k)    d = x - y, sorted: O(K log K)
           with K^2 for K (K - 1) if x_k are no draws, but the quantiles of a law at (k + 1/2) / K
    ES   = mean_k ||x_k - y|| - 1 / (2 K (K - 1)) sum_{k, l} ||x_k - x_l||   the norm runs over a whole field

With K = 1 the CRPS is the absolute error, so point forecasts and ensembles share one column of a table.

A metric is a function `(ensemble, truth, mask)`, and a region is just another mask. The cases are the first
axis of the truth when it has at least three axes (N fields); a truth with one or two axes is a single case.
A score is the mean over the masked cells of each case, then over the cases that have any: a field counts as
one field however many sensors it has. What stands off the mask, even NaN, is never read. NumPy arrays and
torch tensors are both welcome; the answer is of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist
from torch import Tensor

from ..errors import SolidError

Array = np.ndarray | Tensor

CHUNK = 512  # cells sorted at a time: 100 float32 members of them stay in the second-level cache


def to_numpy(values: Array) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def to_floats(values: Array) -> np.ndarray:
    """As a float32 or float64 array; half precision is widened, integers become float64."""
    if isinstance(values, Tensor) and values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    floats = to_numpy(values)
    if floats.dtype == np.float16:
        return floats.astype(np.float32)
    return floats if floats.dtype in (np.float32, np.float64) else floats.astype(np.float64)


def like(result: Any, example: Array) -> Any:
    """The result as a tensor if the example is one, else as it is."""
    return torch.as_tensor(result, device=example.device) if isinstance(example, Tensor) else result


def _fit(ensemble: Array, truth: Array) -> tuple[np.ndarray, np.ndarray]:
    """Both as floats of one precision, the members': a float32 reading still equals its float64 truth."""
    x = to_floats(ensemble)
    y = to_floats(truth).astype(x.dtype, copy=False)
    if x.shape[1:] != y.shape or x.ndim != y.ndim + 1 or not x.shape[0]:
        raise SolidError(f"ensemble {x.shape} does not fit truth {y.shape}; it must be (members, *truth shape)")
    return x, y


@dataclass(frozen=True)
class Cells:
    """The cells of a mask in one row, each knowing the case it belongs to: all that a metric may read."""

    members: np.ndarray  # (K, P)
    truth: np.ndarray  # (P,)
    case: np.ndarray  # (P,) int, 0 .. cases - 1
    cases: int  # N

    def per_case(self, values: np.ndarray) -> np.ndarray:  # (P,) -> (N,)
        """The mean over the cells of each case, NaN for a case without any."""
        must_be_finite(values)
        count = np.bincount(self.case, minlength=self.cases)
        total = np.bincount(self.case, weights=values, minlength=self.cases)
        return np.divide(total, count, out=np.full(self.cases, np.nan), where=count > 0)

    def mean(self, values: np.ndarray) -> np.float64:  # (P,) -> scalar
        return np.nanmean(self.per_case(values))


def must_be_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise SolidError("ensemble or truth holds NaN or infinity on the mask; take those cells out of the mask")


def select(
    ensemble: Array,  # (K, *truth.shape)
    truth: Array,  # (N, ..., H, W), or one case with one or two axes
    mask: Array | None = None,  # broadcasts to the truth's shape; None: every cell
) -> Cells:
    """Flatten to the cells of the mask."""
    x, y = _fit(ensemble, truth)
    cases = y.shape[0] if y.ndim >= 3 else 1
    case = np.repeat(np.arange(cases), y.size // max(cases, 1))
    if mask is None:
        keep: np.ndarray | slice = slice(None)
    else:
        marked = to_numpy(mask).astype(bool)
        try:
            keep = np.broadcast_to(marked, y.shape).reshape(-1)
        except ValueError:
            raise SolidError(f"mask {marked.shape} does not broadcast to truth {y.shape}") from None
    cells = Cells(x.reshape(x.shape[0], -1)[:, keep], y.reshape(-1)[keep], case[keep], cases)
    if not cells.truth.size:
        raise SolidError("the mask is empty: no cell to score; give a mask with at least one True cell")
    return cells


def deviations(
    members: np.ndarray,  # (K, P)
    truth: np.ndarray,  # (P,)
) -> Iterator[tuple[slice, np.ndarray]]:
    """d = x - y, chunk after chunk of cells: where they stand, and a fresh contiguous (cells, K) array."""
    for start in range(0, truth.size, CHUNK):
        here = slice(start, start + CHUNK)
        yield here, np.ascontiguousarray((members[:, here] - truth[here]).T)


def crps_cells(
    members: np.ndarray,  # (K, P)
    truth: np.ndarray,  # (P,)
    drawn: bool = True,  # are they draws? Else quantiles of a law
) -> np.ndarray:  # (P,)
    K = members.shape[0]
    weights = (2.0 * np.arange(1, K + 1) - K - 1) / max(K * (K - drawn), 1)
    scores = np.empty(truth.size)
    for here, d in deviations(members, truth):
        error = np.abs(d).mean(axis=1, dtype=np.float64)
        d.sort(axis=1)
        scores[here] = error - d.astype(np.float64) @ weights
    return scores


TAKES = """Parameters
----------
ensemble : array or tensor (K, N, ..., H, W)
    K members, in any unit.
truth : array or tensor (N, ..., H, W)
    What they are compared with, in the same unit; one or two axes are a single case.
mask : array or tensor of bool, optional
    Cells that count; broadcasts to the truth. Default: all. What stands off it, even NaN, is never read.
"""
RAISES = """Raises
------
SolidError
    If shapes do not fit, the mask is empty, or a value on it is not finite"""


def documented(takes: str = "", fewest: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say of a score what all of them take and raise, and what it `takes` besides; `help()` shows it whole."""
    raises = RAISES + (f"; or with fewer than {fewest} members.\n\n" if fewest > 1 else ".\n\n")

    def told(score: Callable[..., Any]) -> Callable[..., Any]:
        words = cleandoc(score.__doc__ or "").replace("Examples\n", f"{raises}Examples\n")
        score.__doc__ = words.replace("Returns\n", f"{TAKES}{takes}\nReturns\n")
        return score

    return told


def crps_map(
    ensemble: Array,  # (K, ...)
    truth: Array,  # (...)
) -> Any:  # (...) float64, NaN where either is NaN
    """The fair CRPS of every cell."""
    x, y = _fit(ensemble, truth)
    scores = crps_cells(x.reshape(x.shape[0], -1), y.reshape(-1))
    return like(scores.reshape(y.shape), ensemble)


def law_crps(
    law: np.ndarray,  # (K, P) quantiles at (k + 1/2) / K
    truth: np.ndarray,  # (P,)
) -> np.ndarray:  # (P,)
    """The CRPS of laws that are given by evenly spaced quantiles: twice their mean pinball loss.

    The fair one is for draws. Quantiles keep apart from one another, and of 100 it would make 1 % too little.
    """
    return crps_cells(*_fit(law, truth), drawn=False)


@documented()
def crps(ensemble: Array, truth: Array, mask: Array | None = None) -> Any:
    """The fair continuous ranked probability score: mean over the mask of each case, then over cases.

    Returns
    -------
    scalar float64, or tensor if the ensemble is one
        In the unit of the field; less is better. With one member, the absolute error.

    Examples
    --------
    >>> ensemble = np.array([[1.0], [3.0]])
    >>> float(crps(ensemble, np.array([2.0])))  # mean distance 1, half the mean gap 1
    0.0
    >>> float(crps(ensemble[:1], np.array([2.0])))
    1.0
    """
    cells = select(ensemble, truth, mask)
    return like(cells.mean(crps_cells(cells.members, cells.truth)), ensemble)


def moments(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Error of the ensemble mean (P,) and unbiased variance of the members (P,), NaN for a single member."""
    K = cells.members.shape[0]
    error, variance = np.empty(cells.truth.size), np.full(cells.truth.size, np.nan)
    for here, d in deviations(cells.members, cells.truth):
        error[here] = d.mean(axis=1, dtype=np.float64)
        if K > 1:
            variance[here] = d.var(axis=1, ddof=1, dtype=np.float64)
    return error, variance


def median_error(cells: Cells) -> np.ndarray:  # (P,)
    """Distance of the ensemble median from the truth."""
    error = np.empty(cells.truth.size)
    for here, d in deviations(cells.members, cells.truth):
        error[here] = np.abs(np.median(d, axis=1))
    return error


@documented()
def mse(ensemble: Array, truth: Array, mask: Array | None = None) -> Any:
    """Mean squared error of the ensemble mean, the point forecast that this score rewards.

    Returns
    -------
    scalar float64, or tensor if the ensemble is one
        In the squared unit of the field.

    Examples
    --------
    >>> float(mse(np.array([[1.0], [5.0]]), np.array([2.0])))  # the mean is 3
    1.0
    """
    cells = select(ensemble, truth, mask)
    return like(cells.mean(moments(cells)[0] ** 2), ensemble)


@documented()
def mae(ensemble: Array, truth: Array, mask: Array | None = None) -> Any:
    """Mean absolute error of the ensemble median, the point forecast that this score rewards.

    Returns
    -------
    scalar float64, or tensor if the ensemble is one
        In the unit of the field.

    Examples
    --------
    >>> float(mae(np.array([[1.0], [2.0], [9.0]]), np.array([2.5])))  # the median is 2
    0.5
    """
    cells = select(ensemble, truth, mask)
    return like(cells.mean(median_error(cells)), ensemble)


def energy_scores(cells: Cells) -> np.ndarray:  # (N,)
    """The fair energy score of each case, NaN for a case without cells."""
    scores = np.full(cells.cases, np.nan)
    for case in np.unique(cells.case):
        here = cells.case == case
        d = (cells.members[:, here] - cells.truth[here]).astype(np.float64)
        between = pdist(d).mean() if d.shape[0] > 1 else 0.0  # the mean over pairs k < l
        scores[case] = np.linalg.norm(d, axis=1).mean() - between / 2
        must_be_finite(scores[case])
    return scores


@documented()
def energy_score(ensemble: Array, truth: Array, mask: Array | None = None) -> Any:
    """The fair energy score, mean over cases: it sees joint structure that the CRPS of single cells cannot.

    The norm runs over all masked cells of a case and grows with the root of their number; variables of
    different units must be scaled first. In one dimension it is the CRPS.

    Returns
    -------
    scalar float64, or tensor if the ensemble is one
        In the unit of the field; less is better.

    Examples
    --------
    >>> float(energy_score(np.array([[3.0, 4.0]]), np.array([0.0, 0.0])))  # one member: its distance
    5.0
    """
    return like(np.nanmean(energy_scores(select(ensemble, truth, mask))), ensemble)


def block_means(
    field: Array,  # (..., H, W)
    block: int,  # cells along each side
) -> Any:  # (..., H // block, W // block)
    """Means over square blocks, to score coarse structure with the same metrics; incomplete blocks are cut.

    >>> block_means(np.arange(6.0).reshape(2, 3), 2)
    array([[2.]])
    """
    values = to_floats(field)
    rows, columns = (length // block for length in values.shape[-2:])
    if not rows or not columns:
        raise SolidError(
            f"blocks of {block} x {block} cells do not fit a {values.shape[-2:]} grid; take smaller blocks"
        )
    cut = values[..., : rows * block, : columns * block]
    means = cut.reshape(*values.shape[:-2], rows, block, columns, block).mean(axis=(-3, -1), dtype=np.float64)
    return like(means.astype(values.dtype), field)


def roughness(
    field: Array,  # (..., H, W): fields, or members
    periodic: tuple[bool, bool] = (False, False),  # do y and x wrap around?
    std: float | None = None,  # None: of the given field; give the truth's to compare members with the truth
    mask: Array | None = None,  # broadcasts to the field; a pair of neighbours counts if both are marked
) -> Any:
    """Root mean square difference of neighbouring cells, along y and x alike, over the field's std.

    With correlation c between neighbours it is sqrt(2 (1 - c)): sqrt(2) for white noise, 0 for a constant.
    """
    values = to_floats(field).astype(np.float64)
    marked = np.broadcast_to(True if mask is None else to_numpy(mask).astype(bool), values.shape)
    squares, pairs = 0.0, 0
    for axis, wraps in zip((-2, -1), periodic, strict=True):
        steps = np.roll(values, -1, axis) - values
        both = marked & np.roll(marked, -1, axis)
        if not wraps:  # the last cell has no neighbour
            both = both & (np.arange(values.shape[axis]) < values.shape[axis] - 1).reshape((-1, 1)[:-axis])
        squares += float((steps[both] ** 2).sum())
        pairs += int(both.sum())
    if not pairs:
        raise SolidError("roughness needs two neighbouring cells on the mask; none are marked")
    return like(np.sqrt(squares / pairs) / (values[marked].std() if std is None else std), field)


def ripple(
    field: Array,  # (..., H, W)
    mask: Array,  # broadcasts to the field; three cells in a row count if all are marked
) -> Any:  # (2,) along y, along x
    """Mean square of what changes sign from cell to cell, (a - 2 b + c) / 4 of three cells in a row.

    A wave of period two has its mean square, a plane none, a wave of period p the share sin^4(pi / p).
    """
    values, marked = to_floats(field).astype(np.float64), to_numpy(mask).astype(bool)
    found = []
    for axis in (-2, -1):
        a, b, c = (np.moveaxis(values, axis, 0)[i : i - 2 or None] for i in range(3))
        seen = np.moveaxis(np.broadcast_to(marked, values.shape), axis, 0)
        here = (a - 2 * b + c)[seen[:-2] & seen[1:-1] & seen[2:]] / 4
        found.append(np.mean(here**2) if here.size else np.nan)
    return like(np.array(found), field)


def spectrum(
    field: Array,  # (..., H, W), periodic
) -> tuple[Any, Any]:  # wavenumber (S,) in cycles along the longer side, power (..., S)
    """Isotropic power spectrum: |FFT|^2 summed over rings of wavenumbers; they add up to the mean square."""
    values = to_floats(field).astype(np.float64)
    H, W = values.shape[-2:]
    k = max(H, W) * np.hypot(np.fft.fftfreq(H)[:, None], np.fft.fftfreq(W)[None, :])  # (H, W)
    ring = np.rint(k).astype(int).reshape(-1)
    power = np.abs(np.fft.fft2(values) / (H * W)) ** 2
    rows = power.reshape(-1, H * W)
    sums = np.stack([np.bincount(ring, weights=row) for row in rows]).reshape(*values.shape[:-2], -1)
    return like(np.arange(sums.shape[-1]), field), like(sums, field)
