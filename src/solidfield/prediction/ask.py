"""Questions to an ensemble of maps: at a place, in an area, above a threshold. Every answer comes from the members.

A member is one possible state of the whole map, so anything computed from it (an interpolated value, a mean over an
area) is one possible answer, and the spread of the members' answers is its uncertainty, dependence between cells
included:

    at(p)^(k)    = sum_c b_c(p) Q_c(r_k)           bilinear weights b of the four cells around p, Q_c their quantiles,
                                                   r_k the rank of sum_c b_c(p) U^(k)(c) among all k
    area^(k)     = sum_c w_c U^(k)(c) / sum_c w_c  w: share of the cell in the area, times cos(lat) on degrees
    P(U > u)     = (members above u) / K

Between cells quantiles are averaged, not members: what is particular to each of four cells would cancel in their mean,
and a place between them would seem to be known better than any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..errors import SolidError
from ..grid import Bounds, nearest_turn
from ..readings.areas import area_weights, share_within
from ..readings.axes import axes_of

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of maps and of answers, unless others are asked for
Area = np.ndarray | str | Path | Mapping[str, Any]  # (H, W) weights, or GeoJSON: a file or its content


def quantile_name(variable: str, q: float) -> str:
    """What maps and answers call a quantile.

    >>> quantile_name("pm", 0.05)
    'pm_q05'
    """
    return f"{variable}_q{100 * q:02.0f}"


def variables_of(maps: xr.Dataset) -> list[str]:
    """The predicted variables, whose members the maps must hold."""
    names = [str(name) for name, field in maps.data_vars.items() if "member" in field.dims]
    if not names:
        raise SolidError("these maps hold no members, from which every answer comes; predict with members kept")
    return names


def at(
    maps: xr.Dataset,
    lat: float | Sequence[float] | np.ndarray,
    lon: float | Sequence[float] | np.ndarray,
    quantiles: Sequence[float] = QUANTILES,
) -> xr.Dataset:  # dims (member, init_time, lead_time, point)
    """Answer for places on the map: quantiles bilinear between cell centres, at an edge the cell's own to its border.

    Cells outside the domain have no say; a place with none of its four cells inside it is NaN.

    Parameters
    ----------
    maps : Dataset
        Maps with their members.
    lat, lon : float or sequence of float
        Places along the maps' y and x axes, in the units of those: degrees, for maps of readings.
    quantiles : sequence of float
        To compute beside mean and standard deviation. Default: 0.05, 0.25, 0.5, 0.75, 0.95.

    Returns
    -------
    Dataset
        Each variable on (member, init_time, lead_time, point), with `_mean`, `_std` and quantiles such as `_q05`.

    Raises
    ------
    SolidError
        If a place is off the map, or the maps hold no members.

    Examples
    --------
    >>> fields = ("member", "init_time", "lead_time", "lat", "lon")
    >>> values = np.arange(8.0).reshape(2, 1, 1, 2, 2)
    >>> maps = xr.Dataset({"pm": (fields, values)}, {"lat": [0.0, 1.0], "lon": [0.0, 1.0]})
    >>> at(maps, 0.5, 0.5)["pm"].values.ravel().tolist()
    [1.5, 5.5]
    """
    y, x = axes_of(maps)
    lat, lon = np.broadcast_arrays(np.atleast_1d(np.asarray(lat, float)), np.atleast_1d(np.asarray(lon, float)))
    if y.lower().startswith("lat"):
        lon = nearest_turn(lon, float(maps[x].values.mean()))  # 181 and -179 are one place
    rows, high = _between(maps[y].values, lat, y)  # (P, 2) cells, (P,) share of the upper one
    columns, right = _between(maps[x].values, lon, x)
    share = np.stack([1 - high, high], 1)[:, :, None] * np.stack([1 - right, right], 1)[:, None, :]  # (P, 2, 2)
    inside = maps["domain"].values.astype(bool) if "domain" in maps else np.ones((maps.sizes[y], maps.sizes[x]), bool)
    share = np.where(inside[rows[:, :, None], columns[:, None, :]], share, 0.0)
    total = share.sum((1, 2))
    weight = np.divide(share, total[:, None, None], out=np.full_like(share, np.nan), where=total[:, None, None] > 0)
    answers = {}
    for name in variables_of(maps):
        corners = maps[name].transpose(..., y, x).values[..., rows[:, :, None], columns[:, None, :]]  # (..., P, 2, 2)
        corners = np.where(weight == 0, 0.0, corners)
        rank = (corners * weight).sum((-2, -1)).argsort(0, kind="stable").argsort(0, kind="stable")
        value = np.take_along_axis((np.sort(corners, 0) * weight).sum((-2, -1)), rank, 0)
        answers[name] = (("member", "init_time", "lead_time", "point"), value, maps[name].attrs)
    places = {y: ("point", lat), x: ("point", lon)}
    return summarised(xr.Dataset(answers, _times(maps) | places, maps.attrs), quantiles)


def _between(
    centres: np.ndarray,  # (n,) ascending
    places: np.ndarray,  # (P,)
    axis: str,
) -> tuple[np.ndarray, np.ndarray]:  # (P, 2) the cells around each place, (P,) the share of the second
    half = (centres[1] - centres[0]) / 2 if len(centres) > 1 else np.inf
    outside = (places < centres[0] - half) | (places > centres[-1] + half) | ~np.isfinite(places)
    if outside.any():
        raise SolidError(
            f"{axis} {places[outside][0]:g} is off the map, which covers "
            f"{centres[0] - half:g} to {centres[-1] + half:g}"
        )
    position = np.interp(places, centres, np.arange(len(centres)))
    low = np.floor(position).astype(int).clip(max=max(len(centres) - 2, 0))
    return np.stack([low, np.minimum(low + 1, len(centres) - 1)], 1), position - low


def exceedance(
    maps: xr.Dataset, above: float | Sequence[float], variable: str | None = None
) -> xr.DataArray:  # (threshold, ...) the rest as the variable without its members
    """Give the probability that a variable is above each threshold: the share of the members that are.

    Parameters
    ----------
    maps : Dataset
        Maps with their members, or an answer of `at` or `area_mean`.
    above : float or sequence of float
        Thresholds in the units of the variable.
    variable : str, optional
        Which one. Default: the first.

    Returns
    -------
    DataArray
        Probabilities on (threshold, ...), the rest as the variable without its members.

    Raises
    ------
    SolidError
        If the maps hold no members of that variable.

    Examples
    --------
    >>> fields = ("member", "init_time", "lead_time", "lat", "lon")
    >>> maps = xr.Dataset({"pm": (fields, np.arange(4.0).reshape(4, 1, 1, 1, 1))}, {"lat": [0.0], "lon": [0.0]})
    >>> exceedance(maps, [0.5, 2.5]).values.ravel().tolist()
    [0.75, 0.25]
    """
    name = variable or variables_of(maps)[0]
    if name not in variables_of(maps):
        raise SolidError(f"the maps hold no members of '{name}'; they have {', '.join(variables_of(maps))}")
    levels = np.atleast_1d(np.asarray(above, dtype=float))
    field = maps[name]
    shares = [(field > level).mean("member").where(field.notnull().all("member")) for level in levels]
    units = field.attrs.get("units", "")
    about = {"long_name": f"probability that {name} is above the threshold", "units": "1", "threshold_units": units}
    axis = xr.DataArray(levels, dims="threshold", name="threshold", attrs={"units": units, "long_name": "threshold"})
    return xr.concat(shares, axis).rename(f"{name}_exceedance").assign_attrs(about)


def area_mean(
    maps: xr.Dataset, area: Area, quantiles: Sequence[float] = QUANTILES
) -> xr.Dataset:  # dims (member, init_time, lead_time)
    """Answer for the mean over an area: that of every member, so that the spread counts how cells vary together.

    Parameters
    ----------
    maps : Dataset
        Maps with their members.
    area : array, path or mapping
        (H, W) weights of the cells, or GeoJSON in (lon, lat): a file or its content.
    quantiles : sequence of float
        To compute beside mean and standard deviation. Default: 0.05, 0.25, 0.5, 0.75, 0.95.

    Returns
    -------
    Dataset
        Each variable on (member, init_time, lead_time), with `_mean`, `_std` and quantiles; `cells` counts the cells,
        and `covered` is the share of the area that lies on the map.

    Raises
    ------
    SolidError
        If the area holds no cell of the map, or the maps hold no members.

    Examples
    --------
    >>> fields = ("member", "init_time", "lead_time", "lat", "lon")
    >>> values = np.arange(8.0).reshape(2, 1, 1, 2, 2)
    >>> maps = xr.Dataset({"pm": (fields, values)}, {"lat": [0.0, 1.0], "lon": [0.0, 1.0]})
    >>> area_mean(maps, np.array([[1.0, 1.0], [0.0, 0.0]]))["pm"].values.ravel().tolist()
    [0.5, 4.5]
    """
    y, x = axes_of(maps)
    covered = 1.0
    if isinstance(area, np.ndarray):
        inside = area
    else:
        inside = area_weights(area, maps[y].values, maps[x].values, y.lower().startswith("lat"))
        covered = share_within(area, _edges(maps[y].values, maps[x].values), y.lower().startswith("lat"))
    if inside.shape != (maps.sizes[y], maps.sizes[x]):
        raise SolidError(f"area weights have shape {inside.shape}, the maps {(maps.sizes[y], maps.sizes[x])}; as one")
    weights = np.asarray(inside, dtype=np.float64)
    if y.lower().startswith("lat"):
        weights = weights * np.cos(np.deg2rad(maps[y].values))[:, None]  # meridians meet: cells shrink to the poles
    if "domain" in maps:
        weights = np.where(maps["domain"].values.astype(bool), weights, 0.0)
    if not weights.min() >= 0 or not weights.sum() > 0:
        raise SolidError("the area holds no cell of the map, or a negative weight; check its coordinates (lon, lat)")
    here = weights > 0
    answers = {
        name: (
            ("member", "init_time", "lead_time"),
            maps[name].transpose(..., y, x).values[..., here].astype(np.float64) @ (weights[here] / weights.sum()),
            maps[name].attrs,
        )
        for name in variables_of(maps)
    }
    answer = summarised(xr.Dataset(answers, _times(maps), maps.attrs), quantiles)
    return answer.assign_attrs(cells=int(here.sum()), covered=covered)


def _edges(lat: np.ndarray, lon: np.ndarray) -> Bounds:
    """Of the map: half a cell beyond its centres, and a hair, for edges that are the same."""
    (dy, dx) = (0.5001 * (axis[1] - axis[0]) if len(axis) > 1 else np.inf for axis in (lat, lon))
    return float(lat[0] - dy), float(lon[0] - dx), float(lat[-1] + dy), float(lon[-1] + dx)


def _times(maps: xr.Dataset) -> dict[str, Any]:
    return {name: maps[name] for name in ("member", "init_time", "lead_time", "valid_time") if name in maps.coords}


def summarised(answer: xr.Dataset, quantiles: Sequence[float]) -> xr.Dataset:
    """Mean, standard deviation and quantiles beside the members."""
    for name in variables_of(answer):
        field = answer[name]
        answer[f"{name}_mean"] = field.mean("member", skipna=False)
        answer[f"{name}_std"] = field.std("member", ddof=1 if field.sizes["member"] > 1 else 0, skipna=False)
        for q in quantiles:
            answer[quantile_name(name, q)] = field.quantile(q, "member", skipna=False).drop_vars("quantile")
    return answer
