"""GeoTIFF of layers: an independent reader finds every cell where it lies, with its value; layers by brute force."""

import json
import warnings

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from solidfield import export
from solidfield.cli import app
from solidfield.errors import SolidError
from solidfield.prediction import export as layers
from solidfield.prediction import geotiff

rasterio = pytest.importorskip("rasterio")
H, W = 300, 530  # two and three tiles, both cut


def some_maps(y="lat", x="lon", members=3, shape=(H, W), units="ug/m3") -> xr.Dataset:
    generator = np.random.default_rng(0)
    values = generator.standard_normal((members, 2, 1, *shape)).astype(np.float32)
    values[..., :3, :5] = np.nan
    degrees = y == "lat"
    rows, columns = 22.3 + 0.01 * np.arange(shape[0]), 88.1 + 0.02 * np.arange(shape[1])
    about = {"units": "degrees_north" if degrees else "m"}
    data = xr.Dataset(
        {"pm": (("member", "init_time", "lead_time", y, x), values, {"units": units})},
        {
            "init_time": np.array(["2024-01-01", "2024-01-02"], "M8[ns]"),
            "lead_time": np.array([3], "m8[h]").astype("m8[ns]"),
            y: (y, rows if degrees else 2.5e6 + 1000 * np.arange(shape[0]), about),
            x: (x, columns if degrees else 4e5 + 500 * np.arange(shape[1])),
        },
        {"title": "pm <predicted> & checked", "seed": 7},
    )
    data["pm_mean"] = data["pm"].mean("member").assign_attrs(data["pm"].attrs)
    data["observed"] = ((y, x), generator.integers(0, 2, shape).astype(np.int8))
    return data


def north_up(field: xr.DataArray, y: str, x: str) -> np.ndarray:
    return field.sortby(y, ascending=False).sortby(x).transpose(..., y, x).values


@pytest.mark.parametrize(("y", "x", "crs", "epsg"), [("lat", "lon", None, 4326), ("y", "x", "EPSG:32645", 32645)])
@pytest.mark.parametrize("turned", [(), (0,), (0, 1)])
def test_a_pixel_lies_where_its_cell_does_and_has_its_value(tmp_path, y, x, crs, epsg, turned):
    maps = some_maps(y, x).isel({(y, x)[axis]: slice(None, None, -1) for axis in turned})
    assert export(maps, tmp_path / "mean.tif", crs=crs) == 2
    with rasterio.open(tmp_path / "mean.tif") as file:
        assert (file.count, file.height, file.width, file.crs.to_epsg()) == (2, H, W, epsg)
        for band in (1, 2):
            np.testing.assert_array_equal(file.read(band), north_up(maps["pm_mean"][band - 1, 0], y, x))
        assert np.isnan(file.nodata)
        along, _ = file.xy([0] * W, range(W))
        _, down = file.xy(range(H), [0] * H)
        np.testing.assert_allclose(along, np.sort(maps[x]), rtol=1e-12)
        np.testing.assert_allclose(down, np.sort(maps[y])[::-1], rtol=1e-12)
        assert file.units == ("ug/m3", "ug/m3")
        assert file.descriptions[1] == "pm mean, lead_time 3 h, valid_time 2024-01-02T03:00:00Z"
        assert file.tags()["title"] == maps.attrs["title"]


@pytest.mark.parametrize("large", [geotiff.LARGE, 0])
def test_tiles_overviews_and_their_order_are_those_of_the_cloud(tmp_path, monkeypatch, large):
    """Also with offsets of 64 bits. Overviews are means of what has a value, and come before what they show."""
    monkeypatch.setattr(geotiff, "LARGE", large)
    maps = some_maps()
    export(maps, tmp_path / "mean.tif")
    assert (tmp_path / "mean.tif").read_bytes()[2] == (43 if large == 0 else 42)
    expected = [north_up(maps["pm_mean"][1, 0], "lat", "lon")]
    for _ in range(2):
        h, w = (-(-n // 2) * 2 for n in expected[-1].shape)
        padded = np.full((h, w), np.nan, np.float32)
        padded[: expected[-1].shape[0], : expected[-1].shape[1]] = expected[-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected.append(np.nanmean(padded.reshape(h // 2, 2, w // 2, 2), (1, 3)))
    starts, directories = [], []
    for level, options in enumerate(({}, {"overview_level": 0}, {"overview_level": 1})):
        with rasterio.open(tmp_path / "mean.tif", **options) as file:
            assert file.profile["tiled"]
            assert file.block_shapes == [(256, 256)] * 2
            np.testing.assert_allclose(file.read(2), expected[level], rtol=1e-6, atol=1e-7)
            starts.append(int(file.get_tag_item("BLOCK_OFFSET_0_0", "TIFF", 1)))
            directories.append(int(file.get_tag_item("IFD_OFFSET", "TIFF", 1)))
    with rasterio.open(tmp_path / "mean.tif") as file:
        assert file.overviews(1) == [2, 4]
    assert directories == sorted(directories)
    assert starts == sorted(starts, reverse=True)
    assert directories[0] == (16 if large == 0 else 8)
    assert directories[-1] < starts[-1]


def test_layers_are_what_the_members_say(tmp_path):
    maps = some_maps(shape=(5, 4), members=6).drop_vars("pm_mean")
    values = north_up(maps["pm"], "lat", "lon").astype(np.float64)  # (K, 2, 1, H, W)
    expected = {
        "mean": values.mean(0),
        "spread": values.std(0, ddof=1),
        "quantile": np.quantile(values, 0.3, axis=0),
        "chance": np.where(np.isnan(values[0]), np.nan, (values > 0.5).mean(0)),
        "member": values[4],
    }
    numbers = {"quantile": {"quantile": 0.3}, "chance": {"above": 0.5}, "member": {"member": 4}}
    for layer, truth in expected.items():
        export(maps, tmp_path / f"{layer}.tif", layer, at=["2024-01-02T03:00"], **numbers.get(layer, {}))
        with rasterio.open(tmp_path / f"{layer}.tif") as file:
            np.testing.assert_allclose(file.read(), truth[1], rtol=1e-5, atol=1e-6)
            assert file.units == ("1" if layer == "chance" else "ug/m3",)
    assert export(maps, tmp_path / "all.tif", "member") == 12
    with rasterio.open(tmp_path / "all.tif") as file:
        np.testing.assert_array_equal(file.read(), values.reshape(12, 5, 4).astype(np.float32))
        assert file.tags(12)["member"] == "5"
    assert export(maps, tmp_path / "observed.tif", "observed") == 1
    with rasterio.open(tmp_path / "observed.tif") as file:
        np.testing.assert_array_equal(file.read(1), north_up(maps["observed"], "lat", "lon"))


def test_a_store_is_read_in_pieces_of_bounded_size(tmp_path, monkeypatch):
    maps = some_maps(members=8, shape=(300, 280)).drop_vars("pm_mean").isel(init_time=[0])
    maps.to_zarr(tmp_path / "maps.zarr", encoding={"pm": {"chunks": (8, 1, 1, 100, 100)}}, consolidated=False)
    held = []
    chance = layers.REDUCED["chance"]
    monkeypatch.setattr(layers, "BLOCK", 100_000)
    monkeypatch.setitem(layers.REDUCED, "chance", lambda x, u: held.append(x.size) or chance(x, u))
    export(tmp_path / "maps.zarr", tmp_path / "chance.tif", "chance", above=0.0)
    assert max(held) <= 100_000
    assert sum(held) == maps["pm"].size
    with rasterio.open(tmp_path / "chance.tif") as file:
        above = (maps["pm"] > 0).mean("member").where(maps["pm"].notnull().all("member"))
        np.testing.assert_array_equal(file.read(1), north_up(above[0, 0], "lat", "lon").astype(np.float32))


def test_the_verb_writes_what_the_function_does(tmp_path):
    maps = some_maps(shape=(5, 4))
    maps.to_netcdf(tmp_path / "maps.nc")
    words = ["export", str(tmp_path / "maps.nc"), "--layer", "chance", "--above", "0.2", "--json"]
    said = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "verb.tif")], catch_exceptions=False)
    assert json.loads(said.stdout)["bands"] == 2
    export(maps, tmp_path / "function.tif", "chance", above=0.2)
    assert (tmp_path / "verb.tif").read_bytes() == (tmp_path / "function.tif").read_bytes()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("end the name in .tif", {"out": "x.png"}),
        ("needs a number; give 'above'", {"layer": "chance"}),
        ("takes no 'above'", {"above": 3.0}),
        ("a quantile of 90 is none", {"layer": "quantile", "quantile": 90}),
        ("no member 3; there are 3", {"layer": "member", "member": 3}),
        ("no layer 'median'", {"layer": "median"}),
        ("hold no 'no2'", {"variable": "no2"}),
        ("no map of 2024-01-05", {"at": ["2024-01-05"]}),
        ("is of no time", {"layer": "observed", "at": ["2024-01-05"]}),
        ("a code of EPSG", {"crs": "UTM 45"}),
        ("no members", {"layer": "spread"}),
    ],
)
def test_what_cannot_be_written_is_one_line(tmp_path, words, options):
    maps = some_maps(shape=(5, 4))
    maps = maps.drop_vars("pm") if options == {"layer": "spread"} else maps
    with pytest.raises(SolidError, match=words):
        export(maps, tmp_path / options.pop("out", "x.tif"), **options)
    assert not list(tmp_path.iterdir())
