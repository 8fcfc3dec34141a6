"""Models beside each other: scores with error bars by region, distance and hour; predictions and readings in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..scores.estimate import Estimate
from ..scores.table import Score
from .style import BLUE, DPI, GREY, ORANGE, looks, tidy, with_units


def models_figure(
    regions: Mapping[str, Mapping[str, Estimate]],  # region -> model -> CRPS
    units: str = "",
    title: str = "",
) -> Figure:
    """A panel a region, a row a model; less is better, bars are 95 % intervals."""
    names = list(next(iter(regions.values())))
    columns = min(len(regions), 3)
    rows = -(-len(regions) // columns)
    figure = Figure(figsize=(10, rows * (0.8 + 0.3 * len(names)) + 0.4), dpi=DPI, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    look = looks(names)
    for ax, (region, scores) in zip(axes.flat, regions.items(), strict=False):
        for place, name in enumerate(reversed(names)):
            colour, marker = look[name]
            _dot(ax, scores[name], place, colour, marker)
        ax.set_yticks(range(len(names)), list(reversed(names)))
        ax.set(title=region, xlabel=with_units("CRPS", units), xlim=(0, None), ylim=(-0.6, len(names) - 0.4))
        ax.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    for ax in axes.flat[len(regions) :]:
        ax.set_axis_off()
    tidy(list(axes.flat)[: len(regions)])
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _dot(ax: Axes, score: Estimate, place: int, colour: str, marker: str) -> None:
    if score.has_bar:
        ax.plot([score.low, score.high], [place, place], color=colour, linewidth=1.6)
    ax.plot(score.mean, place, marker, color=colour, markersize=6)


def bins_figure(
    rows: Mapping[str, Sequence[Score]],  # model -> bins or leads
    labels: Sequence[str],  # (S,) of the bins
    axis: str,  # what they are bins of
    units: str = "",
    title: str = "",
    band: tuple[float, float] = (0.85, 0.95),  # coverage that counts as honest
) -> Figure:
    """Error, honesty and number of readings along one axis."""
    positions = range(len(labels))
    figure = Figure(figsize=(10, 3.8), dpi=DPI, layout="constrained")
    error, honest, count = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 0.8))
    for name, (colour, marker) in looks(list(rows)).items():
        first = name == next(iter(rows))
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.8 if first else 1.0}
        _line(error, positions, [row["crps"] for row in rows[name]], name, first, style)
        if any(row["coverage_90"] for row in rows[name]):
            _line(honest, positions, [row["coverage_90"] for row in rows[name]], name, first, style)
    honest.axhspan(*band, color=GREY, alpha=0.18, linewidth=0)
    honest.axhline(0.9, color=GREY, linestyle="--", linewidth=1)
    honest.set(title="90 % intervals hold (grey: honest)", ylabel="share of readings inside")
    error.set(title="error, less is better", ylabel=with_units("CRPS", units), ylim=(0, None))
    count.bar(positions, [row.cells for row in next(iter(rows.values()))], width=0.8, color=GREY)
    count.set(title="held-out readings", ylabel="number")
    every = -(-len(labels) // 8)  # more would run into each other
    slant: dict[str, Any] = {"rotation": 30, "ha": "right"} if max(map(len, labels)) > 4 else {}
    for ax in (error, honest, count):
        ax.set_xlabel(axis)
        ax.set_xticks(positions[::every], labels[::every], **slant)
    tidy((error, honest, count))
    handles, words = error.get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=min(len(words), 6), fontsize=8, frameon=False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _line(
    ax: Axes,
    positions: Sequence[float],
    scores: Sequence[Estimate | None],
    name: str,
    bars: bool,
    style: Mapping[str, Any],
) -> None:
    kept = [(at, score) for at, score in zip(positions, scores, strict=True) if score is not None]
    ax.plot([at for at, _ in kept], [score.mean for _, score in kept], label=name, **style)
    for at, score in kept if bars else ():
        if score.has_bar:
            ax.plot([at, at], [score.low, score.high], color=style["color"], linewidth=0.9)


def drawn_pieces(
    stretches: Sequence[np.ndarray],  # rows in a row
    known: np.ndarray,  # (N,) bool
) -> list[tuple[np.ndarray, np.ndarray]]:  # places along x, and the row of each
    """What is drawn as one line: rows that follow each other. A row alone is as wide as a step, or nobody would see it.

    >>> [x.tolist() for x, _ in drawn_pieces([np.arange(3), np.arange(3, 4)], np.array([True, True, False, True]))]
    [[0, 1], [2.6, 3.4]]
    """
    found = []
    for stretch in stretches:
        rows = stretch[known[stretch]]
        for piece in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
            if len(piece) > 1:
                found.append((piece, piece))
            elif len(piece):
                found.append((piece[0] + np.array([-0.4, 0.4]), np.repeat(piece, 2)))
    return found


def series_figure(
    quantiles: np.ndarray,  # (3, N, S): 5 %, median, 95 % of N times at S places
    readings: np.ndarray,  # (N, S), NaN where nothing was read
    names: Sequence[str],  # (S,) of the places
    breaks: Sequence[tuple[int, str]],  # where a new stretch begins, and what it is called
    label: str = "",
    title: str = "",
) -> Figure:
    """Bands, medians and what was read, a row a place; stretches stand side by side, gaps between them left out."""
    low, middle, high = quantiles
    N, S = middle.shape
    figure = Figure(figsize=(10, 1.7 * S + 0.8), dpi=DPI, layout="constrained")
    axes = figure.subplots(S, 1, squeeze=False, sharex=True)[:, 0]
    stretches = np.split(np.arange(N), [start for start, _ in breaks if start])
    for s, ax in enumerate(axes):
        once: tuple[str | None, str | None] = ("90 % interval", "median")
        for x, rows in drawn_pieces(stretches, np.isfinite(middle[:, s])):
            ax.fill_between(x, low[rows, s], high[rows, s], color=BLUE, alpha=0.25, linewidth=0, label=once[0])
            ax.plot(x, middle[rows, s], color=BLUE, linewidth=1.2, label=once[1])
            once = (None, None)
        for rows in stretches:
            ax.axvline(rows[0] - 0.5, color=GREY, linewidth=0.5)
        known = np.isfinite(readings[:, s])
        inside = known & (readings[:, s] >= low[:, s]) & (readings[:, s] <= high[:, s])
        for rows, colour, word in ((inside, "black", "reading inside"), (known & ~inside, ORANGE, "reading outside")):
            ax.plot(np.flatnonzero(rows), readings[rows, s], "o", color=colour, markersize=3, label=word)
        ax.set(title=names[s], ylabel=label, xlim=(-0.5, N - 0.5))
    axes[-1].set_xticks([start for start, _ in breaks], [name for _, name in breaks], ha="left")
    tidy(axes)
    handles, words = axes[0].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
