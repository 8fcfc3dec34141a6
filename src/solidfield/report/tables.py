"""The tables of a report: models beside each other where it counts, and the run by kind of held-out reading."""

from __future__ import annotations

from typing import Any

from .markup import table
from .verdict import call_of, main_region
from .words import REGIONS, percent


def tables(results: dict[str, Any]) -> list[str]:
    made = []
    for at_lead in results["leads"]:
        for variable, units in results["variables"].items():
            if variable in next(iter(at_lead["models"].values()))["variables"]:
                made += [_models_table(at_lead, variable, units), _regions_table(at_lead, variable, units)]
    return made


def rolled_tables(results: dict[str, Any]) -> list[str]:
    """Step by step: the run, and the CRPS of its rivals."""
    rolled, made = results["rolled"], []
    for variable in rolled["variables"]:
        units, rows = results["variables"][variable], []
        for at_step in rolled["steps"]:
            own, *rivals = (model["variables"][variable]["regions"]["all"] for model in at_step["models"].values())
            rows.append(
                (
                    at_step["ahead"],
                    f"{own['readings']:,}",
                    interval(own["crps"]),
                    share(own["coverage"]["0.9"]),
                    "-" if own["spread_skill"] is None else f"{own['spread_skill']['mean']:.2f}",
                    *(f"{rival['crps']['mean']:.3g}" for rival in rivals),
                )
            )
        header = (
            *("ahead", "readings", f"CRPS {units}".strip() + " (95 %)", "90 % intervals hold", "spread / skill"),
            *(f"CRPS of {name}" for name in list(rolled["steps"][0]["models"])[1:]),
        )
        caption = f"{variable}, rolled forward from {rolled['scenes']} of {rolled['scenes_in_all']} test scenes"
        made.append(table(caption, header, rows))
    return made


def _models_table(at_lead: dict[str, Any], variable: str, units: str) -> str:
    region = main_region(at_lead, variable)
    rows = []
    for name, model in at_lead["models"].items():
        score = model["variables"][variable]["regions"][region]
        compared = at_lead["comparisons"].get(name, {}).get(variable, {}).get("regions", {}).get(region)
        rows.append(
            (
                name,
                interval(score["crps"]),
                f"{score['crps_scaled']['mean']:.3f}",
                "-" if compared is None else interval(compared["difference"], signed=True),
                share(score["coverage"]["0.5"]),
                share(score["coverage"]["0.9"]),
                "-" if score["spread_skill"] is None else f"{score['spread_skill']['mean']:.2f}",
                f"{score['mae']['mean']:.3g}",
            )
        )
    header = (
        "model",
        f"CRPS {units}".strip() + " (95 %)",
        "in standard deviations",
        "this run minus it (95 %)",
        "50 % intervals hold",
        "90 % intervals hold",
        "spread / skill",
        f"MAE {units}".strip(),
    )
    first = next(iter(at_lead["models"].values()))["variables"][variable]["regions"][region]
    caption = (
        f"{variable}, {at_lead['ahead']}: {first['readings']:,} readings, {REGIONS[region]}, {at_lead['scenes']} of "
        f"{at_lead['scenes_in_all']} test scenes"
    )
    return table(caption, header, rows, own=0)


def _regions_table(at_lead: dict[str, Any], variable: str, units: str) -> str:
    own = next(iter(at_lead["models"]))
    rows = []
    for region, score in at_lead["models"][own]["variables"][variable]["regions"].items():
        best = call_of(at_lead, variable, region)["best_rival"]
        gap = None if best is None else at_lead["comparisons"][best][variable]["regions"][region]["difference"]
        rows.append(
            (
                REGIONS[region],
                f"{score['readings']:,}",
                interval(score["crps"]),
                best or "-",
                "-" if gap is None else interval(gap, signed=True),
                share(score["coverage"]["0.9"]),
            )
        )
    header = (
        "where",
        "readings",
        f"CRPS {units}".strip() + " (95 %)",
        "best rival there",
        "this run minus it (95 %)",
        "90 % intervals hold",
    )
    return table(f"{variable}, {at_lead['ahead']}: {own} by kind of held-out reading", header, rows)


def interval(estimate: dict[str, Any], signed: bool = False) -> str:
    form = "+.3g" if signed else ".3g"
    middle = format(estimate["mean"], form)
    if estimate["low"] is None:
        return middle
    return f"{middle} ({format(estimate['low'], form)} to {format(estimate['high'], form)})"


def share(estimate: dict[str, Any] | None) -> str:
    return "-" if estimate is None else percent(estimate["mean"], 1)
