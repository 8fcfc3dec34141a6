"""solid place: where the next sensor helps most, or which are missed least."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..disk import atomic, refuse_existing, replace
from ..placement.place import TIMES, Placement
from ..placement.trial import TRIALS
from ..plot.placement import placement_figure
from ..run import load
from . import reading, show
from .answers import parse_place


@reading.takes("columns", "timezone", "dates", "places", "drop_above", "errors")
def place(
    run: Annotated[Path, typer.Argument(help="A run folder (solid train).")],
    inputs: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Tables or frames of readings.")],
    add: Annotated[int, typer.Option(help="Sensors to add; tracks, with --route.")] = 0,
    remove: Annotated[int, typer.Option(help="Sensors to do without, instead.")] = 0,
    out: Annotated[Path | None, typer.Option(help="New folder for the table, JSON, GeoJSON and maps.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="CSV of places: lat, lon and, where known, name and cost; else every cell.")
    ] = None,
    route: Annotated[Path | None, typer.Option(help="CSV of tracks: track, lat, lon; which of them help most.")] = None,
    tried: Annotated[
        list[Path] | None,
        typer.Option(help="Readings of candidates that were tried, in time with the others; repeatable."),
    ] = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(help="Readings kept aside: choose the tried ones that predict these best; repeatable."),
    ] = None,
    within: Annotated[Path | None, typer.Option(help="Candidates lie in this area: GeoJSON.")] = None,
    no_go: Annotated[list[Path] | None, typer.Option(help="... and outside of this one; repeatable.")] = None,
    budget: Annotated[float | None, typer.Option(help="That costs may add up to.")] = None,
    move: Annotated[
        list[str] | None, typer.Option(metavar="LAT,LON", help="A sensor that may move; repeatable; the others stay.")
    ] = None,
    area: Annotated[Path | None, typer.Option(help="What is cared about: GeoJSON; else the whole map.")] = None,
    above: Annotated[float | None, typer.Option(help="Care about the chance of more than this.")] = None,
    lead: Annotated[int, typer.Option(help="Care about the map so many steps later (solid-set).")] = 0,
    at: Annotated[list[str] | None, typer.Option(help="Times that gains are means over; repeatable; some.")] = None,
    times: Annotated[
        int | None, typer.Option(help=f"How many times at most; {TIMES}, and to try candidates {TRIALS}.")
    ] = None,
    variable: Annotated[str | None, typer.Option(help="Which variable, where there are several.")] = None,
    check: Annotated[
        bool, typer.Option(help="Hide sensors, or try each candidate, to see how far expected gains can be trusted.")
    ] = True,
    *,
    how: dict[str, Any],
    seed: Annotated[int, typer.Option(help="Same seed, same members, where there is no closed form.")] = 0,
    json: show.JsonOption = False,
) -> None:
    """Say where the next sensors help most, or which are missed least, and how far to trust that."""
    if out is not None:
        refuse_existing(out, "choose another folder")
    opened = load(run)

    def read(files: list[Path], label: str = "") -> Any:
        return reading.read_new(opened, files, json, how, label)

    frames = read(inputs)
    found = opened.place(
        frames,
        add,
        remove=remove,
        candidates=candidates,
        routes=route,
        tried=read(tried, "tried") if tried else None,
        judge=read(judge, "judge") if judge else None,
        within=within,
        no_go=no_go or (),
        budget=np.inf if budget is None else budget,
        move=[parse_place(words) for words in move or ()],
        area=area,
        above=above,
        lead=lead,
        at=at,
        times=times,
        variable=variable,
        check=check,
        seed=seed,
    )
    if out is not None:
        _write(found, out)
    if json:
        show.as_json({"out": None if out is None else str(out), **found.as_dict()})
        return
    _print(found)
    if out is not None:
        names = ("chosen.csv", "place.json", "place.geojson", "place.png")
        show.line("written", "   ".join(str(out / name) for name in names))


def _write(found: Placement, out: Path) -> None:
    with atomic(out) as part:
        replace(part / "chosen.csv", found.table.drop(columns="places").to_csv(index=False).encode())
        replace(part / "candidates.csv", found.candidates.to_csv(index=False).encode())
        replace(part / "place.json", text.dumps(found.as_dict(), indent=1).encode())
        replace(part / "place.geojson", text.dumps(found.geojson()).encode())
        show.save_figure(placement_figure(found), part / "place.png")


def _print(found: Placement) -> None:
    about = found.about
    units = f" {about['map_units']}" if about["map_units"] and about["above"] is None else ""
    many = "times" if len(about["times"]) > 1 else "time"
    words = f"{about['score_is']} of {about['variable']} {found.score:.3g}{units}, mean of "
    if about["judging_readings"] is not None:
        words += f"{about['judging_readings']:,} judging readings at "
    words += f"{len(about['times'])} {many}"
    show.line("now", f"{words}; {about['candidates']:,} {'sensors' if about['verb'] == 'remove' else 'candidates'}")
    what = "rises by" if about["verb"] == "remove" else f"{about['gains']} gain"
    priced, tried = "cost" in found.table, "own_error" in found.table
    header = ("", about["verb"], *(("cost",) if priced else ()), what, "percent", "left")
    header += ("own error",) if tried else ()
    sign = -1 if about["verb"] == "remove" else 1
    rows = [
        (
            str(row["rank"]),
            str(row["name"]),
            *((f"{row['cost']:g}",) if priced else ()),
            f"{sign * row['gain']:.3g}",
            f"{sign * row['percent']:.1f} %",
            f"{row['left']:.3g}",
            *((f"{row['own_error']:.2g} x",) if tried else ()),
        )
        for row in found.table.to_dict("records")
    ]
    show.table(header, rows)
    if found.trust is not None:
        show.line("trust", found.trust.sentence())
