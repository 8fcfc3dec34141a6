"""How values at many places and times hang together, given readings: latents with N(0, 1) marginals.

Under the covariance C the field a at the places and times that are asked for, given readings r with errors, has

    Cov = C_aa - C_ar (C_rr + E)^-1 C_ra,      z = (draw of a given r - its mean) / its standard deviation.

A law per value (`laws.py`) turns z into a member, so a member is one possible history of the whole map: the mean of
six hours or the maximum of a day of members has an honest law.

Few values are drawn from the dense Cov. Many are drawn from coarse to fine: first those on a lattice wide enough that
they are few, densely; then level by level those between, each given its nearest among what was drawn and read before,

    a_i = sum_j w_ij a_j + sqrt(v_i) e_i,      readings standing at zero, their mean,

(Vecchia 1988; Katzfuss and Guinness 2021), which costs the same for every value, however many there are and however
far the covariance reaches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..grid import points
from ..noise import Noise
from .gaussian import root_of
from .spacetime import SpaceTime

DENSE = 1200  # values up to which their covariance is factored as it is
READINGS = 1000  # those used at most for them: the ones that share most with what is asked for
NEIGHBOURS = 32  # that a value between is drawn given, and readings that say how sure it is
AT_ONCE = 2048  # values drawn together
JITTER = 1e-5  # of the variance


@torch.no_grad()
def joint_latents(
    model: SpaceTime,
    asked: Tensor,  # (N, 4) int64: frame, row, column, variable
    known: Tensor,  # (n, 4) int64
    errors: Tensor,  # (n,) variances of the readings' errors, besides the nugget
    noise: Noise,  # of (K, 1) draws
) -> Tensor:  # (K, N)
    """Draws of the latents, one row a member."""
    white = noise((len(asked),))[:, 0]  # (K, N)
    coarse, *between = _levels(asked)
    places, first = torch.cat([known, asked]), len(known)  # readings stand first, at zero
    errors = errors + model.offset[known[:, 3]]  # an offset is an error, too
    extra = torch.cat([errors + model.nugget[known[:, 3]], torch.zeros(len(asked))])
    draw, scale = white.new_zeros(len(white), len(places)), torch.empty(len(asked))
    draw[:, first + coarse], scale[coarse] = _dense(model, asked[coarse], known, errors, white[:, coarse])
    before = torch.cat([torch.arange(first), first + coarse])
    for level in between:
        for rows in level.split(AT_ONCE):
            near, weight, left = _given_nearest(model, asked[rows], places[before], extra[before])
            draw[:, first + rows] = (draw[:, before[near]] * weight).sum(-1) + left.sqrt() * white[:, rows]
            scale[rows] = _given_nearest(model, asked[rows], known, extra[:first])[2].sqrt()
        before = torch.cat([before, first + level])
    return draw[:, first:] / scale


def _levels(asked: Tensor) -> Iterator[Tensor]:  # (N, 4) -> (n,) positions each, the coarsest first
    """Places on ever finer lattices: at most DENSE of them on the first."""
    place, channel = (
        (asked[:, :3] - asked[:, :3].amin(0)).numpy() if len(asked) else asked[:, :3].numpy(),
        asked[:, 3].numpy(),
    )
    twos = np.where(place == 0, 63, np.log2(np.maximum(place & -place, 1))).min(1) if len(place) else np.zeros(0)
    top = 0
    while (twos >= top).sum() > DENSE:
        top += 1
    yield torch.from_numpy(np.flatnonzero(twos >= top))
    for level in range(top - 1, -1, -1):
        # Of neighbours on a level, of next neighbours, and of variables, the one is drawn given the other.
        kinds = (place >> level & 1) @ [1, 2, 4] + 8 * ((place >> level + 1 & 1) @ [1, 2, 4]) + 64 * channel
        for kind in np.unique(kinds[twos == level]):
            yield torch.from_numpy(np.flatnonzero((twos == level) & (kinds == kind)))


def _dense(
    model: SpaceTime, asked: Tensor, known: Tensor, errors: Tensor, white: Tensor
) -> tuple[Tensor, Tensor]:  # (K, N) draws around zero, (N,) their standard deviations
    known, errors = _most_telling(model, asked, known, errors)
    k = model.across(known[:, None], known[None]).double()
    k.diagonal().add_(errors.double() + model.nugget[known[:, 3]])
    cross = model.across(asked[:, None], known[None]).double()
    half = torch.linalg.solve_triangular(root_of(k), cross.T, upper=False) if len(known) else cross.T
    covariance = model.across(asked[:, None], asked[None]).double() - half.T @ half
    covariance.diagonal().add_(JITTER * model.variance[asked[:, 3]])
    root = root_of(covariance)
    return (white.double() @ root.T).float(), covariance.diagonal().sqrt().float()


def _most_telling(model: SpaceTime, asked: Tensor, known: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Not more readings than can be solved for: those with the largest covariance with anything asked for."""
    if len(known) <= READINGS:
        return known, errors
    some = asked[torch.linspace(0, len(asked) - 1, min(len(asked), 200)).long()]
    telling = model.across(some[:, None], known[None]).abs().amax(0)
    best = telling.topk(READINGS).indices.sort().values
    return known[best], errors[best]


def _given_nearest(
    model: SpaceTime,
    asked: Tensor,  # (B, 4)
    sites: Tensor,  # (n, 4)
    extra: Tensor,  # (n,) added to the variance of each
) -> tuple[Tensor, Tensor, Tensor]:  # (B, m) positions of the nearest sites, their weights, (B,) what is left of C(0)
    variance = model.variance
    whole = variance[asked[:, 3]]
    if len(sites) == 0:
        empty = torch.zeros(len(asked), 0)
        return empty.long(), empty, whole
    near = _nearest(model, asked[:, :3], sites[:, :3])
    there = sites[near]  # (B, m, 4)
    k = model.across(there[:, :, None], there[:, None]) + torch.diag_embed(
        extra[near] + JITTER * variance[there[..., 3]]
    )
    c = model.across(asked[:, None], there)
    weight = torch.cholesky_solve(c[..., None], root_of(k))[..., 0]
    left = whole - (weight * c).sum(1)
    return near, weight, torch.maximum(left, JITTER * whole)


def _nearest(model: SpaceTime, asked: Tensor, sites: Tensor) -> Tensor:  # (B, 3), (n, 3) -> (B, m)
    """The sites nearest in units of how fast the covariance falls in time and in space."""
    share = model.share.exp().mean(0)
    pace = float((share / model.duration.exp()).sum()), float((share / model.reach.exp()).sum())

    def scaled(places: np.ndarray) -> np.ndarray:  # (n, 3)
        where = points(model.grid, places[:, 1], places[:, 2])
        return np.concatenate([pace[0] * places[:, :1], pace[1] * where], 1)

    _, near = cKDTree(scaled(sites.numpy())).query(scaled(asked.numpy()), k=min(NEIGHBOURS, len(sites)))
    return torch.from_numpy(near.reshape(len(asked), -1))
