"""A right answer, or one line that names the culprit and the remedy: never another answer without a word."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from city import CENTRE, GRID, HOURS, PLACES, city, city_run
from shared import solid
from solidfield import area_mean, fit, load, read_frames
from solidfield import grid as grid_readings
from solidfield.clock import instant
from solidfield.errors import SolidError


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """readings.csv, and a run of them."""
    folder = tmp_path_factory.mktemp("city")
    city().to_csv(folder / "readings.csv", index=False)
    city_run(folder / "run")
    return folder


def changed(at, **fields):
    """The path of readings whose last row says something else."""
    table = city().astype(object)
    for name, value in fields.items():
        table.loc[len(table) - 1, name] = value
    table.to_csv(at / "changed.csv", index=False)
    return at / "changed.csv"


@pytest.mark.parametrize(
    "stamp",
    [
        "1500-01-01T00:00:00Z",
        "1650-06-01",
        "2263-01-01T00:00:00Z",
        "9999-12-31 23:00",
        "31/12/1600 10:00",
        "9500000000",
    ],
)
@pytest.mark.parametrize("zone", [None, "+05:30", "Europe/Berlin"])
def test_years_that_cannot_be_counted_are_refused_by_row(at, stamp, zone):
    """Nanoseconds in 64 bits end in 2262; beyond, numpy wraps into another century."""
    frames = grid_readings(changed(at, time=stamp), cell="0.01deg", every="1h", timezone=zone)
    assert frames.attrs["rows_refused"] == 1
    assert frames.attrs["rows_read"] == HOURS * len(PLACES) - 1
    assert f"line {HOURS * len(PLACES) + 1}, column 'time' ('{stamp}'" in frames.attrs["notes"]
    assert frames["time"].values.min() == np.datetime64("2024-01-01")


def test_years_of_arrays_are_refused_or_read_right():
    old = pd.DataFrame({"time": np.array(["1500-01-01", "2024-01-01"], "M8[s]"), "lat": 1.0, "lon": 2.0, "pm": 3.0})
    assert grid_readings(old, cell="1km", every="1d").attrs["rows_refused"] == 1
    places = {"lat": [1.0, 1.1], "lon": [2.0, 2.1]}
    for time, why in (("1500-01-01", "1500"), ("NaT", "has no time")):
        times = np.array(["2024-01-01", time], "M8[s]")
        frames = xr.DataArray(np.ones((2, 2, 2)), {"time": times, **places}, ("time", "lat", "lon"), name="pm")
        with pytest.raises(SolidError, match=rf"frame \d .*{why}"):
            fit(frames, "never", preset="smoke")
    with pytest.raises(SolidError, match="must be instants"):
        fit(frames.assign_coords(time=[0, 1]), "never", preset="smoke")


@pytest.mark.parametrize("text", ["1500-01-01", "2300-01-01", "0001-01-01", "99999-01-01"])
def test_an_instant_beyond_the_clock_is_an_error(text):
    with pytest.raises(SolidError, match=text):
        instant(text)


def test_an_hour_that_does_not_exist_is_an_error():
    with pytest.raises(SolidError, match="does not exist or occurs twice in Europe/Berlin"):
        instant("2024-03-31T02:30", "Europe/Berlin")


@pytest.mark.parametrize("value", ["1e30", "-1e20", "inf", "1e39", "1e300"])
def test_a_number_that_no_sensor_reads_is_refused_by_row(at, value):
    """It changes nothing but the count of refusals: the maps are those of the readings without it."""
    run = load(at / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found, expected = (run.forecast(changed(at, pm=text), members=3, at="last") for text in (value, ""))
    assert "1 refused" in found.attrs["notes"]
    assert f"'{float(value):.10g}'" in found.attrs["notes"] or f"'{value}'" in found.attrs["notes"]
    xr.testing.assert_equal(found, expected)


def test_wild_readings_of_frames_and_arrays_are_errors(at):
    run = load(at / "run")
    frames = run.read(at / "readings.csv")
    frames["pm"].values[-1, 0, 0] = 1e20
    with pytest.raises(SolidError, match=r"'pm' holds 1e\+20, more than a million times"):
        run.forecast(frames, at="last")
    with pytest.raises(SolidError, match=r"'pm' holds 1e\+20"):
        fit(frames, at / "never", preset="smoke")
    alone = pd.DataFrame({"time": ["2024-01-08T20:00Z"], "lat": 22.5, "lon": 88.3, "pm": 1e20})  # no other to compare
    with pytest.raises(SolidError, match=r"the usual reading of training"):
        run.forecast(alone)
    frames["pm"].values[-1, 0, 0] = np.inf
    with pytest.raises(SolidError, match="infinite"):
        run.forecast(frames, at="last")
    assert not (at / "never").exists()


def test_the_mask_of_an_array_counts(tmp_path):
    """Hidden fill values are no readings, and numbers with an imaginary part are none at all."""
    import tiny
    from dated import fitted_run

    run = load(fitted_run(tmp_path / "run", tiny.tiny_store(tmp_path / "pairs")).path)
    values = np.full(run.grid.shape, -9999.0)
    hidden = np.ones(run.grid.shape, bool)
    values[2, 3], hidden[2, 3] = 5.0, False
    given = np.where(hidden, np.nan, values)
    xr.testing.assert_equal(run.forecast(np.ma.array(values, mask=hidden), members=3), run.forecast(given, members=3))
    with pytest.raises(SolidError, match="real numbers"):
        run.forecast(given + 1j)


@pytest.mark.parametrize("other", ["pm_count", "pm_spread", "pm_mean", "pm_q05", "domain"])  # pm_error: errors of pm
def test_no_column_takes_the_name_of_another_thing(other, tmp_path):
    """Whatever a second column is called, both variables come out of the maps with their own values."""
    table = city().astype({"lat": float, "lon": float, "pm": float})
    table[other] = 1000 + table["pm"]
    frames = grid_readings(table, cell="0.01deg", every="1h")
    first, second = str(frames.attrs["variables"]).split()
    assert (first, second) == ("pm", f"{other}_2")
    assert f"column '{other}' is called {second}" in frames.attrs["notes"]
    np.testing.assert_allclose(frames[second], 1000 + frames[first], rtol=1e-6)
    assert int(frames["pm_count"].sum()) == len(table)
    run = fit(frames, tmp_path / "run", model="persistence", preset="smoke", leads=(1,))
    maps = run.forecast(frames, members=2, at="last")
    assert set(maps[f"{second}"].dims) == {"member", "init_time", "lead_time", "lat", "lon"}
    np.testing.assert_allclose(maps["pm_mean"], maps["pm"].mean("member"), rtol=1e-5)


def test_names_of_arrays_that_maps_need_are_refused():
    times = np.datetime64("2024-01-01", "ns") + np.arange(4) * np.timedelta64(1, "h")
    places = {"time": times, "lat": [1.0, 1.1], "lon": [2.0, 2.1]}
    frames = xr.Dataset({name: (tuple(places), np.ones((4, 2, 2))) for name in ("pm", "pm_mean")}, places)
    with pytest.raises(SolidError, match="maps hold something else under the name 'pm_mean'"):
        fit(frames, "never", preset="smoke")


@pytest.mark.parametrize(("column", "name"), [("-pm", "pm"), ("../../evil", "evil"), ("a/b", "a_b")])
def test_any_column_can_be_gridded_and_written(column, name, tmp_path):
    city().rename(columns={"pm": column}).to_csv(tmp_path / "readings.csv", index=False)
    solid("grid", tmp_path / "readings.csv", "--out", tmp_path / "frames.nc", *GRID)
    assert read_frames(tmp_path / "frames.nc").attrs["variables"] == name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frames.nc", "readings.csv"]


def test_predict_says_what_became_of_the_rows(at):
    words = ("predict", at / "run", changed(at, lat="50"), "--where", CENTRE, "--members", 3)
    assert "1 outside" in solid(*words)
    assert "1 refused (the first in line" in solid(*words[:2], changed(at, pm="low"), *words[3:])
    told = json.loads(solid(*words[:2], changed(at, pm="low"), *words[3:], "--json"))
    assert "1 refused" in told["notes"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--lead", 5), "--lead 1 --steps 5"),
        (("--lead", 0, "--steps", 3), "has no --steps 3"),
        (("--since", "2024-01-02"), "add --assimilate"),
        (("--assimilate", "--at", "2024-01-02", "--at", "2024-01-03"), "all --at but one"),
        (("--recalibrate",), "cannot be recalibrated by readings at hand"),
        (("--scenes", 3), "does nothing for readings"),
        (("--members", 10**9), "GiB"),
    ],
)
def test_predict_answers_what_was_asked_or_not_at_all(at, words, why):
    with pytest.raises(SolidError, match=why):
        solid("predict", at / "run", at / "readings.csv", "--where", CENTRE, "--members", 3, *words)


def test_frames_of_another_step_are_refused(at):
    frames = grid_readings(at / "readings.csv", cell="0.01deg", every="2h")
    with pytest.raises(SolidError, match="time step of 7200 s"):
        load(at / "run").forecast(frames, at="last")


def box(south, west, north, east):
    return {"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north]]]}


@pytest.mark.parametrize(("east", "share"), [(4.5, 1.0), (9.5, 0.5), (6.5, 5 / 7)])
def test_of_an_area_the_share_on_the_map_is_known(east, share):
    """A box from the western edge of a map of five columns: its share is (5 columns) / (its own width)."""
    cells = {"lat": np.arange(5.0), "lon": np.arange(5.0)}
    maps = xr.Dataset({"pm": (("member", "init_time", "lead_time", *cells), np.ones((2, 1, 1, 5, 5)))}, cells)
    assert area_mean(maps, box(0.5, -0.5, 3.5, east)).attrs["covered"] == pytest.approx(share, abs=0.01)


def test_an_area_off_the_map_is_said_to_be(at):
    (at / "east.geojson").write_text(json.dumps(box(22.5, 88.315, 22.53, 88.415)))  # two of ten columns
    words = ("predict", at / "run", at / "readings.csv", "--area", at / "east.geojson", "--members", 3)
    assert "20 % of east lies on the map" in solid(*words)
    assert json.loads(solid(*words, "--json"))["answers"][0]["covered"] == pytest.approx(0.2, abs=0.01)


def test_json_is_json(capsys):
    from solidfield.cli import show

    show.as_json({"mean": float("nan"), "rows": [np.float32("inf"), 1.5, None]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"mean": None, "rows": [None, 1.5, None]}
