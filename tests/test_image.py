"""One image with gaps: exact where it can be, honest where it was hidden, its members right jointly."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import xarray as xr

from shared import solid, standard_normal
from solidfield.errors import SolidError
from solidfield.experiments.bench.heaton import HeatonCell, block_coverage
from solidfield.experiments.cell import Place
from solidfield.prediction import image as images
from solidfield.prediction.image import Image, ImageCovariance, fill_image, krige, learn, near_cells, predict, scores
from solidfield.prediction.maps import open_maps

SHAPE = (48, 60)


LAW = ImageCovariance(
    60.0, *(torch.tensor(x).double() for x in ([8.0, 2.0], [1.0, 0.5, 0.01], [[0.3, 0.2], [0.0, 0.0]]))
)


@pytest.fixture(scope="module")
def cloudy():
    """A field of known covariance behind clouds: (truth, the same with NaN)."""
    truth = images.fields(LAW, SHAPE)(np.random.default_rng(5)) + 0.05 * np.arange(60)
    given = truth.copy()
    for y, x in ((5, 5), (20, 30), (34, 8), (10, 44)):
        given[y : y + 9, x : x + 11] = np.nan
    return truth, given


def test_kriging_by_all_readings_is_the_formula(cloudy):
    truth, _ = cloudy
    mask = np.zeros(SHAPE, bool)
    mask[::16, ::16] = True  # all of them are on every lattice, and few enough to be heard by all
    cell = np.array([[5, 7], [40, 33]])
    mean, variance, _ = krige(LAW, near_cells(mask, cell), np.where(mask, truth, 0.0)[..., None])
    site = torch.from_numpy(np.argwhere(mask)).double()
    k = LAW(site[:, None] - site) + 0.01 * torch.eye(len(site))
    across = LAW(site[:, None] - torch.from_numpy(cell))
    weight = torch.linalg.solve(k, across)
    np.testing.assert_allclose(mean[:, 0], weight.T @ torch.from_numpy(truth[mask]), atol=1e-9)
    np.testing.assert_allclose(variance, 1.51 - (weight * across).sum(0), atol=1e-9)


def test_scores_of_a_normal_law_are_those_in_closed_form():
    error = standard_normal(20_000, key="scores")
    found = scores(error, lambda level: np.full_like(error, float(images.norm.ppf(level))))
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=0.01)  # E|X - X'| / 2
    assert found["coverage"] == pytest.approx(0.95, abs=0.005)
    assert found["interval_score"] == pytest.approx(2 * images.norm.pdf(1.96) / 0.025, rel=0.02)


def test_an_image_is_filled_honestly_from_itself(cloudy, monkeypatch):
    """Readings stay, hidden cells are held as often as said, and so are the means of blocks."""
    truth, given = cloudy
    monkeypatch.setattr(images, "HIDDEN", 120)
    monkeypatch.setattr(images, "PLACES", 4)
    monkeypatch.setattr(images, "SAMPLE", 80)
    monkeypatch.setattr(images, "READ", 40)
    monkeypatch.setattr(images, "STEPS", 25)
    filled = fill_image(given, members=40)
    image, members, gap = filled.image, filled.members, np.isnan(given)
    np.testing.assert_allclose(members[:, ~gap], np.broadcast_to(given[~gap].astype(np.float32), (40, (~gap).sum())))
    low, high = np.quantile(members[:, gap], (0.025, 0.975), axis=0)
    assert np.mean((truth[gap] >= low) & (truth[gap] <= high)) > 0.88
    assert 0.85 < image.honesty["coverage"] <= 1
    z = (members[:, gap] - filled.mean[gap]) / filled.laws.scale
    wanted = image.stretch * images.student.std(image.freedom)
    assert z.std() == pytest.approx(wanted, rel=0.05)
    assert np.abs(truth - filled.mean)[gap].mean() < 0.7 * np.abs(truth - np.nanmean(given))[gap].mean()


@pytest.mark.parametrize("warmer", [0.0, 3.0])
def test_what_gaps_hide_may_differ_and_the_readings_beside_them_tell(warmer, monkeypatch):
    """A field that is warmer where its gaps are: the slope is found within its doubt, and none where there is none."""
    monkeypatch.setattr(images, "STEPS", 12)
    monkeypatch.setattr(images, "SAMPLE", 60)
    monkeypatch.setattr(images, "READ", 60)
    shape = (90, 110)
    field = images.fields(LAW, shape)(np.random.default_rng(2))
    clouds = images.gaussian_filter(np.random.default_rng(3).standard_normal(shape), 3)
    gap = clouds > np.quantile(clouds, 0.7)
    truth = field + warmer * images.layers_of(np.where(gap, np.nan, field), (2.0,))[..., -1]
    given = np.where(gap, np.nan, truth)
    covariance, blur, slopes, doubt = images._likeliest(given, 0)
    image = Image(np.ones(shape), covariance, blur, slopes, doubt)
    if warmer:
        assert slopes[3] == pytest.approx(warmer, abs=3 * doubt[3, 3] ** 0.5)
    else:
        assert blur is None
    cells = near_cells(~gap, np.argwhere(gap)[::4])
    mean, sd, _, _ = predict(image, cells, given)
    error = truth[tuple(cells.cell.T)] - mean
    assert abs(error.mean()) < 0.3
    assert 0.8 < (error / sd).std() < 1.2


def test_hidden_cells_are_as_far_from_readings_as_those_of_the_gaps(cloudy):
    _, given = cloudy
    mask = np.isfinite(given)
    gaps = images.distance_transform_edt(~mask)[~mask][::4]
    off, hidden, cell = images._moved(mask, gaps, np.random.default_rng(1))
    found = images.distance_transform_edt(~(mask & ~hidden))[tuple(cell.T)]
    assert hidden[tuple(cell.T)].all()
    assert off < 0.3
    assert len(cell) > 0.7 * len(gaps)  # near ones are not one and the same
    for level in (0.25, 0.5, 0.9):
        assert np.quantile(found, level) == pytest.approx(np.quantile(gaps, level), abs=1)


def test_a_plane_is_carried_into_the_gaps(cloudy):
    """Slopes move with a plane that is added, and so does every prediction."""
    _, given = cloudy
    cells = near_cells(np.isfinite(given), np.argwhere(np.isnan(given))[::7])
    plane = 3 + np.add.outer(np.linspace(-2, 2, SHAPE[0]), np.linspace(1, -1, SHAPE[1]))
    means = []
    for values in (given, given + plane):
        layers = images.layers_of(values, ())
        mask = np.isfinite(values)
        seen = images._thin(mask, 0.5, 400, 0)
        at, (mean, variance, _) = layers[tuple(seen.cell.T)], krige(LAW, seen, layers)
        left = torch.from_numpy((at - mean) / np.sqrt(variance)[:, None])
        slopes, doubt = images._regress(left[:, 0], left[:, 1:], 1e6)
        means.append(predict(Image(np.ones(SHAPE), LAW, None, slopes.numpy(), doubt.numpy()), cells, values)[0])
    np.testing.assert_allclose(means[1] - means[0], plane[tuple(cells.cell.T)], atol=1e-5)


def test_what_is_hidden_has_no_part_in_what_predicts_it(cloudy):
    """Whatever stands in the hidden cells, the readings near them and the roughness around them are the same."""
    _, given = cloudy
    cells, rough = images._hide(given, np.random.default_rng(3))
    other = given.copy()
    other[tuple(cells.cell.T)] = 1e30
    again, wild = images._hide(other, np.random.default_rng(3))
    assert not np.isin(cells.near[cells.valid], cells.cell @ [SHAPE[1], 1]).any()
    np.testing.assert_array_equal(again.near, cells.near)
    np.testing.assert_array_equal(wild, rough)


def test_blocks_of_exact_members_hold_their_share():
    """Truth and members from one law: the mean of a block lies in the members' interval as often as it should."""
    draws = standard_normal(121, 150, 150, key="blocks")
    held = block_coverage(draws[1:], draws[0], np.ones((150, 150), bool))
    assert held == pytest.approx(0.95, abs=0.04)


def test_the_verbs_fill_an_image_and_judge_it(cloudy, tmp_path, monkeypatch):
    truth, given = cloudy
    monkeypatch.setattr(images, "HIDDEN", 60)
    monkeypatch.setattr(images, "PLACES", 2)
    monkeypatch.setattr(images, "SAMPLE", 40)
    monkeypatch.setattr(images, "READ", 10)
    monkeypatch.setattr(images, "STEPS", 5)
    place = {"lat": 40 + 0.01 * np.arange(48), "lon": 5 + 0.01 * np.arange(60)}
    both = xr.Dataset({"given": (("lat", "lon"), given), "truth": (("lat", "lon"), truth)}, place)
    both.to_netcdf(tmp_path / "satellite.nc")
    words = ("fit", tmp_path / "satellite.nc", "--variable", "given", "--members", 5, "--out", tmp_path / "filled.nc")
    said = json.loads(solid(*words, "--json"))
    assert said["filled"] == np.isnan(given).sum()
    maps = open_maps(tmp_path / "filled.nc")
    read = np.isfinite(given)
    np.testing.assert_allclose(maps["given"].values[3, 0, 0][read], given[read], rtol=1e-6)
    assert maps.attrs["coverage"] == said["coverage"]
    assert maps.attrs["transform"] == said["transform"] == "none"
    result = HeatonCell(5).measure(Place(tmp_path, tmp_path))
    assert result["cells"] == np.isnan(given).sum()
    assert result["hidden_by_us"] == pytest.approx(learn(given).honesty, rel=1e-6)  # kernels round by thread
    with pytest.raises(SolidError, match="--variable"):
        solid("fit", tmp_path / "satellite.nc", "--out", tmp_path / "other.nc")


def test_a_bend_stretches_one_direction_as_the_exponential_of_its_matrix_does():
    way = torch.from_numpy(standard_normal(50, 2, key="bend"))
    b, c = 0.3, -0.7
    bent = way @ torch.linalg.matrix_exp(torch.tensor([[b, c], [c, -b]]).double())
    one, flat = (
        ImageCovariance(1e6, torch.tensor([2.0, 0.7]), torch.tensor([1.0, 0.5, 0.0]), torch.tensor([pair, pair]))
        for pair in ((b, c), (0.0, 0.0))
    )
    torch.testing.assert_close(one(way), flat(bent), rtol=1e-5, atol=1e-6)


def test_fields_have_their_covariance():
    """Over 3,000 draws, between any two of a few cells, near and far."""
    draw, generator = images.fields(LAW, (9, 40)), np.random.default_rng(0)
    cells = np.array([[0, 0], [0, 1], [4, 3], [8, 39], [8, 20]])
    values = np.stack([draw(generator)[tuple(cells.T)] for _ in range(3000)])
    place = torch.from_numpy(cells).double()
    exact = LAW(place[:, None] - place).numpy() + 0.01 * np.eye(5)
    np.testing.assert_allclose(np.cov(values.T), exact, atol=5 * 1.5 / 3000**0.5)


def test_an_image_without_contrast_is_refused(cloudy):
    with pytest.raises(SolidError, match="equal"):
        learn(np.where(np.isnan(cloudy[1]), np.nan, 2.0))
