"""Study 5, patterns: where the sensors are, for `solid`; and frames at times that were never trained on."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from ...plot.style import looks, tidy
from ..cell import Result
from ..text import markdown, number, ratio, unknown
from . import catalog, paper
from .catalog import make, random, twelve
from .shelf import Shelf, coverage, crps, with_error

REGIMES = ("global", "instance")


def found(shelf: Shelf, name: str) -> dict[str, Result | None]:
    """One pattern, such as block-6, in both regimes."""
    ways = twelve(shelf.scale)
    return {regime: shelf.under("solid", ways[f"{name}-{regime}"]) for regime in REGIMES}


def in_words(name: str, block: int) -> str:
    kind, amount = name.split("-")
    return f"random, {amount} %" if kind == "random" else f"{amount} blocks of {block} x {block}"


def table(shelf: Shelf) -> str:
    """Beside Table 2 of the paper."""
    header = ("pattern", "global", "instance", "global / instance", "paper, global", "paper, instance", "paper, ratio")
    rows = []
    for name, theirs in paper.PATTERNS.items():
        fixed, moving = found(shelf, name).values()
        row = (in_words(name, shelf.scale.block), with_error(fixed), with_error(moving))
        rows.append((*row, ratio(crps(fixed), crps(moving)), *paper.beside(theirs), ratio(*theirs)))
    return markdown(header, rows)


def odd_frames(shelf: Shelf) -> str:
    header = ("model", "even frames", "odd frames, never trained on", "ratio", "90 % covers, odd frames")
    rows = []
    for cell in catalog.between(shelf.scale)[:3]:
        even, odd = shelf.get(cell), shelf.get(replace(cell, split="between"))
        row = (cell.label, with_error(even), with_error(odd), ratio(crps(odd), crps(even)))
        rows.append((*row, number(coverage(odd), 3, "-")))
    return markdown(header, rows)


def words(shelf: Shelf) -> str:
    known = {
        name: {regime: value for regime, result in found(shelf, name).items() if (value := crps(result)) is not None}
        for name in paper.PATTERNS
    }
    if any(len(values) < len(REGIMES) for values in known.values()):
        return unknown("the twelve scenarios")
    better = [name for name, values in known.items() if values["instance"] < values["global"]]
    theirs = [name for name, (fixed, moving) in paper.PATTERNS.items() if moving < fixed]
    agree = sum((name in better) == (name in theirs) for name in paper.PATTERNS)
    moving = {name: values["instance"] for name, values in known.items()}
    there = {name: values[1] for name, values in paper.PATTERNS.items()}
    return (
        f"Masks that change from example to example are better than one fixed mask in {len(better)} of 6 patterns "
        f"({', '.join(better) or 'none'}), in the paper in {len(theirs)}; the two agree in {agree} of 6. From 4 to "
        f"40 % random cells the CRPS falls x {moving['random-4'] / moving['random-40']:.1f} (paper x "
        f"{there['random-4'] / there['random-40']:.1f}); the same 40 % in blocks costs x "
        f"{moving['block-26'] / moving['random-40']:.1f} (paper x {there['block-26'] / there['random-40']:.1f})."
        f"{_no_use(shelf, known)}"
    )


def _no_use(shelf: Shelf, known: dict[str, dict[str, float]]) -> str:
    """Where to leave it alone: climatology needs no sensor, so its score is that of the 10 % column."""
    nothing = crps(shelf.at("climatology"))
    worse = [f"{n}, {regime}" for n, values in known.items() for regime, x in values.items() if nothing and x > nothing]
    if not worse:
        return ""
    return f" Climatology, which needs no sensor, has {nothing:.3f} and is better than solid in: {'; '.join(worse)}."


def between_words(shelf: Shelf) -> str:
    cell = make(shelf.scale, "solid", random(0.10))
    a, b = crps(shelf.get(cell)), crps(shelf.get(replace(cell, split="between")))
    if a is None or b is None:
        return unknown("the odd frames")
    change = 100 * (b / a - 1)
    verdict = "as well as" if abs(change) < 5 else ("worse than" if change > 0 else "better than")
    numbers = f"{b:.3f} against {a:.3f} ({change:+.0f} %)"
    return f"At times that no training example has, solid does {verdict} at the others: {numbers}."


def patterns_figure(shelf: Shelf) -> Figure | None:
    """CRPS by pattern and regime, here and in the paper."""
    values = {name: {regime: crps(r) for regime, r in found(shelf, name).items()} for name in paper.PATTERNS}
    if all(value is None for pair in values.values() for value in pair.values()):
        return None
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    here, there = figure.subplots(1, 2)
    style = looks(REGIMES)
    for side, regime in enumerate(REGIMES):
        for place, name in enumerate(paper.PATTERNS):
            at, colour = place + 0.4 * side - 0.2, style[regime][0]
            label = regime if place == 0 else None
            here.bar(at, values[name][regime] or 0.0, 0.38, color=colour, label=label)
            there.bar(at, paper.PATTERNS[name][side] / paper.STD, 0.38, color=colour, label=label)
    for ax, title in ((here, "here"), (there, "in the paper")):
        ax.set(ylabel="CRPS / std", title=title, xticks=range(len(paper.PATTERNS)))
        ax.set_xticklabels(list(paper.PATTERNS), rotation=20)
        ax.legend(fontsize=7, frameon=False)
    tidy((here, there))
    return figure


PARTS = {"patterns": table, "between": odd_frames, "patterns-words": words, "between-words": between_words}
FIGURES = {"patterns": patterns_figure}
