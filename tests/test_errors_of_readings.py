"""Errors of readings, one by one: from the columns of a table to kriging, laws, calibration and maps."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from solidfield.clock import Clock
from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.models.neighbours import nearest_readings
from solidfield.models.set_calibration import calibrate
from solidfield.pairs.frames import as_frames
from solidfield.pairs.records import record_of
from solidfield.pairs.scaling import Scaling
from solidfield.prediction.answer import Scene, answer
from solidfield.prediction.context import read_new
from solidfield.questions.asking import Hiding, ask
from solidfield.questions.drawing import Plan, draw
from solidfield.readings.error_table import plain_errors
from solidfield.readings.intake import grid
from solidfield.readings.table import open_table
from solidfield.theory.law import Observed
from solidfield.theory.mixture_law import MixtureLaw
from solidfield.theory.spacetime import krige
from test_answer import gaussian_model
from test_spacetime import GRID, covariance, simulated

PLACE = {"time": ["2024-01-01T00:00Z"] * 4, "lat": 1.0, "lon": [2.0, 2.0, 2.0, 3.0]}
TABLE = pd.DataFrame(PLACE | {"pm": [10.0, 20.0, 90.0, 40.0], "sensor": ["a", "b", "c", "a"], "kind": list("xxyx")})


def noisy(frames: int = 5, density: float = 0.3):
    """A record whose readings have errors of very different sizes, and the dense covariance of the field."""
    record, dense = simulated(covariance(), frames, density)
    errors = np.random.default_rng(1).choice([0.1, 0.5, 2.0], len(record.values)).astype(np.float32)
    return replace(record, errors=errors), dense


@pytest.mark.parametrize(
    ("names", "named", "expected", "said"),
    [
        (["pm", "error"], None, ("error",), "'error' is the standard deviation of the errors of 'pm'"),
        (["pm", "no2", "no2_std"], None, (None, "no2_std"), "'no2_std' is the standard deviation"),
        (["pm", "no2", "error"], None, (), "error: not read"),
        (["pm", "no2", "a", "b"], {"value": "pm+no2", "error": "b+a"}, ("b", "a"), "'b' is the standard deviation"),
        (["pm", "no2"], None, (), ""),
    ],
)
def test_a_column_of_errors_is_used_or_named(names, named, expected, said):
    table = open_table(pd.DataFrame(PLACE | dict.fromkeys(names, 1.0)), columns=named)
    assert table.columns.errors == expected
    assert not said or any(said in note for note in table.notes)
    assert not any("error" in name or "std" in name for name in table.variables)


def test_errors_must_fit_the_variables():
    with pytest.raises(SolidError, match=r"1 columns of errors .* for 2 variables"):
        open_table(pd.DataFrame(PLACE | {"pm": 1.0, "no2": 1.0, "e": 1.0}), columns={"value": "pm+no2", "error": "e"})
    with pytest.raises(SolidError, match="errors are told by 'brand'"):
        grid(TABLE, cell="1deg", every="1h", errors=pd.DataFrame({"brand": ["q"], "error": [1.0]}))
    with pytest.raises(SolidError, match="'-1' of b is no standard deviation"):
        plain_errors({"b": -1})


@pytest.mark.parametrize("by", ["number", "sensor", "kind", "column"])
def test_readings_of_a_cell_are_averaged_by_their_errors(by, tmp_path):
    """Weights 1 / e^2, whichever way the errors are told; a huge error counts for nothing."""
    errors = {"number": [2.0] * 3, "sensor": [1.0, 2.0, 1e9], "kind": [3.0, 3.0, 0.5], "column": [1.0, 5.0, 1e9]}[by]
    (tmp_path / "kinds.csv").write_text("kind,error\nx,3\ny,0.5\n")
    told = {"number": 2.0, "sensor": {"a": 1, "b": 2, "c": 1e9}, "kind": tmp_path / "kinds.csv", "column": None}[by]
    table = TABLE.assign(error=[*errors, 1.0]) if by == "column" else TABLE
    frames = grid(table, cell="1deg", every="1h", errors=told)
    weight = np.array(errors) ** -2.0
    assert frames["pm"].values[0, 0, 0] == pytest.approx(weight @ [10, 20, 90] / weight.sum(), rel=1e-6)
    assert frames["pm_error"].values[0, 0, 0] == pytest.approx(weight.sum() ** -0.5, rel=1e-6)
    record = record_of(as_frames(frames))
    np.testing.assert_allclose(record.errors, frames["pm_error"].values.ravel())


def test_what_repeated_readings_differ_by_is_no_error_of_each():
    """Models that take one error have it; a record of readings, each with its own, has those that are told."""
    frames = as_frames(grid(TABLE[["time", "lat", "lon", "pm"]], cell="1deg", every="1h"))
    spread = np.var([10.0, 20.0, 90.0], ddof=1)
    assert frames.obs_std == pytest.approx(np.sqrt(spread / 3), rel=1e-6)
    assert record_of(frames).errors is None


def test_a_sensor_without_an_error_is_named_and_has_that_of_the_others():
    said = []
    frames = grid(TABLE, cell="1deg", every="1h", errors={"a": 2.0}, say=said.append)
    assert any("no error is told of sensor 'b'" in words for words in said)
    assert frames["pm"].values[0, 0, 0] == pytest.approx(40.0)  # of a cell with unknown errors the plain mean
    np.testing.assert_allclose(record_of(as_frames(frames)).errors, 2.0)


def test_new_readings_have_the_errors_of_the_run():
    reading = {"errors": plain_errors({"a": 1.0, "b": 2.0, "c": 1e9})}
    layout = {"grid": Grid((1, 2), origin=(1.0, 2.0), axes=("lat", "lon")), "clock": Clock(3_600 * 10**9)}
    run = SimpleNamespace(reading=reading, variables=("pm",), units=("",), path="run", **layout)
    assert read_new(run, TABLE)["pm"].values[0, 0, 0] == pytest.approx((10 + 20 / 4) / 1.25)
    assert read_new(run, TABLE, errors=1.0)["pm"].values[0, 0, 0] == pytest.approx(40.0)


def test_kriging_with_errors_is_the_dense_conditional_law():
    model = covariance()
    record, dense = noisy()
    asked = np.array([3, 17, 41])
    window = (np.full(3, 4), asked, np.full(3, -4), np.full(3, -1))
    questions = ask(record, *window, Hiding.nothing(3), "train", torch.Generator())
    law = krige(model, nearest_readings(model, questions, GRID.shape, 1000), model)
    use = record.frames < 4
    site = record.frames[use] * GRID.cells + record.cells[use]
    k = dense[np.ix_(site, site)] + np.diag(float(model.nugget) + record.errors[use].astype(float) ** 2)
    cross = dense[np.ix_(4 * GRID.cells + asked, site)]
    np.testing.assert_allclose(law.mean, cross @ np.linalg.solve(k, record.values[use].astype(float)), atol=2e-4)
    variance = dense[0, 0] + float(model.nugget) - (cross * np.linalg.solve(k, cross.T).T).sum(1)
    np.testing.assert_allclose(law.std, np.sqrt(variance), rtol=1e-3)


def test_a_reading_with_a_huge_error_has_no_influence():
    model, (record, _) = gaussian_model(16), noisy()
    huge = record.frames == 2
    wild = replace(
        record,
        values=np.where(huge, np.float32(50.0), record.values),
        errors=np.where(huge, np.float32(1e6), record.errors),
    )
    scene = Scene.filling(np.full(GRID.cells, 2), np.arange(GRID.cells), 3, 3)
    maps = [answer(model, r, scene, 2, seed=1).mean(0) for r in (wild, record.without(np.flatnonzero(huge)))]
    np.testing.assert_allclose(*maps, atol=2e-3)


def test_what_was_read_with_an_error_is_met_by_what_the_others_say():
    """The posterior of a place given all readings, its own among them, and not the reading."""
    model, (record, dense) = gaussian_model(), noisy()
    here = np.flatnonzero(record.frames == 2)
    scene = Scene.filling(np.full(len(here), 2), record.cells[here], 4, 4)
    members = answer(model, record, scene, 4000, seed=1)
    site, nugget = record.frames * GRID.cells + record.cells, float(model.prior.nugget)
    there = dense[np.ix_(site, site)] + nugget * np.eye(len(site))  # what is at each place, and nowhere else
    k = there + np.diag(record.errors.astype(float) ** 2)
    mean = there[here] @ np.linalg.solve(k, record.values.astype(float))
    variance = (there - there @ np.linalg.solve(k, there)).diagonal()[here]
    chance = 4.5 * float(np.sqrt(variance.max() / len(members)))
    np.testing.assert_allclose(members.mean(0), mean, atol=chance)
    np.testing.assert_allclose(members.std(0), np.sqrt(variance), rtol=0.06)
    assert np.abs(mean - record.values[here]).max() > 0.5


def test_calibration_takes_the_errors_of_targets_apart_from_the_law():
    """Laws that are right need no stretch, however large the errors of the readings that judge them."""
    model = gaussian_model(24)
    plan = Plan(before=4, after=4, unread=1.0, outage=0.0, sparse=0.0)
    stretch = {}
    for told in (True, False):
        held = []
        for seed in range(2):
            record, _ = simulated(covariance(), 12, 0.4, seed)
            noise = np.random.default_rng(seed).normal(0, 2.0, len(record.values)).astype(np.float32)
            read = replace(record, errors=np.full_like(noise, 2.0)).with_values(record.values + noise)
            read = read if told else replace(read, errors=None)
            held.append(draw(read, read.of_split("train"), 400, plan, "train", torch.Generator().manual_seed(3)))
        stretch[told] = calibrate(model, held)["unread"]
    assert abs(stretch[True] - 1) < 0.12
    assert stretch[False] > 1.5


def test_a_law_with_an_error_is_that_of_their_sum():
    torch.manual_seed(0)
    law, features, channel = MixtureLaw(3), torch.randn(1, 3), torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        drawn = law.value(features, torch.randn(60_000, 1, 1))[:, 0, 0] + 0.7 * torch.randn(60_000)
    value, error = torch.tensor([0.4]), torch.tensor([0.7])
    below = float((drawn < value).double().mean())
    z = law.latent(Observed(features, value, channel, error)).detach()
    assert float(torch.special.ndtr(z)) == pytest.approx(below, abs=8e-3)
    half = 0.5 * (drawn[::2] - drawn[1::2]).abs().mean()
    expected = float((drawn - value).abs().mean() - half)
    assert float(law.crps(Observed(features, value, channel, error)).detach()) == pytest.approx(expected, abs=1e-2)


def test_errors_are_standardised_where_the_reading_lies():
    """Under a logarithm an error of ten per cent is the same everywhere."""
    record, _ = noisy()
    record = replace(record, values=np.exp(record.values), errors=0.1 * np.exp(record.values))
    scaling = Scaling((0.0,), (2.0,), ("log",), (0.0,), (1.0,))
    np.testing.assert_allclose(scaling.of_readings(record).errors, np.log(1.1) / 2, rtol=1e-4)
