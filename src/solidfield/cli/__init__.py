"""The command line: one file a verb, in the order of the data's way.

Every verb has --help, a progress bar, --json for machines, and ends with exit code 0 or with a one-line error and 2.
"""

from __future__ import annotations

import sys

import typer

from ..errors import SolidError
from . import bench, check, demo, evaluate, grid, models, observe, predict, quality, simulate, train

app = typer.Typer(
    name="solid",
    help="Dense maps and forecasts with honest uncertainty, from sparse moving sensors alone.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (demo, simulate, observe, check, grid, quality, train, predict, evaluate, models):
    app.command()(getattr(verb, verb.__name__.rpartition(".")[2]))
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Run the command line; a mistake of the user becomes one line on standard error and exit code 2."""
    try:
        app()
    except SolidError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; what was finished is saved, the same command with --resume goes on", file=sys.stderr)
        sys.exit(130)
