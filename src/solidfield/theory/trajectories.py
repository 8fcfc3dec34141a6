"""How values at many places and times hang together, given readings: latents with N(0, 1) marginals.

Under the covariance C the field a at the places and times that are asked for, given readings r with errors, has

    Cov = C_aa - C_ar (C_rr + E)^-1 C_ra,      z = (draw of a given r - its mean) / its standard deviation.

A law per value (`laws.py`) turns z into a member, so a member is one possible history of the whole map: the mean of
six hours or the maximum of a day of members has an honest law.

Few values are drawn from the dense Cov. Many are drawn from coarse to fine: first those on a lattice wide enough that
they are few, densely; then level by level those between, each given its nearest among what was drawn and read before,

    a_i = sum_j w_ij a_j + sqrt(v_i) e_i,      readings standing at zero, their mean,

(Vecchia 1988; Katzfuss and Guinness 2021), which costs the same for every value, however many there are and however
far the covariance reaches. Neighbours are looked for in bands of rows, which are cut by the map alone, and noise is
taken in the order of drawing: a large map is the same wherever its latents are kept, in memory or in a file, and what
is held besides them is some bytes a value and what belongs to a band.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..grid import points
from ..keys import evenly
from ..noise import Noise
from .covariance_table import Covariance, across
from .gaussian import root_of
from .spacetime import SpaceTime

DENSE = 1200  # values up to which their covariance is factored as it is
READINGS = 1000  # those used at most for them: the ones that share most with what is asked for
NEIGHBOURS = 32  # that a value between is drawn given, and readings that say how sure it is
BAND, MARGIN = 64, 12  # rows of a level in which neighbours are looked for together, and beyond it on either side
AT_ONCE = 512  # values drawn together
JITTER = 1e-5  # of the variance


@torch.no_grad()
def joint_latents(
    model: SpaceTime,
    asked: Tensor,  # (N, 4) int64: frame, row, column, variable
    known: Tensor,  # (n, 4) int64
    errors: Tensor,  # (n,) variances of the readings' errors, besides the nugget
    noise: Noise,  # of (K, 1) draws
    look: Covariance | None = None,  # the model's covariance by table, of all frames there are; None: as it is computed
    out: Tensor | None = None,  # (N, K) to draw into, such as one that a file holds
    drawn_more: Callable[[int], None] | None = None,  # called on the way with how many values were drawn
) -> Tensor:  # (K, N)
    """Draws of the latents, one row a member."""
    look = model if look is None else look
    errors = errors + model.offset[known[:, 3]]  # an offset is an error, too
    coarse, *between = _levels(asked, DENSE if len(known) <= READINGS else READINGS // NEIGHBOURS)
    root, first = _dense(model, look, asked[coarse[1]], known, errors)
    white = noise((len(coarse[1]),))[:, 0]  # (K, n)
    z = white.new_zeros(len(asked), len(white)) if out is None else out
    scale = torch.ones(len(asked))  # standard deviations given the readings
    z[coarse[1]], scale[coarse[1]] = (white.double() @ root.T / first).float().T, first.float()
    readings = _Sites(model, known, errors + model.nugget[known[:, 3]])
    before = coarse[1].numpy()
    for level, kind in between:
        row, drawn_row = asked[kind, 1].numpy(), asked[before, 1].numpy()
        for band, window in _bands(model, row, level):
            drawn = before[window[drawn_row]]
            some = np.flatnonzero(window[known[:, 1].numpy()])
            sites = readings.joined(some, asked[drawn])
            for rows in kind[band].split(AT_ONCE):
                near, weight, left = _given_nearest(model, look, asked[rows], sites)
                sure = _given_nearest(model, look, asked[rows], readings)[2].sqrt()
                read = near < len(some)
                value = (
                    torch.from_numpy(drawn)[(near - len(some)).clamp_min(0)] if len(drawn) else torch.zeros_like(near)
                )
                weight = torch.where(read, 0.0, weight * scale[value])  # readings stand at zero
                white = noise((len(rows),))[:, 0].T  # (b, K)
                heard = torch.bmm(weight[:, None], z[value])[:, 0]
                z[rows] = (heard + left.sqrt()[:, None] * white) / sure[:, None]
                scale[rows] = sure
                if drawn_more is not None:
                    drawn_more(len(rows))
        before = np.concatenate([before, kind.numpy()])
    return z.T


def _levels(asked: Tensor, few: int) -> list[tuple[int, Tensor]]:  # (N, 4) -> levels, and (n,) positions each
    """Places on ever finer lattices, the coarsest first: at most so few of them."""
    if not len(asked):
        return [(0, torch.zeros(0, dtype=torch.long))]
    place, channel = (asked[:, :3] - asked[:, :3].amin(0)).numpy().astype(np.int32), asked[:, 3].numpy()
    twos = np.where(place == 0, 30, np.log2(np.maximum(place & -place, 1))).min(1).astype(np.int8)
    top = 0
    while (twos >= top).sum() > few and (twos > top).any():
        top += 1
    coarsest = evenly(np.flatnonzero(twos >= top), few)  # of places that lie together on no coarser lattice, some
    found, left = [(top, torch.from_numpy(coarsest))], np.setdiff1d(np.arange(len(twos)), coarsest)
    for level in range(top, -1, -1):
        mine = left[np.minimum(twos[left], top) == level]
        # Of neighbours on a level, of next neighbours, and of variables, the one is drawn given the other.
        here = place[mine]
        kinds = (here >> level & 1) @ [1, 2, 4] + 8 * ((here >> level + 1 & 1) @ [1, 2, 4]) + 64 * channel[mine]
        found += [(level, torch.from_numpy(mine[kinds == kind])) for kind in np.unique(kinds)]
    return found


def _bands(
    model: SpaceTime,
    row: np.ndarray,  # (n,)
    level: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:  # positions in `row`; (H,) bool: rows that may tell them
    """Values of some rows after the other, and the rows from which they are told."""
    height, tall, beyond = model.grid.shape[0], BAND << level, MARGIN << level
    if height <= tall + beyond:
        yield np.arange(len(row)), np.ones(height, bool)
        return
    for start in range(0, height, tall):
        mine = np.flatnonzero((row >= start) & (row < start + tall))
        around = np.arange(start - beyond, min(start + tall, height) + beyond)
        window = np.zeros(height, bool)
        window[around % height if model.grid.periodic[0] else around[(around >= 0) & (around < height)]] = True
        if len(mine):
            yield mine, window


class _Sites:
    """Places and times that may tell others, and how to find the nearest."""

    def __init__(self, model: SpaceTime, places: Tensor, extra: Tensor):  # (n, 4), (n,) added to the variance of each
        self.model, self.places, self.extra = model, places, extra
        self.tree = cKDTree(_scaled(model, places), balanced_tree=False, compact_nodes=False) if len(places) else None

    def joined(self, some: np.ndarray, drawn: Tensor) -> _Sites:
        """Some of these, then values that were drawn."""
        extra = torch.cat([self.extra[some], torch.zeros(len(drawn))])
        return _Sites(self.model, torch.cat([self.places[some], drawn]), extra)

    def nearest(self, asked: Tensor) -> Tensor:  # (B, 4) -> (B, m)
        """The nearest in units of how fast the covariance falls in time and in space."""
        if self.tree is None:
            return torch.zeros(len(asked), 0, dtype=torch.long)
        _, near = self.tree.query(_scaled(self.model, asked), k=min(NEIGHBOURS, len(self.places)))
        return torch.from_numpy(near.reshape(len(asked), -1))


def _scaled(model: SpaceTime, places: Tensor) -> np.ndarray:  # (n, 4) -> (n, 3 or more)
    share = model.share.exp().mean(0)
    pace = float((share / model.duration.exp()).sum()), float((share / model.reach.exp()).sum())
    at = places.numpy()
    return np.concatenate([pace[0] * at[:, :1], pace[1] * points(model.grid, at[:, 1], at[:, 2])], 1)


def _dense(
    model: SpaceTime, look: Covariance, asked: Tensor, known: Tensor, errors: Tensor
) -> tuple[Tensor, Tensor]:  # (N, N) root of the covariance, (N,) standard deviations
    known, errors = _most_telling(look, asked, known, errors)
    k = across(look, known[:, None], known[None]).double()
    k.diagonal().add_(errors.double() + model.nugget[known[:, 3]])
    cross = across(look, asked[:, None], known[None]).double()
    half = torch.linalg.solve_triangular(root_of(k), cross.T, upper=False) if len(known) else cross.T
    covariance = across(look, asked[:, None], asked[None]).double() - half.T @ half
    covariance.diagonal().add_(JITTER * model.variance[asked[:, 3]])
    return root_of(covariance), covariance.diagonal().sqrt()


def _most_telling(look: Covariance, asked: Tensor, known: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Not more readings than can be solved for: those with the largest covariance with each that is asked for."""
    if len(known) <= READINGS:
        return known, errors
    each = max(1, READINGS // len(asked))
    best = torch.stack([across(look, one, known).abs().topk(each).indices for one in asked]).unique()
    return known[best], errors[best]


def _given_nearest(
    model: SpaceTime,
    look: Covariance,
    asked: Tensor,  # (B, 4)
    sites: _Sites,
) -> tuple[Tensor, Tensor, Tensor]:  # (B, m) positions of the nearest sites, their weights, (B,) what is left of C(0)
    variance = model.variance
    whole, near = variance[asked[:, 3]], sites.nearest(asked)
    there = sites.places[near]  # (B, m, 4)
    away, channel = there[..., :3] - asked[:, None, :3], there[..., 3] if model.channels > 1 else None
    k = look.between(away, channel, asked[:, 1])
    k = k + torch.diag_embed(sites.extra[near] + JITTER * variance[there[..., 3]])
    c = across(look, asked[:, None], there)
    weight = torch.cholesky_solve(c[..., None], root_of(k))[..., 0]
    left = whole - (weight * c).sum(1)
    return near, weight, torch.maximum(left, JITTER * whole)
