"""Questions to members: values between cells, area means and chances, each against brute force over the members."""

import numpy as np
import pytest
import xarray as xr

from solidfield.errors import SolidError
from solidfield.prediction.ask import area_mean, at, exceedance

LAT, LON = 60 + 0.5 * np.arange(6), 20 + 0.25 * np.arange(8)


def some_maps(members=40, domain=None, seed=0, names=("lat", "lon"), plane=False):
    """Members that vary together: a common level, a plane and a little noise each."""
    generator = np.random.default_rng(seed)
    level, slope = generator.standard_normal((2, members, 1, 1, 1, 1))
    field = level + slope * (LAT[:, None] - 60) + 2 * (LON[None, :] - 20)
    values = np.broadcast_to(field, (members, 2, 3, 6, 8)).copy()
    if not plane:
        values += 0.3 * generator.standard_normal(values.shape)
    dims = ("init_time", "lead_time", *names)
    dataset = xr.Dataset(
        {"pm": (("member", *dims), values, {"units": "ug/m3"}), "pm_mean": (dims, values.mean(0))},
        {
            "member": np.arange(members),
            "init_time": np.array(["2023-01-01", "2023-01-02"], "M8[ns]"),
            "lead_time": np.arange(1, 4) * np.timedelta64(3600, "s"),
            names[0]: LAT,
            names[1]: LON,
        },
    )
    dataset["valid_time"] = dataset["init_time"] + dataset["lead_time"]
    dataset = dataset.set_coords("valid_time")
    dataset["domain"] = (names, np.ones((6, 8), np.int8) if domain is None else domain.astype(np.int8))
    return dataset


def test_between_cells_a_plane_of_every_member_is_exact():
    """Members that differ by their level alone, so that their order is the same everywhere."""
    maps = some_maps(plane=True)
    maps["pm"].values[:] += 100 * np.arange(40)[:, None, None, None, None]  # by far more than their slopes make of it
    generator = np.random.default_rng(1)
    lat, lon = generator.uniform(60, 62.5, 20), generator.uniform(20, 21.75, 20)
    found = at(maps, lat, lon)
    level = maps["pm"].values[:, 0, 0, 0, 0]
    slope = (maps["pm"].values[:, 0, 0, 1, 0] - level) / 0.5
    expected = level[:, None] + slope[:, None] * (lat - 60) + 2 * (lon - 20)
    np.testing.assert_allclose(found["pm"].values[:, 0, 0], expected, rtol=1e-10)
    np.testing.assert_allclose(found["pm_mean"], found["pm"].mean("member"))
    np.testing.assert_allclose(found["pm_q95"], np.quantile(found["pm"].values, 0.95, axis=0))


def test_between_cells_that_know_nothing_of_each_other_nothing_is_known_better():
    maps = some_maps(members=4000)
    maps["pm"].values[:] = np.random.default_rng(4).gamma(2.0, 1.0, maps["pm"].shape)
    middle = at(maps, 60.25, 20.125)["pm"].values[..., 0]
    np.testing.assert_allclose(middle.std(0), np.sqrt(2), rtol=0.05)  # a mean of four cells would have half of it
    plain = maps["pm"].values[..., :2, :2].mean((-2, -1))
    np.testing.assert_allclose(middle.mean(0), plain.mean(0))
    for one, other in zip(middle.reshape(4000, -1).T, plain.reshape(4000, -1).T, strict=True):
        np.testing.assert_array_equal(one.argsort(), other.argsort())  # members stay themselves
    assert middle.min() >= 0  # what no cell reaches is reached nowhere between them


def test_at_a_centre_it_is_the_cell_and_in_the_outer_half_the_edge():
    maps = some_maps()
    np.testing.assert_allclose(at(maps, LAT[2], LON[5])["pm"].values[..., 0], maps["pm"].values[..., 2, 5])
    np.testing.assert_allclose(at(maps, 59.8, 21.86)["pm"].values[..., 0], maps["pm"].values[..., 0, 7])
    with pytest.raises(SolidError, match=r"lat 59\.7 is off the map"):
        at(maps, 59.7, 20.0)


def test_cells_outside_the_domain_have_no_say():
    domain = np.ones((6, 8), bool)
    domain[2, 3] = domain[4, 4:6] = domain[5, 4:6] = False
    maps, wild = some_maps(domain=domain), some_maps(domain=domain)
    for name in ("pm", "pm_mean"):
        wild[name].values[..., ~domain] = np.nan
    lat, lon = np.array([61.1, 62.3]), np.array([20.8, 21.1])
    found = [at(m, lat, lon)["pm"].values for m in (maps, wild)]
    np.testing.assert_array_equal(*found)
    b = np.array([[0.8 * 0.8, 0.8 * 0.2], [0.2 * 0.8, 0.2 * 0.2]])  # around (61, 20.75): cells (2..3, 3..4)
    b[0, 0] = 0
    corners = maps["pm"].values[..., 2:4, 3:5]
    between = (np.sort(corners, 0) * b).sum((-2, -1)) / b.sum()
    np.testing.assert_allclose(np.sort(found[0][..., 0], 0), between, rtol=1e-9)
    assert np.isnan(found[0][..., 1]).all()
    weights = np.ones((6, 8))
    np.testing.assert_array_equal(*(area_mean(m, weights)["pm"].values for m in (maps, wild)))


@pytest.mark.parametrize("names", [("lat", "lon"), ("y", "x")])
def test_the_mean_of_an_area_is_that_of_each_member(names):
    maps = some_maps(names=names)
    share = np.random.default_rng(2).random((6, 8)) * (np.random.default_rng(3).random((6, 8)) < 0.5)
    found = area_mean(maps, share)
    for k in range(40):
        total = weight = 0.0
        for i in range(6):
            for j in range(8):
                w = share[i, j] * (np.cos(np.deg2rad(LAT[i])) if names[0] == "lat" else 1.0)
                total, weight = total + w * maps["pm"].values[k, 1, 2, i, j], weight + w
        assert found["pm"].values[k, 1, 2] == pytest.approx(total / weight, rel=1e-9)
    np.testing.assert_allclose(found["pm_std"], found["pm"].values.std(0, ddof=1))
    # Members vary together, so the mean of an area is far less certain than independent cells would have it.
    alone = maps["pm"].values[:, 0, 0][:, share > 0]
    assert found["pm_std"].values[0, 0] > 2 * alone.std(0).mean() / np.sqrt(alone.shape[1])


def test_an_area_can_be_geojson():
    ring = [[19.875, 59.75], [20.375, 59.75], [20.375, 60.75], [19.875, 60.75], [19.875, 59.75]]  # cells (0..1, 0..1)
    polygon = {"type": "Polygon", "coordinates": [ring]}
    maps = some_maps()
    weights = np.zeros((6, 8))
    weights[:2, :2] = 1
    found, expected = area_mean(maps, polygon), area_mean(maps, weights)
    np.testing.assert_allclose(found["pm"], expected["pm"])
    assert found.attrs["cells"] == 4


def test_chances_are_shares_of_members():
    maps = some_maps()
    chance = exceedance(maps, [0.5, 2.0])
    assert chance.dims == ("threshold", "init_time", "lead_time", "lat", "lon")
    for n, level in enumerate((0.5, 2.0)):
        np.testing.assert_allclose(chance.values[n], (maps["pm"].values > level).mean(0))
    point = exceedance(at(maps, 61.0, 21.0), 1.0)
    np.testing.assert_allclose(point.values[0, ..., 0], (maps["pm"].values[..., 2, 4] > 1.0).mean(0))


def test_mistakes_are_named():
    maps = some_maps()
    for ask, message in (
        (lambda: at(maps.drop_vars("pm"), 61.0, 21.0), "no members"),
        (lambda: exceedance(maps, 1.0, "ozone"), "'ozone'"),
        (lambda: area_mean(maps, np.ones((2, 2))), "shape"),
        (lambda: area_mean(maps, np.zeros((6, 8))), "no cell"),
        (lambda: at(maps, np.nan, 21.0), "off the map"),
    ):
        with pytest.raises(SolidError, match=message):
            ask()
