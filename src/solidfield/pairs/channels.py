"""What a query knows at every cell, kept compactly: arrays by frame, put together only for the examples of a batch.

An example with source frame s and target frame t has the channels

    [ static (S), series[t] (D) spread over the map, moving[s] (G) ]

`series` is of the target's time (the calendar), `moving` of the source's (dynamic fields and the history of
readings), so that nothing later than the source is seen but the clock. The recipe that made them is plain JSON
(`covariates.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zarr
from torch import Tensor

from .ragged import Growing, load

PREFIX = "covariate_"


@dataclass(frozen=True)
class Channels:
    recipe: dict[str, Any]
    static: np.ndarray  # (S, H, W) float32
    series: np.ndarray  # (T, D) float32
    moving: np.ndarray | Iterable[np.ndarray]  # (T, G, H, W) float32, or its frames one after another to be written
    counts: tuple[int, int, int]  # S, D, G

    @property
    def count(self) -> int:  # E
        return sum(self.counts)

    def write(self, group: zarr.Group) -> dict[str, str]:  # checksums
        """Frame by frame, so that a long history never stands in memory; a part without channels is left out."""
        shape = self.static.shape[1:]
        tails = {"static": shape, "series": (self.counts[1],), "moving": (self.counts[2], *shape)}
        checksums = {}
        for (name, tail), count in zip(tails.items(), self.counts, strict=True):
            if count == 0:
                continue
            array = Growing(group, PREFIX + name, "<f4", tail)
            for rows in getattr(self, name):
                array.add(rows[None])
            array.flush(everything=True)
            checksums[PREFIX + name] = array.checksum.hexdigest()
        return checksums

    @classmethod
    def read(
        cls, path: Path, recipe: dict[str, Any], checksums: dict[str, str], frames: int, shape: tuple[int, int]
    ) -> Channels:
        absent = {"static": (0, *shape), "series": (frames, 0), "moving": (frames, 0, *shape)}
        static, series, moving = (
            load(path, PREFIX + name, checksums[PREFIX + name])
            if PREFIX + name in checksums
            else np.zeros(empty, "<f4")
            for name, empty in absent.items()
        )
        return cls(recipe, static, series, moving, (static.shape[0], series.shape[1], moving.shape[1]))

    def at(
        self,
        source: np.ndarray,  # (B,) frames
        target: np.ndarray,  # (B,) frames
    ) -> Tensor:  # (B, E, H, W)
        assert isinstance(self.moving, np.ndarray)
        return assemble(self.static, self.series[target], self.moving[source])

    def crop(
        self,
        source: np.ndarray,  # (B,) frames
        target: np.ndarray,  # (B,) frames
        corner: np.ndarray,  # (B, 2)
        shape: tuple[int, int],
        periodic: tuple[bool, bool],
    ) -> Tensor:  # (B, E, h, w)
        """Parts of maps; beyond an edge that does not wrap, what is at the edge."""
        assert isinstance(self.moving, np.ndarray)
        parts = []
        for s, t, first in zip(source, target, corner, strict=True):
            cells = [start + np.arange(side) for start, side in zip(first, shape, strict=True)]
            lengths = self.static.shape[-2:]
            y, x = (
                at % n if wraps else at.clip(0, n - 1) for at, n, wraps in zip(cells, lengths, periodic, strict=True)
            )
            there = (slice(None), y[:, None], x)
            parts.append(assemble(self.static[there], self.series[t][None], self.moving[s][there][None]))
        return torch.cat(parts)


def assemble(
    static: np.ndarray,  # (S, H, W)
    series: np.ndarray,  # (B, D)
    moving: np.ndarray,  # (B, G, H, W)
) -> Tensor:  # (B, S + D + G, H, W)
    (rows, _, *shape) = moving.shape
    parts = [
        np.broadcast_to(static, (rows, *static.shape)),
        np.broadcast_to(series[:, :, None, None], (*series.shape, *shape)),
        moving,
    ]
    return torch.from_numpy(np.concatenate(parts, axis=1).astype(np.float32, copy=False))
