"""The covariance by maximum likelihood: EM for a stationary field read at a few cells a frame.

With K the covariance of the readings y of an example (source and target together) and alpha = K^-1 y,

    Sigma <- Sigma + Sigma G Sigma / |torus|,    Sigma(k) = [[S, R*], [R, S]],
    G(k) = F[ mean over examples of (alpha alpha^T - K^-1), summed per offset ](k).

This is the mean of the second moments of the unseen field given the readings, so S >= 0 and |R| <= S hold by
themselves and no shape of the covariance is assumed. Plain EM creeps where readings say little; rounds are
therefore extrapolated (SQUAREM, Varadhan and Roland 2008). Readings of held-out examples decide when to stop:
with few data the result stays near the guess it started from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..fields import Pair
from ..keys import torch_generator
from .covariance import TorusCovariance, from_spectra, offsets

READINGS = 64  # of a frame that are used at most; the work grows with their cube
WORK = 512 * 100**2  # examples x (readings of an example)^2 that are used: some seconds a fit
ROUNDS = 12  # of three EM steps each, at most
LOOSER = (0.0, 0.003, 0.01, 0.03, 0.1)  # shares to try before EM, see `loosened`
GAIN = 2e-4  # log-likelihood per held-out reading that a round must gain to go on
JITTER = 1e-6  # of the variance, added to K: keeps Cholesky alive for very smooth fields


@dataclass(frozen=True)
class Readings:
    """Examples of one lead as lists of readings, padded to the longest."""

    lead: float
    value: Tensor  # (N, n) float64
    valid: Tensor  # (N, n) bool
    index: Tensor  # (N, n, n) where K finds its entries in the tables (C, X, X mirrored, 0)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, rows: Tensor) -> Readings:
        return Readings(self.lead, self.value[rows], self.valid[rows], self.index[rows])


def readings(pair: Pair, lead: float, shape: tuple[int, int]) -> Readings:
    """Examples of this lead, spread evenly, with at most READINGS a frame, thinned by a fixed key."""
    rows = (pair.source.lead == lead).nonzero()[:, 0]
    m, n = pair.source.mask[rows, 0].flatten(1), pair.target.mask[rows, 0].flatten(1)
    if lead == 0:
        n = n & ~m  # one frame: a cell read twice counts once
    sizes = [min(READINGS, int(mask.sum(1).max())) for mask in (m, n)]
    count = min(len(rows), max(64, WORK // max(1, sum(sizes)) ** 2))
    spread = torch.linspace(0, len(rows) - 1, count).long()
    width = pair.source.mask.shape[-1]
    columns = []
    for frame, (values, mask) in enumerate(((pair.source.values, m), (pair.target.values, n))):
        seen = mask[spread]
        score = torch.rand(seen.shape, generator=torch_generator("covariance", f"{lead:g}", frame))
        order = torch.where(seen, score, 2.0).argsort(1)[:, : sizes[frame]]
        cell = torch.stack([order // width, order % width], -1)
        value = values[rows[spread], 0].flatten(1).gather(1, order).double()
        columns.append((value, seen.gather(1, order), cell, torch.full_like(order, frame if lead else 0)))
    value, valid, cell, which = (torch.cat(column, 1) for column in zip(*columns, strict=True))
    jump = which[:, None, :] - which[:, :, None]  # (N, n, n): 0 within a frame, 1 forth, -1 back
    index = offsets(cell, cell, shape) + shape[0] * shape[1] * (jump % 3)
    both = valid[:, None, :] & valid[:, :, None]
    index = torch.where(both, index, 3 * shape[0] * shape[1])
    return Readings(lead, torch.where(valid, value, 0.0), valid, index)


def refine(
    covariance: TorusCovariance,  # a first guess
    pair: Pair,  # one channel, (N, 1, H, W), the mean taken off
    error: float = 0.0,  # variance of the errors of reading
    rounds: int = ROUNDS,
) -> tuple[TorusCovariance, float]:
    """EM, stopped by one example in five that is held out; also the log-likelihood per held-out reading."""
    shape = (covariance.kernel.shape[0], covariance.kernel.shape[1])
    sets = [readings(pair, lead, shape) for lead in sorted(pair.source.lead.unique().tolist())]
    used = [examples[torch.arange(len(examples)) % 5 != 4] for examples in sets]
    held = [examples[torch.arange(len(examples)) % 5 == 4] for examples in sets]
    number = max(1, sum(int(examples.valid.sum()) for examples in held))

    def score(candidate: TorusCovariance) -> float:
        return sum(_likelihood(candidate, examples, error)[0] for examples in held) / number

    covariance = max((loosened(covariance, share) for share in LOOSER), key=score)
    best = score(covariance)
    for _ in range(rounds):
        candidate = _round(covariance, used, error)
        gained = score(candidate) - best
        if not gained > 0:
            break
        covariance, best = candidate, best + gained
        if gained < GAIN:
            break
    return covariance, best


def loosened(covariance: TorusCovariance, share: float) -> TorusCovariance:
    """A share of the variance no longer lasts from frame to frame: half of it smooth, half of it in single cells.

    A guess by moments may hold that something lasts for ever; one reading that does not then has no likelihood.
    """
    kernel = covariance.kernel.clone()
    kernel[0, 0] += 0.5 * share * kernel[0, 0]
    return TorusCovariance(kernel, (1 - 0.5 * share) * covariance.cross, covariance.leads)


def _round(covariance: TorusCovariance, used: list[Readings], error: float) -> TorusCovariance:
    """Two EM steps, an extrapolation along their trend in (log S, gamma), and a third step to settle."""
    first = _step(covariance, used, error)
    second = _step(first, used, error)
    start, one, two = (_coordinates(x) for x in (covariance, first, second))
    change, bend = one - start, two - 2 * one + start
    length = float(change.abs().square().sum().sqrt() / bend.abs().square().sum().sqrt().clamp(min=1e-300))
    length = min(max(length, 1.0), 8.0)  # 1 is plain EM; the cap keeps one badly determined wavenumber from ruling
    far = start + 2 * length * change + length**2 * bend
    spectrum = far[0].real.exp()
    leads = covariance.leads.tolist()
    reached = from_spectra(spectrum, {lead: gamma * spectrum for lead, gamma in zip(leads, far[1:], strict=True)})
    return _step(reached, used, error)


def _coordinates(covariance: TorusCovariance) -> Tensor:  # (1 + L, Hp, Wp) complex128: log S, then each gamma
    tables = torch.fft.fft2(torch.cat([covariance.kernel[None], covariance.cross]))
    spectrum = tables[0].real.clamp(min=1e-12)
    return torch.cat([spectrum.log()[None].to(tables.dtype), tables[1:] / spectrum])


def _step(covariance: TorusCovariance, used: list[Readings], error: float) -> TorusCovariance:
    """One EM step; S is pooled over leads, each lead brings its coherence."""
    s = torch.fft.fft2(covariance.kernel).real
    pooled = torch.zeros_like(s)
    coherence = {}
    for examples in used:
        _, gradient = _likelihood(covariance, examples, error)
        g = torch.fft.fft2(gradient) / (s.numel() * len(examples))
        if examples.lead == 0:
            updated = s + g[0].real * s**2
        else:
            r = torch.fft.fft2(covariance.at(examples.lead))
            a, c = g[0].real / 2, g[1]  # source and target share one spectrum: their terms are averaged
            updated = s + a * (s**2 + r.abs() ** 2) + 2 * s * (r.conj() * c).real
            crossed = r + 2 * a * s * r + s**2 * c + r**2 * c.conj()
            coherence[examples.lead] = crossed / updated.clamp(min=1e-300)
        pooled += len(examples) * updated
    spectrum = (pooled / sum(len(examples) for examples in used)).clamp(min=1e-12)
    return from_spectra(spectrum, {lead: gamma * spectrum for lead, gamma in coherence.items()})


def _likelihood(
    covariance: TorusCovariance, examples: Readings, error: float
) -> tuple[float, Tensor]:  # log-likelihood, (3, Hp, Wp)
    """Log-likelihood of the readings; alpha alpha^T - K^-1 per offset: within frames, forth, back."""
    forth = covariance.at(examples.lead)
    back = forth.flip(0, 1).roll((1, 1), (0, 1))  # X(-d)
    none = torch.zeros(1, dtype=torch.float64)
    tables = torch.cat([table.flatten() for table in (covariance.kernel, forth, back, none)])
    extra = error + JITTER * float(covariance.kernel[0, 0])
    gradient = torch.zeros_like(tables)
    total = 0.0
    for rows in torch.arange(len(examples)).split(32):
        part = examples[rows]
        k = tables[part.index]  # (b, n, n)
        k.diagonal(dim1=1, dim2=2).add_(torch.where(part.valid, extra, 1.0))  # padding: unit rows, no effect
        factor = torch.linalg.cholesky(k)
        inverse = torch.cholesky_inverse(factor)
        alpha = inverse @ part.value[..., None]  # (b, n, 1)
        total -= 0.5 * float((part.value * alpha[..., 0]).sum() + np.log(2 * np.pi) * part.valid.sum())
        total -= float(factor.diagonal(dim1=1, dim2=2).log().sum())
        gradient.index_add_(0, part.index.flatten(), (alpha * alpha.mT - inverse).flatten())
    return total, gradient[:-1].view(3, *covariance.kernel.shape)
