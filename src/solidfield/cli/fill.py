"""solid fill: the gaps of every sensor's record, with honest intervals; the readings stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..disk import check_table_ending, refuse_existing, save_table
from ..errors import SolidError
from ..prediction.maps import save_maps
from ..run import load
from . import reading, show


@reading.takes("columns", "timezone", "dates", "places", "drop_above", "errors")
def fill(
    run: Annotated[Path, typer.Argument(help="A run folder of model solid-set (solid train).")],
    inputs: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Tables or frames of readings.")],
    out: Annotated[Path, typer.Option(help="The filled record to write: .csv or .parquet.")],
    maps: Annotated[Path | None, typer.Option(help="Also maps of every frame: .nc or .zarr.")] = None,
    members: Annotated[int, typer.Option(help="Of the ensemble.")] = 100,
    seed: Annotated[int, typer.Option(help="Same seed, same members.")] = 0,
    past_only: Annotated[bool, typer.Option("--past-only", help="Do not look on what came later.")] = False,
    keep_members: Annotated[bool, typer.Option(help="Write every member of a gap, too.")] = False,
    recalibrate: Annotated[
        bool, typer.Option(help="Laws as near to kriging's and as wide as the readings given ask.")
    ] = False,
    *,
    how: dict[str, Any],
    json: show.JsonOption = False,
) -> None:
    """Fill every gap of the record of every cell that was ever read, with a median and a 90 % interval."""
    check_table_ending(out)
    refuse_existing(out, "choose another file")
    if maps is not None and maps.suffix not in (".nc", ".zarr"):
        raise SolidError(f"cannot write maps to {maps}: end the name in .nc (NetCDF) or .zarr")
    opened = load(run)
    frames = reading.read_new(opened, inputs, json, how)
    filled = opened.fill(frames, members, seed, past_only, keep_members, recalibrate=recalibrate)
    save_table(filled, out)
    if maps is not None:
        drawing: dict[str, Any] = {"past_only": past_only, "keep_members": False, "recalibrate": recalibrate}
        save_maps(opened.reconstruct(frames, members, seed, **drawing), maps)
    gaps = int(filled["filled"].sum())
    if json:
        counts = {"given": len(filled) - gaps, "filled": gaps}
        show.as_json({"out": str(out), "maps": str(maps) if maps else None, **counts, **filled.attrs})
    else:
        if "notes" in filled.attrs:
            show.line("note", filled.attrs["notes"])
        show.line("filled", f"{gaps:,} gaps beside {len(filled) - gaps:,} readings; {out}")
