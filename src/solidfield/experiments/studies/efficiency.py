"""Study 2, efficiency: a tenth of the data, three sizes of four models, and what every model costs."""

from __future__ import annotations

from matplotlib.figure import Figure

from ...plot.style import looks, tidy
from ..cell import Result
from ..costs import PAPER_TABLE
from ..text import MISSING, markdown, named, ratio, small, unknown, whole
from . import paper
from .catalog import FEW, NINE, OURS, SIZES, fair, modern
from .shelf import Shelf, crps, with_error
from .tuning import milliseconds


def data(shelf: Shelf) -> str:
    """All trajectories against a tenth of them."""
    header = ("model", "all trajectories", "10 % of them", "ratio", "paper, all", "paper, 10 %", "paper, ratio")
    rows = []
    for name in [*SIZES, "kriging"]:
        full, few = _both(shelf, name)
        pair = (paper.SPARSITY[name][1], paper.SPARSITY_FEW[name][1]) if name in paper.SPARSITY else None
        beside = (*paper.beside(pair, 2), ratio(pair and pair[1], pair and pair[0], missing="-"))
        rows.append((fair(name), with_error(full), with_error(few), ratio(crps(few), crps(full)), *beside))
    return markdown(header, rows)


def _both(shelf: Shelf, name: str) -> tuple[Result | None, Result | None]:
    return shelf.at(fair(name)), shelf.at(fair(name), share=FEW)


def sized(shelf: Shelf, name: str) -> dict[str, Result | None]:
    """The three sizes of a model, from small to large."""
    made = {size: shelf.at(f"{fair(name)}, {size}", extra=extra) for size, extra in SIZES[name].items()}
    return {"small": made["small"], "middle": shelf.at(fair(name)), "large": made["large"]}


def sizes(shelf: Shelf) -> str:
    rows = []
    for name in SIZES:
        row = [fair(name)]
        for result in sized(shelf, name).values():
            row += [MISSING if result is None else f"{result['costs']['parameters']:,}", with_error(result)]
        rows.append(row)
    return markdown(("model", "small: parameters", "CRPS", "middle", "CRPS", "large", "CRPS"), rows)


def compute(shelf: Shelf) -> str:
    """Parameters and multiply-accumulates of the cells at 10 %, beside Table 3 of the paper."""
    header = (
        *("model", "parameters", "GMACs a pass", "GMACs, 100 members", "CPU ms / training example"),
        *("CPU s / 100 members", "paper: parameters", "paper: GMACs a pass"),
    )
    rows = []
    for label in (*OURS, *modern(), *(fair(name) for name in NINE)):
        result, name = shelf.at(label), label.removesuffix(" + mask")
        theirs = PAPER_TABLE.get("solid-paper" if name == "oracle" else name)
        beside = (f"{theirs[0]:,}", f"{theirs[1]:g}") if theirs else ("-", "-")
        shown = (MISSING,) * 5
        if result is not None:
            costs = result["costs"]
            gmacs = (small(costs["gmacs_of_a_pass"]), small(costs["gmacs_of_100_members"]))
            shown = (
                whole(costs["parameters"]),
                *gmacs,
                milliseconds(result),
                small(costs["draw_seconds_of_100_members"]),
            )
        rows.append((named(label), *shown, *beside))
    return markdown(header, rows)


def few_words(shelf: Shelf) -> str:
    found = {fair(name): tuple(map(crps, _both(shelf, name))) for name in SIZES}
    known = {label: (a, b) for label, (a, b) in found.items() if a is not None and b is not None}
    if "solid" not in known or len(known) < 2:
        return unknown("a tenth of the data")
    best = min(known, key=lambda label: known[label][1])
    steady = min(known, key=lambda label: known[label][1] / known[label][0])
    lost = {label: b / a for label, (a, b) in known.items()}
    theirs = paper.SPARSITY_FEW["solid"][1] / paper.SPARSITY["solid"][1]
    return (
        f"With a tenth of the trajectories {best} has the lowest CRPS ({known[best][1]:.3f}) and {steady} loses least "
        f"(x {lost[steady]:.2f}); solid loses x {lost['solid']:.2f}, the paper's SOLID x {theirs:.2f}. At this "
        "budget a model sees few epochs of either, so less data costs less here than after a long training."
    )


def sizes_words(shelf: Shelf) -> str:
    parts: list[str] = []
    best: dict[str, float] = {}
    for name in SIZES:
        found = {size: result for size, result in sized(shelf, name).items() if result is not None}
        values = {size: value for size, result in found.items() if (value := crps(result)) is not None}
        if len(values) < 3:
            continue
        size = min(values, key=lambda size: values[size])
        count = found[size]["costs"]["parameters"]
        parts.append(f"{fair(name)} is best {size} ({count / 1e6:.2f} M, {values[size]:.3f})")
        best[name] = values[size]
    if len(best) < len(SIZES):
        return unknown("the sizes")
    winner = min(best, key=lambda name: best[name])
    claim = "holds" if winner == "solid" else "does not hold"
    return (
        f"{'; '.join(parts)}. The lowest of all is {fair(winner)}: that SOLID at its best size lies below the others "
        f"{claim} here. In equal CPU time a larger network takes fewer steps, so this is not the paper's curve of "
        "long trainings."
    )


def efficiency_figure(shelf: Shelf) -> Figure | None:
    """CRPS against parameters, and with all and a tenth of the data."""
    found = {name: [(r, crps(r)) for r in sized(shelf, name).values() if r is not None] for name in SIZES}
    if not any(found.values()):
        return None
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    curve, bars = figure.subplots(1, 2)
    style = looks(list(SIZES))
    for name, points in found.items():
        if points:
            colour, marker = style[name]
            x, y = zip(*((r["costs"]["parameters"], value) for r, value in points), strict=True)
            curve.plot(x, y, color=colour, marker=marker, label=fair(name))
    curve.set(xscale="log", xlabel="parameters", ylabel="CRPS / std", title="three sizes, equal CPU time")
    curve.legend(fontsize=7, frameon=False)
    for place, name in enumerate([*SIZES, "kriging"]):
        for shift, result in zip((-0.2, 0.2), _both(shelf, name), strict=True):
            value = crps(result)
            if value is not None:
                bars.bar(
                    place + shift, value, 0.38, color=style.get(name, ("#7F7F7F", ""))[0], alpha=1 if shift < 0 else 0.5
                )
    bars.set(xticks=range(len(SIZES) + 1), ylabel="CRPS / std", title="all trajectories (full), 10 % of them (pale)")
    bars.set_xticklabels([*SIZES, "kriging"], rotation=20)
    tidy((curve, bars))
    return figure


PARTS = {"data": data, "sizes": sizes, "compute": compute, "data-words": few_words, "sizes-words": sizes_words}
FIGURES = {"efficiency": efficiency_figure}
