"""Kriging: the law of a Gaussian field given its readings, with a covariance fitted to sparse pairs alone.

With K the covariance of the readings y (plus their error variance), X that from sensors to cells at the lead,

    mean(p) = m(p) + X(p)^T K^-1 (y - m),        Cov(p, q) = C(p, q) - X(p)^T K^-1 X(q).

At lead 0 this is kriging in space, at a lead it is space-time kriging of the field to come. Members are exact
draws of the whole posterior by Matheron's rule: draw the source and target frames (u_s, u_t) jointly from the
prior, then correct them by what was read,

    member = m + u_t + X^T K^-1 (y - m - u_s - e),     e: errors of reading.

Drawing and correcting are Fourier transforms on the torus of `covariance.py`: a member costs O(H W log H W),
and the posterior covariance is never formed. Departures from textbook ordinary kriging: the mean is known (a
constant, or by row, column or cell where that predicts better) instead of re-estimated for every query; the
covariance has no parametric form. At lead 0 a reading is honoured exactly, or up to `obs_std`. Channels are
independent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..fields import Pair, Source, Target
from ..forecast import Fitted, Spec
from ..noise import Noise
from ..theory.covariance import CONSTANT, TorusCovariance, collect, mean_field, moments, torus
from ..theory.gaussian import Given, between, unrolled
from ..theory.likelihood import refine
from .classical import adopt_shapes

JITTER = 1e-8  # of the variance, added to K: far below any error of reading, enough for Cholesky


class Kriging(Fitted):
    """A Gaussian process with a stationary, anisotropic covariance in space and time."""

    name = "kriging"
    reference = "Matheron 1963, Principles of geostatistics; Krige 1951"
    mean: Tensor  # (C, H, W)
    kernel: Tensor  # (C, Hp, Wp) float64
    cross: Tensor  # (C, L, Hp, Wp) float64
    leads: Tensor  # (L,) float64

    def __init__(
        self,
        spec: Spec,
        obs_std: float = 0.0,  # of the errors of reading, standardised; 0: what is read is the field
        level: bool = False,  # one mean for all cells: for pairs that are parts of a larger map
    ):
        super().__init__(spec)
        self.obs_std, self.level = obs_std, level
        white = torch.zeros(spec.channels, *torus(spec.grid), dtype=torch.float64)
        white[:, 0, 0] = 1.0  # before fitting: unit variance, no correlation, no persistence
        self.register_buffer("mean", torch.zeros(spec.channels, *spec.grid.shape, dtype=torch.float64))
        self.register_buffer("kernel", white)
        self.register_buffer("cross", torch.zeros_like(white)[:, None])
        self.register_buffer("leads", torch.ones(1, dtype=torch.float64))
        self.register_load_state_dict_pre_hook(adopt_shapes)

    def fit(self, batches: Iterable[Pair]) -> None:
        pair = collect(batches)
        fitted = [self._fit_channel(pair, c) for c in range(self.spec.channels)]
        device = self.mean.device
        self.mean = torch.stack([mean for mean, _ in fitted]).to(device)
        self.kernel = torch.stack([covariance.kernel for _, covariance in fitted]).to(device)
        self.cross = torch.stack([covariance.cross for _, covariance in fitted]).to(device)
        self.leads = fitted[0][1].leads.to(device)

    def _fit_channel(self, pair: Pair, c: int) -> tuple[Tensor, TorusCovariance]:  # (H, W) mean
        """A mean by row, column or cell stays only if it also makes held-out readings likelier: where sensors
        move, a cell's own mean may tell when it was visited rather than what it is like."""
        x, m = pair.source.values[:, c : c + 1], pair.source.mask[:, c : c + 1]
        y, n = pair.target.values[:, c : c + 1], pair.target.mask[:, c : c + 1]
        frames, seen = torch.cat([x, y], 1).flatten(0, 1), torch.cat([m, n], 1).flatten(0, 1)  # (2 N, H, W)
        constant = mean_field(frames, seen, [CONSTANT])
        shaped = constant if self.level else mean_field(frames, seen)
        trials = []
        for mean in (constant, shaped) if bool((shaped != constant).any()) else (constant,):
            level = mean.to(x.dtype)
            centred = Pair(Source.of(x - level, m, pair.source.lead), Target.of(y - level, n))
            guess, score = refine(moments(centred, self.spec.grid, self.obs_std**2), centred, self.obs_std**2, 2)
            trials.append((score, mean, guess, centred))
        _, mean, guess, centred = max(trials, key=lambda trial: trial[0])
        return mean, refine(guess, centred, self.obs_std**2)[0]

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        batch, channels, height, width = source.values.shape
        white = noise((channels, 3, *self.kernel.shape[1:]))  # (K, B, C, 3, Hp, Wp), see `draw`
        result = source.values.new_empty(members, batch, channels, height, width)
        for b in range(batch):
            for c in range(channels):
                result[:, b, c] = draw(self._query(source, b, c), white[:, b, c].double()).to(result.dtype)
        if self.obs_std == 0:
            known = source.mask & (source.lead == 0)[:, None, None, None]
            result = torch.where(known, source.values, result)  # removes the trace of the jitter
        return result

    def posterior(self, source: Source) -> tuple[Tensor, Tensor]:  # (B, C, H, W) mean, (B, C, H, W) std
        """The exact law of each cell, in closed form."""
        shape = source.values.shape
        laws = [law(self._query(source, b, c)) for b in range(shape[0]) for c in range(shape[1])]
        mean, std = (torch.stack(column).reshape(shape).to(source.values.dtype) for column in zip(*laws, strict=True))
        return mean, std

    def covariance(self, channel: int) -> TorusCovariance:
        return TorusCovariance(self.kernel[channel], self.cross[channel], self.leads)

    def _query(self, source: Source, b: int, c: int) -> Query:
        covariance = self.covariance(c)
        values, mask = source.values[b, c], source.mask[b, c]
        return make_query(covariance, self.mean[c], values, mask, float(source.lead[b]), self.obs_std**2)


@dataclass(frozen=True)
class Query:
    """One frame of n readings, and what all its members share."""

    mean: Tensor  # (H, W)
    kernel: Tensor  # (Hp, Wp), C
    cross: Tensor  # (Hp, Wp), X at the lead
    site: Tensor  # (n,) flat cell of each reading
    anomaly: Tensor  # (n,) y - m
    given: Given  # the readings
    error: float  # variance of the errors of reading


def make_query(
    covariance: TorusCovariance,
    mean: Tensor,  # (H, W)
    values: Tensor,  # (H, W)
    mask: Tensor,  # (H, W) bool
    lead: float,
    error: float = 0.0,
) -> Query:
    site, kernel = mask.flatten().nonzero()[:, 0], covariance.kernel
    among = between(unrolled(kernel, mask.shape), site, site)
    given = Given.of(among, error + JITTER * kernel[0, 0])
    return Query(mean, kernel, covariance.at(lead), site, values[mask].double() - mean[mask], given, error)


def draw(
    query: Query,
    white: Tensor,  # (K, 3, Hp, Wp) standard normal: target, what the source adds, errors of reading
) -> Tensor:  # (K, H, W)
    """Members by Matheron's rule."""
    torus_shape, (height, width) = query.kernel.shape, query.mean.shape
    spectrum = torch.fft.rfft2(query.kernel).real.clamp(min=0)
    cross = torch.fft.rfft2(query.cross)
    gamma = cross / spectrum.clamp(min=1e-300)
    gamma = gamma / gamma.abs().clamp(min=1)
    first, second = torch.fft.rfft2(white[:, :2]).unbind(1)
    target = spectrum.sqrt() * first
    origin = gamma.conj() * target + (spectrum * (1 - gamma.abs() ** 2).clamp(min=0)).sqrt() * second
    row, column = query.site // width, query.site % width
    prior = torch.fft.irfft2(origin, s=torus_shape)[:, row, column]  # (K, n), u_s at the sensors
    gap = query.anomaly - prior - query.error**0.5 * white[:, 2, row, column]
    alpha = torch.zeros_like(white[:, 0])
    alpha[:, row, column] = query.given.solve(gap.T).T
    field = torch.fft.irfft2(target + cross * torch.fft.rfft2(alpha), s=torus_shape)
    return query.mean + field[:, :height, :width]


def law(query: Query) -> tuple[Tensor, Tensor]:  # (H, W) mean, (H, W) std
    """The posterior of each cell in closed form."""
    cells = torch.arange(query.mean.numel(), device=query.mean.device)
    across = between(unrolled(query.cross, query.mean.shape), query.site, cells)  # (n, H W)
    anomaly, variance = query.given.law(across, query.anomaly, query.kernel[0, 0])
    return query.mean + anomaly.view_as(query.mean), variance.clamp(min=0).sqrt().view_as(query.mean)
