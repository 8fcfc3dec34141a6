"""A column that stays the same at every place is no reading: it is left out, with a word, unless it is asked for."""

import numpy as np
import pandas as pd
import pytest

from solidfield import check, grid

PLACES, HOURS = 8, 40


def table(column, order="place"):
    """Readings of places, an hour each, with one more column of numbers that no name gives away."""
    place = np.tile(np.arange(PLACES), HOURS)
    hour = np.repeat(np.arange(HOURS), PLACES)
    pm = np.random.default_rng(0).lognormal(3, 0.4, len(place)).round(1)
    made = pd.DataFrame({"time": pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(hour, unit="h"), "pm": pm})
    made = made.assign(lat=10 + 0.1 * place, lon=20 + 0.1 * (place % 3), punto=column(place, hour))
    return made.iloc[np.argsort(place, kind="stable")] if order == "place" else made


def gridded(readings, **options):
    said = []
    return grid(readings, cell="0.1deg", every="1h", say=said.append, **options), "\n".join(said)


COLUMNS = {
    "a height of its own": lambda place, hour: 7 * place + 3.5,
    "a property of some": lambda place, hour: np.where(place < 3, 2.0, 10.0),
    "one number for all": lambda place, hour: np.full(len(place), 5.0),
}


@pytest.mark.parametrize("order", ["place", "time"])
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_what_never_changes_at_a_place_is_left_out_and_said(column, order):
    frames, said = gridded(table(column, order))
    assert frames.attrs["variables"] == "pm"
    assert "punto: the same at every place" in said
    assert "value=pm+punto" in said
    (found,) = check(table(column, order)).found("place-number")
    assert found.text.startswith(f"punto: the same at each of {PLACES} places")


def test_two_places_in_one_cell_do_not_hide_the_number_of_the_others():
    readings = table(COLUMNS["a height of its own"])
    many = pd.concat([readings.assign(lat=readings.lat + step, punto=readings.punto + 100 * step) for step in range(3)])
    moved = many.assign(lat=np.where(many.punto == 10.5, many.lat + 0.01, many.lat))
    twin = many[(many.punto == 3.5)].assign(lat=10.0 + 0.02, punto=999)  # in the cell of another, now and then
    frames, _ = gridded(pd.concat([moved, twin.iloc[::3]]))
    assert frames.attrs["variables"] == "pm"


def test_readings_stay_where_any_place_tells_more():
    rain = table(lambda place, hour: np.where((hour == 20) & (place < 4), 3.0, 0.0))
    for readings in (rain, rain.drop(columns="pm")):
        frames, said = gridded(readings)
        assert "punto" in frames
        assert "left out" not in said
    assert not check(rain).found("place-number")


def test_the_users_word_counts_and_something_is_always_left():
    readings = table(COLUMNS["a height of its own"])
    for options in ({"columns": {"value": "pm+punto"}}, {"variables": ["pm", "punto"]}):
        frames, said = gridded(readings, **options)
        assert set(frames.attrs["variables"].split()) == {"pm", "punto"}
        assert "left out" not in said
    frames, said = gridded(readings.drop(columns="pm"))
    assert frames.attrs["variables"] == "punto"
    assert "left out" not in said


def test_few_readings_tell_nothing():
    readings = table(COLUMNS["a height of its own"])
    frames, _ = gridded(readings[readings.time < readings.time.min() + pd.Timedelta("3h")])
    assert set(frames.attrs["variables"].split()) == {"pm", "punto"}


def test_numbers_of_sensors_that_move_name_them_whatever_they_are_called():
    drifting = table(lambda place, hour: 10 * place + 4)
    drifting = drifting.sort_values(["time", "lat"]).reset_index(drop=True)
    drifting["lat"] += 0.001 * np.arange(len(drifting))
    frames, said = gridded(drifting)
    assert frames.attrs["variables"] == "pm"
    assert "'punto' tells apart what is read at one time, so it names the sensors" in said
    named = check(drifting)
    assert (named.identity, named.sensors) == ("sensor", PLACES)
    assert named.statistics[0].name == "pm"
    asked, _ = gridded(drifting, columns={"value": "pm+punto"})
    assert asked.attrs["variables"] == "pm punto"


def test_whole_readings_are_no_names():
    draws = np.random.default_rng(1)
    counted = table(lambda place, hour: draws.integers(0, 30, len(place)), order="time")
    assert gridded(counted)[0].attrs["variables"] == "pm punto"
