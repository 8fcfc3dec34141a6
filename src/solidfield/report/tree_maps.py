"""The quantile forest and gradient boosting as rivals of a run of pairs: fitted once, told what the run is told.

    told of a cell: its own reading if it has one, the four nearest sensors and how far they are, the mean of all
    readings, the place, how far ahead, and every channel that the run knows (hour, history, fields)

Members of a map are drawn cell by cell. Rolled forward, every member of every step would be another map to predict:
trees are judged at the leads they are fitted to, and not rolled.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..fields import Pair, Source
from ..forecast import Fitted, Spec
from ..grid import lengths
from ..noise import Noise
from .trees import NEAR, Trees

EXAMPLES = 8000  # readings that trees are fitted to, at most


class TreeMaps(Fitted):
    reference = "Breiman 2001; Meinshausen 2006; Friedman 2001, as in scikit-learn"

    def __init__(self, spec: Spec, name: str, trees: list[Trees] | None = None):
        super().__init__(spec)
        self.name = name  # type: ignore[misc]
        self.trees = trees or []  # by variable

    def fit(self, batches: Iterable[Pair]) -> None:
        """From at most EXAMPLES targets of each variable, evenly among those there are."""
        told: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in range(self.spec.channels)]
        for number, pair in enumerate(batches):
            for c, parts in enumerate(told):
                for b in range(len(pair)):
                    mask = pair.target.mask[b, c].numpy()
                    if mask.any():
                        values = pair.target.values[b, c].numpy()[mask]
                        example = np.full(len(values), number * 10**6 + b)
                        parts.append((self._told(pair.source, b, c)[mask.ravel()], values, example))
        self.trees = []
        for parts in told:
            about, values, example = (np.concatenate(part) for part in zip(*parts, strict=True))
            some = np.linspace(0, len(values) - 1, min(EXAMPLES, len(values))).astype(int)
            self.trees.append(Trees.fit(about[some], values[some].astype(np.float64), example[some], seed=0))

    @torch.no_grad()
    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        C, shape = self.spec.channels, self.spec.grid.shape
        levels = torch.special.ndtr(noise((C, *shape)).double()).numpy()  # (K, B, C, H, W)
        found = np.empty(levels.shape, np.float32)
        for b in range(len(source)):
            for c in range(C):
                at = levels[:, b, c].reshape(len(levels), -1)
                found[:, b, c] = self.trees[c].at(self.name, self._told(source, b, c), at).reshape(-1, *shape)
        read = source.read_then()
        return torch.where(read.mask, read.values, torch.from_numpy(found))

    def _told(self, source: Source, b: int, c: int) -> np.ndarray:  # (H W, F)
        """The features of every cell of a query."""
        H, W = self.spec.grid.shape
        dy, dx = lengths(self.spec.grid)[0]
        y, x = (axis.ravel() for axis in np.meshgrid(np.arange(H), np.arange(W), indexing="ij"))
        places = np.column_stack([y * dy, x * dx])
        mask, values = source.mask[b, c].numpy().ravel(), source.values[b, c].numpy().ravel()
        near = np.full((H * W, 2 * NEAR), np.nan)
        count = min(NEAR, int(mask.sum()))
        if count:
            far, which = cKDTree(places[mask]).query(places, k=count)
            near[:, :count] = values[mask][which.reshape(H * W, count)]
            near[:, NEAR : NEAR + count] = far.reshape(H * W, count)
        own, mean = np.where(mask, values, np.nan), values[mask].mean() if count else np.nan
        lead = float(source.lead[b])
        known = [] if source.covariates is None else [source.covariates[b].numpy().reshape(-1, H * W).T]
        return np.column_stack([own, near, y, x, np.full((H * W, 2), (mean, lead)), *known]).astype(np.float32)
