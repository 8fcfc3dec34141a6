"""What a model is told beside the readings at hand: the calendar, fields given by the user, and the recent past.

    calendar   sin and cos of the hour of day, day of week, season, at the TARGET's time on a local clock
    static     given fields (elevation), interpolated to the cells
    dynamic    given fields that change (wind): the latest not after the SOURCE's time
    history    of each cell and variable the last reading strictly before the source's time, if not older than
               `history` hours: its standardised value, and exp(-age / fade) as its weight; zeros where there is none

Statistics are those of the training frames. `Covariates` is the choice, `Recipe` the choice with its statistics, as
plain JSON: all that is needed to make the same channels for new frames. Strictly earlier also keeps lead 0 honest: a
reading that is hidden to become a target is of the source's own time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import xarray as xr
from pydantic import TypeAdapter

from ..clock import local, zone
from ..errors import SolidError
from ..fields import Target
from ..grid import Grid
from ..readings.axes import frame_times, on_grid, upright
from .scaling import Scaling

CALENDAR = {"hour": ("hour", 24.0), "weekday": ("dayofweek", 7.0), "season": ("day_of_year", 365.25)}
SLACK = 1.0  # seconds by which an age may exceed the window: what a float32 weight loses of it


@dataclass(frozen=True)
class Covariates:
    """What a model is told beside readings; each kind can be left out.

    Parameters
    ----------
    calendar : tuple of str
        Among "hour", "weekday" and "season", at the target's time. Default: the first two; "season" is for records of a
        year or more.
    timezone : str, optional
        Of the calendar, such as "Asia/Kolkata". Default: as the frames say, else UTC.
    history : float
        Hours to look back for the last reading of each cell; 0: none. Default 24.
    fade : float
        Hours after which such a reading weighs 1/e. Default 6.
    static : Dataset, optional
        Fields that stay, such as elevation, by (y, x); interpolated to the cells.
    dynamic : Dataset, optional
        Fields that change, such as wind, by (time, y, x).

    Raises
    ------
    SolidError
        If the calendar has no such entry, or hours are negative.

    Examples
    --------
    >>> Covariates(calendar=("hour",), history=0.0).calendar
    ('hour',)
    """

    calendar: tuple[str, ...] = ("hour", "weekday")  # "season" is for records of a year or more
    timezone: str | None = None  # of the calendar; None: as the frames say, else UTC
    history: float = 24.0  # hours; 0: none
    fade: float = 6.0  # hours after which a reading weighs 1/e
    static: xr.Dataset | None = None
    dynamic: xr.Dataset | None = None

    def __post_init__(self) -> None:
        for name in self.calendar:
            if name not in CALENDAR:
                raise SolidError(f"the calendar has no '{name}'; choose among {', '.join(CALENDAR)}")
        if self.history < 0 or self.fade <= 0:
            raise SolidError(f"history {self.history:g} and fade {self.fade:g} are hours; give 0 or more, and above 0")


@dataclass(frozen=True)
class Recipe:
    """The choice and its statistics."""

    variables: tuple[str, ...]
    calendar: tuple[str, ...]
    timezone: str
    history: float  # hours
    fade: float  # hours
    readings: dict[str, Any]  # the scaling of the history's values
    static: dict[str, tuple[float, float]]  # name -> mean, std
    dynamic: dict[str, tuple[float, float]]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Recipe:
        return TypeAdapter(cls).validate_python(plain)

    def sound(self, variables: int) -> bool:
        """Can this be a recipe for so many variables?"""
        zone(self.timezone)
        spans = 0 <= self.history < np.inf and 0 < self.fade < np.inf
        known = {*self.calendar} <= {*CALENDAR} and len(self.variables) == variables
        return spans and known and Scaling.from_dict(self.readings).sound(variables)

    @property
    def names(self) -> list[str]:  # (E,) of the channels, in their order
        clock = [f"{name}_{wave}" for name in self.calendar for wave in ("sin", "cos")]
        past = [f"{name}_{what}" for what in ("last", "recent") for name in self.variables] if self.history else []
        return [*self.static, *clock, *self.dynamic, *past]

    @property
    def counts(self) -> tuple[int, int, int]:  # static, series, moving: as `channels.py` keeps them
        return len(self.static), 2 * len(self.calendar), len(self.dynamic) + self.past

    @property
    def past(self) -> int:  # channels of the history: the last of `moving`
        return 2 * len(self.variables) if self.history else 0

    @property
    def needs_time(self) -> bool:
        return bool(self.calendar or self.history or self.dynamic)

    def clock(self, times: np.ndarray) -> np.ndarray:  # (T,) datetime64 UTC -> (T, D) float32
        """The calendar: each period as a point on a circle, so that midnight is next to midnight."""
        here = local(times, self.timezone)
        waves = []
        for name in self.calendar:
            field, period = CALENDAR[name]
            day = (here - here.normalize()).total_seconds().to_numpy() / 86400
            phase = day * 24 if name == "hour" else getattr(here, field).to_numpy() + day
            angle = 2 * np.pi * phase / period
            waves += [np.sin(angle), np.cos(angle)]
        return np.stack(waves, axis=1).astype(np.float32) if waves else np.zeros((len(times), 0), np.float32)

    def standard(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:  # (N, C, H, W) -> the same, float32
        """Readings as the history holds them; zeros off the mask."""
        scaling = Scaling.from_dict(self.readings)
        return scaling.standardise(Target.of(torch.from_numpy(values), torch.from_numpy(mask))).values.numpy()

    def fields(
        self,
        dynamic: xr.Dataset | None,
        grid: Grid,
        times: np.ndarray,  # (T,) datetime64, UTC
    ) -> np.ndarray:  # (T, G', H, W) float32
        """The dynamic fields, standardised, each the latest that is not after the time."""
        if not self.dynamic:
            return np.zeros((len(times), 0, *grid.shape), np.float32)
        if dynamic is None:
            names = ", ".join(self.dynamic)
            raise SolidError(f"the model was trained with the changing fields {names}; give them for these frames too")
        return np.stack([_standard(_at(dynamic, n, grid, times), *self.dynamic[n]) for n in self.dynamic], axis=1)


def fit_recipe(
    chosen: Covariates,
    grid: Grid,
    timezone: str,  # where the choice names none
    times: np.ndarray,  # (T,) datetime64: the training frames
    variables: Sequence[str],
    readings: Scaling,  # of the training readings
) -> tuple[Recipe, np.ndarray]:  # and the static fields (S, H, W) float32
    """Statistics over the domain's cells and the training frames."""
    static, dynamic = (xr.Dataset() if fields is None else fields for fields in (chosen.static, chosen.dynamic))
    still = {str(name): on_grid(static[name], grid) for name in static}
    moving = {str(name): _at(dynamic, str(name), grid, times) for name in dynamic}
    zone(chosen.timezone or timezone)
    recipe = Recipe(
        variables=tuple(variables),
        calendar=chosen.calendar,
        timezone=chosen.timezone or timezone,
        history=chosen.history,
        fade=chosen.fade,
        readings=readings.as_dict(),
        static={name: _statistics(name, field[grid.inside]) for name, field in still.items()},
        dynamic={name: _statistics(name, field[:, grid.inside]) for name, field in moving.items()},
    )
    fields = [_standard(field, *recipe.static[name]) for name, field in still.items()]
    return recipe, np.stack(fields) if fields else np.zeros((0, *grid.shape), np.float32)


def _at(fields: xr.Dataset | None, name: str, grid: Grid, times: np.ndarray) -> np.ndarray:  # (T, H, W)
    """A changing field on the cells, at the latest of its times that is not after each of ours."""
    if fields is None or name not in fields or "time" not in fields[name].dims:
        raise SolidError(f"no changing field '{name}' with a time axis was given; give it as (time, y, x)")
    field = upright(fields[name].sortby("time"))
    known = frame_times(field)
    row = np.searchsorted(known, times, side="right") - 1
    if row.min() < 0:
        raise SolidError(f"'{name}' begins at {known[0]}, after the first time {times.min()} it is needed for")
    needed, where = np.unique(row, return_inverse=True)
    return on_grid(field.isel(time=needed), grid)[where]


def _statistics(name: str, values: np.ndarray) -> tuple[float, float]:
    known = values[np.isfinite(values)].astype(np.float64)
    if len(known) == 0:
        raise SolidError(f"the field '{name}' has no value on the grid; check its coordinates or leave it out")
    return float(known.mean()), float(known.std()) or 1.0


def _standard(field: np.ndarray, mean: float, std: float) -> np.ndarray:
    """Standardised; where the field is missing it is taken to be average, which is 0."""
    return np.nan_to_num((field - mean) / std, nan=0.0).astype(np.float32)


@dataclass(frozen=True)
class Past:
    """The last reading of each cell, and when it was taken."""

    values: np.ndarray  # (..., C, H, W) float32, standardised
    when: np.ndarray  # (..., C, H, W) float64, seconds since 1970; -inf where there is none

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Past:  # (..., C, H, W)
        return cls(np.zeros(shape, np.float32), np.full(shape, -np.inf))

    @classmethod
    def of(cls, channels: np.ndarray, now: np.ndarray, recipe: Recipe) -> Past:  # (N, 2 C, H, W), (N,) seconds
        """Back from channels, where a store holds nothing else."""
        values, weight = np.split(channels, 2, axis=1)
        with np.errstate(divide="ignore"):
            age = -3600 * recipe.fade * np.log(weight.astype(np.float64))
        return cls(values, now[:, None, None, None] - age)

    def read(self, values: np.ndarray, mask: np.ndarray, now: np.ndarray | float) -> Past:
        """After readings (..., C, H, W), standardised, at a time (...,) or one for all."""
        at = np.asarray(now, dtype=np.float64)[..., None, None, None]
        return Past(np.where(mask, values, self.values), np.where(mask, at, self.when))

    def channels(self, now: np.ndarray | float, recipe: Recipe) -> np.ndarray:  # (..., 2 C, H, W) float32
        age = np.asarray(now, dtype=np.float64)[..., None, None, None] - self.when
        fresh = age <= 3600 * recipe.history + SLACK
        weight = np.where(fresh, np.exp(-np.where(fresh, age, 0.0) / (3600 * recipe.fade)), 0.0)
        return np.concatenate([np.where(fresh, self.values, 0.0), weight], axis=-3).astype(np.float32)

    def __getitem__(self, rows: Any) -> Past:
        return replace(self, values=self.values[rows], when=self.when[rows])
