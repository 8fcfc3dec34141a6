"""A map is of one depth or height: several of one place and time are told apart, or refused, never averaged."""

import numpy as np
import pandas as pd
import pytest

import solidfield as sf
from solidfield.errors import SolidError

HOW = {"cell": "0.1deg", "every": "1h", "timezone": "UTC"}
HOURS, PLACES, DEPTHS = 30, 6, (0.0, 2.5, 10.0)


def mooring(depth):
    """What a thermistor at one depth of each mooring reads."""
    draws = np.random.default_rng(int(10 * depth))
    hour, place = np.repeat(np.arange(HOURS), PLACES), np.tile(np.arange(PLACES), HOURS)
    table = pd.DataFrame({"time": pd.Timestamp("2024-05-01") + pd.to_timedelta(hour, unit="h"), "station": place})
    return table.assign(lat=50 + 0.1 * place, lon=7 + 0.2 * place, temp=20 - depth + draws.normal(size=len(table)))


def profiles(name="depth"):
    each = [mooring(depth).assign(**{name: depth}) for depth in DEPTHS]
    return pd.concat(each).sort_values(["time", "station", name], kind="stable")


def test_each_depth_is_a_variable_as_if_it_were_read_alone():
    frames = sf.grid(profiles(), columns={"parameter": "depth", "value": "temp"}, **HOW)
    assert frames.attrs["variables"] == "temp_at_0 temp_at_2.5 temp_at_10"
    for depth in DEPTHS:
        alone = sf.grid(mooring(depth), **HOW)
        np.testing.assert_array_equal(frames[f"temp_at_{depth:g}"], alone["temp"])
    warm = profiles().rename(columns={"temp": "temp (degC)"})
    frames = sf.grid(warm, columns={"parameter": "depth", "value": "temp"}, **HOW)
    assert frames["temp_at_2.5"].attrs["units"] == "degC"


@pytest.mark.parametrize("name", ["depth", "elevation", "Height (m)", "lead"])
def test_several_levels_are_refused_with_the_way_out(name):
    for columns in (None, {"value": "temp"}):
        with pytest.raises(SolidError, match=r"differ in .*\(0, 2.5, 10\).*parameter=.*value=temp"):
            sf.grid(profiles(name), columns=columns, **HOW)
    one = profiles(name)
    one = one[one[name] == 10.0]
    np.testing.assert_array_equal(sf.grid(one, **HOW)["temp"], sf.grid(mooring(10.0), **HOW)["temp"])


def test_of_instruments_side_by_side_the_mean_is_taken_and_said():
    said = []
    frames = sf.grid(profiles("replica"), say=said.append, **HOW)
    mean = np.mean([sf.grid(mooring(depth), **HOW)["temp"] for depth in DEPTHS], axis=0)
    np.testing.assert_allclose(frames["temp"], mean, rtol=1e-6)
    assert "differ in 'replica' (0, 2.5, 10): their mean is taken" in "\n".join(said)


def test_depth_is_left_out_beside_readings_and_is_one_where_it_stands_alone():
    said = []
    frames = sf.grid(mooring(0.0).assign(depth=3.0), say=said.append, **HOW)
    assert frames.attrs["variables"] == "temp"
    assert "depth: how deep a reading was taken, left out" in "\n".join(said)
    snow = mooring(0.0).rename(columns={"temp": "depth"})
    assert sf.grid(snow, **HOW).attrs["variables"] == "depth"


def test_readings_that_differ_at_one_place_and_time_are_no_levels():
    twice = pd.concat([mooring(0.0), mooring(10.0)]).sort_values("time")  # of two instruments without names
    said = []
    sf.grid(twice, say=said.append, **HOW)
    assert "differ in" not in "\n".join(said)


def test_a_wide_table_of_stations_at_one_place_is_read_though_a_field_is_none(tmp_path):
    hours = pd.date_range("2024-05-01", periods=HOURS, freq="h", tz="UTC")
    wide = pd.DataFrame({"time": hours, "A": "1.5", "B": "2.5"})
    wide.loc[7, "A"] = "off"
    wide.to_csv(tmp_path / "wide.csv", index=False)
    frames = sf.grid(tmp_path / "wide.csv", places={"A": (50.0, 7.0), "B": (50.0, 7.0)}, cell="0.1deg", every="1h")
    assert frames["value"].values.ravel().tolist() == [2.0] * 7 + [2.5] + [2.0] * (HOURS - 8)
