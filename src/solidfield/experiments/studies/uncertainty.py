"""Study 3, uncertainty: is the spread the size of the error, by cell, by scene, by distance, by rank, and over time?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...plot.style import GREY, looks, tidy
from ..cell import Result
from ..text import MISSING, markdown, mean_of, named, number, ratio, unknown
from . import catalog, paper
from .shelf import Shelf, coverage, score, table_of


def cells(shelf: Shelf) -> dict[str, Result | None]:
    """The compared ensembles at 10 %."""
    return {cell.label: shelf.get(cell) for cell in catalog.uncertainty(shelf.scale)[1:-1]}


def rolled(shelf: Shelf) -> Result | None:
    return shelf.get(catalog.uncertainty(shelf.scale)[0])


def _rho(result: Result, kind: str) -> str:
    return number((score(result, "correlation") or {}).get(kind), 2, "-")


def _rough(result: Result) -> str:
    rough = result["scores"]["structure"]["roughness"]
    return ratio(rough["members"], rough["truth"])


# Calibration at 10 %: what the paper's word `calibrated` would have to mean.
COLUMNS: dict[str, Callable[[Result], str]] = {
    "50 % covers": lambda r: number(coverage(r, "0.5"), 3, "-"),
    "90 % covers": lambda r: number(coverage(r), 3, "-"),
    "spread / skill": lambda r: mean_of(score(r, "spread_skill")),
    "rho of cells": lambda r: _rho(r, "pixel"),
    "rho of scenes": lambda r: _rho(r, "sample"),
    "block spread / skill": lambda r: mean_of(r["scores"]["structure"]["block_spread_skill"]),
    "roughness / truth": _rough,
}


def reliability(shelf: Shelf) -> str:
    return table_of(cells(shelf), COLUMNS)


def rollout(shelf: Shelf) -> str:
    result = rolled(shelf)
    scored = ("CRPS", "RMSE of the mean", "spread", "spread / skill", "90 % covers")
    header = ("time ahead", *scored, "CRPS, noise anew", "90 % covers, noise anew")
    if result is None:
        return markdown(header, [(MISSING,) * len(header)])
    rows = []
    for lead, anew in zip(result["leads"], _anew(result), strict=True):
        row = [f"{lead['lead_time']:.1f}", mean_of(lead["crps"], 3), number(lead["rmse"])]
        row += [number(lead["spread"], 3, "-"), mean_of(lead["spread_skill"]), mean_of(lead["coverage"]["0.9"], 3)]
        rows.append((*row, mean_of(anew["crps"], 3), mean_of(anew["coverage"]["0.9"], 3)))
    return markdown(header, rows)


def direct(shelf: Shelf) -> str:
    """Direct laws of every step from a window of four, beside rollouts."""
    found, today = shelf.get(catalog.direct(shelf.scale)), rolled(shelf)
    scored = ("CRPS, direct", "90 % covers", "spread / skill", "CRPS, the same run rolled out", "90 % covers")
    header = ("time ahead", *scored, "CRPS, rolled from one frame", "90 % covers")
    if found is None:
        return markdown(header, [(MISSING,) * len(header)])
    before = today["leads"] if today is not None else [None] * len(found["leads"])
    rows = []
    for own, same, one in zip(found["leads"], found["leads_rolled"], before, strict=True):
        row = [f"{own['lead_time']:.1f}"]
        for lead in (own, same, one):
            row += [MISSING] * 2 if lead is None else [mean_of(lead["crps"], 3), mean_of(lead["coverage"]["0.9"], 3)]
        row.insert(3, mean_of(own["spread_skill"]))
        rows.append(tuple(row))
    for mean in found["means"]:
        first, last = (step * found["leads"][0]["lead_time"] for step in mean["steps"])
        row = [f"mean, {first:.1f} to {last:.1f}", mean_of(mean["crps"], 3), mean_of(mean["coverage"], 3)]
        rows.append((*row, mean_of(mean["spread_skill"]), *["-"] * 4))
    return markdown(header, rows)


def direct_words(shelf: Shelf) -> str:
    found, today = shelf.get(catalog.direct(shelf.scale)), rolled(shelf)
    if found is None or today is None:
        return unknown("direct laws")
    pairs = [(a, b) for a, b in zip(found["leads"], today["leads"], strict=True) if a["spread"] is not None]
    ratios = [f"{a['crps']['mean'] / b['crps']['mean']:.2f}" for a, b in pairs]
    return (
        f"At each time ahead the CRPS of the direct law is x {', '.join(ratios)} that of the rollout from one frame. "
        f"An ensemble of all steps takes 1 / {found['rollout_over_direct_seconds']:.0f} of the CPU time of the same "
        "run rolled out: one pass a step instead of one a step and member."
    )


def _anew(result: Result) -> list[dict[str, Any]]:
    """The rollout whose noise is new at every step; the same one for a model that always draws it so."""
    return list(result["leads_anew"] if "leads_anew" in result else result["leads"])


def spread_words(shelf: Shelf) -> str:
    result = shelf.at("solid")
    rho, skill = score(result, "correlation"), score(result, "spread_skill")
    if result is None or not rho or not skill:
        return unknown("spread and error")
    kinds = {"cell by cell": rho["pixel"], "scene by scene": rho["sample"]}
    known = {words: value for words, value in kinds.items() if value is not None}
    above = sum(value > paper.RHO for value in known.values())
    reach = f"{above} of the {len(known)} kinds" if above else "neither kind"
    text = (
        f"The correlation of spread with error is {' and '.join(f'{value:.2f} {w}' for w, value in known.items())}; "
        f"the paper reports more than {paper.RHO} without saying which, and {reach} of ours reaches that. A perfect "
        "ensemble stays far below 1 cell by cell, since one error is a single draw of what the spread describes. "
        f"Spread / skill is {skill['mean']:.2f} ± {skill['error']:.2f}"
    )
    bins = result["scores"]["by_distance"]
    wide = [value for value in bins["spread"] if value is not None] if bins else []
    if len(wide) > 1:
        grows = all(b >= 0.98 * a for a, b in pairwise(wide))
        text += f"; from the nearest to the farthest cells the spread goes from {wide[0]:.3f} to {wide[-1]:.3f} and "
        text += "grows all the way" if grows else "does not grow all the way"
    return text + "."


def rollout_words(shelf: Shelf) -> str:
    result = rolled(shelf)
    if result is None or result["leads"][0]["spread"] is None:
        return unknown("the rollout")
    first, last = result["leads"][0], result["leads"][-1]
    ratio = last["spread"] / last["rmse"]
    text = (
        f"From {first['lead_time']:.1f} to {last['lead_time']:.1f} time units the error grows x "
        f"{last['rmse'] / first['rmse']:.2f} and the spread x {last['spread'] / first['spread']:.2f}; at the end "
        f"spread / error is {ratio:.2f}, so they grow {'together' if 0.8 <= ratio <= 1.25 else 'apart'}. Each member "
        f"conditions on its own values at the sensors, whose RMSE is {last['sensors_rmse']:.2f} at the end."
    )
    if "leads_anew" in result:
        anew = result["leads_anew"][-1]
        text += (
            " What is unknown between the sensors at one step mostly stays so: latents of held-out targets a step "
            f"apart correlate by {result['memory']:.2f}, and so does the noise of a member. Drawn anew at each step, "
            f"as in the paper, it averages out, and spread / error ends at {anew['spread'] / anew['rmse']:.2f}."
        )
    return text


def uncertainty_figure(shelf: Shelf) -> Figure | None:
    """Error against spread by groups of cells and by scene; both against distance; ranks."""
    found = {label: r for label, r in cells(shelf).items() if r is not None and r["scores"]["by_spread"]}
    if not found:
        return None
    figure = Figure(figsize=(10, 6), layout="constrained")
    groups, scenes, distance, ranks = figure.subplots(2, 2).flat
    style = looks(list(found))
    for label, result in found.items():
        (colour, marker), pairs, bins = style[label], result["scores"]["by_spread"], result["scores"]["by_distance"]
        look = {"color": colour, "marker": marker, "ms": 4, "lw": 1}
        groups.plot(pairs["spread"], pairs["error"], label=named(label), **look)
        if bins:
            distance.plot(bins["distance"], bins["rmse"], **look)
            distance.plot(bins["distance"], bins["spread"], **(look | {"ls": ":", "marker": None}))
        heights = score(result, "ranks")
        edges = np.arange(len(heights) + 1) / len(heights)
        ranks.step(edges, [*heights, heights[-1]], color=colour, where="post", lw=1)
    first = found.get("solid") or next(iter(found.values()))
    pairs = first["scores"]["by_spread"]
    scenes.plot(pairs["spread_per_scene"], pairs["error_per_scene"], "o", ms=3, color=style[next(iter(found))][0])
    for ax in (groups, scenes):
        end = max(ax.get_xlim()[1], ax.get_ylim()[1])
        ax.plot([0, end], [0, end], color=GREY, lw=0.8)
        ax.set(xlabel="spread / std", ylabel="RMSE / std")
    groups.set_title("cells, from sure to unsure")
    scenes.set_title(f"{first['cell']['label']}: one point a scene")
    distance.set(xlabel="distance to the nearest sensor, cells", ylabel="/ std", title="RMSE (line), spread (dotted)")
    ranks.axhline(1 / len(score(first, "ranks")), color=GREY, lw=0.8)
    ranks.set(xlabel="rank of the truth", ylabel="share", title="rank histogram", ylim=(0, None))
    groups.legend(fontsize=6, frameon=False)
    tidy((groups, scenes, distance, ranks))
    return figure


def rollout_figure(shelf: Shelf) -> Figure | None:
    result = rolled(shelf)
    if result is None:
        return None
    figure = Figure(figsize=(4.5, 3), layout="constrained")
    ax = figure.subplots()
    times = [lead["lead_time"] for lead in result["leads"]]
    for name, (colour, marker) in looks(("rmse", "spread", "crps")).items():
        values = [lead[name]["mean"] if name == "crps" else lead[name] for lead in result["leads"]]
        label = {"rmse": "RMSE", "crps": "CRPS"}.get(name, name)
        ax.plot(times, values, color=colour, marker=marker, ms=4, label=label)
    anew = [lead["spread"] for lead in _anew(result)]
    ax.plot(times, anew, color=GREY, ls="--", lw=1, label="spread, noise anew at every step")
    ax.set(xlabel="time units ahead", ylabel="/ std", ylim=(0, None))
    ax.legend(fontsize=7, frameon=False)
    tidy([ax])
    return figure


PARTS = {
    "reliability": reliability,
    "rollout": rollout,
    "reliability-words": spread_words,
    "rollout-words": rollout_words,
    "direct": direct,
    "direct-words": direct_words,
}
FIGURES = {"uncertainty": uncertainty_figure, "rollout": rollout_figure}
