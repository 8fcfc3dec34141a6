"""Trees as rivals: a quantile forest and gradient boosting of what is known around a question. Fitted once a report.

    features  the rules' answers (nearest, persistence, moved, neighbours, linear), the four nearest sensors and how far
              they are, when the place was last read, where it is, the hour of the day
    forest    100 trees; a member is a training value from the leaf of one of them: a draw of the quantile forest's law
              (Meinshausen 2006)
    boosting  its prediction and a draw of its errors on frames that it was not fitted to

Both learn from a bounded sample of training frames, asked in the way the report asks, and choose the size of a leaf on
frames kept aside for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .rules import Desk

NAMES = ("forest", "boosting")
RULES = ("nearest", "persistence", "moved", "neighbours", "linear")  # of `rules.py`, the first columns
TREES, TRIED = 100, 25  # of the forest, and of those that choose its leaves
LEAVES = (3, 10, 30)  # least examples in one, to choose from
NEAR = 4  # sensors
WIDTH = len(RULES) + 2 * NEAR + 5  # of the features
KEPT = 4  # one frame in so many chooses


def features(
    desk: Desk,
    cells: np.ndarray,  # (n,) flat in (H, W)
    shape: tuple[int, int],
    hour: float,
) -> np.ndarray:  # (n, F), NaN where not known
    """What the trees are told of each question."""
    rules = [getattr(desk, name)() for name in RULES]
    order = np.argsort(desk.away, axis=1, kind="stable")[:, :NEAR]  # (n, q)
    near = np.full((len(cells), 2 * NEAR), np.nan)
    near[:, : order.shape[1]] = desk.latest()[order]
    near[:, NEAR : NEAR + order.shape[1]] = np.take_along_axis(desk.away, order, 1)
    angle = 2 * np.pi * hour / 24
    told = [
        desk.own_age(),
        cells // shape[1],
        cells % shape[1],
        *(np.full(len(cells), f(angle)) for f in (np.sin, np.cos)),
    ]
    return np.column_stack([*rules, near, *told]).astype(np.float32)


def leaf_members(
    forest: Any,  # RandomForestRegressor
    leaves: np.ndarray,  # (n, trees) of the training values, `forest.apply`
    values: np.ndarray,  # (n,)
    told: np.ndarray,  # (m, F)
    at: np.ndarray,  # (K, m) in [0, 1): which tree, and with what is left, which of the values in its leaf
) -> np.ndarray:  # (K, m)
    """Training values that share the question's leaf in a tree: draws of the quantile forest's law."""
    asked = forest.apply(told)  # (m, trees)
    count = asked.shape[1]
    tree = np.minimum((at * count).astype(int), count - 1)
    found = np.empty(at.shape)
    for one in range(count):
        k, m = np.nonzero(tree == one)
        order = np.argsort(leaves[:, one], kind="stable")
        ranked = leaves[order, one]
        first, last = (np.searchsorted(ranked, asked[m, one], side) for side in ("left", "right"))
        within = np.clip(at[k, m] * count - one, 0, 1 - 1e-9)
        found[k, m] = values[order[first + (within * (last - first)).astype(int)]]
    return found


@dataclass(frozen=True)
class Trees:
    forest: Any  # RandomForestRegressor
    values: np.ndarray  # (n,) that the forest learned from
    leaves: np.ndarray  # (n, trees) leaf of each in each tree
    boosting: Any  # HistGradientBoostingRegressor
    errors: np.ndarray  # (m,) of boosting, ascending
    known: np.ndarray  # (F,) bool: features that were known at all; scikit-learn takes no others

    @classmethod
    def fit(cls, told: np.ndarray, values: np.ndarray, frame: np.ndarray, seed: int) -> Trees:  # (n, F), (n,), (n,)
        """Choose on every fourth frame, then learn from all."""
        from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

        aside = np.searchsorted(np.unique(frame), frame) % KEPT == 0
        if aside.all() or not aside.any():
            aside = np.arange(len(values)) % KEPT == 0
        known = np.isfinite(told[~aside]).any(0)
        told = told[:, known]

        def forest(leaf: int, trees: int = TRIED) -> Any:
            return RandomForestRegressor(trees, min_samples_leaf=leaf, max_features=0.5, random_state=seed)

        def boosting(leaf: int, trees: int = TREES) -> Any:
            return HistGradientBoostingRegressor(
                max_iter=trees, learning_rate=0.08, min_samples_leaf=leaf, random_state=seed, early_stopping=False
            )

        chosen, errors = [], np.zeros(1)
        for make in (forest, boosting):
            fitted = {leaf: make(leaf).fit(told[~aside], values[~aside]) for leaf in LEAVES}
            missed = {leaf: values[aside] - model.predict(told[aside]) for leaf, model in fitted.items()}
            best = min(LEAVES, key=lambda leaf: float(np.abs(missed[leaf]).mean()))
            chosen.append(make(best, TREES).fit(told, values))
            errors = np.sort(missed[best])
        return cls(chosen[0], values, chosen[0].apply(told), chosen[1], errors, known)

    def members(self, told: np.ndarray, count: int, draws: np.random.Generator) -> dict[str, np.ndarray]:  # (K, n) each
        levels = draws.random((count, len(told)))
        return {name: self.at(name, told, levels) for name in NAMES}

    def at(self, name: str, told: np.ndarray, levels: np.ndarray) -> np.ndarray:  # (n, F), (K, n) -> (K, n)
        """Draws of one of the two laws."""
        told = told[:, self.known]
        if name == "forest":
            return leaf_members(self.forest, self.leaves, self.values, told, levels)
        return self.boosting.predict(told) + np.quantile(self.errors, levels)
