"""The family of point forecasts: one field per query, fitted by the squared error at observed targets.

    L = mean over examples of  sum_p M_o(p) (u_hat(p) - u(p))^2 / |M_o|_1

A model of the family says how a source becomes a field (`forecast`) and nothing else. Models that answer at
points are asked, in training, for the cells of M_o alone; models that answer on a grid ignore the question.
An ensemble is the same forecast repeated, so its CRPS is the mean absolute error.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..errors import SolidError
from ..fields import Pair, Source
from ..forecast import Forecaster, Spec
from ..nn.coords import unit_coordinates
from ..nn.tokens import Tokens, tokens_at
from ..noise import Noise
from ..theory.objective import masked_mean
from .queries import earlier_channels, earlier_width


class Regression(Forecaster):
    """A deterministic forecaster trained by masked mean squared error."""

    family = "deterministic"
    stochastic = False
    mask_channel: bool

    def __init__(self, spec: Spec, mask_channel: bool):
        super().__init__(spec)
        self.mask_channel = mask_channel

    @abstractmethod
    def forecast(
        self,
        source: Source,
        cells: Tensor | None = None,  # (B, H, W) bool, where the forecast is needed; None: everywhere
        generator: torch.Generator | None = None,  # given in training, to models that draw something there
    ) -> Tensor:  # (B, C, H, W), right on `cells`, anything finite elsewhere
        """The field at the target time."""

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        source, target = pair.source, pair.target
        u_hat = self.forecast(source, target.mask.any(1), generator)
        error = (u_hat - target.values).square()
        return masked_mean(error, target.mask, source.mask)

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        return self.forecast(source)[None].expand(members, -1, -1, -1, -1)


class PointRegression(Regression):
    """One whose network reads sensors as tokens and is asked cell by cell.

    A token is a sensor, so its mask is told by its being there; only of several variables it says which were measured.
    """

    coordinates: Tensor  # (H, W, 2)

    def __init__(self, spec: Spec, mask_channel: bool):
        super().__init__(spec, mask_channel)
        self.flags = mask_channel and spec.channels > 1
        self.token_width = input_width(spec, self.flags)
        self.register_buffer("coordinates", unit_coordinates(spec.grid), persistent=False)

    def tokens(self, source: Source, cells: Tensor | None) -> tuple[Tokens, Tokens]:
        """The sensors with what they tell, and the cells asked for (None: all) with what is known there."""
        asked = torch.ones_like(source.mask[:, 0]) if cells is None else cells  # (B, H, W)
        sensors = tokens_at(input_channels(source, self.spec, self.flags), source.mask.any(1), self.coordinates)
        return sensors, tokens_at(known_channels(source, self.spec), asked, self.coordinates)


def known_channels(source: Source, spec: Spec) -> Tensor:  # (B, E, H, W), E may be 0
    """What is known at every cell, checked against what the model was built for."""
    found = 0 if source.covariates is None else source.covariates.shape[1]
    if found != spec.covariates:
        raise SolidError(
            f"the query has {found} covariates, the model was built for {spec.covariates}; give the same ones"
        )
    return source.values[:, :0] if source.covariates is None else source.covariates


def input_channels(source: Source, spec: Spec, mask_channel: bool) -> Tensor:  # (B, input_width, H, W)
    """What a cell tells the network: readings, which of them are real (if asked), the window, what is known anyway."""
    mask = [source.mask.to(source.values.dtype)] if mask_channel else []
    return torch.cat([source.values, *mask, earlier_channels(source, spec), known_channels(source, spec)], dim=1)


def input_width(spec: Spec, mask_channel: bool) -> int:
    return spec.channels * (2 if mask_channel else 1) + earlier_width(spec) + spec.covariates
