"""How each model at 10 % was tuned, whether its training had come to rest, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from ...plot.style import looks, tidy
from ..cell import Result
from ..text import named, number, small, unknown, whole
from .forecasting import column, decimals
from .shelf import Shelf, coverage, table_of, with_error

COLUMNS: dict[str, Callable[[Result], str]] = {
    "mask channel": lambda r: {True: "yes", False: "no"}.get(r["cell"]["options"].get("mask_channel"), "-"),
    "CRPS": with_error,
    "90 % covers": lambda r: number(coverage(r), 3, "-"),
    "members": lambda r: str(r["costs"]["members"]),
    "parameters": lambda r: whole(r["costs"]["parameters"]),
    "rate": lambda r: small(_training(r).get("rate"), "-"),
    "flattened": lambda r: _flat(_training(r).get("last_quarter_gain"), _training(r).get("flattened")),
    "training steps": lambda r: whole(_training(r).get("steps")),
    "CPU ms / example": lambda r: milliseconds(r),
    "CPU s / 100 members": lambda r: small(r["costs"].get("draw_seconds_of_100_members"), "-"),
}


def rivals(shelf: Shelf) -> str:
    """The 10 % column with what it cost and how each was tuned."""
    return table_of(column(shelf), COLUMNS)


def _training(result: Result) -> Result:
    return result["training"] or {}


def milliseconds(result: Result) -> str:
    """Of CPU time, for an example of training."""
    seconds = _training(result).get("cpu_seconds_per_example")
    return small(1000 * seconds if seconds else None, "-")


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
    return drawn({label: r["training"]["curve"] for label, r in column(shelf).items() if r and r["training"]})


def drawn(found: Mapping[str, Any]) -> Figure | None:  # by label, pairs of CPU seconds and CRPS
    """A line for each model."""
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
