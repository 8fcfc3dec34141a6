"""Places as points in one column are the coordinates that they say."""

import numpy as np
import pandas as pd
import pytest

from solidfield.readings import open_table

ROWS = 40
PLAIN = pd.DataFrame(
    {
        "time": pd.date_range("2024-05-01", periods=ROWS, freq="h", tz="UTC"),
        "lat": np.linspace(-33.5, 51.123456789, ROWS),
        "lon": np.linspace(-179.5, 8.2, ROWS),
        "pm": np.arange(ROWS, dtype=float),
    }
)


class Point:
    """As geometry libraries have it: written as text when asked."""

    def __init__(self, x, y):
        self.text = f"POINT ({x!r} {y!r})"

    def __str__(self):
        return self.text


def pointed(write):
    points = [write(float(lon), float(lat)) for lat, lon in zip(PLAIN.lat, PLAIN.lon, strict=True)]
    return PLAIN.drop(columns=["lat", "lon"]).assign(the_geom=points)


WRITTEN = {
    "plain": lambda x, y: f"POINT ({x!r} {y!r})",
    "with a height and a system": lambda x, y: f"SRID=4326;point z({x!r}  {y!r} 12.5)",
    "objects": Point,
}


@pytest.mark.parametrize("rows", [7, 1000])
@pytest.mark.parametrize("file", [True, False])
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_points_are_their_coordinates(tmp_path, write, file, rows):
    table = pointed(write)
    table.to_csv(tmp_path / "points.csv", index=False)
    read = open_table(tmp_path / "points.csv" if file else table)
    chunks = [chunk for chunk, refused in read.chunks(rows) if not refused]
    for name, column in (("y", "lat"), ("x", "lon")):
        np.testing.assert_array_equal(np.concatenate([getattr(chunk, name) for chunk in chunks]), PLAIN[column])
    assert read.variables == ("pm",)
    assert read.geographic
    assert "places are the points in column 'the_geom'" in read.notes


def test_what_is_no_point_is_refused_by_its_row(tmp_path):
    table = pointed(WRITTEN["plain"])
    table.loc[[3, 11, 20], "the_geom"] = ["POINT EMPTY", "", "LINESTRING (1 2, 3 4)"]
    table.to_csv(tmp_path / "t.csv", index=False)
    (rows, refused), *_ = open_table(tmp_path / "t.csv").chunks()
    assert [one.row for one in refused] == [5, 13, 22]
    assert {one.reason for one in refused} == {"not a point, such as POINT (8.62 50.11)"}
    np.testing.assert_array_equal(rows.values[:, 0], np.delete(PLAIN.pm, [3, 11, 20]))


def test_coordinates_of_their_own_come_before_points():
    both = PLAIN.assign(geometry="POINT (0 0)")
    read = open_table(both)
    assert (read.columns.y, read.columns.x) == ("lat", "lon")
    np.testing.assert_array_equal(next(read.chunks())[0].y, PLAIN.lat)
