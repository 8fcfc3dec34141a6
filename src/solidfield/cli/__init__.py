"""The command line: one file a verb, in the order of the data's way. A verb parses, calls the library and prints.

Every verb has --help, a progress bar, --json for machines, and ends with exit code 0 or with a one-line error and 2.
A verb's file is imported when the verb is called, so that `solid --help` and `solid check` do not wait for torch.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import SolidError

VERBS = {  # what `solid --help` shows: the first sentence of each verb, which a test compares
    "demo": "Simulate a turbulent flow, observe 10 % of it, train on the readings alone, predict, evaluate, draw.",
    "simulate": "Simulate trajectories of a turbulent flow, or of the Gaussian world, as they are: dense.",
    "observe": "Measure the truth where a scenario has sensors, and write the readings as sparse pairs.",
    "check": "Say what is wrong with readings, how to grid them, and what can be learned from them.",
    "grid": "Average readings in cells and time steps, with counts and spreads; nothing is dropped by stealth.",
    "quality": "Hide each sensor from its frames, reconstruct it from the others, and rank sensors by how far they are "
    "off.",
    "train": "Train a model; after a kill, --resume ends in the same weights. Also runs under torchrun.",
    "predict": "Draw ensembles of full maps, with mean, spread and quantiles; answer for places, areas and thresholds.",
    "view": "Show maps on a page of your own machine, and answer for any place or area that is clicked there.",
    "export": "Write a layer of maps as a cloud-optimised GeoTIFF, with coordinates, units and times, for a GIS.",
    "place": "Say where the next sensors help most, or which are missed least, and how far to trust that.",
    "fill": "Fill every gap of the record of every cell that was ever read, with a median and a 90 % interval.",
    "fit": "Learn one image with gaps from itself, fill it with members, and say how honest they are.",
    "evaluate": "Judge a run by readings that were held out, and write a report; or score maps, also against simulated "
    "truth.",
    "models": "List the models with family, reference, parameters and multiply-accumulates, beside the paper's table.",
    "bench": "Studies: train schemes side by side, measure, store.",
}


KEPT = {  # by verb, what a stop leaves behind; `train` says more
    "simulate": "finished trajectories are kept, the same command goes on",
    "bench": "finished cells are kept, the same command goes on",
    "demo": "what is finished is kept, the same command begins anew",
}


class Verbs(TyperGroup):
    """A group whose commands are names and help until one of them is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _command(str(name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Ctrl-C is answered here: the library behind would end without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            verb = str(ctx.invoked_subcommand)
            print(f"\nstopped; {str(stop) or KEPT.get(verb, 'nothing was written')}", file=sys.stderr)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="solid",
    help="Dense maps and forecasts with honest uncertainty, from sparse moving sensors alone.",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"solidfield {version('solidfield')}")
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
) -> None:
    """What can be asked without a verb."""


def _nothing() -> None:
    """Stands for a verb that is not imported yet."""


for _name, _help in VERBS.items():
    app.command(_name, help=_help)(_nothing)


def _command(name: str) -> Any:
    """The verb itself; `bench` has verbs of its own."""
    module = import_module(f".{name}", __name__)
    group = getattr(module, "app", None)
    if group is None:
        group = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        group.command(name)(getattr(module, name))
    return typer.main.get_command(group)


def main() -> None:
    """Run the command line; a mistake of the user becomes one line on standard error and exit code 2."""
    warnings.formatwarning = lambda message, *where, **more: f"note: {message}\n"
    try:
        app()
    except SolidError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
