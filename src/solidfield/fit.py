"""From readings to a trained run in one call: grid, pair, train. Thin glue; every part can be called by itself.

`fit("readings.csv", "run", minutes=10)` reads the table, puts it on a grid (`readings/`), decides whether to work with
logarithms, holds days out, writes the pairs into the run folder and trains on them. What was decided is said in words.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .config import Config, load_config
from .disk import refuse_existing
from .forecast import Forecaster
from .keys import key
from .models import build, model_class
from .pairs.covariates import Covariates
from .pairs.frames import Frames, as_frames, frame_pairs
from .pairs.holdout import Holdout
from .pairs.scaling import Scaling
from .pairs.store import PairStore
from .readings.intake import Readings, Say, read_frames
from .run import Run, load
from .training.loop import train
from .training.record import PAIRS

SKEWED = 1.0  # skewness beyond which logarithms are tried: 2 for an exponential law, 0 for a symmetric one
SHORTEST = 10  # days a record must last to be split by days; a shorter one is cut into as many equal parts
MANY_CELLS, CALIBRATION = 40, 0.1  # from so many cells with readings on, such a share is met in validation only


def fit(
    readings: Readings,
    out: str | Path,
    *,
    minutes: float = 10.0,
    model: str = "solid",
    leads: Sequence[int] = (0, 1),
    cell: str | None = None,  # size of a cell, such as "1km"; None: as suits the readings
    every: str | None = None,  # time step, such as "1h"
    timezone: str | None = None,  # of times without a zone of their own, and of the calendar
    variables: Sequence[str] | None = None,
    units: str | None = None,  # of the values, where the readings do not say
    transform: str | None = None,  # "log", "none"; None: by the readings' skewness
    offset: float = 0.0,  # log(x + offset)
    holdout: Holdout | None = None,  # None: every fifth day tests, one in ten validates
    covariates: Covariates | None = None,  # None: calendar and 24 hours of history
    seed: int = 0,
    preset: str = "laptop",
    settings: Sequence[str] = (),  # further `table.key=value` of the configuration
    say: Say | None = None,
) -> Run:
    """Train a model of these readings into the folder `out` and open it."""
    named = (f'model.name="{model}"', f"train.minutes={minutes}", f"train.seed={seed}")
    config = load_config(preset, ("train.thin=0.5", *named, *settings))
    refuse_run(Path(out))
    gridded = read_frames(
        readings, cell=cell, every=every, variables=variables, timezone=timezone, units=units, say=say
    )
    frames = as_frames(gridded, variables)
    if timezone is not None:
        frames = replace(frames, timezone=timezone)
    store = pair_frames(
        frames,
        Path(out) / PAIRS,
        leads=leads,
        transform=transform,
        offset=offset,
        holdout=holdout,
        covariates=covariates,
        say=say,
    )
    config = with_reading_error(store, config)
    train(build_for(store, config), store, out, config.train, config.model.options)
    return load(out)


def refuse_run(out: Path) -> None:
    """A folder that holds anything but pairs is refused before anything is written into it."""
    refuse_existing(out, "resume it or choose another folder", besides=(PAIRS,))


def pair_frames(
    frames: Frames,
    path: Path,
    *,
    transform: str | None = None,
    holdout: Holdout | None = None,
    say: Say | None = None,
    **options: Any,  # of `frame_pairs`
) -> PairStore:
    """Pairs with what was not chosen decided by the readings, in words."""
    say = say or (lambda words: None)
    if transform is None:
        chosen = {}
        for c, name in enumerate(frames.variables):
            chosen[name], why = choose_transform(frames.values[:, c], name)
            say(why)
    if holdout is None:
        holdout, reasons = choose_holdout(frames)
        for why in reasons:
            say(why)
    return frame_pairs(frames, path, transform=chosen if transform is None else transform, holdout=holdout, **options)


def choose_transform(values: np.ndarray, name: str = "value") -> tuple[str, str]:  # and why, in words
    """Logarithms where every reading is positive, the readings are skewed and their logarithms less so.

    >>> choose_transform(np.exp(np.linspace(-2, 2, 99)))[0], choose_transform(np.linspace(-2, 2, 99))[0]
    ('log', 'none')
    """
    known = values[np.isfinite(values)].astype(np.float64)
    if len(known) < 3 or known.min() <= 0 or known.std() == 0:
        return "none", f"{name} is modelled as it is: not every reading is positive, or they do not vary"
    before, after = _skewness(known), _skewness(np.log(known))
    if before > SKEWED and abs(after) < before:
        return "log", f"{name} is modelled by its logarithm: it is positive and skewed ({before:.1f}, then {after:.1f})"
    return "none", f"{name} is modelled as it is: its skewness is {before:.1f}"


def _skewness(values: np.ndarray) -> float:
    z = (values - values.mean()) / values.std()
    return float((z**3).mean())


def choose_holdout(frames: Frames) -> tuple[Holdout, list[str]]:  # and why, in words, where there is something to say
    """Days where the record has enough of them, shorter stretches of a shorter record; calibration cells among many."""
    hours = float((frames.times[-1] - frames.times[0]) / np.timedelta64(1, "h"))
    cells = int(np.isfinite(frames.values).any((0, 1)).sum())
    holdout, reasons = Holdout(), []
    if 0 < hours < 24 * SHORTEST:
        stretch = hours / SHORTEST
        holdout = replace(holdout, hours=stretch)
        reasons.append(
            f"the record lasts {hours / 24:.1f} days: stretches of {stretch:.1f} hours are held out instead of days"
        )
    if cells >= MANY_CELLS and (frames.grid.cells - cells) > 0:
        holdout = replace(holdout, calibration=CALIBRATION)
        reasons.append(
            f"{cells} cells have readings: {round(CALIBRATION * cells)} are kept back to learn how wide to be where "
            "there are none"
        )
    return holdout, reasons


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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(config.train.seed, "weights"))
        return build(config.model.name, store.spec(), config.model.options)
