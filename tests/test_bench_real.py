"""Benches on real data: every mode runs, finished runs are used again, scores are those of the readings."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from airfiles import write_airdelhi, write_era5, write_kolkata
from solidfield.cli import app
from solidfield.errors import SolidError
from solidfield.experiments.bench.airdelhi import MODES, airdelhi_pairs, run_airdelhi
from solidfield.experiments.bench.era5 import run_era5
from solidfield.experiments.bench.kolkata import run_kolkata
from solidfield.experiments.bench.page import tables
from solidfield.experiments.bench.real import plan, real_scheme
from solidfield.experiments.datasets.airdelhi import larger_part, read_airdelhi

SIMPLE = ("kriging", "climatology", "persistence", "nearest")


@pytest.fixture(scope="module")
def delhi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delhi")
    write_airdelhi(folder)
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_targets_of_a_mode_are_the_letters_it_asks_for(delhi, tmp_path, mode):
    store, frames = airdelhi_pairs(delhi, tmp_path / "pairs.zarr", mode), read_airdelhi(delhi)
    larger, read = larger_part(frames), np.isfinite(frames.values[:, 0])
    for example in store.split("test"):
        source, target = (store.readings_of(side, [example])[1] for side in ("source", "target"))
        t, o = (int(store.columns[f"frame_{side}"][example]) for side in ("source", "target"))
        letters = (read, read) if mode == "AB-CD" else (larger, read & ~larger)
        assert o - t == (mode == "AB-CD")
        assert source.tolist() == np.flatnonzero(letters[0][t]).tolist()
        assert target.tolist() == np.flatnonzero(letters[1][o]).tolist()
    days = {str(day) for day in store.columns["time_target"][store.split("test")].astype("M8[s]").astype("M8[D]")}
    assert days == {"2020-11-16", "2020-11-21"}


def test_a_bench_is_resumed_and_its_days_make_up_the_whole(delhi, tmp_path):
    def bench():
        return run_airdelhi(delhi, tmp_path, "AB->CD", SIMPLE, seeds=1, members=20, jobs=1)

    result = bench()
    stamp = (tmp_path / "airdelhi" / "AB-CD-21x20" / "kriging-0" / "run.json").stat().st_mtime_ns
    assert bench() == result
    assert (tmp_path / "airdelhi" / "AB-CD-21x20" / "kriging-0" / "run.json").stat().st_mtime_ns == stamp
    found = result["parts"]["AB-CD"]["found"][0]
    assert [lead["lead"] for lead in found["leads"]] == [1]
    models = found["leads"][0]["models"]
    assert list(models) == ["kriging", "climatology", "persistence"]  # nearest is persistence's map at lead 0
    for name, days in found["by_day"].items():
        readings = np.array([day["readings"] for day in days.values()])
        whole = models[name]["regions"]["all"]
        assert readings.sum() == whole["readings"]
        for what, total in (("crps", whole["crps"]["mean"]), ("mae", whole["mae"]["mean"])):
            assert np.average([day[what] for day in days.values()], weights=readings) == pytest.approx(total, rel=1e-3)
        squares = np.average([day["rmse"] ** 2 for day in days.values()], weights=readings)
        assert np.sqrt(squares) == pytest.approx(whole["rmse"], rel=1e-3)
    assert models["persistence"]["regions"]["all"]["coverage"] is None
    json.dumps(result, allow_nan=False)


def test_kolkata_holds_days_and_sensors_out(tmp_path):
    write_kolkata(tmp_path / "data", days=21)
    result = run_kolkata(tmp_path / "data", tmp_path / "work", SIMPLE, members=20, scenes=4, jobs=1)
    assert list(result["parts"]) == ["held-out days", "held-out sensors"]
    days, sensors = (result["parts"][part]["found"][0]["leads"] for part in result["parts"])
    assert [lead["lead"] for lead in days] == [0, 1]
    assert {"all", "seen", "unseen"} <= set(days[1]["models"]["kriging"]["regions"])
    assert "held_sensors" in sensors[1]["models"]["kriging"]["regions"]
    assert list(sensors[1]["models"]) == ["kriging"]
    gap = days[1]["difference"]["persistence"]["all"]["mean"]
    own, other = (days[1]["models"][name]["regions"]["all"]["crps"]["mean"] for name in ("kriging", "persistence"))
    assert gap == pytest.approx(own - other, abs=1e-3 * other)
    assert len(tables(result)) == 9  # models and distances of two leads of two parts, and six steps of the first
    rolled = result["parts"]["held-out days"]["found"][0]["rolled"]["steps"]
    assert [at_step["ahead"] for at_step in rolled] == ["1 hour ahead", *(f"{n} hours ahead" for n in range(2, 7))]
    assert set(rolled[5]["models"]) == set(SIMPLE) - {"nearest"}


def test_the_judge_of_era5_scores_every_cell(tmp_path):
    field = write_era5(tmp_path / "data")
    result = run_era5(tmp_path / "data", tmp_path / "work", ("climatology", "nearest"), 0.05, members=20, jobs=1)
    now, later = result["parts"]["full grid"]["found"][0]["leads"]
    regions = now["models"]["nearest"]["regions"]
    assert regions["grid"]["readings"] == now["scenes"] * field[0].size
    assert regions["sensors"]["crps"]["mean"] == pytest.approx(0, abs=1e-4)  # a sensor knows its own cell
    assert later["models"]["nearest"]["regions"]["sensors"]["crps"]["mean"] > 0.01
    whole, apart = regions["grid"], [regions["unobserved"], regions["sensors"]]
    pooled = np.average([one["crps"]["mean"] for one in apart], weights=[one["readings"] for one in apart])
    assert whole["crps"]["mean"] == pytest.approx(pooled, rel=1e-3)


def test_seeds_and_models_make_tasks(tmp_path):
    tasks = plan("days", tmp_path, tmp_path, ("solid", "unet", "kriging"), 1.0, 2)
    assert [(task.scheme.name, task.seed) for task in tasks] == [("solid", 0), ("unet", 0), ("solid", 1), ("unet", 1)]
    assert real_scheme("unet").options == {"mask_channel": True}
    with pytest.raises(SolidError, match="unknown model"):
        plan("days", tmp_path, tmp_path, ("unett",), 1.0, 1)
    with pytest.raises(SolidError, match="0 seeds"):
        plan("days", tmp_path, tmp_path, ("solid",), 1.0, 0)


def test_the_command_stores_what_it_prints(delhi, tmp_path):
    out = tmp_path / "adb.json"
    words = ["bench", "airdelhi", "--data", str(delhi), "--mode", "C-D", "--models", "climatology,nearest", "--seeds"]
    words += [
        "1",
        "--jobs",
        "1",
        "--members",
        "20",
        "--box",
        "4x5",
        "--work",
        str(tmp_path / "work"),
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    stored = json.loads(out.read_text())["result"]
    assert json.loads(done.stdout) == stored
    assert stored["box"] == [4, 5]
    assert "C-D" in CliRunner().invoke(app, words, catch_exceptions=False).stdout


def test_a_wrong_mode_or_window_is_named(delhi, tmp_path):
    with pytest.raises(SolidError, match="no mode 'AB-C'"):
        run_airdelhi(delhi, tmp_path, "AB-C")
    words = ["bench", "airdelhi", "--data", str(delhi), "--box", "21by20"]
    with pytest.raises(SolidError, match="21x20"):
        CliRunner().invoke(app, words, catch_exceptions=False)
