"""Benches on real data: every mode runs, finished runs are used again, scores are those of the readings."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from airfiles import write_airdelhi, write_era5, write_kolkata
from solidfield.cli import app
from solidfield.disk import read_json
from solidfield.errors import SolidError
from solidfield.experiments.bench.airdelhi import MODES, airdelhi_cells
from solidfield.experiments.bench.brief import tables
from solidfield.experiments.bench.era5 import era5_cells
from solidfield.experiments.bench.kolkata import kolkata_cells
from solidfield.experiments.cell import Place
from solidfield.experiments.datasets.airdelhi import larger_part, read_airdelhi
from solidfield.experiments.schemes import scheme
from solidfield.experiments.store import rounded

SIMPLE = "kriging,climatology,persistence,nearest"


@pytest.fixture(scope="module")
def delhi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delhi")
    write_airdelhi(folder)
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_targets_of_a_mode_are_the_letters_it_asks_for(delhi, tmp_path, mode):
    store, frames = airdelhi_cells(mode)[0].pairs(delhi, tmp_path / "pairs.zarr"), read_airdelhi(delhi)
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
    (cell,) = airdelhi_cells("AB->CD", SIMPLE, seeds=1, members=20)
    found = cell.measure(Place(tmp_path, delhi))
    run = tmp_path / "airdelhi" / "AB-CD-21x20" / "kriging-8min-seed0" / "run.json"
    stamp = run.stat().st_mtime_ns
    assert rounded(cell.measure(Place(tmp_path, delhi))) == rounded(found)
    assert run.stat().st_mtime_ns == stamp
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
    json.dumps(rounded(found), allow_nan=False)


def test_kolkata_holds_days_and_sensors_out(tmp_path):
    write_kolkata(tmp_path / "data", days=21)
    cells = kolkata_cells(SIMPLE, members=20, scenes=4)
    assert [cell.part for cell in cells] == ["held-out days", "held-out sensors"]
    place = Place(tmp_path / "work", tmp_path / "data")
    results = [cell.measure(place) | {"cell": cell.as_dict()} for cell in cells]
    days, sensors = (result["leads"] for result in results)
    assert [lead["lead"] for lead in days] == [0, 1]
    assert {"all", "seen", "unseen"} <= set(days[1]["models"]["kriging"]["regions"])
    assert "held_sensors" in sensors[1]["models"]["kriging"]["regions"]
    assert list(sensors[1]["models"]) == ["kriging"]
    gap = days[1]["difference"]["persistence"]["all"]["mean"]
    own, other = (days[1]["models"][name]["regions"]["all"]["crps"]["mean"] for name in ("kriging", "persistence"))
    assert gap == pytest.approx(own - other, abs=1e-3 * other)
    assert len(tables(results)) == 9  # models and distances of two leads of two parts, and six steps of the first
    rolled = results[0]["rolled"]["steps"]
    assert [at_step["ahead"] for at_step in rolled] == ["1 hour ahead", *(f"{n} hours ahead" for n in range(2, 7))]
    assert set(rolled[5]["models"]) == set(SIMPLE.split(",")) - {"nearest"}


def test_the_judge_of_era5_scores_every_cell(tmp_path):
    field = write_era5(tmp_path / "data")
    (cell,) = era5_cells("climatology,nearest", 0.05, members=20)
    now, later = cell.measure(Place(tmp_path / "work", tmp_path / "data"))["leads"]
    regions = now["models"]["nearest"]["regions"]
    assert regions["grid"]["readings"] == now["scenes"] * field[0].size
    assert regions["sensors"]["crps"]["mean"] == pytest.approx(0, abs=1e-4)  # a sensor knows its own cell
    assert later["models"]["nearest"]["regions"]["sensors"]["crps"]["mean"] > 0.01
    whole, apart = regions["grid"], [regions["unobserved"], regions["sensors"]]
    pooled = np.average([one["crps"]["mean"] for one in apart], weights=[one["readings"] for one in apart])
    assert whole["crps"]["mean"] == pytest.approx(pooled, rel=1e-3)


def test_seeds_and_parts_make_cells_that_train_what_is_not_in_closed_form():
    cells = kolkata_cells("solid,unet,kriging", minutes=1.0, seeds=2, ablate=True)
    assert [cell.seed for cell in cells] == [0, 1] * 4
    assert cells[0].contestants == ["solid", "unet"]
    assert cells[0].rivals == ["kriging"]
    assert cells[2].models == ("solid", "kriging")  # at held-out sensors
    assert scheme("unet").options == {"mask_channel": True}
    with pytest.raises(SolidError, match="unknown model"):
        era5_cells("unett")
    with pytest.raises(SolidError, match="0 seeds"):
        era5_cells(seeds=0)


def test_the_command_stores_what_it_prints(delhi, tmp_path):
    words = ["bench", "airdelhi", "--data", str(delhi), "--mode", "C-D", "--models", "climatology,nearest"]
    words += ["--seeds", "1", "--jobs", "1", "--members", "20", "--box", "4x5"]
    words += ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    (printed,) = json.loads(done.stdout)["results"]
    sheet = read_json(tmp_path / "results" / "adb-airdelhi-c-d.json")
    assert printed == read_json(tmp_path / "results" / f"{sheet['cells'][0]}.json")
    assert printed["cell"]["box"] == [4, 5]
    assert "C-D" in CliRunner().invoke(app, words, catch_exceptions=False).stdout


def test_a_wrong_mode_or_window_is_named(delhi):
    with pytest.raises(SolidError, match="no mode 'AB-C'"):
        airdelhi_cells("AB-C")
    words = ["bench", "airdelhi", "--data", str(delhi), "--box", "21by20"]
    with pytest.raises(SolidError, match="21x20"):
        CliRunner().invoke(app, words, catch_exceptions=False)
