"""solid train: a model from sparse pairs, or straight from a table of readings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from ..disk import open_dataset
from ..engine import Progress
from ..errors import SolidError
from ..fit import fit
from ..pairs.covariates import Covariates
from ..pairs.holdout import hold_list as read_list
from ..pairs.holdout import hold_mask as read_mask
from ..pairs.limits import parse_within
from ..pairs.store import is_pairs
from ..training.checkpoint import checkpoints
from ..training.record import STATE
from . import reading, show

DynamicOption = Annotated[Path | None, typer.Option(help="NetCDF of fields that change (time, y, x): wind.")]


@reading.takes(*reading.OPTIONS)
def train(
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Tables or frames of readings; or a pair store and the run folder."),
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder to write.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="smoke, laptop (the default), paper, paper-large, or a TOML file.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="See `solid models`; or solid-set, which can also fill gaps.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="A budget of wall time instead of steps; 10 for readings without a preset.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same weights.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
    oracle: Annotated[bool, typer.Option(help="solid-paper only: noise the dense target. Leaks; labelled.")] = False,
    *,
    how: dict[str, Any],
    transform: Annotated[str | None, typer.Option(help="log, sqrt or none; by the readings if not given.")] = None,
    offset: Annotated[float | None, typer.Option(help="Of the logarithm: log(x + offset).")] = None,
    within: Annotated[
        str | None, typer.Option(metavar="A..B", help="Values that can be: 0..100, or humidity=0..100,rain=0..")
    ] = None,
    lead: Annotated[list[int] | None, typer.Option(help="0 reconstructs, 1 forecasts; repeatable; both.")] = None,
    leads: Annotated[str | None, typer.Option(help="Several leads at once, such as 0..8 steps.")] = None,
    ahead: Annotated[str | None, typer.Option(help="All leads up to here, such as 6h.")] = None,
    hold_days: Annotated[int | None, typer.Option(help="Every so many days one tests; 0: none.")] = None,
    hold_sensors: Annotated[float | None, typer.Option(help="Share of the cells with readings held out.")] = None,
    hold_blocks: Annotated[float | None, typer.Option(help="Share of the map held out in blocks.")] = None,
    hold_list: Annotated[Path | None, typer.Option(help="CSV of places (lat, lon) held out for ever.")] = None,
    hold_mask: Annotated[Path | None, typer.Option(help="NetCDF mask (y, x): cells held out for ever.")] = None,
    hold_fold: Annotated[str | None, typer.Option(help="The n-th of so many folds of the cells, such as 3/10.")] = None,
    hold_calibration: Annotated[float | None, typer.Option(help="Share kept back to calibrate unread cells.")] = None,
    calendar: Annotated[str | None, typer.Option(help="hour,weekday,season; the first two by default.")] = None,
    no_calendar: Annotated[bool, typer.Option("--no-calendar", help="Do not tell the time.")] = False,
    history: Annotated[float | None, typer.Option(help="Hours to look back on each cell's last reading.")] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Do not look back.")] = False,
    no_coordinates: Annotated[bool, typer.Option("--no-coordinates", help="Do not tell the place.")] = False,
    static: Annotated[Path | None, typer.Option(help="NetCDF of fields that stay (y, x): elevation.")] = None,
    dynamic: DynamicOption = None,
    hold_strangers: Annotated[float | None, typer.Option("--hold-strangers", hidden=True)] = None,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Train a model; after a kill, --resume ends in the same weights. Also runs under torchrun."""
    if out is None and is_pairs(inputs[0]) and len(inputs) == 2:
        inputs, out = inputs[:1], inputs[1]
    if out is None:
        raise SolidError(f"where should the run of {inputs[0]} go? name its folder with --out")
    calibration = reading.renamed("--hold-strangers", hold_strangers, "--hold-calibration", hold_calibration)
    holding: dict[str, Any] = {
        "days": hold_days,
        "sensors": hold_sensors,
        "blocks": hold_blocks,
        "calibration": calibration,
    }
    holding |= {"places": _places(hold_list, hold_mask)} | _fold(hold_fold)
    telling = {
        "calendar": () if no_calendar else tuple(calendar.split(",")) if calendar else None,
        "history": 0.0 if no_history else history,
        "static": open_fields(static),
        "dynamic": open_fields(dynamic),
    }
    told = _given(telling)
    options = {"model.options.oracle": oracle or None, "model.options.coordinates": False if no_coordinates else None}
    with ExitStack() as bar, _stop_said(out):
        run = fit(
            inputs,
            out,
            minutes=minutes,
            steps=steps,
            model=model,
            leads=_leads(lead, leads),
            ahead=ahead,
            transform=transform,
            offset=offset,
            within=parse_within(within),
            holdout=_given(holding),
            covariates=Covariates(**told) if told else None,
            seed=seed,
            preset=preset,
            settings=(*settings, *show.override(options)),
            resume=resume,
            say=lambda words: show.line("", words, json),
            progress=training_bar(bar, out, json),
            **how,
        )
    history_of = run.info["history"]
    if json:
        show.as_json({"out": str(out)} | {name: history_of[name] for name in ("steps", "crps", "stopped")})
    else:
        crps = history_of["crps"]
        score = "" if crps is None else f", validation CRPS {crps:.3f} standard deviations"
        show.line("trained", f"{history_of['steps']:,} steps ({history_of['stopped']}){score}; run folder {out}")


def _places(listed: Path | None, mask: Path | None) -> tuple[tuple[float, float], ...] | None:
    """What --hold-list and --hold-mask name."""
    found = (*(read_list(listed) if listed else ()), *(read_mask(mask) if mask else ()))
    return found or None


def _fold(text: str | None) -> dict[str, int | None]:
    """--hold-fold 3/10 is the third of ten."""
    number, slash, count = (text or "0/0").partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()) or (text and not 0 < int(number) <= int(count)):
        raise SolidError(f"--hold-fold {text} is no fold; say 3/10 for the third of ten")
    return {"fold": int(number) - 1, "folds": int(count)} if text else {}


def _leads(single: list[int] | None, several: str | None) -> list[int] | None:
    """--lead 0 --lead 1, or --leads 0..8."""
    if several is None:
        return single
    first, dots, last = several.partition("..")
    if single or not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise SolidError(f"cannot read --leads '{several}'; give a range such as 0..8, and no --lead beside it")
    return list(range(int(first), int(last) + 1))


@contextmanager
def _stop_said(out: Path) -> Iterator[None]:
    """Ctrl-C: what was kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        kept = checkpoints(out / STATE)
        if not kept:
            raise KeyboardInterrupt("nothing was trained yet, the same command begins anew") from None
        step = int(kept[-1].name.removeprefix("step-"))
        words = f"{out} keeps what was learned up to step {step:,}, the same command with --resume goes on from there"
        raise KeyboardInterrupt(words) from None


def training_bar(stack: ExitStack, out: Path, quiet: bool = False) -> Progress:
    """A live bar that appears with the first step."""
    bar: list[Progress] = []

    def update(what: str, done: int, total: int | None) -> None:
        if not bar:
            bar.append(stack.enter_context(show.progress("training", str(out), quiet)))
        bar[0](what, done, total)

    return update


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def open_fields(path: Path | None) -> xr.Dataset | None:
    if path is None:
        return None
    if not path.exists():
        raise SolidError(f"there is no file {path}; check the path")
    with open_dataset(path, "give a NetCDF file of fields") as data:
        return data.load()
