"""solid predict: ensembles of maps from a run and sparse sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..config import PredictConfig, load_config
from ..errors import SolidError
from ..maps import save_maps
from ..pairs import PairStore, open_pairs
from ..predict import predict_examples
from ..run import load_run
from . import show


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder (solid train).")],
    pairs: Annotated[Path, typer.Argument(help="A pair store whose sources are the queries.")],
    out: Annotated[Path, typer.Argument(help="Maps to write: .nc or .zarr.")],
    preset: show.PresetOption = "laptop",
    split: Annotated[str, typer.Option(help="test, between (odd frames), validation or train.")] = "test",
    members: Annotated[int | None, typer.Option(help="Of the ensemble.")] = None,
    steps: Annotated[int | None, typer.Option(help="Leads of a rollout.")] = None,
    scenes: Annotated[int | None, typer.Option(help="How many examples, spread evenly over the split.")] = None,
    lead: Annotated[int | None, typer.Option(help="0 or 1; needed where the store has both.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same members.")] = None,
    max_memory: Annotated[float | None, typer.Option(help="GiB that drawing may take.")] = None,
    recalibrate: Annotated[
        bool, typer.Option(help="Repair the spread on validation targets (marginal, labelled in the maps).")
    ] = False,
    keep_members: Annotated[bool, typer.Option(help="Write every member, not only the summaries.")] = True,
    settings: show.SetOption = [],  # noqa: B006
    json: show.JsonOption = False,
) -> None:
    """Draw ensembles of full maps, with mean, spread and quantiles."""
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
    store = open_pairs(pairs)
    scene_list = choose_scenes(store, split, config, lead)
    loaded = load_run(run)
    with show.progress("predicting", f"{len(scene_list)} scenes x {config.members} members", json) as update:
        maps = predict_examples(
            loaded,
            store,
            scene_list,
            recalibrate,
            members=config.members,
            steps=config.steps,
            seed=config.seed,
            quantiles=config.quantiles,
            keep_members=keep_members,
            max_memory=config.max_memory,
            progress=update,
        )
    save_maps(maps, out)
    if json:
        show.as_json({"out": str(out), "scenes": len(scene_list), "members": config.members, "leaks": loaded.leaks})
    else:
        show.line("maps", f"{out}{'   (oracle: leaks dense truth)' if loaded.leaks else ''}")


def choose_scenes(store: PairStore, split: str, config: PredictConfig, lead: int | None = None) -> np.ndarray:
    """Examples spread evenly over the split, so that few scenes still come from many trajectories."""
    indices = store.split(split)
    leads = np.unique(store.columns["lead"][indices])
    if lead is None and len(leads) > 1:
        raise SolidError(f"{store.path} has leads {leads.tolist()}; choose one with --lead")
    wanted = leads[0] if lead is None else lead
    indices = indices[store.columns["lead"][indices] == wanted]
    if len(indices) == 0:
        raise SolidError(f"{store.path} has no {split} example of lead {wanted}; it has leads {leads.tolist()}")
    last = _last_frame(store, config.steps)
    indices = indices[store.columns["frame_target"][indices] <= last]
    if len(indices) == 0:
        raise SolidError(f"no scene of {store.path} has {config.steps} leads of truth after it; ask for fewer steps")
    count = min(len(indices), config.scenes or len(indices))
    return indices[np.linspace(0, len(indices) - 1, count).round().astype(int)]


def _last_frame(store: PairStore, steps: int) -> int:
    """A rollout is scored where truth goes on, so its scenes begin early enough."""
    return int(store.columns["frame_target"].max()) - 2 * (steps - 1)
