"""Frames of readings: a group-by whatever the chunks; what is dropped is counted; real tables have their counts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import solidfield
from solidfield import cli
from solidfield.clock import span
from solidfield.errors import SolidError
from solidfield.grid import DEGREE
from solidfield.readings import open_frames, save_frames

DATA = Path(__file__).parents[2] / "shared" / "data"
SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
real = pytest.mark.skipif(not DATA.exists(), reason=f"the shared real data is not at {DATA.name}/ beside the project")


def random_frame(seed, n=400, variables=("pm",), days=2):
    generator = np.random.default_rng(seed)
    data = {
        "time": pd.Timestamp("2024-01-30") + pd.to_timedelta(generator.integers(0, days * 86_400, n), unit="s"),
        "lat": 22.5 + generator.random(n) * 0.1,
        "lon": 88.3 + generator.random(n) * 0.12,
    }
    for name in variables:
        data[name] = np.where(generator.random(n) < 0.1, np.nan, 1000 + 10 * generator.standard_normal(n))
    return pd.DataFrame(data)


def grid(frame, cell="0.02deg", every="1h", **options):
    return solidfield.grid(frame, timezone="UTC", cell=cell, every=every, **options)


@SOME
@given(seed=st.integers(0, 10**6), n=st.integers(1, 300), step=st.sampled_from(["30min", "1h", "1d"]))
def test_frames_are_a_group_by(seed, n, step):
    frame = random_frame(seed, n, ("pm", "no2"))
    if frame[["pm", "no2"]].isna().all(axis=1).all():
        return
    frames = grid(frame, "0.02deg", step)
    frame["t"] = frame["time"].dt.floor(step)
    frame["y"], frame["x"] = (np.round(np.round(frame[c] / 0.02) * 0.02, 10) for c in ("lat", "lon"))
    for name in ("pm", "no2"):
        expected = frame.dropna(subset=name).groupby(["t", "y", "x"])[name].agg(["mean", "count", "std"])
        got = frames[[name, f"{name}_count", f"{name}_spread"]].to_dataframe()
        got = got[got[f"{name}_count"] > 0]
        got.index = got.index.set_levels([np.round(level, 10) for level in got.index.levels[1:]], level=[1, 2])
        assert got.index.tolist() == expected.index.tolist()
        np.testing.assert_array_equal(got[f"{name}_count"], expected["count"])
        np.testing.assert_allclose(got[name], expected["mean"], rtol=1e-6)
        np.testing.assert_allclose(got[f"{name}_spread"], expected["std"], rtol=1e-5, atol=1e-9)


@SOME
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(3, 80), min_size=2, max_size=2))
def test_chunks_change_not_a_bit(tmp_path, seed, sizes):
    frame = random_frame(seed, 60, ("pm", "no2"), days=1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    one, *others = (solidfield.grid(tmp_path / "t.csv", cell="1km", every="30min", rows=size) for size in sizes)
    for other in others:
        assert one.identical(other)


def test_equal_readings_have_no_spread_and_few_have_none():
    frame = pd.DataFrame({"time": ["2024-01-01"] * 4, "lat": 1.0, "lon": [2.0, 2.0, 2.0, 3.0], "pm": 0.1 + 1e6})
    frames = grid(frame, "1deg")
    assert frames["pm_spread"].sel(lon=2).item() == 0
    assert np.isnan(frames["pm_spread"].sel(lon=3).item())
    assert frames.attrs["obs_std"] == 0


def test_obs_std_is_the_pooled_error_of_a_mean():
    """Two cells: (1, 3) has variance 2 over 2 readings, (4, 4, 7) has 3 over 3: sqrt((1 + 1) / 2) = 1."""
    frame = pd.DataFrame({"time": "2024-01-01", "lat": 1.0, "lon": [2, 2, 3, 3, 3, 4], "pm": [1, 3, 4, 4, 7, 9.0]})
    assert grid(frame, "1deg").attrs["obs_std"] == pytest.approx(1.0)


def test_errors_of_readings_become_the_error_of_their_mean():
    frame = pd.DataFrame(
        {"time": "2024-01-01", "lat": 1.0, "lon": [2, 2, 3.0], "pm": [1, 3, 4.0], "error": [3, 4, 0.5]}
    )
    frames = grid(frame, "1deg")
    weight = np.array([1 / 9, 1 / 16])  # the mean of least variance, and its standard deviation
    np.testing.assert_allclose(frames["pm"].values.ravel(), [(weight @ [1, 3]) / weight.sum(), 4], rtol=1e-6)
    np.testing.assert_allclose(frames["pm_error"].values.ravel(), [weight.sum() ** -0.5, 0.5], rtol=1e-6)


def test_the_same_instants_in_different_zones_grid_alike(tmp_path):
    utc = pd.date_range("2024-03-30", periods=60, freq="53min", tz="UTC")
    rest = {"lat": 50.0, "lon": 10 + np.arange(60) % 3, "pm": np.arange(60.0)}
    results = []
    for zone, keep_offset in (("UTC", False), ("Asia/Kolkata", False), ("+05:30", True), ("America/New_York", True)):
        local = utc.tz_convert(zone if zone[0] != "+" else "Asia/Kolkata")
        frame = pd.DataFrame({"time": local if keep_offset else local.tz_localize(None), **rest})
        frame.to_csv(tmp_path / "t.csv", index=False)
        frames = solidfield.grid(tmp_path / "t.csv", timezone=zone, cell="1deg", every="30min")
        results.append(frames.drop_attrs(deep=False))
    assert all(results[0].identical(other) for other in results[1:])


def test_both_longitude_conventions_grid_alike():
    frame = random_frame(3)
    frame["lon"] -= 150
    east = frame.assign(lon=frame["lon"] % 360)
    one, other = (grid(f).drop_attrs(deep=False) for f in (frame, east))
    xr.testing.assert_allclose(one, other)
    assert np.array_equal(one["pm_count"], other["pm_count"])


def test_floor_and_round_hold_their_windows():
    times = ["2024-01-01 00:29:59", "2024-01-01 00:30:00", "2024-01-01 00:59:59", "2024-01-01 01:00:00"]
    frame = pd.DataFrame({"time": times, "lat": 1.0, "lon": 2.0, "pm": [1.0, 2, 4, 8]})
    floor = grid(frame, "1deg", "1h")
    rounded = grid(frame, "1deg", "1h", anchor="round")
    assert floor["pm_count"].values.ravel().tolist() == [3, 1]
    assert rounded["pm_count"].values.ravel().tolist() == [1, 3]
    assert list(floor["time"].values) == list(rounded["time"].values)


def test_time_is_regular_but_for_gaps_of_more_than_a_day():
    times = ["2024-01-01 00:30", "2024-01-01 05:30", "2024-01-02 05:30", "2024-01-03 06:30"]
    frames = grid(pd.DataFrame({"time": times, "lat": 1.0, "lon": 2.0, "pm": 1.0}), "1deg", "1h")
    steps = np.diff(frames["time"].values) / np.timedelta64(1, "h")
    assert steps.tolist() == [1] * 29 + [25]
    assert frames["time"].values[0] == np.datetime64("2024-01-01T00:30")  # hourly stamps are kept
    assert int((frames["pm_count"] > 0).sum()) == 4


def test_bounds_are_edges_and_what_lies_outside_is_counted():
    frame = pd.DataFrame({"time": "2024-01-01", "lat": [1.0, 1.1, 1.2, 0.99], "lon": 2.05, "pm": [1.0, 2, 4, 8]})
    frames = grid(frame, "0.1deg", bounds=(1.0, 2.0, 1.2, 2.1))
    np.testing.assert_allclose(frames["lat"], [1.05, 1.15])
    assert frames["pm"].values.ravel().tolist() == [1, 2]
    assert frames.attrs["rows_outside"] == 2
    with pytest.raises(SolidError, match="are empty"):
        grid(frame, "0.1deg", bounds=(2, 2, 1, 3))


@pytest.mark.parametrize("offset", [0.0, 0.05])
def test_coordinates_rounded_to_the_cell_are_centres(offset):
    lat = np.round(22 + offset + 0.1 * np.arange(8), 6)
    frames = grid(pd.DataFrame({"time": "2024-01-01", "lat": lat, "lon": lat + 3, "pm": lat}), "0.1deg")
    np.testing.assert_allclose(frames["lat"], lat, atol=1e-9)
    np.testing.assert_allclose(np.diagonal(frames["pm"].values[0]), lat, rtol=1e-6)


def test_cells_of_a_length_have_that_length():
    frame = random_frame(1).dropna().assign(lat=lambda f: f["lat"] + 37)
    frames = grid(frame, "2km")
    dy, dx = frames.attrs["cell_size"]
    middle = (frame["lat"].min() + frame["lat"].max()) / 2
    assert dy * DEGREE == pytest.approx(2, rel=1e-9)
    assert dx * DEGREE * np.cos(np.radians(middle)) == pytest.approx(2, rel=1e-9)
    assert int(frames["pm_count"].sum()) == frame["pm"].notna().sum()
    meters = frame.assign(y=frame["lat"] * 1e5, x=frame["lon"] * 1e5).drop(columns=["lat", "lon"])
    assert set(grid(meters, "1km").sizes) == {"time", "y", "x"}
    assert grid(meters, "1km").attrs["cell_size"] == [1000, 1000]


def test_limits_drop_what_they_say_and_list_it(tmp_path):
    frame = pd.DataFrame({"time": "2024-01-01", "lat": 1.0, "lon": 2.0, "pm": [-1.0, 0, 5, 400, 401]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = {"drop_above": 400, "drop_below": 0, "positive": True, "refused": tmp_path / "refused.csv"}
    frames = grid(tmp_path / "t.csv", "1deg", **options)
    assert frames["pm_count"].item() == 2
    assert (frames.attrs["rows_outliers"], frames.attrs["rows_read"]) == (3, 5)
    listed = pd.read_csv(tmp_path / "refused.csv")
    assert listed[["row", "reason"]].to_numpy().tolist() == [[6, "above 400"], [2, "below 0"], [3, "not positive"]]
    with pytest.raises(SolidError, match=r"no reading of .* is left: 5 read, 0 outside the grid, 5 beyond"):
        grid(tmp_path / "t.csv", "1deg", drop_above=-2)


def test_the_robust_rule_drops_one_wild_sensor_and_no_hot_spot():
    cells = np.arange(40)
    frame = pd.DataFrame({"time": "2024-01-01", "lat": 1.0 + cells % 5, "lon": 2.0 + cells // 5, "pm": 20 + cells % 7})
    hot = frame.assign(pm=lambda f: f["pm"] + 10 * (cells < 18))  # nearly half of the city
    assert grid(hot, "1deg", outliers="mad:6").attrs["rows_outliers"] == 0
    wild = pd.concat([frame, frame[:1].assign(pm=900.0)])  # a second sensor in a sound one's cell
    frames = grid(wild, "1deg", outliers="mad:6")
    assert frames.attrs["rows_outliers"] == 1
    assert float(frames["pm"].max()) == 26
    few = grid(wild[wild["lon"] == 2], "1deg", outliers="mad:6")
    assert few.attrs["rows_outliers"] == 0  # five cells cannot tell
    with pytest.raises(SolidError, match="no outlier policy 'iqr'"):
        grid(frame, "1deg", outliers="iqr")


def test_a_domain_is_where_readings_count(tmp_path):
    frame = random_frame(5)
    ring = [[88.31, 22.51], [88.39, 22.51], [88.39, 22.57], [88.31, 22.57]]
    frames = grid(frame, "0.01deg", domain={"type": "Polygon", "coordinates": [ring]})
    inside = frames["domain"].values
    assert inside.sum() == 8 * 6 or inside.sum() >= 7 * 5
    assert not frames["pm_count"].values[:, ~inside].any()
    total = int(frames["pm_count"].sum()) + frames.attrs["rows_outside"]
    assert total >= frame["pm"].notna().sum()
    mask = frames["domain"].astype("int8").rename("land")
    mask.to_netcdf(tmp_path / "mask.nc")
    again = grid(frame, "0.01deg", domain=f"{tmp_path / 'mask.nc'}:land", bounds=tuple(frames.attrs["bounds"]))
    np.testing.assert_array_equal(again["domain"], inside)
    np.testing.assert_array_equal(again["pm"], frames["pm"])
    with pytest.raises(SolidError, match="for a domain"):
        grid(frame, "0.01deg", domain=f"{tmp_path / 'mask.nc'}:sea")


def test_new_readings_fall_into_the_cells_and_frames_of_old_ones():
    frame = random_frame(7)
    old = grid(frame, "1km", "30min")
    new = grid(frame[50:60], None, None, like=old)
    assert (new["lat"].values == old["lat"].values).all()
    assert new.attrs["cell_size"] == old.attrs["cell_size"]
    both = new["pm_count"].values > 0
    same = old.sel(time=new["time"])
    assert (same["pm_count"].values[both] >= new["pm_count"].values[both]).all()


def test_a_gridded_array_keeps_its_cells_and_coarser_ones_are_means():
    lat, lon, time = np.arange(50, 52, 0.25)[::-1], np.arange(0, 3, 0.25), pd.date_range("2024", periods=4, freq="6h")
    values = np.random.default_rng(0).random((4, 8, 12))
    values[0, 0, 0] = np.nan
    field = xr.DataArray(values, {"time": time, "lat": lat, "lon": lon}, ("time", "lat", "lon"), name="t2m")
    same = grid(field, None, None)
    np.testing.assert_allclose(same["t2m"], field.sortby("lat"), rtol=1e-6)
    coarse = grid(field, "0.5deg", "6h")
    expected = field.sortby("lat").coarsen(lat=2, lon=2).mean()
    np.testing.assert_allclose(coarse["t2m"], expected, rtol=1e-6)
    np.testing.assert_allclose(coarse["lat"], expected["lat"])


def test_what_makes_no_sense_is_refused_with_what_would():
    frame = random_frame(0)
    for options, words in (
        ({"cell": "5"}, "0.01deg, 1km"),
        ({"cell": "0km"}, "size of a cell"),
        ({"every": "5 parsecs"}, "time step"),
        ({"anchor": "ceil"}, "floor or round"),
        ({"variables": ["ozone"]}, "it has pm"),
    ):
        with pytest.raises(SolidError, match=words):
            grid(frame, **options)
    assert [span(text) for text in ("90s", "30min", "h", "2 days", "0.5h")] == [
        90,
        1800,
        3600,
        172800,
        1800,
    ]


@pytest.mark.parametrize("name", ["frames.nc", "frames.zarr"])
def test_frames_come_back_from_disk(tmp_path, name):
    frames = grid(random_frame(2), domain={"type": "Polygon", "coordinates": [[[88, 22], [89, 22], [88, 23]]]})
    for _ in range(2):  # frames replace frames
        save_frames(frames, tmp_path / name)
    again = open_frames(tmp_path / name)
    xr.testing.assert_equal(frames, again.load())
    assert again["domain"].dtype == bool
    assert again.attrs["rows_read"] == frames.attrs["rows_read"]
    assert again["pm"].attrs["units"] == ""
    again.close()
    (tmp_path / "other.nc").write_text("mine")
    with pytest.raises(SolidError, match="holds no frames; choose another"):
        save_frames(frames, tmp_path / "other.nc")
    with pytest.raises(SolidError, match="or no NetCDF"):
        open_frames(tmp_path / "other.nc")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "other.nc"])


def test_the_command_writes_frames_and_says_what_became_of_the_rows(tmp_path):
    frame = random_frame(4).dropna()
    frame.loc[frame.index[0], "pm"] = 5000
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = [
        "grid",
        tmp_path / "t.csv",
        "--cell",
        "1km",
        "--every",
        "30min",
        "--out",
        tmp_path / "f.nc",
        "--drop-above",
        2000,
    ]
    words += ["--refused", tmp_path / "refused.csv", "--columns", "value=pm", "--bounds", "22.5,88.3,22.6,88.4"]
    result = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert f"{len(frame)} rows read, 0 refused" in result.stdout
    assert "1 dropped" in result.stdout
    assert "taken as UTC" in result.stdout
    frames = open_frames(tmp_path / "f.nc")
    outside = int((frame["lon"] >= 88.4).sum())
    assert frames.attrs["rows_outside"] == pytest.approx(outside, abs=40)  # the last cell ends beyond the bound
    assert len(pd.read_csv(tmp_path / "refused.csv")) == 1
    (tmp_path / "refused.csv").unlink()
    words[words.index("--drop-above")] = "--above"  # as it was spelled once: works, and says what replaces it
    result = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert "--above is now --drop-above" in result.stderr
    assert open_frames(tmp_path / "f.nc").equals(frames)
    with pytest.raises(SolidError, match="one option; give --drop-above"):
        CliRunner().invoke(cli.app, [*map(str, words), "--drop-above", "3"], catch_exceptions=False)


def test_the_verb_and_the_function_make_the_same_frames(tmp_path):
    random_frame(5).dropna().to_csv(tmp_path / "t.csv", index=False)
    words = ["grid", tmp_path / "t.csv", "--out", tmp_path / "f.nc", "--columns", "value=pm", "--timezone", "+05:30"]
    result = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    said = []
    frames = solidfield.grid(tmp_path / "t.csv", columns={"value": "pm"}, timezone="+05:30", say=said.append)
    assert frames.equals(open_frames(tmp_path / "f.nc"))
    assert frames.attrs["notes"] == "; ".join(said) == open_frames(tmp_path / "f.nc").attrs["notes"]
    assert all(words in result.stdout for words in said)
    assert "as the readings suggest" in said[0]


@real
def test_kolkata_has_its_known_counts():
    files = sorted((DATA / "kolkata").glob("*tic_*.csv")) + sorted((DATA / "kolkata").glob("Mob*.csv"))
    frames = solidfield.grid(files, timezone="+05:30", cell="0.01deg", every="1h")
    count = frames["pm_count"].values
    assert count.shape[1:] == (19, 18)
    assert frames.attrs["rows_read"] == count.sum() == 104_447
    assert (count.sum((1, 2)) > 0).sum() == 3255
    assert (count.sum(0) > 0).sum() == 144
    assert (count - 1).clip(0).sum() == 6647
    assert frames["time"].values[0] == np.datetime64("2023-03-27T18:30")  # local midnight, as stamped
    assert set(np.round(frames["lat"].values, 2)) == set(frames["lat"].values)


@real
def test_era5_keeps_its_field():
    path = DATA / "era5" / "era5-t2m-uk-2019-03.nc"
    frames = solidfield.grid(path)
    with xr.open_dataset(path) as truth:
        np.testing.assert_array_equal(frames["t2m"].values, truth["t2m"].values.astype(np.float32))
    assert frames["t2m"].attrs["units"] == "K"
