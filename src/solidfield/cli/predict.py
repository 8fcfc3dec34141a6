"""solid predict: ensembles of maps from a run and sparse sources: readings at a time, or examples of a pair store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..clock import instant
from ..config import load_config
from ..disk import check_ending
from ..engine import Engine
from ..errors import SolidError
from ..models.solid_set import SolidSet
from ..pairs.store import is_pairs, open_pairs
from ..prediction.ask import exceedance
from ..prediction.maps import save_maps
from ..prediction.over_time import over_time
from ..prediction.predict import choose_scenes, predict_examples
from ..prediction.sets import in_pieces as pieces_of_sets
from ..run import load
from . import reading, show
from .answers import answers, parse_levels, parse_place, print_answers, refuse_off_map
from .train import DynamicOption, open_fields

BACK = 24  # steps before the last frame that assimilation begins, where nothing else is asked for


@reading.takes("columns", "timezone", "dates", "units", "places", "drop_above", "errors")
def predict(
    run: Annotated[Path, typer.Argument(help="A run folder (solid train).")],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Tables or frames of readings, or a pair store; then the maps to write."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Maps to write: .nc or .zarr.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Readings: start here, such as 2024-01-15T08:00; repeatable; the last time."),
    ] = None,
    past_only: Annotated[
        bool, typer.Option("--past-only", help="solid-set: maps at lead 0 without what came later.")
    ] = False,
    as_read: Annotated[
        bool, typer.Option("--as-read", help="solid-set: what a sensor there would read, not the field.")
    ] = False,
    mean_over: Annotated[str | None, typer.Option(help="Of the mean of so long, such as 24h, up to each lead.")] = None,
    max_over: Annotated[str | None, typer.Option(help="Of the maximum of so long up to each lead.")] = None,
    lasting: Annotated[str | None, typer.Option("--for", help="With --above: for so long in a row.")] = None,
    assimilate: Annotated[
        bool, typer.Option("--assimilate", help="Go through the frames and read on the way.")
    ] = False,
    since: Annotated[str | None, typer.Option(help="Where assimilation starts; 24 steps back by default.")] = None,
    above: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Chance of more than this; of several variables: t=290; repeatable."),
    ] = None,
    where: Annotated[list[str] | None, typer.Option(metavar="LAT,LON", help="Print the law here; repeatable.")] = None,
    area: Annotated[list[Path] | None, typer.Option(help="Print the law of this area's mean: GeoJSON.")] = None,
    *,
    how: dict[str, Any],
    dynamic: DynamicOption = None,
    preset: show.PresetOption = "laptop",
    split: Annotated[str, typer.Option(help="Pairs: test, between (odd frames), validation or train.")] = "test",
    members: Annotated[int | None, typer.Option(help="Of the ensemble.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Leads ahead; rolled out unless the run knows each directly.")
    ] = None,
    rollout: Annotated[bool, typer.Option("--rollout", help="Roll out, also where leads are known directly.")] = False,
    scenes: Annotated[int | None, typer.Option(help="Pairs: how many examples, spread over the split.")] = None,
    lead: Annotated[int | None, typer.Option(help="0 reconstructs, 1 forecasts.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same members.")] = None,
    max_memory: Annotated[
        float | None, typer.Option("--memory", "--max-memory", help="GiB that drawing may take.")
    ] = None,
    engine: show.EngineOption = "here",
    jobs: show.JobsOption = 1,
    scheduler: show.SchedulerOption = None,
    recalibrate: Annotated[
        bool,
        typer.Option(help="Repair widths by validation targets of pairs, laws of solid-set by the readings given."),
    ] = False,
    keep_members: Annotated[bool, typer.Option(help="Write every member, not only the summaries.")] = True,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Draw ensembles of full maps, with mean, spread and quantiles; answer for places, areas and thresholds."""
    named = show.override(
        {
            "predict.members": members,
            "predict.steps": steps,
            "predict.scenes": scenes,
            "predict.seed": seed,
            "predict.max_memory": max_memory,
        }
    )
    config = load_config(preset, (*settings, *named)).predict
    pairs = is_pairs(inputs[0])
    written = len(inputs) == 2 if pairs else inputs[-1].suffix == ".zarr" and not (inputs[-1].exists() or where or area)
    if out is None and len(inputs) > 1 and written:
        *inputs, out = inputs
    if out is None and not (where or area):
        raise SolidError(
            f"where should the maps of {inputs[0]} go? name a file with --out, or ask with --where or --area"
        )
    if out is not None:
        check_ending(out)
    if not pairs:
        _only_pairs(scenes=scenes)
        _check_lead(lead, steps, assimilate, at, since)
    if lasting and not above:
        raise SolidError(f"--for {lasting} asks how long it is above what? give --above, too")
    if mean_over and max_over:
        raise SolidError("--mean-over and --max-over are two questions; ask one at a time")
    places = [parse_place(text) for text in where or ()]
    drawing: dict[str, Any] = {
        "members": config.members,
        "seed": config.seed,
        "quantiles": config.quantiles,
        "keep_members": keep_members
        or bool(above or where or area or mean_over or max_over),  # every answer comes from members
        "max_memory": config.max_memory,
        "engine": Engine(engine, jobs, scheduler),
    }
    opened, zone = load(run), "UTC"
    levels = parse_levels(above or (), opened.variables)
    refuse_off_map(opened.grid, places, area or ())
    of_all = bool(above or mean_over or max_over or assimilate)
    if isinstance(opened.model, SolidSet):
        ensemble = (config.members, len(at or ()) or 1, 1 if lead == 0 else config.steps)
        in_pieces = not of_all and pieces_of_sets(opened, out, *ensemble, config.max_memory, drawing["keep_members"])
    else:
        in_pieces = opened.model.crops and out is not None and out.suffix == ".zarr" and config.steps == 1
    if in_pieces:  # a large map is written while it is drawn
        if of_all:
            raise SolidError(
                f"{out} is a large map, which is written while it is drawn; ask for --above, --mean-over or --max-over "
                "with a .nc file, or ask the maps in Python (sf.open_maps, sf.exceedance)"
            )
        drawing["out"] = out
    if pairs:
        store = open_pairs(inputs[0])
        scene_list = choose_scenes(store, split, lead, config.scenes, config.steps)
        with show.progress("predicting", _drawn(len(scene_list), config.members), json) as update:
            drawing |= {"progress": update, "steps": config.steps, "rollout": rollout}
            maps = predict_examples(opened, store, scene_list, recalibrate, **drawing)
    else:
        frames = reading.read_new(opened, inputs, json, how, "reading")
        zone = how["timezone"] or opened.zone
        times = [instant(text, zone) for text in at or ()]
        with show.progress("predicting", _drawn(len(times) or 1, config.members), json) as update:
            drawing |= {"progress": update, "dynamic": open_fields(dynamic)}
            drawing |= {name: True for name, on in (("as_read", as_read), ("recalibrate", recalibrate)) if on}
            if assimilate:
                start = instant(since, zone) if since else BACK
                end = times[0] if times else "last"
                drawing |= {"since": start, "until": end, "steps": config.steps if steps else 0}
                maps = opened.assimilate(frames, **drawing)
            elif lead == 0:
                maps = opened.reconstruct(frames, at=times or "last", past_only=past_only, **drawing)
            else:
                maps = opened.forecast(frames, at=times or "last", steps=config.steps, rollout=rollout, **drawing)
    for kind, length in (("mean", mean_over), ("max", max_over)):
        maps = over_time(maps, kind, length) if length else maps
    found = answers(maps, places, list(area or ()), levels, lasting)
    if lasting:
        for name, level in [(name, level) for name, some in levels.items() for level in some]:
            chances = over_time(maps[[name]], "first_above", lasting, level)
            maps = maps.assign({f"{name}_chance_above_{level:g}_for_{lasting}": chances[f"{name}_chance"]})
    elif levels:
        all_levels = sorted({level for some in levels.values() for level in some})  # one axis for all variables
        maps = maps.assign({f"{name}_exceedance": exceedance(maps, all_levels, name) for name in levels})
    if out is not None and not in_pieces:
        save_maps(maps if keep_members else maps.drop_dims("member", errors="ignore"), out)
    if json:
        scenes_drawn = maps.sizes["init_time"]
        show.as_json(
            {"out": str(out) if out else None, "scenes": scenes_drawn, "members": config.members, "leaks": opened.leaks}
            | ({"notes": maps.attrs["notes"]} if maps.attrs.get("notes") else {})
            | ({"answers": [_plain(entry) for entry in found]} if found else {})
        )
        return
    if maps.attrs.get("notes"):
        show.line("note", maps.attrs["notes"])
    print_answers(found, zone)
    if out is not None:
        show.line("maps", f"{out}{'   (oracle: leaks dense truth)' if opened.leaks else ''}")


def _only_pairs(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise SolidError(f"--{name} is for examples of a pair store and does nothing for readings; leave it out")


def _check_lead(lead: int | None, steps: int | None, assimilate: bool, at: list[str] | None, since: str | None) -> None:
    """What readings can be asked; anything else would be answered as something else."""
    if lead not in (None, 0, 1):
        raise SolidError(f"--lead {lead} is not for readings: --lead 1 --steps {lead} goes so far, step by step")
    if lead == 0 and (steps or 1) > 1:
        raise SolidError(f"--lead 0 is the time of the readings and has no --steps {steps}; leave one of them out")
    if assimilate and (lead == 0 or len(at or ()) > 1):
        raise SolidError("--assimilate goes forward to one time; leave out --lead 0 and all --at but one")
    if since and not assimilate:
        raise SolidError("--since says where assimilation starts; add --assimilate or leave it out")


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    rows = [row | {"valid_time": str(row["valid_time"])} for row in entry["rows"]]
    return entry | {"rows": rows}


def _drawn(scenes: int, members: int) -> str:
    return f"{scenes} scene{'s' if scenes > 1 else ''} x {members} members"
