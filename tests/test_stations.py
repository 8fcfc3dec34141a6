"""Names of sensors that stand: whatever the chunks, never of one that moves, and through a filled record."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from solidfield import SolidError, grid
from solidfield.grid import Grid
from solidfield.pairs.frames import as_frames
from solidfield.readings.stations import KEY, names_at

OPTIONS = {"cell": "0.01deg", "every": "1h", "timezone": "UTC", "stations": True}


def table() -> pd.DataFrame:
    """A and B share a cell, C stands alone and was once misplaced, a bus drives."""
    times = pd.date_range("2024-01-01", periods=40, freq="h")
    places = {"A": (22.5, 88.3), "B": (22.501, 88.301), "C": (22.53, 88.32)}
    rows = [(t, name, y, x, 1.0) for t in times for name, (y, x) in places.items()]
    rows += [(t, "bus", 22.5 + 0.01 * (i % 4), 88.33, 2.0) for i, t in enumerate(times)]
    rows += [(times[-1], "C", 22.51, 88.3, 1.0), (times[-1], None, 22.52, 88.31, 3.0)]
    return pd.DataFrame(rows, columns=["time", "sensor", "lat", "lon", "pm"])


@pytest.mark.parametrize("rows", [7, 64, 10_000])
def test_sensors_stand_where_nine_tenths_of_their_readings_lie_whatever_the_chunks(rows):
    said: list[str] = []
    frames = grid(table(), rows=rows, say=said.append, **OPTIONS)
    found = as_frames(frames).stations
    assert found == (("A", 22.5, 88.3), ("B", 22.5, 88.3), ("C", 22.53, 88.32))
    assert sum("A and B" in words and "1 cell holds several" in words for words in said) == 1


def test_names_are_found_again_on_any_grid_that_holds_their_cells():
    stations = as_frames(grid(table(), **OPTIONS)).stations
    wide = Grid((10, 10), (0.01, 0.01), (22.48, 88.28), axes=("lat", "lon"))
    names = names_at(stations, wide).reshape(10, 10)
    assert names[2, 2] == "A; B"
    assert names[5, 4] == "C"
    assert np.count_nonzero(names != "") == 2
    assert not (names_at(stations, Grid((2, 2), (0.01, 0.01), (0, 0), axes=("lat", "lon"))) != "").any()


def test_values_do_not_depend_on_names():
    named, plain = (grid(table(), **(OPTIONS | {"stations": stations})) for stations in (True, False))
    np.testing.assert_array_equal(named["pm"], plain["pm"])
    assert KEY not in plain.attrs


@pytest.mark.parametrize("text", ["36", "[[1]]", "{", '[["A", "x", 1]]'])
def test_a_damaged_attribute_is_an_error_in_one_line(text):
    frames = grid(table(), **OPTIONS)
    frames.attrs[KEY] = text
    with pytest.raises(SolidError, match="grid the readings again"):
        as_frames(frames)
