"""How far uncertainty can be trusted: ranks, coverage, error against spread, both against distance to the sensors."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..scores.bins import distance_bins
from ..scores.calibration import counted, covered, error_by_spread, fold_ranks, ranks, ratio, resolved
from ..scores.estimate import Estimate, bootstrap
from ..scores.metrics import Cells, moments
from ..scores.registry import METRICS, Measured, measure
from .style import BLUE, DPI, GREY, ORANGE, tidy, with_units


def reliability_figure(
    cells: Cells,
    distance: np.ndarray | None = None,  # (P,) to the nearest sensor
    groups: np.ndarray | None = None,  # (P,) what whiskers resample: fields, or days; None: cases
    units: str = "",
    distance_units: str = "cells",
    title: str = "",
    what: str = "truth",  # that the members are compared with: truth, or reading
) -> Figure:
    """Four views of reliability: ranks, coverage, error against spread, both against distance to the sensors.

    Whiskers are 95 % intervals from resampling groups; with a single group there are none.
    """
    shape = (1, 3) if distance is None else (2, 2)
    figure = Figure(figsize=(10, 3.4) if distance is None else (8.4, 7), dpi=DPI, layout="constrained")
    axes = figure.subplots(*shape, squeeze=False).flat
    place = ranks(cells)
    _ranks_panel(axes[0], place, cells.members.shape[0], cells.case if groups is None else groups, what)
    _coverage_panel(axes[1], place, cells, what)
    _spread_panel(axes[2], cells, units)
    if distance is not None:
        _distance_panel(axes[3], measure(cells), distance, units, distance_units)
    tidy(axes)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _ranks_panel(
    ax: Axes,
    place: tuple[np.ndarray, np.ndarray],  # (P,) members below, (P,) equal
    K: int,
    groups: np.ndarray,  # (P,)
    what: str,
) -> None:
    below, equal = place
    bins = min(K + 1, 20)
    labels, group = np.unique(groups, return_inverse=True)
    counts = np.stack([
        fold_ranks(counted(below[here], equal[here], K), bins) for here in (group == g for g in range(len(labels)))
    ])  # fmt: skip
    sizes = np.bincount(group)
    density = [
        bootstrap(np.stack([column * bins, sizes], axis=1), of=lambda means: means[..., 0] / means[..., 1])
        for column in counts.T
    ]
    middle = (np.arange(bins) + 0.5) / bins
    height = np.array([estimate.mean for estimate in density])
    whiskers = np.array([[e.mean - e.low, e.high - e.mean] for e in density]).T  # (2, bins), NaN for one case
    ax.bar(middle, height, width=0.9 / bins, color=BLUE)
    ax.errorbar(
        middle, height, yerr=np.clip(np.nan_to_num(whiskers), 0, None), fmt="none", ecolor="black", elinewidth=0.8
    )
    ax.axhline(1, color=GREY, linestyle="--", linewidth=1)
    ax.set(
        title=f"rank of the {what}",
        xlabel=f"rank among {K} members, as a share",
        ylabel="frequency (flat = 1)",
        xlim=(0, 1),
    )


def _coverage_panel(ax: Axes, place: tuple[np.ndarray, np.ndarray], cells: Cells, what: str) -> None:
    K = cells.members.shape[0]
    levels = [level for level in np.linspace(0.05, 0.95, 19) if resolved(K, level)]
    measured = [float(cells.mean(covered(*place, K, level))) for level in levels]
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    ax.plot(levels, measured, "o-", color=BLUE, markersize=4, linewidth=1.2)
    ax.set(
        title="coverage",
        xlabel="nominal level of the interval",
        ylabel=f"share of {what}s inside",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    ax.set_aspect("equal")


def _spread_panel(ax: Axes, cells: Cells, units: str) -> None:
    K = cells.members.shape[0]
    error, variance = moments(cells)
    overall = float(ratio(cells.mean((K + 1) / K * variance), cells.mean(error**2)))
    spread, rmse = error_by_spread(cells)
    most = 1.05 * max(*spread, *rmse) or 1.0
    ax.plot([0, most], [0, most], color=GREY, linestyle="--", linewidth=1)
    ax.plot(spread, rmse, "o", color=BLUE, markersize=5)
    ax.set(title=f"spread / skill {overall:.2f}", xlim=(0, most), ylim=(0, most))
    ax.set(xlabel=with_units("spread", units), ylabel=with_units("root mean square error", units))
    ax.set_aspect("equal")


def _distance_panel(ax: Axes, found: Measured, distance: np.ndarray, units: str, distance_units: str) -> None:
    bins = list(distance_bins(distance, np.isfinite(distance)))
    parts = [found[inside].pooled() for _, inside in bins]
    lines = (
        ("rmse", "o-", ORANGE, "error (root mean square)"),
        ("spread", "s--", BLUE, "spread"),
        ("crps", "^:", GREY, "CRPS"),
    )
    for name, style, colour, label in lines:
        values = [METRICS[name].measure(part) for part in parts]
        heights = [value.mean if isinstance(value, Estimate) else np.nan for value in values]
        ax.plot([bin.mean for bin, _ in bins], heights, style, color=colour, markersize=4, linewidth=1.2, label=label)
    ax.set(title="away from the sensors", xlabel=with_units("distance to the nearest sensor", distance_units))
    ax.set(ylabel=units or "units of the field", ylim=(0, None))
    ax.legend(fontsize=8, frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))  # off the curves
