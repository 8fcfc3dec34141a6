"""What a map shows of a cell: mean, standard deviation and quantiles of its law, not of the members that were drawn.

A law is an increasing map x = Q(z) of a standard normal latent. So is T(Q(z)) in physical units, hence

    mean = E T(Q(z)),      variance = E (T(Q(z)) - mean)^2,      quantile at q = T(Q(Phi^-1(q))),

where the mean of a transform is not the transform of the mean. The expectations are sums over LATENTS: the rule of
Gauss and Legendre on each piece between the latents at which a calibrated law may bend (`solid_set.EDGES`), times the
normal density. A hundred members of a heavy tail have a mean and a spread that differ from cell to cell by chance; the
laws themselves are as smooth as what they were made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from ..errors import SolidError
from ..models.stretch import EDGES

EACH = 8  # latents on a piece: within a thousandth of the spread, and a thirtieth of the time of a map
FARTHEST = 6.0  # beyond, one draw in a billion


def _rule() -> tuple[Tensor, Tensor]:  # (L,) latents, (L,) weights that sum to one
    ends = np.array([0.0, *EDGES.double().tolist(), FARTHEST])
    ends = np.concatenate([-ends[:0:-1], ends])
    node, weight = np.polynomial.legendre.leggauss(EACH)
    half = np.diff(ends)[:, None] / 2
    z = (ends[:-1, None] + half * (1 + node)).ravel()
    density = (half * weight).ravel() * np.exp(-0.5 * z**2)
    return torch.from_numpy(z).float(), torch.from_numpy(density / density.sum())


LATENTS, WEIGHTS = _rule()


def latents_of(quantiles: Sequence[float] = ()) -> Tensor:  # (L + Q,)
    """The latents that tell mean and standard deviation, then those of the quantiles."""
    if any(not 0 <= q <= 1 for q in quantiles):
        raise SolidError(f"quantiles {tuple(quantiles)} must lie between 0 and 1")
    tiny = NormalDist().cdf(-FARTHEST)
    scores = [NormalDist().inv_cdf(min(max(q, tiny), 1 - tiny)) for q in quantiles]
    return torch.tensor([*LATENTS.tolist(), *scores])


def moments(values: Tensor) -> tuple[Tensor, Tensor]:  # (L, ...) -> mean and standard deviation, (...)
    """Of laws whose values at LATENTS are given; where all are equal, that value and zero."""
    middle = values[len(values) // 2].double()
    away = values.double() - middle  # so that what was read without error keeps its digits
    mean = torch.tensordot(WEIGHTS, away, 1)
    variance = torch.tensordot(WEIGHTS, away.square(), 1) - mean.square()
    return (middle + mean).float(), variance.clamp_min(0).sqrt().float()


def shown(values: Tensor) -> Tensor:  # (L + Q, B) at `latents_of(quantiles)` -> (2 + Q, B)
    """Mean, standard deviation and quantiles, a row each: what a map shows, in the units of the values."""
    return torch.stack([*moments(values[: len(LATENTS)]), *values[len(LATENTS) :]])
