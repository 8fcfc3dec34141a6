"""`solid bench placement`: which five of thirteen candidates, judged by a random forest at places it never saw.

The protocol of AirShot: beside one sensor, choose five of the pool without looking at `test`; a forest of 100 trees on
(lat, lon, hour), trained on the rows of the chosen, predicts `test`. Three ways to choose:

    law      the joint law of a map: a covariance fitted to all that may be looked at, every sensor equally good
    errors   the same with the own error of each sensor, by hiding it; the map is not told of it
    trial    the score itself, measured at `valid` by a forest of fewer trees

Fifty sets of five at random say whether the gain that a way expects is the gain that `test` shows (rank correlation),
and thirty of them what chance reaches. Figures of others are read off AirShot's figure (F).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.stats import spearmanr

from ...config import TrainConfig
from ...engine import Progress
from ...grid import lengths
from ...keys import numpy_generator
from ...models.solid_set import SolidSet
from ...pairs.scaling import Scaling
from ...placement.gain import Covariances, Joint, choose, gain_of
from ...placement.law import Between, places
from ...placement.trial import choose_by, own_errors
from ...questions.drawing import Plan
from ...questions.record import Record
from ...training.lessons import QuestionTask
from ...training.sets import set_model
from ..cell import Cell, Experiment, Place, Result
from ..datasets.kolkata import CREDIT
from ..datasets.placement import CELL, Pool, Rows, read_pool, read_test
from ..text import Table, number

CHOSEN, RANDOM, SETS = 5, 30, 50
TREES, TRIED, ASKED = 100, 20, 4000  # of the judge; of a trial, and the rows of `valid` that it is asked for
HOURS = 300  # at which sensors are hidden
PUBLISHED = (("RLselect", 8.2), ("centrality", 8.55), ("coverage", 8.8), ("mutual information", 9.1))  # F: ± 0.1
WAYS = {"law": "joint law", "errors": "joint law, own errors", "trial": "trial at valid"}

Score = Callable[[tuple[int, ...]], float]


@dataclass(frozen=True)
class PlacementCell(Cell):
    HOME = "placement"
    JUDGED = ()

    sets: int
    trees: int

    @property
    def words(self) -> tuple[str, ...]:
        return ("kk1", f"{self.sets}sets", f"seed{self.seed}")

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        pool = read_pool(place.files("placement"))
        say = progress or (lambda what, done, total: None)
        say("choosing", 0, None)
        ways = {name: _of_law(joint) for name, joint in joint_laws(pool, self.seed).items()}
        ways["trial"] = _of_trial(pool, self.seed)
        chosen = {name: sorted(choice) for name, (choice, _) in ways.items()}
        draws = numpy_generator(self.seed, "sets")
        sets = [sorted(draws.choice(len(pool.places), CHOSEN, replace=False).tolist()) for _ in range(self.sets)]
        expected = {name: [score(tuple(one)) for one in sets] for name, (_, score) in ways.items()}
        test = read_test(place.files("placement"))  # from here on nothing is chosen
        judged: dict[tuple[int, ...], float] = {}
        asked = [(), *map(tuple, chosen.values()), *map(tuple, sets)]
        for done, one in enumerate(asked):
            say("judging", done, len(asked))
            if one not in judged:
                judged[one] = forest(pool.trained_on(one), test, self.trees, self.seed)
        found = [judged[tuple(one)] for one in sets]
        return {
            "one_sensor": judged[()],
            "random": {"rmse": found, "mean": np.mean(found[:RANDOM]), "std": np.std(found[:RANDOM], ddof=1)},
            "ways": {
                name: {
                    "chosen": pool.places[chosen[name]].tolist(),
                    "rmse": judged[tuple(chosen[name])],
                    "rank_correlation": spearmanr(expected[name], found)[0],
                }
                for name in ways
            },
            "credit": CREDIT,
        }


def forest(train: Rows, asked: Rows, trees: int, seed: int) -> float:
    """RMSE of a random forest on (lat, lon, hour)."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(trees, random_state=seed).fit(train.features(), train.value)
    return float(np.sqrt(np.mean((model.predict(asked.features()) - asked.value) ** 2)))


def _of_trial(pool: Pool, seed: int) -> tuple[list[int], Score]:
    """Choice and score of a set, by a small forest at `valid`."""
    some = numpy_generator(seed, "trial").choice(len(pool.valid), min(ASKED, len(pool.valid)), replace=False)
    asked = pool.valid[np.sort(some)]

    def score(chosen: tuple[int, ...]) -> float:
        return forest(pool.trained_on(chosen), asked, TRIED, seed)

    return choose_by(score, len(pool.places), CHOSEN), score


def _of_law(joint: Joint) -> tuple[list[int], Score]:
    """Choice and expected score by a law whose first reading is that of the sensor there is."""
    groups = [np.array([p]) for p in range(len(joint.believed.errors))]
    law = (joint.given(groups[0]), groups[1:])
    return [pick.candidate for pick in choose([law], CHOSEN)], lambda chosen: -gain_of([law], chosen)


def joint_laws(pool: Pool, seed: int) -> dict[str, Joint]:
    """Of the sensors (the first, then the candidates) and the places of `valid`, each as often as it was read."""
    record, model, scaling = _fitted(pool, seed)
    grid, nugget = record.grid, float(model.prior.nugget[0])
    between = Between(model.prior.lookup(0))
    sensors = np.concatenate([_cells(pool.init, grid)[:1], _cells_at(pool.places, grid)])
    valid = _cells(pool.valid, grid)
    targets, count = np.unique(valid, return_counts=True)
    here, there = places(0, sensors, grid.shape), places(0, targets, grid.shape)
    known = Covariances(between(here, here), between(here, there), np.full(len(sensors), nugget))
    v = np.full(len(targets), float(model.prior.variance[0]) + nugget)
    law = Joint(known, v, v, np.ones(len(targets)), count / count.sum())
    errors = own_errors(_snapshots(pool, scaling, between, sensors, seed), len(sensors) + 1, nugget)[:-1]
    worse = Covariances(known.own, known.cross, errors)
    common = Covariances(known.own, known.cross, np.full(len(sensors), errors.mean()))
    return {"law": law, "errors": Joint(common, v, v, law.spread, law.weight, true=worse)}


def _fitted(pool: Pool, seed: int) -> tuple[Record, SolidSet, Scaling]:
    """The covariance of `solid-set` in space, from all readings of an hour; no network is trained."""
    rows, grid = pool.init.and_also(pool.pool).and_also(pool.valid), pool.grid()
    index = rows.hour * grid.cells + _cells(rows, grid)
    slot, inverse, count = np.unique(index, return_inverse=True, return_counts=True)
    values = np.bincount(inverse.ravel(), rows.value) / count
    frame, hours = slot // grid.cells, int(rows.hour.max()) + 1
    offsets = np.concatenate([[0], np.cumsum(np.bincount(frame, minlength=hours))])
    nothing = np.zeros(hours)
    record = Record(
        grid,
        ("pm",),
        offsets,
        slot % grid.cells,
        values.astype(np.float32),
        nothing.astype(np.int8),
        nothing.astype(int),
    )
    scaling = Scaling.of_record(record, record.of_split("train"), ("log",))
    plan = Plan(before=0, after=0, unread=1.0, longest=2)
    task = QuestionTask(scaling.of_readings(record), scaling, plan, TrainConfig(steps=1000, seed=seed), {})
    model = set_model(record, {"lengths": lengths(grid)[0], "frames": 0}, seed)
    task.prepare(model)
    return record, model, scaling


def _snapshots(pool: Pool, scaling: Scaling, between: Between, sensors: np.ndarray, seed: int) -> list[Any]:
    """Hours at which sensors and others read, with who read; all others count as one sensor, the last."""
    grid, count = pool.grid(), len(sensors)
    rows = pool.init.and_also(pool.pool).and_also(pool.valid)
    who = np.concatenate([np.zeros(len(pool.init), int), 1 + pool.which, np.full(len(pool.valid), count)])
    value = (np.log(rows.value) - scaling.mean[0]) / scaling.std[0]
    cell, found = _cells(rows, grid), []
    hours = np.unique(pool.valid.hour)
    for hour in numpy_generator(seed, "hours").choice(hours, min(HOURS, len(hours)), replace=False):
        mine = np.flatnonzero(rows.hour == hour)
        here = places(0, cell[mine], grid.shape)
        found.append((between(here, here), value[mine], who[mine]))
    return found


def _cells(rows: Rows, grid: Any) -> np.ndarray:  # (n,)
    return _cells_at(np.stack([rows.lat, rows.lon], 1), grid)


def _cells_at(where: np.ndarray, grid: Any) -> np.ndarray:  # (n, 2) -> (n,)
    row, column = (np.rint((where[:, axis] - grid.origin[axis]) / CELL).astype(np.int64) for axis in (0, 1))
    return row * grid.shape[1] + column


def placement_cells(
    sets: Annotated[int, "Random sets whose expected and realised gains are compared."] = SETS,
    trees: Annotated[int, "Of the judge."] = TREES,
    seed: Annotated[int, "Of sets, forests and fits."] = 0,
) -> list[Cell]:
    return [PlacementCell(sets, trees, seed=seed)]


def tables(results: Sequence[Result]) -> list[Table]:
    header = ("Kolkata, 1 + 5 sensors", "RMSE, ug/m3", "expected and realised gain of random sets", "known how")
    rows: list[tuple[str, ...]] = []
    for result in results:
        for name, way in result["ways"].items():
            rows.append((WAYS[name], number(way["rmse"], 2), number(way["rank_correlation"], 2), "measured here"))
        chance = result["random"]
        error = f"{chance['mean']:.2f} ± {chance['std'] / np.sqrt(RANDOM):.2f}"
        rows.append((f"{RANDOM} draws at random, mean and its standard error", error, "-", "measured here"))
        rows.append(("the first sensor alone", number(result["one_sensor"], 2), "-", "measured here"))
    rows += [(name, number(rmse, 2), "-", "F") for name, rmse in PUBLISHED]
    return [(header, rows)]


EXPERIMENT = Experiment(
    "placement",
    "Which five of thirteen candidates in Kolkata, judged by a forest at places it never saw.",
    placement_cells,
    tables,
    reads=True,
)
