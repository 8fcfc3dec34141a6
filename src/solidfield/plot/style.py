"""What all figures share: colours that suit the colour-blind, sizes, axes without clutter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#7F7F7F"  # from the palette of Okabe and Ito
PALETTE = (BLUE, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", ORANGE, "#000000", "#8C6D31", GREY)  # for several models
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
EMPTY = "#B8B8B8"  # cells without a value: darker than the middle of a diverging scale
DPI = 150


def tidy(axes: Iterable[Axes]) -> None:
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.xaxis.label.set_fontsize(9)
        ax.yaxis.label.set_fontsize(9)
        ax.title.set_fontsize(10)


def looks(names: Sequence[str]) -> dict[str, tuple[str, str]]:  # model -> colour, marker
    """The first model is blue with circles in every figure; the others keep their looks, too."""
    return {name: (PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}


def with_units(words: str, units: str) -> str:
    return words if units in ("", "1") else f"{words} [{units}]"
