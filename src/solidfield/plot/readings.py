"""Figures of readings: the doctor's page, and sensors beside what the others imply.

Each function returns a Figure that the caller saves, and colours suit the colour-blind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cmocean
import matplotlib.dates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ..readings.doctor.diagnose import Diagnosis
from .ground import degree_bar, stretch_at, ticks
from .style import BLUE, DPI, GREY, ORANGE

if TYPE_CHECKING:  # quality waits for torch, which the doctor's page does without
    from ..quality.ranking import Quality

PLACES = 20_000  # drawn at most, evenly chosen
MANY = 10  # readings at one place, below which it does not matter how many there are
BINS = 60
COLOURS = cmocean.tools.crop_by_percent(cmocean.cm.amp, 25, which="min")  # one reading is seen on white, too


def check_figure(found: Diagnosis) -> Figure:
    """Where readings are, when they are, what they are, and what each candidate grid sees."""
    figure = Figure(figsize=(10, 7.6), dpi=DPI, layout="constrained")
    (where, when), (what, grids) = figure.subplots(2, 2)
    _places(figure, where, found)
    _times(when, found)
    _values(what, found)
    _candidates(grids, found)
    for ax in (where, when, what, grids):
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.title.set_size(10)
        ax.xaxis.label.set_size(9)
        ax.yaxis.label.set_size(9)
    figure.suptitle(f"{found.name}: {found.rows:,} readings, {found.refused:,} fields refused", fontsize=11)
    return figure


def _places(figure: Figure, ax: Axes, found: Diagnosis) -> None:
    """Readings per place, where there are many; far places are left outside the frame and counted in the title."""
    drawn = found.drawn
    every = max(1, -(-len(drawn.count) // PLACES))
    y, x, count = drawn.y[::every], drawn.x[::every], drawn.count[::every]
    title = "readings per place" if count.max(initial=0) >= MANY else "where readings were taken"
    ax.set_title(title)
    if not found.geographic:
        ax.set(xlabel="x", ylabel="y")
    if found.box is None:
        return
    south, west, north, east = found.box
    size = float(np.clip(4000 / max(len(y), 1), 1, 40))
    by_count = {"c": count, "cmap": COLOURS, "norm": LogNorm(1, count.max())}
    dots = ax.scatter(x, y, s=size, **(by_count if count.max() >= MANY else {"color": BLUE}))
    margin = 0.05 * max(north - south, east - west, 1e-3)
    ax.set(xlim=(west - margin, east + margin), ylim=(south - margin, north + margin))
    ax.set_aspect(stretch_at((south + north) / 2) if found.geographic else 1.0)
    ticks(ax, found.geographic)
    if found.geographic:
        degree_bar(ax, (south + north) / 2)
    outside = int(((drawn.y < south) | (drawn.y > north) | (drawn.x < west) | (drawn.x > east)).sum())
    if outside:
        ax.set_title(f"{title} ({outside:,} far places not shown)")
    if count.max() < MANY:
        return
    bar = figure.colorbar(dots, ax=ax, shrink=0.8)
    bar.set_label("readings", fontsize=8)
    bar.ax.tick_params(labelsize=8)


def _times(ax: Axes, found: Diagnosis) -> None:
    ax.set(title="readings in time", ylabel="readings")
    if len(found.drawn.time) == 0:
        return
    edges = time_edges(found.drawn.time, found.interval)
    count, _ = np.histogram(matplotlib.dates.date2num(found.drawn.time), bins=edges)
    ax.bar(edges[:-1], count, width=np.diff(edges), align="edge", color=BLUE)
    locator = matplotlib.dates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))


def time_edges(time: np.ndarray, interval: float | None) -> np.ndarray:  # (n,) datetime64 -> (B + 1,) days
    """About BINS bins of whole intervals (seconds): where one holds two steps and the next three, there are stripes."""
    first, last = matplotlib.dates.date2num([time.min(), time.max()])
    step = (interval or 1.0) / 86400
    width = step * max(1, round((last - first) / step / BINS))
    return first - step / 2 + width * np.arange(int((last - first + step / 2) / width) + 2)


def _values(ax: Axes, found: Diagnosis) -> None:
    values = found.drawn.values[np.isfinite(found.drawn.values)]
    about = found.statistics[0]
    ax.set(title="values", xlabel=f"{about.name} [{about.units}]" if about.units else about.name, ylabel="readings")
    if len(values):
        ax.hist(values, bins=BINS, color=BLUE)
        ax.set_yscale("log")  # a single outlier stays visible


def _candidates(ax: Axes, found: Diagnosis) -> None:
    """A row a grid: pairs to learn from, and the share of cells that a frame sees; the suggestion in orange."""
    ax.set(title="candidate grids: share of cells seen", xlabel="pairs of consecutive frames")
    rows = sorted(found.candidates, key=lambda one: (one.pairs, one.share))
    places = np.arange(len(rows))
    colours = [ORANGE if one == found.chosen else GREY for one in rows]
    bars = ax.barh(places, [one.pairs for one in rows], color=colours)
    ax.bar_label(bars, [f"{float(f'{100 * one.share:.2g}'):g} %" for one in rows], padding=3, fontsize=7)
    ax.set_yticks(places, [f"{one.cell}, {one.every}" for one in rows])
    ax.margins(x=0.15)


def quality_figure(found: Quality, most: int = 6) -> Figure:
    """The first sensors of the ranking: their readings over what the others imply, with the 99 % interval."""
    shown = found.sensors.head(most)
    figure = Figure(figsize=(10, 1.9 * len(shown) + 0.5), dpi=DPI, layout="constrained")
    axes = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for ax, (_, sensor) in zip(axes, shown.iterrows(), strict=True):
        rows = found.readings[found.readings["sensor"] == sensor["sensor"]]
        time = rows["time"].to_numpy()
        expected = rows["expected"].to_numpy()
        reach = np.abs(rows[["low", "high"]].to_numpy().T - expected)  # (2, n)
        ax.errorbar(time, expected, yerr=reach, fmt="none", ecolor=BLUE, alpha=0.3, elinewidth=1, label="99 % interval")
        ax.plot(time, expected, ".", color=BLUE, markersize=3, label="what the others imply")
        ax.plot(time, rows["reading"], ".", color=ORANGE, markersize=4, label="reading")
        ax.set_title(f"{sensor['y']:g}, {sensor['x']:g}: {sensor['verdict']}", fontsize=9, loc="left")
        ax.set_ylabel(found.units or found.variable, fontsize=8)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=7, frameon=False, ncols=3, loc="upper right", bbox_to_anchor=(1, 1.35))
    return figure
