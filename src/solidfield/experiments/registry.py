"""The list of experiments, a verb of `solid bench` each. How to add one: see the room's docstring."""

from __future__ import annotations

from . import studies
from .bench import airdelhi, aqi36, era5, flow, gaussian, kolkata, network, shares
from .cell import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        gaussian.EXPERIMENT,
        flow.EXPERIMENT,
        kolkata.EXPERIMENT,
        era5.EXPERIMENT,
        airdelhi.EXPERIMENT,
        aqi36.EXPERIMENT,
        network.EXPERIMENT,
        shares.EXPERIMENT,
        *studies.EXPERIMENTS,
    )
}
