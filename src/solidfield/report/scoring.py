"""The judge: every model on every region, by distance to the nearest sensor, by hour of day, and in pairs.

Whether the targets are readings or a dense truth makes no difference here: a region is a mask, a bin of distance or
hour is one, too. Error bars resample days (or trajectories). Two models are compared on the same cells, d = CRPS_run -
CRPS_rival, with the mean of d and its own error bar: what is hard for both drops out. Below zero the run is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..grid import Grid, lengths
from ..scores.bins import Bin, distance_bins
from ..scores.metrics import Cells
from ..scores.registry import Measured, WholeMaps, measure, summarise
from ..scores.table import Comparison, Lead, Score, ScoreTable
from .targets import Targets
from .words import lead_label

Place = tuple[str, Bin | None, np.ndarray]  # region, bin of it, (P,) bool: the cells in it


class Data(Protocol):
    """What is judged: a store of pairs, or a run of questions."""

    @property
    def grid(self) -> Grid: ...
    @property
    def variables(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> tuple[str, ...]: ...
    @property
    def step(self) -> float: ...  # time of a lead
    @property
    def epoch(self) -> str | None: ...  # of times that are instants


def judge(
    targets: Targets,
    ensembles: Mapping[str, np.ndarray],  # model -> (K, P), the run's own first
    data: Data,
    std: Sequence[float],  # (C,) of the training readings, physical units
    scenes_in_all: int | None = None,  # of which those of the targets were drawn; None: just those
    rolled: bool = False,
    beyond: Mapping[str, tuple[float, float]] | None = None,  # see `Lead`
    tail: Sequence[float] | None = None,  # (C,) where the upper tail of the training readings begins
) -> ScoreTable:
    """Every metric of every model everywhere, and the first model beside every other."""
    scores, comparisons = list[Score](), list[Comparison]()
    own, *rivals = ensembles
    for c, variable in enumerate(data.variables):
        rows = targets.channel == c
        if not rows.any():
            continue
        high = None if tail is None else float(tail[c])
        found = {name: measure_targets(targets, one, rows, data, std[c], high) for name, one in ensembles.items()}
        for region, bin, inside in places(targets, rows):
            here = inside[rows]
            parts = {name: _part(measured, here, bin) for name, measured in found.items()}
            where: dict[str, Any] = {
                "variable": variable,
                "lead": targets.lead,
                "region": region,
                "bin": bin,
                "rolled": rolled,
            }
            for name, part in parts.items():
                case = np.unique(part.cells.case)
                scores.append(
                    Score(
                        model=name,
                        members=part.members,
                        cells=int(here.sum()),
                        cases=len(case),
                        groups=len(np.unique(part.groups[case])),
                        std=float(std[c]),
                        metrics=summarise(part, bins=bin is not None),
                        tail=high,
                        **where,
                    )
                )
            comparisons += [compare(own, parts[own], name, parts[name], where) for name in rivals if here.any()]
    time, scenes = targets.lead * data.step, len(targets.examples)
    lead = Lead(
        lead=targets.lead,
        time=time,
        ahead=lead_label(time, data.epoch is not None),
        scenes=scenes,
        scenes_in_all=scenes if scenes_in_all is None else scenes_in_all,
        groups=len(np.unique(targets.group)),
        main=targets.main,
        rolled=rolled,
        beyond=beyond or {},
    )
    about, units = {"distance_units": lengths(data.grid)[1]}, dict(zip(data.variables, data.units, strict=True))
    return ScoreTable(units, (lead,), tuple(scores), tuple(comparisons), about)


def measure_targets(
    targets: Targets,
    ensemble: np.ndarray,  # (K, P)
    rows: np.ndarray,  # (P,) bool, of one variable
    data: Data,
    std: float = 1.0,
    tail: float | None = None,
) -> Measured:
    """A reading is a case of its own and keeps its number; of a dense truth a scene is one case, and has whole maps."""
    members, values, tail = ensemble[:, rows], targets.values[rows], np.nan if tail is None else tail
    if not targets.dense:
        return measure(Cells(members, values, np.flatnonzero(rows), len(rows)), targets.group, std, tail=tail)
    scene, cell, N = targets.scene[rows], targets.cell[rows], len(targets.examples)
    maps = np.zeros((len(members), N, data.grid.cells), members.dtype)
    truth, mask = np.zeros(maps.shape[1:], values.dtype), np.zeros(maps.shape[1:], dtype=bool)
    maps[:, scene, cell], truth[scene, cell], mask[scene, cell] = members, values, True
    maps, truth, mask = (part.reshape(*part.shape[:-1], *data.grid.shape) for part in (maps, truth, mask))
    whole = WholeMaps(maps, truth, mask, data.grid.periodic)
    return measure(Cells(members, values, scene, N), targets.groups, std, dense=True, maps=whole, tail=tail)


def _part(found: Measured, here: np.ndarray, bin: Bin | None) -> Measured:  # (p,) bool
    part = found if here.all() else found[here]  # whole maps belong to the region of all cells
    return part if bin is None else part.pooled()


def compare(own: str, ours: Measured, rival: str, theirs: Measured, where: Mapping[str, Any]) -> Comparison:
    """The mean difference and the share that the run saves, each with its error bar."""

    def saved(means: np.ndarray) -> np.ndarray:  # (..., 2) -> (...)
        with np.errstate(divide="ignore", invalid="ignore"):
            return 1 - means[..., 0] / means[..., 1]

    return Comparison(
        model=own,
        rival=rival,
        cells=ours.crps.size,
        difference=ours.mean(ours.crps - theirs.crps),
        saved=ours.mean(ours.crps, theirs.crps, of=saved) if theirs.crps.mean() > 0 else None,
        **where,
    )


def places(targets: Targets, rows: np.ndarray) -> Iterator[Place]:  # (P,) bool
    """The regions that have a target of this variable; then all of its targets in bins of distance, and of hour."""
    for name, inside in targets.regions.items():
        if (inside & rows).any():
            yield name, None, inside & rows
    for bin, inside in distance_bins(targets.distance, rows):
        yield targets.everything, bin, inside
    for hour in targets.hours:  # those that the record has; none of them may have been held out
        yield targets.everything, Bin("hour", *[float(hour)] * 3), rows & (targets.hour == hour)
