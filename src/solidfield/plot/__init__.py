"""Figures: scenes as maps, and how far their uncertainty can be trusted.

Each function returns a matplotlib Figure that the caller saves; no global state of pyplot is used.
"""

from .comparison import bins_figure, models_figure, series_figure
from .fields import scene, taught
from .reliability import reliability_figure

__all__ = [
    "bins_figure",
    "models_figure",
    "reliability_figure",
    "scene",
    "series_figure",
    "taught",
]
