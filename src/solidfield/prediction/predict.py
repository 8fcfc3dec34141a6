"""From a trained run to maps: queries in physical units in, an xarray.Dataset out, with its provenance.

`load(folder)` opens a run; its `reconstruct`, `forecast` and `assimilate` take frames with NaN where nothing was read,
and make the covariates of the run's recipe for them. The examples of a pair store are predicted by
`predict_examples`, which is the same thing with the store's columns attached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from ..clock import from_seconds
from ..engine import Engine
from ..errors import SolidError
from ..fields import Source
from ..pairs.store import PairStore
from ..readings.intake import Readings
from ..run import LoadedRun, load_run
from ..theory.distance import distances_to_sensor
from .context import (
    FramesLike,
    Times,
    all_rows,
    check_frames,
    check_recipe,
    example_query,
    frames_for,
    query,
    read_new,
    rows_of,
)
from .ensemble import draw, summarise
from .maps import to_dataset
from .recalibrate import Recalibration, fit_recalibration
from .shares import draw_in_shares

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
RECALIBRATION_EXAMPLES, RECALIBRATION_MEMBERS = 200, 100


def predict(
    run: LoadedRun,
    source: Source,  # physical units
    init_time: np.ndarray,  # (N,)
    *,
    members: int = 100,
    steps: int = 1,
    later: Sequence[Source] = (),  # physical units: what is known and read on the way, see `ensemble.rollout`
    seed: int = 0,
    queries: Sequence[int] | None = None,
    quantiles: Sequence[float] = QUANTILES,
    keep_members: bool = True,
    max_memory: float = 2.0,
    examples: Mapping[str, np.ndarray] | None = None,
    recalibration: Recalibration | None = None,
    engine: Engine = Engine(),  # where members are drawn
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """Ensembles for these queries; all must ask for the same lead."""
    leads = torch.unique(source.lead)
    if len(leads) != 1:
        raise SolidError(f"queries ask for leads {leads.tolist()}; predict one lead at a time")
    _check_lead(run, float(leads[0]))
    _check_readings(run, (source, *later))
    options: dict[str, Any] = {
        "steps": steps,
        "later": later,
        "seed": seed,
        "queries": queries,
        "quantiles": quantiles,
        "keep_members": keep_members or recalibration is not None,
        "max_memory": max_memory,
        "progress": progress,
    }
    if engine.kind == "here":
        summary = draw(run.model, run.scaling, source, members, **options)
    else:
        summary = draw_in_shares(run, source, members, engine, **options)
    attributes = provenance(run, seed, members)
    if recalibration is not None and summary.members is not None:
        stretched = recalibration.apply(
            summary.members, distances_to_sensor(source.mask.numpy(), periodic=run.grid.periodic)
        )
        summary = summarise(stretched, quantiles, keep_members)
        attributes |= recalibration.attributes()
    lead_time = float(leads[0]) * run.step * np.arange(1, steps + 1)
    if np.issubdtype(np.asarray(init_time).dtype, np.datetime64):
        lead_time = (lead_time * 1e9).round().astype("timedelta64[ns]")
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
    check_recipe(run, store)
    source, later = example_query(run, store, indices, options.get("steps", 1))
    if recalibrate:
        options["recalibration"] = validation_recalibration(run, store, int(store.columns["lead"][indices[0]]))
    columns = {name: values[indices] for name, values in store.columns.items() if name != "split"}
    time = columns.pop("time_source")
    return predict(
        run,
        source,
        time if store.epoch is None else from_seconds(time),
        later=later,
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
        "model_label": run.model.label(),
        "model_options": json.dumps(info["model"]["options"]),
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

    def read(self, readings: Readings, **options: Any) -> xr.Dataset:
        """New readings in the cells and frames of this run; `options` as for `read_frames`: timezone, columns."""
        return read_new(self.loaded, readings, **options)

    def reconstruct(
        self,
        frames: FramesLike,
        members: int = 100,
        seed: int = 0,
        at: Times | None = None,  # which frames; None: all that hold readings. The others are looked back on
        dynamic: xr.Dataset | None = None,  # changing covariates, for a run that was trained with some
        **options: Any,
    ) -> xr.Dataset:
        """Maps at the time of the frames; NaN in a frame means not observed."""
        return self._predict(frames, 0, 1, at, dynamic, members=members, seed=seed, **options)

    def forecast(
        self,
        frames: FramesLike,
        members: int = 100,
        steps: int = 1,
        seed: int = 0,
        at: Times | None = None,
        dynamic: xr.Dataset | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """Maps 1 .. steps leads after each frame, every member rolled forward on its own."""
        return self._predict(frames, 1, steps, at, dynamic, members=members, seed=seed, **options)

    def assimilate(
        self,
        frames: FramesLike,
        members: int = 100,
        steps: int = 0,  # further leads beyond the last frame
        seed: int = 0,
        since: Times | None = None,  # None: the first frame
        until: Times | None = None,  # None: the last frame
        dynamic: xr.Dataset | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """One rollout through the frames: what is read replaces every member's value there, and conditions the next."""
        given, times = frames_for(self.loaded, frames)
        first = int(rows_of(given, since)[0]) if since is not None else 0
        last = int(rows_of(given, until)[0]) if until is not None else len(times) - 1
        walk = round((given.seconds[last] - given.seconds[first]) / given.every) + steps
        if walk < 1:
            raise SolidError(
                "assimilation needs a frame after its first, or steps beyond it; give more frames or steps"
            )
        rows = np.array([first])
        check_frames(given, rows)
        given = replace(given, values=given.values[: last + 1], times=given.times[: last + 1])
        source, later = query(self.loaded, given, rows, 1, walk, dynamic, assimilate=True)
        maps = predict(self.loaded, source, times[rows], steps=walk, later=later, members=members, seed=seed, **options)
        read = np.stack([one.mask[0].any(0).numpy() for one in later]).astype(np.int8)  # (L, H, W)
        about = {"long_name": "a sensor was read here at this time, and every member holds its reading"}
        return maps.assign(read=(("init_time", "lead_time", *self.loaded.grid.axes), read[None], about))

    def _predict(
        self, frames: FramesLike, lead: int, steps: int, at: Times | None, dynamic: xr.Dataset | None, **options: Any
    ) -> xr.Dataset:
        given, times = frames_for(self.loaded, frames)
        rows = all_rows(given, times) if at is None else rows_of(given, at)
        check_frames(given, rows)
        source, later = query(self.loaded, given, rows, lead, steps, dynamic)
        return predict(self.loaded, source, times[rows], steps=steps, later=later, **options)


def load(folder: str | Path) -> Run:
    """Open a finished run folder."""
    return Run(load_run(folder))


def _check_readings(run: LoadedRun, sources: Sequence[Source]) -> None:
    for source in sources:
        if not torch.isfinite(run.scaling.standardise(source).values).all():
            raise SolidError(
                f"a reading has no logarithm, and {run.path} was trained on logarithms of {', '.join(run.variables)}; "
                "leave out readings that are not positive"
            )


def _check_lead(run: LoadedRun, lead: float) -> None:
    known = run.info["data"]["leads"]
    if lead not in known:
        what = "reconstruct (lead 0)" if lead == 0 else f"forecast (lead {lead:g})"
        raise SolidError(
            f"the run {run.path} was trained for leads {known} and cannot {what}; train again with `--lead {lead:g}`"
        )
