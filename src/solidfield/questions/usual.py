"""What is usual at a place: how far its readings lie from those of the whole network, and how much they move about.

    y = m_t + p_s + e        m_t: of a frame, p_s: of a place and a variable, e: the rest

by least squares over the training readings, so that it does not matter which places a frame happens to have. A window
of a day knows little of p_s, a record of months much. Readings of one day err alike, so each block of frames counts
once, and p_s is shrunk by n / (n + r): n blocks, r the variance of a block's mean over that of p_s, where this is
more than chance would have.

A question about a training reading must not know it by what is usual at its own place: the blocks around its frame
are left out, for its own place and for all its neighbours alike, since that is how it will be when it is asked later.
How many varies: what is usual is to tell what a place is like, not which one it is, and it may be long ago. (m_t is
fitted once for all questions; what one reading adds to it at other times is a few thousandths of itself.)

What is usual lasts for weeks and changes with the season. Beyond the time that training saw it counts by

    exp(-(a / l)^2 / 2)      a: how far beyond, l: for how long the departures of blocks stay alike,

the l that fits the products of the departures of all pairs of blocks best, and at most the length of the record: none
has seen it last longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..keys import evenly

BLOCK = 24  # frames: at least as many as a question looks back
SWEEPS = 20  # of the least squares
TINY = 1e-6  # of a variance
SURE = 3.0  # standard errors by which places must differ more than chance has it
FEWEST = 4  # places of a variable, below which nothing is usual
PLACES, LENGTHS = 1000, 40  # by which it is told how long what is usual lasts, and lengths that are tried
NUMBERS = (
    3  # that are told of a place: p_s, the logarithm of its spread over the typical one, and how far to trust both
)


@dataclass(frozen=True)
class Usual:
    """Sums over blocks of frames, place by place."""

    cells: Tensor  # (P,) int64, flat in (C, H, W), ascending
    blocks: int  # of the whole record
    lasting: tuple[float, ...]  # (C,) l of each variable, in frames
    key: Tensor  # (E,) int64, ascending: place * blocks + block, for every block in which a place was read
    sums: Tensor  # (E + 1, 2) float64: running sums of the blocks' mean departures, and of their squares' means
    doubt: Tensor  # (P,) r of the place's variable; inf: nothing is usual
    typical: Tensor  # (P,) variance of departures within a place, of its variable

    def at(
        self, cell: Tensor, frame: Tensor | None = None, reach: Tensor | int = 1
    ) -> Tensor:  # (...), broadcast -> (..., NUMBERS)
        """What is usual there, all zero where nothing is known; with a frame, without so many blocks on either side."""
        if not len(self.cells):
            return torch.zeros(*cell.shape, NUMBERS)
        place = torch.searchsorted(self.cells, cell).clamp(max=len(self.cells) - 1)
        begin, end = (
            self._place(place, torch.zeros_like(place)),
            self._place(place, torch.full_like(place, self.blocks)),
        )
        total, count = self.sums[end] - self.sums[begin], end - begin
        if frame is not None:
            block = (frame // BLOCK).expand_as(place)
            near = [self._place(place, (block + step).clamp(0, self.blocks)) for step in (-reach, reach + 1)]
            total, count = total - (self.sums[near[1]] - self.sums[near[0]]), count - (near[1] - near[0])
        mean, square = (total / count.clamp_min(1)[..., None]).unbind(-1)
        trust = torch.where(self.cells[place] == cell, count / (count + self.doubt[place]), 0.0)
        spread = ((square - mean.square()).clamp_min(0) / self.typical[place] + 1e-3).log() / 2
        return torch.stack([trust * mean, trust * spread, trust], -1).float()

    def _place(self, place: Tensor, block: Tensor) -> Tensor:
        """Where the entries of a place begin from a block on."""
        return torch.searchsorted(self.key, place * self.blocks + block)

    def to(self, device: torch.device | str) -> Usual:
        cells, *told = (part.to(device) for part in (self.cells, self.key, self.sums, self.doubt, self.typical))
        return Usual(cells, self.blocks, self.lasting, *told)


@dataclass(frozen=True)
class LeftOut:
    """What is usual at places, the time around each question left out."""

    usual: Usual
    frame: Tensor  # (B,) int64 of the questions
    reach: Tensor  # (B,) int64 blocks on either side

    def at(self, cell: Tensor) -> Tensor:  # (B, n) -> (B, n, NUMBERS)
        return self.usual.at(cell, self.frame[:, None], self.reach[:, None])

    def where(self, rows: Tensor) -> LeftOut:  # (B,) bool, or positions
        return LeftOut(self.usual, self.frame[rows], self.reach[rows])

    def to(self, device: torch.device | str) -> LeftOut:
        return LeftOut(self.usual.to(device), self.frame.to(device), self.reach.to(device))


def usual(
    values: np.ndarray,  # (n,) training readings, standardised
    cell: np.ndarray,  # (n,) flat in (C, H, W)
    frame: np.ndarray,  # (n,)
    frames: int,  # of the record
    variables: int,
    per: int,  # cells of a variable
) -> Usual:
    """What training readings say of their places."""
    course = cell // per * frames + frame  # a frame of each variable has its own
    several = np.bincount(course, minlength=1)[course] > 1  # one reading alone cannot tell a place from its time
    values, frame, course = values[several].astype(np.float64), frame[several], course[several]
    cells, place = np.unique(cell[several], return_inverse=True)
    departure, blocks = _departures(values, course, place, cells // per), -(-frames // BLOCK)
    key, entry = np.unique(place * blocks + frame // BLOCK, return_inverse=True)
    size = np.bincount(entry)
    means = np.stack([np.bincount(entry, departure**power) / size for power in (1, 2)], 1)
    doubt, typical = np.full(len(cells), np.inf), np.ones(len(cells))
    lasting = [float(frames)] * variables
    for channel in np.unique(cells // per):
        mine = cells // per == channel
        entries = mine[key // blocks]
        numbered = (np.cumsum(mine) - 1)[key[entries] // blocks]
        doubt[mine], typical[mine] = _shrinkage(means[entries, 0], means[entries, 1], numbered)
        lasting[channel] = BLOCK * _lasting(means[entries, 0], numbered, key[entries] % blocks, blocks)
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(means, 0)])
    told = (torch.from_numpy(part) for part in (key, sums, doubt, typical))
    return Usual(torch.from_numpy(cells), blocks, tuple(lasting), *told)


def _departures(
    values: np.ndarray, frame: np.ndarray, place: np.ndarray, channel: np.ndarray
) -> np.ndarray:  # (n,), (n,), (n,), (P,) -> (n,)
    """y - m_t, where the p_s of each variable have a mean of zero over its places."""
    at, readings = np.zeros(len(channel)), (np.bincount(frame).clip(1), np.bincount(place).clip(1))
    course = np.zeros(len(readings[0]))
    for _ in range(SWEEPS):
        course = np.bincount(frame, values - at[place]) / readings[0]
        at = np.bincount(place, values - course[frame]) / readings[1]
        at = at - (np.bincount(channel, at) / np.bincount(channel).clip(1))[channel]
    return values - course[frame]


def _shrinkage(mean: np.ndarray, square: np.ndarray, place: np.ndarray) -> tuple[float, float]:  # (E,) each
    """r of one variable, and the variance of its departures around what is usual, from the means of its blocks."""
    count = np.bincount(place)
    free = len(place) - len(count)
    if len(count) < FEWEST or free < 1:
        return np.inf, 1.0
    usually = np.bincount(place, mean) / count
    typical = float((np.bincount(place, square) / count - usually**2).mean()) + TINY
    block = float(np.square(mean - usually[place]).sum() / free)  # variance of a block's mean
    chance = block / count
    wide = float((np.square(usually) - chance).mean())  # variance of p_s
    sure = SURE * float(chance.mean()) * np.sqrt(2 / len(count))
    return (max(block / wide, TINY) if wide > sure else np.inf), typical


def _lasting(mean: np.ndarray, place: np.ndarray, block: np.ndarray, blocks: int) -> float:  # (E,) each
    """For how many blocks what is usual stays so, from the means of blocks."""
    chosen = evenly(np.unique(place), PLACES)
    mine = np.isin(place, chosen)
    departure, there = np.zeros((2, len(chosen), 2 * blocks))  # as long again, so that no lag goes around
    at = np.searchsorted(chosen, place[mine]), block[mine]
    departure[at], there[at] = mean[mine], 1.0
    products, pairs = (_by_lag(part)[1:blocks] for part in (departure, there))
    lag, seen = np.arange(1, blocks), pairs > 0.5
    if not seen.any():
        return float(blocks)
    product, pairs, lag = products[seen] / pairs[seen], pairs[seen], lag[seen]
    longest = np.geomspace(1.0, blocks, LENGTHS)
    shape = np.exp(-((lag / longest[:, None]) ** 2) / 2)
    height = (shape * pairs * product).sum(1) / (shape**2 * pairs).sum(1)
    missed = (pairs * (product - height[:, None] * shape) ** 2).sum(1)
    return float(longest[int(missed.argmin())])


def _by_lag(values: np.ndarray) -> np.ndarray:  # (P, T), zero in its second half -> (T,)
    """Sums over places and times of the products of values that lie so far apart."""
    spectrum = np.fft.rfft(values, axis=1)
    return np.fft.irfft((np.abs(spectrum) ** 2).sum(0), values.shape[1])
