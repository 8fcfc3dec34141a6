"""Areas against closed forms: rectangles, holes, discs, and every way GeoJSON wraps a polygon."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solidfield.errors import SolidError
from solidfield.readings import area_mask, area_weights

LAT, LON = np.linspace(-1, 1, 21), np.linspace(-2, 2, 41)


def box(south, west, north, east):
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def polygon(*rings):
    return {"type": "Polygon", "coordinates": list(rings)}


def inside(south, west, north, east):
    return ((south < LAT) & (north > LAT))[:, None] & ((west < LON) & (east > LON))[None]


def test_a_rectangle_with_a_hole_is_the_difference_of_two():
    shape = polygon(box(-0.73, -1.21, 0.81, 1.33), box(-0.22, -0.51, 0.33, 0.47))
    expected = inside(-0.73, -1.21, 0.81, 1.33) & ~inside(-0.22, -0.51, 0.33, 0.47)
    np.testing.assert_array_equal(area_mask(shape, LAT, LON), expected)


def test_every_wrapping_holds_the_same_area(tmp_path):
    one, other = box(-0.73, -1.21, 0.11, -0.33), box(-0.51, 0.22, 0.81, 1.33)
    expected = inside(-0.73, -1.21, 0.11, -0.33) | inside(-0.51, 0.22, 0.81, 1.33)
    several = {"type": "MultiPolygon", "coordinates": [[one], [other]]}
    collection = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": {}, "geometry": polygon(ring)} for ring in (one, other)],
    }
    mixed = {"type": "GeometryCollection", "geometries": [several, {"type": "Point", "coordinates": [0, 0]}]}
    path = tmp_path / "area.geojson"
    path.write_text(json.dumps(collection))
    for shape in (several, collection, mixed, path):
        np.testing.assert_array_equal(area_mask(shape, LAT, LON), expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 40), st.floats(0.2, 0.9), st.floats(-0.3, 0.3), st.integers(0, 10**6))
def test_a_star_is_inside_where_its_radius_says(corners, size, shift, seed):
    """Against the closed form of a star-shaped polygon: the distance from its centre along each direction."""
    generator = np.random.default_rng(seed)
    angle = np.sort(generator.uniform(0, 2 * np.pi, corners))
    if np.diff(np.append(angle, angle[0] + 2 * np.pi)).max() > 3:
        return  # the centre would lie outside
    radius = size * generator.uniform(0.3, 1, corners)
    points = np.stack([shift + radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    y, x = np.meshgrid(LAT, LON - shift, indexing="ij")
    toward, far = np.arctan2(y, x) % (2 * np.pi), np.hypot(y, x)
    after = np.searchsorted(angle, toward) % corners
    a, b = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)[[after - 1, after]]
    edge = b - a
    cross = a[..., 0] * edge[..., 1] - a[..., 1] * edge[..., 0]
    reach = cross / (np.cos(toward) * edge[..., 1] - np.sin(toward) * edge[..., 0])
    clear = np.abs(reach - far) > 1e-9
    np.testing.assert_array_equal(area_mask(polygon(points.tolist()), LAT, LON)[clear], (far < reach)[clear])


def test_weights_are_shares_of_cells():
    """A box whose edges cut cells at fifths: the 5 x 5 count is then exact."""
    lat, lon = np.arange(4.0), np.arange(5.0)
    weights = area_weights(polygon(box(0.5 - 0.2, 0.5 - 0.6, 2.5, 3.5 + 0.4)), lat, lon)
    rows = np.array([0.2, 1, 1, 0])
    columns = np.array([0, 0.6 + 0, 1, 1, 0.4])
    columns[0], columns[1] = 0.6, 1.0
    np.testing.assert_allclose(weights, rows[:, None] * columns[None])


def test_a_disc_has_the_area_of_a_disc():
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # not closed: it is closed for the user
    lat = lon = np.linspace(-1.2, 1.2, 49)
    weights = area_weights(polygon(ring.tolist()), lat, lon)
    assert weights.sum() * 0.05**2 == pytest.approx(np.pi, rel=2e-3)


def test_what_has_no_inside_is_an_error(tmp_path):
    (tmp_path / "bad.geojson").write_text("{]")
    for area, words in (
        (tmp_path / "bad.geojson", "no GeoJSON"),
        (tmp_path / "none.geojson", "cannot read"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, "no polygon"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}, "no sound GeoJSON"),
        ({"coordinates": []}, "no sound GeoJSON"),
    ):
        with pytest.raises(SolidError, match=words):
            area_mask(area, LAT, LON)
