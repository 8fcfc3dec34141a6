"""From a table to a run and its maps: decisions in words, one call, three commands, a tiny CSV."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

from scattered import some_frames
from shared import solid
from solidfield import cli
from solidfield.config import load_config
from solidfield.errors import SolidError
from solidfield.fit import _config, fit, with_reading_error
from solidfield.grid import Grid
from solidfield.pairs.choices import choose_holdout, choose_model, choose_transform
from solidfield.pairs.frames import Frames, as_frames
from solidfield.pairs.pairing import frame_pairs
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import open_pairs
from solidfield.prediction.maps import open_maps
from solidfield.readings.intake import read_frames
from solidfield.readings.layout import Layout, layout_of
from solidfield.run import load

MODEL = ("--model", "climatology", "--preset", "smoke")


def a_table(path, hours=72, seed=0):
    """Twelve sensors that read every hour of local time, rounded to 0.01 degrees, two rows a sensor and hour."""
    generator = np.random.default_rng(seed)
    places = [(22.50 + 0.01 * i, 88.30 + 0.01 * j) for i in range(3) for j in range(4)]
    times = pd.date_range("2023-03-01 00:00", periods=hours, freq="h")
    rows = []
    for n, time in enumerate(times):
        for s, (lat, lon) in enumerate(places):
            if generator.random() < 0.7:
                level = 40 * np.exp(0.3 * np.sin(n / 4) + 0.1 * s + 0.8 * generator.standard_normal())
                rows += [(lat, lon, time.strftime("%Y-%m-%d %H:%M"), round(level * f, 3)) for f in (0.99, 1.01)]
    table = pd.DataFrame(rows, columns=["lat", "long", "time", "pm"])
    table.to_csv(path, index=False)
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table and the run that `solid train` makes of it."""
    at = tmp_path_factory.mktemp("readings")
    a_table(at / "readings.csv")
    words = (
        "--out",
        at / "run",
        "--timezone",
        "Asia/Kolkata",
        "--hold-sensors",
        0.1,
        "--cell",
        "0.01deg",
        "--every",
        "1h",
    )
    (at / "said.txt").write_text(solid("train", at / "readings.csv", *words, *MODEL))
    return at


def test_train_says_what_it_decided_and_keeps_its_pairs(folder):
    said = (folder / "said.txt").read_text()
    assert "pm is modelled by its logarithm" in said
    assert "stretches of 7.1 h are held out" in said
    store = open_pairs(folder / "run" / "pairs.zarr")
    assert store.transforms == ("log",)
    assert store.leads == (0, 1)
    assert store.held["held_sensors"].sum() == 1
    assert store.recipe["timezone"] == "Asia/Kolkata"
    assert store.attributes["scenario"]["holdout"]["timezone"] == "Asia/Kolkata"
    first = np.datetime64(round(store.columns["time_source"].min()), "s")
    assert first == np.datetime64("2023-02-28T18:30")  # midnight in Kolkata
    assert load(folder / "run").info["data"]["fingerprint"] == store.fingerprint


def test_predict_reads_the_table_in_the_runs_own_cells(folder):
    """A part of the area and of the time falls into the same cells; maps, chances and places are consistent."""
    part = pd.read_csv(folder / "readings.csv")
    part[(part["lat"] > 22.505) & (part["time"] > "2023-03-02")].to_csv(folder / "part.csv", index=False)
    area = {"type": "Polygon", "coordinates": [[[88.0, 22.0], [89.0, 22.0], [89.0, 23.0], [88.0, 23.0]]]}
    (folder / "city.geojson").write_text(json.dumps(area))
    words = ("--at", "2023-03-03T08:00", "--timezone", "Asia/Kolkata", "--steps", 3, "--members", 20, "--above", 60)
    asked = ("--where", "22.515,88.317", "--area", folder / "city.geojson")
    out = folder / "maps.nc"
    printed = json.loads(solid("predict", folder / "run", folder / "part.csv", "--out", out, *words, *asked, "--json"))
    maps, run = open_maps(out), load(folder / "run")
    assert maps["pm"].shape == (20, 1, 3, 3, 4)
    np.testing.assert_allclose(maps["lat"], run.grid.y)
    assert maps["valid_time"].values[0, 0] == np.datetime64("2023-03-03T03:30")
    np.testing.assert_allclose(maps["pm_exceedance"].values[0], (maps["pm"].values > 60).mean(0))
    place, city = printed["answers"]
    cos = np.cos(np.deg2rad(maps["lat"].values))[:, None] * np.ones(4)
    means = (maps["pm"].values * cos).sum((-2, -1)) / cos.sum()
    for step in range(3):
        assert city["rows"][step]["mean"] == pytest.approx(means[:, 0, step].mean(), rel=1e-4)
        assert city["rows"][step]["above"]["60"] == pytest.approx((means[:, 0, step] > 60).mean())
    assert place["where"] == "22.515, 88.317"
    frames = run.read(folder / "part.csv", timezone="Asia/Kolkata")
    again = run.forecast(frames, at="2023-03-03T08:00+05:30", steps=3, members=20)
    np.testing.assert_array_equal(again["pm"], maps["pm"])


def test_predict_in_words_reconstructs_and_assimilates(folder):
    words = (folder / "run", folder / "readings.csv", "--timezone", "Asia/Kolkata", "--members", 4)
    text = solid("predict", *words, "--where", "22.51,88.31", "--above", 60, "--at", "2023-03-03T08:00", "--lead", 0)
    assert "2023-03-03 08:00 Asia/Kolkata" in text
    assert "above 60" in text
    walked = solid("predict", *words, "--where", "22.51,88.31", "--assimilate", "--at", "2023-03-03T08:00", "--json")
    assert len(json.loads(walked)["answers"][0]["rows"]) == 24


def test_a_run_reads_as_it_was_trained_and_says_so(tmp_path):
    """Zone, columns, dates and limits need not be given again; what is refused is heard, and stands in the maps."""
    table = a_table(tmp_path / "plain.csv", hours=48)
    table["when"] = pd.to_datetime(table.pop("time")).dt.strftime("%m/%d/%Y %H.%M")
    table.to_csv(tmp_path / "table.csv", index=False)
    options = {"columns": {"time": "when"}, "dates": "%m/%d/%Y %H.%M", "timezone": "+05:30", "drop_above": 90.0}
    options["name"] = "PM2.5"
    grid = {"cell": "0.01deg", "every": "1h", "model": "climatology", "preset": "smoke"}
    run = fit(tmp_path / "table.csv", tmp_path / "run", **options, **grid)
    later = pd.concat([table, table.tail(1).assign(pm="broken")])
    later.to_csv(tmp_path / "later.csv", index=False)
    said = []
    frames = run.read(tmp_path / "later.csv", say=said.append)
    words = "read as in training: timezone +05:30, columns time=when, dates %m/%d/%Y %H.%M, name PM2.5, drop above 90.0"
    assert said[0] == words
    assert "1 refused" in said[-1]
    assert frames["PM2.5"].max() < 90
    assert frames.equals(run.read(tmp_path / "later.csv", **options))
    assert run.read(tmp_path / "later.csv", drop_above=50.0)["PM2.5"].max() < 50  # what is given now counts
    maps = run.forecast(tmp_path / "later.csv", members=2, at="2023-03-02T08:00")
    assert maps.attrs["notes"] == "; ".join(said)
    assert maps["init_time"].values[0] == np.datetime64("2023-03-02T02:30")  # a text is of the run's zone
    heard = solid("predict", tmp_path / "run", tmp_path / "later.csv", "--where", "22.51,88.31", "--members", 2)
    assert all(words in heard for words in said)
    older = {name: part for name, part in run.info.items() if name != "reading"}
    assert replace(run, info=older).reading == {"timezone": "+05:30"}  # all that an older run knows


def test_a_preset_that_is_named_says_how_long_to_train(tmp_path):
    a_table(tmp_path / "readings.csv", hours=48)
    words = ("--cell", "0.01deg", "--every", "1h", "--model", "solid", "--preset", "smoke", "--json")
    words += ("--set", "model.options.copula='independent'")  # whose fit takes longer than the training
    trained = json.loads(solid("train", tmp_path / "readings.csv", "--out", tmp_path / "run", *words))
    assert trained["steps"] == load_config("smoke").train.steps
    again = (tmp_path / "readings.csv", "--out", tmp_path / "fewer", *words, "--set", "train.steps=6", "--resume")
    fewer = json.loads(solid("train", *again[:-1]))
    assert fewer["steps"] == 6
    before = (tmp_path / "fewer" / "weights.safetensors").read_bytes()
    assert json.loads(solid("train", *again)) == fewer  # finished: nothing is trained again
    assert (tmp_path / "fewer" / "weights.safetensors").read_bytes() == before


def test_old_spellings_work_and_say_what_replaces_them(tmp_path):
    table = a_table(tmp_path / "readings.csv", hours=48)
    with pytest.warns(FutureWarning, match="drop_above="):
        old = read_frames(table, cell="0.01deg", every="1h", above=50.0)
    assert old.equals(read_frames(table, cell="0.01deg", every="1h", drop_above=50.0))
    words = ("train", tmp_path / "readings.csv", "--out", tmp_path / "run", "--hold-strangers", 0.2, *MODEL)
    result = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert "--hold-strangers is now --hold-calibration" in result.stderr
    assert open_pairs(tmp_path / "run" / "pairs.zarr").held["calibration_cells"].sum() == 2


def test_fit_takes_what_pandas_and_xarray_hold(tmp_path):
    said = []
    run = fit(
        a_table(tmp_path / "readings.csv", hours=48),
        tmp_path / "run",
        model="climatology",
        preset="smoke",
        cell="0.01deg",
        every="1h",
        say=said.append,
    )
    assert any("logarithm" in words for words in said)
    assert run.grid.shape == (3, 4)
    frames = some_frames()
    gridded = fit(frames["pm"], tmp_path / "gridded", model="climatology", preset="smoke", transform="none")
    assert gridded.grid.shape == (5, 6)
    assert gridded.forecast(frames, members=2, at=frames["time"].values[30]).sizes["lead_time"] == 1
    with pytest.raises(SolidError, match="never written over"):
        fit(frames, tmp_path / "run", model="climatology")


def test_the_grid_is_suggested_where_none_is_given(tmp_path):
    said = []
    a_table(tmp_path / "readings.csv", hours=60)
    frames = read_frames(tmp_path / "readings.csv", say=said.append)
    assert frames.sizes["lat"] == 3
    assert frames.sizes["lon"] == 4
    assert any("as the readings suggest" in words for words in said)


def test_readings_fall_into_the_frames_of_a_run(tmp_path):
    table = a_table(tmp_path / "readings.csv", hours=24)
    whole = read_frames(tmp_path / "readings.csv", cell="0.01deg", every="1h", timezone="+05:30")
    frames = as_frames(whole)
    like = Layout(frames.grid, frames.clock)
    assert like.clock == layout_of(whole).clock
    later = read_frames(table[table["time"] >= "2023-03-01 12:00"], like=like, timezone="+05:30")
    expected = whole["pm"].sel(time=later["time"])
    np.testing.assert_array_equal(later["pm"].values, expected.values)


def test_transforms_and_holdouts_are_chosen_by_the_readings():
    generator = np.random.default_rng(0)
    skewed = np.exp(generator.standard_normal(1000))
    assert choose_transform(skewed)[0] == "log"
    assert choose_transform(np.append(skewed, 0.0))[0] == "none"  # zero has no logarithm
    assert choose_transform(5 + generator.random(1000))[0] == "none"
    for days, hours in ((40, 24.0), (10, 24.0), (5, 12.0)):
        times = np.datetime64("2023-01-01", "ns") + np.arange(24 * days + 1) * np.timedelta64(3600, "s")
        for cells in (5, 60):
            values = np.full((len(times), 1, 8, 10), np.nan, np.float32)
            values.reshape(len(times), 80)[:, :cells] = 1.0
            holdout, reasons = choose_holdout(Frames(values, times, Grid((8, 10)), ("pm",), ("",), 3600.0))
            assert holdout.hours == hours
            assert holdout.calibration == (0.1 if cells == 60 else 0.0)
            assert len(reasons) == (hours < 24) + (cells == 60)
        assert set(holdout.splits(times)) == {"train", "validation", "test"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "{}/readings.csv"), "--out"),
        (("train", "{}/nothing.csv", "--out", "{}/new"), "nothing.csv"),
        (("train", "{}/readings.csv", "--out", "{}/run"), "never written over"),
        (("train", "{}/readings.csv", "--out", "{}/new", "--calendar", "moon", "--cell", "0.01deg"), "moon"),
        (("train", "{}/run/pairs.zarr", "{}/new", "--cell", "1km"), "cell"),
        (("train", "{}/readings.csv", "--out", "{}/new", "--minutes", "0"), "train.minutes"),
        (("train", "{}/readings.csv", "--out", "{}/new", "--minutes", "1", "--steps", "5"), "two budgets"),
        (("train", "{}/part.csv", "--out", "{}/run", "--resume"), "files.part.csv was None in the run"),
        (("train", "{}/readings.csv", "--out", "{}/run", "--resume", "--cell", "1km"), "cell was 0.01deg"),
        (
            ("train", "{}/readings.csv", "--out", "{}/run", "--resume", "--hold-sensors", "0.2"),
            "holdout.sensors was 0.1",
        ),
        (("train", "{}/readings.csv", "--out", "{}/none", "--resume"), "holds no run to resume"),
        (("predict", "{}/run", "{}/readings.csv"), "--out"),
        (("predict", "{}/run", "{}/readings.csv", "--where", "here"), "here"),
        (("predict", "{}/run", "{}/no.csv", "--where", "80,88.3"), "lat 80 is off the map"),  # before all else
        (("predict", "{}/run", "{}/readings.csv", "--out", "{}/a.nc", "--at", "2029-01-01T00:00"), "2028-12-31T18:30"),
        (("predict", "{}/run", "{}/readings.csv", "--out", "{}/a.txt"), "a.txt"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(folder, words, message):
    with pytest.raises(SolidError, match=message) as error:
        solid(*(word.replace("{}", str(folder)) for word in words))
    assert "\n" not in str(error.value)
    for name in ("new/run.json", "a.nc", "a.txt"):
        assert not (folder / name).exists()


def test_maps_hold_no_member_where_none_is_kept(folder):
    words = ("--at", "2023-03-03T08:00", "--timezone", "Asia/Kolkata", "--members", 5, "--no-keep-members")
    solid("predict", folder / "run", folder / "readings.csv", "--out", folder / "brief.nc", *words)
    with xr.open_dataset(folder / "brief.nc") as maps:
        assert "pm" not in maps
        assert "pm_mean" in maps


def test_an_ensemble_drawn_in_shares_is_the_same_ensemble(folder):
    words = ("--at", "2023-03-03T08:00", "--timezone", "Asia/Kolkata", "--members", 10, "--steps", 2)
    for engine in ("here", "processes"):
        out = folder / f"{engine}.nc"
        solid("predict", folder / "run", folder / "readings.csv", "--out", out, "--engine", engine, "--jobs", 2, *words)
    with xr.open_dataset(folder / "here.nc") as here, xr.open_dataset(folder / "processes.nc") as shares:
        assert here.sizes["member"] == 10
        for name in here.data_vars:
            np.testing.assert_allclose(shares[name], here[name], rtol=1e-4, atol=1e-4, err_msg=name)


def test_an_option_that_frames_would_ignore_is_refused(tmp_path):
    frames = some_frames()
    with pytest.raises(SolidError, match="'cell' does nothing"):
        read_frames(frames, cell="1km")


def test_the_error_of_a_cell_reaches_a_model_that_can_use_it(tmp_path):
    """In standard units: what two readings of a cell differ by, at a typical reading; an option of the user stays."""
    frames = some_frames()
    frames.attrs["obs_std"] = 0.2
    store = frame_pairs(frames, tmp_path / "pairs", transform="none")
    std = Scaling.fit(store, store.split("train")).std[0]
    told = with_reading_error(store, load_config("smoke", ('model.name="solid"',)))
    assert told.model.options["obs_std"] == pytest.approx(0.2 / std, rel=1e-3)
    given = load_config("smoke", ('model.name="solid"', "model.options.obs_std=0.5"))
    for config in (given, load_config("smoke", ('model.name="unet"', "model.options={}"))):
        assert with_reading_error(store, config) == config
    logs = Scaling((1.0,), (0.5,), ("log",), (0.0,), (1.0,))
    typical, error = np.exp(1.0), 1e-4
    rise = (np.log(typical + error) - np.log(typical)) / 0.5
    assert logs.standard_error(error) == pytest.approx(rise, rel=1e-3)


def test_a_warmup_that_is_told_must_fit_into_the_steps_and_another_is_made_to(tmp_path):
    with pytest.raises(SolidError, match=r"--set train\.warmup=6"):  # before a file is read
        fit(tmp_path / "nowhere.csv", tmp_path / "run", steps=60, settings=["train.warmup=100"])
    assert not (tmp_path / "run").exists()
    short, long = (_config(None, (), None, steps, None, 0, of_readings=True).train for steps in (60, 400))
    assert (short.steps, short.warmup, long.warmup) == (60, 6, 100)


@pytest.mark.parametrize(
    ("moving", "share", "name"), [(True, 0.3, "solid"), (False, 0.3, "solid-set"), (True, 0.1, "solid-set")]
)
def test_a_picture_is_for_maps_of_which_much_is_read_at_a_time_and_most_at_some_time(moving, share, name):
    rng = np.random.default_rng(0)
    read = (
        rng.random((200, 1, 6, 5))
        if moving
        else np.broadcast_to(np.linspace(0, 1, 30).reshape(1, 1, 6, 5), (200, 1, 6, 5))
    )
    values = np.where(read < share, 1.0, np.nan).astype(np.float32)
    times = np.datetime64("2024-01-01", "ns") + np.arange(200) * np.timedelta64(1, "h")
    chosen, why = choose_model(Frames(values, times, Grid((6, 5)), ("pm",), ("",), 3600.0))
    assert chosen == name
    assert f"model {name}" in why
    assert ("% ever" in why) == (not moving)
