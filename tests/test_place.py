"""Where a field lies: axes by name, regular grids, linear interpolation that is exact for affine fields."""

import numpy as np
import pytest
import xarray as xr

from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.readings.axes import axes_of, grid_of, on_grid, upright

LAT, LON = 10 + 0.5 * np.arange(7), 20 + 0.25 * np.arange(9)


def affine(lat=LAT, lon=LON, names=("lat", "lon")):
    values = 3 + 2 * np.asarray(lat)[:, None] - 5 * np.asarray(lon)[None, :]
    return xr.DataArray(values, dims=names, coords=dict(zip(names, (lat, lon), strict=True)), name="height")


def test_a_field_from_north_to_south_is_turned():
    turned = affine(LAT[::-1], LON, ("latitude", "longitude")).T
    np.testing.assert_allclose(upright(turned).values, affine().values)
    grid = grid_of(upright(turned))
    np.testing.assert_allclose(grid.y, LAT)
    np.testing.assert_allclose(grid.x, LON)
    assert grid.axes == ("lat", "lon")


def test_interpolation_is_exact_for_affine_fields():
    grid = Grid((4, 5), (0.31, 0.17), (10.2, 20.3), axes=("lat", "lon"))
    np.testing.assert_allclose(on_grid(affine(), grid), affine(grid.y, grid.x).values, rtol=1e-6)
    stacked = xr.concat([affine(), affine() + 1], "time")
    assert on_grid(stacked, grid).shape == (2, 4, 5)


def test_the_edge_is_carried_one_step_and_no_further():
    near = Grid((2, 2), (0.5, 0.25), (9.6, 20.0))
    np.testing.assert_allclose(on_grid(affine(), near)[0], affine(LAT[:1], near.x).values[0], rtol=1e-6)
    with pytest.raises(SolidError, match="covers lat 10 to 13"):
        on_grid(affine(), Grid((2, 2), (0.5, 0.25), (9.0, 20.0)))


def test_a_field_without_coordinates_must_have_the_grids_shape():
    bare = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "x"), name="mask")
    np.testing.assert_array_equal(on_grid(bare, Grid((2, 3))), bare.values)
    assert grid_of(bare) == Grid((2, 3))
    with pytest.raises(SolidError, match="no coordinates"):
        on_grid(bare, Grid((3, 3)))


def test_one_row_or_column_serves_the_whole_axis():
    row = affine(LAT[:1], LON)
    grid = Grid((3, 4), (0.5, 0.3), (9.0, 20.1), axes=("lat", "lon"))
    np.testing.assert_allclose(on_grid(row, grid), np.repeat(affine(LAT[:1], grid.x).values, 3, 0), rtol=1e-6)


def test_axes_that_cannot_be_told_are_refused():
    with pytest.raises(SolidError, match="one y axis"):
        axes_of(xr.DataArray(np.zeros((2, 2)), dims=("north", "lon")))
    with pytest.raises(SolidError, match="evenly"):
        grid_of(affine(LAT**2))
