"""The list of experiments, a verb of `solid bench` each. How to add one: see the room's docstring."""

from __future__ import annotations

from . import studies
from .bench import (
    airdelhi,
    aqi36,
    calibration,
    era5,
    flow,
    gaussian,
    germany,
    heaton,
    kolkata,
    kolkata_day,
    network,
    parts,
    peers,
    placement,
    shares,
    warped,
)
from .cell import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        gaussian.EXPERIMENT,
        warped.EXPERIMENT,
        calibration.EXPERIMENT,
        flow.EXPERIMENT,
        kolkata.EXPERIMENT,
        era5.EXPERIMENT,
        airdelhi.EXPERIMENT,
        aqi36.EXPERIMENT,
        network.EXPERIMENT,
        heaton.EXPERIMENT,
        shares.EXPERIMENT,
        germany.EXPERIMENT,
        kolkata_day.EXPERIMENT,
        placement.EXPERIMENT,
        peers.EXPERIMENT,
        parts.EXPERIMENT,
        *studies.EXPERIMENTS,
    )
}
