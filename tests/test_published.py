"""Published tables: the protocol gives and judges what it says, and scores are the authors' formulas."""

import numpy as np
import pandas as pd
import pytest
import torch

from airfiles import write_kolkata
from solidfield.errors import SolidError
from solidfield.experiments.bench import germany, kolkata_day
from solidfield.experiments.bench.contests import GERMANY
from solidfield.experiments.datasets.germany import read_germany
from solidfield.experiments.datasets.kolkata import read_kolkata
from solidfield.questions.asking import Hiding, ask


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kolkata")
    write_kolkata(folder)  # four winter days: the fourth is judged
    return kolkata_day.Rows.of(read_kolkata(folder, "Static"))


def test_four_folds_of_four_days_are_given_and_each_row_is_asked_once(rows):
    asked = [rows.asked(4, fold) for fold in range(5)]
    assert np.array_equal(np.sort(np.concatenate(asked)), np.flatnonzero(rows.day == 4))
    for fold in range(5):
        given = rows.given(4, fold)
        assert set(rows.day[given]) == {1, 2, 3, 4}
        assert not np.isin(rows.fold[given], fold).any()
        assert len(given) == pytest.approx(0.8 * (rows.day >= 1).sum(), abs=4)
    hours = rows.hour[rows.day == 4]
    assert (hours.min(), hours.max()) == (72, 95)  # a local day


def test_nothing_of_the_judged_season_trains(rows):
    taught = rows.taught
    assert (taught.split[taught.frames] < 2).all()
    assert len(taught.values) == (rows.day < 1).sum()


def test_the_mean_of_daily_rmse_is_that_of_a_double_loop():
    rng = np.random.default_rng(0)
    members, truth, group = rng.normal(size=(9, 40)), rng.normal(size=40), rng.integers(0, 4, 40)
    brute = [
        np.sqrt(np.mean([(members[:, n].mean() - truth[n]) ** 2 for n in range(40) if group[n] == one]))
        for one in range(4)
    ]
    assert kolkata_day.scores(members, truth, group)["rmse"] == pytest.approx(np.mean(brute))


def test_scores_of_folds_add_up_to_those_of_all_readings():
    rng = np.random.default_rng(1)
    members, truth = rng.normal(size=(99, 50)), rng.normal(size=50)
    folds = [{"solid": germany.sums(members[:, part], truth[part])} for part in (slice(0, 20), slice(20, 50))]
    error = members.mean(0) - truth
    found = germany.pooled(folds, "solid")
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["mae"] == pytest.approx(np.mean(np.abs(error)))
    assert found["readings"] == 50


def test_german_stations_fall_into_ten_folds_and_a_station_left_out_is_not_known(tmp_path):
    rng, days = np.random.default_rng(0), pd.date_range("2005-01-01", periods=40)
    table = pd.DataFrame(
        [(s, 4e5 + 3e4 * s, 5.5e6 + 2e4 * s, day, rng.random()) for s in range(12) for day in days],
        columns=["station", "x", "y", "time", "pm10"],
    )
    table.drop(index=[3, 77]).to_csv(tmp_path / "readings.csv", index=False)
    data = read_germany(tmp_path)
    assert data.values.shape == (40, 12)
    assert np.isfinite(data.values).sum() == 12 * 40 - 2
    assert set(np.flatnonzero(data.split == 1) + 1) == {29, 30, 31}  # the last days of January
    assert sorted(np.bincount(germany.fold_of(69))) == [6, *[7] * 9]
    contests = [contest(tmp_path) for contest in GERMANY.values()]  # of living rivals
    assert sum(len(contest.frame) for contest in contests) == np.isfinite(data.values).sum()
    assert not any(set(contest.cell) & set(contest.record.cells) for contest in contests)
    record = data.record(data.values)
    both = np.array([10, 20]), data.cells[[2, 2]], np.full(2, -4), np.full(2, 4)
    questions = ask(record, *both, Hiding.unread(2), "test", torch.Generator())
    assert not (questions.known & questions.own).any()
    assert int(questions.known.sum()) == 2 * 9 * 11
    near = table.assign(x=4e5, y=5.5e6)
    near.to_csv(tmp_path / "readings.csv", index=False)
    with pytest.raises(SolidError, match="two stations"):
        read_germany(tmp_path)


def test_tables_show_the_published_rows_with_how_they_are_known():
    part = germany.sums(np.zeros((9, 4)), np.ones(4))
    result = {"cell": {"seed": 0}, "solid": part, "kriging": part}
    _, rows = germany.tables([result])[0]
    assert ("gstat, separable", "6.05", "4.04", "-", "-", "-", "V") in rows
    assert rows[0][:3] == ("solid, sets, seed 0, 1 of 10 folds", "1.00", "1.00")
    day = kolkata_day.scores(np.zeros((9, 4)), np.ones(4), np.arange(4))
    found = dict.fromkeys(("solid", "kriging", "forest"), day)
    result = {"cell": {"kind": "static only", "seed": 0, "every": 1}, **found}
    ((_, rows),) = kolkata_day.tables([result])
    assert rows[-1][:2] == ("mean", "15.80")
