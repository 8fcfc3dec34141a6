"""One instant, however it is written; and no guess where a date can be read two ways."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solidfield.clock import zone
from solidfield.errors import SolidError
from solidfield.readings import open_table
from solidfield.readings.dates import AMBIGUOUS, SHORT
from solidfield.readings.times import TWICE, TimeFormat, find_format, to_utc

NOON = np.datetime64("2024-03-05T12:00:00", "ns")


def one(text, **clock):
    times, reasons = to_utc(pd.Series([text]), TimeFormat(**clock))
    return times[0] if not np.isnat(times[0]) else reasons[0]


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05T12:00:00Z",
        "2024-03-05 12:00",
        "2024/03/05 12:00:00",
        "2024-03-05T17:30:00+05:30",
        "2024-03-05T17:30:00 +0530",
        "2024-03-05 07:00:00-05",
        "2024-03-05 12:00:00 UTC",
        "20240305T120000Z",
        "1709640000",
        "1709640000.0",
        "1709640000000",
        "20240305120000",
        "202403051200",
    ],
)
def test_forms_of_one_instant(text):
    assert one(text) == NOON


@pytest.mark.parametrize(
    "text", ["now", "today", "12", "45356.5", "2024-13-01", "2024-02-30", "noon", "-5", "2024-03-05 25:00"]
)
def test_what_is_no_time_is_refused(text):
    assert isinstance(one(text), str)


def test_day_or_month_first():
    assert one("5/3/2024 12:00", order="dayfirst") == one("3/5/2024 12:00", order="monthfirst") == NOON
    assert one("05.03.24 12:00 PM", order="dayfirst") == NOON
    assert one("5/3/2024 12:00") == AMBIGUOUS
    assert one("13/3/2024") == one("3/13/2024") == np.datetime64("2024-03-13", "ns")
    assert one("4/4/2024") == np.datetime64("2024-04-04", "ns")  # both readings agree
    assert "month 13" in one("3/13/2024", order="dayfirst")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=8),
    st.integers(-14 * 4, 14 * 4),
    st.sampled_from(["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%d/%m/%Y %H:%M:%S"]),
    st.booleans(),
)
def test_fixed_width_bytes_read_like_texts_and_like_python(stamps, quarters, form, with_offset):
    """The fast way through digits, the slow way through strings and datetime itself agree."""
    zone = timezone(timedelta(minutes=15 * quarters))
    stamps = [stamp if "%f" in form else stamp.replace(microsecond=0) for stamp in stamps]
    texts = [stamp.strftime(form) for stamp in stamps]
    clock = TimeFormat(zone, "dayfirst")
    if with_offset:
        sign, minutes = "+-"[quarters < 0], abs(15 * quarters)
        texts = [f"{text}{sign}{minutes // 60:02d}:{minutes % 60:02d}" for text in texts]
        clock = TimeFormat(None, "dayfirst")
    expected = np.array(
        [np.datetime64(s.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None), "ns") for s in stamps]
    )
    slow, _ = to_utc(pd.Series(texts), clock)
    fast, _ = to_utc(np.array(texts, dtype="S"), clock)
    np.testing.assert_array_equal(slow, expected)
    np.testing.assert_array_equal(fast, expected)


def test_one_odd_row_among_fixed_ones_is_refused_alone():
    fields = np.array([b"2024-03-05 12:00", b"2024-13-05 12:00", b"2024-03-05 12:0x"])
    times, reasons = to_utc(fields, TimeFormat())
    assert times[0] == NOON
    assert np.isnat(times[1:]).all()
    assert list(reasons) == ["", "not a time", "not a time"]


def test_daylight_saving_hours_that_occur_twice_or_never_are_refused():
    berlin = zone("Europe/Berlin")
    assert one("2024-10-27 02:30", zone=berlin) == one("2024-03-31 02:30", zone=berlin) == TWICE
    assert one("2024-10-27 02:30+01:00", zone=berlin) == np.datetime64("2024-10-27T01:30", "ns")
    assert one("2024-07-01 02:30", zone=berlin) == np.datetime64("2024-07-01T00:30", "ns")


def test_zones_and_formats_that_are_none_are_named():
    with pytest.raises(SolidError, match="unknown time zone 'Atlantis'"):
        zone("Atlantis")
    with pytest.raises(SolidError, match="no date format 'european'"):
        find_format(None, "european")
    assert one("05|03|2024 12h", pattern="%d|%m|%Y %Hh") == NOON


def table(tmp_path, *dates, **options):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n" + "".join(f"{date},1,2,3\n" for date in dates))
    return open_table(tmp_path / "t.csv", **options)


def read(opened):
    chunks = list(opened.chunks())
    return [t for rows, _ in chunks for t in rows.time.astype("datetime64[D]").astype(str)], [
        one for _, bad in chunks for one in bad
    ]


def test_the_whole_file_decides_and_nothing_is_guessed(tmp_path):
    early = ["3/4/2024"] * 1500  # more than is looked at when the file is opened
    assert read(table(tmp_path, *early, "3/31/2024"))[0][0] == "2024-03-04"
    assert read(table(tmp_path, *early, "31/3/2024"))[0][0] == "2024-04-03"
    with pytest.raises(SolidError, match=r"ambiguous.*--date-format dayfirst or monthfirst"):
        table(tmp_path, *early)
    assert read(table(tmp_path, *early, dates="dayfirst"))[0][0] == "2024-04-03"
    days, refused = read(table(tmp_path, "3/4/2024", "3/31/2024", "31/3/2024", "2024-05-06"))
    assert days == ["2024-03-31", "2024-03-31", "2024-05-06"]
    assert [(bad.row, bad.reason) for bad in refused] == [(2, AMBIGUOUS)]


def test_a_file_that_cannot_tell_follows_the_others(tmp_path):
    for name, date in (("a", "3/4/2024"), ("b", "3/31/2024")):
        (tmp_path / f"{name}.csv").write_text(f"time,lat,lon,pm\n{date},1,2,3\n")
    assert read(open_table(tmp_path))[0] == ["2024-03-04", "2024-03-31"]


def test_an_assumed_zone_is_said(tmp_path):
    assert any("taken as UTC" in note for note in table(tmp_path, "2024-01-01 00:00").notes)
    assert table(tmp_path, "2024-01-01 00:00", timezone="UTC").notes == ()
    assert table(tmp_path, "2024-01-01 00:00Z").notes == ()
    assert table(tmp_path, "1709640000").notes == ()


def test_days_of_a_spreadsheet_are_the_dates_they_stand_for(tmp_path):
    times = pd.date_range("2023-12-31T18:07:03", periods=50, freq="53min")
    days = (times - pd.Timestamp("1899-12-30")) / pd.Timedelta("1D")
    readings = pd.DataFrame({"time": times, "lat": 1, "lon": 2, "pm": 3.5})
    for options in ({}, {"timezone": "+05:30"}):
        readings.assign(time=days).to_csv(tmp_path / "sheet.csv", index=False)
        found = open_table(tmp_path / "sheet.csv", **options)
        (sheet, refused), (plain, _) = next(found.chunks()), next(open_table(readings, **options).chunks())
        np.testing.assert_array_equal(sheet.time, plain.time)
        assert not refused
        assert any(note.startswith("'time' counts days since 1899-12-30, as spreadsheets do") for note in found.notes)


def test_seconds_of_a_run_are_no_days_of_a_spreadsheet():
    seconds = pd.DataFrame({"time": np.arange(0.0, 60_000, 100), "lat": 1, "lon": 2, "pm": 3.5})
    _, refused = next(open_table(seconds).chunks())
    assert len(refused) == len(seconds)
    assert "--date-format 'days since ...'" in refused[0].reason


DAYS = pd.date_range("2023-11-25", periods=100)
SHORT_FORMS = ("%y-%m-%d", "%d-%m-%y", "%m/%d/%y", "%y/%m/%d")


@pytest.mark.parametrize("form", SHORT_FORMS)
@pytest.mark.parametrize("days", [DAYS, DAYS[60:75], DAYS[::-1], DAYS[::30]], ids=["all", "weeks", "back", "monthly"])
def test_a_year_of_two_digits_is_found_by_how_the_dates_go_on(tmp_path, form, days):
    rows = [f"{day:{form}} {hour:02d}:00,1,2,3" for day in days for hour in (0, 12)]
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n" + "\n".join(rows) + "\n")
    (read, refused), *_ = open_table(tmp_path / "t.csv").chunks()
    assert not refused
    np.testing.assert_array_equal(
        read.time, np.repeat(days.to_numpy(), 2) + np.tile([0, 12], len(days)).astype("m8[h]")
    )


def test_dates_that_may_begin_with_a_day_or_a_year_are_refused_until_it_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("time,lat,lon,pm\n24-02-01 05:00,1,2,3\n24-02-01 06:00,1,2,3\n")
    with pytest.raises(SolidError, match=r"ambiguous: day or year first\? say --date-format dayfirst or yearfirst"):
        open_table(tmp_path / "t.csv")
    for order, day in (("yearfirst", "2024-02-01"), ("dayfirst", "2001-02-24")):
        assert one("24-02-01 05:00", order=order) == np.datetime64(f"{day}T05:00")
    assert one("24-02-01 05:00") == SHORT
    assert one("31/12/98", order="dayfirst") == np.datetime64("1998-12-31")  # no reading is of 2098 yet


def test_hour_24_is_the_end_of_its_day_on_the_local_clock():
    for text in ("2024-03-31 24:00", "31/03/2024 24:00:00", "31-Mar-2024 24:00"):
        assert one(text) == np.datetime64("2024-04-01")
        found, _ = to_utc(pd.Series([text]), find_format("Europe/Berlin", None))
        assert found[0] == np.datetime64("2024-03-31T22:00")  # 23 hours after that day began
    assert isinstance(one("2024-03-31 24:01"), str)


@pytest.mark.parametrize(
    "words", ["days since now", "hours since x", "days since 2024-13-01", "days since", "weeks since 2024"]
)
def test_what_counts_from_no_date_is_no_format(words):
    with pytest.raises(SolidError, match=r"no date format.*days since 1899-12-30"):
        find_format(None, words)


@pytest.mark.parametrize("unit", ["second", "minute", "hour", "day"])
@pytest.mark.parametrize("start", ["0000-12-31", "1858-11-17", "1900-01-01T12:30", "2024-05-01 10:00:05"])
@pytest.mark.parametrize("kind", [float, "texts", "bytes"])
def test_numbers_count_from_where_the_user_says(unit, start, kind):
    times = np.datetime64("2024-05-01T10:00:07", "s") + np.arange(0, 500_000, 7919)
    counted = (times - np.datetime64(start.replace(" ", "T"), "s")) / np.timedelta64(
        1, unit[0] if unit[0] != "d" else "D"
    )
    texts = [f"{number:15.9f}".strip().rjust(24, "0") for number in counted]
    column = {float: counted, "texts": pd.Series(texts), "bytes": np.array(texts, "S24")}[kind]
    found, why = to_utc(column, find_format("+02:00", f"{unit}s since {start}"))
    assert why is None or not any(why)
    shift = np.abs(found - (times - np.timedelta64(2, "h")))
    assert shift.max() < np.timedelta64(1, "ms")


def test_hours_behind_a_compact_date_are_no_epoch():
    stamps = pd.Timestamp("1999-12-30") + pd.to_timedelta(np.arange(0, 300_000, 37), unit="h")
    form = TimeFormat(zone("UTC"))
    for digits in (stamps.strftime("%Y%m%d%H"), stamps.strftime("%Y%m%d%H").astype(np.int64)):
        times, reasons = to_utc(pd.Series(digits), form)
        assert reasons is None or (reasons == "").all()
        assert (times == stamps.to_numpy()).all()
    times, _ = to_utc(pd.Series([1_893_456_000, 2_024_013_100, 2_024_133_100]), form)  # an epoch, a date, neither
    assert times[0] == np.datetime64("2030-01-01")
    assert times[1] == np.datetime64("2024-01-31")
    assert np.isnat(times[2])


@pytest.mark.parametrize(
    "pattern",
    [
        "%d-%b-%Y %H:%M",
        "%d %B %Y %H:%M:%S",
        "%B %d, %Y %I:%M %p",
        "%a, %d %b %Y %H:%M",
        "%d%b%Y %H:%M",
        "%d-%b-%y %H:%M",
    ],
)
@pytest.mark.parametrize("kind", [str, str.upper])
def test_names_of_months_are_read_without_a_word(pattern, kind):
    stamps = pd.Timestamp("2023-01-01 00:00") + pd.to_timedelta(np.arange(0, 9000, 101), unit="h")
    times, reasons = to_utc(pd.Series([kind(text) for text in stamps.strftime(pattern)]), TimeFormat(zone("UTC")))
    assert (reasons == "").all()
    assert (times == stamps.to_numpy()).all()


def test_a_word_that_is_no_month_is_refused():
    times, reasons = to_utc(pd.Series(["01-Foo-2024", "31-Feb-2024", "Mayor 2024", "12 of May"]), TimeFormat())
    assert np.isnat(times).all()
    assert (reasons != "").all()
