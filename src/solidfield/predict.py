"""From a trained run to maps: queries in physical units in, an xarray.Dataset out, with its provenance.

`load(folder)` opens a run; its `reconstruct` and `forecast` take frames with NaN where nothing was read. The
command line predicts the examples of a pair store with `predict_examples`, which is the same thing with the store's
columns attached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from .ensemble import Summary, draw, summarise
from .errors import SolidError
from .fields import Source
from .maps import to_dataset
from .masks import distances_to_sensor
from .pairs import PairStore
from .recalibrate import Recalibration, fit_recalibration
from .run import LoadedRun, load_run

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
RECALIBRATION_EXAMPLES, RECALIBRATION_MEMBERS = 200, 100
Frames = xr.DataArray | np.ndarray


def predict(
    run: LoadedRun,
    source: Source,  # physical units
    init_time: np.ndarray,  # (N,)
    *,
    members: int = 100,
    steps: int = 1,
    seed: int = 0,
    queries: Sequence[int] | None = None,
    quantiles: Sequence[float] = QUANTILES,
    keep_members: bool = True,
    max_memory: float = 2.0,
    examples: Mapping[str, np.ndarray] | None = None,
    recalibration: Recalibration | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """Ensembles for these queries; all must ask for the same lead."""
    leads = torch.unique(source.lead)
    if len(leads) != 1:
        raise SolidError(f"queries ask for leads {leads.tolist()}; predict one lead at a time")
    _check_lead(run, float(leads[0]))
    summary: Summary = draw(
        run.model,
        run.scaling,
        source,
        members,
        steps=steps,
        seed=seed,
        queries=queries,
        quantiles=quantiles,
        keep_members=keep_members or recalibration is not None,
        max_memory=max_memory,
        progress=progress,
    )
    attributes = provenance(run, seed, members)
    if recalibration is not None and summary.members is not None:
        stretched = recalibration.apply(
            summary.members, distances_to_sensor(source.mask.numpy(), periodic=run.grid.periodic)
        )
        summary = summarise(stretched, quantiles, keep_members)
        attributes |= recalibration.attributes()
    lead_time = float(leads[0]) * run.info["data"]["step"] * np.arange(1, steps + 1)
    return to_dataset(
        summary,
        run.grid,
        run.variables,
        run.units,
        source.mask.numpy(),
        run.never_supervised.numpy(),
        init_time,
        lead_time,
        examples,
        attributes,
    )


def predict_examples(
    run: LoadedRun, store: PairStore, indices: np.ndarray, recalibrate: bool = False, **options: Any
) -> xr.Dataset:
    """Predict the sources of these examples of a store; on request, repair the spread on its validation targets."""
    if store.grid != run.grid:
        raise SolidError(
            f"{store.path} is on a {' x '.join(map(str, store.grid.shape))} grid, the run {run.path} was trained on "
            f"{' x '.join(map(str, run.grid.shape))}; observe on the run's grid"
        )
    if recalibrate:
        options["recalibration"] = validation_recalibration(run, store, int(store.columns["lead"][indices[0]]))
    columns = {name: values[indices] for name, values in store.columns.items() if name != "split"}
    return predict(
        run,
        store.batch(indices).source,
        columns.pop("time_source"),
        queries=[int(i) for i in indices],
        examples={"example": indices, **columns},
        **options,
    )


def validation_recalibration(run: LoadedRun, store: PairStore, lead: int) -> Recalibration:
    """Stretches of spread from the observed targets of held-out validation examples of this lead."""
    held_out = store.split("validation")
    held_out = held_out[store.columns["lead"][held_out] == lead][:RECALIBRATION_EXAMPLES]
    if len(held_out) == 0:
        raise SolidError(f"{store.path} has no validation example of lead {lead} to recalibrate with")
    pair = store.batch(held_out)
    drawn = draw(run.model, run.scaling, pair.source, RECALIBRATION_MEMBERS, queries=[int(i) for i in held_out])
    assert drawn.members is not None
    free = pair.target.mask & ~pair.source.mask  # pinned cells have no spread to repair
    distance = distances_to_sensor(pair.source.mask.numpy(), periodic=run.grid.periodic)
    return fit_recalibration(drawn.members[:, :, 0], pair.target.values.numpy(), free.numpy(), distance)


def provenance(run: LoadedRun, seed: int, members: int) -> dict[str, Any]:
    """Global attributes: enough to make the same file again. A leaking model says so here and in every table."""
    info = run.info
    return {
        "title": f"{', '.join(run.variables)} predicted by {info['model']['name']}",
        "model": info["model"]["name"],
        "leaks_dense_truth": int(run.leaks),
        "solidfield_version": info["versions"]["solidfield"],
        "config_hash": info["config_hash"],
        "data_fingerprint": info["data"]["fingerprint"],
        "seed": seed,
        "members": members,
    }


@dataclass(frozen=True)
class Run:
    """A trained run, ready to use.

    >>> maps = load("demo/run").forecast(frames, members=100, steps=6)       # doctest: +SKIP
    """

    loaded: LoadedRun

    def reconstruct(self, frames: Frames, members: int = 100, seed: int = 0, **options: Any) -> xr.Dataset:
        """Maps at the time of the frames; NaN in a frame means not observed."""
        return self._predict(frames, 0.0, members=members, seed=seed, **options)

    def forecast(self, frames: Frames, members: int = 100, steps: int = 1, seed: int = 0, **options: Any) -> xr.Dataset:
        """Maps 1 .. steps leads after each frame, every member rolled forward on its own."""
        return self._predict(frames, 1.0, members=members, steps=steps, seed=seed, **options)

    def _predict(self, frames: Frames, lead: float, **options: Any) -> xr.Dataset:
        values, times = _as_frames(frames, self.loaded)
        mask = ~np.isnan(values)
        empty = np.flatnonzero(~mask.reshape(len(mask), -1).any(1))
        if len(empty):
            raise SolidError(f"frame {empty[0]} holds no reading at all; leave out frames without readings")
        source = Source.of(torch.from_numpy(values), torch.from_numpy(mask), torch.full((len(values),), lead))
        return predict(self.loaded, source, times, **options)


def load(folder: str | Path) -> Run:
    """Open a finished run folder."""
    return Run(load_run(folder))


def _as_frames(frames: Frames, run: LoadedRun) -> tuple[np.ndarray, np.ndarray]:
    """(N, C, H, W) float32 and the N times of what the user gave: (H, W), (time, H, W) or (time, C, H, W)."""
    values = np.asarray(frames, dtype=np.float32)
    channels, shape = len(run.variables), run.grid.shape
    if values.ndim == 2:
        values = values[None]
    if values.ndim == 3 and channels == 1:
        values = values[:, None]
    if values.ndim != 4 or values.shape[1:] != (channels, *shape):
        raise SolidError(
            f"frames have shape {values.shape}; the run expects (time, {channels}, {shape[0]}, {shape[1]}), "
            f"the axis of {channels} variable(s) may be left out when it is one"
        )
    times = np.arange(len(values), dtype=float)
    if isinstance(frames, xr.DataArray) and "time" in frames.coords:
        times = np.atleast_1d(frames["time"].values)
    return values, times


def _check_lead(run: LoadedRun, lead: float) -> None:
    known = run.info["data"]["leads"]
    if lead not in known:
        what = "reconstruct (lead 0)" if lead == 0 else f"forecast (lead {lead:g})"
        raise SolidError(
            f"the run {run.path} was trained for leads {known} and cannot {what}; observe with "
            f"`--lead {lead:g}` and train again"
        )
