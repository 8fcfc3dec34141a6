"""The options of reading, declared once for every verb that takes readings, and what they are in Python."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..errors import SolidError
from . import show

if TYPE_CHECKING:
    import xarray as xr

    from ..run import Run

T = TypeVar("T")

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Readings: CSV, CSV.gz, Parquet, NetCDF, Zarr, or a folder.")
]
CellOption = Annotated[str | None, typer.Option(help="Readings: size of a cell, 1km or 0.01deg; by the readings.")]
EveryOption = Annotated[str | None, typer.Option(help="Readings: time step, 30min, 1h or 1d; by the readings.")]
VariableOption = Annotated[list[str] | None, typer.Option(help="Readings: which variables; repeatable; all.")]
ColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="ROLE=NAME,...", help="Readings: columns by role: time, y, x, value, sensor, error."),
]
TimezoneOption = Annotated[str | None, typer.Option(help="Of times without an offset: Asia/Kolkata or +05:30.")]
DatesOption = Annotated[
    str | None, typer.Option("--date-format", help="dayfirst, monthfirst or a pattern: %d.%m.%Y %H:%M.")
]
UnitsOption = Annotated[str | None, typer.Option(help="Of the values, where the file does not say.")]
NameOption = Annotated[
    str | None, typer.Option(help="What to call the variable: PM2.5; of several: pm=PM2.5,t=temperature.")
]
DropAboveOption = Annotated[float | None, typer.Option(help="Drop readings above this; they are counted.")]
DropBelowOption = Annotated[float | None, typer.Option(help="Drop readings below this; they are counted.")]
ErrorsOption = Annotated[
    str | None,
    typer.Option(help="Errors of the readings: a number, or a CSV file by sensor or kind; by a column of theirs."),
]
RefusedOption = Annotated[Path | None, typer.Option(help="CSV of everything refused or dropped, with the reason.")]


def parse_columns(text: str | None) -> dict[str, str] | None:
    """time=when,y=lat -> {"time": "when", "y": "lat"}."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(sign and name for _, sign, name in pairs):
        raise SolidError(f"cannot read --columns '{text}'; write ROLE=NAME,ROLE=NAME such as time=when,y=lat,x=lon")
    return {role.strip(): name.strip() for role, _, name in pairs}


def read_new(
    run: Run,
    inputs: list[Path],
    json: bool,
    label: str = "",  # of what is said on the way
    *,
    columns: Any,  # as the options of this file give it
    **options: Any,
) -> xr.Dataset:
    """New readings, read as the run's own were unless an option says otherwise."""
    say = functools.partial(show.line, label, quiet=json)
    return run.read(inputs, say=say, columns=parse_columns(columns), **options)


def renamed(old: str, value: T | None, new: str, other: T | None) -> T | None:
    """What was given by either spelling of an option; the old one says what replaces it."""
    if value is None:
        return other
    typer.echo(f"note: {old} is now {new}, and will go in a later release", err=True)
    if other is not None:
        raise SolidError(f"{old} and {new} are one option; give {new}")
    return value
