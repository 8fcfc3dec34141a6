"""solid train: a model from sparse pairs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..config import Config, load_config
from ..forecast import Spec
from ..keys import key
from ..models import build
from ..pairs import PairStore, open_pairs
from ..train import Progress, TrainResult
from ..train import train as train_model
from . import show


def train(
    pairs: Annotated[Path, typer.Argument(help="A pair store (solid observe); nothing else is opened.")],
    out: Annotated[Path, typer.Argument(help="The run folder to write.")],
    preset: show.PresetOption = "laptop",
    model: Annotated[str | None, typer.Option(help="See `solid models`.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    minutes: Annotated[float | None, typer.Option(help="A budget of wall time instead of steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same weights.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
    oracle: Annotated[bool, typer.Option(help="solid-paper only: noise the dense target. Leaks; labelled.")] = False,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Train a model; after a kill, --resume ends in the same weights. Also runs under torchrun."""
    named = show.override(
        {
            "model.name": model,
            "model.options.oracle": oracle or None,
            "train.steps": steps,
            "train.minutes": minutes,
            "train.seed": seed,
        }
    )
    config = load_config(preset, (*settings, *named))
    result = run_training(open_pairs(pairs), out, config, resume, quiet=json)
    if json:
        show.as_json({"out": str(out), "steps": result.steps, "crps": result.crps, "stopped": result.stopped})
    else:
        crps = "" if result.crps is None else f", validation CRPS {result.crps:.3f} standard deviations"
        show.line("trained", f"{result.steps:,} steps ({result.stopped}){crps}; run folder {out}")


def run_training(store: PairStore, out: Path, config: Config, resume: bool = False, quiet: bool = False) -> TrainResult:
    """Build the model of the configuration and train it, with a live bar."""
    options: dict[str, Any] = config.model.options
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(config.train.seed, "weights"))  # initial weights are a function of the seed
        model = build(config.model.name, Spec(store.grid, len(store.variables)), options)
    label = config.model.name + (" (oracle: leaks dense truth)" if model.leaks else "")
    with show.progress("training", f"{label}, {model.parameter_count() / 1e6:.2g} M parameters", quiet) as update:

        def report(progress: Progress) -> None:
            crps = "" if progress.crps is None else f"  validation CRPS {progress.crps:.3f}"
            note = f"loss {progress.loss:.3f}{crps}  {progress.speed:.0f} examples/s"
            update(progress.step, progress.total, note)

        return train_model(model, store, out, config.train, options, resume=resume, report=report)
