"""Where members come from: white noise that belongs to a member, not to the order in which members are drawn.

Member k of query b draws from the stream of the key (seed, b, k). However an ensemble is cut into chunks to fit in
memory, each member meets the same noise. A sampler asks for noise by calling its source with the shape of one state;
correlated noise is just another callable.

From step to step of a rollout noise may last: w_h = memory w_{h-1} + sqrt(1 - memory^2) e_h, as white as e_h at every
step. What a model could not know at one step it mostly cannot know at the next, either, and errs in the same direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .keys import torch_generator

# noise(shape of one state) -> (K, B, *shape)
Noise = Callable[[Sequence[int]], Tensor]


class MemberNoise:
    """Independent standard normal noise with one stream per (query, member)."""

    def __init__(
        self,
        seed: int,
        queries: Sequence[int],  # B identities, for instance positions in a store
        members: Sequence[int],  # K identities, 0 .. K-1 of the whole ensemble
        device: torch.device | str = "cpu",
    ):
        self.size = (len(members), len(queries))
        self.device = device
        self.streams = [torch_generator(seed, "member", b, k) for k in members for b in queries]

    def __call__(self, shape: Sequence[int]) -> Tensor:  # (K, B, *shape)
        draws = [torch.randn(tuple(shape), generator=stream) for stream in self.streams]
        return torch.stack(draws).reshape(*self.size, *shape).to(self.device)


class LastingNoise:
    """Noise for the steps of a rollout. The n-th draw of a step follows the n-th of the step before."""

    def __init__(self, noise: Noise, memory: float):
        self.noise, self.memory = noise, memory
        self.last: list[Tensor] = []  # by draw: (K, B, *shape)

    def step(self) -> Noise:
        """The noise of the next step."""
        before, self.last = self.last, []

        def lasting(shape: Sequence[int]) -> Tensor:  # (K, B, *shape)
            draw, position = self.noise(shape), len(self.last)
            if self.memory > 0 and before:
                draw = self.memory * before[position] + math.sqrt(1 - self.memory**2) * draw
            self.last.append(draw)
            return draw

        return lasting


def one_query_per_member(noise: Noise) -> Noise:
    """The same noise where each member has become a query of its own: (1, K * B, *shape)."""
    return lambda shape: noise(shape).flatten(0, 1)[None]
