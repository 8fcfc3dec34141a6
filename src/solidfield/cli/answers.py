"""What `solid predict` prints beside the maps: values at places, means of areas, chances of a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..clock import as_text, local
from ..errors import SolidError
from ..grid import Grid
from ..prediction.ask import area_mean, at, exceedance, variables_of
from ..prediction.over_time import over_time
from . import show


def parse_place(text: str) -> tuple[float, float]:
    try:
        lat, lon = (float(part) for part in text.split(","))
    except ValueError:
        raise SolidError(f"cannot read --where '{text}'; give lat,lon such as 22.57,88.36") from None
    return lat, lon


def parse_levels(texts: Sequence[str], variables: Sequence[str]) -> dict[str, list[float]]:
    """Thresholds of each variable that is asked about: 60 is of every variable, PM2.5=60 of that one.

    >>> parse_levels(["290", "humidity=80", "humidity=60"], ["temperature", "humidity"])
    {'temperature': [290.0], 'humidity': [60.0, 80.0, 290.0]}
    """
    found: dict[str, set[float]] = {name: set() for name in variables}
    for text in texts:
        name, _, number = text.rpartition("=")
        if name and name not in found:
            raise SolidError(f"--above {text}: there is no variable '{name}'; the run has {', '.join(variables)}")
        try:
            level = float(number)
        except ValueError:
            raise SolidError(f"cannot read --above '{text}'; give a number, or {variables[0]}=NUMBER") from None
        for one in [name] if name else found:
            found[one].add(level)
    return {name: sorted(levels) for name, levels in found.items() if levels}  # they become an axis: its values grow


def refuse_off_map(grid: Grid, places: Sequence[tuple[float, float]], areas: Sequence[Path]) -> None:
    """Places and areas of which no map of this grid tells anything, before one is drawn."""
    if not (places or areas):
        return
    axes = dict(zip(grid.axes, (grid.y, grid.x), strict=True))
    dims = ("member", "init_time", "lead_time", *grid.axes)
    blank = xr.Dataset({"value": (dims, np.zeros((1, 1, 1, *grid.shape), np.float32))}, axes)
    if grid.domain is not None:
        blank["domain"] = (grid.axes, grid.domain.astype(np.int8))
    for lat, lon in places:
        at(blank, lat, lon)
    for area in areas:
        area_mean(blank, area)


def answers(
    maps: xr.Dataset,
    places: Sequence[tuple[float, float]],
    areas: Sequence[Path],
    above: Mapping[str, Sequence[float]],  # by variable
    lasting: str | None = None,
) -> list[dict[str, Any]]:
    """One entry for each place and area: per valid time the mean, a 90 % interval, chances above the thresholds.

    With `lasting`, the chances are those of being above for so long in a row, of each start, at any time.
    """
    asked = [(f"{lat:g}, {lon:g}", at(maps, lat, lon).isel(point=0)) for lat, lon in places]
    asked += [(area.stem, area_mean(maps, area)) for area in areas]
    return [
        {
            "where": where,
            "variable": name,
            "units": maps[name].attrs.get("units", ""),
            "stretch": maps.attrs.get("stretch", ""),
            "rows": _rows(found, name, () if lasting else above.get(name, ())),
        }
        | ({"covered": found.attrs["covered"]} if found.attrs.get("covered", 1) < 1 else {})
        | ({"lasting": _lasting(found, name, above[name], lasting)} if lasting and name in above else {})
        for where, found in asked
        for name in variables_of(maps)
    ]


def _rows(found: xr.Dataset, name: str, above: Sequence[float]) -> list[dict[str, Any]]:
    chances = exceedance(found, above, name).values if above else np.zeros((0, *found[f"{name}_mean"].shape))
    rows = []
    for i, j in np.ndindex(found[f"{name}_mean"].shape):  # (init_time, lead_time)
        row: dict[str, Any] = {"valid_time": found["valid_time"].values[i, j]}
        row |= {part: float(found[f"{name}_{part}"].values[i, j]) for part in ("mean", "std", "q05", "q95")}
        rows.append(row | {"above": {f"{u:g}": float(p) for u, p in zip(above, chances[:, i, j], strict=True)}})
    return rows


def _lasting(found: xr.Dataset, name: str, above: Sequence[float], lasting: str) -> list[dict[str, Any]]:
    """For each start, the chance that a threshold is exceeded for so long in a row."""
    chances = {f"{u:g}": over_time(found, "first_above", lasting, u)[f"{name}_chance"].values for u in above}
    return [
        {"for": lasting, "above": {level: float(chance[i]) for level, chance in chances.items()}}
        for i in range(found.sizes["init_time"])
    ]


def print_answers(entries: Sequence[dict[str, Any]], timezone: str | None) -> None:
    for entry in entries:
        above = list(entry["rows"][0]["above"])
        what = f"{entry['variable']} [{entry['units']}]" if entry["units"] else entry["variable"]
        over = f", {entry['stretch']} up to" if entry["stretch"] else ""
        header = (f"{what} at {entry['where']}{over}", "mean", "5 %", "95 %", *(f"above {u}" for u in above))
        print()
        if "covered" in entry:
            show.line(
                "note", f"{100 * entry['covered']:.0f} % of {entry['where']} lies on the map; this is its mean there"
            )
        show.table(
            header,
            [
                (
                    clock_text(row["valid_time"], timezone),
                    *(show.short(row[part]) for part in ("mean", "q05", "q95")),
                    *(f"{100 * p:.0f} %" for p in row["above"].values()),
                )
                for row in entry["rows"]
            ],
        )
        for row in entry.get("lasting", ()):
            for level, chance in row["above"].items():
                print(f"above {level} for {row['for']} in a row, at some time: {100 * chance:.0f} %")


def clock_text(time: Any, timezone: str | None) -> str:
    """An instant on the local clock, or a simulation's own time as it is."""
    if not isinstance(time, np.datetime64):
        return f"{float(time):g}"
    here = local(np.array([time]), timezone or "UTC")[0]
    return f"{as_text(here.tz_localize(None).to_datetime64()).replace('T', ' ')} {timezone or 'UTC'}"
