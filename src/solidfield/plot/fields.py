"""Maps of one scene. All maps of the field share one colour scale, spread and error another.

Equal colours are equal values: an ensemble is trustworthy where its spread looks like its error.
"""

from __future__ import annotations

import cmocean
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..errors import SolidError
from ..grid import Grid
from ..prediction.card import about_zero
from ..scores.metrics import Array, to_floats
from .ground import coordinates, scale_bar, stretch_of
from .style import DPI, EMPTY, GREY, PALETTE

TAUGHT, UNTAUGHT = "#DCE9F2", "#8A8A8A"
BAR = 0.05  # width of a colour bar beside a map's


def scene(
    ensemble: Array,  # (K, H, W)
    given: Array,  # (H, W), NaN where nothing was read: the source
    known: Array,  # (H, W), NaN where unknown: what judges the prediction
    grid: Grid,
    above: float | None = None,  # a threshold: its exceedance is shown, else a member
    label: str = "",  # of the field, with its units
    title: str = "",
    what: str = "read in fact (held out)",  # that is known; or the truth
    shown: Array | None = None,  # (2, H, W) mean and spread; None: of the members
) -> Figure:
    """What was given, what was predicted, what is known; below, spread, error, and the chance of a high value.

    A single member is a point forecast: it has neither spread nor chances.
    """
    x, seen, truth = to_floats(ensemble), to_floats(given), to_floats(known)
    if not x.shape[1:] == seen.shape == truth.shape == grid.shape:
        raise SolidError(
            f"maps {x.shape[1:]}, readings {seen.shape} and what is known {truth.shape} do not fit a grid of "
            f"{grid.shape}; give all of the same scene"
        )
    mean = x.mean(axis=0, dtype=np.float64) if shown is None else to_floats(shown)[0]
    mean = np.where(grid.inside, mean, np.nan)
    fields = {"readings given": seen, "predicted mean": mean, what: np.where(grid.inside, truth, np.nan)}
    limits, colours = field_limits(np.concatenate([values[np.isfinite(values)] for values in fields.values()]))
    sizes, third = {"error of the mean": np.abs(mean - truth)}, {}
    if len(x) > 1:
        spread = x.std(axis=0, ddof=1, dtype=np.float64) if shown is None else to_floats(shown)[1]
        sizes = {"predicted spread": np.where(grid.inside, spread, np.nan), **sizes}
        name = "a member" if above is None else f"chance of more than {above:.3g}"
        third = {name: np.where(grid.inside, x[0] if above is None else (x > above).mean(axis=0), np.nan)}
    ratio = aspect(grid)
    height = 2 * (2.7 * min(ratio, 2.5) + 0.45) + 0.3
    figure = Figure(figsize=(10, float(np.clip(height, 3, 14))), dpi=DPI, layout="constrained")
    places = figure.subplots(2, 5, width_ratios=(1, 1, BAR, 1, BAR))
    axes, bars = places[:, [0, 1, 3]], places[:, [2, 4]]
    draw_panels(axes[:1], fields, limits, colours, grid, label, bars[0, 1])
    most = np.nanpercentile(np.concatenate([values.ravel() for values in sizes.values()]), 99.5)
    draw_panels(axes[1:, 2 - len(sizes) : 2], sizes, (0.0, float(most) or 1.0), cmocean.cm.amp, grid, label, bars[1, 0])
    if third and above is None:
        draw_panels(axes[1:, 2:], third, limits, colours, grid, label, bars[1, 1])
    elif third:
        draw_panels(axes[1:, 2:], third, (0.0, 1.0), cmocean.cm.dense, grid, "probability", bars[1, 1])
    for ax in places.flat:
        if not ax.has_data():
            ax.set_axis_off()
    scale_bar(axes[0, 0], grid)
    for ax in (axes[0, 1], *axes[1, 2 - len(sizes) : 2 + len(third)]):
        _sensors(ax, np.isfinite(seen), grid)
    if title:
        figure.suptitle(f"{title} (dots: sensors that were read)", fontsize=11)
    return figure


def taught(
    never_supervised: np.ndarray,  # (H, W) bool
    held: dict[str, np.ndarray],  # what it is called -> (H, W) bool, cells held for ever
    grid: Grid,
    title: str = "",
) -> Figure:
    """Where training readings taught the model, where some were kept from it, and where there never were any."""
    inside = grid.inside
    kinds = {"taught by readings": inside & ~never_supervised, "never taught": inside & never_supervised}
    kinds |= {name: inside & mask for name, mask in held.items()}
    values = np.full(grid.shape, np.nan)
    for number, mask in enumerate(kinds.values()):
        values[mask] = number
    colours = ListedColormap([TAUGHT, UNTAUGHT, PALETTE[1], PALETTE[3]][: len(kinds)])
    ratio = aspect(grid)
    figure = Figure(figsize=(5.6, float(np.clip(4.6 * ratio + 1.0, 2.5, 9))), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    ax.imshow(
        values,
        origin="lower",
        extent=_extent(grid),
        vmin=-0.5,
        vmax=len(kinds) - 0.5,
        cmap=colours.with_extremes(bad="white"),
        interpolation="nearest",
    )
    coordinates(ax, grid)
    scale_bar(ax, grid)
    patches = [
        Patch(facecolor=colours(number), edgecolor=GREY, label=f"{name}: {int((values == number).sum())} cells")
        for number, name in enumerate(kinds)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    ax.set_title(title, fontsize=11)
    return figure


def field_limits(values: np.ndarray) -> tuple[tuple[float, float], Colormap]:
    """One scale for all maps of the field: diverging about zero if both signs occur, else sequential."""
    low, high, signs = about_zero(*np.percentile(values, [0.5, 99.5]))
    return (low, high if high > low else low + 1.0), cmocean.cm.balance if signs else cmocean.cm.thermal


def draw_panels(
    axes: np.ndarray,  # of Axes, (rows, columns)
    panels: dict[str, np.ndarray],  # each (H, W), NaN: no value
    limits: tuple[float, float],
    colours: Colormap,
    grid: Grid,
    label: str,
    bar_at: Axes | None = None,  # None: beside the maps
) -> None:
    """Maps on one colour scale, row after row, with one colour bar; axes that are left over are hidden."""
    bad = colours.with_extremes(bad=EMPTY)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, (name, values) in zip(axes.flat, panels.items(), strict=False):
        image = ax.imshow(
            values,
            origin="lower",
            extent=_extent(grid),
            vmin=limits[0],
            vmax=limits[1],
            cmap=bad,
            interpolation="nearest",
        )
        ax.set_title(name, fontsize=9)
        coordinates(ax, grid, y=ax is axes.flat[0])
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    known = np.concatenate([values[np.isfinite(values)] for values in panels.values()])
    extend = beyond[bool((known < limits[0]).any()), bool((known > limits[1]).any())]
    beside = {"ax": list(axes.flat), "aspect": 15 * axes.shape[0], "pad": 0.02} if bar_at is None else {"cax": bar_at}
    bar = axes.flat[0].figure.colorbar(image, extend=extend, **beside)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(label, fontsize=8)


def aspect(grid: Grid) -> float:
    """Height by width, as it is drawn."""
    return stretch_of(grid) * grid.shape[0] * grid.spacing[0] / (grid.shape[1] * grid.spacing[1])


def _extent(grid: Grid) -> tuple[float, float, float, float]:  # left, right, bottom, top
    (dy, dx), (H, W) = grid.spacing, grid.shape
    left, bottom = grid.origin[1] - dx / 2, grid.origin[0] - dy / 2
    return left, left + W * dx, bottom, bottom + H * dy


def _sensors(ax: Axes, mask: np.ndarray, grid: Grid) -> None:
    rows, columns = np.nonzero(mask)
    size = min(max(600 / mask.size**0.5 / 8, 0.6), 6)  # a dot well inside its cell at any resolution
    ax.scatter(grid.x[columns], grid.y[rows], s=size, c="black", linewidths=0, label="sensors")
