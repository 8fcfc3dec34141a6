"""solid evaluate: a run judged by held-out readings, with a report; or maps scored beside rivals and the truth."""

from __future__ import annotations

import json as jsonlib
import shlex
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from .. import plot
from ..errors import SolidError
from ..pairs.store import PairStore, open_pairs
from ..prediction.maps import ahead, open_maps
from ..report import RIVALS as REPORT_RIVALS
from ..report import judge_run, refuse_report, write_report
from ..report.truth import RIVALS, Judge
from ..report.truth import evaluate as evaluate_maps
from ..training.record import PAIRS, RUN, RunRecord
from ..worlds import Truth, open_truth
from . import show


def evaluate(
    subject: Annotated[Path, typer.Argument(metavar="RUN|MAPS", help="A run (solid train), or maps (solid predict).")],
    store: Annotated[Path | None, typer.Argument(metavar="[PAIRS]", help="The pair store to judge by.")] = None,
    folder: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="Folder for scores and figures.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Same as PAIRS; a run has its own in its folder.")] = None,
    out: Annotated[Path | None, typer.Option(help="Same as OUT; for a run it is RUN-report unless given.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Maps only: the truth store, where there is one.")] = None,
    rival: Annotated[list[str] | None, typer.Option(help="Closed-form models to compare with; repeatable.")] = None,
    run: Annotated[list[Path] | None, typer.Option(help="Runs only: trained runs to compare with; repeatable.")] = None,
    members: Annotated[int, typer.Option(help="Runs only: of each ensemble.")] = 100,
    scenes: Annotated[int | None, typer.Option(help="Runs only: test examples a lead, evenly in time; or all.")] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Runs only: also roll so many steps forward, from 40 scenes or --scenes.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Runs only: same seed, same members.")] = 0,
    above: Annotated[float | None, typer.Option(help="Runs only: threshold of the map of chances.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Judge a run by readings that were held out, and write a report; or score maps, also against simulated truth."""
    where, into = store or pairs, folder or out
    if (subject / RUN).is_file():
        if truth is not None:
            raise SolidError("--truth is for maps; predict with `solid predict`, then evaluate the maps")
        rivals = tuple(rival) if rival else REPORT_RIVALS
        into = into or subject.with_name(f"{subject.name}-report")
        _run(subject, where, into, rivals, run or [], members, scenes, steps, seed, above, json)
    elif where is None or into is None:
        raise SolidError(f"{subject} is no run folder; to score maps, give them, their pair store and a folder")
    else:
        _maps(subject, where, into, truth, rival or RIVALS, json)


def _run(
    path: Path,
    pairs: Path | None,
    out: Path,
    rivals: tuple[str, ...],
    others: list[Path],
    members: int,
    scenes: int | None,
    steps: int,
    seed: int,
    above: float | None,
    json: bool,
) -> None:
    refuse_report(out)
    loaded = RunRecord.open(path)
    if pairs is None and not (path / PAIRS).exists():
        raise SolidError(f"{path} holds no pair store of its own; give the one to judge by with --pairs")
    store = open_pairs(pairs or path / PAIRS)
    with show.progress("evaluating", f"{len(store.leads)} lead(s), {members} members", json) as update:
        findings = judge_run(
            loaded,
            store,
            rivals=rivals,
            runs=[RunRecord.open(other) for other in others],
            members=members,
            scenes=scenes,
            steps=steps,
            seed=seed,
            note=lambda what, done, total: update(done, total, what),
        )
    words: list[str | Path | float] = ["solid", "evaluate", path, "--out", out, "--members", members, "--seed", seed]
    words += ["--pairs", pairs] if pairs else []
    words += ["--scenes", scenes] if scenes else []
    words += ["--steps", steps] if steps > 1 else []
    words += ["--above", above] if above is not None else []
    words += [word for name in rivals for word in ("--rival", name)] if rivals != REPORT_RIVALS else []
    words += [word for other in others for word in ("--run", other)]
    page = write_report(findings, out, shlex.join(_typed(word) for word in words), above)
    found = findings.results["verdict"]
    if json:
        show.as_json({"report": str(page), "scores": str(out / "scores.json"), "verdict": found})
        return
    print(f"\n{found['headline']}")
    for name in ("worth", "honest", "caution"):
        for sentence in found[name]:
            print(f"  - {sentence}")
    print()
    show.line("report", f"{page}   scores   {out / 'scores.json'}")


def _typed(word: str | Path | float) -> str:
    """As it was typed; of an absolute path only the name, since it says nothing on another machine."""
    return word.name if isinstance(word, Path) and word.is_absolute() else str(word)


def _maps(
    maps: Path, pairs: Path, out: Path, truth: Path | None, rivals: list[str] | tuple[str, ...], json: bool
) -> None:
    dataset, store = open_maps(maps), open_pairs(pairs)
    dense = open_truth(truth) if truth else None
    with show.progress("evaluating", f"{dataset.sizes['init_time']} scenes", json) as update:
        leads = dataset.sizes["lead_time"]
        scores: list[dict[str, Any]] = []
        for lead in range(leads):
            scores.append(evaluate_maps(dataset, store, dense, rivals, lead))
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
    made_by = dataset.attrs["model_label"]
    plot.maps(
        ensemble[:, scene],
        pair.source.values[0, 0].numpy(),
        pair.source.mask[0, 0].numpy(),
        None if truth is None else judge.values[scene, 0],
        store.grid,
        label,
        f"{made_by}, {ahead(dataset, 0):g} ahead",
    ).savefig(out / "maps.png")
    region = "unobserved" if truth is not None else "targets"
    plot.calibration_figure(
        ensemble,
        judge.values[:, 0],
        judge.where[region][:, 0],
        np.broadcast_to(judge.distance, judge.values.shape)[:, 0],
        units,
        title=f"{made_by}: cells without a sensor",
        groups=judge.groups,
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
