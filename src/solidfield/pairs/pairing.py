"""The pairs a model learns from, made of sparse frames.

Lead L >= 1 pairs the frame at t with the frame at t + L `every`, exactly: over a gap there is no pair. Source and
target are all that was read. At lead 0 both are of one frame: a random part of its cells is hidden and becomes the
target.

A pair is of its target's split (`holdout.py`), and is made only if its source's frame may be seen there: a training
target has training sources and a history of training frames, a test target may look back on everything before it.
Held cells are targets of test pairs and nothing else, calibration cells of validation pairs and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..clock import EPOCH
from ..engine import Progress
from ..errors import SolidError
from ..keys import numpy_generator
from .channels import Channels
from .covariates import Covariates, Past, Recipe, fit_recipe
from .frames import Frames, as_frames
from .holdout import RANK, Holdout
from .scaling import Scaling, check_transform, transformed
from .store import PairStore
from .writing import Example, write_pairs


def frame_pairs(
    data: xr.Dataset | xr.DataArray | Frames,
    path: str | Path,
    *,
    leads: Sequence[int] = (0, 1),
    holdout: Holdout | None = None,  # None: the defaults
    covariates: Covariates | None = None,  # None: the defaults
    variables: Sequence[str] | None = None,
    transform: str | Mapping[str, str] = "none",  # for all variables, or by name
    offset: float | Mapping[str, float] = 0.0,  # log(x + offset)
    hide: float = 0.2,  # share of a frame's cells that is hidden at lead 0
    seed: int = 0,
    progress: Progress | None = None,
) -> PairStore:
    """Split, pair and write sparse frames as a pair store with covariates.

    Parameters
    ----------
    data : Dataset, DataArray or Frames
        Variables by (time, y, x), NaN where nothing was read, as `read_frames` gives them.
    path : str or Path
        Where the store is written.
    leads : sequence of int
        Steps ahead, one step being the time between frames: 0 reconstructs. Default (0, 1).
    holdout : Holdout, optional
        What validates and tests. Default: `Holdout()`, every fifth day tests.
    covariates : Covariates, optional
        What is told beside readings. Default: `Covariates()`, the calendar and a day of history.
    variables : sequence of str, optional
        Which of them. Default: all.
    transform : str or dict
        "log" or "none", for all variables or by name. Default "none".
    offset : float or dict
        Of the logarithm log(x + offset), in the variable's unit. Default 0.
    hide : float
        Share of a frame's cells that becomes the target at lead 0. Default 0.2.
    seed : int
        Of what is hidden.
    progress : callable, optional
        Called as `progress(what, done, total)`, with numbers of frames.

    Returns
    -------
    PairStore

    Raises
    ------
    SolidError
        If leads or shares make no sense, or nothing is left to train on.

    Examples
    --------
    >>> import tempfile
    >>> times = np.datetime64("2023-01-01", "ns") + np.arange(240) * np.timedelta64(1, "h")
    >>> values = np.random.default_rng(0).random((240, 3, 4))
    >>> pm = xr.DataArray(values, {"time": times, "y": range(3), "x": range(4)}, name="pm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame_pairs(pm, f"{folder}/pairs", leads=(1,)).attributes["splits"]["test"]
    48
    """
    frames = data if isinstance(data, Frames) else as_frames(data, variables)
    leads = tuple(sorted(set(leads)))
    if not leads or leads[0] < 0:
        raise SolidError(f"leads {leads} must be one or more whole numbers from 0")
    if not 0 < hide < 1:
        raise SolidError(f"hide {hide:g} is a share of a frame's cells; give one between 0 and 1")
    holdout, chosen = holdout or Holdout(), covariates or Covariates()
    holdout = replace(holdout, timezone=holdout.timezone or frames.timezone)
    splits = holdout.splits(frames.times)
    seen = np.isfinite(frames.values)  # (T, C, H, W)
    held = holdout.cells(seen.any((0, 1)), frames.grid)
    kept = ~np.logical_or.reduce(list(held.values())) if held else np.ones(frames.grid.shape, dtype=bool)
    free, train = seen & kept, splits == "train"
    if not free[train].any():
        raise SolidError("no reading is left to train on; hold out fewer days or cells, or give more frames")
    transforms = [transform if isinstance(transform, str) else transform.get(n, "none") for n in frames.variables]
    offsets = [offset.get(n, 0.0) if isinstance(offset, Mapping) else float(offset) for n in frames.variables]
    readings = training_scaling(frames, seen, free & train[:, None, None, None], transforms, offsets)
    recipe, static = fit_recipe(chosen, frames.grid, frames.timezone, frames.times[train], frames.variables, readings)
    moving = _moving(frames, recipe, chosen.dynamic, free, np.array([RANK[split] for split in splits]))
    channels = Channels(recipe.as_dict(), static, recipe.clock(frames.times), moving, recipe.counts)
    return write_frames(
        path,
        frames,
        _examples(frames, splits, _shown(seen, free, held), leads, hide, seed, progress),
        channels,
        obs_std=frames.obs_std,
        scenario={"pattern": "readings", "hide": hide, "seed": seed, "holdout": holdout.as_dict()},
        transforms=transforms,
        offsets=offsets,
        held=held,
    )


def write_frames(
    path: Path | str, frames: Frames, examples: Iterator[Example], channels: Channels, **options: Any
) -> PairStore:
    """`write_pairs` of examples made of frames, with its other options."""
    return write_pairs(
        path,
        frames.grid,
        frames.variables,
        examples,
        units=frames.units,
        step=frames.every,
        clock=frames.clock.as_dict(),
        epoch=EPOCH,
        channels=channels if channels.count else None,
        **options,
    )


def training_scaling(
    frames: Frames,
    seen: np.ndarray,  # (T, C, H, W) bool
    training: np.ndarray,  # (T, C, H, W) bool
    transforms: Sequence[str],
    offsets: Sequence[float],
) -> Scaling:
    """Statistics of the training readings, each once; every reading must have a transform, whatever its split."""
    mean, std, physical = [], [], []
    for c, name in enumerate(frames.variables):
        check_transform(transforms[c], offsets[c], f"'{name}'")
        values = frames.values[:, c][seen[:, c]].astype(np.float64)
        changed = transformed(values, np.full(len(values), c), transforms, offsets, frames.variables)
        of_training = training[:, c][seen[:, c]]
        if not of_training.any():
            raise SolidError(f"variable '{name}' has no reading in the training frames; leave it out")
        mean.append(float(changed[of_training].mean()))
        std.append(float(changed[of_training].std()) or 1.0)
        physical.append(float(values[of_training].std()))
    plain = all(transform == "none" for transform in transforms)
    return Scaling(tuple(mean), tuple(std), *(() if plain else (tuple(transforms), tuple(offsets), tuple(physical))))


def _moving(
    frames: Frames,
    recipe: Recipe,
    dynamic: xr.Dataset | None,
    free: np.ndarray,  # (T, C, H, W) bool
    rank: np.ndarray,  # (T,) of the splits
) -> Iterator[np.ndarray]:  # T times (G, H, W)
    """Dynamic fields and history, frame by frame; what a frame looks back on is of its own split or a lower one."""
    fields = recipe.fields(dynamic, frames.grid, frames.times)
    pasts = [Past.empty(frames.values.shape[1:]) for _ in RANK]
    for t, now in enumerate(frames.seconds):
        past = pasts[rank[t]].channels(now, recipe) if recipe.history else fields[t, :0]
        yield np.concatenate([fields[t], past])
        if recipe.history:
            values = recipe.standard(frames.values[t : t + 1], free[t : t + 1])[0]
            for r in range(rank[t], len(pasts)):
                pasts[r] = pasts[r].read(values, free[t], now)


def _shown(seen: np.ndarray, free: np.ndarray, held: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By split, the readings that its targets show; what trains is also what sources show."""
    calibration = held.get("calibration_cells", np.zeros(seen.shape[2:], dtype=bool))
    return {"train": free, "validation": free | (seen & calibration), "test": seen & ~calibration}


def _examples(
    frames: Frames,
    splits: np.ndarray,  # (T,)
    shown: Mapping[str, np.ndarray],  # by split, (T, C, H, W) bool
    leads: Sequence[int],
    hide: float,
    seed: int,
    progress: Progress | None,
) -> Iterator[Example]:
    for t, o, lead in pairings(frames, splits, leads):
        target, source = shown[str(splits[o])][o], shown["train"][t]
        if lead == 0:
            second, rest = divmod(round(1e6 * frames.seconds[t]), 10**6)  # what is hidden is told by the time alone
            source = source & ~_hidden(source.any(0), hide, (seed, "hide", second, *([rest] if rest else [])))
            target = target & ~source
        yield paired(frames, splits, t, o, lead, source, target)
        if progress is not None:
            progress("pairing frames", t + 1, len(splits))


def pairings(frames: Frames, splits: np.ndarray, leads: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Source frame, target frame and lead of every pair; none over a gap, none that looks into a higher split."""
    ahead = {lead: frames.rows_at(frames.seconds + lead * frames.every) for lead in leads}
    for t in range(len(splits)):
        for lead in leads:
            o = int(ahead[lead][t])
            if o >= 0 and RANK[splits[t]] <= RANK[splits[o]]:
                yield t, o, lead


def paired(
    frames: Frames,
    splits: np.ndarray,  # (T,)
    t: int,
    o: int,
    lead: int,
    source: np.ndarray,  # (C, H, W) bool
    target: np.ndarray,  # (C, H, W) bool
) -> Example:
    """The example of two frames and what is given and asked of them."""
    return Example(
        *_readings(frames.values[t], source),
        *_readings(frames.values[o], target),
        lead=lead,
        split=str(splits[o]),
        time_source=float(frames.seconds[t]),
        time_target=float(frames.seconds[o]),
        frame_source=t,
        frame_target=o,
    )


def _hidden(read: np.ndarray, share: float, key: tuple[int | str, ...]) -> np.ndarray:  # (H, W) bool -> (H, W) bool
    """Some of the cells that were read, at least one."""
    cells = numpy_generator(*key).permutation(np.flatnonzero(read))
    chosen = cells[: max(1, round(share * len(cells)))]
    return np.isin(np.arange(read.size), chosen).reshape(read.shape)


def _readings(field: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (C, H, W) twice -> cells, values
    cells = np.flatnonzero(mask)
    return cells, field.ravel()[cells]
