"""How each model at 10 % was tuned, whether its training had come to rest, and what it cost."""

from __future__ import annotations

from matplotlib.figure import Figure

from ...plot.style import looks, tidy
from ..text import MISSING, markdown, named, number, small, unknown
from .forecasting import column, decimals
from .shelf import Shelf, coverage, with_error


def rivals(shelf: Shelf) -> str:
    """The 10 % column with what it cost and how each was tuned."""
    header = (
        *("model", "mask channel", "CRPS", "90 % covers", "members", "parameters", "rate", "flattened"),
        *("training steps", "CPU ms / example", "CPU s / 100 members"),
    )
    rows = []
    for label, result in column(shelf).items():
        if result is None:
            rows.append((named(label), *(MISSING,) * (len(header) - 1)))
            continue
        training, costs = result["training"] or {}, result["costs"]
        mask = {True: "yes", False: "no"}.get(result["cell"]["options"].get("mask_channel"), "-")
        per_example = training.get("cpu_seconds_per_example")
        rows.append(
            (
                named(label),
                mask,
                with_error(result),
                number(coverage(result), 3, "-"),
                str(costs["members"]),
                f"{costs['parameters']:,}" if costs["parameters"] else "-",
                small(training.get("rate"), "-"),
                _flat(training.get("last_quarter_gain"), training.get("flattened")),
                f"{training['steps']:,}" if training else "-",
                small(1000 * per_example if per_example else None, "-"),
                small(costs.get("draw_seconds_of_100_members"), "-"),
            )
        )
    return markdown(header, rows)


def _flat(gain: float | None, flattened: bool | None) -> str:
    return "-" if gain is None else f"{'yes' if flattened else 'no'} ({100 * gain:.1f} %)"


def flat(shelf: Shelf) -> str:
    """Which training curves had flattened when the budget was over."""
    every = {label: result["training"] for label, result in column(shelf).items() if result and result["training"]}
    known = {label: t["last_quarter_gain"] for label, t in every.items() if t["last_quarter_gain"] is not None}
    if not known:
        return unknown("training curves")
    still = [f"{named(label)} ({100 * gain:.0f} %)" for label, gain in known.items() if not every[label]["flattened"]]
    if not still:
        return "Every training curve had flattened: the last quarter of the budget gained less than 2 %."
    return (
        f"{len(known) - len(still)} of {len(known)} curves had flattened; still falling by more than 2 % in the last "
        f"quarter of the budget: {', '.join(still)}. What these would reach with more time is not known from here."
    )


def curves_figure(shelf: Shelf) -> Figure | None:
    """Validation CRPS against CPU time: has each model been given enough?"""
    found = {label: r["training"]["curve"] for label, r in column(shelf).items() if r and r["training"]}
    if not found:
        return None
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.subplots()
    style = looks(list(found))
    for place, (label, curve) in enumerate(found.items()):
        colour, marker = style[label]
        lines = ("-", "--", ":", "-.")[place // 7 % 4]
        ax.plot(*zip(*curve, strict=True), color=colour, ls=lines, marker=marker, ms=3, lw=1, label=named(label))
    ax.set(xlabel="CPU seconds of training", ylabel="validation CRPS / std", yscale="log")
    decimals(ax)
    ax.legend(fontsize=6, ncols=2, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    tidy([ax])
    return figure


PARTS = {"rivals": rivals, "curves-words": flat}
FIGURES = {"curves": curves_figure}
