"""Figures of the heart: schemes side by side from stored numbers, and one scene beside its exact posterior."""

from __future__ import annotations

from typing import Any

import cmocean
import numpy as np
from matplotlib.figure import Figure

from ...plot.style import BLUE, DPI, GREY, ORANGE, tidy

RATIOS = {"crps": "CRPS", "spread": "spread", "block_crps": "block CRPS", "block_spread": "block spread",
          "energy": "energy score", "roughness": "roughness"}  # fmt: skip
FURTHEST = 1.6  # where the axis of ratios ends; what is beyond is drawn at the edge, with its number


def gaussian_figure(result: dict[str, Any]) -> Figure:
    """Each scheme's ratios to the exact posterior, one panel a lead; on the line is perfect."""
    figure = Figure(figsize=(4.6 * len(result), 3.6), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, len(result), sharey=True, squeeze=False)[0]
    names = list(RATIOS)
    for ax, (title, entries) in zip(axes, result.items(), strict=True):
        schemes = list(entries)
        for place, scheme in enumerate(schemes):
            offset = (place - (len(schemes) - 1) / 2) * 0.8 / len(schemes)
            at = np.arange(len(names)) + offset
            values = np.array([entries[scheme][name]["mean"] for name in names])
            errors = np.array([entries[scheme][name]["error"] for name in names])
            shown = values.clip(2 - FURTHEST, FURTHEST)
            label = f"{scheme} (leaks)" if entries[scheme].get("leaks") else scheme
            mark, colour = ("s", "black") if scheme == "solid" else ("o", f"C{place}")
            ax.errorbar(at, shown, yerr=1.96 * errors, lw=1, fmt=mark, ms=4, color=colour, label=label)
            for x, y, value in zip(at, shown, values, strict=True):
                if y != value:
                    ax.text(x, y - 0.03, f"{value:.1f}", ha="center", va="top", fontsize=6)
        ax.axhline(1, color=GREY, lw=1, zorder=0)
        ax.set(title=title, ylim=(1.95 - FURTHEST, 0.05 + FURTHEST))
        ax.set_xticks(np.arange(len(names)), RATIOS.values(), rotation=30, ha="right")
    axes[0].set_ylabel("ratio to the exact posterior")
    axes[-1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    tidy(axes)
    return figure


def flow_figure(result: dict[str, Any]) -> Figure:
    """CRPS and coverage of every scheme and simple method, best first."""
    order = sorted(result, key=lambda name: result[name]["crps"]["mean"])
    figure = Figure(figsize=(8, 0.4 * len(order) + 1.2), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    at = np.arange(len(order))[::-1]
    colours = [
        ORANGE if result[n].get("leaks") else BLUE if "cost_of_100_members" in result[n] else GREY for n in order
    ]
    errors = [1.96 * result[name]["crps"]["error"] for name in order]
    left.barh(at, [result[name]["crps"]["mean"] for name in order], xerr=errors, color=colours, height=0.6)
    left.set_yticks(at, [f"{name} (leaks)" if result[name].get("leaks") else name for name in order])
    left.set(xlabel="CRPS [standard deviations of the field]", title="lower is better")
    for y, name in zip(at, order, strict=True):
        coverage = result[name]["coverage"]
        if coverage is not None:
            right.errorbar(100 * coverage["mean"], y, xerr=196 * coverage["error"], fmt="o", ms=4, color=BLUE)
    right.axvspan(88, 92, color=GREY, alpha=0.2)
    right.axvline(90, color=GREY, lw=1)
    right.set(xlabel="of the truth inside the 90 % interval [%]", title="on the line is honest")
    tidy((left, right))
    return figure


def scene_figure(found: dict[str, Any]) -> Figure | None:
    """A scene: truth and sensors, then mean, spread and one member of the exact posterior and of each scheme."""
    pictures = {name: result["picture"] for name, result in found.items() if "picture" in result}
    if "exact" not in pictures:
        return None
    fields = {name: {k: np.array(v) / 100 for k, v in p.items()} for name, p in pictures.items()}
    truth = fields["exact"]["truth"]  # (H, W)
    sensors = np.unravel_index(np.array(pictures["exact"]["sensors"]), truth.shape)
    rows = {"exact posterior": fields.pop("exact")}
    rows |= {f"{name} (leaks)" if found[name].get("leaks") else name: field for name, field in fields.items()}
    figure = Figure(figsize=(8.4, 2.1 * len(rows)), dpi=DPI, layout="constrained")
    axes = figure.subplots(len(rows), 4, squeeze=False)
    size, wide = float(np.abs(truth).max()), float(rows["exact posterior"]["spread"].max())
    for row, (name, drawn) in enumerate(rows.items()):
        mean, spread, first = drawn["mean"], drawn["spread"], truth if row == 0 else drawn["member"]
        panels = {"truth and sensors" if row == 0 else "a member": first, "mean": mean, "spread": spread}
        panels["error of the mean"] = np.abs(mean - truth)
        for ax, (title, field) in zip(axes[row], panels.items(), strict=True):
            signed = title not in ("spread", "error of the mean")
            low, high = (-size, size) if signed else (0.0, wide)
            colours = cmocean.cm.balance if signed else cmocean.cm.amp
            image = ax.imshow(field, origin="lower", vmin=low, vmax=high, cmap=colours)
            ax.set_title(title, fontsize=8)
            ax.set(xticks=[], yticks=[])
            if title == "truth and sensors":
                ax.plot(sensors[1], sensors[0], ".", color="black", ms=3)
            if row == len(rows) - 1:
                figure.colorbar(image, ax=axes[:, list(panels).index(title)], orientation="horizontal", shrink=0.8)
        axes[row, 0].set_ylabel(name, fontsize=9)
    return figure
