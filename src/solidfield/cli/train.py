"""solid train: a model from sparse pairs, or straight from a table of readings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from ..config import Config, load_config
from ..errors import SolidError
from ..fit import build_for, choose_holdout, pair_frames, refuse_run, with_reading_error
from ..pairs.covariates import Covariates
from ..pairs.frames import as_frames
from ..pairs.store import PairStore, is_pairs, open_pairs
from ..readings.intake import read_frames
from ..training.loop import Progress, TrainResult
from ..training.loop import train as train_model
from ..training.record import PAIRS
from . import show
from .reading import parse_columns

MINUTES = 10.0  # the budget of a table of readings, unless another or a number of steps is given

VariableOption = Annotated[list[str] | None, typer.Option(help="Readings: which variables; repeatable.")]
ColumnsOption = Annotated[str | None, typer.Option(metavar="ROLE=NAME,...", help="Readings: columns by role.")]
TimezoneOption = Annotated[str | None, typer.Option(help="Of times without an offset: Asia/Kolkata or +05:30.")]
DatesOption = Annotated[str | None, typer.Option("--date-format", help="dayfirst, monthfirst or a pattern.")]
DropOption = Annotated[float | None, typer.Option(help="Drop readings above this; they are counted.")]
DynamicOption = Annotated[Path | None, typer.Option(help="NetCDF of fields that change (time, y, x): wind.")]


def train(
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Tables or frames of readings; or a pair store and the run folder."),
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder to write.")] = None,
    preset: show.PresetOption = "laptop",
    model: Annotated[str | None, typer.Option(help="See `solid models`.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    minutes: Annotated[float | None, typer.Option(help="A budget of wall time instead of steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same weights.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
    oracle: Annotated[bool, typer.Option(help="solid-paper only: noise the dense target. Leaks; labelled.")] = False,
    cell: Annotated[str | None, typer.Option(help="Readings: size of a cell, 1km or 0.01deg.")] = None,
    every: Annotated[str | None, typer.Option(help="Readings: time step, 1h or 30min.")] = None,
    variable: VariableOption = None,
    columns: ColumnsOption = None,
    timezone: TimezoneOption = None,
    date_format: DatesOption = None,
    units: Annotated[str | None, typer.Option(help="Of the values, where the file does not say.")] = None,
    drop_above: DropOption = None,
    transform: Annotated[str | None, typer.Option(help="log or none; by the readings' skewness if not given.")] = None,
    offset: Annotated[float | None, typer.Option(help="Of the logarithm: log(x + offset).")] = None,
    lead: Annotated[list[int] | None, typer.Option(help="0 reconstructs, 1 forecasts; repeatable; both.")] = None,
    hold_days: Annotated[int | None, typer.Option(help="Every so many days one tests; 0: none.")] = None,
    hold_sensors: Annotated[float | None, typer.Option(help="Share of the cells with readings held out.")] = None,
    hold_blocks: Annotated[float | None, typer.Option(help="Share of the map held out in blocks.")] = None,
    hold_calibration: Annotated[
        float | None,
        typer.Option("--hold-calibration", "--hold-strangers", help="Share kept back to calibrate unread cells."),
    ] = None,
    calendar: Annotated[str | None, typer.Option(help="hour,weekday,season; the first two by default.")] = None,
    no_calendar: Annotated[bool, typer.Option("--no-calendar", help="Do not tell the time.")] = False,
    history: Annotated[float | None, typer.Option(help="Hours to look back on each cell's last reading.")] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Do not look back.")] = False,
    no_coordinates: Annotated[bool, typer.Option("--no-coordinates", help="Do not tell the place.")] = False,
    static: Annotated[Path | None, typer.Option(help="NetCDF of fields that stay (y, x): elevation.")] = None,
    dynamic: DynamicOption = None,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Train a model; after a kill, --resume ends in the same weights. Also runs under torchrun."""
    pairs = is_pairs(inputs[0])
    if out is None and pairs and len(inputs) == 2:
        inputs, out = inputs[:1], inputs[1]
    if out is None:
        raise SolidError(f"where should the run of {inputs[0]} go? name its folder with --out")
    named = show.override(
        {
            "model.name": model,
            "model.options.oracle": oracle or None,
            "model.options.coordinates": False if no_coordinates else None,
            "train.steps": steps,
            "train.minutes": minutes if pairs or minutes or steps else MINUTES,
            "train.seed": seed,
        }
    )
    standing = () if pairs else ("train.thin=0.5",)
    config = load_config(preset, (*standing, *settings, *named))
    reading = {
        "cell": cell,
        "every": every,
        "variables": variable,
        "columns": parse_columns(columns),
        "timezone": timezone,
        "dates": date_format,
        "units": units,
        "above": drop_above,
    }
    pairing = {"transform": transform, "offset": offset, "leads": tuple(lead) if lead else None}
    holding = {"days": hold_days, "sensors": hold_sensors, "blocks": hold_blocks, "calibration": hold_calibration}
    telling = {
        "calendar": () if no_calendar else tuple(calendar.split(",")) if calendar else None,
        "history": 0.0 if no_history else history,
        "static": open_fields(static),
        "dynamic": open_fields(dynamic),
    }
    if pairs:
        given = [
            name for group in (reading, pairing, holding, telling) for name, value in group.items() if value is not None
        ]
        if given:
            raise SolidError(
                f"{inputs[0]} holds pairs that are made already; leave out the options of readings ({given[0]})"
            )
        store = open_pairs(inputs[0])
    elif resume:
        store = open_pairs(out / PAIRS)
    else:
        store = make_pairs(inputs, out, _given(reading), _given(pairing), _given(holding), _given(telling), json)
    result = run_training(store, out, config, resume, quiet=json)
    if json:
        show.as_json({"out": str(out), "steps": result.steps, "crps": result.crps, "stopped": result.stopped})
    else:
        crps = "" if result.crps is None else f", validation CRPS {result.crps:.3f} standard deviations"
        show.line("trained", f"{result.steps:,} steps ({result.stopped}){crps}; run folder {out}")


def make_pairs(
    inputs: list[Path],
    out: Path,
    reading: dict[str, Any],
    pairing: dict[str, Any],
    holding: dict[str, Any],
    telling: dict[str, Any],
    quiet: bool,
) -> PairStore:
    """Grid the readings and write the pairs of the run into its folder, in words.

    What is held out does not depend on the seed of training, so that runs of several seeds are judged alike.
    """

    def say(words: str) -> None:
        show.line("", words, quiet)

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SolidError(f"several processes train on pairs that exist; write those of {inputs[0]} with `frame_pairs`")
    refuse_run(out)
    covariates = Covariates(**telling)
    show.line("reading", ", ".join(path.name for path in inputs), quiet)
    variables = reading.get("variables")
    frames = as_frames(read_frames(inputs, say=say, **reading), variables)
    frames = replace(frames, timezone=reading.get("timezone") or frames.timezone)
    holdout, reasons = choose_holdout(frames)
    for why in reasons:
        say(why)
    store = pair_frames(
        frames,
        out / PAIRS,
        holdout=replace(holdout, **holding),
        covariates=covariates,
        say=say,
        **pairing,
    )
    splits = ", ".join(f"{count:,} {name}" for name, count in store.attributes["splits"].items() if count)
    show.line(
        "pairs", f"{splits}; {store.readings():,} readings on {' x '.join(map(str, store.grid.shape))} cells", quiet
    )
    return store


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def open_fields(path: Path | None) -> xr.Dataset | None:
    if path is None:
        return None
    try:
        return xr.load_dataset(path)
    except (OSError, ValueError):
        raise SolidError(f"{path} is not a readable NetCDF file of fields; check the path") from None


def run_training(store: PairStore, out: Path, config: Config, resume: bool = False, quiet: bool = False) -> TrainResult:
    """Build the model of the configuration and train it, with a live bar."""
    config = with_reading_error(store, config)
    model = build_for(store, config)
    about = f"{model.label()}, {model.parameter_count() / 1e6:.2g} M parameters"
    with show.progress("training", about, quiet) as update:

        def report(progress: Progress) -> None:
            crps = "" if progress.crps is None else f"  validation CRPS {progress.crps:.3f}"
            note = f"loss {progress.loss:.3f}{crps}  {progress.speed:.0f} examples/s"
            update(progress.step, progress.total, note)

        return train_model(model, store, out, config.train, config.model.options, resume=resume, report=report)
