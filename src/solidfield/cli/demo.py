"""solid demo: the whole way of the data on one flow, in minutes."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ..config import load_config
from ..fit import fit
from ..prediction.maps import save_maps
from ..prediction.predict import choose_scenes, predict_examples
from ..report.maps import RIVALS, write_scores
from ..report.maps import evaluate as evaluate_maps
from ..worlds import write_truth
from ..worlds.observe import observe as observe_truth
from . import show
from .evaluate import print_table
from .observe import describe
from .simulate import make_world
from .train import training_bar


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes; its run is made anew.")] = Path(
        "demo"
    ),
    preset: show.PresetOption = "laptop",
    settings: show.SetOption = [],  # noqa: B006
) -> None:
    """Simulate a turbulent flow, observe 10 % of it, train on the readings alone, predict, evaluate, draw."""
    config = load_config(preset, tuple(settings))
    world, scenario = config.world, config.scenario
    with show.progress("simulating", f"{world.trajectories} trajectories, {world.grid} x {world.grid}") as update:
        truth = write_truth(make_world(world), out / "truth.zarr", world.trajectories, progress=update)
    store = observe_truth(
        truth,
        out / "pairs.zarr",
        scenario,
        leads=scenario.leads,
        validation=scenario.validation,
        test=scenario.test,
        seed=scenario.seed,
    )
    show.line("observing", describe(store, scenario.pattern, scenario.amount, scenario.regime))
    shutil.rmtree(out / "run", ignore_errors=True)
    with ExitStack() as bar:
        run = fit(store, out / "run", preset=preset, settings=settings, progress=training_bar(bar, out / "run"))
    scenes = choose_scenes(store, "test", count=config.predict.scenes)
    with show.progress("predicting", f"{len(scenes)} scenes x {config.predict.members} members") as update:
        maps = predict_examples(
            run,
            store,
            scenes,
            members=config.predict.members,
            seed=config.predict.seed,
            quantiles=config.predict.quantiles,
            max_memory=config.predict.max_memory,
            progress=update,
        )
    save_maps(maps, out / "maps.nc")
    with show.progress("evaluating", ", ".join(RIVALS)) as update:
        table = evaluate_maps(maps, store, truth)
        update("", 1, 1)
    write_scores(table, maps, store, truth, out)
    print_table(table)
    print()
    show.line(
        "maps", f"{out / 'maps.nc'}   figures   {out / 'maps.png'}  {out / 'calibration.png'}   run   {out / 'run'}"
    )
