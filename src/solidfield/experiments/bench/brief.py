"""The results of the benches on real data: shortened for storage, and as tables for a terminal and a page.

The numbers are those of `report/`: estimates with their 95 % interval, resampled by days, and the run's paired
difference to each rival, below zero where the run is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...report.verdict import Verdict
from ...report.words import REGIONS, distance_label, percent
from ...scores.estimate import Estimate
from ...scores.table import Score, ScoreTable
from ..cell import Result
from ..text import Table

KEPT = {  # of a region
    "crps": "crps",
    "mae": "mae",
    "spread_skill": "spread_skill",
    "coverage": "coverage_90",
    "tail_observed": "tail_observed",
    "tail_excess": "tail_excess",
}


def in_brief(table: ScoreTable, verdict: Verdict | None = None) -> Result:
    """What is stored of a judgement: of the first variable, the scores that tables show."""
    variable = next(iter(table.variables))
    leads, steps = [], []
    for lead in table.leads:
        at: dict[str, Any] = {"variable": variable, "lead": lead.lead, "rolled": lead.rolled}
        if lead.rolled:
            models = {score.model: _region(score) for score in table.select(region="all", **at)}
            steps.append({"ahead": lead.ahead, "models": models})
            continue
        difference: dict[str, Any] = {}
        for gap in table.compared(**at):
            difference.setdefault(gap.rival, {})[gap.region] = _bar(gap.difference)
        models = {
            name: {
                "regions": {s.region: {"readings": s.cells, **_region(s)} for s in table.select(model=name, **at)},
                "by_distance": [_bin(score) for score in table.select(model=name, bins="distance", **at)],
            }
            for name in table.models(lead.lead)
        }
        about = {"lead": lead.lead, "ahead": lead.ahead, "scenes": lead.scenes, "days": lead.groups}
        leads.append(about | {"models": models, "difference": difference})
    said = [] if verdict is None else [verdict.headline, *verdict.worth, *verdict.honest]
    brief = {"verdict": said, "distance_units": table.about["distance_units"], "leads": leads}
    rolled = next((lead.scenes for lead in table.leads if lead.rolled), None)
    if rolled is None:
        return brief
    return brief | {"rolled": {"scenes": rolled, "memory": table.about["memory"], "steps": steps}}


def _region(score: Score) -> Result:
    return {name: _bar(score[metric]) for name, metric in KEPT.items()} | {"rmse": score["rmse"].mean}


def _bin(score: Score) -> Result:
    assert score.bin is not None
    reach = {"low": score.bin.low, "high": score.bin.high, "readings": score.cells}
    return reach | {"crps": _bar(score["crps"]), "coverage": _bar(score["coverage_90"])}


def _bar(found: Estimate | None) -> Result | None:
    return None if found is None else {"mean": found.mean, "low": found.low, "high": found.high}


def tables(results: Sequence[Result]) -> list[Table]:
    """For a terminal and a page: the models of every part and lead, the first seed's regions and distances."""
    made: list[Table] = []
    for part in dict.fromkeys(result["cell"]["part"] for result in results):
        found = [result for result in results if result["cell"]["part"] == part]
        first, units, region = found[0], found[0]["units"], found[0]["region"]
        for place, at_lead in enumerate(first["leads"]):
            title = f"{part}, {at_lead['ahead']}"
            made.append(_models_table(title, [result["leads"][place] for result in found], units, region))
            made.append(_distance_table(title, at_lead, first["distance_units"]))
        if "rolled" in first:
            made.append(_rolled_table(part, first["rolled"], units))
    return made


def verdicts(results: Sequence[Result]) -> list[str]:
    """What the report says of the first seed of every part."""
    return [text for result in results if result["cell"]["seed"] == 0 for text in result["verdict"]]


def _models_table(title: str, seeds: Sequence[Result], units: str, main: str) -> Table:
    """Scores of the first seed, and mean and standard deviation of the CRPS over seeds."""
    at_lead, count = seeds[0], len(seeds)
    own = next(iter(at_lead["models"].values()))["regions"]
    others = [name for name in own if name != main]
    header: tuple[str, ...] = (f"{title}, CRPS in {units}", REGIONS.get(main, main))
    header += ("MAE", "RMSE", "run minus it", "90 % holds")
    header += tuple(column for name in others for column in (REGIONS.get(name, name), "90 % holds"))
    header += (f"mean of {count} seeds",) if count > 1 else ()
    rows: list[tuple[str, ...]] = []
    for name, model in at_lead["models"].items():
        score, gap = model["regions"][main], at_lead["difference"].get(name, {}).get(main)
        row = [name, _interval(score["crps"]), f"{score['mae']['mean']:.3g}", f"{score['rmse']:.3g}"]
        row += ["-" if gap is None else _interval(gap, "+.3g"), _share(score["coverage"])]
        for there in (model["regions"][other] for other in others):
            row += [f"{there['crps']['mean']:.3g}", _share(there["coverage"])]
        if count > 1:
            crps = [seed["models"][name]["regions"][main]["crps"]["mean"] for seed in seeds]
            row.append(f"{np.mean(crps):.3g} ± {np.std(crps, ddof=1):.2g}")
        rows.append(tuple(row))
    return header, rows


def _distance_table(title: str, at_lead: Mapping[str, Any], unit: str) -> Table:
    bins = next(iter(at_lead["models"].values()))["by_distance"]
    header = (f"{title}: CRPS, 90 % holds", *(distance_label(row["low"], row["high"], unit) for row in bins))
    rows = [
        (name, *(f"{row['crps']['mean']:.3g}, {_share(row['coverage'])}" for row in model["by_distance"]))
        for name, model in at_lead["models"].items()
    ]
    return header, rows


def _rolled_table(part: str, rolled: Mapping[str, Any], units: str) -> Table:
    steps = rolled["steps"]
    title = f"{part}, rolled forward (memory {rolled['memory']:.2f}): CRPS in {units}, 90 % holds"
    header = (title, *(at_step["ahead"] for at_step in steps))
    rows = [
        (name, *(f"{one['crps']['mean']:.3g}, {_share(one['coverage'])}" for one in (s["models"][name] for s in steps)))
        for name in steps[0]["models"]
    ]
    return header, rows


def _interval(found: Mapping[str, Any], form: str = ".3g") -> str:
    middle = format(found["mean"], form)
    if found["low"] is None:
        return middle
    return f"{middle} ({format(found['low'], form)} to {format(found['high'], form)})"


def _share(found: Mapping[str, Any] | None) -> str:
    return "-" if found is None else percent(found["mean"], 1)
