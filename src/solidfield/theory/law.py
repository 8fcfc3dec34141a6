"""What a law of a cell can do (`laws.py` says what it is), and what it needs to know of the targets it learns from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

NODES = torch.linspace(-4.5, 4.5, 91)  # latents at which a law is tabulated: 0.1 apart, tails beyond by extrapolation
TABLES = 2**13  # cells whose tables are in memory together, some MB
Maybe = Tensor | None


@dataclass(frozen=True)
class Observed:
    """Targets that were read, P of them anywhere, and what their laws are made of."""

    features: Tensor  # (P, F) what the encoder says of each target's cell
    values: Tensor  # (P,)
    channel: Tensor  # (P,) which variable
    error: Maybe = None  # (P,) standard deviations: values are read with it, the law is of what is read
    shares: Maybe = None  # (P, M) of the networks: in the pool, or what each learns from a value; None: alike
    departure: Maybe = None  # (P,) from the standard normal law: 0 is that law; None: 1, all the way


class Law(nn.Module, ABC):
    """A distribution per cell and channel, behind a few verbs. P is a number of cells anywhere."""

    name: ClassVar[str]

    @abstractmethod
    def loss(self, observed: Observed, generator: torch.Generator) -> Tensor:  # (P,)
        """What training minimises at observed targets."""

    @abstractmethod
    def crps(self, observed: Observed) -> Tensor:  # (P,)
        """The CRPS of observed targets, in closed form and differentiable; of a diffusion law, that of its mixture."""

    @abstractmethod
    def latent(self, observed: Observed) -> Tensor:  # (P,)
        """z with Q(z) = value."""

    @abstractmethod
    def value(
        self, features: Tensor, latents: Tensor, departure: Maybe = None
    ) -> Tensor:  # (P, F), (K, P, C) -> (K, P, C)
        """Q(z) itself: for a few latents a cell cheaper than a table."""

    @abstractmethod
    def table(self, features: Tensor) -> Tensor:  # (P, C, nodes)
        """Q at NODES, increasing along the last axis: for many latents a cell, by `interpolate`."""

    @abstractmethod
    def begin_as_normal(self) -> None:
        """Start close to the standard normal law, whatever the features: in the units of a prior, as that prior."""

    def quantiles(
        self,
        features: Tensor,  # (B, F, H, W)
        latents: Tensor,  # (K, B, C, H, W)
        few: bool = False,  # members of a cell are so few that its table would not pay
    ) -> Tensor:  # (K, B, C, H, W)
        """Q of whole fields of latents."""
        return self.lookup(features, few)(latents)

    def lookup(self, features: Tensor, few: bool = False) -> Callable[[Tensor], Tensor]:
        """As `quantiles`, for latents that come part by part: the tables are made once."""
        parts = features.movedim(1, -1).flatten(0, 2).split(TABLES)  # (P, F) each
        tables = [] if few else [self.table(part) for part in parts]

        def values(latents: Tensor) -> Tensor:  # (K, B, C, H, W) -> (K, B, C, H, W)
            z = latents.movedim(2, -1)
            found = [
                self.value(parts[i], some) if few else interpolate(tables[i], some)
                for i, some in enumerate(z.flatten(1, 3).split(TABLES, 1))  # (K, P, C) each
            ]
            return torch.cat(found, 1).reshape(z.shape).movedim(-1, 2)

        return values


def interpolate(
    table: Tensor,  # (P, C, nodes)
    latents: Tensor,  # (K, P, C)
) -> Tensor:  # (K, P, C)
    """Q(z) between the nodes of a table, linearly; beyond the last node along the last segment."""
    step = (NODES[-1] - NODES[0]) / (len(NODES) - 1)
    position = (latents - NODES[0]) / step
    left = position.floor().clamp(0, len(NODES) - 2)
    index = left.long().permute(1, 2, 0)  # (P, C, K)
    low, high = table.gather(-1, index), table.gather(-1, index + 1)
    weight = (position - left).permute(1, 2, 0)
    return torch.lerp(low, high, weight).permute(2, 0, 1)


def pick(part: Tensor, channel: Tensor) -> Tensor:  # (P, C, ...), (P,) -> (P, ...)
    """Of each row the part of its own variable."""
    return part[torch.arange(len(channel), device=channel.device), channel]
