"""Candidates that were tried: the run's law with them is the exact one, choices are those of brute force, a poor sensor
is found out, and what a choice may not see changes nothing."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from city import PLACES, city, city_run
from solidfield.cli import app
from solidfield.errors import SolidError
from solidfield.placement.candidates import of_cells
from solidfield.placement.law import Wanted
from solidfield.placement.place import Placement
from solidfield.placement.trial import Trial, choose_by, try_candidates
from solidfield.placement.tried import Tried
from solidfield.prediction.context import frames_for
from solidfield.run import Run
from solidfield.scores.metrics import crps_cells
from test_placement_run import run as exact_run  # noqa: F401
from test_spacetime import GRID, covariance, simulated

FRAMES = 12
SENSORS, CANDIDATES = (3, 38), (8, 12, 17, 22, 31, 33, 40)  # flat cells
POOR = 2  # among the candidates
NUGGET = float(covariance().nugget)


@pytest.fixture(scope="module")
def run(exact_run) -> Run:  # noqa: F811
    return exact_run


@pytest.fixture(scope="module")
def dense() -> tuple[np.ndarray, np.ndarray]:  # (T, H W) readings at every cell, physical; the covariance
    record, k = simulated(covariance(), FRAMES, 1.0)
    frames = np.full((FRAMES, GRID.cells), np.nan)
    frames[record.frames, record.cells] = 2 * record.values
    return frames, k


def only(frames: np.ndarray, cells: tuple[int, ...]) -> np.ndarray:  # (T, H, W)
    kept = np.full_like(frames, np.nan)
    kept[:, list(cells)] = frames[:, list(cells)]
    return kept.reshape(-1, *GRID.shape).astype(np.float32)


@pytest.fixture(scope="module")
def tables(dense) -> dict[str, np.ndarray]:
    """Two sensors, seven candidates of which one is off by far, and readings kept aside everywhere else."""
    frames = dense[0].copy()
    frames[:, CANDIDATES[POOR]] += 3 * (-1.0) ** np.arange(FRAMES)
    aside = tuple(np.setdiff1d(np.arange(GRID.cells), SENSORS + CANDIDATES))
    return {"frames": only(frames, SENSORS), "tried": only(frames, CANDIDATES), "judge": only(frames, aside)}


def trial_of(run: Run, tables: dict[str, np.ndarray], above: float | None = None, lead: int = 0) -> Trial:
    wanted = Wanted(np.arange(GRID.cells), np.full(GRID.cells, 1 / GRID.cells), lead=lead, above=above)
    known, _, _ = frames_for(run, tables["frames"])
    tests = Tried.read(run, known, tables["tried"], tables["judge"], wanted, None)
    rows = tests.rows(np.arange(FRAMES))
    return try_candidates(run, known, rows, wanted, of_cells(np.array(CANDIDATES), GRID), tests)


def placed(run: Run, tables: dict[str, np.ndarray], add: int, *names: str, **options) -> Placement:
    given = {name: tables[name] for name in names}
    return run.place(tables["frames"], add, **given, **{"check": False, "times": FRAMES} | options)


def cells_of(found: Placement) -> list[int]:
    return [int(GRID.shape[1] * y + x) for ((y, x),) in found.table["places"]]


def test_a_set_is_scored_by_the_exact_law(run, tables, dense):
    """At one time, with the window before it and the candidates read then: that of kriging with all of them."""
    k, chosen, row = dense[1], (1, 5), 6
    before = run.info["data"]["plan"]["before"]
    given = [(t, cell) for t in range(row - before, row + 1) for cell in SENSORS] + [
        (row, CANDIDATES[c]) for c in chosen
    ]
    values = [tables["frames" if cell in SENSORS else "tried"].reshape(FRAMES, -1)[t, cell] for t, cell in given]
    site = np.array([t * GRID.cells + cell for t, cell in given])
    attempt = trial_of(run, tables).attempts[row]
    judges = np.flatnonzero(np.isfinite(tables["judge"][row].ravel()))
    cross = k[np.ix_(site, row * GRID.cells + judges)]
    weight = np.linalg.solve(k[np.ix_(site, site)] + NUGGET * np.eye(len(site)), cross)
    mean = weight.T @ np.array(values) / 2
    spread = np.sqrt(k[0, 0] + NUGGET - (weight * cross).sum(0))
    draws = 2 * (mean + spread * np.random.default_rng(0).normal(size=(4000, 1)))
    np.testing.assert_allclose(attempt.scores(chosen), crps_cells(draws, attempt.truth), rtol=0.05, atol=0.03)


def test_the_chosen_set_is_the_best_of_brute_force(run, tables):
    trial = trial_of(run, tables)
    best = min(combinations(range(len(CANDIDATES)), 3), key=trial.score)
    found = placed(run, tables, 3, "tried", "judge")
    assert sorted(cells_of(found)) == [CANDIDATES[c] for c in best]
    assert found.score == pytest.approx(trial.score(()))
    assert found.table["gain"].sum() == pytest.approx(trial.score(()) - trial.score(best))
    assert found.table["left"].iloc[-1] == pytest.approx(trial.score(best))
    assert found.about["gains"] == "realised"
    assert found.about["judging_readings"] == sum(len(attempt.truth) for attempt in trial.attempts)
    np.testing.assert_allclose(found.candidates["gain_alone"], trial.alone())


def test_a_poor_sensor_is_taken_by_the_law_alone_and_by_no_other_way(run, tables):
    poor, count = CANDIDATES[POOR], len(CANDIDATES) - 1
    rows, columns = np.divmod(CANDIDATES, GRID.shape[1])
    law = placed(run, tables, 1, candidates=pd.DataFrame({"y": rows[POOR:][:1], "x": columns[POOR:][:1]}))
    assert law.table["gain"].iloc[0] > 0  # the law expects much of it
    every = placed(run, tables, count, candidates=pd.DataFrame({"y": rows, "x": columns}))
    assert poor in cells_of(every)
    errors = placed(run, tables, count, "tried")
    assert poor not in cells_of(errors)
    assert poor not in cells_of(placed(run, tables, count, "tried", "judge"))
    own = errors.candidates["own_error"]
    assert own.idxmax() == POOR
    assert own[POOR] ** 2 * NUGGET == pytest.approx(1.5**2 + NUGGET, rel=0.6)  # standard units
    assert own.drop(POOR).max() < own[POOR] / 3


def test_realised_gains_are_compared_with_expected_ones(run, tables):
    found = placed(run, tables, 1, "tried", "judge", check=True)
    assert len(found.trust.sensors) == len(CANDIDATES)
    assert "7 candidates were tried one by one" in found.trust.sentence()
    good = found.trust.sensors.drop(POOR)
    assert good["realised"].sum() == pytest.approx(good["expected"].sum(), rel=0.35)
    assert found.trust.sensors["realised"][POOR] < 0


@pytest.mark.parametrize("options", [{"above": 1.0}, {"lead": 1}])
def test_chances_and_leads_are_judged_too(run, tables, options):
    trial = trial_of(run, tables, **options)
    best = min(combinations(range(len(CANDIDATES)), 2), key=trial.score)
    found = placed(run, tables, 2, "tried", "judge", **options)
    assert sorted(cells_of(found)) == [CANDIDATES[c] for c in best]
    assert POOR not in best


def test_what_a_choice_may_not_see_changes_no_bit(run, tables):
    """Judging readings where a sensor stands or off the area, and whatever comes after the times asked for."""
    west = {"type": "Polygon", "coordinates": [[[-0.5, -0.5], [3.5, -0.5], [3.5, 5.5], [-0.5, 5.5], [-0.5, -0.5]]]}

    def found(changed: dict[str, np.ndarray]) -> str:
        at = run.place(changed["frames"][:6], 2, tried=changed["tried"], judge=changed["judge"], area=west)
        return json.dumps(at.as_dict())

    other = {name: table.copy() for name, table in tables.items()}
    other["judge"].reshape(FRAMES, -1)[:, SENSORS] = 77.0
    other["judge"][:, :, 5:] = -other["judge"][:, :, 5:]
    for table in other.values():
        table[6:] = -table[6:]
    assert found(other) == found(tables)


def test_sensors_that_may_move_were_tried_where_they_stand(run, tables):
    where = (0.0, 3.0)  # of the first sensor
    found = placed(run, tables, 1, "tried", "judge", move=[where])
    assert len(found.table) == 2
    assert len(found.candidates) == len(CANDIDATES) + 1


def test_costs_bound_what_is_measured():
    worth, cost = np.array([5.0, 4.0, 3.0, 2.0]), np.array([5.0, 2.0, 2.0, 2.0])

    def score(chosen: tuple[int, ...]) -> float:
        return -float(worth[list(chosen)].sum())

    assert sorted(choose_by(score, 4, 3, cost, budget=6.0)) == [1, 2, 3]
    assert choose_by(score, 4, 1, None) == [0]
    assert not choose_by(score, 4, 2, cost, budget=1.0)


def test_tables_that_miss_are_refused_in_one_line(run, tables):
    nothing = np.full_like(tables["tried"], np.nan)
    for options, words in (
        ({"judge": tables["judge"]}, "candidates that were tried"),
        ({"tried": tables["tried"], "routes": pd.DataFrame()}, "leave out sensors to remove and routes"),
        ({"tried": nothing}, "no time of the readings"),
        ({"tried": tables["tried"], "judge": nothing}, "no reading judges"),
        ({"tried": tables["tried"], "judge": tables["frames"]}, "elsewhere than sensors and candidates"),
        ({"tried": tables["tried"][:, :2]}, "the tried candidates: frames have shape"),
        ({"tried": tables["tried"], "judge": tables["judge"][:, :2]}, "the judging readings: frames have shape"),
        (
            {"tried": tables["tried"], "judge": tables["judge"], "candidates": pd.DataFrame({"y": [5], "x": [6]})},
            "was read",
        ),
        ({"tried": tables["frames"]}, "no candidate is left"),
        ({"tried": tables["tried"], "judge": tables["tried"]}, "elsewhere than sensors and candidates"),
        ({"tried": tables["tried"], "judge": tables["tried"], "lead": 1}, "elsewhere than sensors and candidates"),
        ({"times": 0}, "times are above it"),
        ({"lead": 2}, "learned leads up to 1"),
    ):
        with pytest.raises(SolidError, match=words) as told:
            run.place(tables["frames"], 1, **options)
        assert "\n" not in str(told.value)


def test_the_command_line_tries_candidates(tmp_path):
    """A run of pairs, whose law comes from members: the same words, and files as for the other ways."""
    city_run(tmp_path / "run", "kriging", leads=(0,))
    table = city()
    place = table["lat"].astype(str) + table["lon"].astype(str)
    number = place.map({f"{lat:.2f}{lon:.2f}": n for n, (lat, lon) in enumerate(PLACES)})
    for name, mine in {"pm": number < 3, "pool": (number >= 3) & (number < 8), "aside": number >= 8}.items():
        table[mine].to_csv(tmp_path / f"{name}.csv", index=False)
    words = ["place", str(tmp_path / "run"), str(tmp_path / "pm.csv"), "--add", "2", "--times", "3"]
    words += ["--tried", str(tmp_path / "pool.csv")]
    done = CliRunner().invoke(app, [*words, "--judge", str(tmp_path / "aside.csv"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "realised gain" in done.output
    assert "judging readings at 3 times; 5 candidates" in done.output
    told = json.loads((tmp_path / "out" / "place.json").read_text())
    assert [row["rank"] for row in told["chosen"]] == [1, 2]
    assert (tmp_path / "out" / "place.png").stat().st_size > 5000
    assert len(json.loads((tmp_path / "out" / "place.geojson").read_text())["features"]) == 2
    alone = CliRunner().invoke(app, [*words, "--no-check", "--json"])
    assert json.loads(alone.stdout[alone.stdout.index("{") :])["gains"] == "expected"
    late = table.assign(time=table["time"].str.replace("2024", "2031"))
    late.to_csv(tmp_path / "late.csv", index=False)
    missed = CliRunner().invoke(app, [*words, "--judge", str(tmp_path / "late.csv")])
    assert "no reading judges" in str(missed.exception)
