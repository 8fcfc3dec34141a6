"""solid simulate: a world, from a preset, into a truth store."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..config import WorldConfig, load_config
from ..engine import Engine, spread
from ..worlds import GaussianWorld, NavierStokes, World, write_truth
from . import show


def simulate(
    out: Annotated[
        Path, typer.Argument(help="The truth store to write (a Zarr folder); an unfinished one is resumed.")
    ],
    preset: show.PresetOption = "laptop",
    trajectories: Annotated[int | None, typer.Option(help="How many.")] = None,
    grid: Annotated[int | None, typer.Option(help="Cells along each axis.")] = None,
    seed: Annotated[int | None, typer.Option(help="Each trajectory is a function of (seed, its number).")] = None,
    engine: show.EngineOption = "here",
    jobs: show.JobsOption = 1,
    scheduler: show.SchedulerOption = None,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Simulate trajectories of a turbulent flow, or of the Gaussian world, as they are: dense.

    Written chunk by chunk; run the same command again after an interruption and it goes on where it stopped.
    """
    named = show.override({"world.trajectories": trajectories, "world.grid": grid, "world.seed": seed})
    config = load_config(preset, (*settings, *named)).world
    with show.progress(
        "simulating", f"{config.trajectories:,} trajectories, {config.grid} x {config.grid}", json
    ) as update:
        apply = partial(spread, engine=Engine(engine, jobs, scheduler))
        truth = write_truth(make_world(config), out, config.trajectories, progress=update, apply=apply)
    if json:
        show.as_json({"out": str(out), "trajectories": truth.count, "frames": truth.frames, "world": truth.world})


def make_world(config: WorldConfig) -> World:
    if config.kind == "gaussian":
        return GaussianWorld(
            cells=config.grid, side=config.side, frames=config.frames, spacing=config.spacing, seed=config.seed
        )
    return NavierStokes(
        cells=config.grid,
        side=config.side,
        frames=config.frames,
        spacing=config.spacing,
        warmup=config.warmup,
        seed=config.seed,
    )
