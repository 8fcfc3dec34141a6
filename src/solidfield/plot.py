"""Figures: one scene as maps, and how far its uncertainty can be trusted.

Each function returns a matplotlib Figure that the caller saves; no global state of pyplot is used. All maps
of the field share one colour scale, and spread and error share another, so that equal colours are equal
values: an ensemble is trustworthy where its spread looks like its error. Colours suit the colour-blind.
"""

from __future__ import annotations

from typing import Any

import cmocean
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from .calibration import (
    by_distance,
    counted,
    coverage,
    error_by_spread,
    fold_ranks,
    ranks,
    resolved,
    spread_skill,
)
from .errors import SolidError
from .grid import Grid
from .metrics import Array, Cells, select, to_floats, to_numpy
from .scores import bootstrap

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#7F7F7F"  # from the palette of Okabe and Ito
EMPTY = "#B8B8B8"  # cells without a value: darker than the middle of a diverging scale
DPI = 150


def maps(
    ensemble: Array,  # (K, H, W), one scene
    readings: Array,  # (H, W), anything off the mask
    mask: Array,  # (H, W) bool, M_i
    truth: Array | None = None,  # (H, W), NaN where unknown; None: no truth and no error are shown
    grid: Grid | None = None,
    label: str = "",  # of the field, with its units
    title: str = "",
    members: int = 3,  # shown, if there are as many
) -> Figure:
    """Observations, truth, ensemble mean and some members; spread (standard deviation) and error beside them.

    A single member is a point forecast: it is shown as the prediction, without spread.
    """
    x, seen = to_floats(ensemble), to_numpy(mask).astype(bool)
    K, H, W = x.shape
    if seen.shape != (H, W):
        raise SolidError(f"mask {seen.shape} does not fit maps of {H} x {W} cells; give the mask of the same scene")
    place = grid or Grid((H, W))
    inside = np.ones((H, W), dtype=bool) if place.domain is None else place.domain
    mean = x.mean(axis=0, dtype=np.float64)
    fields = {"observations": np.where(seen, to_floats(readings), np.nan)}
    sizes: dict[str, np.ndarray] = {}
    if truth is not None:
        fields["truth"] = to_floats(truth)
    fields["prediction" if K == 1 else "ensemble mean"] = mean
    if K > 1:
        fields |= {f"member {k + 1}": x[k] for k in range(min(members, K))}
        sizes["spread"] = x.std(axis=0, ddof=1, dtype=np.float64)
    if truth is not None:
        sizes["error of the mean" if K > 1 else "error"] = np.abs(mean - to_floats(truth))
    fields, sizes = (
        {name: np.where(inside, values, np.nan) for name, values in panel.items()} for panel in (fields, sizes)
    )

    rows = max(len(sizes), 1)  # spread above error
    field_columns, size_columns = -(-len(fields) // rows), -(-len(sizes) // rows)
    columns = field_columns + size_columns
    panel = (10 - 0.8 * (1 + bool(sizes))) / columns * H * place.spacing[0] / (W * place.spacing[1])  # its height
    height = rows * (panel + 0.3) + 0.3 * bool(title)
    figure = Figure(figsize=(10, float(np.clip(height, 1.5, 14))), dpi=DPI, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    fields_axes, sizes_axes = axes[:, :field_columns], axes[:, field_columns:]
    limits, colours = field_limits(fields)
    _panels(fields_axes, fields, limits, colours, place, label)
    if sizes:
        top = np.nanpercentile(np.stack(list(sizes.values())), 99.5)
        _panels(
            sizes_axes,
            sizes,
            (0.0, float(top) or 1.0),
            cmocean.cm.amp,
            place,
            label,
        )
        for ax in sizes_axes.flat[: len(sizes)]:
            _sensors(ax, seen, place)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def field_limits(fields: dict[str, np.ndarray]) -> tuple[tuple[float, float], Colormap]:
    """One scale for all maps of the field: diverging about zero if both signs occur, else sequential."""
    pooled = fields["truth"] if "truth" in fields else np.stack([v for k, v in fields.items() if k != "observations"])
    low, high = np.nanpercentile(pooled, [0.5, 99.5])
    if low < 0 < high and min(-low, high) > 0.1 * max(-low, high):
        most = max(-low, high)
        return (-most, most), cmocean.cm.balance
    return (low, high if high > low else low + 1.0), cmocean.cm.thermal


def _panels(
    axes: np.ndarray,  # of Axes, (rows, columns)
    panels: dict[str, np.ndarray],  # each (H, W), NaN: no value
    limits: tuple[float, float],
    colours: Colormap,
    grid: Grid,
    label: str,
) -> None:
    """Maps on one colour scale, row after row, with one colour bar; axes that are left over are hidden."""
    (dy, dx), (H, W) = grid.spacing, grid.shape
    left, bottom = grid.origin[1] - dx / 2, grid.origin[0] - dy / 2
    extent = (left, left + W * dx, bottom, bottom + H * dy)
    bad = colours.with_extremes(bad=EMPTY)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (name, values) in zip(axes.flat, panels.items(), strict=False):
        image = ax.imshow(
            values,
            origin="lower",
            extent=extent,
            vmin=limits[0],
            vmax=limits[1],
            cmap=bad,
            interpolation="nearest",
        )
        ax.set_title(name, fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    known = np.concatenate([values[np.isfinite(values)] for values in panels.values()])
    extend = beyond[bool((known < limits[0]).any()), bool((known > limits[1]).any())]
    bar = axes.flat[0].figure.colorbar(image, ax=list(axes.flat), extend=extend, aspect=15 * axes.shape[0], pad=0.02)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(label, fontsize=8)


def _sensors(ax: Axes, mask: np.ndarray, grid: Grid) -> None:
    rows, columns = np.nonzero(mask)
    size = min(max(600 / mask.size**0.5 / 8, 0.6), 6)  # a dot well inside its cell at any resolution
    ax.scatter(grid.x[columns], grid.y[rows], s=size, c="black", linewidths=0, label="sensors")


def calibration_figure(
    ensemble: Array,  # (K, N, ..., H, W)
    truth: Array,  # (N, ..., H, W)
    mask: Array | None = None,  # broadcasts to the truth: the cells to judge by, for instance those without a sensor
    distance: Array | None = None,  # broadcasts to the truth: to the nearest sensor
    units: str = "",
    distance_units: str = "cells",
    title: str = "",
) -> Figure:
    """Four views of reliability: ranks, coverage, error against spread, both against distance to the sensors.

    Bars and whiskers are 95 % intervals from resampling fields; with a single field there are none.
    """
    cells = select(ensemble, truth, mask)
    panels = 3 if distance is None else 4
    shape = (1, 3) if distance is None else (2, 2)
    figure = Figure(figsize=(10, 3.4) if distance is None else (8.4, 7), dpi=DPI, layout="constrained")
    axes = figure.subplots(*shape, squeeze=False).flat
    _ranks_panel(axes[0], cells)
    _coverage_panel(axes[1], ensemble, truth, mask)
    _spread_panel(axes[2], cells, float(spread_skill(ensemble, truth, mask)), units)
    if distance is not None:
        _distance_panel(axes[3], by_distance(ensemble, truth, distance, mask=mask), units, distance_units)
    for ax in list(axes)[:panels]:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.xaxis.label.set_size(9)
        ax.yaxis.label.set_size(9)
        ax.title.set_size(10)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _ranks_panel(ax: Axes, cells: Cells) -> None:
    K = cells.members.shape[0]
    bins = min(K + 1, 20)
    below, equal = ranks(cells)
    cases = np.unique(cells.case)
    rows = [
        fold_ranks(counted(below[here], equal[here], K), bins) / here.sum() for here in (cells.case == c for c in cases)
    ]
    density = [bootstrap(column * bins) for column in np.stack(rows).T]
    middle = (np.arange(bins) + 0.5) / bins
    height = np.array([estimate.mean for estimate in density])
    whiskers = np.array([[e.mean - e.low, e.high - e.mean] for e in density]).T  # (2, bins), NaN for one case
    ax.bar(middle, height, width=0.9 / bins, color=BLUE)
    ax.errorbar(
        middle,
        height,
        yerr=np.clip(np.nan_to_num(whiskers), 0, None),
        fmt="none",
        ecolor="black",
        elinewidth=0.8,
    )
    ax.axhline(1, color=GREY, linestyle="--", linewidth=1)
    ax.set(
        title="rank of the truth",
        xlabel=f"rank among {K} members, as a share",
        ylabel="frequency (flat = 1)",
        xlim=(0, 1),
    )


def _coverage_panel(ax: Axes, ensemble: Array, truth: Array, mask: Array | None) -> None:
    levels = [level for level in np.linspace(0.05, 0.95, 19) if resolved(ensemble.shape[0], level)]
    measured = [float(coverage(ensemble, truth, level, mask)) for level in levels]
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    ax.plot(levels, measured, "o-", color=BLUE, markersize=4, linewidth=1.2)
    ax.set(
        title="coverage",
        xlabel="nominal level of the interval",
        ylabel="share of truths inside",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    ax.set_aspect("equal")


def _spread_panel(ax: Axes, cells: Cells, overall: float, units: str) -> None:
    spread, rmse = error_by_spread(cells)
    most = 1.05 * max(*spread, *rmse) or 1.0
    ax.plot([0, most], [0, most], color=GREY, linestyle="--", linewidth=1)
    ax.plot(spread, rmse, "o", color=BLUE, markersize=5)
    ax.set(title=f"spread / skill {overall:.2f}", xlim=(0, most), ylim=(0, most))
    ax.set(xlabel=_with("spread", units), ylabel=_with("root mean square error", units))
    ax.set_aspect("equal")


def _distance_panel(ax: Axes, table: dict[str, Any], units: str, distance_units: str) -> None:
    ax.plot(
        table["distance"],
        table["rmse"],
        "o-",
        color=ORANGE,
        markersize=4,
        linewidth=1.2,
        label="error (root mean square)",
    )
    ax.plot(table["distance"], table["spread"], "s--", color=BLUE, markersize=4, linewidth=1.2, label="spread")
    ax.plot(table["distance"], table["crps"], "^:", color=GREY, markersize=4, linewidth=1.2, label="CRPS")
    ax.set(title="away from the sensors", xlabel=_with("distance to the nearest sensor", distance_units))
    ax.set(ylabel=units or "units of the field", ylim=(0, None))
    ax.legend(fontsize=8, frameon=False)


def _with(words: str, units: str) -> str:
    return f"{words} [{units}]" if units else words
