"""solid evaluate: a run judged by held-out readings, with a report; or maps scored beside rivals and the truth."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SolidError
from ..pairs.store import open_pairs
from ..prediction.maps import open_maps
from ..report.maps import RIVALS, write_scores
from ..report.maps import evaluate as evaluate_maps
from ..report.tables import columns
from ..report.words import REGIONS
from ..report.write import PAGE
from ..run import load
from ..scores.table import ScoreTable
from ..training.record import RUN
from ..worlds import open_truth
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
    past_only: Annotated[bool, typer.Option("--past-only", help="solid-set: do not look on what came later.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Judge a run by readings that were held out, and write a report; or score maps, also against simulated truth."""
    where, into = store or pairs, folder or out
    if (subject / RUN).is_file():
        if truth is not None:
            raise SolidError("--truth is for maps; predict with `solid predict`, then evaluate the maps")
        rivals = tuple(rival) if rival else None
        into = into or subject.with_name(f"{subject.name}-report")
        _run(subject, where, into, rivals, run or [], members, scenes, steps, seed, above, past_only, json)
    elif where is None or into is None:
        raise SolidError(f"{subject} is no run folder; to score maps, give them, their pair store and a folder")
    else:
        _maps(subject, where, into, truth, rival or RIVALS, json)


def _run(
    path: Path,
    pairs: Path | None,
    out: Path,
    rivals: tuple[str, ...] | None,
    others: list[Path],
    members: int,
    scenes: int | None,
    steps: int,
    seed: int,
    above: float | None,
    past_only: bool,
    json: bool,
) -> None:
    words: list[str | Path | float] = ["solid", "evaluate", path, "--out", out, "--members", members, "--seed", seed]
    words += ["--pairs", pairs] if pairs else []
    words += ["--scenes", scenes] if scenes else []
    words += ["--steps", steps] if steps > 1 else []
    words += ["--above", above] if above is not None else []
    words += ["--past-only"] if past_only else []
    words += [word for name in rivals or () for word in ("--rival", name)]
    words += [word for other in others for word in ("--run", other)]
    with show.progress("evaluating", f"{path}, {members} members", json) as update:
        findings = load(path).evaluate(
            pairs,
            out=out,
            rivals=rivals,
            runs=[load(other) for other in others],
            members=members,
            scenes=scenes,
            steps=steps,
            seed=seed,
            above=above,
            past_only=past_only,
            command=shlex.join(_typed(word) for word in words),
            progress=update,
        )
    page, found = out / PAGE, findings.verdict
    if json:
        show.as_json({"report": str(page), "scores": str(out / "scores.json"), "verdict": found.to_json()})
        return
    print(f"\n{found.headline}\n{found.map}")
    for sentence in (*found.worth, *found.honest, *found.caution):
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
        table = evaluate_maps(dataset, store, dense, rivals)
        update("", 1, 1)
    figures = write_scores(table, dataset, store, dense, out)
    if json:
        show.as_json({"scores": str(out / "scores.json"), **table.to_json()})
        return
    print_table(table)
    show.line("scores", f"{out / 'scores.json'}   figures   {'   '.join(map(str, figures))}")


def print_table(table: ScoreTable) -> None:
    """A table for each lead and variable: every metric, in standard deviations of the field."""
    for lead in table.leads:
        for variable in table.variables:
            found = table.select(variable=variable, lead=lead.lead, region=lead.main, rolled=None)
            if not found:
                continue
            heading, rows = columns(found, scaled=True)
            title = f"{variable}, {lead.ahead}, {REGIONS[lead.main]}, in standard deviations of the field"
            at: dict[str, Any] = {"variable": variable, "lead": lead.lead, "region": "sensors", "rolled": None}
            known = {score.model: f"{score.scaled('crps').mean:.3g}" for score in table.select(**at)}
            if known:
                heading = (*heading, "CRPS at sensors")
                rows = [(*row, known[score.model]) for score, row in zip(found, rows, strict=True)]
            print()
            show.table((title, *heading), [(score.model, *row) for score, row in zip(found, rows, strict=True)])
