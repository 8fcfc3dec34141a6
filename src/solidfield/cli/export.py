"""solid export: a layer of maps as a GeoTIFF for a GIS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..prediction.export import export as write_layer
from . import show


def export(
    maps: Annotated[Path, typer.Argument(help="Maps of solid predict: .nc or .zarr.")],
    out: Annotated[Path, typer.Option(help="New GeoTIFF: .tif.")],
    layer: Annotated[
        str, typer.Option(help="mean, spread, quantile, chance, member, or a field such as distance_to_sensor.")
    ] = "mean",
    variable: Annotated[str | None, typer.Option(help="Of which one; the first.")] = None,
    quantile: Annotated[float | None, typer.Option(help="For --layer quantile: from 0 to 1.")] = None,
    above: Annotated[float | None, typer.Option(help="For --layer chance: of more than this.")] = None,
    member: Annotated[int | None, typer.Option(help="For --layer member: which one, from 0; all of them.")] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Maps of this time, in UTC; repeatable; all, a band each.")
    ] = None,
    crs: Annotated[str | None, typer.Option(help="Of the coordinates, such as EPSG:32645; 4326 for degrees.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Write a layer of maps as a cloud-optimised GeoTIFF, with coordinates, units and times, for a GIS."""
    numbers: dict[str, Any] = {"quantile": quantile, "above": above, "member": member}
    with show.progress("exporting", f"{layer} of {maps.name}", json) as update:
        bands = write_layer(maps, out, layer, variable=variable, at=at, crs=crs, progress=update, **numbers)
    if json:
        show.as_json({"out": str(out), "bands": bands, "bytes": out.stat().st_size})
    show.line("written", f"{out}   {bands} bands, {out.stat().st_size / 1e6:.1f} MB", json)
