"""Instants: zones by name and offset, local clocks, round trips through seconds."""

import numpy as np
import pytest

from solidfield.clock import Clock, from_seconds, instant, local, span, to_seconds, zone
from solidfield.errors import SolidError


def test_a_local_clock_is_the_offset_away_even_across_midnight():
    times = np.array(["2023-03-31T18:29", "2023-03-31T18:30"], "M8[ns]")
    for name in ("Asia/Kolkata", "+05:30", "UTC+5:30"):
        here = local(times, name)
        assert [str(time) for time in here] == ["2023-03-31 23:59:00", "2023-04-01 00:00:00"]


def test_summer_time_is_the_zones_own():
    times = np.array(["2023-01-01T12:00", "2023-07-01T12:00"], "M8[ns]")
    assert local(times, "Europe/London").hour.tolist() == [12, 13]


def test_an_instant_keeps_its_own_zone_and_takes_the_given_one_otherwise():
    expected = np.datetime64("2024-01-15T02:30", "ns")
    assert instant("2024-01-15T08:00", "Asia/Kolkata") == expected
    assert instant("2024-01-15T08:00+05:30") == expected
    assert instant("2024-01-15T02:30") == expected
    assert instant(expected) == expected


def test_seconds_come_back():
    times = np.datetime64("2023-01-01", "ns") + np.arange(5) * np.timedelta64(1_800_500, "ms")
    assert (from_seconds(to_seconds(times)) == times).all()
    assert to_seconds(np.array(["1970-01-02"], "M8[s]"))[0] == 86400


@pytest.mark.parametrize("text", ["nowhere/land", "+5:3", ""])
def test_an_unknown_zone_is_named(text):
    with pytest.raises(SolidError, match="time zone"):
        zone(text)


def test_lengths_and_times_that_are_none():
    assert span("90min") == span(5400) == 5400
    for wrong in ("soon", "0h", -1):
        with pytest.raises(SolidError, match="length of time"):
            span(wrong)
    with pytest.raises(SolidError, match="'yesterdayish'"):
        instant("yesterdayish")
    with pytest.raises(SolidError, match="missing"):
        instant("NaT")


def test_times_that_jitter_about_their_steps_keep_to_them():
    """One reading an hour, some seconds early or late: each hour has its own, whichever way its clock is off."""
    hours = np.datetime64("2024-01-01", "ns") + np.arange(500) * np.timedelta64(1, "h")
    early_or_late = (np.random.default_rng(0).normal(0, 120, 500) * 1e9).astype("timedelta64[ns]")
    clock = Clock.fitted(3600 * 10**9, None, hours + early_or_late)
    index = clock.index(hours + early_or_late)
    assert (np.diff(index) == 1).all()
    assert (clock.stamps(index) == hours).all()
    for times in (
        hours,
        hours + np.abs(early_or_late),
        hours[:20, None] + np.arange(0, 3600, 7) * np.timedelta64(1, "s"),
    ):
        assert Clock.fitted(3600 * 10**9, None, np.ravel(times)).anchor == "floor"
    assert Clock.fitted(3600 * 10**9, "floor", hours + early_or_late).anchor == "floor"
