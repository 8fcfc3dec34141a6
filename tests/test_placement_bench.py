"""The bench of candidates: choices by measurement, sensors' own errors, and a `test` that no choice can see."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from solidfield.experiments.bench import placement as bench
from solidfield.experiments.cell import Place
from solidfield.experiments.datasets.placement import read_pool
from solidfield.placement.trial import choose_by, own_errors

DATA = Path(__file__).parents[2] / "shared" / "data"


def test_exchanges_find_what_greedy_steps_miss():
    """Two halves of a pair are worth nothing alone: the third is taken first, and given up for the pair."""
    worth = {(0, 1): 5.0, (0, 2): 2.0, (1, 2): 2.0}

    def score(chosen: tuple[int, ...]) -> float:
        alone = {(): 0.0, (0,): 0.0, (1,): 0.0, (2,): 2.0}
        return -(alone[chosen] if len(chosen) < 2 else worth[chosen])

    assert sorted(choose_by(score, 3, 2)) == [0, 1]
    values = np.random.default_rng(0).random(7)

    def added(chosen: tuple[int, ...]) -> float:
        return -float(values[list(chosen)].sum())

    best = min(combinations(range(7), 3), key=added)
    assert tuple(sorted(choose_by(added, 7, 3))) == best


def test_the_own_error_of_a_sensor_is_found():
    """Readings drawn with one poor sensor among six: its error stands out, the others' are found as they are."""
    generator = np.random.default_rng(0)
    x = np.arange(6.0)
    k = np.exp(-np.abs(x[:, None] - x) / 5)
    true = np.array([0.05, 0.05, 0.6, 0.05, 0.05, 0.05])
    root = np.linalg.cholesky(k)
    draws = (root @ generator.normal(size=(6, 2000))).T + np.sqrt(true) * generator.normal(size=(2000, 6))
    found = own_errors([(k, one, np.arange(6)) for one in draws], 6, 0.1)
    np.testing.assert_allclose(found, true, rtol=0.1, atol=0.03)


def write_files(folder: Path) -> None:
    """Seven sensors and a bus, in the layout of the kk1 files; the third of the pool is off by far."""
    generator = np.random.default_rng(0)
    times = pd.date_range("2023-03-28", periods=60, freq="h")
    wave = 60 + 20 * np.sin(np.arange(60) / 4)
    at = {"init": [(22.50, 88.35)], "pool": [(22.51 + 0.01 * n, 88.36) for n in range(6)]}
    at |= {"valid": [(22.52, 88.37), (22.55, 88.35)], "test": [(22.53, 88.37)]}
    for name, where in at.items():
        parts = []
        for number, (lat, lon) in enumerate(where):
            value = wave + generator.normal(0, 1, 60) + 40 * (name == "pool" and number == 2)
            hour = {"hour": times.hour, "month": times.month, "time": times}
            parts.append(pd.DataFrame({"lat": lat, "lon": lon, **hour, "value": value}))
        pd.concat(parts).to_csv(folder / f"kk1_{name}.csv", index=False)


def test_no_choice_sees_what_judges(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    write_files(tmp_path)
    monkeypatch.setattr(bench, "TRIED", 2)
    monkeypatch.setattr(bench, "joint_laws", lambda pool, seed: {})  # a fit of its own, tested elsewhere
    cell = bench.PlacementCell(sets=4, trees=3)
    found = cell.measure(Place(tmp_path, tmp_path))
    test = pd.read_csv(tmp_path / "kk1_test.csv")
    test.assign(value=1e6 - test["value"]).to_csv(tmp_path / "kk1_test.csv", index=False)
    again = cell.measure(Place(tmp_path, tmp_path))
    assert found["ways"]["trial"]["chosen"] == again["ways"]["trial"]["chosen"]
    assert found["ways"]["trial"]["rmse"] != again["ways"]["trial"]["rmse"]
    assert [22.53, 88.36] not in np.round(found["ways"]["trial"]["chosen"], 2).tolist()  # the one that is off
    assert found["ways"]["trial"]["rmse"] < found["random"]["mean"]
    rows = bench.tables([found])[0][1]
    assert rows[0][1] == f"{found['ways']['trial']['rmse']:.2f}"


@pytest.mark.skipif(not (DATA / "placement").is_dir(), reason="the files of candidates are not beside the repository")
def test_the_files_are_those_of_the_protocol():
    pool = read_pool(DATA)
    assert len(pool.places) == 13
    assert len(np.unique(pool.init.lat)) == 1
    assert len(pool.trained_on(())) == len(pool.init)
    assert len(pool.trained_on(tuple(range(13)))) == len(pool.init) + len(pool.pool)
