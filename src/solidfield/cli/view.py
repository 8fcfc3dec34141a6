"""solid view: maps on a page of your own machine, or in one file for a colleague."""

from __future__ import annotations

import secrets
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from ..clock import instant
from ..clock import zone as known_zone
from ..errors import SolidError
from ..models.solid_set import SolidSet
from ..prediction.maps import open_maps
from ..run import Run, load
from ..training.record import RUN
from ..view.export import check_page
from ..view.export import export as write_page
from ..view.outline import coast_lines, outline_of
from ..view.sensors import Sensors, named_places, sensors_of
from ..view.server import Exhibition, bind, serve
from ..view.shown import Shown
from ..view.try_sensors import Draw
from . import reading, show

STEPS = 6  # leads at most that a run forecasts where nothing is asked for


@reading.takes("columns", "timezone", "dates", "units", "name", "places", "drop_above")
def view(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Maps (solid predict) or a run folder; a second one stands beside it."),
    ],
    readings: Annotated[
        list[Path] | None, typer.Option(help="A table or frames of readings; repeatable. A run needs them.")
    ] = None,
    outline: Annotated[list[Path] | None, typer.Option(help="GeoJSON to draw over the map; repeatable.")] = None,
    coast: Annotated[bool, typer.Option("--coast", help="Draw the coast lines of the world (1:50m).")] = False,
    at: Annotated[str | None, typer.Option(help="A run: start here, such as 2024-01-15T08:00; the last time.")] = None,
    steps: Annotated[int | None, typer.Option(help="A run: leads to forecast; 0 reconstructs.")] = None,
    members: Annotated[int, typer.Option(help="A run: of the ensemble.")] = 100,
    seed: Annotated[int, typer.Option(help="A run: same seed, same members.")] = 0,
    export: Annotated[Path | None, typer.Option(help="Write one self-contained .html file instead of serving.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="To serve on; 0 takes any that is free.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to serve on; others can reach it if it is not this one.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    *,
    how: dict[str, Any],
    json: show.JsonOption = False,
) -> None:
    """Show maps on a page of your own machine, and answer for any place or area that is clicked there."""
    if len(files) > 2:
        raise SolidError(f"{len(files)} files; a page shows one, or two beside each other")
    if export is not None:
        check_page(export)
    lines = outline_of(outline or [])
    given = {name: value for name, value in how.items() if value is not None}
    timezone = how["timezone"]

    def say(words: str) -> None:
        show.line("reading", words, json)

    shown: list[Shown] = []
    draws: list[Draw | None] = []
    zones: list[str] = []
    for path in files:
        if (path / RUN).exists():
            if not readings:
                raise SolidError(f"{path} is a run, which draws maps of readings; give some with --readings")
            run = load(path)
            zones.append(timezone or run.zone)
            frames = run.read(readings, say=say, **given)
            draw = drawing(run, frames, instant(at, zones[-1]) if at else None, steps, members, seed)
            names = named_places(readings, run.grid, **{**run.reading, **given})
            shown.append(Shown(draw(frames), path.name, Sensors(frames, names)))
            draws.append(draw)
        else:
            maps = open_maps(path)
            shown.append(Shown(maps, path.name, sensors_of(maps, readings, say, **given) if readings else None))
            zones.append(timezone or "UTC")
            draws.append(None)
    known_zone(zones[0])
    lines += coast_lines(shown[0].bounds) if coast else []
    exhibition = Exhibition(shown, lines, draws[0], zones[0])
    if export is None:
        _serve(exhibition, host, port, browser, json)
        return
    kept = write_page(exhibition, export)
    size = export.stat().st_size
    if json:
        show.as_json({"page": str(export), "bytes": size, "members": kept})
    show.line("page", f"{export}   {size / 1e6:.1f} MB, {kept} members of each map", json)


def _serve(exhibition: Exhibition, host: str, port: int, browser: bool, json: bool) -> None:
    """Until Ctrl+C, under an address that holds a new token."""
    ready, hosts = bind(host, port)
    token = secrets.token_urlsafe(16)
    address = f"http://{host}:{ready.getsockname()[1]}/{token}/"
    if json:
        show.as_json({"address": address})
    show.line("page", f"{address}   Ctrl+C ends it", json)
    if browser:
        webbrowser.open(address)
    try:
        serve(exhibition, ready, token, hosts)
    except KeyboardInterrupt:
        show.line("page", "closed", json)


def drawing(run: Run, frames: xr.Dataset, at: np.datetime64 | None, steps: int | None, members: int, seed: int) -> Draw:
    """How the run makes maps of frames: always of the same start, as many leads and the same seed."""
    filled = frames[run.variables[0]].notnull().any(run.grid.axes).values
    when = frames["time"].values[np.flatnonzero(filled)[-1:]] if at is None else np.array([at])
    ahead = _usual_steps(run) if steps is None else steps

    def draw(frames: xr.Dataset) -> xr.Dataset:
        if ahead == 0:
            return run.reconstruct(frames, at=when, members=members, seed=seed)
        return run.forecast(frames, at=when, members=members, seed=seed, steps=ahead)

    return draw


def _usual_steps(run: Run) -> int:
    """Where nothing is asked for: as far as a run of sets learned, which rolls nothing forward; others go any way."""
    leads = run.info["data"]["leads"]
    if 1 not in leads:
        return 0
    return min(STEPS, max(leads)) if isinstance(run.model, SolidSet) else STEPS
