"""The options of reading, declared once for every verb that takes readings, and what they are in Python.

    @reading.takes("columns", "timezone")
    def verb(files: ..., *, how: dict[str, Any], json: ...) -> None:

`how` stands for those options in the verb's signature and holds them by the names that the library gives them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
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
RefusedOption = Annotated[Path | None, typer.Option(help="CSV of everything refused or dropped, with the reason.")]
DropAboveOption = Annotated[float | None, typer.Option(help="Drop readings above this; they are counted.")]
ErrorsOption = Annotated[
    str | None,
    typer.Option(help="Errors of the readings: a number, or a CSV file by sensor or kind; by a column of theirs."),
]
OPTIONS: dict[str, Any] = {  # by their names in Python
    "cell": Annotated[str | None, typer.Option(help="Readings: size of a cell, 1km or 0.01deg; by the readings.")],
    "every": Annotated[str | None, typer.Option(help="Readings: time step, 30min, 1h or 1d; by the readings.")],
    "variables": Annotated[
        list[str] | None, typer.Option("--variable", help="Readings: which variables; repeatable; all.")
    ],
    "columns": Annotated[
        str | None,
        typer.Option(
            metavar="ROLE=NAME,...", help="Readings: columns by role: time, y, x, value, sensor, parameter, error."
        ),
    ],
    "timezone": Annotated[str | None, typer.Option(help="Of times without an offset: Asia/Kolkata or +05:30.")],
    "dates": Annotated[
        str | None,
        typer.Option(
            "--date-format",
            help="dayfirst, monthfirst, yearfirst, a pattern (%d.%m.%Y %H:%M), or what numbers count "
            "(hours since 2024-05-01).",
        ),
    ],
    "units": Annotated[str | None, typer.Option(help="Of the values, where the file does not say.")],
    "name": Annotated[
        str | None, typer.Option(help="What to call the variable: PM2.5; of several: pm=PM2.5,t=temperature.")
    ],
    "places": Annotated[
        Path | None, typer.Option(help="Where sensors stand, if the readings do not say: CSV of name, lat, lon.")
    ],
    "drop_above": DropAboveOption,
    "errors": ErrorsOption,
}


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb these options in the place of its parameter `how`."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(verb, eval_str=True).parameters.values():
            kind = inspect.Parameter.KEYWORD_ONLY
            options = [inspect.Parameter(name, kind, default=None, annotation=OPTIONS[name]) for name in names]
            parameters += options if own.name == "how" else [own.replace(kind=kind)]

        @functools.wraps(verb)
        def command(**given: Any) -> None:
            how = {name: given.pop(name) for name in names}
            verb(**given, how=how | {"columns": parse_columns(how.get("columns"))})

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {}
        return command

    return decorate


def parse_columns(text: str | None) -> dict[str, str] | None:
    """time=when,y=lat -> {"time": "when", "y": "lat"}."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(sign and name for _, sign, name in pairs):
        raise SolidError(f"cannot read --columns '{text}'; write ROLE=NAME,ROLE=NAME such as time=when,y=lat,x=lon")
    return {role.strip(): name.strip() for role, _, name in pairs}


def read_new(run: Run, inputs: list[Path], json: bool, how: dict[str, Any], label: str = "") -> xr.Dataset:
    """New readings, read as the run's own were unless an option says otherwise."""
    return run.read(inputs, say=functools.partial(show.line, label, quiet=json), **how)


def renamed(old: str, value: T | None, new: str, other: T | None) -> T | None:
    """What was given by either spelling of an option; the old one says what replaces it."""
    if value is None:
        return other
    typer.echo(f"note: {old} is now {new}, and will go in a later release", err=True)
    if other is not None:
        raise SolidError(f"{old} and {new} are one option; give {new}")
    return value
