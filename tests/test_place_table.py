"""A table of places says where readings were taken: the frames are those of a table that has the coordinates itself."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import solidfield as sf
from solidfield.cli import app
from solidfield.errors import SolidError
from solidfield.readings.place_table import plain_places
from solidfield.readings.table import open_table

SENSORS, HOURS = 6, 48
HOW = {"cell": "0.1deg", "every": "1h", "timezone": "UTC"}


@pytest.fixture
def city(tmp_path):
    """One network in three shapes: whole, long and wide, with a table of its places."""
    draws = np.random.default_rng(3)
    names = [f"00{n}" for n in range(SENSORS)]
    time, who = np.repeat(np.arange(HOURS), SENSORS), np.tile(np.arange(SENSORS), HOURS)
    stamps = pd.Timestamp("2024-03-01") + pd.to_timedelta(time, unit="h")
    whole = pd.DataFrame(
        {"time": stamps, "probe": np.array(names)[who], "pm": draws.lognormal(3, 0.5, len(time)).round(2)}
    )
    whole = whole.assign(lat=40 + 0.13 * who, lon=116 + 0.11 * (who % 4))[draws.random(len(time)) > 0.1]
    places = pd.DataFrame({"town": "B", "id": names, "latitude": 40 + 0.13 * np.arange(SENSORS)})
    places["longitude"] = 116 + 0.11 * (np.arange(SENSORS) % 4)
    tables = {"whole": whole, "long": whole.drop(columns=["lat", "lon"]), "places": places.iloc[::-1]}
    tables["wide"] = whole.pivot_table(index="time", columns="probe", values="pm").reset_index()
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def frames_of(path, **options):
    return sf.grid(path, **HOW, **options)


def same(one, other):
    names = ("pm", "pm_count", "pm_spread", "time", "lat", "lon")
    return all(np.array_equal(one[name].values, other[name].values, equal_nan=name in names[:3]) for name in names)


@pytest.mark.parametrize("shape", ["long", "wide"])
@pytest.mark.parametrize("rows", [7, 100_000])
def test_every_shape_gives_the_frames_of_the_whole_table(city, shape, rows):
    told = {"places": city / "places.csv", "name": "pm"}
    assert same(frames_of(city / f"{shape}.csv", rows=rows, **told), frames_of(city / "whole.csv"))
    as_frame = pd.read_csv(city / f"{shape}.csv", dtype={"probe": str})
    assert same(
        frames_of(as_frame, places=pd.read_csv(city / "places.csv", dtype={"id": str}), name="pm"),
        frames_of(city / "whole.csv"),
    )


@pytest.mark.parametrize("called", ["{}", "no2_{}_2024-03"])
def test_a_file_for_each_station_may_be_called_by_it(city, called):
    (city / "files").mkdir()
    for name, one in pd.read_csv(city / "long.csv", dtype={"probe": str}).groupby("probe"):
        one[["time", "pm"]].to_csv(city / "files" / f"{called.format(name)}.csv", index=False)
    assert same(frames_of(city / "files", places=city / "places.csv"), frames_of(city / "whole.csv"))
    found = sf.check(city / "files", places=city / "places.csv", timezone="UTC")
    assert (found.identity, found.sensors) == ("sensor", SENSORS)
    one[["time", "pm"]].to_csv(city / "files" / "999.csv", index=False)
    assert any("999.csv is left out" in note for note in open_table(city / "files", places=city / "places.csv").notes)


@pytest.mark.parametrize("sign", ["", "# "])
def test_a_table_of_places_may_be_separated_by_spaces(city, sign):
    places = pd.read_csv(city / "places.csv", dtype=str)
    (city / "places.txt").write_text(sign + places.to_string(index=False))
    assert same(frames_of(city / "long.csv", places=city / "places.txt"), frames_of(city / "whole.csv"))


def test_a_parquet_file_and_a_mapping_do_as_well(city):
    long = pd.read_csv(city / "long.csv", dtype={"probe": str})
    long.to_parquet(city / "long.parquet")
    where = {f"00{n}": (40 + 0.13 * n, 116 + 0.11 * (n % 4)) for n in range(SENSORS)}
    assert same(frames_of(city / "long.parquet", places=where), frames_of(city / "whole.csv"))


@pytest.mark.parametrize("order", [("time", "probe"), ("probe", "time")])
def test_stations_of_an_xarray_object_are_a_table(city, order):
    """(time, station), with latitude and longitude along station, or without them and a table of places."""
    whole = pd.read_csv(city / "whole.csv", dtype={"probe": str}, parse_dates=["time"])
    values = whole.pivot_table(index="time", columns="probe", values="pm")
    where = whole.groupby("probe")[["lat", "lon"]].first().loc[values.columns]
    bare = xr.Dataset({"pm": values.stack().to_xarray().transpose(*order)})
    stations = bare.assign_coords(lat=("probe", where.lat), lon=("probe", where.lon))
    stations.to_netcdf(city / "stations.nc")
    for readings in (stations, stations["pm"], city / "stations.nc"):
        assert same(frames_of(readings), frames_of(city / "whole.csv"))
    assert same(frames_of(bare, places=city / "places.csv"), frames_of(city / "whole.csv"))
    with pytest.raises(SolidError, match="give a table of where sensors stand"):
        frames_of(bare)
    assert open_table(stations).columns.sensor == "probe"


def test_separators_and_decimal_commas_are_those_of_each_file(city):
    pd.read_csv(city / "places.csv", dtype={"id": str}).to_csv(city / "p.csv", sep=";", decimal=",", index=False)
    assert same(frames_of(city / "wide.csv", places=city / "p.csv", name="pm"), frames_of(city / "whole.csv"))


def test_who_stands_nowhere_is_refused_by_row_and_a_column_of_nobody_is_left_out_with_a_word(city):
    places = pd.read_csv(city / "places.csv", dtype=str)
    places[places.id != "002"].to_csv(city / "few.csv", index=False)
    long = pd.read_csv(city / "long.csv", dtype=str)
    frames = frames_of(city / "long.csv", places=city / "few.csv", refused=city / "refused.csv")
    refused = pd.read_csv(city / "refused.csv", dtype=str)
    assert (refused.row.astype(int) - 2).tolist() == np.flatnonzero(long.probe == "002").tolist()
    assert set(refused.text) == {"002"}
    assert set(refused.reason) == {"the table of places does not name it"}
    said = []
    wide = frames_of(city / "wide.csv", places=city / "few.csv", name="pm", say=said.append)
    assert same(wide, frames)
    assert any(words.startswith("002: left out") for words in said)


def test_a_wide_table_may_have_its_time_in_parts(city):
    wide = pd.read_csv(city / "wide.csv", parse_dates=["time"])
    for part in ("hour", "day", "month", "year"):
        wide.insert(0, part, getattr(wide.time.dt, part))
    assert same(
        frames_of(wide.drop(columns="time"), places=city / "places.csv", name="pm"), frames_of(city / "whole.csv")
    )


def test_coordinates_of_their_own_come_first_and_that_is_said(city):
    said = []
    far = {f"00{n}": (0.0, float(n)) for n in range(SENSORS)}
    assert same(frames_of(city / "whole.csv", places=far, say=said.append), frames_of(city / "whole.csv"))
    assert any("coordinates of its own" in words for words in said)


def test_the_column_of_names_is_found_by_what_it_holds(city):
    long = pd.read_csv(city / "long.csv", dtype=str).rename(columns={"probe": "punto"})
    long.insert(1, "device", "logger")
    long.to_csv(city / "odd.csv", index=False)
    assert same(frames_of(city / "odd.csv", places=city / "places.csv"), frames_of(city / "whole.csv"))
    table = open_table(city / "odd.csv", places=city / "places.csv", columns={"sensor": "punto"})
    assert (table.columns.sensor, table.variables) == ("punto", ("pm",))


def test_numbers_that_happen_to_be_names_do_not_mislead(city):
    """Stations called 1, 2 ... and readings and hours that are such numbers, too."""
    where = {str(n): (40 + 0.13 * n, 116 + 0.11 * n) for n in range(30)}
    hour = np.tile(np.arange(24), SENSORS)
    long = pd.DataFrame(
        {"hour": hour, "pm": np.where(hour == 5, 0.5, hour % 7), "quien": np.repeat(np.arange(1, SENSORS + 1), 24)}
    )
    long.insert(0, "time", pd.Timestamp("2024-03-01") + pd.to_timedelta(hour, unit="h"))
    wide = long.pivot_table(index=["time", "hour"], columns="quien", values="pm").reset_index()
    from_long = frames_of(long[::-1], places=where)
    assert same(from_long, frames_of(wide, places=where, name="pm"))
    assert (from_long["pm_count"].values.sum(), from_long.attrs["variables"]) == (len(long), "pm")
    whole = long.assign(pm=hour % 7)
    with pytest.raises(SolidError, match="columns pm and quien hold names of the table of places alike"):
        frames_of(whole, places=where)
    assert frames_of(whole, places=where, columns={"sensor": "quien"}).attrs["variables"] == "pm"


def test_a_column_called_after_sensors_is_theirs_even_if_the_first_are_unknown(city):
    long = pd.read_csv(city / "long.csv", dtype=str).sort_values("probe", kind="stable")
    long.to_csv(city / "sorted.csv", index=False)
    told = {f"00{n}": (40.0 + n, 116.0) for n in (4, 5)}
    assert frames_of(city / "sorted.csv", places=told).attrs["rows_refused"] == (long.probe < "004").sum()


def test_refusals_of_a_wide_table_name_their_line(city):
    lines = (city / "wide.csv").read_text().split("\n")
    fields = lines[4].split(",")
    lines[4] = ",".join([fields[0], "broken", *fields[2:]])
    (city / "wide.csv").write_text("\n".join(lines))
    diagnosis = sf.check(city / "wide.csv", places=city / "places.csv", timezone="UTC")
    assert [(one.row, one.text) for one in diagnosis.refused_examples] == [(5, "broken")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,latitude\n001,40\n", r"columns id, latitude; give a table.*lat and lon"),
        ("id,lat,lon\n001,40,north\n", r"row 2: 'north' in column 'lon' is not a number"),
        ("id,lat,lon\n001,40,116\n001,41,116\n", r"'001' in column 'id' stands there twice"),
        ("id,lat,lon\nA,40,116\nB,41,116\n", r"no row of .*long.csv can be read.*'000': the table of places does not"),
    ],
)
def test_a_table_that_says_nothing_of_these_readings_is_refused_in_a_line(city, text, words):
    (city / "odd.csv").write_text(text)
    with pytest.raises(SolidError, match=words):
        frames_of(city / "long.csv", places=city / "odd.csv")


def test_a_table_without_names_is_refused_in_a_line(city):
    long = pd.read_csv(city / "long.csv", dtype=str).rename(columns={"probe": "punto"})
    with pytest.raises(SolidError, match=r"no column holds names of the table of places \('A', 'B' \.\.\.\)"):
        frames_of(long, places={"A": (40, 116), "B": (41, 116)})


def test_what_is_missing_is_said_and_a_grid_takes_no_table(city):
    with pytest.raises(SolidError, match="there is no table of places"):
        frames_of(city / "long.csv", places=city / "nowhere.csv")
    with pytest.raises(SolidError, match="or give a table of where sensors stand"):
        frames_of(city / "long.csv")
    frames = frames_of(city / "whole.csv")
    with pytest.raises(SolidError, match="'places' does nothing"):
        sf.read_frames(frames, places=city / "places.csv")
    assert isinstance(frames, xr.Dataset)


def test_plain_places_are_json_and_stay_as_they_are(city):
    told = plain_places(city / "places.csv")
    assert told["names"]["id"][0] == "005"
    assert "town" not in told["names"]  # one name for all
    assert plain_places(told) == told


@pytest.mark.parametrize("shape", ["long", "wide"])
def test_a_run_remembers_where_its_sensors_stand(city, shape):
    readings, out, maps = (str(city / name) for name in (f"{shape}.csv", "run", "maps.nc"))
    told = ["--places", str(city / "places.csv"), "--name", "pm", "--cell", "0.1deg", "--every", "1h"]
    short = ["--timezone", "UTC", "--model", "climatology", "--preset", "smoke", "--hold-days", "0"]
    found = CliRunner().invoke(app, ["train", readings, "--out", out, *told, *short])
    assert found.exit_code == 0, found.output
    found = CliRunner().invoke(app, ["predict", out, readings, "--lead", "0", "--members", "2", "--out", maps])
    assert found.exit_code == 0, found.output
    assert "name pm, places of 6 sensors" in found.output
    with xr.open_dataset(maps) as made:
        last = frames_of(city / "whole.csv")["pm"].values[-1]
        assert np.array_equal(made["pm_given"].values[-1], last, equal_nan=True)
