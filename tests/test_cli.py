"""The command line as a user meets it: the whole way at smoke size, and one-line errors that name the culprit."""

import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr

import solidfield
from shared import shows_something, solid
from solidfield import cli
from solidfield.errors import SolidError
from solidfield.models import MODELS
from solidfield.prediction.maps import open_maps
from solidfield.run import load
from solidfield.scores.table import ScoreTable

MODEL = ("--set", "model.name=solid", "--set", "model.options={size = 'smoke'}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """simulate, observe, train, predict, evaluate at smoke size, once."""
    at = tmp_path_factory.mktemp("way")
    solid("simulate", at / "truth.zarr", "--preset", "smoke")
    solid("observe", at / "truth.zarr", at / "pairs.zarr", "--preset", "smoke", "--lead", 0, "--lead", 1)
    solid("train", at / "pairs.zarr", at / "run", "--preset", "smoke", *MODEL)
    words = ("--preset", "smoke", "--lead", 1, "--members", 5, "--steps", 2)
    solid("predict", at / "run", at / "pairs.zarr", at / "maps.nc", *words)
    out = solid("evaluate", at / "maps.nc", at / "pairs.zarr", at / "scores", "--truth", at / "truth.zarr")
    (at / "table.txt").write_text(out)
    return at


def test_the_whole_way_ends_in_scores_a_table_and_pictures(folder):
    table = ScoreTable.from_json(json.loads((folder / "scores" / "scores.json").read_text()))
    assert [lead.lead for lead in table.leads] == [1, 2]
    assert table.models(1) == ["solid", "kriging", "persistence", "climatology"]
    assert table.models(2, rolled=True) == ["solid"]  # rivals are fitted for the first lead only
    for name in table.models(1):
        assert name in (folder / "table.txt").read_text()
    for picture in ("maps.png", "calibration.png"):
        assert (folder / "scores" / picture).read_bytes()[:4] == b"\x89PNG"


def test_the_printed_score_is_that_of_the_maps(folder):
    """CRPS in the table, recomputed by brute force from the file of maps and the truth."""
    maps = open_maps(folder / "maps.nc")
    truth = xr.open_zarr(folder / "truth.zarr", consolidated=False)["truth"].values
    field = truth[maps["trajectory"], maps["frame_target"], 0]
    members = maps["vorticity"].values[:, :, 0].astype(float)
    K = len(members)
    pairs = np.abs(members[:, None] - members[None]).sum((0, 1)) / (2 * K * (K - 1))
    each = np.abs(members - field).mean(0) - pairs
    free = maps["observed"].values == 0
    expected = np.mean([each[n][free[n]].mean() for n in range(len(each))])
    table = ScoreTable.from_json(json.loads((folder / "scores" / "scores.json").read_text()))
    found = table.one(model="solid", lead=1, region="unobserved")
    assert found["crps"].mean == pytest.approx(expected, rel=1e-4)
    assert f"{found.scaled('crps').mean:.3g} (" in (folder / "table.txt").read_text()


def test_axes_of_a_file_of_maps_grow_although_scenes_begin_together(folder):
    """CF's law of coordinate variables; opened again, scenes stand along the time of their readings."""
    with xr.open_dataset(folder / "maps.nc", decode_timedelta=True) as file:
        for name in set(file.dims) & set(file.coords):
            assert (np.diff(file[name].values) > 0).all(), name
        starts = file["init_time"].values
    assert len(np.unique(starts)) < len(starts)
    np.testing.assert_array_equal(open_maps(folder / "maps.nc").indexes["init_time"], starts)


def test_maps_hold_what_the_interface_promises(folder):
    maps = open_maps(folder / "maps.nc")
    assert maps["vorticity"].dims == ("member", "init_time", "lead_time", "y", "x")
    np.testing.assert_allclose(maps["valid_time"], maps["init_time"] + maps["lead_time"])
    np.testing.assert_allclose(maps["lead_time"], [0.4, 0.8])  # every second frame, 0.2 apart
    np.testing.assert_allclose(maps["vorticity_mean"], maps["vorticity"].mean("member"), atol=1e-4)
    np.testing.assert_allclose(maps["vorticity_std"], maps["vorticity"].std("member", ddof=1), rtol=1e-3)
    np.testing.assert_allclose(maps["vorticity_q50"], maps["vorticity"].median("member"), atol=1e-4)
    np.testing.assert_array_equal(maps["distance_to_sensor"] == 0, maps["observed"] == 1)
    for name in ("config_hash", "data_fingerprint", "solidfield_version", "seed", "leaks_dense_truth"):
        assert name in maps.attrs
    assert maps.attrs["model_label"] == json.loads((folder / "run" / "run.json").read_text())["label"] == "solid"
    assert json.loads(maps.attrs["model_options"])["size"] == "smoke"


def test_the_python_interface_draws_the_same_law(folder):
    """`load(run).reconstruct(frames)` pins readings; `forecast` gives the same members twice for a seed."""
    run = load(folder / "run")
    generator = np.random.default_rng(0)
    frames = np.where(generator.random((2, 16, 16)) < 0.2, 3 * generator.standard_normal((2, 16, 16)), np.nan)
    now = run.reconstruct(frames, members=3)
    seen = ~np.isnan(frames)
    for member in now["vorticity"].values[:, :, 0]:
        np.testing.assert_allclose(member[seen], frames[seen], atol=1e-4)
    a, b = (run.forecast(frames, members=3, steps=2, seed=4) for _ in range(2))
    np.testing.assert_array_equal(a["vorticity"], b["vorticity"])
    assert a.sizes["lead_time"] == 2
    with pytest.raises(SolidError, match="frame 1 holds no reading"):
        run.forecast(np.stack([frames[0], np.full((16, 16), np.nan)]))
    with pytest.raises(SolidError, match=r"\(time, 1, 16, 16\)"):
        run.forecast(frames[:, :8])


def test_json_is_for_machines(folder):
    words = ("--preset", "smoke", "--lead", 1, "--members", 2, "--json")
    printed = solid("predict", folder / "run", folder / "pairs.zarr", folder / "again.nc", *words)
    assert json.loads(printed)["members"] == 2


def test_recalibrated_maps_say_so_and_keep_their_median(folder):
    words = (folder / "run", folder / "pairs.zarr")
    options = ("--preset", "smoke", "--lead", 1, "--members", 25)
    solid("predict", *words, folder / "plain.nc", *options)
    solid("predict", *words, folder / "repaired.nc", *options, "--recalibrate")
    plain, repaired = open_maps(folder / "plain.nc"), open_maps(folder / "repaired.nc")
    assert "marginal" in repaired.attrs["recalibrated"]
    assert "recalibrated" not in plain.attrs
    np.testing.assert_allclose(repaired["vorticity_q50"], plain["vorticity_q50"], atol=1e-4)
    assert not np.allclose(repaired["vorticity_std"], plain["vorticity_std"])


def test_a_finished_simulation_is_not_computed_again(folder):
    before = (folder / "truth.zarr" / "zarr.json").stat().st_mtime_ns
    solid("simulate", folder / "truth.zarr", "--preset", "smoke")
    assert (folder / "truth.zarr" / "zarr.json").stat().st_mtime_ns == before


def test_models_lists_every_model_with_its_cost(tmp_path):
    printed = json.loads(solid("models", "--size", "smoke", "--grid", 12, "--out", tmp_path / "m.json", "--json"))
    assert list(printed["costs"]) == list(MODELS)
    assert json.loads((tmp_path / "m.json").read_text())["result"] == printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("observe", "{}/nothing.zarr", "{}/out.zarr"), "nothing.zarr"),
        (("train", "{}/truth.zarr", "{}/out"), "truth.zarr"),
        (("train", "{}/pairs.zarr", "{}/run", "--preset", "smoke", *MODEL), "run"),
        (("train", "{}/pairs.zarr", "{}/new", "--model", "sloid"), "sloid"),
        (("train", "{}/pairs.zarr", "{}/new", "--set", "model.options={depth = 3}"), "depth"),
        (("train", "{}/pairs.zarr", "{}/new", "--set", "train.speed=3"), "train.speed"),
        (("train", "{}/pairs.zarr", "{}/new", "--preset", "smoke", "--oracle"), "oracle"),
        (("observe", "{}/truth.zarr", "{}/out.zarr", "--amount", "0.001"), "0.001"),
        (("predict", "{}/run", "{}/pairs.zarr", "{}/out.txt", "--lead", "1"), "out.txt"),
        (("predict", "{}/run", "{}/pairs.zarr", "{}/out.nc"), "--lead"),
        (("predict", "{}/pairs.zarr", "{}/pairs.zarr", "{}/out.nc", "--lead", "1"), "pairs.zarr"),
        (("evaluate", "{}/nothing.nc", "{}/pairs.zarr", "{}/scores"), "nothing.nc"),
        (("evaluate", "{}/maps.nc", "{}/pairs.zarr", "{}/s", "--rival", "solid"), "solid"),
        (("simulate", "{}/truth.zarr", "--preset", "smoke", "--seed", "5"), "seed"),
    ],
)
def test_a_mistake_is_one_line_with_the_culprit(folder, words, message):
    with pytest.raises(SolidError, match=message) as error:
        solid(*(word.replace("{}", str(folder)) for word in words))
    assert "\n" not in str(error.value)
    assert not (folder / "out.zarr").exists()
    assert not (folder / "out.nc").exists()


def test_help_says_what_each_verb_says_of_itself():
    for name, words in cli.VERBS.items():
        module = import_module(f"solidfield.cli.{name}")
        own = module.app.info.help if hasattr(module, "app") else getattr(module, name).__doc__.split("\n")[0]
        assert own == words, name
    assert all(name in solid("--help") for name in cli.VERBS)


def test_the_version_is_that_of_the_package():
    assert solid("--version").split() == ["solidfield", version("solidfield")] == ["solidfield", solidfield.__version__]


def test_help_and_check_do_not_wait_for_torch(tmp_path):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n2024-01-01T00:00Z,22.5,88.3,40\n")
    grid = ["grid", "t.csv", "--cell", "1km", "--every", "1h", "--out", "f.nc"]
    for words in (["--help"], ["check", "t.csv"], ["check", "t.csv", "--figure", "f.png"], grid):
        unneeded = ("torch",) if "--figure" in words else ("torch", "matplotlib")
        code = f"import sys; from solidfield.cli import app; app({words}, standalone_mode=False); "
        code += f"sys.exit(any(name in sys.modules for name in {unneeded}))"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr[-500:])


def test_main_prints_the_line_and_exits_with_2(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["solid", "evaluate", "no.nc", "no.zarr", "out"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_the_demo_is_the_verbs_one_after_another(tmp_path):
    """The first command of the README: its run and maps are those that `train` and `predict` make of its pairs."""
    demo, quick = tmp_path / "demo", (*MODEL[:-1], "model.options={size = 'smoke', copula = 'independent'}")
    printed = solid("demo", "--out", demo, "--preset", "smoke", *quick)
    solid("train", demo / "pairs.zarr", tmp_path / "run", "--preset", "smoke", *quick)
    assert (tmp_path / "run/weights.safetensors").read_bytes() == (demo / "run/weights.safetensors").read_bytes()
    solid("predict", tmp_path / "run", demo / "pairs.zarr", tmp_path / "maps.nc", "--preset", "smoke")
    assert open_maps(tmp_path / "maps.nc").drop_attrs().equals(open_maps(demo / "maps.nc").drop_attrs())
    for name in ("solid", "kriging", "persistence", "climatology"):
        assert re.search(rf"^{name} +0\.\d+ ", printed, re.MULTILINE), name
    for picture in ("maps.png", "calibration.png"):
        assert shows_something(demo / picture)
