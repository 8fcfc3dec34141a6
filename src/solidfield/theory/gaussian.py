"""A Gaussian field given readings of it.

With K = L L^T the covariance of the readings y (errors of reading on its diagonal), X that between readings and cells,
C that among the cells, and the mean taken off,

    W = L^-1,    mean = (W X)^T W y,    Cov = C - (W X)^T W X,    K^-1 = W^T W.

Each reading given all the others needs no further factor (Dubrule 1983):  y_i - [K^-1 y]_i / [K^-1]_ii,  variance
1 / [K^-1]_ii. L is factored in double precision; W is small enough for its products to be single.

Kriging, priors and copulas of maps condition so. Where the weights K^-1 X are wanted themselves, of a few readings for
each value, they are solved for there (`spacetime.py`, `trajectories.py`, `prediction/image_kriging.py`).

Covariances of a stationary field are looked up by the step from cell to cell (`unrolled`, `between`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..errors import SolidError

FIRST = 1e-6  # of the variance: what is added first where a matrix cannot be factored


def root_of(k: Tensor) -> Tensor:  # (..., n, n)
    """The Cholesky factor L of K.

    A covariance that is wrapped around a periodic axis, or rounded, need not be positive definite: then that of K with
    as little on its diagonal as it takes. What is positive definite is factored as it is.
    """
    factor, failed = torch.linalg.cholesky_ex(k)
    if not bool((failed > 0).any()):
        return factor
    more = FIRST * k.diagonal(dim1=-2, dim2=-1).abs().amax(-1)  # (...)
    while bool((failed > 0).any()):
        if not bool(torch.isfinite(k).all()):
            raise SolidError("a covariance has entries that are not finite; the fit it comes from has failed")
        repaired = k + torch.diag_embed((more * (failed > 0))[..., None].expand(k.shape[:-1]))
        factor, failed = torch.linalg.cholesky_ex(repaired)
        k, more = repaired, 10 * more
    return factor


@dataclass(frozen=True)
class Given:
    """n readings to condition on. Leading axes `...` are queries, tiles or nothing."""

    factor: Tensor  # (..., n, n) float64, L
    valid: Tensor | None = None  # (..., n) bool; False: padding, which says nothing

    @classmethod
    def of(
        cls,
        among: Tensor,  # (..., n, n) covariance of the field at the readings
        error: Tensor | float,  # (..., n) or one: variance of an error of reading, or jitter
        valid: Tensor | None = None,  # (..., n) bool
    ) -> Given:
        if valid is None or bool(valid.all()):
            k = among.to(torch.float64, copy=True)
        else:
            k = among.double() * (valid[..., None] & valid[..., None, :])
            k.diagonal(dim1=-2, dim2=-1).add_((~valid).double())
        k.diagonal(dim1=-2, dim2=-1).add_(error)
        return cls(root_of(k), valid)

    @cached_property
    def whitener(self) -> Tensor:  # (..., n, n) W
        identity = torch.eye(self.factor.shape[-1], dtype=self.factor.dtype, device=self.factor.device)
        return torch.linalg.solve_triangular(self.factor, identity, upper=False)

    def whitened(self, x: Tensor) -> Tensor:  # (..., n, m) -> (..., n, m)
        """W x, in the precision of x. W itself is formed where that is single, or readings are fewer than columns."""
        if x.dtype == torch.float64 and x.shape[-1] < x.shape[-2]:
            return torch.linalg.solve_triangular(self.factor, self._heard(x), upper=False)
        return self._in(x.dtype) @ x

    def law(
        self,
        across: Tensor,  # (..., n, m) covariance between readings and cells
        reading: Tensor,  # (..., n) mean taken off
        variance: Tensor | float,  # (..., m) or one, of the cells before anything was read
    ) -> tuple[Tensor, Tensor]:  # (..., m) mean and variance
        whitener = self._in(across.dtype)
        half = whitener @ across
        return (half * (whitener @ reading[..., None])).sum(-2), variance - half.square().sum(-2)

    def variance(self, across: Tensor, variance: Tensor | float) -> Tensor:  # (..., n, m), see `law` -> (..., m)
        return variance - self.whitened(across).square().sum(-2)

    def covariance(self, across: Tensor, around: Tensor) -> Tensor:  # (..., n, m), (..., m, m) -> (..., m, m)
        half = self.whitened(across)
        return around - half.mT @ half

    def solve(self, x: Tensor) -> Tensor:  # (..., n, k) float64 -> (..., n, k)
        """K^-1 x: what Matheron's rule spreads from the readings to the cells."""
        return torch.cholesky_solve(self._heard(x), self.factor)

    def left_out(self, reading: Tensor) -> tuple[Tensor, Tensor]:  # (..., n) float64 -> (..., n) mean and variance
        """Each reading given the others."""
        precision = self.whitener.square().sum(-2)
        return reading - self.solve(reading[..., None])[..., 0] / precision, 1 / precision

    def _in(self, dtype: torch.dtype) -> Tensor:  # (..., n, n)
        """W in this precision, deaf to padding."""
        whitener = self.whitener.to(dtype)
        return whitener if self.valid is None else whitener * self.valid[..., None, :]

    def _heard(self, x: Tensor) -> Tensor:  # (..., n, m) -> (..., n, m)
        return x if self.valid is None else x * self.valid[..., None]


def unrolled(
    kernel: Tensor,  # (..., Hp, Wp) by step around a torus, in the order of the FFT
    shape: Sequence[int],  # (H, W) of the grid
) -> Tensor:  # (..., 2 H - 1, 2 W - 1)
    """The covariance for every step between two cells of the grid, backward ones first."""
    for axis, length in zip((-2, -1), shape, strict=True):
        steps = torch.arange(1 - length, length, device=kernel.device) % kernel.shape[axis]
        kernel = kernel.index_select(axis, steps)
    return kernel


def between(
    table: Tensor,  # (..., 2 H - 1, 2 W - 1) of `unrolled`
    start: Tensor,  # (T..., n) flat cells of the grid
    end: Tensor,  # (T..., m)
) -> Tensor:  # (..., T..., n, m)
    """Covariances between cells: with rows as long as those of the table, a step is one difference."""
    width = table.shape[-1] // 2 + 1
    first, last = (cell + cell // width * (width - 1) for cell in (start, end))
    step = last[..., None, :] - first[..., :, None] + table.shape[-2] * table.shape[-1] // 2
    return table.flatten(-2).index_select(-1, step.flatten()).unflatten(-1, step.shape)
