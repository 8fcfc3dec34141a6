"""What people hand in by mistake ends in one clear line, or in a right result; memory stays bounded."""

import gzip
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from solidfield.errors import SolidError
from solidfield.readings import open_table
from solidfield.readings.blocks import LINE_LIMIT
from solidfield.readings.intake import grid

GOOD = "time,lat,lon,pm\n2024-01-01 00:00,10.2,20.4,5\n2024-01-01 01:00,10.2,20.5,6\n"


def gridded(path, **options):
    return grid(path, timezone="UTC", cell="0.1deg", every="1h", **options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n  \n", "is empty"),
        ("time,lat,lon,pm\n", "a header and no rows"),
        ("1,2,3,4\n5,6,7,8\n", "first line holds numbers"),
        ("time lat lon pm\n2024-01-01 1 2\n", "no separator found.*commas, semicolons, tabs"),
        ("time,lat,lon,pm\n2024-01-01,10,5,20,5,3,5\n2024-01-02,10,5,20,5,3,5\n", "decimal commas.*semicolons"),
        ("time,lat,lat,pm\n2024-01-01,1,2,3\n", "more than one column 'lat'"),
        ("time,lat,lon,pm\n2024-01-01,1,2,good\n", "no column of numbers to read.*value=NAME"),
        ("time,lat,lon,pm\n2024-01-01,1,2,7 ug/m3\n", "write plain numbers in 'pm', which holds '7 ug/m3'"),
        ('time,lat,lon,pm\n2024-01-01,1,2,"1,234.5"\n', "write plain numbers in 'pm', which holds '1,234.5'"),
        ("time,lat,lon,pm\n2024-01-01,103.8,1.3,5\n", "y=lon,x=lat"),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SolidError, match=words) as error:
        open_table(tmp_path / "t.csv")
    assert "\n" not in str(error.value)
    assert "t.csv" in str(error.value)


def test_swapped_coordinates_are_right_once_named(tmp_path):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n2024-01-01,103.8,1.3,5\n")
    frames = gridded(tmp_path / "t.csv", columns={"y": "lon", "x": "lat"})
    assert float(frames["pm"].sel(lat=1.3, lon=103.8).item()) == 5


def test_one_row_is_one_frame_of_one_cell(tmp_path):
    (tmp_path / "t.csv").write_text("".join(GOOD.splitlines(keepends=True)[:2]))
    frames = gridded(tmp_path / "t.csv")
    assert dict(frames.sizes) == {"time": 1, "lat": 1, "lon": 1}
    assert frames["pm"].item() == 5
    assert "obs_std" not in frames.attrs


def test_all_nan_says_so(tmp_path):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n2024-01-01,1,2,NaN\n2024-01-01,1,2,\n")
    with pytest.raises(SolidError, match="no column of numbers"):
        open_table(tmp_path / "t.csv")
    with pytest.raises(SolidError, match=r"2 refused, the first in line 2, column 'pm'.*no value"):
        grid(tmp_path / "t.csv", columns={"value": "pm"}, cell="1km", every="1h", bounds=(0, 0, 3, 3))


def test_files_that_are_missing_cut_short_or_something_else(tmp_path):
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=5000, freq="h"), "lat": 1.0, "lon": 2.0})
    frame["pm"] = np.random.default_rng(0).random(5000)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv.gz", index=False)
    xr.Dataset.from_dataframe(frame.rename_axis("row")).to_netcdf(tmp_path / "t.nc")
    for name in ("t.parquet", "t.csv.gz", "t.nc"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(SolidError, match=rf"{name} is (damaged|no readable)") as error:
            gridded(tmp_path / name)
        assert "\n" not in str(error.value)
    (tmp_path / "t.csv").write_bytes(b"\x00\x01" * 100)
    (tmp_path / "u.csv").write_bytes(GOOD.encode("utf-16"))
    (tmp_path / "t.xls").write_bytes(b"?")
    for name, words in (("no.csv", "no file"), ("t.csv", "no text"), ("u.csv", "UTF-16"), ("t.xls", "what")):
        with pytest.raises(SolidError, match=words):
            open_table(tmp_path / name)
    with pytest.raises(SolidError, match="no table of readings"):
        open_table(str(tmp_path / "*.tsv"))


@pytest.mark.parametrize("zipped", [False, True])
def test_one_gigantic_line_ends_in_an_error_and_little_memory(tmp_path, zipped):
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    with gzip.open(path, "wb", 1) if zipped else open(path, "wb") as file:
        file.write(GOOD.encode())
        for _ in range(40):
            file.write(b"7" * LINE_LIMIT)
    tracemalloc.start()
    with pytest.raises(SolidError, match=f"line 4 is longer than {LINE_LIMIT:,} bytes"):
        gridded(path)
    assert tracemalloc.get_traced_memory()[1] < 150e6
    tracemalloc.stop()


def test_a_bomb_of_many_lines_ends_in_an_error(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wb", 9) as file:
        file.write(GOOD.encode())
        for _ in range(40):
            file.write(b"\n" * LINE_LIMIT)
    with pytest.raises(SolidError, match="expands more than 250-fold"):
        list(open_table(tmp_path / "t.csv.gz", timezone="UTC").chunks())


def test_an_unclosed_quote_does_not_swallow_what_follows(tmp_path):
    lines = ["time,lat,lon,pm,sensor"] + [f"2024-01-01,10,20,{i},a" for i in range(2000)]
    lines[7], lines[1500] = '2024-01-01,10,20,1,"a', '2024-01-01,10,20,1,"b'
    (tmp_path / "t.csv").write_text("\n".join(lines))
    chunks = list(open_table(tmp_path / "t.csv").chunks(300))
    assert sum(len(rows) for rows, _ in chunks) == 1998
    assert [one.row for _, bad in chunks for one in bad] == [8, 1501]


def test_nothing_is_left_half_written(tmp_path):
    (tmp_path / "t.csv").write_text(GOOD + "x" * 3 + "\n" + "7" * (2 * LINE_LIMIT))
    with pytest.raises(SolidError, match="longer than"):
        gridded(tmp_path / "t.csv", refused=tmp_path / "refused.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_too_many_cells_are_refused_before_they_are_made(tmp_path):
    """One reading at 0, 0 stretches the grid over half the world."""
    (tmp_path / "t.csv").write_text(GOOD + "2024-01-01 02:00,0,0,5\n2024-01-01 02:00,80,170,5\n")
    with pytest.raises(SolidError, match=r"GiB.*--bounds"):
        grid(tmp_path / "t.csv", cell="0.001deg", every="1h")


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Gridding ten times the rows takes no more memory."""
    body = "".join(f"2024-01-01 {i % 24:02d}:00,10.{i % 9},20.{i % 7},{i % 50}.5\n" for i in range(2000))
    peaks = []
    for repeats in (6, 6, 60):  # the first warms caches up
        (tmp_path / "t.csv").write_text("time,lat,lon,pm\n" + body * repeats)
        tracemalloc.start()
        frames = gridded(tmp_path / "t.csv", rows=2000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert int(frames["pm_count"].sum()) == 2000 * repeats
    assert peaks[2] < 1.2 * peaks[1], peaks


def test_empty_fields_beyond_the_header_are_nothing_wherever_lines_are_taken_apart(tmp_path):
    """A stray quote makes the reader go line by line; a comma at the end of another line is still no field."""
    lines = ["time,lat,lon,pm", "2024-01-01,1,2,3,", "2024-01-03,1,2,5", "2024-01-04,1,2,6,,", '2024-01-05,1,2,"']
    (tmp_path / "t.csv").write_text("\n".join(lines))
    frames = grid(tmp_path / "t.csv", cell="1km", every="1d")
    assert (int(frames.attrs["rows_read"]), int(frames.attrs["rows_refused"])) == (3, 1)
    assert frames["pm"].values[~np.isnan(frames["pm"].values)].tolist() == [3, 5, 6]


def network(values):
    """So many readings of five places."""
    place, hour = np.arange(len(values)) % 5, np.arange(len(values)) // 5
    stamps = pd.Timestamp("2024-01-01") + pd.to_timedelta(hour, unit="h")
    return pd.DataFrame({"time": stamps, "lat": 10 + 0.1 * place, "lon": 20.0, "x1": values})


@pytest.mark.parametrize("mark", [-99.0, -999.0, -999.9, -9999.0, -32768.0, -32767.0, 32767.0, 9999.0, 99999.99])
@pytest.mark.parametrize("late", [False, True])
def test_a_number_that_stands_for_no_value_is_refused_by_row_and_said(mark, late):
    values = np.random.default_rng(0).normal(20, 5, 4000).round(1)
    at = np.arange(3001 if late else 1, 4000, 97)  # the first thousand rows need not show it
    marked = values.copy()
    marked[at] = mark
    said = []
    frames = gridded(network(marked), say=said.append)
    clean = gridded(network(np.where(marked == mark, np.nan, values)))
    assert np.array_equal(frames["x1"].values, clean["x1"].values, equal_nan=True)
    assert frames.attrs["rows_refused"] == len(at)
    assert any(f"{mark:.10g} stands for no value" in words for words in said)


@pytest.mark.parametrize(
    "values",
    [
        [*np.linspace(-1500, 300, 400), -999.0],
        [*np.geomspace(1, 6000, 400), 9999.0],
        [999.0, 998.0, 12.0] * 50,  # where an instrument ends
        [-99.0] * 100,
    ],
)
def test_nines_among_readings_like_them_are_readings(values):
    frames = gridded(network(np.array(values)))
    assert frames["x1_count"].values.sum() == len(values)


def test_words_above_the_header_are_left_out_and_said(tmp_path):
    plain = network(np.arange(50.0) % 7).to_csv(index=False)
    (tmp_path / "plain.csv").write_text(plain)
    for number, words in enumerate(("Station data\n\n", "Station data\nAgency: X, Y\nPeriod 2024\n", "#x\nNetwork\n")):
        path = tmp_path / f"words{number}.csv"
        path.write_text(words + plain)
        said = []
        frames = gridded(path, say=said.append)
        assert np.array_equal(frames["x1"].values, gridded(tmp_path / "plain.csv")["x1"].values, equal_nan=True)
        assert any("lines hold no table" in text for text in said)


def test_lines_are_counted_from_the_top_of_the_file(tmp_path):
    lines = network(np.arange(50.0) % 7).to_csv(index=False).split("\n")
    lines[5] = lines[5].rpartition(",")[0] + ",oops"
    (tmp_path / "t.csv").write_text("Network\nof five places\n" + "\n".join(lines))
    gridded(tmp_path / "t.csv", refused=tmp_path / "r.csv")
    assert pd.read_csv(tmp_path / "r.csv").row.tolist() == [8]


def test_readings_at_the_origin_are_refused_where_all_others_are_far_away():
    far = network(np.arange(100.0) % 7)
    lost = far.assign(lat=np.where(far.index % 10 == 3, 0.0, far.lat), lon=np.where(far.index % 10 == 3, 0.0, far.lon))
    frames = gridded(lost)
    assert frames.attrs["rows_refused"] == 10
    assert frames["x1_count"].values.sum() == 90
    assert frames.sizes["lat"] <= gridded(far).sizes["lat"]
    buoys = lost.assign(lat=0.1 * (far.index % 3), lon=0.1 * (far.index % 2))  # around the origin it is a place
    assert gridded(buoys).attrs["rows_refused"] == 0


def test_angles_are_no_readings_and_that_is_said():
    table = network(np.arange(100.0) % 7).assign(wind_dir=np.arange(100.0) % 360)
    said = []
    assert gridded(table, say=said.append).attrs["variables"] == "x1"
    assert any(words.startswith("wind_dir: angles, of which no mean can be taken") for words in said)
    told = gridded(table, columns={"value": "x1+wind_dir"})
    assert set(told.attrs["variables"].split()) == {"x1", "wind_dir"}


def test_readings_known_to_be_below_a_limit_are_refused_and_the_bias_is_said(tmp_path):
    limited = "".join(f"2024-01-01T{hour:02d}:00Z,1,2,{'<5' if hour % 3 else hour}\n" for hour in range(24))
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n" + limited)
    table = open_table(tmp_path / "t.csv")
    ((rows, refused),) = table.chunks()
    assert rows.values[:, 0].tolist() == list(range(0, 24, 3))
    assert {(one.text, one.reason) for one in refused} == {("<5", "beyond what the instrument tells")}
    assert any("maps are too high" in note for note in table.notes)
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n" + limited.replace("<5", ">1999"))
    assert any("maps are too low" in note for note in open_table(tmp_path / "t.csv").notes)


def test_a_column_of_numbers_with_units_is_not_left_out_in_silence(tmp_path):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm,t\n2024-01-01,1,2,3,10.2 C\n")
    (note,) = [note for note in open_table(tmp_path / "t.csv").notes if "holds text" in note]
    assert note.startswith("'t' holds text ('10.2 C') and is not read")
    frame = pd.DataFrame({"time": ["2024-01-01"], "lat": 1.0, "lon": 2.0, "pm": 3.0, "t": ["10.2"]})
    assert any("'t' holds text ('10.2')" in note for note in open_table(frame).notes)


@pytest.mark.parametrize(
    "readings", [None, 3, b"t.csv", {"time": [1]}, [{"time": 1}], np.zeros((3, 3)), ["t.csv", None]]
)
def test_what_holds_no_readings_is_refused_by_its_type(readings):
    with pytest.raises(SolidError, match=r"no readings in an object of type .*; give a path"):
        open_table(readings)


def test_a_frame_of_another_library_is_read_and_two_columns_of_one_name_are_not():
    frame = pd.DataFrame({"time": ["2024-01-01T00:00Z"], "lat": 1.0, "lon": 2.0, "pm": 3.0})

    class Other:
        def to_pandas(self):
            return frame

    assert next(open_table(Other()).chunks())[0].values.tolist() == [[3.0]]
    with pytest.raises(SolidError, match="more than one column 'pm'"):
        open_table(pd.concat([frame, frame["pm"]], axis=1))
