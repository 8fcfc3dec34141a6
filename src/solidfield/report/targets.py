"""What predictions are judged by, in one row: readings that were held out, or the truth in every cell.

A reading is judged by what kept it apart from training and conditioning. `seen` was read in the source as well (an hour
before, at lead 1) and `unseen` was not; `held_sensors` and `held_blocks` stand at cells that no training example and no
source ever showed; `held_days` are of new days at places that are not held; `never_supervised` stand at cells where no
training target ever taught the run. Of a dense truth, `sensors` are the cells M_i that were given, `targets` those of
M_o without M_i, `unobserved` all without a sensor, and `grid` every cell. Regions overlap, each answers a question of
its own. All readings count alike; of a dense truth each scene counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from ..clock import from_seconds, local
from ..errors import SolidError
from ..grid import Grid
from ..keys import evenly
from ..pairs.holdout import FIRST_DAY
from ..pairs.store import PairStore
from ..theory.distance import grid_distances

CHUNK = 256  # examples whose masks are spread over the grid at a time
REACH_SCENES = 200  # that say how far from a sensor the map goes


class Truth(Protocol):
    """Dense fields by trajectory and frame; a truth store of `worlds` is one."""

    @property
    def grid(self) -> Grid: ...
    @property
    def times(self) -> np.ndarray: ...  # (F,)
    def read(self, indices: Sequence[int]) -> np.ndarray: ...  # (n, F, C, H, W)


@dataclass(frozen=True)
class Targets:
    """P values of N scenes of one lead."""

    lead: int  # steps ahead
    examples: np.ndarray  # (N,) positions in the store
    times: np.ndarray | None  # (N,) datetime64, the local clock at the target; None: a simulation's own time
    hours: np.ndarray  # (S,) hours of the day that the record has at all; none for a simulation
    scene: np.ndarray  # (P,) row in `examples`
    channel: np.ndarray  # (P,) variable
    cell: np.ndarray  # (P,) flat index into (H, W)
    values: np.ndarray  # (P,) float32
    distance: np.ndarray  # (P,) to the nearest sensor of the source, in the unit of `lengths`
    groups: np.ndarray  # (N,) day or trajectory: what error bars resample
    regions: dict[str, np.ndarray]  # each (P,) bool
    dense: bool = False  # the truth in every cell

    @property
    def group(self) -> np.ndarray:  # (P,)
        return self.groups[self.scene]

    @property
    def hour(self) -> np.ndarray | None:  # (P,) of the day
        return None if self.times is None else _hours(self.times)[self.scene]

    @property
    def everything(self) -> str:
        """The region that holds all P."""
        return "grid" if self.dense else "all"

    @property
    def main(self) -> str:
        """The region that decides: where a sensor of the source knows its own answer, it does not count."""
        if self.dense:
            return "unobserved"
        if "known_places" in self.regions or "gaps" in self.regions:
            return "gaps" if "gaps" in self.regions else "known_places"
        return "unseen" if self.lead == 0 and "unseen" in self.regions else "all"

    def take(
        self,
        maps: np.ndarray,  # (K, n, C, H, W)
        start: int = 0,  # row of the first of the n scenes
    ) -> tuple[np.ndarray, np.ndarray]:  # (P,) bool: the targets in these scenes; (K, p) what the maps say there
        rows = (self.scene >= start) & (self.scene < start + maps.shape[1])
        flat = maps.reshape(*maps.shape[:3], -1)
        return rows, flat[:, self.scene[rows] - start, self.channel[rows], self.cell[rows]]


def choose_examples(store: PairStore, lead: int, scenes: int | None = None) -> np.ndarray:  # (N,)
    """Test examples of this lead in the order of time: all of them, or so many, evenly spaced."""
    test = store.split("test")
    test = test[store.columns["lead"][test] == lead]
    if len(test) == 0:
        raise SolidError(f"{store.path} has no test example of lead {lead}; hold some days out, or judge another lead")
    order = np.lexsort((store.columns["time_target"][test], store.columns["trajectory"][test]))
    return evenly(test[order], len(test) if scenes is None else scenes)


def reading_targets(
    store: PairStore,
    examples: np.ndarray,  # (N,) of one lead
    never_supervised: np.ndarray | None = None,  # (C, H, W) bool, of the run
    sources: np.ndarray | None = None,  # (N,) examples whose source is what was known; None: these
    lead: int | None = None,  # steps ahead of the sources; None: that of the examples
) -> Targets:
    """Every target reading of these examples."""
    cells = store.grid.cells
    scene, flat, values = store.readings_of("target", examples)
    channel, cell = np.divmod(flat, cells)
    distance, seen = _from_sources(store, examples if sources is None else sources, scene, flat)
    regions = {"all": np.ones(len(scene), dtype=bool), "seen": seen, "unseen": ~seen}
    held = np.zeros(cells, dtype=bool)
    for name, mask in store.held.items():
        regions[name] = mask.ravel()[cell]
        held |= mask.ravel()
    times, record = local_times(store, examples), local_times(store, np.arange(len(store)))
    if times is not None:
        regions["held_days"] = ~held[cell]
    if never_supervised is not None:
        regions["never_supervised"] = never_supervised.reshape(-1)[flat]
    return Targets(
        lead=int(store.columns["lead"][examples[0]]) if lead is None else lead,
        examples=examples,
        times=None if times is None else times.to_numpy(),
        hours=np.empty(0, np.int64) if record is None else np.unique(_hours(record.to_numpy())),
        scene=scene,
        channel=channel,
        cell=cell,
        values=values,
        distance=distance,
        groups=groups_of(store, examples),
        regions={name: rows for name, rows in regions.items() if rows.any()},
    )


def truth_targets(
    store: PairStore,
    examples: np.ndarray,  # (N,) of one lead
    truth: Truth,
    lead: int | None = None,  # steps ahead of the sources; None: that of the examples
) -> Targets:
    """Every cell of the truth at this lead."""
    if truth.grid != store.grid:
        raise SolidError(f"the truth is on a {truth.grid.shape} grid, the pairs on {store.grid.shape}")
    own = int(store.columns["lead"][examples[0]])
    lead = own if lead is None else lead
    start, end = (store.columns[name][examples] for name in ("frame_source", "frame_target"))
    frames = end if lead == own else start + (end - start) // own * lead
    if frames.max() >= len(truth.times):
        raise SolidError(
            f"lead {lead} of these scenes is beyond the truth's {len(truth.times)} frames; roll fewer steps"
        )
    needed, rows = np.unique(store.columns["trajectory"][examples], return_inverse=True)
    values = truth.read([int(n) for n in needed])[rows, frames]  # (N, C, H, W)
    scene, channel, cell = (
        part.ravel() for part in np.indices((*values.shape[:2], store.grid.cells))[..., store.grid.inside.ravel()]
    )
    flat = channel * store.grid.cells + cell
    distance, given = _from_sources(store, examples, scene, flat)
    measured = _masks(store, "target", examples).reshape(len(examples), -1)[scene, flat]
    regions = {"sensors": given, "targets": measured & ~given, "unobserved": ~given, "grid": np.ones_like(given)}
    return Targets(
        lead=lead,
        examples=examples,
        times=None,
        hours=np.empty(0, np.int64),
        scene=scene,
        channel=channel,
        cell=cell,
        values=values.reshape(len(values), -1)[scene, flat],
        distance=distance,
        groups=groups_of(store, examples),
        regions={name: rows for name, rows in regions.items() if rows.any()},
        dense=True,
    )


def local_times(store: PairStore, indices: np.ndarray) -> pd.DatetimeIndex | None:  # (N,)
    """When the targets were read by the clock of the place; None where times are a simulation's own."""
    if store.epoch is None:
        return None
    return local(from_seconds(store.columns["time_target"][indices]), clock_of(store))


def clock_of(store: PairStore) -> str:
    """The zone whose clock tells hours and days; UTC where none was named."""
    holdout = store.attributes["scenario"].get("holdout", {})
    return str(holdout.get("timezone") or (store.recipe or {}).get("timezone") or "UTC")


def groups_of(store: PairStore, indices: np.ndarray) -> np.ndarray:  # (N,) labels
    """Scenes that depend on each other share a label: those of one day of the record, of one trajectory."""
    times = local_times(store, indices)
    if times is None:
        return store.columns["trajectory"][indices]
    hours = store.attributes["scenario"].get("holdout", {}).get("hours", 24.0)
    return np.floor((times - FIRST_DAY) / pd.Timedelta(hours=hours)).to_numpy().astype(np.int64)


def _hours(times: np.ndarray) -> np.ndarray:  # (N,) datetime64 -> (N,)
    return times.astype("datetime64[h]").astype(np.int64) % 24


def _from_sources(
    store: PairStore,
    examples: np.ndarray,  # (N,)
    scene: np.ndarray,  # (P,)
    flat: np.ndarray,  # (P,) into (C, H, W)
) -> tuple[np.ndarray, np.ndarray]:  # (P,) distance to the nearest sensor, (P,) bool: read in the source itself
    distance, seen = np.empty(len(scene)), np.empty(len(scene), dtype=bool)
    for start in range(0, len(examples), CHUNK):
        rows = (scene >= start) & (scene < start + CHUNK)
        given = _masks(store, "source", examples[start : start + CHUNK])
        away = grid_distances(given, store.grid)  # (n, H, W)
        here = scene[rows] - start
        distance[rows] = away.reshape(len(away), -1)[here, flat[rows] % store.grid.cells]
        seen[rows] = given.reshape(len(given), -1)[here, flat[rows]]
    return distance, seen


def _masks(store: PairStore, side: str, examples: np.ndarray) -> np.ndarray:  # (N, C, H, W) bool
    scene, flat, _ = store.readings_of(side, examples)
    masks = np.zeros((len(examples), len(store.variables), *store.grid.shape), dtype=bool)
    masks.reshape(len(examples), -1)[scene, flat] = True
    return masks


def share_beyond(store: PairStore, examples: np.ndarray, limit: float) -> float:
    """How much of the map lies farther from every sensor than the farthest reading that was scored."""
    few = evenly(examples, REACH_SCENES)
    away = grid_distances(_masks(store, "source", few), store.grid)
    return float((away[:, store.grid.inside] > limit).mean())
