"""solid predict: ensembles of maps from a run and sparse sources: readings at a time, or examples of a pair store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from ..clock import instant
from ..config import PredictConfig, load_config
from ..disk import check_ending
from ..engine import Engine
from ..errors import SolidError
from ..keys import evenly
from ..pairs.store import PairStore, is_pairs, open_pairs
from ..prediction.ask import exceedance, variables_of
from ..prediction.context import read_new
from ..prediction.maps import save_maps
from ..prediction.predict import predict_examples
from ..run import load
from ..training.record import RunRecord
from . import show
from .answers import answers, parse_place, print_answers
from .reading import parse_columns
from .train import ColumnsOption, DatesOption, DropOption, DynamicOption, TimezoneOption, open_fields


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder (solid train).")],
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Tables or frames of readings; or a pair store and the maps to write."),
    ],
    out: Annotated[Path | None, typer.Option(help="Maps to write: .nc or .zarr.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Readings: start here, such as 2024-01-15T08:00; repeatable; the last time."),
    ] = None,
    assimilate: Annotated[
        bool, typer.Option("--assimilate", help="Go through the frames and read on the way.")
    ] = False,
    since: Annotated[str | None, typer.Option(help="Where assimilation starts; 24 steps back by default.")] = None,
    above: Annotated[list[float] | None, typer.Option(help="Chance of more than this; repeatable.")] = None,
    where: Annotated[list[str] | None, typer.Option(metavar="LAT,LON", help="Print the law here; repeatable.")] = None,
    area: Annotated[list[Path] | None, typer.Option(help="Print the law of this area's mean: GeoJSON.")] = None,
    columns: ColumnsOption = None,
    timezone: TimezoneOption = None,
    date_format: DatesOption = None,
    drop_above: DropOption = None,
    dynamic: DynamicOption = None,
    preset: show.PresetOption = "laptop",
    split: Annotated[str, typer.Option(help="Pairs: test, between (odd frames), validation or train.")] = "test",
    members: Annotated[int | None, typer.Option(help="Of the ensemble.")] = None,
    steps: Annotated[int | None, typer.Option(help="Leads of a rollout.")] = None,
    scenes: Annotated[int | None, typer.Option(help="Pairs: how many examples, spread over the split.")] = None,
    lead: Annotated[int | None, typer.Option(help="0 reconstructs, 1 forecasts.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same members.")] = None,
    max_memory: Annotated[float | None, typer.Option(help="GiB that drawing may take.")] = None,
    engine: show.EngineOption = "here",
    jobs: show.JobsOption = 1,
    scheduler: show.SchedulerOption = None,
    recalibrate: Annotated[
        bool, typer.Option(help="Pairs: repair the spread on validation targets (marginal, labelled in the maps).")
    ] = False,
    keep_members: Annotated[bool, typer.Option(help="Write every member, not only the summaries.")] = True,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Draw ensembles of full maps, with mean, spread and quantiles; answer for places, areas and thresholds."""
    named = show.override(
        {
            "predict.members": members,
            "predict.steps": steps,
            "predict.scenes": scenes,
            "predict.seed": seed,
            "predict.max_memory": max_memory,
        }
    )
    config = load_config(preset, (*settings, *named)).predict
    pairs = is_pairs(inputs[0])
    if out is None and pairs and len(inputs) == 2:
        out = inputs[1]
    if out is None and not (where or area):
        raise SolidError(
            f"where should the maps of {inputs[0]} go? name a file with --out, or ask with --where or --area"
        )
    if out is not None:
        check_ending(out)
    places = [parse_place(text) for text in where or ()]
    drawing: dict[str, Any] = {
        "members": config.members,
        "seed": config.seed,
        "quantiles": config.quantiles,
        "keep_members": keep_members or bool(above or where or area),  # every answer comes from members
        "max_memory": config.max_memory,
        "engine": Engine(engine, jobs, scheduler),
    }
    if pairs:
        store = open_pairs(inputs[0])
        scene_list = choose_scenes(store, split, config, lead)
        loaded = load(run)
        with show.progress("predicting", f"{len(scene_list)} scenes x {config.members} members", json) as update:
            maps = predict_examples(
                loaded, store, scene_list, recalibrate, steps=config.steps, progress=update, **drawing
            )
    else:
        loaded = load(run)
        reading = {"columns": parse_columns(columns), "timezone": timezone, "dates": date_format, "above": drop_above}
        frames = read_new(loaded, inputs, **reading)
        times = [instant(text, timezone or "UTC") for text in at or ()] or [_last(frames, loaded)]
        with show.progress("predicting", f"{len(times)} scenes x {config.members} members", json) as update:
            drawing |= {"progress": update, "dynamic": open_fields(dynamic)}
            if assimilate:
                start = instant(since, timezone or "UTC") if since else _earlier(frames, times[0], loaded)
                maps = loaded.assimilate(
                    frames, since=start, until=times[0], steps=config.steps if steps else 0, **drawing
                )
            elif lead == 0:
                maps = loaded.reconstruct(frames, at=times, **drawing)
            else:
                maps = loaded.forecast(frames, at=times, steps=config.steps, **drawing)
    levels = list(above or ())
    found = answers(maps, places, list(area or ()), levels)
    if levels:
        maps = maps.assign({f"{name}_exceedance": exceedance(maps, levels, name) for name in variables_of(maps)})
    if out is not None:
        save_maps(maps if keep_members else maps.drop_dims("member", errors="ignore"), out)
    if json:
        scenes_drawn = maps.sizes["init_time"]
        show.as_json(
            {"out": str(out) if out else None, "scenes": scenes_drawn, "members": config.members, "leaks": loaded.leaks}
            | ({"answers": [_plain(entry) for entry in found]} if found else {})
        )
        return
    print_answers(found, timezone)
    if out is not None:
        show.line("maps", f"{out}{'   (oracle: leaks dense truth)' if loaded.leaks else ''}")


def _last(frames: xr.Dataset, run: RunRecord) -> np.datetime64:
    """The last frame that holds a reading."""
    seen = np.logical_or.reduce([np.isfinite(frames[name].values).any((1, 2)) for name in run.variables])
    return frames["time"].values[np.flatnonzero(seen)[-1]]


def _earlier(frames: xr.Dataset, time: np.datetime64, run: RunRecord, steps: int = 24) -> np.datetime64:
    """The first frame with readings of the last steps before a time."""
    times = frames["time"].values
    seen = np.logical_or.reduce([np.isfinite(frames[name].values).any((1, 2)) for name in run.variables])
    recent = seen & (times <= time) & (times >= time - np.timedelta64(round(steps * run.step * 1e9), "ns"))
    if not recent.any():
        raise SolidError(f"no reading in the {steps} steps before {time}; give --since, or --at another time")
    return times[np.flatnonzero(recent)[0]]


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    rows = [row | {"valid_time": str(row["valid_time"])} for row in entry["rows"]]
    return entry | {"rows": rows}


def choose_scenes(store: PairStore, split: str, config: PredictConfig, lead: int | None = None) -> np.ndarray:
    """Examples spread evenly over the split, so that few scenes still come from many trajectories."""
    indices = store.split(split)
    leads = np.unique(store.columns["lead"][indices])
    if lead is None and len(leads) > 1:
        raise SolidError(f"{store.path} has leads {leads.tolist()}; choose one with --lead")
    wanted = leads[0] if lead is None else lead
    indices = indices[store.columns["lead"][indices] == wanted]
    if len(indices) == 0:
        raise SolidError(f"{store.path} has no {split} example of lead {wanted}; it has leads {leads.tolist()}")
    last = _last_frame(store, config.steps)
    indices = indices[store.columns["frame_target"][indices] <= last]
    if len(indices) == 0:
        raise SolidError(f"no scene of {store.path} has {config.steps} leads of truth after it; ask for fewer steps")
    return evenly(indices, config.scenes or len(indices))


def _last_frame(store: PairStore, steps: int) -> int:
    """A rollout is scored where truth goes on, so its scenes begin early enough."""
    stride = 2 if store.epoch is None else 1  # simulated pairs step over every second frame
    return int(store.columns["frame_target"].max()) - stride * (steps - 1)
