"""Where a map lies: true proportions, coordinates that never run into each other, and a scale bar.

On the Earth a degree of longitude is cos(latitude) as long as one of latitude, so a map that is true in its middle is
drawn 1 / cos(latitude) as high as its degrees say. A grid without units lies nowhere and gets no coordinates.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

from ..grid import DEGREE, Grid, lengths

ROUND = (1, 2, 5, 10)
BELOW = 20  # points from the map to its scale bar: below the coordinates


def lies_somewhere(grid: Grid) -> bool:
    return grid.axes == ("lat", "lon") or bool(grid.units)


def stretch_of(grid: Grid) -> float:
    """How much longer a unit along y is drawn than one along x."""
    return stretch_at(float(grid.y.mean())) if grid.axes == ("lat", "lon") else 1.0


def stretch_at(latitude: float) -> float:
    return 1 / max(float(np.cos(np.deg2rad(latitude))), 0.1)


def coordinates(ax: Axes, grid: Grid, y: bool = True, x: bool = True) -> None:
    """Ticks along both axes, with words along those that are asked for."""
    ax.set_aspect(stretch_of(grid))
    if not lies_somewhere(grid):
        ax.set_xticks([])
        ax.set_yticks([])
        return
    ticks(ax, grid.axes == ("lat", "lon"))
    ax.tick_params(labelsize=7, length=2, labelleft=y, labelbottom=x)


def ticks(ax: Axes, geographic: bool) -> None:
    """Few round coordinates; in degrees with the letter of their hemisphere."""
    for axis, count, letters in ((ax.xaxis, 3, "EW"), (ax.yaxis, 5, "NS")):
        axis.set_major_locator(MaxNLocator(count, steps=ROUND))
        if geographic:
            axis.set_major_formatter(FuncFormatter(lambda at, _, letters=letters: degrees(at, letters)))


def degrees(value: float, letters: str) -> str:
    """The letter of its hemisphere; longitudes that go on beyond the dateline come back on its other side.

    >>> degrees(-22.5, "NS"), degrees(0.0, "EW"), degrees(-190.0, "EW"), degrees(200.0, "EW"), degrees(-180.0, "EW")
    ('22.5° S', '0°', '170° E', '160° W', '180°')
    """
    turned = (value + 180) % 360 - 180 if letters == "EW" else value
    plain = round(abs(turned), 6)
    return f"{plain:g}°" if plain in (0, 180) else f"{plain:g}° {letters[int(turned < 0)]}"


def scale_bar(ax: Axes, grid: Grid) -> None:
    """A round length below the map, at most a third of its width."""
    if lies_somewhere(grid):
        (_, dx), unit = lengths(grid)
        add_bar(ax, dx / grid.spacing[1], unit)


def degree_bar(ax: Axes, latitude: float) -> None:
    """The same for axes in degrees."""
    add_bar(ax, DEGREE / stretch_at(latitude), "km")


def add_bar(ax: Axes, length: float, unit: str) -> None:
    """`length` is that of a step of 1 along x, in `unit`."""
    west, east = ax.get_xlim()
    most = (east - west) * length / 3
    power = 10 ** np.floor(np.log10(most))
    whole = float(max(m * power for m in ROUND if m * power <= most))
    words = f"{1000 * whole:g} m" if unit == "km" and whole < 1 else f"{whole:g} {unit}".removesuffix(" 1")
    room = ScaledTranslation(0, -BELOW / 72, ax.figure.dpi_scale_trans)
    below = {"bbox_to_anchor": (0, 0), "bbox_transform": ax.transAxes + room, "loc": "upper left"}
    style = {"pad": 0, "borderpad": 0, "sep": 2, "frameon": False, "label_top": False}
    ax.add_artist(AnchoredSizeBar(ax.transData, whole / length, words, fontproperties={"size": 7}, **below, **style))
