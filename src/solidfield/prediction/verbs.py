"""What a run can be asked: the verbs of prediction, methods of the public `Run` (`run.py`).

A verb makes frames of what it is given, picks those to start from, and draws maps of them: by the model of sets
(`sets.py`), or by a model of pairs (`predict.py`) that is told the covariates of its recipe.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..errors import SolidError
from ..grid import flags
from ..models.solid_set import SolidSet
from ..pairs.frames import Frames
from ..readings.intake import Say
from ..training.record import RunRecord
from .context import FramesLike, Times, choose_rows, frames_for, query, stretch
from .predict import predict
from .sets import fill_record, set_maps

# Options that a model of sets has a use for: those of drawing, and its own.
SET_OPTIONS = (
    "members",
    "seed",
    "quantiles",
    "keep_members",
    "max_memory",
    "out",
    "engine",
    "progress",
    "as_read",
    "recalibrate",
)


def reconstruct(
    run: RunRecord,
    frames: FramesLike,
    members: int = 100,
    seed: int = 0,
    at: Times | None = None,
    dynamic: xr.Dataset | None = None,
    say: Say | None = None,
    past_only: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Draw maps at the time of the frames.

    Parameters
    ----------
    frames : table, xarray object or array
        What was read, see the class.
    members : int
        Of the ensemble. Default: 100.
    seed : int
        Same seed, same members. Default: 0.
    at : time, sequence of times or "last", optional
        Which frames; the others are looked back on. Default: all that hold readings.
    dynamic : Dataset, optional
        Changing covariates, for a run that was trained with some.
    say : callable, optional
        As for `read`.
    past_only : bool
        A run of `solid-set` also knows what came later, unless this is set; others never do. Default: False.
    **options
        Of drawing: quantiles, keep_members, max_memory (GiB), engine, progress; and `out`, a path that ends in .zarr,
        into which maps are drawn piece by piece, in bounded memory (`docs/scale.md`). Of a run of `solid-set` also
        `recalibrate`: laws as near to kriging's and as wide as the readings given ask, where their season is another
        than that of training; and `as_read`: what a sensor there would read (what is usual at a silent place; with
        offsets, its own), not the field.

    Returns
    -------
    xarray.Dataset
        Maps on (member, init_time, lead_time, y, x) with mean, standard deviation, quantiles and masks.

    Raises
    ------
    SolidError
        If the run was not trained for lead 0, a frame holds no reading, or the frames lie on another grid.
    """
    return _predict(run, frames, 0, 1, at, dynamic, say, past_only, members=members, seed=seed, **options)


def forecast(
    run: RunRecord,
    frames: FramesLike,
    members: int = 100,
    steps: int = 1,
    seed: int = 0,
    at: Times | None = None,
    dynamic: xr.Dataset | None = None,
    say: Say | None = None,
    rollout: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Draw maps 1 .. steps leads after each frame.

    A run of `solid-set`, or one that was trained with a window and these leads, has a direct law of each, and
    members are coherent in space and time. Others are rolled forward, every member on its own.

    Parameters
    ----------
    frames, members, seed, at, dynamic, say, **options
        As for `reconstruct`.
    steps : int
        Leads ahead. Default: 1.
    rollout : bool
        Roll forward, the paper's way, also where there are direct laws. Default: False.

    Returns
    -------
    xarray.Dataset
        Maps as of `reconstruct`, with `steps` entries along lead_time.

    Raises
    ------
    SolidError
        If the run was not trained for lead 1, a frame holds no reading, or the frames lie on another grid.
    """
    options |= {"members": members, "seed": seed, "rollout": rollout}
    return _predict(run, frames, 1, steps, at, dynamic, say, True, **options)


def fill(
    run: RunRecord,
    frames: FramesLike,
    members: int = 100,
    seed: int = 0,
    past_only: bool = False,
    keep_members: bool = False,
    say: Say | None = None,
    recalibrate: bool = False,
) -> pd.DataFrame:
    """Fill every gap of the record of every cell that was ever read; needs a run of `solid-set`.

    Parameters
    ----------
    frames, members, seed, past_only, say
        As for `reconstruct`.
    keep_members : bool
        Also a column for each member; within a day of gaps members are coherent. Default: False.
    recalibrate : bool
        Laws as near to kriging's and as wide as the readings given ask, each of some hidden in turn. Default: False.

    Returns
    -------
    pandas.DataFrame
        A row for each time, cell and variable: `value` is the reading where `filled` is False, else the median of
        the law, with its 90 % interval from `low` to `high`, in the units of the run. `sensor` names who stands in
        the cell, "A; B" where several do, if the readings name sensors.

    Raises
    ------
    SolidError
        If the run is of another model, the frames lie on another grid, or `recalibrate` meets `past_only`.
    """
    _only_sets(run, "fill")
    given, _, _ = frames_for(run, frames, say)
    return fill_record(run, given, members, seed, past_only, keep_members, recalibrate)


def assimilate(
    run: RunRecord,
    frames: FramesLike,
    members: int = 100,
    steps: int = 0,
    seed: int = 0,
    since: Times | int | None = None,
    until: Times | None = None,
    dynamic: xr.Dataset | None = None,
    say: Say | None = None,
    **options: Any,
) -> xr.Dataset:
    """Draw one course through the frames: what is read replaces every member's value there.

    A run of `solid-set` has the law of each time given what was read up to it; others are rolled forward.

    Parameters
    ----------
    frames, members, seed, dynamic, say, **options
        As for `reconstruct`.
    steps : int
        Further leads beyond the last frame. Default: 0.
    since : time or int, optional
        Where to begin: a time, or a number of steps before the end. Default: the first frame.
    until : time or "last", optional
        Where to stop reading. Default: the last frame.

    Returns
    -------
    xarray.Dataset
        Maps as of `forecast` from the first frame on; `read` says where a sensor was read at each time.

    Raises
    ------
    SolidError
        If there is no frame after the first and no step beyond it, or the first holds no reading.
    """
    given, times, notes = frames_for(run, frames, say)
    first, last = stretch(given, since, until, run.zone)
    walk = round((given.seconds[last] - given.seconds[first]) / given.every) + steps
    if walk < 1:
        raise SolidError("assimilation needs a frame after its first, or steps beyond it; give more frames or steps")
    rows = choose_rows(given, times, given.times[[first]], run.zone)
    given = given.until(last)
    if isinstance(run.model, SolidSet):
        kept = _set_options({"members": members, "seed": seed, **options}, dynamic)
        leads = list(range(1, walk + 1))
        maps = set_maps(run, given, rows, times, leads, until=last, notes=notes, **kept)
        return _with_read(run, maps, _read_on_the_way(run, given, first, walk))
    _not_of_sets(run, options)
    source, later = query(run, given, rows, 1, walk, dynamic, assimilate=True)
    drawing = {"members": members, "seed": seed, "notes": notes, **options}
    maps = predict(run, source, times[rows], steps=walk, later=later, **drawing)
    return _with_read(run, maps, np.stack([one.mask[0].any(0).numpy() for one in later]))


def _predict(
    run: RunRecord,
    frames: FramesLike,
    lead: int,
    steps: int,
    at: Times | None,
    dynamic: xr.Dataset | None,
    say: Say | None,
    past_only: bool,
    **options: Any,
) -> xr.Dataset:
    given, times, notes = frames_for(run, frames, say)
    rows = choose_rows(given, times, at, run.zone)
    if isinstance(run.model, SolidSet):
        kept = _set_options(options, dynamic)
        leads = [0] if lead == 0 else list(range(1, steps + 1))
        return set_maps(run, given, rows, times, leads, past_only=past_only, notes=notes, **kept)
    _not_of_sets(run, options)
    source, later = query(run, given, rows, lead, steps, dynamic)
    return predict(run, source, times[rows], steps=steps, later=later, notes=notes, **options)


def _set_options(options: dict[str, Any], dynamic: xr.Dataset | None) -> dict[str, Any]:
    """Those of the options of drawing that a model of sets has a use for."""
    if dynamic is not None:
        raise SolidError(f"a run of '{SolidSet.name}' takes no dynamic fields; leave them out")
    if options.get("rollout"):
        raise SolidError(f"a run of '{SolidSet.name}' has a law of every lead and rolls nothing; leave rollout out")
    return {name: value for name, value in options.items() if name in SET_OPTIONS}


def _not_of_sets(run: RunRecord, options: dict[str, Any]) -> None:
    """Refuse what only a model of sets can do."""
    verbs = {"as_read": "tell a sensor's reading from the field", "recalibrate": "be recalibrated by readings at hand"}
    for name, verb in verbs.items():
        if options.pop(name, False):
            _only_sets(run, verb)


def _only_sets(run: RunRecord, verb: str) -> None:
    if not isinstance(run.model, SolidSet):
        raise SolidError(f"{run.model.name} cannot {verb}; train a run with model 'solid-set' for that")


def _with_read(run: RunRecord, maps: xr.Dataset, read: np.ndarray) -> xr.Dataset:  # (L, H, W) bool
    about = flags("was a sensor read here at this time, whose reading every member holds?", "not_read", "read")
    return maps.assign(read=(("init_time", "lead_time", *run.grid.axes), read[None].astype(np.int8), about))


def _read_on_the_way(run: RunRecord, given: Frames, first: int, walk: int) -> np.ndarray:  # (L, H, W) bool
    step = np.round((given.seconds - given.seconds[first]) / given.every).astype(np.int64)
    read = np.zeros((walk, *run.grid.shape), bool)
    on_the_way = (step >= 1) & (step <= walk)
    read[step[on_the_way] - 1] = np.isfinite(given.values[on_the_way]).any(1)
    return read
