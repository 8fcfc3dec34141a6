"""Covariates: history by brute force and without a leak, the calendar on a local clock, given fields, the recipe."""

import json
import math

import numpy as np
import pytest
import xarray as xr

from scattered import HOUR, START, some_frames
from solidfield.errors import SolidError
from solidfield.pairs.covariates import Covariates, Past, Recipe
from solidfield.pairs.holdout import RANK, Holdout
from solidfield.pairs.pairing import frame_pairs

SHORT = Holdout(hours=3.0, validation_days=5, validation_offset=1, sensors=0.1)


def history_by_loop(dataset, store, hours, fade):
    """For each frame and cell: the last reading before it that the frame's split may see."""
    values, times = dataset["pm"].values, dataset["time"].values
    splits, held = SHORT.splits(times), store.held["held_sensors"]
    scaling = store.recipe["readings"]
    result = np.zeros((len(times), 2, *values.shape[1:]), np.float32)
    for t in range(len(times)):
        for y, x in np.ndindex(values.shape[1:]):
            for s in range(t - 1, -1, -1):
                age = (times[t] - times[s]) / HOUR
                readable = np.isfinite(values[s, y, x]) and not held[y, x] and RANK[splits[s]] <= RANK[splits[t]]
                if readable and age <= hours:
                    z = (math.log(values[s, y, x]) - scaling["mean"][0]) / scaling["std"][0]
                    result[t, :, y, x] = z, math.exp(-age / fade)
                    break
    return result


@pytest.mark.parametrize(("hours", "fade"), [(4.0, 2.0), (30.0, 6.0)])
def test_history_is_the_last_reading_within_the_window(tmp_path, hours, fade):
    dataset = some_frames(density=0.2)
    chosen = Covariates(calendar=(), history=hours, fade=fade)
    store = frame_pairs(dataset, tmp_path / "pairs", holdout=SHORT, covariates=chosen, transform="log")
    expected = history_by_loop(dataset, store, hours, fade)
    np.testing.assert_allclose(store.channels.moving, expected, atol=2e-6)
    batch = store.batch(range(len(store))).source
    np.testing.assert_allclose(batch.covariates, expected[store.columns["frame_source"]], atol=2e-6)


def test_nothing_at_or_after_the_source_enters_its_history(tmp_path):
    """Readings of frame 30 and later are changed: the history of every frame up to 30 stays, to the bit."""
    dataset, other = some_frames(), some_frames()
    other["pm"].values[30:] = np.where(other["pm"].values[30:] > 30, np.nan, other["pm"].values[30:] + 1)
    everything = Holdout(days=0, validation_days=0)
    a, b = (
        frame_pairs(d, tmp_path / name, leads=(1,), holdout=everything).channels
        for d, name in ((dataset, "a"), (other, "b"))
    )
    recipe_a, recipe_b = (Recipe.from_dict(c.recipe) for c in (a, b))
    back = [
        c.moving[:31, 0] * r.readings["std"][0] + r.readings["mean"][0] * (c.moving[:31, 1] > 0)
        for c, r in ((a, recipe_a), (b, recipe_b))
    ]
    np.testing.assert_allclose(back[0], back[1], rtol=1e-5)  # statistics differ, readings do not
    assert (a.moving[:31, 1] == b.moving[:31, 1]).all()
    assert (a.moving[31:, 1] != b.moving[31:, 1]).any()


def test_past_comes_back_from_its_channels():
    recipe = a_recipe()
    generator = np.random.default_rng(0)
    past, now = Past.empty((2, 1, 3, 4)), np.array([0.0, 7200.0]) + 1.7e9
    for age in (20.0, 5.0, 1.0):
        mask = generator.random((2, 1, 3, 4)) < 0.4
        past = past.read(generator.standard_normal((2, 1, 3, 4)).astype(np.float32), mask, now - 3600 * age)
    again = Past.of(past.channels(now, recipe), now, recipe)
    for later in (0.0, 3600.0, 4 * 3600.0):
        np.testing.assert_allclose(past.channels(now + later, recipe), again.channels(now + later, recipe), atol=1e-5)


def a_recipe(**changes):
    plain = {
        "variables": ("pm",),
        "calendar": ("hour", "weekday", "season"),
        "timezone": "UTC",
        "history": 24.0,
        "fade": 6.0,
        "readings": {"mean": [0.0], "std": [1.0]},
        "static": {},
        "dynamic": {},
    }
    return Recipe(**(plain | changes))


def test_the_calendar_turns_at_local_midnight():
    times = np.array(["2023-03-31T18:30", "2023-04-01T00:30", "2023-04-01T06:30"], "M8[ns]")
    hour_sin, hour_cos, *_ = a_recipe(timezone="Asia/Kolkata").clock(times).T  # 00:00, 06:00, 12:00 there
    np.testing.assert_allclose(hour_sin, [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(hour_cos, [1, 0, -1], atol=1e-6)
    saturday = a_recipe(timezone="Asia/Kolkata").clock(times)[0, 2:4]
    np.testing.assert_allclose(saturday, [math.sin(2 * math.pi * 5 / 7), math.cos(2 * math.pi * 5 / 7)], atol=1e-6)
    before, after = a_recipe(timezone="Asia/Kolkata").clock(times[:1] + np.array([-1, 1]) * np.timedelta64(1, "s"))
    np.testing.assert_allclose(before, after, atol=1e-3)  # no jump at midnight


def test_the_calendar_is_of_the_targets_time(tmp_path):
    store = frame_pairs(some_frames(), tmp_path / "pairs", leads=(0, 1), covariates=Covariates(("hour",), history=0.0))
    hour = (store.columns["time_target"] - START.astype(np.int64) / 1e9) / 3600 % 24
    found = store.batch(range(len(store))).source.covariates[:, :, 2, 3].numpy()
    np.testing.assert_allclose(found[:, 0], np.sin(2 * np.pi * hour / 24), atol=1e-5)
    np.testing.assert_allclose(found[:, 1], np.cos(2 * np.pi * hour / 24), atol=1e-5)


def given_fields():
    """An affine elevation on a finer and wider grid, and a wind that is known every two hours."""
    lat, lon = 21.9 + 0.03 * np.arange(24), 87.9 + 0.03 * np.arange(27)
    height = 100 * (lat[:, None] - 22) + 10 * (lon[None, :] - 88)
    static = xr.Dataset({"elevation": (("lat", "lon"), height)}, {"lat": lat, "lon": lon})
    times = START - HOUR + 2 * np.arange(40) * HOUR
    wind = np.arange(40.0)[:, None, None] + np.zeros((40, 24, 27))
    return static, xr.Dataset({"wind": (("time", "lat", "lon"), wind)}, {"time": times, "lat": lat, "lon": lon})


def test_given_fields_are_interpolated_standardised_and_never_from_the_future(tmp_path):
    static, dynamic = given_fields()
    chosen = Covariates(calendar=(), history=0.0, static=static, dynamic=dynamic)
    dataset = some_frames()
    store = frame_pairs(dataset, tmp_path / "pairs", leads=(1,), covariates=chosen)
    recipe = Recipe.from_dict(store.recipe)
    assert recipe.names == ["elevation", "wind"]
    found = store.batch(range(len(store))).source.covariates.numpy()
    mean, std = recipe.static["elevation"]
    height = 100 * (dataset["lat"].values[:, None] - 22) + 10 * (dataset["lon"].values[None, :] - 88)
    np.testing.assert_allclose(found[0, 0] * std + mean, height, atol=1e-4)
    assert abs(found[0, 0].mean()) < 1e-5
    assert abs(found[0, 0].std() - 1) < 1e-5
    mean, std = recipe.dynamic["wind"]
    hours = (store.columns["time_source"] - START.astype(np.int64) / 1e9) / 3600
    latest = np.floor((hours + 1) / 2)  # not after the source, though the target is later
    np.testing.assert_allclose(found[:, 1, 0, 0] * std + mean, latest, atol=1e-4)


def test_each_kind_can_be_left_out(tmp_path):
    static, dynamic = given_fields()
    counts = {}
    for name, chosen in {
        "all": Covariates(static=static, dynamic=dynamic),
        "no calendar": Covariates((), static=static, dynamic=dynamic),
        "no history": Covariates(history=0.0, static=static, dynamic=dynamic),
        "no fields": Covariates(),
        "nothing": Covariates((), history=0.0),
    }.items():
        store = frame_pairs(some_frames(30), tmp_path / name, covariates=chosen, holdout=SHORT)
        source = store.batch([0]).source
        counts[name] = store.spec().covariates
        assert counts[name] == (0 if source.covariates is None else source.covariates.shape[1])
        if store.recipe is not None:
            assert len(Recipe.from_dict(store.recipe).names) == counts[name]
    assert counts == {"all": 8, "no calendar": 4, "no history": 6, "no fields": 6, "nothing": 0}


def test_the_recipe_is_plain_json():
    recipe = a_recipe(static={"elevation": (1.5, 2.0)}, timezone="+05:30")
    assert Recipe.from_dict(json.loads(json.dumps(recipe.as_dict()))) == recipe


def test_mistakes_are_named(tmp_path):
    static, dynamic = given_fields()
    with pytest.raises(SolidError, match="'moon'"):
        Covariates(calendar=("moon",))
    with pytest.raises(SolidError, match="hours"):
        Covariates(history=-1.0)
    for chosen, message in (
        (Covariates(static=static.isel(lat=slice(0, 8))), "covers lat"),
        (Covariates(static=static * np.nan), "has no value"),
        (Covariates(dynamic=static), "'elevation' with a time axis"),
        (Covariates(dynamic=dynamic.isel(time=slice(5, None))), "begins at"),
        (Covariates(timezone="Mars"), "'Mars'"),
    ):
        with pytest.raises(SolidError, match=message):
            frame_pairs(some_frames(), tmp_path / "pairs", covariates=chosen)
    with pytest.raises(SolidError, match="wind"):
        a_recipe(dynamic={"wind": (0.0, 1.0)}).fields(None, None, np.zeros(1, "M8[ns]"))
