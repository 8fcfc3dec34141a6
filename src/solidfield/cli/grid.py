"""solid grid: a table of readings on a grid, as sparse frames."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from ..errors import SolidError
from ..readings import grid_readings, open_table, save_frames
from . import show


def grid(
    files: Annotated[list[Path], typer.Argument(help="Readings: CSV, CSV.gz, Parquet, NetCDF, Zarr, or a folder.")],
    out: Annotated[Path, typer.Option(help="Frames to write: .nc or .zarr.")],
    cell: Annotated[str | None, typer.Option(help="1km, 500m or 0.01deg; a gridded file keeps its own.")] = None,
    every: Annotated[str | None, typer.Option(help="30min, 1h, 1d; a gridded file keeps its own.")] = None,
    variable: Annotated[list[str] | None, typer.Option(help="Which variables; repeatable. All if not given.")] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="ROLE=NAME,...", help="Roles: time, y, x, value, sensor, error.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Of times without an offset: Asia/Kolkata or +05:30.")] = None,
    date_format: Annotated[str | None, typer.Option(help="dayfirst, monthfirst or a pattern: %d.%m.%Y %H:%M.")] = None,
    units: Annotated[str | None, typer.Option(help="Of the values, where the file does not say.")] = None,
    bounds: Annotated[str | None, typer.Option(metavar="S,W,N,E", help="Outer edges of the grid.")] = None,
    domain: Annotated[str | None, typer.Option(help="Cells that count: GeoJSON, or file.nc:variable.")] = None,
    anchor: Annotated[
        str, typer.Option(help="floor: a frame begins at its stamp; round: it is centred on it.")
    ] = "floor",
    above: Annotated[float | None, typer.Option(help="Drop readings above this; they are counted.")] = None,
    below: Annotated[float | None, typer.Option(help="Drop readings below this; they are counted.")] = None,
    positive: Annotated[bool, typer.Option("--positive", help="Drop readings that are zero or less.")] = False,
    outliers: Annotated[
        str | None, typer.Option(help="mad:K drops readings K robust deviations from their frame's median.")
    ] = None,
    refused: Annotated[Path | None, typer.Option(help="CSV of every row refused or dropped, with the reason.")] = None,
    max_memory: Annotated[float, typer.Option(help="GiB that the frames may take.")] = 4.0,
    json: show.JsonOption = False,
) -> None:
    """Average readings in cells and time steps, with counts and spreads; nothing is dropped by stealth."""
    source: Any = files[0] if len(files) == 1 else files
    table = open_table(source, columns=parse_columns(columns), timezone=timezone, units=units, dates=date_format)
    with show.progress("gridding", table.name, json) as update:
        frames = grid_readings(
            table,
            cell=cell,
            every=every,
            variable=variable or None,
            bounds=parse_bounds(bounds),
            domain=domain,
            anchor=anchor,
            above=above,
            below=below,
            positive=positive,
            outliers=outliers,
            refused=refused,
            max_memory=max_memory,
            progress=lambda fraction: update(round(1000 * fraction), 1000),
        )
    save_frames(frames, out)
    report = summary(frames, out) | {"notes": list(table.notes)}
    if json:
        show.as_json(report)
        return
    for note in table.notes:
        show.line("note", note)
    show.line(
        "rows",
        f"{report['rows_read']:,} read, {report['rows_refused']:,} refused, {report['rows_outside']:,} outside, "
        f"{report['rows_outliers']:,} outliers dropped",
    )
    for name, about in report["variables"].items():
        show.line(
            name,
            f"{about['frames']:,} frames with readings, {about['cells']:,} of {report['cells']:,} cells ever visited, "
            f"{100 * about['coverage']:.1f} % of the cells in a frame",
        )
    show.line(
        "frames", f"{out}   {' x '.join(str(n) for n in frames.sizes.values())} ({', '.join(map(str, frames.sizes))})"
    )


def parse_columns(text: str | None) -> dict[str, str] | None:
    """time=when,y=lat -> {"time": "when", "y": "lat"}."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(sign and name for _, sign, name in pairs):
        raise SolidError(f"cannot read --columns '{text}'; write ROLE=NAME,ROLE=NAME such as time=when,y=lat,x=lon")
    return {role.strip(): name.strip() for role, _, name in pairs}


def parse_bounds(text: str | None) -> tuple[float, float, float, float] | None:
    if text is None:
        return None
    try:
        south, west, north, east = (float(part) for part in text.split(","))
    except ValueError:
        raise SolidError(f"cannot read --bounds '{text}'; give south,west,north,east in degrees") from None
    return south, west, north, east


def summary(frames: xr.Dataset, out: Path) -> dict[str, Any]:
    """Counts of rows, frames and cells."""
    about: dict[str, Any] = {"out": str(out), "sizes": dict(frames.sizes)}
    about |= {name: int(frames.attrs[name]) for name in frames.attrs if str(name).startswith("rows_")}
    domain = frames["domain"].values if "domain" in frames else None
    _, height, width = frames.sizes.values()
    about["cells"] = height * width if domain is None else int(domain.sum())
    about["variables"] = {}
    for name in str(frames.attrs["variables"]).split():
        seen = frames[f"{name}_count"].values > 0
        read = int(seen.any((1, 2)).sum())
        about["variables"][name] = {
            "frames": read,
            "cells": int(seen.any(0).sum()),
            "coverage": float(seen.sum() / max(1, read) / about["cells"]),
            "obs_std": frames[name].attrs.get("obs_std"),
        }
    return about
