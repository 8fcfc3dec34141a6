"""Questions about stretches of time: a mean, a maximum, the first time above a threshold. Every answer is a member's.

A member is one possible course of the whole map, so what is computed along its leads is one possible answer, and the
spread of the members' answers counts how hours vary together. With n steps in the span asked for:

    mean         (1 / n) sum of the n values up to each lead
    max          the largest of the n values up to each lead
    first_above  the first lead from which on the value is above a threshold for n steps in a row
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..clock import Clock, span
from ..errors import SolidError
from .ask import QUANTILES, summarised, variables_of

HOWS = ("mean", "max", "first_above")


def over_time(
    maps: xr.Dataset,
    how: str,
    over: str | float | None = None,
    above: float | None = None,
    quantiles: Sequence[float] = QUANTILES,
) -> xr.Dataset:
    """Answer for stretches of time, from the members of maps at several leads.

    Parameters
    ----------
    maps : Dataset
        Maps of `Run.forecast` or `Run.assimilate` with their members, or an answer of `at` or `area_mean`.
    how : str
        "mean" or "max" of the stretch that ends at each lead; or "first_above".
    over : str or float, optional
        Length of the stretch: "6h", or in seconds. Default: all leads; for "first_above" one step.
    above : float, optional
        The threshold of "first_above", in the units of the variable.
    quantiles : sequence of float
        To compute beside mean and standard deviation. Default: 0.05, 0.25, 0.5, 0.75, 0.95.

    Returns
    -------
    Dataset
        For "mean" and "max" each variable as in the maps, on the leads that end a whole stretch, with `_mean`, `_std`
        and quantiles. For "first_above" each variable on (member, init_time, ...): the lead, in hours or the
        simulation's own unit, NaN where it never happens; `_chance` is the share of members in which it does.

    Raises
    ------
    SolidError
        If the maps hold no members, the stretch is longer than the leads or no number of steps, or no threshold is
        given.

    Examples
    --------
    >>> fields = ("member", "init_time", "lead_time", "lat", "lon")
    >>> hours = np.arange(1, 4).astype("timedelta64[h]").astype("timedelta64[ns]")
    >>> values = np.array([[1.0, 2.0, 6.0], [3.0, 5.0, 4.0]]).reshape(2, 1, 3, 1, 1)
    >>> maps = xr.Dataset({"pm": (fields, values)}, {"lead_time": hours, "lat": [0.0], "lon": [0.0]})
    >>> over_time(maps, "mean", "2h")["pm"].values.ravel().tolist()
    [1.5, 4.0, 4.0, 4.5]
    >>> over_time(maps, "first_above", "2h", above=3.5)["pm_chance"].values.ravel().tolist()
    [0.5]
    """
    if how not in HOWS:
        raise SolidError(f"cannot answer '{how}' over time; choose one of {', '.join(HOWS)}")
    if (above is not None) != (how == "first_above"):
        raise SolidError("'first_above' needs a threshold, and nothing else takes one; give 'above' for it alone")
    leads = maps["lead_time"].values
    n = 1 if over is None and how == "first_above" else len(leads) if over is None else _steps(maps, over)
    if above is not None:
        return _first_above(maps, n, above)
    reduced = {}
    for name in variables_of(maps):
        window = np.lib.stride_tricks.sliding_window_view(
            maps[name].values, n, axis=maps[name].get_axis_num("lead_time")
        )
        values = window.mean(-1) if how == "mean" else window.max(-1)
        reduced[name] = (maps[name].dims, values, maps[name].attrs)
    whole = maps.isel(lead_time=slice(n - 1, None))
    drop = [name for name in whole.data_vars if "lead_time" in whole[name].dims]
    stretch = f"{how} over {_words(leads, n)}"
    about = {"over_time": how, "over_steps": n, "stretch": stretch}
    if "title" in maps.attrs:
        about["title"] = f"{maps.attrs['title']}: {stretch}"
    return summarised(whole.drop_vars(drop).assign(reduced), quantiles).assign_attrs(about)


def _steps(maps: xr.Dataset, over: str | float) -> int:
    """How many leads a stretch holds; of means over n steps the first lead is the n-th."""
    leads = maps["lead_time"].values
    dated = np.issubdtype(leads.dtype, np.timedelta64)
    lead = leads / np.timedelta64(1, "s") if dated else leads.astype(float)
    length = span(over) if dated else float(over)
    step = lead[1] - lead[0] if len(lead) > 1 else lead[0] / maps.attrs.get("over_steps", 1) or length
    n = round(length / step)
    if n < 1 or abs(n * step - length) > 1e-6 * step or n > len(lead):
        raise SolidError(
            f"a stretch of {over} is not 1 to {len(lead)} steps of {Clock(round(1e9 * step)).words if dated else step}"
            f"{' (whole stretches alone are left)' if 'over_steps' in maps.attrs else ''}; "
            "ask for such a stretch, or for more steps ahead"
        )
    return n


def _words(leads: np.ndarray, n: int) -> str:  # (L,)
    """A stretch of n leads: "3h", or steps of a simulation."""
    if len(leads) < 2 or not np.issubdtype(leads.dtype, np.timedelta64):
        return f"{n} step{'s' if n > 1 else ''}"
    return Clock(n * int((leads[1] - leads[0]) / np.timedelta64(1, "ns"))).words


def _first_above(maps: xr.Dataset, n: int, above: float) -> xr.Dataset:
    leads = maps["lead_time"].values
    dated = np.issubdtype(leads.dtype, np.timedelta64)
    hours = leads / np.timedelta64(1, "h") if dated else leads.astype(float)
    found: dict[str, Any] = {}
    for name in variables_of(maps):
        field = maps[name].transpose(..., "lead_time")
        high = np.lib.stride_tricks.sliding_window_view(field.values > above, n, axis=-1).all(-1)
        ever = high.any(-1)
        dims = field.dims[:-1]
        known = field.notnull().all("lead_time").values
        first = np.where(ever, hours[high.argmax(-1)], np.nan)
        units = {"units": "h" if dated else "", "long_name": f"first time {name} is above {above:g}"}
        found[name] = (dims, np.where(known, first, np.nan), units)
        chance = xr.DataArray(np.where(known, ever, np.nan), dims=dims).mean("member", skipna=False)
        found[f"{name}_chance"] = chance.assign_attrs(units="1")
    coordinates = {name: value for name, value in maps.coords.items() if "lead_time" not in value.dims}
    return xr.Dataset(found, coordinates, maps.attrs | {"over_time": "first_above", "over_steps": n, "above": above})
