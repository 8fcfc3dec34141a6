"""Readings with heavy tails, and contaminated ones: nothing wild comes out, and the mean is as good as kriging's."""

import numpy as np
import pytest
import torch
import xarray as xr

import solidfield as sf
from solidfield.prediction.answer import answer_shown
from solidfield.prediction.laws import LATENTS, moments
from solidfield.report.exam import Exam
from solidfield.report.rivals import kriged, scene_of

pytestmark = pytest.mark.usefixtures("calibrated_briefly")

HOURS, SIDE, STATIONS = 120, 6, 16


def field() -> np.ndarray:  # (T, H, W)
    """A Gaussian field that is correlated in space and time."""
    rng, (y, x) = np.random.default_rng(3), np.mgrid[:SIDE, :SIDE].reshape(2, -1)
    apart = np.hypot(y[:, None] - y, x[:, None] - x)
    root = np.linalg.cholesky(np.exp(-apart / 4) + 1e-6 * np.eye(SIDE**2))
    state, states = np.zeros(SIDE**2), []
    for _ in range(HOURS):
        state = 0.9 * state + np.sqrt(1 - 0.81) * root @ rng.standard_normal(SIDE**2)
        states.append(state)
    return np.reshape(states, (HOURS, SIDE, SIDE))


def student(rng):
    return 50 + 10 * field() * np.sqrt(3 / rng.chisquare(3, (HOURS, 1, 1)))


def contaminated(rng):
    values = np.exp(3 + 0.5 * field())
    return np.where(rng.random(values.shape) < 0.01, 20, 1) * values


@pytest.mark.parametrize(("kind", "transform"), [(student, "none"), (contaminated, "log")])
def test_no_member_is_wild_and_the_mean_is_no_worse_than_krigings(kind, transform, tmp_path):
    rng = np.random.default_rng(4)
    values = np.full((HOURS, SIDE**2), np.nan, np.float32)
    stations = rng.choice(SIDE**2, STATIONS, replace=False)
    values[:, stations] = kind(rng).reshape(HOURS, -1)[:, stations]
    times = np.datetime64("2024-01-01", "ns") + np.arange(HOURS) * np.timedelta64(3600, "s")
    axes = {"time": times, "lat": 0.1 * np.arange(SIDE), "lon": 0.1 * np.arange(SIDE)}
    readings = xr.DataArray(values.reshape(HOURS, SIDE, SIDE), axes, name="pm")
    short = {"preset": "smoke", "steps": 20, "transform": transform}
    run = sf.fit(readings, tmp_path / "run", model="solid-set", holdout={"sensors": 0.2}, leads=(1,), **short)
    exam = Exam.of(run, seed=0, past_only=False)
    train = exam.record.values[exam.record.of_split("train")]
    low, below, high, above = run.model.ends[0].tolist()
    errors = []
    for number, frame in enumerate(exam.frames(0, 8)[0].tolist()):
        known, judged, begin, _ = exam.scene(number, frame, 0)
        scene = scene_of(known, frame - begin, 0, exam.record.cells[judged])
        members, (mean, spread) = answer_shown(run.model, known, scene, 60, 0, run.scaling, as_read=True)
        assert low - below <= members.min()
        assert members.max() <= high + above
        assert np.isfinite(spread).all()
        assert train.min() <= mean.min()
        assert mean.max() <= train.max()
        rival = moments(torch.from_numpy(kriged(run, known, scene, LATENTS[:, None])))[0].numpy()
        errors += [np.stack([mean, rival]) - exam.record.values[judged]]
    ours, theirs = np.sqrt((np.concatenate(errors, 1) ** 2).mean(1))
    assert ours <= 1.1 * theirs
