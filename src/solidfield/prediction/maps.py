"""Predicted maps as a CF-style xarray.Dataset: what `solid predict` writes and everything after it reads.

Dimensions (member, init_time, lead_time, y, x); per variable its members, mean, standard deviation and quantiles,
which are those of the members, or for `solid-set` and for an image under a transform of the law that members are draws
of (their `long_name` says); with them where the sensors were, how far away the nearest is, and which cells no training
target ever taught the model about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..disk import open_dataset, refuse_existing, save_dataset
from ..errors import SolidError
from ..grid import Grid, axis_attributes, flags
from ..theory.distance import distances_to_sensor
from .ask import quantile_name
from .card import maps_card
from .ensemble import Summary

HISTORY = f"predicted by solidfield {version('solidfield')}"
TIMES = {  # CF's names, and ours
    "init_time": ("forecast_reference_time", "time of the readings"),
    "lead_time": ("forecast_period", "time from the readings to the map"),
    "valid_time": ("time", "time of the map"),
}


class Maps(xr.Dataset):
    """An xarray.Dataset that shows itself in notebooks as maps; all else is xarray's."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        whole = {"init_time", "lead_time"} <= set(self.dims) and "observed" in self and self.sizes["lead_time"] > 0
        return maps_card(self) if whole else super()._repr_html_()


def to_dataset(
    summary: Summary,
    grid: Grid,
    variables: Sequence[str],
    units: Sequence[str],
    observed: np.ndarray,  # (N, C, H, W) bool, M_i
    never_supervised: np.ndarray,  # (C, H, W) bool
    init_time: np.ndarray,  # (N,)
    lead_time: np.ndarray,  # (L,) in the units of init_time, or timedeltas where it holds instants
    examples: Mapping[str, np.ndarray] | None = None,  # (N,) columns that say where a query came from
    attributes: Mapping[str, Any] | None = None,
    given: np.ndarray | None = None,  # (N, C, H, W) readings where observed, in the units of the maps
) -> xr.Dataset:
    y, x = grid.axes
    fields = ("init_time", "lead_time", y, x)
    data: dict[str, Any] = {}
    for c, (name, unit) in enumerate(zip(variables, units, strict=True)):
        about = {"units": unit, "long_name": name}
        if summary.members is not None:
            data[name] = (("member", *fields), summary.members[:, :, :, c], about)
        whose = f"of the {summary.of} of {name}"
        data[f"{name}_mean"] = (fields, summary.mean[:, :, c], about | {"long_name": f"mean {whose}"})
        data[f"{name}_std"] = (
            fields,
            summary.std[:, :, c],
            about | {"long_name": f"standard deviation {whose}"},
        )
        for q, values in summary.quantiles.items():
            data[quantile_name(name, q)] = (
                fields,
                values[:, :, c],
                about | {"long_name": f"quantile {q:g} {whose}", "quantile": q},
            )
        if given is not None:
            read = np.where(observed[:, c], given[:, c], np.nan).astype(np.float32)
            data[f"{name}_given"] = (("init_time", y, x), read, about | {"long_name": f"reading of {name} given"})
    distance = distances_to_sensor(observed, grid.spacing, grid.periodic)
    place = ("init_time", y, x)
    about = {"units": grid.units, "long_name": "distance to the nearest sensor that was read"}
    data["distance_to_sensor"] = (place, distance.astype(np.float32), about)
    by_variable = ("variable",) if len(variables) > 1 else ()  # one variable needs no axis of its own
    data["observed"] = (
        ("init_time", *by_variable, y, x),
        (observed if by_variable else observed[:, 0]).astype(np.int8),
        flags("was a sensor read here?", "not_read", "read"),
    )
    data["never_supervised"] = (
        (*by_variable, y, x),
        (never_supervised if by_variable else never_supervised[0]).astype(np.int8),
        flags("did no training target ever lie here, so that the map is extrapolated?", "taught", "never_taught"),
    )
    domain = grid.inside.astype(np.int8)
    data["domain"] = ((y, x), domain, flags("cells that count", "left_out", "counts"))
    about_y, about_x = axis_attributes(grid)
    said = {name: {"long_name": words} for name, (_, words) in TIMES.items()}
    if np.issubdtype(np.asarray(init_time).dtype, np.datetime64):  # a simulation's own clock has no such names
        said = {name: {"standard_name": standard, **said[name]} for name, (standard, _) in TIMES.items()}
    coordinates: dict[str, Any] = {
        "init_time": ("init_time", init_time, said["init_time"]),
        "lead_time": ("lead_time", lead_time, said["lead_time"]),
        "valid_time": (("init_time", "lead_time"), init_time[:, None] + lead_time[None, :], said["valid_time"]),
        y: (y, grid.y, about_y),
        x: (x, grid.x, about_x),
        **{
            name: ("init_time", column, {"long_name": f"{name.replace('_', ' ')} of the example"})
            for name, column in (examples or {}).items()
        },
    }
    if summary.members is not None:
        about_member = {"standard_name": "realization", "long_name": "member of the ensemble", "units": "1"}
        coordinates["member"] = ("member", np.arange(summary.members.shape[0]), about_member)
    if by_variable:
        coordinates["variable"] = list(variables)
    return Maps(data, coordinates, {"Conventions": "CF-1.8", "history": HISTORY, **(attributes or {})})


def for_file(maps: xr.Dataset) -> xr.Dataset:
    """As CF wants them: the values of an axis grow. Where scenes begin at one time they stand along `scene`."""
    starts = maps["init_time"].values if "init_time" in maps.dims else np.empty(0)
    if (starts[1:] > starts[:-1]).all():
        return maps
    return maps.drop_indexes("init_time").rename_dims(init_time="scene")


def save_maps(maps: xr.Dataset, path: Path) -> None:
    """Write maps to NetCDF (.nc) or Zarr (.zarr); the file is whole or not there.

    Parameters
    ----------
    maps : Dataset
        What `Run.forecast` and its siblings, or `predict_examples`, return.
    path : path
        Where to; a Zarr folder that exists is never written over.

    Returns
    -------
    None

    Raises
    ------
    SolidError
        If the name ends otherwise, or the place cannot be written.

    Examples
    --------
    >>> save_maps(xr.Dataset(), Path("maps.txt"))
    Traceback (most recent call last):
        ...
    solidfield.errors.SolidError: cannot write maps.txt: end the name in .nc (NetCDF) or .zarr
    """
    if path.suffix == ".zarr":
        refuse_existing(path)
    save_dataset(for_file(maps), path)


def ahead(maps: xr.Dataset, position: int) -> float:
    """How far ahead a lead is: seconds where times are instants, else in the simulation's own unit."""
    lead = maps["lead_time"].values[position]
    return float(lead / np.timedelta64(1, "s")) if isinstance(lead, np.timedelta64) else float(lead)


def open_maps(path: Path | str) -> xr.Dataset:
    """Open maps that `save_maps` or `solid predict` wrote; values are read from the file when they are used.

    Parameters
    ----------
    path : path
        A .nc file or a .zarr folder.

    Returns
    -------
    Dataset
        On (member, init_time, lead_time, y, x), with times as instants where they were.

    Raises
    ------
    SolidError
        If there is nothing at `path`, it is damaged, or it holds something else than maps.

    Examples
    --------
    >>> open_maps("nowhere.nc")
    Traceback (most recent call last):
        ...
    solidfield.errors.SolidError: no maps at nowhere.nc; `solid predict` makes them
    """
    path = Path(path)
    if not path.exists():
        raise SolidError(f"no maps at {path}; `solid predict` makes them")
    maps = open_dataset(path, "predict again", decode_timedelta=True)
    if "scene" in maps.dims and "init_time" in maps.coords:
        maps = maps.swap_dims(scene="init_time")
    if "observed" not in maps or "lead_time" not in maps.dims:
        raise SolidError(
            f"{path} holds no maps of solidfield (no `observed`, no `lead_time`); `solid predict` makes them"
        )
    shown = Maps(maps.data_vars, maps.coords, maps.attrs)
    shown.set_close(maps.close)
    return shown
