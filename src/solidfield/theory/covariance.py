"""The second-order statistics of a field that was only ever read sparsely: mean, covariance, persistence.

A stationary field on a torus has a spectrum S(k) >= 0, and two frames, `lead` steps apart, a cross-spectrum
R(k) = gamma(k) S(k) with a coherence |gamma(k)| <= 1; these pairs and no others are valid joint laws:

    C(d) = Cov(u_t(p), u_t(p + d))         = F^-1[S](d)
    X(d) = Cov(u_t(p), u_{t+lead}(p + d))  = F^-1[R](d)

Both kernels depend on the offset vector d, so anisotropy and advection (a phase of gamma) are in reach. An
axis that does not wrap is doubled: no two cells of the grid then meet across the seam.

The estimate here is by moments: the mean product of co-observed readings per offset, fitted by a non-negative
sum of isotropic kernels (Gaussians and exponentials of many ranges, a nugget, a constant), each of which
persists with a share in [0, 1]. `likelihood.py` refines it. Channels are treated as independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import torch
from scipy.optimize import lsq_linear, nnls
from torch import Tensor

from ..errors import SolidError
from ..fields import Pair, Source, Target
from ..grid import Grid

CELLS = 2**25  # cells of all sources kept for estimation (32,768 examples of 32 x 32); statistics settle long before
# Means: the axes averaged over (all: a constant; by row; by column; by cell), and the number of readings at
# which the own mean of a row, column or cell weighs as much as the constant.
CONSTANT = ((0, 1), 0.0)
SWEEPS = 3  # of levels and effects in turn; later ones change nothing that matters
MEANS = (CONSTANT, *product(((1,), (0,), ()), (1.0, 10.0, 100.0)))


@dataclass(frozen=True)
class TorusCovariance:
    """Kernels over the offsets of the torus in the order of the FFT: zero first, negative ones last."""

    kernel: Tensor  # (Hp, Wp) float64, C
    cross: Tensor  # (L, Hp, Wp) float64, X for each lead
    leads: Tensor  # (L,) float64, ascending, none 0

    def at(self, lead: float) -> Tensor:  # (Hp, Wp)
        """X at any lead up to the longest fitted: linear between them, which keeps it valid; C at lead 0."""
        if lead == 0:
            return self.kernel
        known = [(0.0, self.kernel), *zip(self.leads.tolist(), self.cross, strict=True)]
        known.sort(key=lambda entry: entry[0])  # leads before the source are negative
        for (low, before), (high, after) in pairwise(known):
            if low <= lead <= high:
                return torch.lerp(before, after, (lead - low) / (high - low))
        last = known[-1][0]
        raise SolidError(f"kriging was fitted for leads up to {last:g}, asked for {lead:g}; fit it on such pairs")


def torus(grid: Grid) -> tuple[int, int]:
    """The shape on which offsets live: an axis that does not wrap is doubled."""
    height, width = (n if wraps else 2 * n for n, wraps in zip(grid.shape, grid.periodic, strict=True))
    return height, width


def offsets(
    start: Tensor,  # (..., n, 2) row and column
    end: Tensor,  # (..., m, 2)
    shape: Sequence[int],  # of the torus
) -> Tensor:  # (..., n, m) position of `end - start` in a flattened kernel
    step = end[..., None, :, :] - start[..., :, None, :]
    return (step[..., 0] % shape[0]) * shape[1] + step[..., 1] % shape[1]


def collect(batches: Iterable[Pair]) -> Pair:
    """All pairs as one, until the memory set aside for them is full."""
    kept: list[Pair] = []
    cells = 0
    for pair in batches:
        kept.append(pair.to("cpu"))
        cells += pair.source.values[:, 0].numel()
        if cells >= CELLS:
            break
    if not any(bool(pair.target.mask.any()) for pair in kept):
        raise SolidError("the training pairs hold no target reading; check the scenario or the split")
    sources, targets = [pair.source for pair in kept], [pair.target for pair in kept]
    values, mask, lead = (torch.cat([getattr(x, name) for x in sources]) for name in ("values", "mask", "lead"))
    return Pair(
        Source(values, mask, lead),
        Target(*(torch.cat([getattr(x, name) for x in targets]) for name in ("values", "mask"))),
    )


def mean_field(
    values: Tensor,  # (N, H, W), zeros off the mask
    mask: Tensor,  # (N, H, W) bool
    candidates: Sequence[tuple[tuple[int, ...], float]] = MEANS,
) -> Tensor:  # (H, W) float64
    """The mean: constant, by row, by column or by cell, as one half of the frames predicts the other.

    Every frame has a level of its own, which is not the mean's business: where sensors move, a cell read in winter
    only must not pass for one that is always high. The constant wins unless another lowers the squared error of the
    readings about their frame's level by 0.2 %.
    """
    x, m = values.double(), mask.double()
    middle = (len(x) + 1) // 2
    halves = ((x[:middle], m[:middle]), (x[middle:], m[middle:]))

    def error(candidate: tuple[tuple[int, ...], float]) -> float:
        effects = [_effect(*half, *candidate) for half in halves]
        return sum(
            float(_about_level(other, n, effect).square().sum())
            for (other, n), effect in zip(halves[::-1], effects, strict=True)
        )

    errors = [error(candidate) for candidate in candidates]
    best = int(np.argmin(errors))
    chosen = candidates[best] if errors[best] < 0.998 * errors[0] else candidates[0]
    effect = _effect(x, m, *chosen)
    return effect + (x - m * effect).sum() / m.sum().clamp(min=1)


def _about_level(x: Tensor, m: Tensor, effect: Tensor) -> Tensor:  # (N, H, W), (N, H, W), (H, W) -> (N, H, W)
    """What is left of the readings without the effect of the place and the level of their frame."""
    rest = x - m * effect
    level = rest.sum((1, 2)) / m.sum((1, 2)).clamp(min=1)
    return rest - m * level[:, None, None]


def _effect(
    x: Tensor,  # (N, H, W), zeros off the mask
    m: Tensor,  # (N, H, W) 0 or 1
    axes: tuple[int, ...],
    shrink: float,
) -> Tensor:  # (H, W)
    """How much higher a row, column or cell reads than its frame, with `shrink` readings' worth of doubt."""
    count = m.sum(0)
    effect = torch.zeros_like(count)
    if len(axes) == 2:
        return effect
    if axes:
        count = count.sum(axes, keepdim=True)
    for _ in range(SWEEPS):
        rest = (_about_level(x, m, effect) + m * effect).sum(0)
        rest = rest.sum(axes, keepdim=True) if axes else rest
        effect = (rest / (count + shrink)).expand_as(effect)
    return effect


def moments(pair: Pair, grid: Grid, error: float = 0.0) -> TorusCovariance:
    """A non-negative sum of isotropic kernels, fitted to the products of co-observed readings."""
    radius = _radius(grid)  # (Hp, Wp)
    basis = _basis(radius, grid)  # (J, Hp, Wp)
    within, between = _products(pair, torus(grid))
    share = _shares(basis, radius, *within, error=error)
    spectrum = torch.fft.fft2(torch.from_numpy(np.tensordot(share, basis, 1))).real.clamp(min=0)
    spectrum = spectrum + 1e-9 * spectrum.mean() + 1e-12
    cross = {}
    for lead in sorted(lead for lead in between if lead > 0):
        persisting = _shares(basis, radius, *between[lead], most=share)
        cross[lead] = torch.fft.fft2(torch.from_numpy(np.tensordot(persisting, basis, 1)))
    return from_spectra(spectrum, cross)


Products = tuple[np.ndarray, np.ndarray]  # (Hp, Wp) sums of products of readings, (Hp, Wp) their numbers


def _products(pair: Pair, shape: tuple[int, int]) -> tuple[Products, dict[float, Products]]:
    """Per offset: readings of one frame with each other, and from source to target for each lead."""

    def correlate(a: Tensor, b: Tensor) -> np.ndarray:  # sum over examples and cells p of a(p) b(p + d)
        first, second = (torch.fft.rfft2(x.double(), s=shape) for x in (a, b))
        return torch.fft.irfft2((first.conj() * second).sum(0), s=shape).numpy()

    within = np.zeros((2, *shape))
    between: dict[float, np.ndarray] = {}
    for lead in pair.source.lead.unique().tolist():
        between[lead] = np.zeros((2, *shape))
        for rows in (pair.source.lead == lead).nonzero()[:, 0].split(256):
            x, m = pair.source.values[rows, 0], pair.source.mask[rows, 0]
            y, n = pair.target.values[rows, 0], pair.target.mask[rows, 0]
            within += np.stack([correlate(x, x) + correlate(y, y), correlate(m, m) + correlate(n, n)])
            between[lead] += np.stack([correlate(x, y), correlate(m, n)])
    return (within[0], within[1]), {lead: (table[0], table[1]) for lead, table in between.items()}


def _radius(grid: Grid) -> np.ndarray:  # (Hp, Wp) length of each offset, the short way round
    y, x = (np.minimum(np.arange(n), n - np.arange(n)) * h for n, h in zip(torus(grid), grid.spacing, strict=True))
    return np.hypot(y[:, None], x[None, :])


def _basis(radius: np.ndarray, grid: Grid) -> np.ndarray:  # (J, Hp, Wp)
    ranges = np.geomspace(0.7 * min(grid.spacing), max(radius.max(), max(grid.spacing)), 12)
    kernels = [np.ones_like(radius), (radius == 0).astype(float)]
    kernels += [np.exp(-0.5 * (radius / r) ** 2) for r in ranges]
    kernels += [np.exp(-radius / r) for r in ranges]
    return np.stack(kernels)


def _shares(
    basis: np.ndarray,  # (J, Hp, Wp)
    radius: np.ndarray,  # (Hp, Wp)
    total: np.ndarray,  # (Hp, Wp)
    count: np.ndarray,  # (Hp, Wp)
    most: np.ndarray | None = None,  # (J,) upper limits
    error: float = 0.0,
) -> np.ndarray:  # (J,)
    """Shares of the kernels by least squares, weighted by numbers of products and towards short offsets."""
    seen = count > 0.5
    limit = np.full(len(basis), np.inf) if most is None else most
    used = limit > 1e-9
    shares = np.zeros(len(basis))
    if not seen.any() or not used.any():
        return shares
    product = total[seen] / count[seen] - error * (radius[seen] == 0)
    weight = np.sqrt(count[seen]) / (1 + radius[seen] / radius[radius > 0].min(initial=1.0))
    matrix = weight[:, None] * basis[used][:, seen].T
    if most is None:
        shares[used] = nnls(matrix, weight * product)[0]
    else:
        shares[used] = lsq_linear(matrix, weight * product, (0.0, limit[used])).x
    return shares


def from_spectra(
    spectrum: Tensor,  # (Hp, Wp) float64, S >= 0
    cross: dict[float, Tensor],  # lead: (Hp, Wp) complex128, R before the limit |R| <= S
) -> TorusCovariance:
    tables = [spectrum, *(r * (spectrum / r.abs().clamp(min=1e-300)).clamp(max=1) for r in cross.values())]
    kernels = torch.fft.ifft2(torch.stack([table.to(torch.complex128) for table in tables])).real.contiguous()
    return TorusCovariance(kernels[0], kernels[1:], torch.tensor(list(cross), dtype=torch.float64))
