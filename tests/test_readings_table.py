"""Readings come out of every kind of file as they went in, and every doubt is said."""

import gzip
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solidfield.errors import SolidError
from solidfield.readings import open_table
from solidfield.readings.names import split_units

SOME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

INDIA = timezone(timedelta(hours=5, minutes=30))
CLOCKS = {  # how a time may be written, as local time at +05:30
    "iso": lambda t: t.strftime("%Y-%m-%d %H:%M:%S"),
    "iso-T": lambda t: t.strftime("%Y-%m-%dT%H:%M"),
    "offset": lambda t: t.isoformat(),
    "zulu": lambda t: t.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "epoch": lambda t: str(int(t.timestamp())),
    "epoch-ms": lambda t: str(1000 * int(t.timestamp())),
    "month first": lambda t: f"{t.month}/{t.day}/{t.year} {t.hour}:{t.minute:02d}:{t.second:02d}",
    "day first": lambda t: t.strftime("%d.%m.%Y %H:%M:%S"),
    "half days": lambda t: t.strftime("%m/%d/%Y %I:%M:%S %p"),
    "digits": lambda t: t.strftime("%Y%m%d%H%M%S"),
}
NAMES = {
    "time": ["time", "Timestamp", "dateTime", "valid_time", "Date Time"],
    "y": ["lat", "Latitude", "LAT"],
    "x": ["lon", "long", "lng", "longitude [degrees]"],
    "value": ["pm2_5 [ug/m3]", "temp (degC)", "value", "PM10"],
    "sensor": ["sensor", "deviceId", "station_id", "id"],
}


@st.composite
def tables(draw):
    """Rows, and a CSV text of them in some dialect."""
    n = draw(st.integers(1, 12))
    seconds = draw(st.lists(st.integers(0, 900_000_000), min_size=n, max_size=n))
    clock = draw(st.sampled_from(sorted(CLOCKS)))
    start = datetime(2001, 1, 13, 4, tzinfo=INDIA)
    times = [start, *(start + timedelta(seconds=60 * (s // 60) if clock == "iso-T" else s) for s in seconds[1:])]
    numbers = st.floats(-89, 89).map(lambda v: round(v, 4))
    y, x, value = (draw(st.lists(numbers, min_size=n, max_size=n)) for _ in range(3))
    sensors = draw(st.lists(st.sampled_from(["S1", "bus 7", "07", "Ünit"]), min_size=n, max_size=n))
    names = {role: draw(st.sampled_from(options)) for role, options in NAMES.items()}
    order = draw(st.permutations(sorted(names)))
    separator, decimal = draw(st.sampled_from([(",", "."), (";", "."), ("\t", "."), ("|", "."), (";", ",")]))
    quote = draw(st.booleans())

    def field(text):
        return f'"{text}"' if quote else str(text)

    def number(value):
        return repr(value).replace(".", decimal)

    lines = [separator.join(field(names[role]) for role in order)]
    for i in range(n):
        cells = {"time": CLOCKS[clock](times[i]), "y": number(y[i]), "x": number(x[i]), "value": number(value[i])}
        cells["sensor"] = sensors[i]
        lines.append(separator.join(field(cells[role]) for role in order))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(lines) + draw(st.sampled_from(["", end]))
    content = text.encode("latin-1" if draw(st.booleans()) else draw(st.sampled_from(["utf-8", "utf-8-sig"])))
    instants = np.array([np.datetime64(t.astimezone(UTC).replace(tzinfo=None), "ns") for t in times])
    return content, instants, y, x, value, sensors, names


def rows_of(table, rows=262_144):
    chunks = list(table.chunks(rows))
    assert all(len(part) <= rows for part, _ in chunks)
    join = {name: np.concatenate([getattr(part, name) for part, _ in chunks]) for name in ("row", "time", "y", "x")}
    join["values"] = np.concatenate([part.values for part, _ in chunks])
    join["sensor"] = None if chunks[0][0].sensor is None else np.concatenate([part.sensor for part, _ in chunks])
    join["refused"] = [one for _, bad in chunks for one in bad]
    return join


@SOME
@given(written=tables(), zipped=st.booleans(), size=st.integers(1, 5))
def test_a_table_in_any_dialect_reads_as_it_was(tmp_path, written, zipped, size):
    content, times, y, x, value, sensors, names = written
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    path.write_bytes(gzip.compress(content, 1) if zipped else content)
    table = open_table(path, timezone="+05:30")
    got = rows_of(table, size)
    assert not got["refused"]
    np.testing.assert_array_equal(got["time"], times)
    np.testing.assert_array_equal(got["y"], y)
    np.testing.assert_array_equal(got["x"], x)
    np.testing.assert_array_equal(got["values"][:, 0], value)
    np.testing.assert_array_equal(got["row"], 2 + np.arange(len(y)))
    assert list(got["sensor"]) == sensors
    assert table.units == (split_units(names["value"])[1],)


@pytest.fixture(scope="module")
def frame():
    n = 50
    return pd.DataFrame(
        {
            "time": pd.date_range("2024-01-01", periods=n, freq="7min"),
            "lat": 10 + np.arange(n) / 100,
            "lon": 20 - np.arange(n) / 50,
            "pm": np.where(np.arange(n) % 9 == 4, np.nan, np.arange(n) * 1.5),
            "no2": np.arange(n) * 2.0,
            "sensor": [f"S{i % 3}" for i in range(n)],
        }
    )


def kinds(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.csv.gz", index=False)
    frame.to_parquet(folder / "t.parquet")
    data = xr.Dataset.from_dataframe(frame.rename_axis("row"))
    data.to_netcdf(folder / "t.nc")
    data.drop_vars("sensor").to_zarr(folder / "t.zarr", consolidated=False)
    return [*(folder / f"t.{end}" for end in ("csv", "csv.gz", "parquet", "nc", "zarr")), frame, data]


def test_all_kinds_of_sources_give_the_same_rows(frame, tmp_path):
    for source in kinds(frame, tmp_path):
        table = open_table(source)
        assert (set(table.variables), table.geographic) == ({"pm", "no2"}, True)
        got = rows_of(table, 7)
        np.testing.assert_array_equal(got["time"], frame["time"].to_numpy().astype("datetime64[ns]"))
        np.testing.assert_array_equal(got["y"], frame["lat"])
        np.testing.assert_array_equal(got["values"], frame[list(table.variables)])
        np.testing.assert_array_equal(got["row"], 2 + np.arange(len(frame)))
        if got["sensor"] is not None:
            assert list(got["sensor"]) == list(frame["sensor"])
        assert got["refused"] == []


def test_a_list_a_folder_and_a_glob_are_one_table(frame, tmp_path):
    frame[:20].to_csv(tmp_path / "a.csv", index=False)
    frame[20:][frame.columns[::-1]].to_csv(tmp_path / "b.csv", index=False)
    (tmp_path / "places.csv").write_text("id,lat,lon\nS1,10,20\n")
    for source in ([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path, str(tmp_path / "*.csv")):
        table = open_table(source)
        np.testing.assert_array_equal(rows_of(table)["values"], frame[["pm", "no2"]])
        assert [part.file[0] for part, _ in table.chunks()] == [0, 1]
        assert isinstance(source, list) or any("places.csv is left out" in note for note in table.notes)
    with pytest.raises(SolidError, match=r"places.csv: no column of time found among 'id', 'lat', 'lon'.*--columns"):
        open_table([tmp_path / "a.csv", tmp_path / "places.csv"])


@pytest.mark.parametrize(
    "names", [("Measurement Time", "geo_lat", "geo_lon"), ("OBS_DATE", "decimalLatitude", "decimalLongitude")]
)
def test_a_word_of_a_name_tells_where_no_name_does_and_that_is_said(names):
    frame = pd.DataFrame({"time": ["2024-01-01T00:00Z"], "lat": [50.0], "lon": [8.0], "pm": [3.0]})
    named = frame.set_axis([*names, "pm"], axis=1)
    table = open_table(named)
    assert (table.columns.time, table.columns.y, table.columns.x) == names
    assert any(f"'{names[0]}' for time, '{names[1]}' for latitude" in note for note in table.notes)
    told = open_table(named, columns=dict(zip(("time", "lat", "lon"), names, strict=True)))
    assert not any("by a word" in note for note in told.notes)
    assert not any("by a word" in note for note in open_table(frame).notes)
    with pytest.raises(SolidError, match="no column of latitude"):
        open_table(named.assign(plot_lat=1.0))  # which of the two?


def test_what_has_no_time_is_no_reading_and_a_single_depth_none_to_choose():
    fields = np.random.default_rng(0).normal(size=(4, 3, 5))
    axes = {"time": pd.date_range("2024-01-01", periods=4, freq="h"), "lat": [1.0, 2.0, 3.0], "lon": np.arange(5.0)}
    array = xr.Dataset({"sst": (("time", "lat", "lon"), fields)}, axes)
    mask = array.assign(land=(("lat", "lon"), np.ones((3, 5))), crs=0)
    one = array.expand_dims(depth=[0.5], axis=1)
    for dressed, words in ((mask, "land, crs: no time, so no readings"), (one, "all readings are at depth 0.5")):
        found, plain = open_table(dressed), open_table(array)
        assert found.variables == ("sst",)
        assert any(note.startswith(words) for note in found.notes)
        np.testing.assert_array_equal(next(found.chunks())[0].values, next(plain.chunks())[0].values)
    assert open_table(mask, columns={"value": "sst+land"}).variables == ("sst", "land")
    with pytest.raises(SolidError, match="also has dimension 'depth'; select one"):
        open_table(array.expand_dims(depth=[0.5, 10.0], axis=1))


def test_a_gridded_array_gives_its_cells_and_nothing_where_it_is_nan(tmp_path):
    values = np.arange(5 * 3 * 4, dtype=float).reshape(5, 3, 4)
    values[1, 2, 3] = values[4, 0, 0] = np.nan
    time = pd.date_range("2020-02-28", periods=5, freq="12h")
    array = xr.DataArray(
        values,
        {"time": time, "latitude": [30.0, 20.0, 10.0], "longitude": [178.0, 180.0, 182.0, 184.0]},
        ("time", "latitude", "longitude"),
        name="t2m",
        attrs={"units": "K"},
    )
    array.to_netcdf(tmp_path / "g.nc")
    for source in (array, array.transpose("longitude", "time", "latitude"), tmp_path / "g.nc"):
        table = open_table(source)
        got = rows_of(table, 5)
        flat = values.ravel()
        seen = ~np.isnan(flat)
        np.testing.assert_array_equal(got["values"][:, 0], flat[seen])
        np.testing.assert_array_equal(got["row"], 2 + np.flatnonzero(seen))
        np.testing.assert_array_equal(np.unique(got["x"]), [-178, -176, 178, 180])
        np.testing.assert_array_equal(got["time"], np.repeat(time.to_numpy().astype("datetime64[ns]"), 12)[seen])
        assert table.units == ("K",)
        assert any("0 .. 360" in note for note in table.notes)
        assert not any("UTC" in note for note in table.notes)  # CF says so


def test_columns_are_named_by_the_user_when_names_do_not_tell(tmp_path):
    (tmp_path / "t.csv").write_text("when;a;b;c;d\n2024-01-01;1;2;3;4\n")
    with pytest.raises(SolidError, match=r"no column of time.*'when', 'a', 'b', 'c', 'd'.*--columns time=NAME"):
        open_table(tmp_path / "t.csv")
    table = open_table(tmp_path / "t.csv", columns={"time": "when", "lat": "a", "x": "b", "value": "d"})
    assert table.columns.values == ("d",)
    both = open_table(tmp_path / "t.csv", columns={"time": "when", "lat": "a", "x": "b"}, units="K,%")
    assert (both.variables, both.units) == (("c", "d"), ("K", "%"))
    with pytest.raises(SolidError, match="no column 'nowhere'"):
        open_table(tmp_path / "t.csv", columns={"time": "nowhere"})
    with pytest.raises(SolidError, match="'colour' is no role"):
        open_table(tmp_path / "t.csv", columns={"colour": "a"})


def test_parts_of_a_date_are_no_readings_and_that_is_said():
    times = pd.date_range("2024-01-01", periods=30, freq="h", tz="UTC")
    frame = pd.DataFrame({"time": times, "hour": times.hour, "Month": 1, "lat": 22.5, "lon": 88.3, "pm": 7.0})
    table = open_table(frame)
    assert table.variables == ("pm",)
    assert any(note.startswith("hour, Month: parts of a date") for note in table.notes)
    assert open_table(frame, columns={"value": "hour"}).variables == ("hour",)


@pytest.mark.parametrize("name", ["probe_id", "float", "WMO", "Station No", "plotID", "buoy.id"])
def test_numbers_that_name_a_sensor_are_its_name_and_no_reading(tmp_path, name):
    (tmp_path / "t.csv").write_text(f"date,{name},lat,lon,sst\n2024-01-01,101,1,2,3\n2024-01-02,102,1,2,3\n")
    table = open_table(tmp_path / "t.csv")
    assert (table.columns.sensor, table.variables) == (name, ("sst",))
    assert list(rows_of(table)["sensor"]) == ["101", "102"]


def test_numbers_that_are_no_readings_are_left_out_and_that_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("time,site,station_id,lat,lon,elevation,NO\n2024-01-01,A,7,1,2,340,5\n")
    table = open_table(tmp_path / "t.csv")
    assert (table.columns.sensor, table.variables) == ("station_id", ("NO",))
    (note,) = [note for note in table.notes if note.startswith("elevation: how high a place lies, left out")]
    assert "--static" in note
    assert open_table(tmp_path / "t.csv", columns={"value": "elevation"}).variables == ("elevation",)


@pytest.mark.parametrize("rows", [10, 5_000])
def test_a_variable_whose_sensors_come_last_is_read(tmp_path, rows):
    first = [f"2024-01-01,1,2,{i % 7},,,x" for i in range(rows)]
    lines = ["date,lat,lon,t,h,empty,note", *first, "2024-01-01,1,2,,55.5,,y"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    table = open_table(tmp_path / "t.csv")
    assert table.variables == ("t", "h")
    assert rows_of(table)["values"][-1, 1] == 55.5


def test_airdelhi_columns_find_their_roles(tmp_path):
    text = ",uid,dateTime,deviceId,lat,long,pm1_0,pm2_5,pm10\n0,9,2020-11-12 10:00:00+05:30,201,28.5,77.2,1,2,3\n"
    (tmp_path / "t.csv").write_text(text)
    table = open_table(tmp_path / "t.csv")
    assert (table.columns.time, table.columns.sensor) == ("dateTime", "deviceId")
    assert table.variables == ("pm1_0", "pm2_5", "pm10")
    got = rows_of(table)
    assert list(got["sensor"]) == ["201"]
    assert got["time"][0] == np.datetime64("2020-11-12T04:30")
    assert table.notes == ()  # the offset leaves no doubt


def test_projected_coordinates_stay_as_they_are(tmp_path):
    (tmp_path / "t.csv").write_text("time,y,x,value\n2024-01-01,5200000,412345.5,1\n")
    table = open_table(tmp_path / "t.csv")
    assert not table.geographic
    assert rows_of(table)["y"][0] == 5_200_000


def test_a_date_and_a_time_of_day_are_joined(tmp_path):
    (tmp_path / "t.csv").write_text("date,time,lat,lon,pm\n14/02/2024,05:30,1,2,3\n03/02/2024,6:00 PM,1,2,3\n")
    got = rows_of(open_table(tmp_path / "t.csv"))
    assert list(got["time"]) == [np.datetime64("2024-02-14T05:30", "ns"), np.datetime64("2024-02-03T18:00", "ns")]


def test_a_bad_field_costs_its_row_and_nothing_else(tmp_path):
    lines = [
        "time,lat,lon,pm,no2,pm_error",
        "2024-01-01 00:00,10,20,1,2,0.1",
        "yesterday,10,20,1,2,0.1",
        "2024-01-01 00:00,ten,20,1,2,0.1",
        "",
        "2024-01-01 00:00,10,,1,2,0.1",
        "2024-01-01 00:00,10,20,low,2,0.1",
        "2024-01-01 00:00,10,20,NA,,0.1",
        "2024-01-01 00:00,400,20,1,2,0.1",
        "2024-01-01 00:00,10,20,inf,2,0.1",
        "2024-01-01 00:00,10,20,1,2,-0.1",
        "2024-01-01 00:00,10,20,1,2,0.1,99",
        '2024-01-01 00:00,10,20,1,2,"0.1',
        "2024-01-01 00:00,10,20,3",
        ",,,,,",
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    for size in (1, 3, 100):
        got = rows_of(open_table(tmp_path / "t.csv"), size)
        assert got["row"].tolist() == [2, 7, 10, 14]
        np.testing.assert_array_equal(got["values"], [[1, 2], [np.nan, 2], [np.nan, 2], [3, np.nan]])
        why = {(one.row, one.column): (one.text, one.reason) for one in got["refused"]}
        assert why[3, "time"] == ("yesterday", "not a time")
        assert why[4, "lat"] == ("ten", "not a number (decimal point)")
        assert why[6, "lon"] == ("", "missing")
        assert why[7, "pm"][0] == "low"
        assert why[8, "pm"] == ("", "no value")
        assert why[9, "lat"][1] == "latitude outside -90 .. 90"
        assert why[10, "pm"][1].startswith("not a finite number")
        assert why[11, "pm_error"] == ("-0.1", "a standard deviation below zero")
        assert why[12, ""][1] == "more fields than the header has"
        assert why[13, ""][1] == "a quote that is not closed on its line"
        assert {row for row, _ in why} == {3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 15}


def test_longitudes_in_both_conventions_are_one_place(tmp_path):
    for east, west in ((350.5, -9.5), (180.25, -179.75), (360.0, 0.0), (-9.5, -9.5), (180.0, 180.0)):
        (tmp_path / "t.csv").write_text(f"time,lat,lon,pm\n2024-01-01Z,10,{east},1\n")
        table = open_table(tmp_path / "t.csv")
        assert rows_of(table)["x"][0] == west
        assert any("0 .. 360" in note for note in table.notes) == (east != west)


def test_variables_are_called_as_the_user_says(tmp_path):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm,t (degC)\n2024-01-01T00:00Z,1,2,3,4\n")
    assert open_table(tmp_path / "t.csv", name="pm=PM2.5,t=air temperature").variables == ("PM2.5", "air_temperature")
    assert open_table(tmp_path / "t.csv", columns={"value": "pm"}, name="PM2.5").variables == ("PM2.5",)
    for name, why in (("PM2.5", "can be but one"), ("no2=NO2", "no variable 'no2'"), ("t=pm", "another thing")):
        with pytest.raises(SolidError, match=why):
            open_table(tmp_path / "t.csv", name=name)
