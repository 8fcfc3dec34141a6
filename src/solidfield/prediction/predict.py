"""From a trained run to maps: queries in physical units in, an xarray.Dataset out, with its provenance.

`predict` draws for queries that are made (`context.py`); the verbs of `Run` (`run.py`) make them of frames. The
examples of a pair store are predicted by `predict_examples`, which is the same with the store's columns attached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from ..clock import from_seconds
from ..engine import Engine, Progress
from ..errors import SolidError
from ..fields import Source
from ..keys import evenly
from ..pairs.store import PairStore
from ..theory.distance import distances_to_sensor
from ..training.record import RunRecord
from .ask import QUANTILES
from .context import check_recipe, example_query
from .ensemble import Summary, draw, draw_members, summarise
from .maps import for_file, open_maps, to_dataset
from .recalibrate import Recalibration, fit_recalibration
from .shares import draw_in_shares
from .stream import placeholder, stream

RECALIBRATION_EXAMPLES, RECALIBRATION_MEMBERS = 200, 100


def predict(
    run: RunRecord,
    source: Source,  # physical units
    init_time: np.ndarray,  # (N,)
    *,
    members: int = 100,
    steps: int = 1,
    rollout: bool = False,  # several steps by the paper's way, also where there are direct laws of them
    later: Sequence[Source] = (),  # physical units: what is known and read on the way, see `ensemble.rollout`
    seed: int = 0,
    queries: Sequence[int] | None = None,
    quantiles: Sequence[float] = QUANTILES,
    keep_members: bool = True,
    max_memory: float = 2.0,
    examples: Mapping[str, np.ndarray] | None = None,
    recalibration: Recalibration | None = None,
    notes: str = "",  # what was assumed and refused when the readings were read
    engine: Engine = Engine(),  # where members are drawn
    progress: Progress | None = None,
    out: Path | None = None,  # of a large map: a Zarr store to draw into, piece by piece
) -> xr.Dataset:
    """Ensembles for these queries; all must ask for the same lead."""
    leads = torch.unique(source.lead)
    if len(leads) != 1:
        raise SolidError(f"queries ask for leads {leads.tolist()}; predict one lead at a time")
    _check_lead(run, float(leads[0]))
    if not all(torch.isfinite(run.scaling.standardise(query).values).all() for query in (source, *later)):
        raise SolidError(
            f"a reading has no logarithm, and {run.path} was trained on logarithms of {', '.join(run.variables)}; "
            "leave out readings that are not positive"
        )
    attributes = provenance(run, seed, members) | ({"notes": notes} if notes else {})
    lead_time = float(leads[0]) * run.step * np.arange(1, steps + 1)
    if np.issubdtype(np.asarray(init_time).dtype, np.datetime64):
        lead_time = (lead_time * 1e9).round().astype("timedelta64[ns]")

    def maps_of(summary: Summary) -> xr.Dataset:
        observed, taught = source.mask.numpy(), run.never_supervised.numpy()
        place = (run.grid, run.variables, run.units, observed, taught, init_time, lead_time)
        return to_dataset(summary, *place, examples, attributes, source.values.numpy())

    if out is not None:
        if steps > 1 or later or recalibration is not None:
            raise SolidError(f"{out} is to be drawn in pieces, which is for one step without recalibration; ask for it")
        template = maps_of(placeholder((len(source), 1, *source.values.shape[1:]), members, quantiles))
        drawing: dict[str, Any] = {
            "seed": seed,
            "queries": queries,
            "max_memory": max_memory,
            "engine": engine,
            "progress": progress,
        }
        stream(run, source, for_file(template), out, members, keep_members=keep_members, **drawing)
        return open_maps(out)
    options: dict[str, Any] = {
        "steps": steps,
        "leads": direct_leads(run, steps) if run.model.direct and steps > 1 and not (rollout or later) else None,
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
    if recalibration is not None and summary.members is not None:
        stretched = recalibration.apply(
            summary.members, distances_to_sensor(source.mask.numpy(), periodic=run.grid.periodic)
        )
        summary = summarise(stretched, quantiles, keep_members)
        attributes |= recalibration.attributes()
    return maps_of(summary)


def predict_examples(
    run: RunRecord, store: PairStore, indices: np.ndarray, recalibrate: bool = False, **options: Any
) -> xr.Dataset:
    """Predict the sources of these examples of a pair store.

    Parameters
    ----------
    run : Run
        The run that predicts.
    store : PairStore
        On the run's grid, with the run's covariates.
    indices : array of int
        (N,) examples, all of one lead.
    recalibrate : bool
        Repair the spread on the store's validation targets; the maps say so. Default: False.
    **options
        members (100), steps (1), rollout (False), seed (0), quantiles, keep_members, max_memory (2 GiB), engine,
        progress.

    Returns
    -------
    Dataset
        Maps as of `Run.forecast`, with the store's columns (`example`, `frame_target` ...) along init_time.

    Raises
    ------
    SolidError
        If the store is on another grid, has other covariates, or leads that the run does not know.

    Examples
    --------
    >>> import numpy as np, tempfile, xarray as xr
    >>> from solidfield import fit, open_pairs
    >>> times = np.datetime64("2024-01-01", "ns") + np.arange(60) * np.timedelta64(3600, "s")
    >>> values = np.random.default_rng(0).normal(20, 3, (60, 3, 3))
    >>> frames = xr.DataArray(values, {"time": times, "lat": [0.0, 0.1, 0.2], "lon": [0.0, 0.1, 0.2]}, name="pm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = fit(frames, folder + "/run", model="climatology", preset="smoke")
    ...     store = open_pairs(folder + "/run/pairs.zarr")
    ...     maps = predict_examples(run, store, choose_scenes(store, lead=1, count=2), members=5)
    >>> maps["pm"].shape
    (5, 2, 1, 3, 3)
    """
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


def validation_recalibration(run: RunRecord, store: PairStore, lead: int) -> Recalibration:
    """Stretches of spread from the observed targets of held-out validation examples of this lead."""
    held_out = store.split("validation")
    held_out = held_out[store.columns["lead"][held_out] == lead][:RECALIBRATION_EXAMPLES]
    if len(held_out) == 0:
        raise SolidError(f"{store.path} has no validation example of lead {lead} to recalibrate with")
    pair = store.batch(held_out)
    queries = [int(i) for i in held_out]
    drawn = draw_members(run.model, run.scaling, pair.source, RECALIBRATION_MEMBERS, queries=queries)
    free = pair.target.mask & ~pair.source.mask  # pinned cells have no spread to repair
    distance = distances_to_sensor(pair.source.mask.numpy(), periodic=run.grid.periodic)
    return fit_recalibration(drawn[:, :, 0], pair.target.values.numpy(), free.numpy(), distance)


def direct_leads(run: RunRecord, steps: int) -> list[int]:
    """1 .. steps, where the run has a law of each."""
    known, asked = run.info["data"]["leads"], list(range(1, steps + 1))
    if missing := [lead for lead in asked if lead not in known]:
        raise SolidError(
            f"the run {run.path} has direct laws of leads {known}, none of {missing}; ask for fewer steps, or --rollout"
        )
    return asked


def provenance(run: RunRecord, seed: int, members: int) -> dict[str, Any]:
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


def choose_scenes(
    store: PairStore, split: str = "test", lead: int | None = None, count: int | None = None, steps: int = 1
) -> np.ndarray:  # (N,) examples
    """Examples spread evenly over the split, so that few scenes still come from many trajectories."""
    indices = store.split(split)
    leads = np.unique(store.columns["lead"][indices])
    if lead is None and steps > 1 and 1 in leads:
        lead = 1
    if lead is None and len(leads) > 1:
        raise SolidError(f"{store.path} has leads {leads.tolist()}; choose one with --lead")
    wanted = leads[0] if lead is None else lead
    indices = indices[store.columns["lead"][indices] == wanted]
    if len(indices) == 0:
        raise SolidError(f"{store.path} has no {split} example of lead {wanted}; it has leads {leads.tolist()}")
    last = _last_frame(store, steps)
    indices = indices[store.columns["frame_target"][indices] <= last]
    if len(indices) == 0:
        raise SolidError(f"no scene of {store.path} has {steps} leads of truth after it; ask for fewer steps")
    return evenly(indices, count or len(indices))


def _last_frame(store: PairStore, steps: int) -> int:
    """A rollout is scored where truth goes on, so its scenes begin early enough."""
    stride = 2 if store.epoch is None else 1  # simulated pairs step over every second frame
    return int(store.columns["frame_target"].max()) - stride * (steps - 1)


def _check_lead(run: RunRecord, lead: float) -> None:
    known = run.info["data"]["leads"]
    if lead not in known:
        what = "reconstruct (lead 0)" if lead == 0 else f"forecast (lead {lead:g})"
        raise SolidError(
            f"the run {run.path} was trained for leads {known} and cannot {what}; train again with `--lead {lead:g}`"
        )
