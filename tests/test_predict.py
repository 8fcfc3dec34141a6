"""From frames to maps: the covariates of every step, assimilation, no leak from the future, a run that comes back."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scattered import HOUR, some_frames
from solidfield.errors import SolidError
from solidfield.fit import fit
from solidfield.forecast import Forecaster
from solidfield.models import build
from solidfield.pairs.covariates import Covariates, Recipe
from solidfield.pairs.frames import as_frames
from solidfield.pairs.holdout import Holdout
from solidfield.pairs.pairing import frame_pairs
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import open_pairs
from solidfield.prediction.context import example_query, query
from solidfield.prediction.maps import ahead, open_maps, save_maps
from solidfield.prediction.predict import predict_examples
from solidfield.prediction.shares import opened
from solidfield.run import Run, load
from solidfield.training.loop import train
from tiny import tiny_config

ALL = Holdout(days=0, validation_days=0)


class Clocked(Forecaster):
    """x = mean reading + the mean of all covariates + unit noise: sensitive to everything it is told."""

    name, family, reference, SIZES = "clocked", "test", "none", {}

    def loss(self, pair, generator):
        raise AssertionError("not trained")

    def sample(self, source, members, noise):
        level = source.values.sum((1, 2, 3)) / source.mask.sum((1, 2, 3))
        told = 0.0 if source.covariates is None else source.covariates.mean(1, keepdim=True)
        return level[:, None, None, None] + told + noise(source.values.shape[1:])


def a_run(path: Path, covariates: Covariates | None = None, transform: str = "log", **options) -> tuple[Run, object]:
    """A run of a model that needs no training, with the recipe of its pairs."""
    dataset = some_frames(**options)
    store = open_pairs(frame_pairs(dataset, path, holdout=ALL, covariates=covariates, transform=transform).path)
    data = {
        "leads": [0, 1],
        "step": store.step,
        "fingerprint": store.fingerprint,
        "clock": store.attributes["clock"],
    }
    run = Run(
        path=path,
        model=Clocked(store.spec()),
        scaling=Scaling.fit(store, store.split("train")),
        grid=store.grid,
        variables=store.variables,
        units=store.units,
        never_supervised=torch.zeros(1, *store.grid.shape, dtype=torch.bool),
        leaks=False,
        info={
            "data": data,
            "model": {"name": "clocked", "options": {}},
            "versions": {"solidfield": "0"},
            "config_hash": "0",
        },
        recipe=None if store.recipe is None else Recipe.from_dict(store.recipe),
        static=None if store.channels is None else store.channels.static,
    )
    return run, store


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    run, store = a_run(tmp_path_factory.mktemp("run") / "pairs", Covariates(("hour", "weekday"), history=8.0, fade=3.0))
    return run, store, some_frames()


@pytest.mark.parametrize("lead", [0, 1])
def test_new_frames_get_the_covariates_of_the_store(known, lead):
    run, store, dataset = known
    examples = np.flatnonzero(store.columns["lead"] == lead)
    rows = store.columns["frame_source"][examples]
    source, _ = query(run, as_frames(dataset), rows, lead)
    np.testing.assert_allclose(source.covariates, store.batch(examples).source.covariates, atol=1e-6)
    if lead == 1:
        assert torch.equal(source.values, store.batch(examples).source.values)


def test_each_further_step_sees_an_older_past_and_a_later_clock(known):
    """Step h from frame t knows what a frame at t + h would know, were nothing read after t."""
    run, _, dataset = known
    frames, rows, steps = as_frames(dataset), np.array([3, 30, 40]), 5
    _, later = query(run, frames, rows, 1, steps)
    assert len(later) == steps - 1
    for h, found in enumerate(later, start=1):
        for n, row in enumerate(rows):
            blind = replace(
                frames,
                values=np.concatenate([frames.values[: row + 1], np.full_like(frames.values[:1], np.nan)]),
                times=np.append(frames.times[: row + 1], frames.times[row] + h * HOUR),
            )
            expected, _ = query(run, blind, np.array([row + 1]), 1)
            np.testing.assert_allclose(found.covariates[n], expected.covariates[0], atol=1e-6)
        assert not found.mask.any()


def test_a_store_knows_the_same_steps_as_its_frames(known):
    run, store, dataset = known
    examples = np.flatnonzero(store.columns["lead"] == 1)[::7]
    first, later = example_query(run, store, examples, 4)
    again, more = query(run, as_frames(dataset), store.columns["frame_source"][examples], 1, 4)
    for a, b in zip((first, *later), (again, *more), strict=True):
        np.testing.assert_allclose(a.covariates, b.covariates, atol=1e-4)


def test_the_future_cannot_be_seen(known):
    run, _, dataset = known
    at = dataset["time"].values[25]
    other = dataset.copy(deep=True)
    other["pm"].values[26:] = 1e7  # further than any, and still a reading
    for ask in (run.reconstruct, lambda *a, **k: run.forecast(*a, steps=3, **k)):
        maps = [ask(d, members=2, at=at) for d in (dataset, other)]
        np.testing.assert_array_equal(maps[0]["pm"], maps[1]["pm"])
    past = dataset.copy(deep=True)
    past["pm"].values[24] += 5.0
    assert (run.forecast(past, members=2, at=at)["pm"] != maps[0]["pm"].isel(lead_time=[0])).any()


def test_assimilation_holds_every_reading_in_every_member(known):
    run, _, dataset = known
    maps = run.assimilate(
        dataset, members=3, since=dataset["time"].values[10], until=dataset["time"].values[30], steps=2
    )
    assert maps.sizes["lead_time"] == 20 + 3 + 2  # three hours are missing, two lie beyond
    by_time = {time: n for n, time in enumerate(dataset["time"].values)}
    for step, time in enumerate(maps["valid_time"].values[0]):
        row = by_time.get(time, -1) if time <= dataset["time"].values[30] else -1
        reading = dataset["pm"].values[row] if row >= 0 else np.full((5, 6), np.nan)
        seen = np.isfinite(reading)
        np.testing.assert_array_equal(maps["read"].values[0, step], seen)
        for member in maps["pm"].values[:, 0, step]:
            np.testing.assert_allclose(member[seen], reading[seen], rtol=1e-5)
        spread = maps["pm_std"].values[0, step]
        assert (spread[~seen] > 1e-4).all()
        assert (spread[seen] < 1e-4).all()


def test_assimilating_nothing_is_a_forecast(known):
    run, _, dataset = known
    empty = dataset.copy(deep=True)
    empty["pm"].values[11:] = np.nan
    at = dataset["time"].values[10]
    forecast = run.forecast(empty, members=3, steps=6, at=at)
    walked = run.assimilate(empty.isel(time=slice(0, 17)), members=3, since=at)
    assert walked.sizes["lead_time"] == 6
    np.testing.assert_array_equal(walked["pm"], forecast["pm"])


def test_assimilation_looks_back_only(known):
    run, _, dataset = known
    other = dataset.copy(deep=True)
    other["pm"].values[15:] += 3.0
    since = dataset["time"].values[10]
    a, b = (run.assimilate(d, members=2, since=since)["pm"].values for d in (dataset, other))
    np.testing.assert_array_equal(a[:, 0, :4], b[:, 0, :4])
    assert (a[:, 0, 4] != b[:, 0, 4]).any()


def test_arrays_serve_a_run_without_clock_and_past(tmp_path):
    run, _ = a_run(tmp_path / "pairs", Covariates(calendar=(), history=0.0), gap=(0, 0))
    dataset = some_frames(gap=(0, 0))
    plain, named = (run.forecast(f, members=2, steps=2) for f in (dataset["pm"].values, dataset))
    np.testing.assert_array_equal(plain["pm"], named["pm"])
    walked = run.assimilate(dataset["pm"].values[:4], members=2)
    again = run.assimilate(dataset.isel(time=slice(0, 4)), members=2)
    np.testing.assert_array_equal(walked["pm"], again["pm"])


def test_times_of_maps_are_instants_and_survive_the_disk(known, tmp_path):
    run, store, dataset = known
    maps = run.forecast(dataset, members=2, steps=3, at=["2023-01-01T05:00", "2023-01-02T01:00"])
    assert ahead(maps, 2) == 3 * 3600
    assert maps["valid_time"].values[1, 2] == np.datetime64("2023-01-02T04:00")
    for name in ("maps.nc", "maps.zarr"):
        save_maps(maps, tmp_path / name)
        again = open_maps(tmp_path / name)
        np.testing.assert_array_equal(again["valid_time"].values, maps["valid_time"].values)
        assert ahead(again, 2) == 3 * 3600
    examples = store.split("train")[store.columns["lead"][store.split("train")] == 1][:2]
    drawn = predict_examples(run, store, examples, members=2)
    assert (drawn["init_time"].values == dataset["time"].values[store.columns["frame_source"][examples]]).all()


def test_mistakes_are_one_line_with_a_remedy(known, tmp_path):
    run, _, dataset = known
    negative = dataset.copy(deep=True)
    negative["pm"].values[:] = np.where(np.isfinite(negative["pm"].values), -1.0, np.nan)
    for ask, message in (
        (lambda: run.forecast(dataset["pm"].values, members=2), "need times"),
        (lambda: run.forecast(dataset.isel(lat=slice(1, 5)), members=2), "grid them alike"),
        (lambda: run.forecast(dataset.assign_coords(lat=dataset["lat"] + 0.05), members=2), "grid them alike"),
        (lambda: run.forecast(dataset, members=2, at="2023-01-01T05:10"), "the nearest is 2023-01-01T05:00"),
        (lambda: run.forecast(dataset.rename(pm="ozone"), members=2), "'pm'"),
        (lambda: run.forecast(negative, members=2, at="2023-01-01T05:00"), "logarithm"),
        (lambda: run.assimilate(dataset.isel(time=[3]), members=2), "after its first"),
    ):
        with pytest.raises(SolidError, match=message) as error:
            ask()
        assert "\n" not in str(error.value)
    _, other = a_run(tmp_path / "pairs", Covariates(history=4.0))
    with pytest.raises(SolidError, match="covariates"):
        predict_examples(run, other, np.array([0]), members=2)


def test_what_lies_off_the_domain_is_never_read(tmp_path):
    """NaN or 1e30 there: the same bytes on disk and the same maps."""
    stores, maps = [], []
    for name, fill in (("nan", np.nan), ("huge", 1e30)):
        dataset = some_frames(30, gap=(0, 0))
        domain = np.arange(30).reshape(5, 6) % 4 > 0
        dataset["domain"] = (("lat", "lon"), domain)
        dataset["pm"].values[:, ~domain] = fill
        stores.append(frame_pairs(dataset, tmp_path / name, holdout=ALL))
        run, _ = a_run(tmp_path / f"{name}-run", gap=(0, 0))
        inside = replace(run, grid=stores[-1].grid)
        maps.append(inside.forecast(dataset, members=2, at=dataset["time"].values[9])["pm"].values)
    assert stores[0].fingerprint == stores[1].fingerprint
    np.testing.assert_array_equal(*maps)


def test_a_trained_run_comes_back_with_its_recipe(run, tmp_path):
    """A network at smoke size: saved, loaded, asked about a store and about frames, refused other covariates."""
    static = some_frames()["lat"] + 0 * some_frames()["lon"]
    chosen = Covariates(static=static.to_dataset(name="elevation"), history=6.0)
    holdout = Holdout(hours=3.0, validation_days=5, validation_offset=1)
    store = frame_pairs(some_frames(), tmp_path / "pairs", holdout=holdout, covariates=chosen, transform="log")
    options, model = {"size": "smoke"}, "unet-mixture"
    train(build(model, store.spec(), options), store, run, tiny_config(steps=4), options)
    trained = load(run)
    assert trained.recipe == Recipe.from_dict(store.recipe)
    np.testing.assert_array_equal(trained.static, store.channels.static)
    assert trained.scaling.transforms == ("log",)
    examples = store.split("test")[store.columns["lead"][store.split("test")] == 1][:3]
    drawn = predict_examples(trained, store, examples, members=2)
    frames = some_frames()
    again = trained.forecast(frames, members=2, at=frames["time"].values[store.columns["frame_source"][examples]])
    assert drawn["pm"].shape == again["pm"].shape
    assert (drawn["pm"].values > 0).all()
    other = frame_pairs(some_frames(), tmp_path / "other", holdout=holdout, covariates=replace(chosen, history=9.0))
    again = build(model, other.spec(), options)
    with pytest.raises(SolidError, match="fingerprint"):
        train(again, other, run, tiny_config(steps=4), options, resume=True)


def test_a_worker_opens_a_run_once_and_again_where_another_took_its_place(tmp_path):
    for name, seed in (("run", 0), ("other", 1)):
        fit(some_frames(seed=seed), tmp_path / name, model="climatology", preset="smoke")
    first = opened(tmp_path / "run")
    assert opened(tmp_path / "run") is first
    shutil.rmtree(tmp_path / "run")
    shutil.move(tmp_path / "other", tmp_path / "run")
    second = opened(tmp_path / "run")
    assert second.info["data"]["fingerprint"] != first.info["data"]["fingerprint"]
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(SolidError, match="not a run folder"):
        opened(tmp_path / "run")
