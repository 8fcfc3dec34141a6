"""The colours of the page: those of the figures (`plot/`), as tables of red, green and blue.

Perceptually even and told apart by colour-blind readers (Thyng et al. 2016, cmocean): the field runs from dark to
light, diverges about zero where it has both signs; spread and chance run from light to dark.
"""

from __future__ import annotations

import cmocean
import numpy as np

STEPS = 64
SCALES = {
    "field": cmocean.cm.thermal,
    "diverging": cmocean.cm.balance,
    "spread": cmocean.cm.amp,
    "chance": cmocean.cm.dense,
}


def colour_scales() -> dict[str, list[int]]:
    """Each scale as STEPS colours, red, green and blue one after the other in 0 .. 255."""
    places = np.linspace(0, 1, STEPS)
    return {name: np.round(255 * scale(places)[:, :3]).astype(int).ravel().tolist() for name, scale in SCALES.items()}
