"""Where the next sensor helps most, from a run and readings: laws of several times, candidates, the best of them.

Gains are means over times that are spread over the readings, since the network and the weather differ from time to
time. Sensors that may move are taken out of the readings first, and their present places are candidates again. For
sensors that may be removed, each time is looked at as if the frame's own readings were still to be made. Candidates
that were tried have their own errors in the laws, and with readings kept aside to judge they are chosen by what they
did there (`trial.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..errors import SolidError
from ..grid import Grid
from ..keys import evenly
from ..pairs.frames import Frames
from ..prediction.context import FramesLike, Times, choose_rows, frames_for
from ..readings.areas import area_weights
from ..readings.intake import Say
from ..training.record import RunRecord
from .candidates import Area, Candidates, Table, allowed, of_cells, of_table, of_tracks
from .gain import Law, Pick, choose, given, mean_score
from .gain import remove as missed_least
from .law import Wanted, law_of
from .trial import TRIALS, Trial, try_candidates
from .tried import Tried
from .trust import Trust, trust

TIMES = 4  # that expected gains are means over


@dataclass(frozen=True)
class Placement:
    """What `place` found.

    Attributes
    ----------
    table : DataFrame
        The chosen candidates in order: name, place, cost, gain, share of the score, and the score left. Gains are
        expected ones, or with judging readings realised ones.
    candidates : DataFrame
        Every candidate with what it would gain alone; of tried ones also `own_error`, by that which the run expects.
    before, after : array
        (H, W) expected spread of the map without and with them; NaN where nothing is cared about.
    score : float
        Score before, expected or with judging readings measured: CRPS in units of the variable, or Brier score of the
        chance above the threshold.
    sensors : array
        (H, W) bool: cells that were read at any of the times.
    about : dict
        What was asked for, in plain values.
    trust : Trust or None
        How expected gains compare with realised ones when sensors are hidden, or candidates tried.
    """

    table: pd.DataFrame
    candidates: pd.DataFrame
    before: np.ndarray
    after: np.ndarray
    score: float
    sensors: np.ndarray
    grid: Grid
    about: dict[str, Any]
    trust: Trust | None = None

    def as_dict(self) -> dict[str, Any]:
        """All but the maps, as plain values."""
        return {
            **self.about,
            "score": self.score,
            "chosen": self.table.to_dict("records"),
            "trust": None if self.trust is None else self.trust.as_dict(),
        }

    def geojson(self) -> dict[str, Any]:
        """The chosen as points, or tracks as the points that they read."""
        chosen = []
        for row in self.table.to_dict("records"):
            places = [[x, y] for y, x in row.pop("places")]
            kind = {"type": "Point", "coordinates": places[0]}
            if len(places) > 1:
                kind = {"type": "MultiPoint", "coordinates": places}
            chosen.append({"type": "Feature", "geometry": kind, "properties": row})
        return {"type": "FeatureCollection", "features": chosen}


def place(
    run: RunRecord,
    frames: FramesLike,
    add: int = 0,
    *,
    remove: int = 0,
    candidates: Table | None = None,
    routes: Table | None = None,
    tried: FramesLike | None = None,
    judge: FramesLike | None = None,
    within: Area | None = None,
    no_go: Sequence[Area] = (),
    budget: float = np.inf,
    move: Sequence[tuple[float, float]] = (),
    area: Area | None = None,
    above: float | None = None,
    lead: int = 0,
    variable: str | None = None,
    at: Times | None = None,
    times: int | None = None,
    check: bool = True,
    seed: int = 0,
    say: Say | None = None,
) -> Placement:
    """Say where the next sensors help most, or which are missed least.

    Parameters
    ----------
    frames : table, xarray object or array
        What was read, as for `reconstruct`.
    add : int
        Sensors to add (tracks, with `routes`). Default: 0; give this or `remove`.
    remove : int
        Sensors to do without. Default: 0.
    candidates : path or DataFrame, optional
        Places (columns lat and lon, or y and x; where there are such, `name` and `cost`). Default: every cell.
    routes : path or DataFrame, optional
        Tracks of a mobile sensor instead: rows with a column `track`. Each reads all its cells in one time step.
    tried : table, xarray object or array, optional
        What candidates read that were tried beside the sensors, as `frames`: without `candidates` every cell of it
        is one. A sensor whose readings fit the others badly then counts as worse. Default: all count as equally good.
    judge : table, xarray object or array, optional
        Readings kept aside at the same times, as `frames`: the tried candidates are chosen by how well the run
        predicts these with them. Default: by expected gains.
    within : GeoJSON, optional
        A file or its content: candidates lie inside. Default: anywhere.
    no_go : sequence of GeoJSON
        Candidates lie outside of all of them.
    budget : float
        That the costs of the chosen may add up to. Default: any.
    move : sequence of (float, float)
        Sensors that may move, by their place: they are placed anew beside those to add.
    area : GeoJSON, optional
        What is cared about. Default: the whole map.
    above : float, optional
        Care about the chance above this threshold (its Brier score). Default: about values (their CRPS).
    lead : int
        Care about the map so many steps after the readings; a run of `solid-set` alone knows. Default: 0, now.
    variable : str, optional
        Default: the first.
    at : time, sequence of times or "last", optional
        Which frames gains are means over. Default: some, spread over all with readings.
    times : int, optional
        How many of them at most. Default: 4; candidates are tried at 200.
    check : bool
        Also hide sensors (with `judge`: try each candidate) and compare expected with realised gains. Default: True.
    seed : int
        Of members, for a run without closed form. Default: 0.
    say : callable, optional
        As for `read`.

    Returns
    -------
    Placement
        `table` of the chosen with their gains, maps `before` and `after`, `trust`, `geojson()` and `as_dict()`.

    Raises
    ------
    SolidError
        If there is nothing to choose from, an area or a table cannot be used, or tried and judging readings share no
        time with the others.
    """
    if (add > 0) == (remove > 0) or min(add, remove) < 0:
        raise SolidError(f"asked to add {add} and to remove {remove} sensors; ask for one of them, above zero")
    if lead < 0 or (times is not None and times < 1):
        raise SolidError(f"asked for lead {lead} and {times} times; a lead is not below zero, times are above it")
    if tried is None and judge is not None:
        raise SolidError("judging readings judge candidates that were tried; give the readings of these, too (tried)")
    if tried is not None and (remove or routes is not None):
        raise SolidError("tried candidates are sensors to add that stay; leave out sensors to remove and routes")
    known, labels, _ = frames_for(run, frames, say)
    index = _variable(run, variable)
    asked = choose_rows(known, labels, at, run.zone)
    wanted = _wanted(run, area, above, lead, index)
    read = np.isfinite(known.values[:, index]).reshape(len(known.values), -1)  # (T, H W)
    trial = None
    if remove:
        rows = evenly(asked, times or TIMES)
        sensors = of_cells(np.flatnonzero(read[rows].any(0)), run.grid)
        laws = _laws_without(run, known, rows, wanted, sensors, seed)
        picks = missed_least(laws, remove)
    else:
        stays, moved = _moving(known, move, run.grid, index)
        tests = None
        if tried is not None:
            tests = Tried.read(run, stays, tried, judge, wanted, say).also(known.values[:, index], moved)
            asked = tests.rows(asked)
        known, rows = stays, evenly(asked, times or TIMES)
        sensors = _candidates(run.grid, candidates, routes, within, no_go, read[rows].all(0) & ~moved, tests)
        if tests is not None:
            trial = try_candidates(run, known, evenly(asked, times or TRIALS), wanted, sensors, tests, seed)
        laws = _laws(run, known, rows, wanted, sensors, seed, trial)
        count = add + int(moved.sum())
        if trial is None or judge is None:
            picks = choose(laws, count, sensors.cost, budget)
        else:
            picks = trial.choose(count, budget)
    if not picks:
        raise SolidError(f"no candidate can be paid with a budget of {budget:g}; raise it")
    judged = trial if judge is not None else None
    about = {
        "variable": run.variables[index],
        "map_units": run.units[index],
        "score_is": "mean CRPS" if above is None else f"Brier score of the chance above {above:g}",
        "verb": "remove" if remove else "add",
        "gains": "expected" if judged is None else "realised",
        "lead": lead,
        "above": above,
        "times": [str(label) for label in labels[rows if judged is None else judged.rows]],
        "judging_readings": None if judged is None else judged.judging,
        "candidates": len(sensors.names),
    }
    found = None
    if check:
        found = trust(run, known, rows, index, seed) if judged is None else judged.trust()
    return Placement(
        **_found(run, laws, sensors, picks, wanted, bool(remove), trial),
        sensors=read[rows].any(0).reshape(run.grid.shape),
        grid=run.grid,
        about=about,
        trust=found,
    )


def _variable(run: RunRecord, name: str | None) -> int:
    if name is not None and name not in run.variables:
        raise SolidError(f"the run predicts {', '.join(run.variables)}, not '{name}'; choose one of them")
    return 0 if name is None else run.variables.index(name)


def _wanted(run: RunRecord, area: Area | None, above: float | None, lead: int, variable: int) -> Wanted:
    weight = run.grid.inside.astype(float)
    if run.grid.axes == ("lat", "lon"):
        weight *= np.cos(np.deg2rad(run.grid.y))[:, None]  # meridians meet: cells shrink to the poles
    if area is not None:
        weight *= area_weights(area, run.grid.y, run.grid.x)
    cells = np.flatnonzero(weight.ravel() > 0)
    if not len(cells):
        raise SolidError("the area that is cared about holds no cell of the map; check its coordinates (lon, lat)")
    share = weight.ravel()[cells]
    return Wanted(cells, share / share.sum(), variable, lead, above)


def _candidates(
    grid: Grid,
    table: Table | None,
    routes: Table | None,
    within: Area | None,
    no_go: Sequence[Area],
    taken: np.ndarray,  # (H W,) bool: read at all times; another sensor there tells nothing
    tests: Tried | None,
) -> Candidates:
    if table is not None and routes is not None:
        raise SolidError("candidates are places or routes; give one table of them")
    inside = allowed(grid, within, no_go)
    if routes is not None:
        found = of_tracks(routes, grid)
    elif table is not None:
        found = of_table(table, grid)
    else:
        free = ~taken if tests is None else ~taken & tests.places
        found = of_cells(np.flatnonzero(inside & free), grid)
    found = found.where(np.array([bool(inside[cells].all()) for cells in found.cells]))
    if not found.names:
        where = "outside the allowed areas" if tests is None else "outside the allowed areas or where a sensor stands"
        raise SolidError(f"no candidate is left: all lie {where}; widen the areas, or name others")
    return found


def _moving(
    frames: Frames, move: Sequence[tuple[float, float]], grid: Grid, variable: int
) -> tuple[Frames, np.ndarray]:  # without the readings of sensors that may move, (H W,) bool their cells
    moved = np.zeros(grid.shape, bool)
    for y, x in move:
        row, column = (int(part[0]) for part in grid.index(np.array([y]), np.array([x])))
        inside = 0 <= row < grid.shape[0] and 0 <= column < grid.shape[1]
        if not inside or not np.isfinite(frames.values[:, variable, row, column]).any():
            raise SolidError(f"there is no sensor at {y:g}, {x:g} that could move; name a cell that was read")
        moved[row, column] = True
    return replace(frames, values=np.where(moved, np.float32(np.nan), frames.values)), moved.ravel()


def _laws(
    run: RunRecord,
    frames: Frames,
    rows: np.ndarray,
    wanted: Wanted,
    candidates: Candidates,
    seed: int,
    trial: Trial | None = None,  # whose candidates have errors of their own
) -> list[Law]:
    cells, groups = candidates.points()
    errors = None
    if trial is not None:
        errors = np.empty(len(cells))
        for group, error in zip(groups, trial.errors, strict=True):
            errors[group] = error
    return [(law_of(run, frames, int(row), wanted, cells, errors, seed), groups) for row in rows]


def _laws_without(
    run: RunRecord, frames: Frames, rows: np.ndarray, wanted: Wanted, sensors: Candidates, seed: int
) -> list[Law]:
    """Laws before the frames' own readings, and what each sensor reads then: nothing where it was not read."""
    silent = frames.values.copy()
    silent[rows] = np.nan
    laws, read = _laws(run, replace(frames, values=silent), rows, wanted, sensors, seed), []
    for row in rows:
        there = np.isfinite(frames.values[row, wanted.variable]).ravel()
        read.append([np.flatnonzero(there[cells]) + p for p, cells in enumerate(sensors.cells)])
    return [(joint, groups) for (joint, _), groups in zip(laws, read, strict=True)]


def _found(
    run: RunRecord,
    laws: list[Law],
    sensors: Candidates,
    picks: list[Pick],
    wanted: Wanted,
    taken_away: bool,
    trial: Trial | None,
) -> dict[str, Any]:
    """The parts of a `Placement` that follow from the laws, and from a trial where candidates were judged."""
    chosen = [pick.candidate for pick in picks]
    last = [m for m in range(len(sensors.names)) if m not in chosen] if taken_away else chosen
    every = list(range(len(sensors.names))) if taken_away else []
    maps = []
    for used in (every, last):
        spread = np.mean([given(law, used)[0].spread_left() for law in laws], axis=0)
        maps.append(np.full(run.grid.cells, np.nan))
        maps[-1][wanted.cells] = spread
    if trial is not None and trial.attempts:
        score, alone = trial.score(()), trial.alone()
    else:
        score = mean_score([given(law, every) for law in laws])
        alone = np.mean([joint.gains(groups) for joint, groups in laws], axis=0)
    every_one = pd.DataFrame({"name": sensors.names, "gain_alone": alone})
    if trial is not None:
        every_one["own_error"] = np.sqrt(trial.errors / trial.believed)
    rows = []
    for rank, pick in enumerate(picks, 1):
        row, column = np.divmod(sensors.cells[pick.candidate], run.grid.shape[1])
        places = list(zip(run.grid.y[row].tolist(), run.grid.x[column].tolist(), strict=True))
        cost = {} if sensors.cost is None else {"cost": float(sensors.cost[pick.candidate])}
        gain = {"gain": pick.gain, "percent": 100 * pick.gain / score if score else 0.0, "left": pick.score}
        own = {} if trial is None else {"own_error": float(every_one["own_error"][pick.candidate])}
        rows.append({"rank": rank, "name": sensors.names[pick.candidate], **cost, **gain, **own, "places": places})
    before, after = (one.reshape(run.grid.shape) for one in maps)
    return {"table": pd.DataFrame(rows), "candidates": every_one, "before": before, "after": after, "score": score}
