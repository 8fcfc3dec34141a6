"""What a run knows when it is asked: the readings of a frame, and covariates for this and every further step.

The query at time t has the readings of t (and of the steps before it, for a run with a window), a history strictly
before t, and the calendar of t + lead. Step h of a rollout starts from t + h: its history holds what was read up to t
(and, in assimilation, on the way), which has grown older; members' own values never enter it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import torch
import xarray as xr

from ..clock import as_text, from_seconds, instant, to_seconds
from ..errors import SolidError
from ..fields import Source, Window, restrict
from ..pairs.channels import assemble
from ..pairs.covariates import Past, Recipe
from ..pairs.frames import Frames, as_frames
from ..pairs.store import PairStore
from ..readings.axes import real, units_of
from ..readings.intake import Readings, Say, frames_already, read_frames, tell
from ..readings.layout import Layout
from ..readings.size import refuse_wild
from ..training.record import RunRecord

FramesLike: TypeAlias = Readings | np.ndarray
# What a run remembers of how its readings were read.
ASSUMED = ("timezone", "columns", "dates", "units", "name", "places", "drop_above", "errors")
Times = str | np.datetime64 | Sequence[str] | Sequence[np.datetime64] | np.ndarray
Fields = Callable[[np.ndarray], np.ndarray]  # (N,) seconds -> (N, G, H, W) dynamic fields


def frames_for(
    run: RunRecord, frames: FramesLike, say: Say | None = None
) -> tuple[Frames, np.ndarray, str]:  # and the times to label maps with, and what was said of the readings
    """What the user gave, on the run's grid: readings, an xarray object with instants, or plain (time, C, H, W)."""
    if not isinstance(frames, xr.Dataset | xr.DataArray | np.ndarray):
        frames = read_new(run, frames, say=say)
    notes = str(frames.attrs.get("notes", "")) if isinstance(frames, xr.Dataset) else ""
    if isinstance(frames, xr.Dataset) or _has_instants(frames):
        given = as_frames(frames, run.variables if isinstance(frames, xr.Dataset) else None, run.step)
        _check_grid(given, run)
        _check_step(frames, given, run)
        _check_size(given.values, run)
        return replace(given, values=np.where(run.grid.inside, given.values, np.float32(np.nan))), given.times, notes
    if run.recipe is not None and run.recipe.needs_time:
        raise SolidError(
            f"the run {run.path} knows the calendar or the past, so its frames need times; give an xarray object "
            "with a 'time' coordinate"
        )
    values = real(frames.values if isinstance(frames, xr.DataArray) else frames, "the frames")
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
    _check_size(values, run)
    count = np.arange(len(values), dtype=float)
    times = count
    if isinstance(frames, xr.DataArray) and "time" in frames.coords:
        times = np.atleast_1d(frames["time"].values)
    # Frames without instants follow one another: a second apart will do, since nothing looks at the clock.
    return Frames(values, from_seconds(count), run.grid, run.variables, run.units, every=1.0), times, notes


def read_new(run: RunRecord, readings: Readings, *, say: Say | None = None, **options: Any) -> xr.Dataset:
    """Put new readings into the cells and frames of this run.

    Parameters
    ----------
    readings : path, sequence of paths, DataFrame or xarray object
        As for `read_frames`.
    say : callable, optional
        Is told in words what was assumed and what became of the rows. Default: the package's log.
    **options
        Of `read_frames`: timezone, columns, places, dates, units, drop_above, errors. Default: as when the run was
        trained.

    Returns
    -------
    xarray.Dataset
        Sparse frames; their attribute `notes` holds all that was said.

    Raises
    ------
    SolidError
        If no reading falls into the run's cells, or the run has no clock.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if frames_already(readings) is not None:
        return read_frames(readings, say=say, **given)
    if run.clock is None:
        raise SolidError(f"the run {run.path} was not trained on readings of a clock; give it arrays or its own pairs")
    assumed = {n: value for n in ASSUMED if n not in given and (value := run.reading.get(n)) is not None}
    words = f"read as in training: {_in_words(assumed)}" if assumed else ""
    if words:
        tell(words, say)
    layout = Layout(run.grid, run.clock)
    frames = read_frames(readings, like=layout, variables=run.variables, stations=True, say=say, **assumed, **given)
    units = tuple(units_of(frames[name]) for name in run.variables)
    doubts = [
        f"{name} is in {new}, and was in {known} when the run was trained"
        for name, new, known in zip(run.variables, units, run.units, strict=True)
        if new and known and new != known
    ]
    for doubt in doubts:
        tell(doubt, say)
    frames.attrs["notes"] = "; ".join(part for part in (words, frames.attrs["notes"], *doubts) if part)
    return frames


def _in_words(options: dict[str, Any]) -> str:
    """{"timezone": "+05:30", "columns": {"y": "lat"}} -> timezone +05:30, columns y=lat."""

    def plain(value: Any) -> str:
        return ",".join(f"{role}={name}" for role, name in value.items()) if isinstance(value, dict) else str(value)

    def words(name: str, value: Any) -> str:
        told = f"by {value['by']}" if name == "errors" and value["by"] else "as one number" if name == "errors" else ""
        told = f"of {len(value['at'])} sensors" if name == "places" else told
        return f"{name.replace('_', ' ')} {told or plain(value)}"

    return ", ".join(words(name, value) for name, value in options.items())


def _has_instants(frames: xr.DataArray | np.ndarray) -> TypeGuard[xr.DataArray]:
    return (
        isinstance(frames, xr.DataArray)
        and "time" in frames.dims
        and "time" in frames.coords
        and np.issubdtype(frames["time"].dtype, np.datetime64)
    )


def _check_grid(frames: Frames, run: RunRecord) -> None:
    same = frames.grid.shape == run.grid.shape and all(
        np.allclose(given, known, rtol=0, atol=0.01 * step)
        for given, known, step in zip(
            (frames.grid.y, frames.grid.x), (run.grid.y, run.grid.x), run.grid.spacing, strict=True
        )
    )
    if not same:
        raise SolidError(
            f"the frames are on a {' x '.join(map(str, frames.grid.shape))} grid from {frames.grid.origin}, the run "
            f"{run.path} was trained on {' x '.join(map(str, run.grid.shape))} from {run.grid.origin}; grid them alike"
        )
    if len(frames.variables) != len(run.variables):
        raise SolidError(f"the run predicts {', '.join(run.variables)}; the frames hold {', '.join(frames.variables)}")


def _check_step(frames: xr.Dataset | xr.DataArray, given: Frames, run: RunRecord) -> None:
    """Frames of another time step are other means of other readings, though their cells be the same."""
    said = frames.attrs.get("every_ns")
    step = float(np.diff(given.seconds).min(initial=np.inf)) if said is None else int(said) / 1e9
    if step != run.step and (said is not None or step < run.step):
        raise SolidError(
            f"the frames have a time step of {step:g} s, the run {run.path} one of {run.step:g} s; grid them alike"
        )


def _check_size(values: np.ndarray, run: RunRecord) -> None:  # (T, C, H, W)
    """Readings beyond any size of those of training are errors: all that the run could say is nonsense."""
    typical = run.scaling.restore(torch.zeros(len(run.variables), 1, 1)).abs().flatten().tolist()
    sizes = [middle + std for middle, std in zip(typical, run.scaling.physical_std, strict=True)]
    refuse_wild(values, run.variables, sizes, "the usual reading of training")


def choose_rows(
    frames: Frames,
    times: np.ndarray,  # (T,) that label maps
    at: Times | None,  # None: every frame; "last": the last with readings; else of these times
    zone: str,
) -> np.ndarray:  # (N,)
    """Which frames to start from. A clock ticks on without readings: of all frames, those without are left out."""
    filled = np.isfinite(frames.values).any((1, 2, 3))
    if not filled.any():
        raise SolidError("the frames hold no reading at all; give some that do")
    if at is None:
        return _filled(np.arange(len(times)) if times.dtype.kind != "M" else np.flatnonzero(filled), filled)
    if _is_last(at):
        return np.flatnonzero(filled)[-1:]
    return _filled(rows_of(frames, at, zone), filled)


def _is_last(at: Times) -> bool:
    return np.size(at) == 1 and str(np.ravel(np.asarray(at))[0]) == "last"


def _filled(rows: np.ndarray, filled: np.ndarray) -> np.ndarray:
    empty = rows[~filled[rows]]
    if len(empty):
        raise SolidError(f"frame {empty[0]} holds no reading at all; leave out frames without readings")
    return rows


def rows_of(frames: Frames, at: Times, zone: str) -> np.ndarray:  # (N,)
    """Which frames are of these times; a text that names no zone is of the given one, an instant is UTC."""
    asked = np.atleast_1d(np.asarray(at))
    wanted = np.array([instant(time, zone if isinstance(time, str) else "UTC") for time in asked])
    rows = frames.rows_at(to_seconds(wanted))
    if (rows < 0).any():
        missing = wanted[rows < 0][0]
        nearest = frames.times[np.abs(frames.times - missing).argmin()]
        raise SolidError(f"no frame is of {as_text(missing)} UTC; the nearest is {as_text(nearest)} UTC")
    return rows


def stretch(
    frames: Frames, since: Times | int | None, until: Times | None, zone: str
) -> tuple[int, int]:  # the first row and the last
    """Where assimilation begins and ends; a number of steps begins at the first readings within them before the end."""
    filled = np.isfinite(frames.values).any((1, 2, 3))
    last = len(filled) - 1
    if until is not None:
        ends = choose_rows(frames, frames.times, until, zone) if _is_last(until) else rows_of(frames, until, zone)
        last = int(ends[0])
    if since is None:
        return 0, last
    if not isinstance(since, int):
        return int(rows_of(frames, since, zone)[0]), last
    recent = np.flatnonzero(filled & (frames.seconds >= frames.seconds[last] - since * frames.every))
    if not len(recent) or recent[0] > last:
        raise SolidError(f"no reading in the {since} steps before the last frame; begin earlier, or end elsewhere")
    return int(recent[0]), last


def query(
    run: RunRecord,
    frames: Frames,
    rows: np.ndarray,  # (N,) the frames to start from
    lead: int,
    steps: int = 1,
    dynamic: xr.Dataset | None = None,
    assimilate: bool = False,  # read the frames that lie on the way
) -> tuple[Source, list[Source]]:  # physical units; the second as `ensemble.rollout` takes it
    """The sources of these frames and what comes later on the way."""
    values, seconds = frames.values, frames.seconds
    seen = np.isfinite(values)
    leads = torch.full((len(rows),), float(lead))
    first = Source.of(torch.from_numpy(values[rows]), torch.from_numpy(seen[rows]), leads)
    back = range(1, run.model.spec.window)
    if back:
        earlier = [_frames_at(frames, seconds[rows] - h * frames.every, True) for h in back]
        window = Window(*(torch.from_numpy(np.stack(part, 1)) for part in zip(*earlier, strict=True)))
        first = replace(first, window=window)
    recipe = run.recipe
    if recipe is None and not assimilate:
        return first, []
    stops = range(1, steps + 1) if assimilate else range(1, steps)  # the last state is conditioned on no more
    read = [_frames_at(frames, seconds[rows] + h * frames.every, assimilate) for h in stops]
    later = [Source.of(torch.from_numpy(v), torch.from_numpy(m), leads) for v, m in read]
    if recipe is None:
        return first, later

    def fields(at: np.ndarray) -> np.ndarray:
        return recipe.fields(dynamic, frames.grid, from_seconds(at))

    past = _pasts(recipe, frames, rows) if recipe.history else None
    return _with_covariates(run, [first, *later], seconds[rows], frames.every, lead, past, fields)


def example_query(run: RunRecord, store: PairStore, indices: np.ndarray, steps: int) -> tuple[Source, list[Source]]:
    """The same for examples of a store, which holds their history; dynamic fields stay as they are at the source."""
    first = store.batch(indices).source
    if run.recipe is None or steps == 1:
        return first, []
    assert store.channels is not None
    recipe, seconds = run.recipe, store.columns["time_source"][indices]
    moving = np.asarray(store.channels.moving)[store.columns["frame_source"][indices]]
    fields, channels = np.split(moving, [len(recipe.dynamic)], axis=1)
    past = Past.of(channels, seconds, recipe) if recipe.history else None
    nothing = Source(torch.zeros_like(first.values), torch.zeros_like(first.mask), first.lead)
    sources = [first, *[nothing] * (steps - 1)]
    return _with_covariates(run, sources, seconds, store.step, int(first.lead[0]), past, lambda at: fields)


def _with_covariates(
    run: RunRecord,
    sources: list[Source],  # physical units: at t, t + step, t + 2 step, ...
    seconds: np.ndarray,  # (N,) t
    step: float,  # seconds
    lead: int,
    past: Past | None,  # strictly before t
    fields: Fields,
) -> tuple[Source, list[Source]]:
    recipe, static = run.recipe, run.static
    assert recipe is not None
    assert static is not None
    complete = []
    for h, source in enumerate(sources):
        now = seconds + h * step
        moving = fields(now)
        if past is not None:
            moving = np.concatenate([moving, past.channels(now, recipe)], axis=1)
            mask = source.mask.numpy()
            past = past.read(recipe.standard(source.values.numpy(), mask), mask, now)
        clock = recipe.clock(from_seconds(now + lead * step))
        complete.append(replace(source, covariates=assemble(static, clock, moving)))
    return complete[0], complete[1:]


def _pasts(recipe: Recipe, frames: Frames, rows: np.ndarray) -> Past:  # (N, C, H, W)
    """The last readings strictly before each of the frames."""
    seen, seconds = np.isfinite(frames.values), frames.seconds
    past, found, wanted = Past.empty(frames.values.shape[1:]), dict[int, Past](), set(rows.tolist())
    for t in range(max(wanted) + 1):
        if t in wanted:
            found[t] = past
        past = past.read(recipe.standard(frames.values[t : t + 1], seen[t : t + 1])[0], seen[t], seconds[t])
    chosen = [found[int(row)] for row in rows]
    return Past(np.stack([p.values for p in chosen]), np.stack([p.when for p in chosen]))


def _frames_at(
    frames: Frames,
    seconds: np.ndarray,  # (N,)
    readings: bool,
) -> tuple[np.ndarray, np.ndarray]:  # (N, C, H, W) values, mask
    """What was read at these times; nothing where there is no frame, or where readings are not asked for."""
    rows = frames.rows_at(seconds) if readings else np.full(len(seconds), -1)
    values = np.where((rows >= 0)[:, None, None, None], frames.values[rows], np.float32(np.nan))
    mask = np.isfinite(values)
    return restrict(torch.from_numpy(values), torch.from_numpy(mask)).numpy(), mask


def check_recipe(run: RunRecord, store: PairStore) -> None:
    """A run can be asked only with the covariates it was trained with, standardised the same way."""
    present = None if store.recipe is None else Recipe.from_dict(store.recipe)
    if present != run.recipe:
        raise SolidError(
            f"the covariates of {store.path} are not those that {run.path} was trained with; predict from its own "
            "pairs, or from frames"
        )
