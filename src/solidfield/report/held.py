"""Held-out readings in one row: the targets of some test examples, each with its place, its hour and its regions.

A reading is judged by what kept it apart from training and conditioning. `seen` was read in the source as well (an hour
before, at lead 1) and `unseen` was not; `held_sensors` and `held_blocks` stand at cells that no training example and no
source ever showed; `held_days` are of new days at places that are not held; `never_supervised` stand at cells where no
training target ever taught the run. Regions overlap: each answers a question of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import SolidError
from ..grid import Grid
from ..keys import evenly
from ..pairs.store import PairStore
from ..readings.cells import DEGREE
from ..theory.distance import distances_to_sensor
from .truth import groups_of, local_times

CHUNK = 256  # examples whose masks are spread over the grid at a time
REACH_SCENES = 200  # that say how far from a sensor the map goes


@dataclass(frozen=True)
class Held:
    """P held-out readings of N test examples of one lead."""

    lead: int
    examples: np.ndarray  # (N,) positions in the store, ascending in time
    times: np.ndarray | None  # (N,) datetime64, the local clock at the target; None: a simulation's own time
    hours: np.ndarray  # (S,) hours of the day that the record has at all; none for a simulation
    case: np.ndarray  # (P,) row in `examples`
    channel: np.ndarray  # (P,) variable
    cell: np.ndarray  # (P,) flat index into (H, W)
    values: np.ndarray  # (P,) float32
    distance: np.ndarray  # (P,) to the nearest sensor of the source, in the unit of `lengths`
    group: np.ndarray  # (P,) day or trajectory: what error bars resample
    regions: dict[str, np.ndarray]  # each (P,) bool

    @property
    def hour(self) -> np.ndarray | None:  # (P,) of the day
        return None if self.times is None else _hours(self.times)[self.case]

    @property
    def main(self) -> str:
        """The region that decides: at lead 0 a sensor of the source knows its own answer, later everything counts."""
        return "unseen" if self.lead == 0 and "unseen" in self.regions else "all"


def choose_examples(store: PairStore, lead: int, scenes: int | None = None) -> np.ndarray:  # (N,)
    """Test examples of this lead in the order of time: all of them, or so many, evenly spaced."""
    test = store.split("test")
    test = test[store.columns["lead"][test] == lead]
    if len(test) == 0:
        raise SolidError(f"{store.path} has no test example of lead {lead}; hold some days out, or judge another lead")
    order = np.lexsort((store.columns["time_target"][test], store.columns["trajectory"][test]))
    return evenly(test[order], len(test) if scenes is None else scenes)


def held_readings(
    store: PairStore,
    examples: np.ndarray,  # (N,) of one lead
    never_supervised: np.ndarray,  # (C, H, W) bool, of the run
    sources: np.ndarray | None = None,  # (N,) examples whose source is what was known; None: these
) -> Held:
    """Every target reading of these examples."""
    cells = store.grid.cells
    case, flat, values = store.readings_of("target", examples)
    channel, cell = np.divmod(flat, cells)
    distance, seen = _from_sources(store, examples if sources is None else sources, case, flat)
    regions = {"all": np.ones(len(case), dtype=bool), "seen": seen, "unseen": ~seen}
    held = np.zeros(cells, dtype=bool)
    for name, mask in store.held.items():
        regions[name] = mask.ravel()[cell]
        held |= mask.ravel()
    times, record = local_times(store, examples), local_times(store, np.arange(len(store)))
    if times is not None:
        regions["held_days"] = ~held[cell]
    regions["never_supervised"] = never_supervised.reshape(-1)[flat]
    return Held(
        lead=int(store.columns["lead"][examples[0]]),
        examples=examples,
        times=None if times is None else times.to_numpy(),
        hours=np.empty(0, np.int64) if record is None else np.unique(_hours(record.to_numpy())),
        case=case,
        channel=channel,
        cell=cell,
        values=values,
        distance=distance,
        group=groups_of(store, examples)[case],
        regions={name: rows for name, rows in regions.items() if rows.any()},
    )


def _hours(times: np.ndarray) -> np.ndarray:  # (N,) datetime64 -> (N,)
    return times.astype("datetime64[h]").astype(np.int64) % 24


def lengths(grid: Grid) -> tuple[tuple[float, float], str]:  # spacing along (y, x), its unit
    """What distances are told in: kilometres wherever the grid lies on the Earth, else the grid's own unit or cells."""
    (dy, dx), units = grid.spacing, grid.units
    if grid.axes == ("lat", "lon"):
        middle = np.deg2rad(float(grid.y.mean()))
        return (DEGREE * dy, DEGREE * dx * max(float(np.cos(middle)), 0.01)), "km"
    if units in ("m", "metre", "metres", "meter", "meters"):
        return (dy / 1000, dx / 1000), "km"
    return ((dy, dx), units) if units else ((1.0, 1.0), "cells")


def _from_sources(
    store: PairStore,
    examples: np.ndarray,  # (N,)
    case: np.ndarray,  # (P,)
    flat: np.ndarray,  # (P,) into (C, H, W)
) -> tuple[np.ndarray, np.ndarray]:  # (P,) distance to the nearest sensor, (P,) bool: read in the source itself
    distance, seen = np.empty(len(case)), np.empty(len(case), dtype=bool)
    for start in range(0, len(examples), CHUNK):
        rows = (case >= start) & (case < start + CHUNK)
        given = source_masks(store, examples[start : start + CHUNK])
        away = distances_to_sensor(given, lengths(store.grid)[0], store.grid.periodic)  # (n, H, W)
        here = case[rows] - start
        distance[rows] = away.reshape(len(away), -1)[here, flat[rows] % store.grid.cells]
        seen[rows] = given.reshape(len(given), -1)[here, flat[rows]]
    return distance, seen


def source_masks(store: PairStore, examples: np.ndarray) -> np.ndarray:  # (N, C, H, W) bool
    case, flat, _ = store.readings_of("source", examples)
    masks = np.zeros((len(examples), len(store.variables), *store.grid.shape), dtype=bool)
    masks.reshape(len(examples), -1)[case, flat] = True
    return masks


def share_beyond(store: PairStore, examples: np.ndarray, limit: float) -> float:
    """How much of the map lies farther from every sensor than the farthest reading that was scored."""
    few = evenly(examples, REACH_SCENES)
    inside = store.grid.inside
    away = distances_to_sensor(source_masks(store, few), lengths(store.grid)[0], store.grid.periodic)
    return float((away[:, inside] > limit).mean())
