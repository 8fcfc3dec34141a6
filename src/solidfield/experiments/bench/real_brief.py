"""The results of the benches on real data: shortened for storage, and as tables for a terminal and a page.

The numbers are those of `report/`: estimates with their 95 % interval, resampled by days, and the run's paired
difference to each rival, below zero where the run is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...report import Findings
from ...report.words import REGIONS, distance_label, percent
from ...scores.estimate import Estimate
from ...scores.table import Lead, Score

DIGITS = 5
KEPT = ("crps", "mae", "spread_skill")  # of a region's scores, beside coverage and RMSE
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows


def in_brief(findings: Findings) -> dict[str, Any]:
    """What is stored of a judgement, of the first variable."""
    table, variable, words = findings.table, findings.store.variables[0], findings.verdict
    leads = []
    for lead in (lead for lead in table.leads if not lead.rolled):
        at: dict[str, Any] = {"variable": variable, "lead": lead.lead}
        difference: dict[str, Any] = {}
        for gap in table.compared(**at):
            difference.setdefault(gap.rival, {})[gap.region] = estimate(gap.difference)
        leads.append(
            {
                "lead": lead.lead,
                "ahead": lead.ahead,
                "scenes": lead.scenes,
                "days": lead.groups,
                "models": {
                    name: {
                        "regions": {
                            score.region: {"readings": score.cells, **region_in_brief(score)}
                            for score in table.select(model=name, **at)
                        },
                        "by_distance": [
                            bin_in_brief(score) for score in table.select(model=name, bins="distance", **at)
                        ],
                    }
                    for name in table.models(lead.lead)
                },
                "difference": difference,
            }
        )
    brief = {
        "verdict": [words.headline, *words.worth, *words.honest],
        "distance_units": table.about["distance_units"],
        "leads": leads,
    }
    rolled = [lead for lead in table.leads if lead.rolled]
    if not rolled:
        return brief
    return brief | {"rolled": rolled_in_brief(rolled, table.scores, variable, table.about["memory"])}


def rolled_in_brief(leads: Sequence[Lead], scores: Sequence[Score], variable: str, memory: float) -> dict[str, Any]:
    """Step by step, the scores of every model at all readings."""
    steps = [
        {
            "ahead": lead.ahead,
            "models": {
                score.model: region_in_brief(score)
                for score in scores
                if (score.rolled, score.lead, score.region, score.variable) == (True, lead.lead, "all", variable)
                and score.bin is None
            },
        }
        for lead in leads
    ]
    return {"scenes": leads[0].scenes, "memory": digits(memory), "steps": steps}


def region_in_brief(score: Score) -> dict[str, Any]:
    return {
        **{name: estimate(score[name]) for name in KEPT},
        "rmse": digits(score["rmse"].mean),
        "coverage": estimate(score["coverage_90"]),
    }


def bin_in_brief(score: Score) -> dict[str, Any]:
    assert score.bin is not None
    reach = {"low": digits(score.bin.low), "high": digits(score.bin.high), "readings": score.cells}
    return reach | {"crps": estimate(score["crps"]), "coverage": estimate(score["coverage_90"])}


def estimate(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else {name: digits(getattr(found, name)) for name in ("mean", "low", "high")}


def digits(value: float | None) -> float | None:
    """A few significant digits, far finer than any error bar."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.{DIGITS}g}")


def over_seeds(found: Sequence[dict[str, Any]], region: str = "all") -> list[dict[str, Any]]:  # a lead each
    """Mean and standard deviation of the CRPS over seeds, by model."""
    leads = []
    for at_lead in zip(*(one["leads"] for one in found), strict=True):
        crps = {
            name: [lead["models"][name]["regions"][region]["crps"]["mean"] for lead in at_lead]
            for name in at_lead[0]["models"]
        }
        spread = 1 if len(found) > 1 else 0
        leads.append(
            {
                "lead": at_lead[0]["lead"],
                "crps": {
                    name: {"mean": digits(np.mean(values)), "std": digits(np.std(values, ddof=spread))}
                    for name, values in crps.items()
                },
            }
        )
    return leads


def part_of(found: Sequence[dict[str, Any]], units: str, region: str = "all") -> dict[str, Any]:
    """One part of a result: everything of every seed, and the seeds together."""
    return {"units": units, "region": region, "seeds": over_seeds(found, region), "found": list(found)}


def real_tables(result: Mapping[str, Any]) -> list[Table]:
    """For a terminal and a page: the models of every part and lead, the first seed's regions and distances."""
    tables: list[Table] = []
    for part, entry in result["parts"].items():
        first, units = entry["found"][0], entry["units"]
        for at_lead, seeds in zip(first["leads"], entry["seeds"], strict=True):
            title = f"{part}, {at_lead['ahead']}"
            tables.append(_models_table(title, at_lead, seeds, units, entry["region"], len(entry["found"])))
            tables.append(_distance_table(title, at_lead, first["distance_units"]))
        if "rolled" in first:
            tables.append(_rolled_table(part, first["rolled"], units))
    return tables


def _models_table(
    title: str, at_lead: Mapping[str, Any], seeds: Mapping[str, Any], units: str, main: str, count: int
) -> Table:
    own = next(iter(at_lead["models"].values()))["regions"]
    others = [name for name in own if name != main]
    header: tuple[str, ...] = (
        f"{title}, CRPS in {units}",
        REGIONS.get(main, main),
        "MAE",
        "RMSE",
        "run minus it",
        "90 % holds",
    )
    header += tuple(column for name in others for column in (REGIONS.get(name, name), "90 % holds"))
    header += (f"mean of {count} seeds",) if count > 1 else ()
    rows: list[tuple[str, ...]] = []
    for name, model in at_lead["models"].items():
        row: tuple[str, ...]
        score, gap = model["regions"][main], at_lead["difference"].get(name, {}).get(main)
        row = (name, _interval(score["crps"]), f"{score['mae']['mean']:.3g}", f"{score['rmse']:.3g}")
        row += ("-" if gap is None else _interval(gap, "+.3g"), _share(score["coverage"]))
        for other in others:
            there = model["regions"][other]
            row += (f"{there['crps']['mean']:.3g}", _share(there["coverage"]))
        if count > 1:
            row += (f"{seeds['crps'][name]['mean']:.3g} ± {seeds['crps'][name]['std']:.2g}",)
        rows.append(row)
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
