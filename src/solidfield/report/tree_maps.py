"""The quantile forest and gradient boosting as rivals of a run of pairs: fitted once, told what the run is told.

    told of a cell: its own reading if it has one, the four nearest sensors and how far they are, the mean of all
    readings, the place, how far ahead, and every channel that the run knows (hour, history, fields)

Members are drawn cell by cell, and a report asks for the cells that are judged alone, so the size of the map costs
nothing. Rolled forward, every member of every step would be another map to predict: trees are judged at the leads they
are fitted to, and not rolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..fields import Pair, Source
from ..forecast import Fitted, Spec
from ..grid import lengths
from ..keys import numpy_generator
from ..noise import Noise
from ..pairs.scaling import Scaling
from .targets import Targets
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
                        values, cells = pair.target.values[b, c].numpy()[mask], np.flatnonzero(mask)
                        example = np.full(len(values), number * 10**6 + b)
                        parts.append((self.told(pair.source, b, c, cells), values, example))
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
                told = self.told(source, b, c, np.arange(at.shape[1]))
                found[:, b, c] = self.trees[c].at(self.name, told, at).reshape(-1, *shape)
        read = source.read_then()
        return torch.where(read.mask, read.values, torch.from_numpy(found))

    def told(self, source: Source, b: int, c: int, cells: np.ndarray) -> np.ndarray:  # (n,) flat -> (n, F)
        """The features of some cells of a query."""
        n, width, size = len(cells), self.spec.grid.shape[1], np.array(lengths(self.spec.grid)[0])
        mask, values = source.mask[b, c].numpy().ravel(), source.values[b, c].numpy().ravel()
        sensors, at = (np.column_stack(np.divmod(places, width)) for places in (np.flatnonzero(mask), cells))
        near, count = np.full((n, 2 * NEAR), np.nan), min(NEAR, len(sensors))
        if count:
            far, which = cKDTree(sensors * size).query(at * size, k=count)
            near[:, :count] = values[mask][which.reshape(n, count)]
            near[:, NEAR : NEAR + count] = far.reshape(n, count)
        own, mean = np.where(mask, values, np.nan)[cells], values[mask].mean() if count else np.nan
        told = [own, near, at, np.full((n, 2), (mean, float(source.lead[b])))]
        if source.covariates is not None:
            told.append(source.covariates[b].numpy().reshape(-1, mask.size).T[cells])
        return np.column_stack(told).astype(np.float32)


def at_targets(
    model: TreeMaps,
    scaling: Scaling,
    source_of: Callable[[int], Source],  # of a scene, physical units
    targets: Targets,
    members: int,
    seed: int,
) -> np.ndarray:  # (K, P), physical units
    """Members of the cells that are judged."""
    draws = numpy_generator(seed, "trees", model.name)
    found = np.empty((members, len(targets.scene)), np.float32)
    for c, trees in enumerate(model.trees):
        rows = np.flatnonzero(targets.channel == c)
        if len(rows):
            order = rows[np.argsort(targets.scene[rows], kind="stable")]
            scenes, first = np.unique(targets.scene[order], return_index=True)
            parts = np.split(targets.cell[order], first[1:])
            known = (scaling.standardise(source_of(int(scene))) for scene in scenes)
            told = [model.told(source, 0, c, cells) for source, cells in zip(known, parts, strict=True)]
            levels = draws.random((members, len(order)))
            found[:, order] = trees.at(model.name, np.concatenate(told), levels)
    return scaling.physical_of(torch.from_numpy(found), torch.from_numpy(targets.channel)).numpy()
