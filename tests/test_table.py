"""The table of scores: every metric of the registry, exact JSON, selection; a metric is one function and one line."""

import json

import numpy as np
import pytest

from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.scores import metrics
from solidfield.scores.calibration import coverage, rank_histogram, spread_skill
from solidfield.scores.estimate import Estimate
from solidfield.scores.metrics import select
from solidfield.scores.registry import METRICS, Measured, Metric, WholeMaps, measure, summarise
from solidfield.scores.table import Bin, Comparison, Lead, Score, ScoreTable

K, N, H, W, STD = 30, 6, 8, 8, 1.5


def drawn(*shape: int, key: str = "table") -> np.ndarray:
    return numpy_generator(0, key, *shape).standard_normal(shape)


def maps(members: int = K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (K, N, H, W), (N, H, W), (N, H, W)
    mask = drawn(N, H, W, key="mask") > 0
    mask[:, :4, :4] = True  # a whole block
    return drawn(K, N, H, W)[:members], STD * drawn(N, H, W, key="truth"), mask


def measured(members: int = K, dense: bool = True) -> Measured:
    x, y, mask = maps(members)
    whole = WholeMaps(x, y, mask, (True, True)) if dense else None
    return measure(select(x, y, mask), std=STD, dense=dense, maps=whole, tail=STD)


def scored(found: Measured, **where) -> Score:
    about = {"model": "solid", "variable": "u", "lead": 1, "region": "grid"} | where
    return Score(**about, members=found.members, cells=9, cases=N, groups=N, std=STD, metrics=summarise(found))


def table() -> ScoreTable:
    distance = Bin("distance", 1.0, 2.5, 1.7)
    scores = (
        scored(measured()),
        scored(measured(1, dense=False), model="kriging"),
        scored(measured(), lead=2, rolled=True),
        scored(measured(), bin=distance),
    )
    lead = Lead(1, 3600.0, "1 hour ahead", 6, 9, 6, "grid", beyond={"u": (2.5, 0.1)})
    one = {"model": "solid", "rival": "kriging", "variable": "u", "lead": 1, "region": "grid", "cells": 9}
    comparisons = (
        Comparison(**one, difference=Estimate(-0.1), saved=None),
        Comparison(**one, difference=Estimate(-1.0, -2.0, 0.0, 0.5), saved=Estimate(1.0, 0.0, 2.0, 0.5), bin=distance),
    )
    return ScoreTable({"u": "m/s"}, (lead,), scores, comparisons, {"data": {"leads": [0, 1]}})


def test_every_number_is_that_of_its_metric() -> None:
    x, y, mask = maps()
    score = scored(measured())
    for name in ("crps", "mse", "mae"):
        assert score[name].mean == pytest.approx(getattr(metrics, name)(x, y, mask))
    assert score["rmse"].mean == pytest.approx(np.sqrt(metrics.mse(x, y, mask)))
    assert score["coverage_50"].mean == pytest.approx(coverage(x, y, 0.5, mask))
    assert score["coverage_90"].mean == pytest.approx(coverage(x, y, 0.9, mask))
    assert score["spread_skill"].mean == pytest.approx(spread_skill(x, y, mask))
    assert score["spread"].mean / score["rmse"].mean == pytest.approx(score["spread_skill"].mean)
    assert score["rank_histogram"] == pytest.approx(tuple(rank_histogram(x, y, mask)))
    assert np.mean(score["crps_per_case"]) == pytest.approx(score["crps"].mean)
    assert score["energy_score"].mean == pytest.approx(metrics.energy_score(x, y, mask))
    assert score["roughness"].mean == pytest.approx(metrics.roughness(x, (True, True), STD, np.stack([mask] * K)))
    assert score["roughness_of_truth"].mean == pytest.approx(metrics.roughness(y, (True, True), STD, mask))
    assert score["crps"].low < score["crps"].mean < score["crps"].high


def test_blocks_are_scored_as_cells_are() -> None:
    x, y, _ = maps()
    every = np.ones(y.shape, dtype=bool)
    found = scored(measure(select(x, y), std=STD, dense=True, maps=WholeMaps(x, y, every)))
    blocks = metrics.block_means(x, 4), metrics.block_means(y, 4)
    assert found["block_crps"].mean == pytest.approx(metrics.crps(*blocks))
    assert found["block_spread_skill"].mean == pytest.approx(spread_skill(*blocks))


def test_scaled_values_are_those_of_the_scaled_field() -> None:
    x, y, mask = maps()
    whole = WholeMaps(x / STD, y / STD, mask, (True, True))
    unit = scored(measure(select(x / STD, y / STD, mask), dense=True, maps=whole, tail=1.0))
    for name, value in unit.metrics.items():
        assert scored(measured()).scaled(name) == pytest.approx(value, rel=1e-6, nan_ok=True), name


def test_what_cannot_be_measured_is_none() -> None:
    """A point forecast has no spread, ten members no 90 % interval, readings no roughness."""
    assert {name for name, value in summarise(measured(1)).items() if value is None} == {
        name for name, metric in METRICS.items() if metric.least > 1
    }
    assert summarise(measured(10))["coverage_50"] is not None
    assert summarise(measured(10))["coverage_90"] is None
    for name, value in summarise(measured(dense=False)).items():
        assert (value is None) == METRICS[name].dense


def test_the_table_returns_from_json_exactly() -> None:
    """NaN of a missing error bar is null on the way and NaN again after it."""
    first = table()
    text = json.dumps(first.to_json(), allow_nan=False)
    again = ScoreTable.from_json(json.loads(text))
    assert again == first
    assert json.dumps(again.to_json(), allow_nan=False) == text
    assert isinstance(again.scores[0]["crps"], Estimate)
    with pytest.raises(SolidError, match="no table of scores"):
        ScoreTable.from_json({"leads": []})


def test_selection_names_what_is_asked() -> None:
    one = table()
    assert one.one(model="solid", lead=1) is one.scores[0]
    assert one.get(model="solid", lead=7) is None
    assert one.select(lead=2, rolled=True) == [one.scores[2]]
    assert one.select(bins="distance") == [one.scores[3]]
    assert one.compared(rival="kriging", bins="distance") == [one.comparisons[1]]
    assert one.models(1) == ["solid", "kriging"]
    with pytest.raises(SolidError, match="no score with model unet"):
        one.one(model="unet")
    with pytest.raises(SolidError, match="2 scores have lead 1"):
        one.one(lead=1)
    with pytest.raises(SolidError, match="no metric 'skill'"):
        one.scores[0]["skill"]


def test_a_new_metric_is_one_function_and_one_line(monkeypatch) -> None:
    monkeypatch.setitem(METRICS, "bias", Metric("bias", lambda m: m.mean(m.error), "bias", power=1))
    x, y, mask = maps()
    first = ScoreTable({"u": ""}, (), (scored(measured()),))
    again = ScoreTable.from_json(first.to_json()).scores[0]
    cases = [(x.mean(0) - y)[n][mask[n]].mean() for n in range(N)]
    assert again["bias"].mean == pytest.approx(np.mean(cases))
    assert again.scaled("bias").mean == pytest.approx(np.mean(cases) / STD)
