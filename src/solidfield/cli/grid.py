"""solid grid: a table of readings on a grid, as sparse frames."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from ..errors import SolidError
from ..readings.intake import grid as grid_table
from . import reading, show


@reading.takes("cell", "every", "variables", "columns", "timezone", "dates", "units", "name", "places")
def grid(
    files: reading.FilesArgument,
    out: Annotated[Path, typer.Option(help="Frames to write: .nc or .zarr.")],
    *,
    how: dict[str, Any],
    bounds: Annotated[str | None, typer.Option(metavar="S,W,N,E", help="Outer edges of the grid.")] = None,
    domain: Annotated[str | None, typer.Option(help="Cells that count: GeoJSON, or file.nc:variable.")] = None,
    anchor: Annotated[
        str | None,
        typer.Option(help="floor: a frame begins at its stamp; round: it is centred on it; by the readings."),
    ] = None,
    drop_above: reading.DropAboveOption = None,
    errors: reading.ErrorsOption = None,
    drop_below: Annotated[float | None, typer.Option(help="Drop readings below this; they are counted.")] = None,
    positive: Annotated[bool, typer.Option("--positive", help="Drop readings that are zero or less.")] = False,
    outliers: Annotated[
        str | None, typer.Option(help="mad:K drops readings K robust deviations from their frame's median.")
    ] = None,
    refused: reading.RefusedOption = None,
    stations: Annotated[bool, typer.Option("--stations", help="Keep names of sensors that stand, for fill.")] = False,
    max_memory: Annotated[float, typer.Option(help="GiB that the frames may take.")] = 4.0,
    above: Annotated[float | None, typer.Option("--above", hidden=True)] = None,
    below: Annotated[float | None, typer.Option("--below", hidden=True)] = None,
    json: show.JsonOption = False,
) -> None:
    """Average readings in cells and time steps, with counts and spreads; nothing is dropped by stealth."""
    said: list[str] = []
    with show.progress("gridding", str(files[0]), json) as update:
        frames = grid_table(
            files,
            out,
            bounds=parse_bounds(bounds),
            domain=domain,
            anchor=anchor,
            drop_above=reading.renamed("--above", above, "--drop-above", drop_above),
            errors=errors,
            drop_below=reading.renamed("--below", below, "--drop-below", drop_below),
            positive=positive,
            outliers=outliers,
            refused=refused,
            stations=stations,
            max_memory=max_memory,
            say=said.append,
            progress=update,
            **how,
        )
    report = summary(frames, out)
    if json:
        show.as_json(report | {"notes": said})
        return
    for words in said:
        show.line("note", words)
    for name, about in report["variables"].items():
        show.line(
            name,
            f"{about['frames']:,} frames with readings, {about['cells']:,} of {report['cells']:,} cells ever visited, "
            f"{100 * about['coverage']:.1f} % of the cells in a frame",
        )
    show.line(
        "frames", f"{out}   {' x '.join(str(n) for n in frames.sizes.values())} ({', '.join(map(str, frames.sizes))})"
    )


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
