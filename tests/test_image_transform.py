"""One image in square roots or logarithms: the same image in other units, chosen by the readings alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.stats import norm

from shared import solid
from solidfield.errors import SolidError
from solidfield.prediction import image as images
from solidfield.prediction.image import ImageCovariance, fill_image, learn
from solidfield.prediction.image_laws import ImageLaws, log_slope
from solidfield.prediction.maps import open_maps

SHAPE = (72, 90)  # cells
LAW = ImageCovariance(
    90.0, *(torch.tensor(x).double() for x in ([8.0, 2.0], [1.0, 0.5, 0.01], [[0.3, 0.2], [0.0, 0.0]]))
)
KRIGED = images.Image(np.ones(SHAPE), LAW, None, np.zeros(3), 0.01 * np.eye(3))


def image_of(seed: int, change) -> tuple[np.ndarray, np.ndarray]:  # truth, and the same with NaN
    truth = change(images.fields(LAW, SHAPE)(np.random.default_rng(seed)))
    given = truth.copy()
    for y, x in ((5, 5), (28, 40), (50, 12), (12, 66), (44, 70)):
        given[y : y + 11, x : x + 13] = np.nan
    return truth, given


def skewed(z: np.ndarray) -> np.ndarray:
    return np.exp(0.7 * z)


@pytest.fixture
def small(monkeypatch):
    """A fit of seconds."""
    for name, value in (("HIDDEN", 150), ("PLACES", 8), ("SAMPLE", 40), ("READ", 30), ("STEPS", 8)):
        monkeypatch.setattr(images, name, value)


def test_an_image_in_logarithms_is_its_logarithm_filled(small, monkeypatch):
    """Members, quantiles and what was learned are the same up to the exponential."""
    monkeypatch.setattr(images, "KNOWN", 8.0)  # so that both have the same Student law
    monkeypatch.setattr(images, "TAME", 2.2)
    _, given = image_of(1, skewed)
    risen = fill_image(given, members=4, transform="log")
    plain = fill_image(np.log(given), members=4, transform="none")
    gap = np.isnan(given)
    np.testing.assert_allclose(np.log(risen.members), plain.members, atol=1e-4)
    assert np.array_equal(risen.members[:, ~gap], np.repeat(given[None, ~gap].astype(np.float32), 4, 0))
    for level in (0.05, 0.5, 0.975):
        quantile = np.exp((plain.mean + plain.around(level))[gap])
        np.testing.assert_allclose((risen.mean + risen.around(level))[gap], quantile, rtol=1e-5)
    assert risen.image.freedom == pytest.approx(plain.image.freedom, rel=1e-4)


def test_tails_go_on_as_a_line_where_nothing_is_known():
    """T is Student's within, has one slope beyond, and no jump or bend between; its exponential has a mean."""
    image = images.Image(np.ones(1), LAW, None, np.zeros(3), np.eye(3), freedom=2.5, transform="log")
    z = np.array([0.0, 3.4, 3.5 - 1e-4, 3.5, 3.5 + 1e-4, 4.5, 5.5])
    t = images.student_quantile(image, norm.cdf(z))
    np.testing.assert_allclose(t[:4], images.student.ppf(norm.cdf(z[:4]), 2.5), rtol=1e-6, atol=1e-9)
    assert t[6] - t[5] == pytest.approx(t[5] - t[3], rel=1e-5)
    assert (t[3] - t[2]) / 1e-4 == pytest.approx(t[5] - t[3], rel=1e-2)
    np.testing.assert_allclose(images.student_quantile(image, norm.cdf(-z[1:])), -t[1:], rtol=1e-6)


def test_wild_errors_do_not_drive_a_mean_away():
    """Whatever the errors, a law under a transform has degrees of freedom enough for a mean of its exponential."""
    wild = np.random.default_rng(0).standard_t(1.5, 500)
    power, freedom, _ = images._law(wild, np.ones(500), np.ones(500), tame=True)
    image = images.Image(np.ones(1), LAW, None, np.zeros(3), np.eye(3), power, freedom, 1.0, transform="log")
    laws = images._laws(image, np.zeros(1), np.ones(1))
    assert freedom >= 10 > images._law(wild, np.ones(500), np.ones(500), tame=False)[1]
    assert laws.mean < 1.5 * np.exp(0.5)  # of a normal law


def test_mean_and_spread_are_those_of_the_law():
    """Of a lognormal law and a squared normal one, in closed form; quantiles are those of the normal, transformed."""
    c, s = np.array([0.0, 1.0, -2.0]), np.array([0.1, 0.5, 0.9])
    log = ImageLaws(c, s, norm.ppf, "log")
    np.testing.assert_allclose(log.mean, np.exp(c + s**2 / 2), rtol=1e-4)
    np.testing.assert_allclose(log.spread, np.exp(c + s**2 / 2) * np.sqrt(np.expm1(s**2)), rtol=2e-3)
    np.testing.assert_allclose(log.quantile(0.9), np.exp(c + 1.2815516 * s), rtol=1e-6)
    np.testing.assert_allclose(log.mean + log.around(0.9), log.quantile(0.9))
    root = ImageLaws(c + 9, s, norm.ppf, "sqrt")
    np.testing.assert_allclose(root.mean, (c + 9) ** 2 + s**2, rtol=1e-5)
    np.testing.assert_allclose(root.spread, np.sqrt(4 * (c + 9) ** 2 * s**2 + 2 * s**4), rtol=1e-3)
    assert ImageLaws(np.zeros(1), np.ones(1), norm.ppf, "sqrt").quantile(0.1) == 0  # no root is negative
    plain = ImageLaws(c, s, norm.ppf)
    assert np.array_equal(plain.mean, c)
    np.testing.assert_allclose(plain.spread, s, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "wanted"), [(lambda z: z + 10, "none"), (skewed, "log"), (lambda z: (z + 4.5).clip(0.01) ** 2, "sqrt")]
)
def test_the_transform_is_chosen_by_cells_hidden_for_a_trial(change, wanted, monkeypatch):
    """Under the true covariance; a mere shift of a Gaussian image is no reason for a transform."""
    monkeypatch.setattr(images, "HIDDEN", 200)
    given = image_of(3, change)[1]
    best, why = images._best_transform(KRIGED, given, 0)
    assert why.startswith(f"transform {best}: ")
    assert best == wanted


@pytest.mark.parametrize("transform", ["none", "sqrt", "log"])
def test_slopes_are_those_of_the_transform(transform):
    values = np.linspace(0.5, 4, 8)
    step = images.changed(values + 1e-6, transform) - images.changed(values, transform)
    np.testing.assert_allclose(log_slope(values, transform), np.log(step / 1e-6), atol=1e-5)


def test_readings_that_are_not_all_positive_have_fewer_transforms():
    given = image_of(3, skewed)[1]
    assert images.possible(given) == ("none", "sqrt", "log")
    assert images.possible(given - np.nanmin(given)) == ("none", "sqrt")
    assert images._best_transform(KRIGED, -given, 0)[0] == "none"


def test_intervals_of_a_skewed_image_hold_their_share(small):
    """A fresh lognormal image, filled by itself: the logarithm is found, and the hidden cells are held as said."""
    truth, given = image_of(11, skewed)
    filled = fill_image(given, members=60)
    assert filled.image.transform == "log"
    gap = np.isnan(given)
    low, high = ((filled.mean + filled.around(level))[gap] for level in (0.025, 0.975))
    assert 0.88 < np.mean((truth[gap] >= low) & (truth[gap] <= high)) < 0.99
    assert 0.88 < filled.image.honesty["coverage"] < 0.99
    np.testing.assert_allclose(np.median(filled.members.mean(0)[gap] / filled.mean[gap]), 1, atol=0.05)
    below = np.mean(filled.members[:, gap] < low)
    assert below == pytest.approx(0.025, abs=0.015)  # members are draws of the laws


def test_the_verb_takes_a_transform_and_remembers_it(small, tmp_path):
    given = image_of(1, skewed)[1]
    place = {"lat": 40 + 0.01 * np.arange(SHAPE[0]), "lon": 5 + 0.01 * np.arange(SHAPE[1])}
    xr.Dataset({"t": (("lat", "lon"), given)}, place).to_netcdf(tmp_path / "image.nc")
    words = ("fit", tmp_path / "image.nc", "--members", 3, "--transform")
    said = json.loads(solid(*words, "log", "--out", tmp_path / "filled.nc", "--json"))
    maps = open_maps(tmp_path / "filled.nc")
    assert maps.attrs["transform"] == said["transform"] == "log"
    filled = fill_image(given.astype(np.float32).astype(float), members=3, transform="log")
    np.testing.assert_allclose(maps["t_mean"].values[0, 0], filled.mean, rtol=1e-4)
    np.testing.assert_allclose(maps["t_std"].values[0, 0], filled.spread, rtol=1e-3)
    assert "of the law" in maps["t_mean"].attrs["long_name"]
    with pytest.raises(SolidError, match="unknown transform 'cube'"):
        solid(*words, "cube", "--out", tmp_path / "other.nc")


@pytest.mark.parametrize(("transform", "what"), [("log", "logarithm"), ("sqrt", "square root")])
def test_what_a_reading_does_not_have_is_refused_in_one_line(transform, what):
    with pytest.raises(SolidError, match=f"no {what}; give transform none$") as refused:
        learn(-image_of(1, skewed)[1], transform=transform)
    assert "\n" not in str(refused.value)
