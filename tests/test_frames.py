"""Pairs from sparse frames: a brute-force double loop, held cells nowhere in training, gaps, splits, bad frames."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from scattered import HOUR, START, some_frames
from solidfield.clock import as_text, from_seconds
from solidfield.errors import SolidError
from solidfield.pairs.covariates import Covariates
from solidfield.pairs.frames import as_frames
from solidfield.pairs.holdout import RANK, Holdout
from solidfield.pairs.pairing import frame_pairs
from solidfield.pairs.store import SPLITS, open_pairs
from solidfield.prediction.context import rows_of

SHORT = Holdout(hours=3.0, validation_days=5, validation_offset=1)  # 20 "days" in 60 hours
HELD = Holdout(hours=3.0, validation_days=5, validation_offset=1, sensors=0.15, blocks=0.2, block=2)
CALIBRATED = Holdout(hours=3.0, validation_days=5, validation_offset=1, sensors=0.15, calibration=0.2)
PLAIN = Covariates(calendar=(), history=0.0)


def by_loop(dataset, leads, holdout):
    """Every pair of frames, one after another: (source index, target index, lead) -> source cells, target cells."""
    times, values = dataset["time"].values, dataset["pm"].values
    splits = holdout.splits(times)
    held = np.zeros(values.shape[1:], bool)
    kept = holdout.cells(np.isfinite(values).any(0))
    calibration = kept.get("calibration_cells", held)
    for mask in kept.values():
        held = held | mask
    expected = {}
    for i, t in enumerate(times):
        for o, s in enumerate(times):
            for lead in leads:
                if s != t + lead * HOUR or RANK[splits[i]] > RANK[splits[o]]:
                    continue
                source, target = np.isfinite(values[i]) & ~held, np.isfinite(values[o])
                hidden = {"train": held, "validation": held & ~calibration, "test": calibration}[splits[o]]
                target = target & ~hidden
                if source.any() and target.any():
                    expected[i, o, lead] = (source, target, splits[o])
    return expected, held


@pytest.mark.parametrize("holdout", [SHORT, HELD, CALIBRATED])
def test_pairs_are_those_of_a_double_loop(tmp_path, holdout):
    dataset = some_frames()
    store = frame_pairs(dataset, tmp_path / "pairs", leads=(1, 2), holdout=holdout, covariates=PLAIN)
    expected, _ = by_loop(dataset, (1, 2), holdout)
    columns = store.columns
    found = list(zip(columns["frame_source"], columns["frame_target"], columns["lead"], strict=True))
    assert sorted(found) == sorted(expected)
    pair, values = store.batch(range(len(store))), dataset["pm"].values
    for e, (i, o, lead) in enumerate(found):
        source, target, split = expected[i, o, lead]
        assert SPLITS[columns["split"][e]] == split
        assert columns["time_target"][e] - columns["time_source"][e] == 3600 * lead
        np.testing.assert_array_equal(pair.source.mask[e, 0], source)
        np.testing.assert_array_equal(pair.target.mask[e, 0], target)
        np.testing.assert_array_equal(pair.source.values[e, 0], np.where(source, values[i], 0))
        np.testing.assert_array_equal(pair.target.values[e, 0], np.where(target, values[o], 0))


def test_at_lead_0_a_part_of_the_frame_is_hidden_and_nothing_else(tmp_path):
    dataset = some_frames()
    store = frame_pairs(dataset, tmp_path / "pairs", leads=(0,), holdout=HELD, covariates=PLAIN, hide=0.25)
    held = store.held["held_sensors"] | store.held["held_blocks"]
    pair = store.batch(range(len(store)))
    for e, i in enumerate(store.columns["frame_source"]):
        seen = np.isfinite(dataset["pm"].values[i])
        source, target = pair.source.mask[e, 0].numpy(), pair.target.mask[e, 0].numpy()
        assert store.columns["frame_target"][e] == i
        assert not (source & target).any()
        assert (target & ~held).sum() == max(1, round(0.25 * (seen & ~held).sum()))
        np.testing.assert_array_equal(source | (target & ~held), seen & ~held)
        of_test = SPLITS[store.columns["split"][e]] == "test"
        np.testing.assert_array_equal(target & held, seen & held if of_test else np.zeros_like(held))


def test_held_cells_are_targets_of_test_pairs_and_nothing_else(tmp_path):
    store = frame_pairs(some_frames(), tmp_path / "pairs", holdout=HELD)
    store = open_pairs(store.path)
    held = (store.held["held_sensors"] | store.held["held_blocks"]).ravel()
    for side in ("source", "target"):
        for split in ("train", "validation", "test"):
            _, cells, _ = store.readings_of(side, store.split(split))
            assert held[cells].any() == (side == "target" and split == "test")
    everything = store.batch(range(len(store))).source.covariates.numpy()
    last, recent = store.recipe["variables"], everything[:, -1:]
    assert len(last) == 1
    assert (recent[:, :, held.reshape(store.grid.shape)] == 0).all()


@pytest.mark.parametrize("what", ["held", "test day"])
def test_held_readings_change_nothing_that_trains(tmp_path, what):
    """Other values at held cells, or on test days, leave every training and validation batch as it is, to the bit."""
    dataset, other = some_frames(), some_frames()
    first = frame_pairs(dataset, tmp_path / "first", holdout=HELD, transform="log")
    values = other["pm"].values
    if what == "held":
        held = first.held["held_sensors"] | first.held["held_blocks"]
        values[:, held] *= 7
    else:
        values[HELD.splits(other["time"].values) == "test"] *= 7
    second = frame_pairs(other, tmp_path / "second", holdout=HELD, transform="log")
    assert first.recipe == second.recipe
    for split in ("train", "validation"):
        a, b = (store.batch(store.split(split)) for store in (first, second))
        assert (a.source.covariates == b.source.covariates).all()
        assert (a.source.values == b.source.values).all()
        assert (a.target.values == b.target.values).all()
    a, b = (store.batch(store.split("test")) for store in (first, second))
    assert (a.target.values != b.target.values).any()


def test_a_gap_has_no_pair(tmp_path):
    dataset = some_frames(gap=(20, 23))
    store = frame_pairs(dataset, tmp_path / "pairs", leads=(1,), holdout=SHORT, covariates=PLAIN)
    hours = (store.columns["time_source"] - START.astype(np.int64) / 1e9) / 3600
    assert 18 in hours
    assert not set(range(19, 23)) & set(hours.astype(int).tolist())


def test_the_store_says_what_it_is(tmp_path):
    dataset = some_frames(channels=2)
    store = frame_pairs(dataset, tmp_path / "pairs", holdout=SHORT, transform={"pm": "log"}, offset={"pm": 2.0})
    assert store.transforms == ("log", "none")
    assert store.offsets == (2.0, 0.0)
    assert store.epoch.startswith("1970")
    assert store.step == 3600
    assert store.units == ("ug/m3", "ug/m3")
    assert store.held == {}
    assert store.spec().covariates == store.batch([0]).source.covariates.shape[1] == 4 + 4
    assert store.spec().channels == 2


def test_frames_in_any_usual_form_are_read_alike():
    plain = as_frames(some_frames())
    turned = some_frames().rename(lat="latitude", lon="longitude").sortby("latitude", ascending=False)
    turned = turned.transpose("longitude", "time", "latitude").isel(time=slice(None, None, -1))
    again = as_frames(turned["pm"])
    np.testing.assert_array_equal(plain.values, again.values)
    np.testing.assert_array_equal(plain.times, again.times)
    assert plain.grid.shape == again.grid.shape
    np.testing.assert_allclose(plain.grid.y, again.grid.y)
    assert (plain.grid.axes, plain.every, again.every) == (("lat", "lon"), 3600.0, 3600.0)


def test_counts_and_spreads_are_not_variables_and_the_domain_rules():
    dataset = some_frames()
    dataset["pm_count"] = dataset["pm"] * 0 + 3
    dataset["pm_spread"] = dataset["pm"] * 0
    dataset["domain"] = (("lat", "lon"), np.arange(30).reshape(5, 6) > 5)
    frames = as_frames(dataset)
    assert frames.variables == ("pm",)
    assert np.isnan(frames.values[:, :, 0]).all()
    assert frames.grid.domain.sum() == 24


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.isel(time=0), "axis 'time'"),
        (lambda d: d.rename(lon="q"), "one x axis"),
        (lambda d: d.assign_coords(lon=[0, 1, 2, 3, 4, 9.0]), "evenly spaced"),
        (lambda d: xr.concat([d, d], "time"), "same time"),
        (lambda d: d.where(d["pm"] < 30, np.inf), "infinite"),
        (lambda d: d.drop_attrs().isel(time=[0]), "single frame"),
        (lambda d: d.drop_vars("pm").assign(flat=("lat", np.zeros(5))), "no variable|x axis"),
    ],
)
def test_frames_that_are_none_are_refused(change, message):
    with pytest.raises(SolidError, match=message):
        as_frames(change(some_frames()))


def test_bad_settings_are_refused_and_leave_nothing(tmp_path):
    for options, message in (
        ({"leads": (-1,)}, "leads"),
        ({"hide": 1.0}, "hide"),
        ({"transform": "root"}, "root"),
        ({"variables": ["ozone"]}, "ozone"),
    ):
        with pytest.raises(SolidError, match=message):
            frame_pairs(some_frames(), tmp_path / "pairs", **options)
    zero = some_frames()
    zero["pm"].values[np.isfinite(zero["pm"].values)] -= 30
    with pytest.raises(SolidError, match="offset"):
        frame_pairs(zero, tmp_path / "pairs", holdout=SHORT, transform="log")
    with pytest.raises(SolidError, match="left to train"):
        frame_pairs(some_frames(5), tmp_path / "pairs", holdout=Holdout(days=2, day_offset=0))
    assert not (tmp_path / "pairs").exists()


@pytest.mark.parametrize("step", ["1ms", "200ms", "700ms", "1s", "90s", "1h", "1D"])
def test_frames_are_found_by_their_times_however_short_the_step(step):
    times = pd.date_range("2024-05-01T10:00:00.3", periods=60, freq=step)
    times = times[np.r_[0:20, 25:60]]  # some are missing
    frames = as_frames(xr.Dataset({"pm": (("time", "y", "x"), np.ones((len(times), 2, 3)))}, {"time": times}))
    assert frames.every == pytest.approx(pd.Timedelta(step).total_seconds())
    ticks = np.round((frames.seconds - frames.seconds[0]) / frames.every).astype(int)
    for lead in (-3, 0, 1, 8):
        found = frames.rows_at(frames.seconds + lead * frames.every)
        expected = [int(np.flatnonzero(ticks == tick + lead)[0]) if tick + lead in ticks else -1 for tick in ticks]
        assert found.tolist() == expected
    np.testing.assert_array_equal(from_seconds(frames.seconds), times.to_numpy())
    for row in (0, 17, 30):
        assert rows_of(frames, times[row].to_pydatetime(), "UTC").tolist() == [row]
        assert rows_of(frames, as_text(times.to_numpy()[row]), "UTC").tolist() == [row]


def test_pairs_of_frames_a_fifth_of_a_second_apart_are_as_far_apart_as_they_say(tmp_path):
    quick = some_frames().assign_attrs(every="200ms")
    ticks = (quick["time"].values - START) // HOUR
    quick = quick.assign_coords(time=START + ticks * np.timedelta64(200, "ms"))
    store = frame_pairs(
        quick, tmp_path / "pairs", leads=(0, 1, 3), holdout=replace(SHORT, hours=1e-3), covariates=PLAIN
    )
    columns = store.columns
    np.testing.assert_allclose(columns["time_target"] - columns["time_source"], 0.2 * columns["lead"], atol=1e-6)
    assert {lead: np.sum(columns["lead"] == lead) > 30 for lead in (0, 1, 3)} == dict.fromkeys((0, 1, 3), True)
