"""The 10 % column of study 1 once more, with fifteen times the budget: what models reach when they are given time.

A curve has come to rest when its best validation CRPS fell by less than 1 % in the last third of the run's time. The
error bar of a model with several seeds is the standard error over them; with one seed there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..cell import Result
from ..text import MISSING, markdown, named, number, ratio, unknown
from . import paper
from .catalog import NINE, SEEDED, SEEDS, at_rest, fair, long, rest
from .scale import REST
from .shelf import Shelf, coverage, crps, score
from .tuning import drawn

HEADER = (
    *("model", "CRPS", "seeds", "/ solid", "short study", "90 % covers", "spread / skill", "steps"),
    *("fell in the last third", "at rest"),
)
Column = Mapping[str, list[Result]]  # by label, the seeds that are stored


class Reached(NamedTuple):
    """CRPS of a model over its seeds."""

    mean: float
    error: float | None  # None: one seed
    seeds: int

    @property
    def text(self) -> str:
        if self.error is None:
            return f"{self.mean:.3f} (one seed)"
        return f"{self.mean:.3f} ± {self.error:.3f} ({self.seeds} seeds)"


def column(shelf: Shelf) -> Column:
    found = {}
    for label in at_rest():
        cells = [long(shelf.scale, label, REST, seed) for seed in (SEEDS if label in SEEDED else SEEDS[:1])]
        found[label] = [result for cell in cells if (result := shelf.get(cell)) is not None]
    return found


def reached(results: list[Result]) -> Reached | None:
    values = [value for result in results if (value := crps(result)) is not None]
    if not values:
        return None
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return Reached(float(np.mean(values)), error, len(values))


def table(shelf: Shelf) -> str:
    found = column(shelf)
    ours, rows = reached(found["solid"]), list[tuple[str, ...]]()
    for label, results in found.items():
        short = number(crps(shelf.at(label)))
        if (value := reached(results)) is None:
            rows.append((named(label), MISSING, "-", "-", short, *["-"] * (len(HEADER) - 5)))
            continue
        bar = "" if value.error is None else f" ± {value.error:.3f}"
        first = results[0]
        gain, rested = (first["training"].get(name) for name in ("last_third_gain", "at_rest"))
        row = [f"{value.mean:.3f}{bar}", str(value.seeds), ratio(value.mean, ours and ours.mean, missing="-"), short]
        row += [number(coverage(first), 3, "-"), number((score(first, "spread_skill") or {}).get("mean"), 2, "-")]
        row += [f"{first['training']['steps']:,}", "-" if gain is None else f"{100 * gain:.1f} %"]
        rows.append((named(label), *row, {True: "yes", False: "no"}.get(rested, "-")))
    return markdown(HEADER, rows)


def words(shelf: Shelf) -> str:
    found = column(shelf)
    stored, wanted = sum(map(len, found.values())), len(rest(shelf.scale, REST))
    parts = [f"{stored} of {wanted} long trainings are stored."]
    if not stored:
        return f"{parts[0]} {unknown('the column at rest')}"
    rested = {label: r[0]["training"].get("at_rest") for label, r in found.items() if r}
    still = [named(label) for label, at in rested.items() if at is False]
    parts.append(f"Of {len(rested)} curves {len(rested) - len(still)} had come to rest" + _not(still))
    parts += [_lead(found), _against_nine(found), _leak(found)]
    return " ".join(parts)


def _not(still: list[str]) -> str:
    return f"; still falling: {', '.join(still)}." if still else "."


def _lead(found: Column) -> str:
    """Does `solid` lead by more than the error bars of the seeds?"""
    values = {label: value for label, r in found.items() if label != "oracle" and (value := reached(r)) is not None}
    ours = values.pop("solid", None)
    if ours is None or not values:
        return unknown("who leads")
    rival = min(values, key=lambda label: values[label].mean)
    theirs = values[rival]
    gap, bar = theirs.mean - ours.mean, float(np.hypot(ours.error or 0.0, theirs.error or 0.0))
    who = "solid has the lowest CRPS" if gap > 0 else f"{rival} has the lowest CRPS and solid does not win"
    sure = "more" if abs(gap) > 2 * bar else "less"
    bars = f"{sure} than twice the error bar of the seeds" if bar else "with one seed each"
    return f"{who}: solid {ours.text}, {rival} {theirs.text}, a difference of {abs(gap):.3f}, {bars}."


def _against_nine(found: Column) -> str:
    ours = reached(found["solid"])
    nine = {fair(name): value for name in NINE if (value := reached(found[fair(name)])) is not None}
    if ours is None or not nine:
        return unknown("the nine")
    best = min(nine, key=lambda label: nine[label].mean)
    _, there = paper.best_rival()
    return (
        f"Against the best of the nine, given the mask and the time ({best}, {nine[best].mean:.3f}; {len(nine)} of 9 "
        f"stored), solid has {ours.mean / nine[best].mean:.2f} of its CRPS; in the paper SOLID has "
        f"{paper.SPARSITY['solid'][1] / there:.2f} of its best rival's."
    )


def _leak(found: Column) -> str:
    strict, leaking = reached(found["solid-paper"]), reached(found["oracle"])
    if strict is None or leaking is None:
        return unknown("the leak")
    gap, bar = abs(leaking.mean - strict.mean), 2 * float(np.hypot(strict.error or 0.0, leaking.error or 0.0))
    said = f"seeing the dense field changes its CRPS by {100 * (leaking.mean / strict.mean - 1):+.0f} %"
    if gap <= bar:
        said = (
            f"a difference of {gap:.3f}, less than twice the error bar, does not show that seeing the dense field helps"
        )
    return (
        f"The paper's scheme reaches {strict.text} strict and {leaking.text} with the leak: {said}."
        f"{_rates(found['solid-paper'], found['oracle'])}"
    )


def _rates(strict: list[Result], leaking: list[Result]) -> str:
    """Where pilots of several seeds chose several rates: what came of each."""
    if len({result["training"]["rate"] for result in strict}) < 2:
        return ""
    each = ", ".join(f"{crps(result):.3f} with {result['training']['rate']:g}" for result in strict)
    theirs = ", ".join(f"{result['training']['rate']:g}" for result in leaking)
    return f" The pilots of its strict seeds chose learning rates of their own: {each}; with the leak it is {theirs}."


def curves_figure(shelf: Shelf) -> Figure | None:
    return drawn({label: r[0]["training"]["curve"] for label, r in column(shelf).items() if r})


PARTS = {"rest": table, "rest-words": words}
FIGURES = {"rest": curves_figure}
