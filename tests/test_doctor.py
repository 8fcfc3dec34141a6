"""The data doctor: every fault that is planted is found where it was planted, and a clean table has none."""

import json
from pathlib import Path

import matplotlib.dates
import numpy as np
import pandas as pd
import pytest

from shared import solid
from solidfield import grid
from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.plot.readings import check_figure, time_edges
from solidfield.readings import open_table
from solidfield.readings.doctor.coverage import Candidate, choose
from solidfield.readings.doctor.diagnose import diagnose
from solidfield.readings.doctor.findings import kind_of, limits_of
from solidfield.readings.doctor.locations import places_of
from solidfield.readings.doctor.outlook import _window
from solidfield.readings.doctor.reservoir import Keeper
from solidfield.readings.doctor.time_shifts import best_lags, peak_hour

KOLKATA = Path(__file__).parents[2] / "shared" / "data" / "kolkata"
SENSORS, DAYS = 12, 12
HOURS = 24 * DAYS


def clean(name: str = "pm2_5", level: float = 40.0, named: bool = True) -> pd.DataFrame:
    """Hourly readings of fixed sensors about Delhi: an afternoon peak, weather they share, noise of their own."""
    draws = numpy_generator("doctor")
    hour = np.arange(HOURS)
    weather = np.convolve(draws.standard_normal(HOURS + 11), np.ones(12) / np.sqrt(12), "valid")
    daily = np.cos(2 * np.pi * (hour + 77.2 / 15 - 15) / 24)  # 15 h by the sun
    own = 0.5 * draws.standard_normal((HOURS, SENSORS)) + draws.standard_normal(SENSORS)
    value = level + 4 * daily[:, None] + 3 * weather[:, None] + own
    place = np.round(np.stack([28.5 + 0.2 * draws.random(SENSORS), 77.1 + 0.2 * draws.random(SENSORS)]), 5)
    time = pd.date_range("2023-03-01", periods=HOURS, freq="h", tz="UTC")
    table = pd.DataFrame(
        {
            "time": np.repeat(time, SENSORS),
            "lat": np.tile(place[0], HOURS),
            "lon": np.tile(place[1], HOURS),
            name: value.ravel(),
            "sensor": np.tile([f"s{i:02d}" for i in range(SENSORS)], HOURS),
        }
    )
    return table if named else table.drop(columns="sensor")


def look(frame: pd.DataFrame, **options):
    return diagnose(open_table(frame, **options))


def only(diagnosis, what: str):
    """The one finding of this kind."""
    found = diagnosis.found(what)
    assert len(found) == 1, [finding.text for finding in diagnosis.findings]
    return found[0]


def lines(finding) -> list[int]:
    return [row for _, row in finding.examples]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("name", "level"), [("pm2_5", 40.0), ("temperature", 20.0), ("depth", 100.0)])
def test_a_clean_table_has_no_finding(name, level, named):
    found = look(clean(name, level, named))
    assert found.findings == ()
    assert (found.rows, found.refused, found.sensors, found.places) == (HOURS * SENSORS, 0, SENSORS, SENSORS)
    assert found.identity == ("sensor" if named else "place")
    assert (found.interval, found.kept_share) == (3600.0, 1.0)
    assert (found.first, found.last) == ("2023-03-01T00:00:00Z", "2023-03-12T23:00:00Z")


def test_duplicates_are_exact_or_conflicting():
    frame = clean()
    copies, other = frame.iloc[[10, 500]], frame.iloc[[77]].assign(pm2_5=99.0)
    found = look(pd.concat([frame, copies, other], ignore_index=True))
    assert only(found, "duplicates").count == 2
    assert only(found, "conflicts").count == 1
    assert lines(only(found, "conflicts"))[0] in (79, HOURS * SENSORS + 4)  # either of the two that disagree
    assert set(lines(only(found, "duplicates"))) == {HOURS * SENSORS + 2, HOURS * SENSORS + 3}


def test_gaps_are_counted_in_readings_that_were_due():
    """Sensor 3 is silent for 30 hours: one gap, 30 readings of 3,456 missing; then all are, for 4 days of 12."""
    frame = clean()
    hour = np.repeat(np.arange(HOURS), SENSORS)
    hole = (frame["sensor"] == "s03") & (hour >= 100) & (hour < 130)
    found = only(look(frame[~hole]), "gaps")
    assert found.count == 1
    assert "1 % of the readings" in found.text
    assert "31 h (sensor s03)" in found.text
    silent = look(frame[(hour < 48) | (hour >= 144)])
    assert "from 2023-03-02T23:00 to 2023-03-07T00:00" in only(silent, "silence").text


def test_a_stuck_sensor_is_found_with_its_first_row():
    frame = clean()
    rows = np.flatnonzero(frame["sensor"] == "s05")[50:62]
    frame.loc[rows, "pm2_5"] = 41.5
    found = only(look(frame), "stuck")
    assert found.count == 12
    assert "longest: 12 times 41.5 (sensor s05)" in found.text
    assert lines(found) == [rows[0] + 2]


def test_coarse_readings_and_dry_spells_are_not_stuck():
    """Whole numbers repeat by themselves; rain rests at zero for days."""
    frame = clean()
    assert look(frame.assign(pm2_5=frame["pm2_5"].round())).found("stuck") == ()
    rain = clean("rain")
    assert look(rain.assign(rain=(rain["rain"] - 45).clip(lower=0))).found("stuck") == ()


def test_saturated_air_is_not_stuck_and_a_sensor_that_is_alone_at_the_top_is():
    humid = clean("humidity", 60.0)
    humid.loc[100 * SENSORS : 160 * SENSORS, "humidity"] = 100.0  # sixty hours of fog, everywhere
    assert look(humid).found("stuck") == ()
    alone = clean("humidity", 60.0)
    rows = np.flatnonzero(alone["sensor"] == "s05")
    alone.loc[rows, "humidity"] = 100.0
    assert "(sensor s05)" in only(look(alone), "stuck").text


def test_showers_are_neither_spikes_nor_outliers_and_a_code_among_them_is():
    """Four hours in five are dry: they do not tell how far rain scatters, nor by how much it changes."""
    draws, rain = numpy_generator("showers"), clean("rain")
    wet = np.repeat(draws.random(HOURS) < 0.2, SENSORS)
    rain["rain"] = np.where(wet, np.exp(0.9 * draws.standard_normal(len(rain))), 0).round(1)
    found = look(rain)
    assert found.found("outliers") == found.found("spikes") == ()
    rain.loc[700, "rain"] = 9998.0
    assert lines(only(look(rain), "outliers")) == [702]
    rain.loc[700, "rain"] = 9999.0  # a code for no value, and no reading at all
    assert [one.row for one in look(rain).refused_examples] == [702]


def test_a_spike_and_a_jumping_sensor():
    frame = clean()
    frame.loc[1000, "pm2_5"] += 60
    assert lines(only(look(frame), "spikes")) == [1002]
    wild = frame["sensor"] == "s07"
    noise = 15 * numpy_generator("jump").standard_normal(int(wild.sum()))
    frame.loc[wild, "pm2_5"] += noise + 60
    found = only(look(frame), "jumping")
    assert found.count == 1
    assert "(sensor s07)" in found.text


@pytest.mark.parametrize(
    ("name", "units", "value"),
    [
        ("pm2_5", "ug/m3", -3.0),
        ("humidity", "%", 104.0),
        ("temperature", "degC", 999.0),
        ("t2m", "K", 20.0),
        ("pressure", "hPa", 10.0),
    ],
)
def test_impossible_values_by_kind_and_units(name, units, value):
    level = {"t2m": 290.0, "pressure": 1000.0, "temperature": 20.0}.get(name, 40.0)
    frame = clean(name, level)
    assert look(frame, units=units).found("impossible") == ()
    frame.loc[[30, 99], name] = value
    found = only(look(frame, units=units), "impossible")
    assert (found.severity, found.count, lines(found)) == ("fault", 2, [32, 101])


def test_kinds_and_limits():
    assert [kind_of(name, "") for name in ("PM10", "rh", "air_temp", "o3", "wind_speed")] == [
        "concentration", "humidity", "temperature", "concentration", "wind speed",
    ]  # fmt: skip
    assert limits_of("anything", "") == (-np.inf, np.inf)
    assert limits_of("x", "µg/m³") == (0.0, np.inf)
    assert limits_of("x", "K") == (150.0, 350.0)


@pytest.mark.parametrize(
    ("name", "level", "slip", "undo"),
    [
        ("pm2_5", 40.0, lambda v: 1000 * v, "divide by 1000"),
        ("pm2_5", 40.0, lambda v: v / 1000, "multiply by 1000"),
        ("temperature", 20.0, lambda v: v + 273.15, "subtract 273.15"),
        ("temperature", 290.0, lambda v: v - 273.15, "add 273.15"),
        ("temperature", 20.0, lambda v: 1.8 * v + 32, "(v - 32) / 1.8"),
    ],
)
def test_a_unit_slip_of_one_sensor_or_one_file(tmp_path, name, level, slip, undo):
    frame = clean(name, level)
    wrong = frame["sensor"] == "s04"
    slipped = frame.copy()
    slipped.loc[wrong, name] = slip(slipped.loc[wrong, name])
    found = only(look(slipped), "unit-slip")
    assert (found.severity, found.count) == ("fault", HOURS)
    assert "sensor s04" in found.text
    assert undo in found.remedy
    assert lines(found) == (np.flatnonzero(wrong)[:5] + 2).tolist()
    frame[: SENSORS * 200].to_csv(tmp_path / "a.csv", index=False)
    late = frame[SENSORS * 200 :]
    late.assign(**{name: slip(late[name])}).to_csv(tmp_path / "b.csv", index=False)
    by_file = diagnose(open_table([tmp_path / "a.csv", tmp_path / "b.csv"])).found("unit-slip")
    assert "b.csv" in by_file[0].text


def test_a_label_that_contradicts_the_values():
    frame = clean("temperature", 20.0)
    assert look(frame, units="degC").found("units") == ()
    assert "looks like degC" in only(look(frame, units="K"), "units").text


def test_outliers_are_named_with_the_option_that_drops_them():
    frame = clean()
    frame.loc[[5, 700], "pm2_5"] = [400.0, 1775.0]
    found = only(look(frame), "outliers")
    assert (found.count, lines(found)) == (2, [7, 702])
    assert "--drop-above 2" in found.remedy  # halfway between about 55 and 400


def test_times_without_a_zone_and_a_peak_at_night():
    frame = clean("temperature", 20.0)
    naive = frame.assign(time=frame["time"].dt.tz_localize(None))
    assert "taken as UTC" in only(look(naive), "time-zone").text
    assert look(naive, timezone="UTC").found("time-zone") == ()
    local = naive.assign(time=naive["time"] + pd.Timedelta("8.5h"))  # the clock of a zone at +08:30
    found = only(look(local, timezone="UTC"), "time-zone")
    assert "off by about 9 h" in found.text  # a peak at 15 h by the sun seems to be at 23:30, 9 h from the usual 14:30
    assert look(local, timezone="+08:30").found("time-zone") == ()


@pytest.mark.parametrize("hours", [-5, 6])
def test_a_sensor_on_another_clock(hours):
    frame = clean("depth", 100.0)
    wrong = frame["sensor"] == "s09"
    frame.loc[wrong, "time"] += pd.Timedelta(hours=hours)
    found = only(look(frame), "clock")
    assert found.count == HOURS
    assert f"sensor s09 says the same as the others, but {abs(hours)} h" in found.text
    assert ("later" if hours > 0 else "earlier") in found.text


def test_lags_and_peaks_in_closed_form():
    hour = np.arange(24 * 8)
    series = numpy_generator("lags").standard_normal(len(hour) + 20)
    values = np.stack([series[10:-10], series[10:-10], series[10:-10], series[7:-13]])  # the last is 3 h late
    sensor = np.repeat(np.arange(4), len(hour))
    time = np.tile(hour, 4) * 3600 * 10**9
    assert best_lags(values.ravel(), time, sensor, 4).tolist() == [0, 0, 0, 3]
    wave = np.cos(2 * np.pi * (hour - 8.5) / 24)
    assert peak_hour(wave, hour * 3600 * 10**9) == pytest.approx(8.5)
    assert peak_hour(series[: len(hour)], hour * 3600 * 10**9) is None


def test_longitudes_of_two_conventions():
    frame = clean().assign(lon=lambda f: f["lon"] - 150)  # west of Greenwich
    assert look(frame).found("longitude") == ()
    everywhere = frame.assign(lon=frame["lon"] + 360)
    assert look(everywhere).found("longitude") == ()
    frame.loc[::7, "lon"] += 360
    found = look(frame)
    assert only(found, "longitude").severity == "doubt"
    assert found.places == SENSORS  # both conventions mean the same places


def test_swapped_zero_and_far_places():
    frame = clean()
    frame.loc[100, ["lat", "lon"]] = frame.loc[100, ["lon", "lat"]].tolist()
    frame.loc[200, ["lat", "lon"]] = 0.0
    frame.loc[300, ["lat", "lon"]] = [45.0, 77.2]
    found = look(frame)
    for what, row in (("swapped", 102), ("far", 302)):
        assert lines(only(found, what)) == [row]
    assert [(one.row, one.reason[:10]) for one in found.refused_examples] == [(202, "at 0, 0, f")]
    assert found.box == look(clean()).box


def test_a_word_for_no_value_is_worth_knowing_and_strange_fields_are_a_fault():
    frame = clean().astype({"pm2_5": object})
    frame.loc[::10, "pm2_5"] = "NoData"
    word = only(look(frame, columns={"value": "pm2_5"}), "refused")
    assert word.severity == "note"
    assert "times 'NoData')" in word.text
    frame.loc[::10, "pm2_5"] = [f"bad {number}" for number in range(len(frame.loc[::10]))]
    assert only(look(frame, columns={"value": "pm2_5"}), "refused").severity == "fault"


@pytest.mark.parametrize("stations", [5, 6, 9, SENSORS])
def test_one_station_of_a_few_that_slipped_is_named_and_the_map_says_so(stations):
    frame = clean()
    frame = frame[frame["sensor"] < f"s{stations:02d}"]
    one = frame["sensor"] == "s01"
    slips = {
        "swapped": frame.assign(lat=frame["lat"].where(~one, frame["lon"]), lon=frame["lon"].where(~one, frame["lat"])),
        "sign": frame.assign(lon=frame["lon"].where(~one, -frame["lon"])),
        "far": frame.assign(lat=frame["lat"].where(~one, frame["lat"] + 9)),
    }
    for what, wrong in slips.items():
        (finding,) = (finding for finding in look(wrong).findings if finding.what in slips)
        assert finding.what == what
        assert f"{HOURS:,} readings of sensor s01" in finding.text
    for readings, expected in ((slips["far"], True), (frame, False)):
        said = []
        grid(readings, cell="1km", every="4d", say=said.append)
        assert (f"1 of {stations} cells that were read lie far from all others" in "\n".join(said)) is expected


@pytest.mark.parametrize("seed", range(20))
def test_no_station_of_an_ordinary_network_is_far(seed):
    draws = numpy_generator("network", seed)
    count = int(draws.integers(5, 40))
    scattered, line = draws.random((2, count)), np.stack([draws.random(count), 1e-3 * draws.random(count)])
    town = np.concatenate([0.3 * draws.random((2, count)), draws.random((2, 1 + count // 8))], axis=1)
    two = np.concatenate([0.1 * draws.random((2, count)), 3 + 0.1 * draws.random((2, 2 + count // 10))], axis=1)
    for y, x in (scattered, line, town, two):
        for lat, lon in ((50 + y, 8 + x), (y - 0.5, x - 0.5), (40 + y, 40 + x)):  # also about 0, 0 and the diagonal
            places = places_of(np.repeat(lat, 3), np.repeat(lon, 3), 1e-5)
            assert not places.far.any()


def test_an_old_record_is_no_lost_clock():
    frame = clean()
    assert not look(frame.assign(time=frame.time - pd.Timedelta("25000d"))).found("unset-clock")


def test_a_clock_that_lost_its_time():
    frame = clean()
    frame.loc[40, "time"] = pd.Timestamp("1970-01-01T00:07", tz="UTC")
    assert lines(only(look(frame), "unset-clock")) == [42]


def test_a_column_of_row_numbers_is_no_sensor():
    found = look(clean().assign(sensor=lambda f: np.arange(len(f))))
    assert found.identity == "none"
    assert only(found, "identity").severity == "doubt"


def test_moving_readings_have_no_identity():
    frame = clean(named=False)
    frame[["lat", "lon"]] += 0.05 * numpy_generator("moving").random((len(frame), 2))
    found = look(frame)
    assert (found.identity, found.sensors) == ("none", 0)
    assert only(found, "identity").severity == "note"
    assert found.chosen is not None


def test_candidates_count_what_brute_force_counts():
    """Three sensors, of which one skips every second hour, on whole degrees."""
    hours = pd.date_range("2023-01-01", periods=48, freq="h", tz="UTC")
    rows = [
        (t, lat, 10.0 + k, 1.0 + k)
        for i, t in enumerate(hours)
        for k, lat in enumerate((50.0, 51.0, 52.0))
        if k < 2 or i % 2
    ]
    found = look(pd.DataFrame(rows, columns=["time", "lat", "lon", "depth"]))
    first = found.candidates[0]
    assert (first.cell, first.every, first.shape) == ("1deg", "1h", (3, 3))
    assert (first.frames, first.filled, first.pairs, first.never) == (48, 48, 47, 6)
    assert first.share == pytest.approx((2 * 48 + 24) / (48 * 9))
    assert first.overlap == pytest.approx(2 * 47 / (2 * 47 + 24))  # the third cell was never seen an hour before
    double = next(c for c in found.candidates if (c.cell, c.every) == ("1deg", "2h"))
    assert (double.filled, double.share) == (24, pytest.approx(3 / 9))


def test_the_outlook_is_frank():
    found = look(clean())
    assert "287 pairs of consecutive frames: below about 500" in found.outlook[0]
    assert "only 287 pairs" in found.reason


@pytest.mark.parametrize("numbers", [2**24, 6000])
def test_chunks_change_nothing(numbers):
    """All rows kept, or a third of the days: the diagnosis is the same for chunks of any size."""
    frame = clean()
    frame.loc[1000, "pm2_5"] += 60
    frame = pd.concat([frame, frame.iloc[::50]], ignore_index=True)
    whole, parts = (diagnose(open_table(frame), rows=rows, numbers=numbers).as_dict() for rows in (10**6, 97))
    assert whole == parts
    assert (whole["kept_share"] == 1) == (numbers == 2**24)


def test_what_is_kept_are_whole_days_within_the_memory():
    """Rows in any order: the same days, each complete, and no more numbers than allowed."""
    frame = clean()
    sizes = []
    for table in (frame, frame.sample(frac=1, random_state=1)):
        keeper = Keeper(numbers=8 * 1000)
        for rows, _ in open_table(table).chunks(301):
            keeper.add(rows)
        kept = keeper.result()
        days, count = np.unique(kept.time // (86_400 * 10**9), return_counts=True)
        assert (count == 24 * SENSORS).all()
        assert len(kept) <= 1000
        sizes.append(days.tolist())
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 3
    keeper = Keeper(numbers=8 * 100)  # less than a day: whole sensors of one day
    for rows, _ in open_table(frame).chunks(301):
        keeper.add(rows)
    kept = keeper.result()
    assert len(np.unique(kept.time // (86_400 * 10**9))) == 1
    assert np.unique(kept.who, return_counts=True)[1].tolist() == [24] * 4


def test_empty_fields_are_silence_and_no_fault():
    """However many rows hold no value; a field that cannot be read is still told apart from them, with its row."""
    frame = clean().astype({"pm2_5": object})
    frame.loc[::2, "pm2_5"] = np.nan
    frame.loc[HOURS * SENSORS - 1, "pm2_5"] = "n/a!"
    found = {one.what: one for one in look(frame, columns={"value": "pm2_5"}).findings}
    assert (found["no-value"].severity, found["no-value"].count) == ("note", HOURS * SENSORS / 2)
    assert (found["refused"].count, found["refused"].examples) == (1, (("DataFrame", HOURS * SENSORS + 1),))


def test_the_verb_prints_draws_and_lists_refusals(tmp_path):
    frame = clean().astype({"pm2_5": object})
    frame.loc[3, "pm2_5"] = "n/a!"
    frame.loc[9, "lat"] = 123.0
    path, side, page = tmp_path / "readings.csv", tmp_path / "refused.csv", tmp_path / "check.png"
    frame.to_csv(path, index=False)
    printed = solid("check", path, "--refused", side, "--figure", page)
    for word in ("2 fields refused", "suggested", "solid grid --cell", "outlook"):
        assert word in printed
    assert pd.read_csv(side)["row"].tolist() == [5, 11]
    assert page.read_bytes()[:4] == b"\x89PNG"
    report = json.loads(solid("check", path, "--json"))
    assert (report["rows"], report["refused"]) == (HOURS * SENSORS - 2, 2)
    assert report["findings"][0]["what"] == "refused"
    with pytest.raises(SolidError, match="never written over"):
        solid("check", path, "--refused", side)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "empty"), ("time,lat,lon,pm\n", "no rows"), (None, "no file")],
)
def test_what_cannot_be_read_is_an_error(tmp_path, text, message):
    path = tmp_path / "readings.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SolidError, match=message):
        solid("check", path)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("2023-01-01T00:00Z,1,2,3\n", (1, 1)),
        ("2023-01-01T00:00Z,1,2,\n2023-01-01T01:00Z,1,2,nan\n", (0, 0)),
        ("yesterday,1,2,3\n", (0, 0)),
        ("".join(f"2023-01-01T{h:02d}:00Z,1,2,{h}\n" for h in range(24)), (24, 1)),
    ],
    ids=["one row", "all NaN", "no time", "one sensor"],
)
def test_poor_tables_get_a_correct_diagnosis(tmp_path, rows, expected):
    path = tmp_path / "readings.csv"
    path.write_text("time,lat,lon,pm\n" + rows)
    found = diagnose(open_table(path, columns={"value": "pm"}))
    assert (found.rows, found.places) == expected
    assert (found.rows == 0) == bool(found.found("empty"))
    printed = solid("check", path, "--columns", "value=pm", "--json")
    json.loads(printed, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert len(check_figure(found).axes) in (4, 5)  # the map's colour bar, where there is a map


@pytest.mark.parametrize(("every", "steps"), [("1D", 274), ("10min", 3_024), ("1h", 7)])
def test_a_record_without_gaps_is_drawn_without_stripes(every, steps):
    """Every bin but the last is as wide as every other in readings, for it holds whole steps."""
    time = pd.date_range("2024-01-01", periods=steps, freq=every)
    edges = time_edges(time.to_numpy(), pd.Timedelta(every).total_seconds())
    count, _ = np.histogram(matplotlib.dates.date2num(time.to_numpy()), bins=edges)
    assert count.sum() == steps
    assert (count[:-1] == count[0]).all()
    assert len(count) <= 121


@pytest.mark.skipif(not KOLKATA.is_dir(), reason="the Kolkata readings are not beside the project")
def test_kolkata():
    """The counts of the data's README; four single rows lie above 400 (three cells do, once averaged)."""
    found = diagnose(open_table(KOLKATA, timezone="+05:30"))
    assert (found.rows, found.refused, found.places) == (104_447, 0, 144)
    assert only(found, "conflicts").count == 6_647
    assert found.found("duplicates") == ()
    assert 4 <= only(found, "outliers").count <= 8
    assert ("Mobile_Autumn.csv", 10_143) in [(Path(f).name, row) for f, row in only(found, "outliers").examples]
    assert (found.chosen.cell, found.chosen.every, found.chosen.shape) == ("0.01deg", "1h", (19, 18))
    assert (found.chosen.filled, found.chosen.never) == (3_255, 198)
    assert {finding.severity for finding in found.findings} == {"doubt", "note"}


def test_a_network_of_stations_gets_its_own_step_and_cells_of_half_its_spacing():
    """Hourly stations 5 km apart, coordinates to 0.001 degrees, beside columns that only repeat the time."""
    draws = numpy_generator(0, "network")
    row, column = np.divmod(np.arange(36), 6)
    lat = np.round(40 + 0.045 * row + draws.uniform(-0.004, 0.004, 36), 3)
    lon = np.round(116 + 0.0587 * column + draws.uniform(-0.004, 0.004, 36), 3)
    times = pd.date_range("2024-01-01", periods=800, freq="h", tz="UTC")
    table = pd.DataFrame({"time": np.repeat(times, 36), "hour": np.repeat(times.hour, 36), "month": 1})
    table = table.assign(lat=np.tile(lat, 800), lon=np.tile(lon, 800), pm=draws.gamma(4, 10, len(table)))
    found = diagnose(open_table(table))
    assert [one.name for one in found.statistics] == ["pm"]
    assert (found.chosen.cell, found.chosen.every) == ("2km", "1h")


@pytest.mark.parametrize(("lag", "steps"), [(0.5, "3 steps"), (0.2**0.25 + 1e-9, "5 steps"), (0.99, "18 or more")])
def test_a_window_lasts_as_long_as_a_reading_is_worth_knowing(lag, steps):
    """Correlations of lag, lag^2, ...: the first step at which they fall below a fifth."""
    assert f"about {steps}" in _window(lag, "1h")
    assert "1 frame is enough" in _window(0.1, "1h")


@pytest.mark.parametrize(("seen", "every"), [((0.029, 0.031, 0.031), "1h"), ((0.02, 0.04, 0.06), "2h")])
def test_a_longer_step_is_suggested_only_where_it_sees_more_of_the_cells(seen, every):
    grids = [
        Candidate(cell, step, (size, size), shape, 1000, 1000, share, 999, 0.9, 0)
        for cell, size, shape in (("1km", 1.0, (30, 30)), ("2km", 2.0, (15, 15)))
        for step, share in zip(("1h", "2h", "3h"), seen, strict=True)
    ]
    found = choose(tuple(grids))
    assert found is not None
    assert (found[0].cell, found[0].every) == ("1km", every)


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_places_in_any_unit_of_length_stay_apart(scale):
    """Millimetres of a laboratory, kilometres, metres: a place is not as large as a unit."""
    frame = clean().drop(columns="sensor").rename(columns={"lat": "y", "lon": "x"})
    frame = frame.assign(y=scale * (frame.y - frame.y.min()), x=scale * (frame.x - frame.x.min()))
    assert look(frame).places == SENSORS


def test_frames_of_seconds_are_suggested_for_readings_of_seconds():
    frame = clean()
    start = frame.time.min()
    quick = frame.assign(time=start + (frame.time - start) / 36_000)
    assert look(quick).chosen.every == "0.1s"


def test_degrees_called_x_and_y_are_doubted_and_may_be_told():
    frame = clean().rename(columns={"lat": "Y", "lon": "X"})
    found = look(frame)
    assert any("taken for lengths" in note for note in found.notes)
    told = look(frame, columns={"lat": "Y", "lon": "X"})
    assert (found.geographic, told.geographic) == (False, True)
    assert not any("taken for lengths" in note for note in told.notes)
    assert told.candidates == look(clean()).candidates


@pytest.mark.parametrize("marks", [("V", "S"), (1, 4)])
def test_marks_of_quality_are_no_readings_and_that_is_said(marks):
    frame = clean().assign(qc_flag=np.resize(marks, len(clean())))
    found = look(frame)
    assert [one.name for one in found.statistics] == ["pm2_5"]
    assert any(note.startswith("qc_flag: how sound readings are, left out") for note in found.notes)
