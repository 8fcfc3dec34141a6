"""Where sensors would go: how wide the map is without and with them, on one colour scale."""

from __future__ import annotations

import cmocean
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..placement.place import Placement
from .fields import aspect, draw_panels
from .ground import scale_bar
from .style import DPI, GREY, PALETTE, with_units


def placement_figure(found: Placement) -> Figure:
    """Two maps of the expected spread; dots: sensors there are, numbers: the chosen in their order."""
    grid, removed = found.grid, found.about["verb"] == "remove"
    height = float(np.clip(4.2 * aspect(grid) + 1.2, 2.8, 9))
    figure = Figure(figsize=(9.6, height), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, 2, squeeze=False)
    known = np.concatenate([values[np.isfinite(values)] for values in (found.before, found.after)])
    label = with_units(f"expected spread of {found.about['variable']}", found.about["map_units"])
    titles = "with all sensors" if removed else "now", "without the removed" if removed else "with the chosen"
    maps = dict(zip(titles, (found.before, found.after), strict=True))
    draw_panels(axes, maps, (0.0, float(np.percentile(known, 99.5)) or 1.0), cmocean.cm.amp, grid, label)
    scale_bar(axes[0, 0], grid)
    rows, columns = np.nonzero(found.sensors)
    for ax in axes[0]:
        ax.plot(grid.x[columns], grid.y[rows], ".", color=GREY, markersize=3)
    for row in found.table.to_dict("records"):
        _mark(axes[0, 0 if removed else 1], row)
    return figure


def _mark(ax: Axes, row: dict[str, object]) -> None:
    """A numbered disc; a track also has its cells."""
    places = np.array(row["places"])  # (b, 2) y, x
    if len(places) > 1:
        ax.plot(places[:, 1], places[:, 0], "s", color=PALETTE[0], markersize=2.5)
    y, x = places[len(places) // 2]
    disc = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": PALETTE[0]}
    ax.text(x, y, str(row["rank"]), fontsize=7, ha="center", va="center", bbox=disc)
