"""Scores of predicted maps against what was held out: observed targets, and the truth where it is simulated.

The truth store is opened here and nowhere after `observe`. Rivals are fitted to the same training examples, draw as
many members for the same scenes, and are scored by the same functions; who wins is for the table to say. Error bars
resample days of a record or trajectories of a simulation (`groups_of`). `report/` judges a run where there are readings
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr

from ..clock import from_seconds, local
from ..errors import SolidError
from ..forecast import Fitted, Spec
from ..keys import evenly
from ..models import build
from ..pairs.holdout import FIRST_DAY
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..prediction.ensemble import draw
from ..prediction.maps import ahead
from ..scores.nested import regions, score
from ..theory.distance import distances_to_sensor
from ..worlds import Truth

RIVALS = ("kriging", "persistence", "climatology")
FIT_EXAMPLES = 2000  # a rival is fitted to at most so many training examples; more do not change its covariance
FIT_BATCH = 250


def evaluate(
    maps: xr.Dataset,
    store: PairStore,
    truth: Truth | None = None,
    rivals: Sequence[str] = RIVALS,
    lead: int = 0,  # position along lead_time
) -> dict[str, Any]:
    """Score the maps and their rivals at one lead; plain JSON, one entry per model, the maps' own first."""
    if "example" not in maps.coords:
        raise SolidError("these maps were not predicted from a pair store, so there is nothing to score them with")
    missing = [name for name in store.variables if name not in maps]
    if missing:
        raise SolidError(f"the maps hold no members of '{missing[0]}'; predict with members to score them")
    indices = maps["example"].values
    ensemble = np.stack([maps[name].values[:, :, lead] for name in store.variables], axis=2)  # (K, N, C, H, W)
    judge = Judge(store, indices, truth, lead)
    scores = {maps.attrs["model_label"]: judge.score(ensemble)}
    if lead == 0:
        members, seed = ensemble.shape[0], int(maps.attrs["seed"])
        scores |= {
            rival: judge.score(rival_ensemble(rival, store, judge.scaling, indices, members, seed)) for rival in rivals
        }
    return {
        "what": judge.what,
        "scenes": len(indices),
        "lead_time": ahead(maps, lead),
        "data_fingerprint": store.fingerprint,
        "models": scores,
    }


class Judge:
    """The held-out values of some examples, and the regions to score on."""

    def __init__(self, store: PairStore, indices: np.ndarray, truth: Truth | None, lead: int = 0):
        pair = store.batch(indices)
        self.store, self.given = store, pair.source.mask.numpy()
        self.distance = distances_to_sensor(self.given, periodic=store.grid.periodic)[:, None]  # in cells
        if truth is None:
            if lead > 0:
                raise SolidError("beyond the first lead only simulated truth can be scored; give --truth")
            self.values, self.where = (
                pair.target.values.numpy(),
                regions(self.given, pair.target.mask.numpy()),
            )
            self.what = "observed targets"
        else:
            if truth.grid != store.grid:
                raise SolidError(f"the truth is on a {truth.grid.shape} grid, the pairs on {store.grid.shape}")
            self.values = _truth_at(truth, store, indices, lead)
            self.where = regions(self.given, pair.target.mask.numpy(), dense=np.ones_like(self.given))
            self.what = "the whole grid"
        self.groups = groups_of(store, indices)
        self.scaling = Scaling.fit(store, store.split("train"))

    def score(self, ensemble: np.ndarray) -> dict[str, Any]:  # (K, N, C, H, W)
        return score(
            ensemble,
            self.values,
            self.where,
            self.scaling.physical_std,
            self.store.variables,
            self.distance,
            periodic=self.store.grid.periodic,
            groups=self.groups,
        )


def local_times(store: PairStore, indices: np.ndarray) -> pd.DatetimeIndex | None:  # (N,)
    """When the targets were read by the clock of the place; None where times are a simulation's own."""
    if store.epoch is None:
        return None
    holdout = store.attributes["scenario"].get("holdout", {})
    name = holdout.get("timezone") or (store.recipe or {}).get("timezone") or "UTC"
    return local(from_seconds(store.columns["time_target"][indices]), name)


def groups_of(store: PairStore, indices: np.ndarray) -> np.ndarray:  # (N,) labels
    """Scenes that depend on each other share a label: those of one day of the record, of one trajectory."""
    times = local_times(store, indices)
    if times is None:
        return store.columns["trajectory"][indices]
    hours = store.attributes["scenario"].get("holdout", {}).get("hours", 24.0)
    return np.floor((times - FIRST_DAY) / pd.Timedelta(hours=hours)).to_numpy().astype(np.int64)


def rival_ensemble(
    name: str, store: PairStore, scaling: Scaling, indices: np.ndarray, members: int, seed: int
) -> np.ndarray:  # (K, N, C, H, W)
    """Fit a closed-form rival to training examples and draw the same scenes."""
    rival = fit_rival(name, store, scaling)
    with torch.no_grad():
        summary = draw(
            rival,
            scaling,
            store.batch(indices).source,
            members if rival.stochastic else 1,
            seed=seed,
            queries=[int(i) for i in indices],
        )
    assert summary.members is not None
    return summary.members[:, :, 0]


def fit_rival(name: str, store: PairStore, scaling: Scaling) -> Fitted:
    """A closed-form model, fitted to the training split alone."""
    rival = build(name, Spec(store.grid, len(store.variables)))
    if not isinstance(rival, Fitted):
        raise SolidError(f"'{name}' has to be trained; only closed-form models can be rivals here, such as {RIVALS}")
    train = store.split("train")
    chosen = evenly(train, FIT_EXAMPLES)
    rival.fit(
        scaling.standardise(store.batch(chosen[start : start + FIT_BATCH]))
        for start in range(0, len(chosen), FIT_BATCH)
    )
    return rival


def _truth_at(truth: Truth, store: PairStore, indices: np.ndarray, lead: int) -> np.ndarray:  # (N, C, H, W)
    trajectories = store.columns["trajectory"][indices]
    frames = store.columns["frame_target"][indices] + 2 * lead  # pairs step over every second frame
    if frames.max() >= truth.frames:
        raise SolidError(f"lead {lead + 1} of these scenes is beyond the truth's {truth.frames} frames; fewer steps")
    needed, rows = np.unique(trajectories, return_inverse=True)
    fields = truth.read([int(n) for n in needed])  # (n, F, C, H, W)
    return fields[rows, frames]
