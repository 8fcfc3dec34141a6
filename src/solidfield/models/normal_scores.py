"""Readings as normal scores of their cell's own law (`theory/marginals.py`), for whole fields at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..fields import Pair, Source, Target, restrict
from ..forecast import Spec
from ..theory.marginals import SCORES, STEP, Marginals, unchanged
from .classical import adopt_shapes


class NormalScores(nn.Module):
    """Values to scores and back, cell by cell; before it is given laws, nothing changes."""

    location: Tensor  # (C, H, W), or none at all
    scale: Tensor  # (C, H, W)
    quantiles: Tensor  # (C, H, W, J)

    def __init__(self, spec: Spec):
        super().__init__()
        self.spec = spec
        for name, shape in (("location", ()), ("scale", ()), ("quantiles", (len(SCORES),))):
            self.register_buffer(name, torch.zeros(0, *spec.grid.shape, *shape))
        self.register_load_state_dict_pre_hook(_adopt)

    @property
    def used(self) -> bool:
        return len(self.location) > 0

    def take(self, laws: Sequence[Marginals | None]) -> None:  # (C,) None: a variable that stays as it is
        """Use these laws."""
        given = [each or unchanged(self.spec.grid.cells) for each in laws] if any(laws) else []
        for name in ("location", "scale", "quantiles"):
            empty = getattr(self, name)[:0]
            tables = [torch.from_numpy(getattr(each, name)).to(empty).reshape(empty.shape[1:]) for each in given]
            setattr(self, name, torch.stack(tables) if tables else empty)

    def scores(self, values: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        if not self.used:
            return values
        shape = ((values - self.location) / self.scale).flatten(0, -4).movedim(0, -1).contiguous()  # (C, H, W, n)
        left = (torch.searchsorted(self.quantiles, shape, right=True) - 1).clamp(0, len(SCORES) - 2)
        low, high = self.quantiles.gather(-1, left), self.quantiles.gather(-1, left + 1)
        scores = SCORES[0] + STEP * (left + (shape - low) / (high - low))
        return scores.movedim(-1, 0).reshape(values.shape)

    def values(self, scores: Tensor, rows: slice | None = None) -> Tensor:  # (..., C, h, W) -> the same
        """Of these rows of the map, or of all."""
        if not self.used:
            return scores
        there = rows or slice(None)
        quantiles = self.quantiles[:, there]  # (C, h, W, J)
        place = ((scores.flatten(0, -4) - SCORES[0]) / STEP).movedim(0, -1)  # (C, h, W, n)
        left = place.floor().clamp(0, len(SCORES) - 2)
        low, high = quantiles.gather(-1, left.long()), quantiles.gather(-1, left.long() + 1)
        shape = torch.lerp(low, high, place - left).movedim(-1, 0).reshape(scores.shape)
        return self.location[:, there] + self.scale[:, there] * shape

    def of_source(self, source: Source) -> Source:
        if not self.used:
            return source
        return replace(source, values=restrict(self.scores(source.values), source.mask))

    def of_pair(self, pair: Pair) -> Pair:
        target = Target.of(self.scores(pair.target.values), pair.target.mask) if self.used else pair.target
        return Pair(self.of_source(pair.source), target)


def _adopt(module: nn.Module, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
    """Before loading: a run from before there were scores has none."""
    for name, buffer in module.named_buffers(recurse=False):
        state.setdefault(prefix + name, buffer[:0])
    adopt_shapes(module, state, prefix, *rest)
