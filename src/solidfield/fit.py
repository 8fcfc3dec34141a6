"""From readings to a trained run in one call: grid, pair, train. Thin glue; every part can be called by itself.

`fit("readings.csv", "run", minutes=10)` reads the table, puts it on a grid (`readings/`), decides whether to work with
logarithms, holds days out (`pairs/choices.py`), writes the pairs into the run folder and trains on them. What was
decided is said in words. `solid train` calls this function.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .clock import span
from .config import Config, load_config
from .disk import refuse_existing
from .engine import Progress
from .errors import SolidError
from .forecast import Forecaster
from .keys import initial_weights
from .models import build, check_options, model_class
from .models.solid_set import SolidSet
from .pairs.choices import choose_model, choose_pairing, decide_holdout
from .pairs.covariates import Covariates
from .pairs.frames import as_frames
from .pairs.holdout import Holdout
from .pairs.limits import Within
from .pairs.pairing import frame_pairs
from .pairs.scaling import Scaling, check_transform
from .pairs.store import PairStore, is_pairs, open_pairs
from .readings.error_table import Errors, plain_errors
from .readings.intake import Readings, Say, read_frames, tell
from .readings.place_table import Places, plain_places
from .run import Run, load
from .training.folder import BEGUN, barely_begun, check_reading, recorded_run
from .training.loop import check_schedule, train
from .training.record import PAIRS
from .training.sets import LEADS, PACE, SMOKE, train_sets

PRESET, MINUTES = "laptop", 10.0  # where neither a preset nor a budget is given for readings


def fit(
    readings: Readings | PairStore,
    out: str | Path,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    model: str | None = None,
    leads: Sequence[int] | None = None,
    ahead: str | None = None,
    cell: str | None = None,
    every: str | None = None,
    variables: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    dates: str | None = None,
    units: str | None = None,
    name: str | None = None,
    places: Places | None = None,
    drop_above: float | None = None,
    errors: Errors | None = None,
    transform: str | None = None,
    offset: float | None = None,
    within: Within | None = None,
    holdout: Holdout | Mapping[str, Any] | None = None,
    covariates: Covariates | None = None,
    seed: int | None = None,
    preset: str | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
    say: Say | None = None,
    progress: Progress | None = None,
) -> Run:
    """Train a model of these readings into the folder `out` and open it.

    The run remembers how the readings were read, so that new ones are read in the same way.

    Parameters
    ----------
    readings : path, sequence of paths, DataFrame, xarray object or PairStore
        A table or frames, as for `read_frames`; or pairs that are made already, or their path, for which all options
        of reading and pairing must be left out.
    out : path
        The run folder; one that holds anything is never written over.
    minutes : float, optional
        Budget of wall time, above 0. Default: 10 for readings where `steps`, `preset` and `settings` say nothing.
    steps : int, optional
        Number of optimiser steps instead of a budget.
    model : str, optional
        A name of `MODELS`, or "solid-set", which learns from readings on both sides of any place and time and can also
        `fill`. Default: of readings where no preset is named, by how much of the map is read at a time
        (`choose_model`); else the preset's.
    leads : sequence of int, optional
        0 reconstructs, 1 forecasts one time step. Default: (0, 1); of "solid-set" 0 to 6, each a law of its own.
    ahead : str, optional
        All leads up to so long, such as "6h", instead of `leads`.
    cell, every : str, optional
        Size of a cell ("1km", "0.01deg") and time step ("1h"). Default: as the readings suggest.
    variables : sequence of str, optional
        Which to model. Default: all.
    columns, dates, units, name, places : optional
        How to read the table, as for `check`.
    timezone : str, optional
        Of times without an offset, and of the calendar and the held-out days: "Asia/Kolkata" or "+05:30".
        Default: UTC, and that is said.
    drop_above : float, optional
        Readings above are dropped, and counted. Default: none.
    errors : float, path, mapping or DataFrame, optional
        Standard deviations of the readings' errors, as for `grid`. Default: as the readings' own columns say.
    transform : {"log", "sqrt", "none"}, optional
        What is modelled of each reading. Default: by the readings, and that is said.
    offset : float, optional
        Of the logarithm: log(x + offset). Default: 0.
    within : mapping, optional
        Values that can be, by variable: `{"humidity": (0, 100), "rain": (0, None)}`; nothing beyond is predicted. Of
        "solid-set" alone. Default: by the kind of each variable, and by values that its readings pile up at.
    holdout : Holdout or mapping, optional
        What is kept aside to be judged by; of a mapping, what it leaves out is decided by the readings.
        Default: every fifth day tests, one in ten validates.
    covariates : Covariates, optional
        What the model is told beside the readings. Default: the calendar and 24 hours of history.
    seed : int, optional
        Same seed, same weights. Default: 0.
    preset : str, optional
        "smoke", "laptop", "paper", "paper-large" or a TOML file; one that is named also says how long to train.
        Default: "laptop".
    settings : sequence of str
        Further values of the preset: "table.key=value".
    resume : bool
        Go on with an interrupted run, which must be of the same files and options. Default: False.
    say : callable, optional
        Is told in words what was assumed and decided. Default: the package's log.
    progress : callable, optional
        Called after every step as `progress(what, done, total)`: the loss and speed in words, and how many steps.

    Returns
    -------
    Run
        The finished run, ready to `reconstruct`, `forecast`, `assimilate` and `evaluate`.

    Raises
    ------
    SolidError
        If the folder holds something, an option contradicts another or the run that is resumed, or the readings leave
        nothing to train on.

    Examples
    --------
    >>> import numpy as np, tempfile, xarray as xr
    >>> times = np.datetime64("2024-01-01", "ns") + np.arange(60) * np.timedelta64(3600, "s")
    >>> values = np.random.default_rng(0).normal(20, 3, (60, 3, 3))
    >>> frames = xr.DataArray(values, {"time": times, "lat": [0.0, 0.1, 0.2], "lon": [0.0, 0.1, 0.2]}, name="pm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = fit(frames, folder + "/run", model="climatology", preset="smoke")
    >>> run.variables, run.grid.shape
    (('pm',), (3, 3))
    """
    out, store = Path(out), _pairs(readings)
    reading: dict[str, Any] = {
        "cell": cell,
        "every": every,
        "variables": list(variables) if variables else None,
        "columns": dict(columns) if columns else None,
        "timezone": timezone,
        "dates": dates,
        "units": units,
        "name": name,
        "places": plain_places(places),
        "drop_above": drop_above,
        "errors": plain_errors(errors),
    }
    pairing: dict[str, Any] = {
        "leads": list(leads) if leads else None,
        "ahead": ahead,
        "transform": transform,
        "offset": offset,
        "within": {name: list(ends) for name, ends in within.items()} if within else None,
    }
    plain = {"holdout": _plain(holdout), "covariates": _plain(covariates)}
    asked = {"files": _files(readings) if store is None else None, **reading, **pairing, **plain}
    made = store is not None
    if resume and barely_begun(out):
        tell(f"{out} was stopped before its first step; it begins anew", say)
        resume = False
    open_choice = not made and model is None and preset is None and not any("model." in one for one in settings)
    if open_choice and resume:
        model = recorded_run(out)["model"]["name"]
    config = _config(preset, settings, minutes, steps, model, seed, of_readings=not made)
    _check_choices(config, transform, offset, leads, holdout)
    if store is not None:
        useless = [name for name, value in asked.items() if value]
        if useless:
            raise SolidError(f"{store.path} holds pairs that are made already; leave out '{useless[0]}' of readings")
    elif resume and config.model.name != SolidSet.name:
        check_reading(out, asked)
        store = open_pairs(out / PAIRS)
    else:
        if resume:
            check_reading(out, asked)
        else:
            refuse_existing(out, "resume it or choose another folder", besides=BEGUN)
        frames = as_frames(read_frames(readings, say=say, stations=True, **reading), variables)
        frames = replace(frames, timezone=timezone or frames.timezone)
        leads = _leads(leads, ahead, frames.every)
        if open_choice and not resume and not _for_pairs(offset, holdout, covariates):
            suited, why = choose_model(frames)
            tell(why, say)
            config = _config(preset, settings, minutes, steps, suited, seed, of_readings=True)
        if config.model.name == SolidSet.name:
            for option in _for_pairs(offset, holdout, covariates):
                raise SolidError(f"'{option}' does nothing for model '{SolidSet.name}'; leave it out")
            train_sets(
                frames,
                out,
                config.train,
                {name: value for name, value in config.model.options.items() if name != "size"},
                leads=tuple(sorted({lead for lead in leads if lead > 0})) if leads else LEADS,
                transform=transform,
                holdout=decide_holdout(frames, holdout, say, calibration=False),
                within=within,
                covariates=covariates,
                reading=asked,
                say=lambda words: tell(words, say),
                progress=progress,
                resume=resume,
            )
            return load(out)
        if frames.errors is not None and np.ptp(frames.errors) > 0:
            words = f"model {config.model.name} takes one error for all readings, their root mean square"
            tell(f"{words}: {frames.obs_std:.3g}; solid-set takes each reading's own", say)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise SolidError(
                f"several processes train model {config.model.name} on pairs that exist; write those of readings with "
                "`frame_pairs`, or take model solid-set, which learns from readings as they are"
            )
        if within:
            raise SolidError(f"'within' does nothing for model '{config.model.name}'; take model {SolidSet.name}")
        chosen = choose_pairing(frames, transform, holdout, say)
        store = frame_pairs(
            frames, out / PAIRS, leads=leads or (0, 1), offset=offset or 0.0, covariates=covariates, **chosen
        )
        splits = ", ".join(f"{count:,} {name}" for name, count in store.attributes["splits"].items() if count)
        cells = " x ".join(map(str, store.grid.shape))
        tell(f"pairs: {splits}; {store.readings():,} readings on {cells} cells", say)
    config = with_reading_error(store, config)
    built = build_for(store, config)
    tell(f"model: {built.label()}, {built.parameter_count() / 1e6:.2g} M parameters", say)
    train(
        built,
        store,
        out,
        config.train,
        config.model.options,
        resume=resume,
        progress=progress,
        reading=None if made else asked,
    )
    return load(out)


def _check_choices(
    config: Config,
    transform: str | None,
    offset: float | None,
    leads: Sequence[int] | None,
    holdout: Holdout | Mapping[str, Any] | None,
) -> None:
    """What can be known to be wrong before a file is read and a folder made."""
    check_transform(transform or "none", offset or 0.0)
    if min(leads or (0,)) < 0:
        raise SolidError(f"leads {tuple(leads or ())} must be whole numbers from 0")
    if isinstance(holdout, Mapping):
        Holdout(**holdout)
    if config.model.name != SolidSet.name:
        check_options(config.model.name, config.model.options)
    check_schedule(config.train)


def _leads(leads: Sequence[int] | None, ahead: str | None, step: float) -> Sequence[int] | None:
    """The leads asked for, in steps; those up to a time where that is given."""
    if ahead is None:
        return leads
    count = round(span(ahead) / step)
    if leads is not None or count < 1:
        raise SolidError(f"ahead = {ahead} is no step of {step:g} s, or 'leads' is given as well; give one of them")
    return range(count + 1)


def _for_pairs(
    offset: float | None, holdout: Holdout | Mapping[str, Any] | None, covariates: Covariates | None
) -> list[str]:
    """Options given that are of pairs alone: questions have no use for them."""
    calibration = holdout.calibration if isinstance(holdout, Holdout) else (holdout or {}).get("calibration")
    dynamic = covariates is not None and covariates.dynamic is not None
    history = covariates is not None and covariates.history not in (0, Covariates().history)
    named = (("offset", offset), ("calibration", calibration), ("dynamic", dynamic), ("history", history))
    return [name for name, value in named if value]


def _pairs(readings: Readings | PairStore) -> PairStore | None:
    """Pairs that are made already; None for readings."""
    if isinstance(readings, PairStore):
        return readings
    one = readings[0] if isinstance(readings, list | tuple) and len(readings) == 1 else readings
    return open_pairs(one) if isinstance(one, str | Path) and is_pairs(Path(one)) else None


def _config(
    preset: str | None,
    settings: Sequence[str],
    minutes: float | None,
    steps: int | None,
    model: str | None,
    seed: int | None,
    of_readings: bool,
) -> Config:
    """The preset with what was named; readings that come with no word on how long to train get ten minutes."""
    if minutes is not None and steps is not None:
        raise SolidError(f"{minutes:g} minutes and {steps} steps are two budgets; give one of them")
    told = any(setting.strip().startswith(("train.steps", "train.minutes")) for setting in settings)
    if of_readings and preset is None and steps is None and minutes is None and not told:
        minutes = MINUTES
    named = {"model.name": model and f'"{model}"', "train.steps": steps, "train.minutes": minutes, "train.seed": seed}
    thin = ("train.thin=0.5",) if of_readings else ()  # sensors come and go in records, as they do not in worlds
    standing: tuple[str, ...] = (SMOKE if preset == "smoke" else PACE) if model == SolidSet.name else thin
    chosen = tuple(f"{name}={value}" for name, value in named.items() if value is not None)
    config = load_config(preset or PRESET, (*standing, *settings, *chosen))
    if steps is None:
        return config
    changed: dict[str, Any] = {"minutes": None}  # over a budget of the preset
    if config.train.warmup >= steps and not any(setting.strip().startswith("train.warmup") for setting in settings):
        changed["warmup"] = steps // 10  # that of the preset is longer than so short a training
    return config.model_copy(update={"train": config.train.model_copy(update=changed)})


def _files(readings: Any) -> dict[str, int | None] | None:
    """Names and sizes of the files of readings, by which a resumed run knows them again."""
    paths = readings if isinstance(readings, list | tuple) else [readings]
    if not all(isinstance(path, str | Path) for path in paths):
        return None
    files = [Path(path) for path in paths]
    return {path.name: path.stat().st_size if path.is_file() else None for path in files}


def _plain(choice: Holdout | Covariates | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As JSON; of fields that are given the names."""
    if choice is None or isinstance(choice, Mapping):
        return dict(choice) if choice else None
    values = {field.name: getattr(choice, field.name) for field in fields(choice)}
    return {
        name: sorted(map(str, value.data_vars)) if isinstance(value, xr.Dataset) else value
        for name, value in values.items()
    }


def with_reading_error(store: PairStore, config: Config) -> Config:
    """The configuration with `obs_std` set to the store's error of a reading, unless it is given or the model has none.

    The error of a cell is what readings of one cell and time differ by (`readings/frames.py`).
    """
    name, options = config.model.name, config.model.options
    takes = "obs_std" in inspect.signature(model_class(name)).parameters
    if not takes or "obs_std" in options or store.obs_std == 0:
        return config
    error = Scaling.fit(store, store.split("train")).standard_error(store.obs_std)
    model = config.model.model_copy(update={"options": {**options, "obs_std": float(f"{error:.4g}")}})
    return config.model_copy(update={"model": model})


def build_for(store: PairStore, config: Config) -> Forecaster:
    """The model of the configuration, made for these pairs; initial weights are a function of the seed."""
    with initial_weights(config.train.seed):
        return build(config.model.name, store.spec(), config.model.options)
