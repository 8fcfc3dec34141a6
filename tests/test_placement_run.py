"""`place` on runs: in a Gaussian world its expected gains are the exact ones, and its options do what they say."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from city import city, city_run
from solidfield.cli import app
from solidfield.cli.place import _print
from solidfield.cli.view import STEPS, _usual_steps
from solidfield.errors import SolidError
from solidfield.pairs.scaling import Scaling
from solidfield.placement.law import Wanted, law_of, members_law, set_law
from solidfield.plot.placement import placement_figure
from solidfield.prediction.context import frames_for
from solidfield.run import Run
from solidfield.worlds import gaussian_world
from test_answer import gaussian_model
from test_spacetime import GRID, covariance, simulated

FRAMES, BEFORE = 6, 4
SQUARE = {"type": "Polygon", "coordinates": [[[-0.5, -0.5], [2.5, -0.5], [2.5, 5.5], [-0.5, 5.5], [-0.5, -0.5]]]}


@pytest.fixture(scope="module")
def run() -> Run:
    """A run whose model knows the true covariance and believes in it."""
    data = {"plan": {"before": BEFORE, "after": 0, "leads": [1]}, "step": 1.0, "leads": [0, 1]}
    never = torch.zeros(1, *GRID.shape, dtype=torch.bool)
    scaling = Scaling((0.0,), (2.0,))
    return Run(Path("run"), gaussian_model(), scaling, GRID, ("x",), ("m",), never, False, {"data": data})


@pytest.fixture(scope="module")
def readings() -> tuple[np.ndarray, np.ndarray]:  # (T, H, W) physical units, the dense covariance of the world
    record, dense = simulated(covariance(), FRAMES, 0.2)
    frames = np.full((FRAMES, GRID.cells), np.nan, np.float32)
    frames[record.frames, record.cells] = 2 * record.values
    return frames.reshape(FRAMES, *GRID.shape), dense


def exact_score(frames: np.ndarray, dense: np.ndarray, row: int, lead: int, cells: tuple[int, ...] = ()) -> float:
    """Mean CRPS of the map at a lead after a frame, given what was read up to it and readings at these cells."""
    nugget = float(covariance().nugget)
    use = np.isfinite(frames).reshape(FRAMES, -1) & (np.arange(FRAMES) <= row)[:, None]
    use[row, list(cells)] = True
    site = np.flatnonzero(use.ravel())
    asked = (row + lead) * GRID.cells + np.arange(GRID.cells)
    k = dense[np.ix_(site, site)] + nugget * np.eye(len(site))
    cross = dense[np.ix_(site, asked)]
    left = dense[0, 0] + nugget - (cross * np.linalg.solve(k, cross)).sum(0)
    if lead == 0:
        left[np.isfinite(frames[row]).ravel()] = 0.0  # these are known
    return float(2 * np.sqrt(left).mean() / np.sqrt(np.pi))


def test_a_variable_without_units_shows_none(run, readings, capsys):
    found = replace(run, units=("",)).place(readings[0], add=1, check=False)
    _print(found)
    assert f"of x {found.score:.3g}, mean of" in capsys.readouterr().out
    assert "expected spread of x" in [ax.get_ylabel() for ax in placement_figure(found).axes]


@pytest.mark.parametrize(("lead", "asked"), [(0, 1000), (1, 1000), (1, 7)])
def test_expected_gains_of_a_run_are_the_exact_ones(run, readings, lead, asked, monkeypatch):
    monkeypatch.setattr("solidfield.placement.law.ASKED", asked)
    frames, dense = readings
    found = run.place(frames[:5], add=3, lead=lead, at=None, times=1, check=False)
    row = 0  # of one time, the first
    unread = np.flatnonzero(np.isnan(frames[row]).ravel())
    before = exact_score(frames, dense, row, lead)
    assert found.score == pytest.approx(before, rel=0.01)
    exact = [before - exact_score(frames, dense, row, lead, (cell,)) for cell in unread]
    assert len(found.candidates) == len(unread)
    np.testing.assert_allclose(found.candidates["gain_alone"], exact, rtol=0.02)
    chosen = tuple(unread[[found.candidates["name"].tolist().index(name) for name in found.table["name"]]])
    after = exact_score(frames, dense, row, lead, chosen)
    assert found.table["gain"].sum() == pytest.approx(before - after, rel=0.02)
    assert found.table["left"].iloc[-1] == pytest.approx(after, rel=0.01)


def test_the_last_time_has_a_name_in_a_list_too(run, readings):
    """As the command line gives it."""
    options = {"add": 1, "check": False}
    by_list, by_name = (run.place(readings[0], at=at, **options) for at in (["last"], "last"))
    assert by_list.about["times"] == by_name.about["times"] == [str(FRAMES - 1.0)]


def test_a_page_shows_as_many_leads_as_a_run_of_sets_learned(run):
    assert _usual_steps(run) == 1
    assert _usual_steps(replace(run, info={"data": {"leads": list(range(13))}})) == STEPS
    assert _usual_steps(replace(run, info={"data": {"leads": [0]}})) == 0


def test_candidates_are_those_allowed(run, readings, tmp_path):
    frames, _ = readings
    inside = run.place(frames, add=2, within=SQUARE, times=1, check=False)
    outside = run.place(frames, add=2, no_go=[SQUARE], times=1, check=False)
    assert all(x < 2.5 for ((_, x),) in inside.table["places"])
    assert all(x > 2.5 for ((_, x),) in outside.table["places"])
    assert len(inside.candidates) + len(outside.candidates) == len(
        run.place(frames, 1, times=1, check=False).candidates
    )
    table = tmp_path / "places.csv"
    table.write_text("name,y,x,cost\nfar,0,6,1\nnear,3,3,5\nmiddle,2,2,5\n")
    paid = run.place(frames, add=3, candidates=table, budget=6.0, times=1, check=False)
    assert paid.table["cost"].sum() <= 6
    assert "far" in paid.table["name"].tolist()
    with pytest.raises(SolidError, match="off the map"):
        run.place(frames, add=1, candidates=pd.DataFrame({"y": [0.0], "x": [70.0]}), check=False)
    with pytest.raises(SolidError, match="not positive"):
        run.place(frames, add=1, candidates=pd.DataFrame({"y": [0.0], "x": [1.0], "cost": [0]}), check=False)


def test_a_track_gains_what_its_cells_gain_together(run, readings):
    frames, dense = readings
    cells = [(0, 0), (0, 1), (1, 1)], [(5, 5), (5, 6)]
    rows = [{"track": f"t{n}", "y": y, "x": x} for n, track in enumerate(cells) for y, x in track]
    found = run.place(frames, add=1, routes=pd.DataFrame(rows), times=1, check=False, lead=1)
    before = exact_score(frames, dense, 0, 1)
    exact = [before - exact_score(frames, dense, 0, 1, tuple(7 * y + x for y, x in track)) for track in cells]
    np.testing.assert_allclose(found.candidates["gain_alone"], exact, rtol=0.02)
    assert found.geojson()["features"][0]["geometry"]["type"] == "MultiPoint"


def test_a_sensor_that_may_move_is_placed_again(run, readings):
    frames, _ = readings
    cell = np.argwhere(np.isfinite(frames[0]))[0]
    moved = run.place(frames[:1], add=1, move=[tuple(map(float, cell))], times=1, check=False)
    assert len(moved.table) == 2  # the new one, and the one that moved
    assert moved.score > run.place(frames[:1], add=1, times=1, check=False).score
    with pytest.raises(SolidError, match="no sensor"):
        run.place(frames[:1], add=1, move=[(5.0, 60.0)], check=False)


def test_sensors_that_are_missed_least_cost_least(run, readings):
    frames, dense = readings
    found = run.place(frames[:1], remove=2, lead=1, times=1, check=False)
    read = np.flatnonzero(np.isfinite(frames[0]).ravel())
    assert len(found.candidates) == len(read)
    losses = []
    for gone in read:
        less = frames.copy()
        less.reshape(FRAMES, -1)[0, gone] = np.nan
        losses.append(exact_score(less, dense, 0, 1) - exact_score(frames, dense, 0, 1))
    assert -found.table["gain"].iloc[0] == pytest.approx(min(losses), rel=0.05)
    assert found.table["name"].iloc[0] == found.candidates["name"].iloc[int(np.argmin(losses))]
    assert np.nanmean(found.after) > np.nanmean(found.before)


def test_hiding_sensors_says_how_far_to_trust(run, readings):
    """In a world that is as the run believes, realised gains are the expected ones, up to the noise of readings."""
    frames, _ = readings
    found = run.place(frames, add=1, times=2)
    assert found.trust is not None
    assert abs(found.trust.ratio - 1) < 3 * found.trust.error
    assert "hidden one by one" in found.as_dict()["trust"]["sentence"]


def test_members_alone_show_the_same_gains():
    world = gaussian_world(cells=12, length=0.15)
    frame = np.full((12, 12), np.nan)
    frame[3, 4] = frame[9, 8] = 0.5
    posterior = world.posterior(frame, obs_std=0.1)
    cells = np.arange(144)
    drawn = posterior.sample(400, np.random.default_rng(0)).reshape(400, -1)
    wanted = Wanted(cells, np.full(144, 1 / 144))
    joint = members_law(drawn, world.grid, wanted, cells, obs_std=0.1)
    found = joint.gains([np.array([p]) for p in cells])
    v = posterior.covariance.diagonal()
    left = v - posterior.covariance**2 / (v + 0.01)[:, None]
    exact = ((np.sqrt(v) - np.sqrt(left)) / np.sqrt(np.pi)).mean(1)
    assert found.mean() == pytest.approx(exact.mean(), rel=0.1)
    assert exact[int(found.argmax())] > 0.93 * exact.max()
    raw = drawn - drawn.mean(0)
    noisy = (raw.T @ raw / 399) ** 2 / (raw.var(0) + 0.01)[:, None]
    plain = ((np.sqrt(v) - np.sqrt(np.maximum(v - noisy, 0))) / np.sqrt(np.pi)).mean(1)
    assert abs(found.mean() - exact.mean()) < 0.5 * abs(plain.mean() - exact.mean())


def test_errors_that_are_measured_count(run):
    record, _ = simulated(covariance(), FRAMES, 0.2)
    wanted = Wanted(np.arange(GRID.cells), np.full(GRID.cells, 1 / GRID.cells), lead=1)
    sound = set_law(run, record, 2, wanted, np.array([10]))
    poor = set_law(run, record, 2, wanted, np.array([10]), errors=np.array([2.0]))
    assert poor.gains([np.array([0])])[0] < sound.gains([np.array([0])])[0]


def test_errors_of_readings_belong_to_the_frames_of_the_window(run, readings):
    """A law at a late frame is the same where the frames before its window were never there."""
    frames, _, _ = frames_for(run, np.concatenate([readings[0]] * 2))
    told = replace(
        frames, errors=np.linspace(0.1, 3, frames.values.size, dtype=np.float32).reshape(frames.values.shape)
    )
    late, row = np.arange(3, 12), 10
    cut = replace(told, values=told.values[late], times=told.times[late], errors=told.errors[late])
    wanted = Wanted(np.arange(GRID.cells), np.full(GRID.cells, 1 / GRID.cells))
    whole, part = (law_of(run, one, r, wanted, np.array([10])) for one, r in ((told, row), (cut, row - 3)))
    np.testing.assert_array_equal(whole.left, part.left)
    assert (whole.left > law_of(run, frames, row, wanted, np.array([10])).left).any()


def test_the_command_line_writes_what_it_says(tmp_path):
    """A run of pairs, whose law comes from members: table, JSON, GeoJSON, map."""
    city_run(tmp_path / "run", "climatology", leads=(0,))
    city().to_csv(tmp_path / "pm.csv", index=False)
    words = ["place", str(tmp_path / "run"), str(tmp_path / "pm.csv"), "--times", "1", "--no-check", "--json"]
    done = CliRunner().invoke(app, [*words, "--add", "2", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout[done.stdout.index("{") :])
    assert [row["rank"] for row in told["chosen"]] == [1, 2]
    assert told["chosen"][0]["gain"] >= told["chosen"][1]["gain"] >= 0
    table = pd.read_csv(tmp_path / "out" / "chosen.csv")
    np.testing.assert_allclose(table["gain"], [row["gain"] for row in told["chosen"]])
    points = json.loads((tmp_path / "out" / "place.geojson").read_text())["features"]
    assert [list(reversed(point["geometry"]["coordinates"])) for point in points] == [
        row["places"][0] for row in told["chosen"]
    ]
    assert (tmp_path / "out" / "place.png").stat().st_size > 5000
    both = CliRunner().invoke(app, [*words, "--add", "1", "--remove", "1"])
    assert both.exit_code != 0
    assert "ask for one of them" in str(both.exception)
