"""Stretches of time against brute force, member by member."""

import numpy as np
import pytest
import xarray as xr

from solidfield import SolidError, over_time
from solidfield.cli.answers import answers, parse_levels


@pytest.fixture
def maps() -> xr.Dataset:
    values = np.random.default_rng(0).normal(size=(5, 2, 6, 3, 4))
    hours = np.arange(1, 7) * np.timedelta64(3600 * 10**9, "ns")
    dims = ("member", "init_time", "lead_time", "lat", "lon")
    return xr.Dataset({"pm": (dims, values)}, {"lead_time": hours, "lat": np.arange(3.0), "lon": np.arange(4.0)})


@pytest.mark.parametrize(("how", "of"), [("mean", np.mean), ("max", np.max)])
def test_windows_are_those_of_every_member(maps, how, of):
    found = over_time(maps, how, "3h")
    values = maps["pm"].values
    by_hand = np.stack([of(values[:, :, end - 2 : end + 1], axis=2) for end in range(2, 6)], axis=2)
    np.testing.assert_allclose(found["pm"].values, by_hand)
    np.testing.assert_allclose(found["pm_mean"].values, by_hand.mean(0))
    assert (found["lead_time"].values == maps["lead_time"].values[2:]).all()


def test_maps_of_a_stretch_say_so(maps):
    found = over_time(maps.assign_attrs(title="pm of a run"), "mean", "3h")
    assert (found.attrs["stretch"], found.attrs["title"]) == ("mean over 3h", "pm of a run: mean over 3h")
    table = answers(over_time(_dated(maps), "max", "2h"), [(1.0, 2.0)], [], {})
    assert table[0]["stretch"] == "max over 2h"


def _dated(maps: xr.Dataset) -> xr.Dataset:
    start = np.array(["2024-01-01", "2024-01-02"], "M8[ns]")
    when = (("init_time", "lead_time"), start[:, None] + maps["lead_time"].values)
    return maps.assign_coords(init_time=start, valid_time=when)


def test_the_first_time_above_is_the_first_of_a_run(maps):
    found = over_time(maps, "first_above", "2h", above=0.0)
    values = maps["pm"].values
    for index in np.ndindex(found["pm"].shape):
        k, i, y, x = index
        high = values[k, i, :, y, x] > 0
        runs = [h + 1.0 for h in range(5) if high[h] and high[h + 1]]
        answer = found["pm"].values[index]
        assert answer == runs[0] if runs else np.isnan(answer)
    happened = np.isfinite(found["pm"].values).mean(0)
    np.testing.assert_allclose(found["pm_chance"].values, happened)


@pytest.mark.parametrize("over", ["7h", "30min", "90min"])
def test_a_stretch_that_is_no_number_of_steps_is_refused(maps, over):
    with pytest.raises(SolidError, match="is not 1 to 6 steps"):
        over_time(maps, "mean", over)


def test_of_a_mean_over_all_leads_one_whole_stretch_is_left(maps):
    """What is above for one step, of one lead, is what exceeds; and a step stays what it was."""
    whole = over_time(maps, "mean", "6h")
    chance = over_time(whole, "first_above", "1h", above=0.0)["pm_chance"]
    np.testing.assert_allclose(chance.values, (maps["pm"].values.mean(2) > 0).mean(0))
    with pytest.raises(SolidError, match="30min is not 1 to 1 steps of 1h"):
        over_time(whole, "first_above", "30min", above=0.0)


def test_a_threshold_is_of_the_variable_it_names(maps):
    """Each variable has the chances that were asked of it, and no other."""
    both = _dated(maps).assign(t=maps["pm"] + 10)
    levels = parse_levels(["pm=0.5", "0", "t=10"], ["pm", "t"])
    assert levels == {"pm": [0.0, 0.5], "t": [0.0, 10.0]}
    for entry in answers(both, [(1.0, 2.0)], [], parse_levels(["pm=0.5"], ["pm", "t"])):
        name = entry["variable"]
        assert [list(row["above"]) for row in entry["rows"]] == [["0.5"] if name == "pm" else []] * 12
    asked = answers(both, [(1.0, 2.0)], [], {"t": [10.0]}, "2h")
    high = both["t"].values[:, :, :, 1, 2] > 10  # (member, init_time, lead_time)
    by_hand = (high[..., 1:] & high[..., :-1]).any(-1).mean(0)
    assert "lasting" not in asked[0]
    np.testing.assert_allclose([row["above"]["10"] for row in asked[1]["lasting"]], by_hand)
    for wrong, words in (("no=3", "no variable 'no'; the run has pm, t"), ("pm=high", "give a number")):
        with pytest.raises(SolidError, match=words):
            parse_levels([wrong], ["pm", "t"])


def test_a_threshold_belongs_to_first_above_alone(maps):
    for how, above in (("mean", 1.0), ("first_above", None)):
        with pytest.raises(SolidError, match="needs a threshold"):
            over_time(maps, how, above=above)
