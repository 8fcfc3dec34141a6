"""Frames as a record: every reading once, on every tick of the clock from the first frame to the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..clock import from_seconds
from ..keys import numpy_generator
from ..questions.record import SPLITS, Record
from .covariates import Covariates, Recipe, fit_recipe
from .frames import Frames
from .holdout import Holdout
from .scaling import Scaling

ASIDE, FEWEST = 0.15, 12  # share of the places that are set aside, where there are so many


def record_recipe(frames: Frames, told: Covariates) -> tuple[Recipe, np.ndarray]:  # and static fields (S, H, W)
    """What is told beside readings to a model that looks on the record itself, and so needs no history."""
    count = len(frames.variables)
    plain = Scaling((0.0,) * count, (1.0,) * count)
    told = replace(told, history=0.0)
    return fit_recipe(told, frames.grid, frames.timezone, frames.times, frames.variables, plain)


def record_of(
    frames: Frames,
    recipe: Recipe | None = None,  # of calendar and static fields; None: nothing is told beside the readings
    static: np.ndarray | None = None,  # (S, H, W)
    holdout: Holdout | None = None,  # None: all frames are of the last split, to be asked about
    ahead: int = 0,  # ticks beyond the last frame, for forecasts
) -> Record:
    """The readings of frames, in physical units."""
    seconds = frames.seconds
    tick = np.round((seconds - seconds[0]) / frames.every).astype(np.int64)
    count = int(tick[-1]) + 1 + ahead
    times = from_seconds(seconds[0] + frames.every * np.arange(count))
    seen = np.isfinite(frames.values)
    split = np.full(count, len(SPLITS) - 1, np.int8)
    if holdout is not None:
        split = np.array([SPLITS.index(name) for name in holdout.splits(times)], np.int8)
    row, cell = np.nonzero(seen.reshape(len(seen), -1))
    values = frames.values.reshape(len(seen), -1)[row, cell]
    return Record(
        frames.grid,
        frames.variables,
        np.concatenate([[0], np.cumsum(np.bincount(tick[row], minlength=count))]),
        cell.astype(np.int64),
        values,
        split,
        np.zeros(count, np.int32),
        None if frames.errors is None else frames.errors.reshape(len(seen), -1)[row, cell],
        None if recipe is None else recipe.clock(times),
        static if static is not None and len(static) else None,
        float(seconds[0]),
        frames.every,
        frames.units,
    )


def without_held(record: Record, held: Mapping[str, np.ndarray]) -> Record:  # of (H, W) bool
    """What training and conditioning may see: no reading of a held cell."""
    away = np.logical_or.reduce([np.zeros(record.grid.shape, bool), *held.values()])
    return record.without(np.flatnonzero(away.ravel()[record.cells % record.grid.cells]))


def set_aside(record: Record) -> Record:
    """Some places, from a dozen on, that training never takes for unread: how wide to be there is learned at them."""
    places = record.places
    if len(places) < FEWEST:
        return record
    blocks = np.unique(record.block(places))
    chosen = numpy_generator(0, "set aside").permutation(blocks)[: round(ASIDE * len(blocks))]
    aside = np.isin(record.block(np.arange(record.grid.cells)), chosen)
    return replace(record, aside=aside.reshape(record.grid.shape))


def kept_readings(record: Record, held: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The readings of a run as tensors, held-out ones included, and which cells were held."""
    parts = {name: getattr(record, name) for name in ("offsets", "cells", "values", "split", "errors", "calendar")}
    masks = {f"held.{name}": mask for name, mask in held.items()}
    arrays = {name: value for name, value in (parts | masks).items() if value is not None}
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}


def readings_kept(
    tensors: Mapping[str, Tensor], about: Mapping[str, Any]
) -> tuple[Record, dict[str, np.ndarray]]:  # and the held cells, (H, W) bool
    """What `kept_readings` gave; `about`: what a run's own record says: grid, variables, units, start, step."""
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    held = {name.removeprefix("held."): mask for name, mask in arrays.items() if name.startswith("held.")}
    parts: dict[str, Any] = {name: array for name, array in arrays.items() if not name.startswith("held.")}
    return Record(stretch=np.zeros(len(parts["split"]), np.int32), **parts, **about), held
