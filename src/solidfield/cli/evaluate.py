"""solid evaluate: scores beside rivals, and two figures."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from .. import plot
from ..evaluate import RIVALS, Judge
from ..evaluate import evaluate as evaluate_maps
from ..maps import open_maps
from ..pairs import PairStore, open_pairs
from ..worlds import Truth, open_truth
from . import show


def evaluate(
    maps: Annotated[Path, typer.Argument(help="Maps (solid predict).")],
    pairs: Annotated[Path, typer.Argument(help="The pair store they were predicted from.")],
    out: Annotated[Path, typer.Argument(help="Folder for scores.json and figures.")],
    truth: Annotated[Path | None, typer.Option(help="The truth store, where there is one.")] = None,
    rival: Annotated[list[str] | None, typer.Option(help="Closed-form models to compare with; repeatable.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Score maps against held-out readings, and against the truth where it is simulated."""
    dataset, store = open_maps(maps), open_pairs(pairs)
    dense = open_truth(truth) if truth else None
    with show.progress("evaluating", f"{dataset.sizes['init_time']} scenes", json) as update:
        leads = dataset.sizes["lead_time"]
        scores: list[dict[str, Any]] = []
        for lead in range(leads):
            scores.append(evaluate_maps(dataset, store, dense, rival or RIVALS, lead))
            update(lead + 1, leads)
    write_results(scores, dataset, store, dense, out)
    if json:
        show.as_json({"scores": str(out / "scores.json"), "leads": scores})
        return
    print_table(scores)
    show.line("scores", f"{out / 'scores.json'}   figures   {out / 'maps.png'}   {out / 'calibration.png'}")


def write_results(
    scores: list[dict[str, Any]], dataset: xr.Dataset, store: PairStore, truth: Truth | None, out: Path
) -> None:
    """scores.json, one figure of maps, one of calibration."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "scores.json").write_text(jsonlib.dumps({"leads": scores}, indent=1))
    judge = Judge(store, dataset["example"].values, truth)
    name = store.variables[0]
    ensemble = dataset[name].values[:, :, 0]  # (K, N, H, W)
    units = store.units[0]
    scene = len(ensemble[0]) // 2
    pair = store.batch(dataset["example"].values[scene : scene + 1])
    label = f"{name} [{units}]" if units else name
    leak = " (oracle: leaks dense truth)" if dataset.attrs["leaks_dense_truth"] else ""
    plot.maps(
        ensemble[:, scene],
        pair.source.values[0, 0].numpy(),
        pair.source.mask[0, 0].numpy(),
        None if truth is None else judge.values[scene, 0],
        store.grid,
        label,
        f"{dataset.attrs['model']}{leak}, {float(dataset['lead_time'][0]):g} ahead",
    ).savefig(out / "maps.png")
    region = "unobserved" if truth is not None else "targets"
    plot.calibration_figure(
        ensemble,
        judge.values[:, 0],
        judge.where[region][:, 0],
        np.broadcast_to(judge.distance, judge.values.shape)[:, 0],
        units,
        title=f"{dataset.attrs['model']}{leak}: cells without a sensor",
    ).savefig(out / "calibration.png")


def print_table(scores: list[dict[str, Any]]) -> None:
    """One table per lead, in standard deviations of the field, cells without a sensor."""
    for at_lead in scores:
        ahead = f"{at_lead['lead_time']:g} ahead" if at_lead["lead_time"] else "reconstruction"
        header = (
            f"{ahead}, cells without a sensor",
            "CRPS",
            "+/-",
            "90 % interval covers",
            "spread / skill",
            "at sensors",
        )
        print()
        show.table(header, [_row(name, entry) for name, entry in at_lead["models"].items()])


def _row(name: str, entry: dict[str, Any]) -> tuple[str, ...]:
    variable = next(iter(entry["variables"].values()))
    regions = variable["regions"]
    main = regions.get("unobserved") or regions["targets"]
    coverage, skill, sensors = main["coverage"]["0.9"], main["spread_skill"], regions["sensors"]
    return (
        name,
        f"{main['crps_scaled']['mean']:.3f}",
        "-" if main["crps_scaled"]["error"] is None else f"{main['crps_scaled']['error']:.3f}",
        "-" if coverage is None else f"{100 * coverage['mean']:.1f} %",
        "-" if skill is None else f"{skill['mean']:.2f}",
        "-" if sensors is None else f"{sensors['crps_scaled']['mean']:.3f}",
    )
