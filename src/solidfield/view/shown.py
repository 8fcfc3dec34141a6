"""What the page may ask of one file of maps: a layer at a time, the law at a place, the law of an area's mean.

Nothing is read before it is asked for, and then only the cells, times and members of the question: a layer is

    mean, std, member:k        as stored, or from the members
    q:p                        the p-quantile of the members in each cell
    above:u                    the share of the members above u
    given, read                what was read at the start, and at the time of the map itself
    distance, never, domain    to the nearest sensor; cells no reading ever taught; cells that count

Times are counted along init_time (n) and lead_time (l). A chart runs along the leads, or along the starts where there
is but one lead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from ..disk import plain
from ..errors import SolidError
from ..grid import Bounds
from ..prediction.ask import QUANTILES, area_mean, at, quantile_name
from ..prediction.card import about_zero
from ..prediction.export import REDUCED
from ..readings.areas import area_weights
from ..readings.axes import axes_of
from .sensors import Sensors, cell_of

BLOCK = 4_000_000  # values of members that are held at once
STRETCH = 32  # times of a chart that one request may ask for
UPRIGHT = slice(None, None, -1)  # an axis from north to south, turned
LOOKS = 12  # times that the colour scale is made of
EXTRAS = {  # layers that are stored as they are
    "observed": "observed",
    "distance": "distance_to_sensor",
    "never": "never_supervised",
    "domain": "domain",
}
REDUCTIONS = {"mean": "mean", "std": "spread", "q": "quantile", "above": "chance"}  # what `export` calls them

Layer = Callable[[np.ndarray], np.ndarray]  # (K, rows, W) -> (rows, W)


class Shown:
    """One opened file of maps, or maps in memory, with what was read."""

    def __init__(self, maps: xr.Dataset, name: str, sensors: Sensors | None = None):
        self.y, self.x = axes_of(maps)
        self.maps = maps.isel({axis: UPRIGHT for axis in (self.y, self.x) if maps[axis][0] > maps[axis][-1]})
        self.name, self.sensors = name, sensors
        self.variables = [str(each).removesuffix("_mean") for each in maps.data_vars if str(each).endswith("_mean")]
        if not self.variables:
            raise SolidError(f"{name} holds no map of a mean; `solid predict` makes maps")
        self.members = int(maps.sizes.get("member", 0)) if self.variables[0] in maps else 0
        self.starts, self.leads = int(maps.sizes["init_time"]), int(maps.sizes["lead_time"])
        self._recent: tuple[Any, np.ndarray] | None = None

    @property
    def along(self) -> str:
        """The axis of time of a chart."""
        return "lead_time" if self.leads > 1 else "init_time"

    @property
    def bounds(self) -> Bounds:
        """South, west, north, east, of cells on the Earth."""
        if not self.geographic:
            raise SolidError(f"{self.name} lies on no coast: its axes are {self.y} and {self.x}, not lat and lon")
        y, x = self.maps[self.y].values, self.maps[self.x].values
        return float(y[0]), float(x[0]), float(y[-1]), float(x[-1])

    @property
    def geographic(self) -> bool:
        return self.y.lower().startswith("lat")

    @cached_property
    def about(self) -> dict[str, Any]:
        """All that the page must know before it draws, as plain JSON."""
        return {
            "name": self.name,
            "title": str(self.maps.attrs.get("title", "")),
            "members": self.members,
            "variables": [self._variable(name) for name in self.variables],
            "y": self.maps[self.y].values.astype(float).round(10).tolist(),
            "x": self.maps[self.x].values.astype(float).round(10).tolist(),
            "axes": [self.y, self.x],
            "units": str(self.maps[self.y].attrs.get("units", "")),
            "geographic": self.geographic,
            "times": self._times(),
            "has": self._has(),
            "sensors": [] if self.sensors is None else self.sensors.named(),
        }

    def _has(self) -> list[str]:
        """Which layers there are beside those of the law."""
        known = self.sensors is not None
        given = ["given"] if known or f"{self.variables[0]}_given" in self.maps else []
        read = ["read"] if known or "read" in self.maps else []
        return [*(name for name, key in EXTRAS.items() if key in self.maps), *given, *read]

    def _variable(self, name: str) -> dict[str, Any]:
        about = self.maps[f"{name}_mean"].attrs
        quantiles = [q for q in QUANTILES if quantile_name(name, q) in self.maps]
        field, spread = self._limits(name)
        return {
            "name": name,
            "units": str(about.get("units", "")) or ("" if self.sensors is None else self.sensors.units(name)),
            "spread": self._has_spread(name),
            "quantiles": quantiles,
            "field": field,
            "spread_limits": spread,
        }

    def _has_spread(self, name: str) -> bool:
        return f"{name}_std" in self.maps or self.members > 0

    def _limits(self, name: str) -> tuple[list[float], list[float]]:
        """Of the colours, the same for all times: percentiles over some of them, so that no cell alone sets them."""
        places = np.unique(np.linspace(0, self.starts * self.leads - 1, LOOKS).astype(int))
        times = [divmod(int(place), self.leads) for place in places]
        layers = ["mean", *(f"member:{k}" for k in range(min(self.members, 3)))]
        values = np.stack([self.frame(name, layer, *time) for time in times for layer in layers])
        spread = np.stack([self.frame(name, "std", *time) for time in times]) if self._has_spread(name) else np.zeros(0)
        low, high, _ = about_zero(*_percentiles(values, 1, 99))
        return [low, high], [0.0, _percentiles(spread, 0, 99.5)[1]]

    def _times(self) -> dict[str, Any]:
        start, lead = self.maps["init_time"].values, self.maps["lead_time"].values
        clock = np.issubdtype(start.dtype, np.datetime64)
        if not clock:
            return {"clock": False, "start": plain(start), "lead": plain(lead)}
        milliseconds = start.astype("datetime64[ms]").astype(np.int64).tolist()
        return {"clock": True, "start": milliseconds, "lead": (lead / np.timedelta64(1, "ms")).tolist()}

    def frame(self, variable: str, layer: str, start: int, lead: int, count: int = 1) -> np.ndarray:
        """A layer of one time on all cells, (H, W) float32; of `count` members from one on, (count, H, W)."""
        if variable not in self.variables or not (0 <= start < self.starts and 0 <= lead < self.leads):
            raise SolidError(f"no map of {variable} at start {start} and lead {lead}; ask for one that there is")
        if layer in ("given", "read"):
            return self._readings(variable, layer, start, lead)
        if layer in EXTRAS:
            return self._extra(EXTRAS[layer], variable, start)
        kind, _, detail = layer.partition(":")
        time = {"init_time": start, "lead_time": lead}
        stored = quantile_name(variable, _number(detail, 0, 1)) if kind == "q" else f"{variable}_{kind}"
        exact = kind != "q" or any(abs(float(detail) - q) < 1e-9 for q in QUANTILES)
        if exact and stored in self.maps:
            return self._read(self.maps[stored].isel(time))
        if not self.members:
            raise SolidError(f"{self.name} holds no members, so it has no {kind}; predict with members kept")
        members = self.maps[variable].isel(time)
        if kind == "member":
            first = int(_number(detail, 0, self.members - 1))
            block = self._read(members.isel(member=slice(first, first + max(count, 1))))
            return block if count > 1 else block[0]
        if kind not in REDUCTIONS:
            raise SolidError(f"no layer '{layer}'; choose mean, std, q:0.9, member:0 or above:60")
        how, number = REDUCED[REDUCTIONS[kind]], _number(detail) if detail else 0.0
        return self._reduced(members, lambda x: how(x, number), (variable, start, lead))

    def _reduced(self, members: xr.DataArray, reduce: Layer, key: Any) -> np.ndarray:  # (H, W)
        """A number for each cell from all members, some rows at a time; small maps are kept for the next question."""
        rows = max(1, BLOCK // (self.members * members.sizes[self.x]))
        if rows >= members.sizes[self.y]:
            recent = self._recent  # once: requests come from several threads
            if recent is None or recent[0] != key:
                self._recent = recent = (key, self._read(members))
            return reduce(recent[1]).astype(np.float32)
        parts = [members.isel({self.y: slice(r, r + rows)}) for r in range(0, members.sizes[self.y], rows)]
        return np.concatenate([reduce(self._read(part)) for part in parts]).astype(np.float32)

    def _read(self, field: xr.DataArray) -> np.ndarray:
        return np.ascontiguousarray(field.transpose(..., self.y, self.x).values, dtype=np.float32)

    def _readings(self, variable: str, layer: str, start: int, lead: int) -> np.ndarray:  # (H, W), NaN = not read
        if layer == "given" and f"{variable}_given" in self.maps:
            return self._read(self.maps[f"{variable}_given"].isel(init_time=start))
        if layer == "read" and "read" in self.maps:  # of assimilation: every member holds the reading there
            seen = self._read(self.maps["read"].isel(init_time=start, lead_time=lead)) > 0
            return np.where(seen, self.frame(variable, "mean", start, lead), np.float32(np.nan))
        if self.sensors is None:
            raise SolidError(f"{self.name} holds no readings; give them with --readings")
        time = self.maps["init_time"].values[start]
        if layer == "read":
            return self.sensors.frame(variable, time + self.maps["lead_time"].values[lead])
        observed = self._extra("observed", variable, start) > 0
        return np.where(observed, self.sensors.frame(variable, time), np.float32(np.nan))

    def _extra(self, name: str, variable: str, start: int) -> np.ndarray:
        if name not in self.maps:
            raise SolidError(f"{self.name} holds no {name}")
        field = self.maps[name]
        if "variable" in field.dims:
            field = field.sel(variable=variable)
        return self._read(field.isel(init_time=start) if "init_time" in field.dims else field)

    def place(
        self, variable: str, y: float, x: float, start: int, first: int, above: float | None = None
    ) -> dict[str, Any]:
        """The law at a place for a stretch of times, and what was read in its cell."""
        row, column = cell_of(self.maps, y, x)
        near = {self.y: slice(max(row - 1, 0), row + 2), self.x: slice(max(column - 1, 0), column + 2)}
        maps = self._stretch(variable, start, first).isel(near)
        law = at(maps, y, x, ()).isel(point=0) if self.members else maps.sel({self.y: y, self.x: x}, method="nearest")
        read = None if self.sensors is None else self.sensors.series(variable, row, column)
        return self._law(law, variable, first, above) | {"cell": [row, column], "read": read}

    def area(
        self, variable: str, ring: list[list[float]], start: int, first: int, above: float | None = None
    ) -> dict[str, Any]:
        """The law of the mean over a polygon, whose corners are (x, y), for a stretch of times."""
        shape = {"type": "Polygon", "coordinates": [ring]}
        weights = area_weights(shape, self.maps[self.y].values, self.maps[self.x].values)  # (H, W)
        rows, columns = np.nonzero(weights.any(1))[0], np.nonzero(weights.any(0))[0]
        if not len(rows):
            raise SolidError("the area holds no cell of the map; draw it over the map")
        box = {self.y: slice(rows[0], rows[-1] + 1), self.x: slice(columns[0], columns[-1] + 1)}
        maps = self._stretch(variable, start, first).isel(box)
        mean = area_mean(maps, weights[box[self.y], box[self.x]], ())
        return self._law(mean, variable, first, above) | {"cells": mean.attrs["cells"]}

    def _stretch(self, variable: str, start: int, first: int) -> xr.Dataset:
        """The maps of one variable at some times; no value is read yet."""
        wanted = [name for name in self.maps.data_vars if str(name) == variable or str(name).startswith(f"{variable}_")]
        some = self.maps[[*wanted, *(["domain"] if "domain" in self.maps else [])]]
        fixed = {} if self.along == "init_time" else {"init_time": [start]}
        return some.isel({self.along: slice(first, first + STRETCH), **fixed})

    def _law(self, law: xr.Dataset, variable: str, first: int, above: float | None) -> dict[str, Any]:
        """Of a place or an area along the times: from its members, else as stored."""
        names = {str(q): quantile_name(variable, q) for q in QUANTILES}
        if not self.members:
            stored = {q: plain(law[name].values.ravel()) for q, name in names.items() if name in law}
            return {"first": first, "mean": plain(law[f"{variable}_mean"].values.ravel()), "quantiles": stored}
        members = law[variable].transpose("member", ...).values.reshape(self.members, -1)  # (K, T)
        rows = dict(zip(names, map(plain, np.quantile(members, QUANTILES, axis=0)), strict=True))
        found = {"first": first, "mean": plain(members.mean(0)), "quantiles": rows}
        if above is not None:
            found["above"] = plain(np.where(np.isnan(members).any(0), np.nan, (members > above).mean(0)))
        return found


def _percentiles(values: np.ndarray, low: float, high: float) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    least, most = (float(v) for v in np.percentile(known, [low, high]))
    return least, most if most > least else least + 1.0


def _number(text: str, low: float = -np.inf, high: float = np.inf) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not low <= number <= high:
        raise SolidError(f"'{text[:20]}' is not a number from {low:g} to {high:g}")
    return number


def plain_request(query: Mapping[str, str]) -> dict[str, Any]:
    """The numbers of a question from its text."""
    found: dict[str, Any] = {"variable": query.get("variable", "")}
    found |= {name: int(_number(query.get(name, "0"), 0, 1e9)) for name in ("start", "lead", "first", "count")}
    found |= {name: _number(query.get(name, "0")) for name in ("y", "x")}
    return found | {"above": _number(query["above"]) if query.get("above") else None}
