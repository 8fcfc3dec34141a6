"""Living rivals: nothing that is asked is given, files carry all that a peer may know, and one judge scores all."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from airfiles import write_era5, write_kolkata
from solidfield.errors import SolidError
from solidfield.experiments.bench import contests, peers
from solidfield.experiments.cell import Place
from solidfield.experiments.datasets.era5 import dense_era5, measured_era5

CLIMATOLOGY = """
import json, sys
from exchange import Task
import numpy as np
task = Task.read()
levels = np.quantile(task.given["value"], task.about["levels"])
task.answer(np.repeat(levels[:, None], len(task.asked), 1), 0.0, "numpy", {"mean": task.mean})
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_kolkata(folder / "kolkata", days=21)
    write_era5(folder / "era5")
    return folder


def test_asked_readings_are_not_given(data):
    contest = contests.kolkata_contest(data)
    record = contest.record
    given = set(zip(record.frames.tolist(), record.cells.tolist(), strict=True))
    asked = set(zip(contest.frame.tolist(), contest.cell.tolist(), strict=True))
    assert len(asked) == len(contest.frame)
    assert not given & asked
    assert (record.split[contest.frame] == contests.TEST).all()
    never = set(contest.cell[contest.kind == contests.NEVER_READ])
    assert never
    assert not never & set(record.cells.tolist())
    assert set(contest.cell[contest.kind == contests.GAP]) <= set(record.cells.tolist()) | never


def test_of_test_hours_only_sensors_are_given_and_cells_without_one_are_asked(data):
    contest, (frames, source, _) = contests.era5_contest(data), measured_era5(data)
    record, dense = contest.record, dense_era5(data).values.reshape(len(frames.times), -1)
    tests = np.flatnonzero(record.split == contests.TEST)
    for hour in tests:
        given = record.cells[record.offsets[hour] : record.offsets[hour + 1]]
        assert np.array_equal(given, np.flatnonzero(source[hour]))
        assert not set(contest.cell[contest.frame == hour]) & set(given.tolist())
    assert np.array_equal(contest.truth, dense[contest.frame, contest.cell].astype(float))


@pytest.fixture
def climatology(tmp_path, monkeypatch):
    """A peer that answers with the quantiles of all given readings."""
    python = tmp_path / ".peers" / "gpboost" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "peers").mkdir()
    exchange = Path(peers.ROOT) / "peers" / "exchange.py"
    (tmp_path / "peers" / "exchange.py").write_text(exchange.read_text())
    (tmp_path / "peers" / "run_gpboost.py").write_text(CLIMATOLOGY)
    monkeypatch.setattr(peers, "ROOT", tmp_path)
    return tmp_path


def test_a_peer_is_given_the_readings_and_judged_in_physical_units(data, climatology):
    (cell,) = peers.peers_cells("kolkata", "gpboost")
    place = Place(climatology / "work", data)
    found, contest = cell.measure(place), contests.kolkata_contest(data)
    levels = np.quantile(np.log(contest.record.values), peers.levels())
    law = np.exp(levels)[:, None].repeat(len(contest.frame), 1)
    below = contest.truth < law
    crps = 2 * ((law - contest.truth) * (below - peers.levels()[:, None])).mean(0)  # pinball
    for kind, part in found["laws"]["gpboost"].items():
        mine = contest.kind == kind
        assert part["readings"] == mine.sum() == sum(part["counts"])
        assert peers.mean_crps(part).mean == pytest.approx(crps[mine].mean(), rel=1e-4)
        inside = (law[4] <= contest.truth) & (contest.truth <= law[-5])  # of 99 levels the fifth is 4.5 %
        assert part["coverage"] == pytest.approx(inside[mine].mean(), abs=0.03)
    (folder,) = (path for path in place.work.iterdir() if path.is_dir())
    given, asked = (pd.read_csv(folder / f"{name}.csv") for name in ("given", "asked"))
    assert len(given) == len(contest.record.values)
    assert list(asked) == ["frame", "y", "x"]
    assert json.loads((folder / "task.json").read_text())["seconds"] == 180
    assert peers.mean_crps(part, part)[:3] == (0.0, 0.0, 0.0)


def test_a_peer_that_fails_or_is_not_there_is_an_error_with_a_remedy(data, climatology):
    (climatology / "peers" / "run_gpboost.py").write_text("raise ValueError('no such field')")
    (broken,), (absent,) = (peers.peers_cells("kolkata", name) for name in ("gpboost", "bayesnf"))
    with pytest.raises(SolidError, match=r"no such field.*words.txt"):
        broken.measure(Place(climatology / "work", data))
    with pytest.raises(SolidError, match="make peers"):
        absent.measure(Place(climatology / "work", data))
    with pytest.raises(SolidError, match="no model 'kriging'"):
        peers.peers_cells("kolkata", "kriging")


def test_the_winner_is_named_and_ties_are_called_ties():
    def result(model, crps):
        part = {"crps_sums": crps, "counts": [2, 2, 2], "readings": 6, "mae": 1.0, "rmse": 1.0, "coverage": 0.9}
        spent = {"training_seconds": 1.0, "cpu_seconds": 2.0, "units": "K"}
        return {"cell": {"contest": "era5"}, "laws": {model: {"never read": part}}, **spent}

    clear = [result("solid", [1.0, 1.2, 1.1]), result("gpboost", [2.0, 2.4, 2.1])]
    assert "solid has the lowest CRPS, by more than the error bar below gpboost" in peers.verdicts(clear)[0]
    tie = [result("solid", [1.0, 3.0, 1.1]), result("gpboost", [2.0, 1.0, 2.0])]
    assert "gpboost has the lowest CRPS, within the error bar below solid" in peers.verdicts(tie)[0]
    ((_, rows),) = peers.tables(clear)
    assert [row[0] for row in rows] == ["solid", "gpboost"]
    assert rows[0][1].startswith("0.55 (")


def test_folds_are_judged_as_one_data_set_and_only_where_all_models_answered():
    rng = np.random.default_rng(0)

    def asked(readings):  # of one fold: what was read in two weeks, and quantiles of it
        truth = rng.gamma(2.0, 5.0, readings)
        week = np.arange(readings) % 2
        law = np.sort(rng.gamma(2.0, 5.0, (len(peers.levels()), readings)), axis=0)
        return truth, week, law

    def contest_of(truth, week):
        plain = dict.fromkeys(("record", "frame", "cell", "plan", "cycle", "about", "transform"))
        return contests.Contest(**plain, truth=truth, kind=np.full(len(truth), "never read"), group=week)

    def result(fold, model, part):
        spent = {"training_seconds": 50.0 + fold, "cpu_seconds": 80.0, "units": "ug/m3"}
        return {"cell": {"contest": f"germany {fold}"}, "laws": {model: part}, **spent}

    folds = [asked(30), asked(50), asked(40)]
    parts = [peers.judged(contest_of(truth, week), law) for truth, week, law in folds]
    results = [result(fold, "solid", part) for fold, part in enumerate(parts, 1)]
    results += [result(fold, "gpboost", part) for fold, part in enumerate(parts[:2], 1)]
    ((title, kind), laws), *others = peers.contests(results).items()
    assert not others
    assert title.startswith("germany, 2 of 10")  # gpboost has not answered the third
    truth, week, law = (np.concatenate(each, -1) for each in zip(*folds[:2], strict=True))
    whole = peers.judged(contest_of(truth, week), law)[kind]
    for found in laws.values():
        assert found.training_seconds == 51.5
        for name, value in whole.items():
            assert np.allclose(found.part[name], value), name
    assert laws["solid"].part.keys() == whole.keys()
