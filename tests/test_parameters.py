"""A column that says what was read makes a variable of each quantity, as if they stood side by side."""

import numpy as np
import pandas as pd
import pytest

import solidfield as sf
from solidfield.errors import SolidError

HOW = {"cell": "0.1deg", "every": "1h", "timezone": "UTC"}
HOURS, PLACES = 60, 4


def beside():
    """Two quantities side by side, some missing."""
    draws = np.random.default_rng(5)
    hour, place = np.repeat(np.arange(HOURS), PLACES), np.tile(np.arange(PLACES), HOURS)
    table = pd.DataFrame({"time": pd.Timestamp("2024-05-01") + pd.to_timedelta(hour, unit="h"), "station": place})
    table = table.assign(lat=50 + 0.1 * place, lon=7 + 0.2 * place)
    for name, level in (("no2", 3.0), ("o3", 4.0)):
        values = draws.lognormal(level, 0.3, len(table)).round(2)
        table[name] = np.where(draws.random(len(table)) < 0.2, np.nan, values)
    return table


def tidy(table, unit="ug/m3"):
    long = table.melt(["time", "station", "lat", "lon"], ["no2", "o3"], "parameter", "value").assign(unit=unit)
    return long.sort_values(["time", "station"], kind="stable")


def same(one, other):
    return all(np.array_equal(one[name].values, other[name].values, equal_nan=True) for name in ("no2", "o3"))


@pytest.mark.parametrize("rows", [5, 100_000])
@pytest.mark.parametrize("order", [["time", "station"], ["parameter", "time"]])
def test_quantities_in_rows_are_those_side_by_side(tmp_path, rows, order):
    tidy(beside()).sort_values(order, kind="stable").to_csv(tmp_path / "tidy.csv", index=False)
    frames = sf.grid(tmp_path / "tidy.csv", rows=rows, **HOW)
    assert same(frames, sf.grid(beside(), variables=["no2", "o3"], **HOW))
    assert frames["no2"].attrs["units"] == "ug/m3"


def test_one_quantity_may_be_chosen_and_names_may_be_told():
    odd = tidy(beside()).rename(columns={"parameter": "was", "value": "wieviel"})
    columns = {"parameter": "was", "value": "wieviel"}
    assert same(sf.grid(odd, columns=columns, **HOW), sf.grid(beside(), variables=["no2", "o3"], **HOW))
    only = sf.grid(tidy(beside()), variables=["o3"], **HOW)
    assert only.attrs["variables"] == "o3"


def test_a_table_of_one_quantity_has_its_name_and_unit():
    one = tidy(beside())
    frames = sf.grid(one[one.parameter == "o3"], **HOW)
    assert (frames.attrs["variables"], frames["o3"].attrs["units"]) == ("o3", "ug/m3")


def test_units_of_one_quantity_are_never_averaged():
    table = tidy(beside())
    table["unit"] = np.where((table.parameter == "no2") & (table.station == 3), "ppb", table.unit)
    said = []
    frames = sf.grid(table, say=said.append, **HOW)
    units = {frames[name].attrs["units"]: name for name in frames.attrs["variables"].split() if name.startswith("no2")}
    assert set(units) == {"ug/m3", "ppb"}
    assert any("no2 is given in ug/m3, ppb: a variable for each" in words for words in said)
    read = np.isfinite(frames[units["ppb"]].values).any(0)
    assert read.sum() == 1  # the station that reads parts per billion, and no other


def test_rows_of_two_quantities_are_no_conflict():
    found = sf.check(tidy(beside()), timezone="UTC")
    assert not found.found("conflicts")
    assert not found.found("missing")
    twice = pd.concat([tidy(beside()), tidy(beside()).assign(value=1.0).iloc[:7]])
    assert found.rows == len(tidy(beside()).dropna())
    assert sf.check(twice, timezone="UTC").found("conflicts")


def test_places_and_quantities_may_both_stand_elsewhere():
    where = {str(n): (50 + 0.1 * n, 7 + 0.2 * n) for n in range(PLACES)}
    frames = sf.grid(tidy(beside()).drop(columns=["lat", "lon"]), places=where, **HOW)
    assert same(frames, sf.grid(beside(), variables=["no2", "o3"], **HOW))


@pytest.mark.parametrize(
    ("change", "columns", "words"),
    [
        (lambda table: table.rename(columns={"value": "x1"}), None, r"says what was read \(no2, o3\).*value=NAME"),
        (lambda table: table, {"parameter": "kind"}, "no column 'kind' for parameter"),
        (lambda table: table.assign(parameter=[f"q{n}" for n in range(len(table))]), None, "480 quantities, more than"),
    ],
)
def test_what_cannot_be_told_apart_is_refused_in_a_line(change, columns, words):
    with pytest.raises(SolidError, match=words):
        sf.grid(change(tidy(beside())), columns=columns, **HOW)


def parts(table):
    named = {part: getattr(table.time.dt, part) for part in ("year", "month", "day", "hour")}
    return table.drop(columns="time").assign(**named)


def test_a_time_in_parts_is_the_time(tmp_path):
    table = beside()
    want = sf.grid(table, variables=["no2", "o3"], **HOW)
    parts(table).assign(No=range(7, len(table) + 7)).to_csv(tmp_path / "parts.csv", index=False)
    said = []
    frames = sf.grid(tmp_path / "parts.csv", say=said.append, **HOW)
    assert same(frames, want)
    assert any(words.startswith("No: numbers of rows") for words in said)
    german = parts(table).rename(columns={"year": "Jahr", "month": "Monat", "day": "Tag", "hour": "Stunde"})
    assert same(sf.grid(german, variables=["no2", "o3"], **HOW), want)
    told = german.rename(columns={"Jahr": "a", "Monat": "b", "Tag": "c", "Stunde": "d"})
    assert same(sf.grid(told, variables=["no2", "o3"], columns={"time": "a+b+c+d"}, **HOW), want)


def test_a_day_that_is_none_is_refused_by_row(tmp_path):
    table = parts(beside())
    table.loc[3, ["month", "day"]] = (2, 30)
    table.loc[5, "hour"] = 25
    table.to_csv(tmp_path / "parts.csv", index=False)
    found = sf.check(tmp_path / "parts.csv", timezone="UTC")
    assert [(one.row, one.text) for one in found.refused_examples if one.text] == [
        (5, "2024 2 30 0"),
        (7, "2024 5 1 25"),
    ]


def test_times_of_day_go_with_the_date_of_their_zone():
    """Two dates and two times, as some agencies give them: those in GMT are taken, and are UTC without a word."""
    table = beside()
    local = table.time - pd.Timedelta("6h")
    stamps = {"Date Local": local.dt.strftime("%Y-%m-%d"), "Time Local": local.dt.strftime("%H:%M")}
    stamps |= {"Date GMT": table.time.dt.strftime("%Y-%m-%d"), "Time GMT": table.time.dt.strftime("%H:%M")}
    said = []
    frames = sf.grid(table.drop(columns="time").assign(**stamps), cell="0.1deg", every="1h", say=said.append)
    assert same(frames, sf.grid(table, **HOW))
    assert not any("taken as UTC" in words for words in said)


def test_quantities_none_of_which_can_be_read_are_said_to_be_so():
    table = tidy(beside()).assign(time="never")
    assert sf.check(table, timezone="UTC").found("empty")


def test_a_column_that_says_no_such_thing_can_be_told_so():
    trees = beside().assign(species=lambda table: np.where(table.station > 1, "oak", "elm"))
    with pytest.raises(SolidError, match="parameter=none"):
        sf.grid(trees, **HOW)
    assert same(sf.grid(trees, columns={"parameter": "none"}, **HOW), sf.grid(beside(), **HOW))
