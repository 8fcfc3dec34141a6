"""Places on the globe: the dateline is no edge, and distances are those of great circles at every latitude."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from solidfield.grid import RADIUS, Grid, closed, points
from solidfield.models.neighbours import nearest_readings, offsets
from solidfield.prediction.ask import area_mean, at
from solidfield.questions.asking import Hiding, ask
from solidfield.questions.record import Record
from solidfield.readings.axes import grid_of
from solidfield.readings.intake import grid
from solidfield.readings.table import open_table
from solidfield.theory.covariance_table import across
from solidfield.theory.distance import grid_distance
from solidfield.theory.spacetime import SpaceTime, krige

NORTH = Grid((9, 12), (5.0, 30.0), (40.0, -165.0), (False, True), ("lat", "lon"))  # 40 to 80 degrees, all around


def great_circle(y, x, v, u):
    """Haversines, in km."""
    y, x, v, u = (np.deg2rad(part) for part in (y, x, v, u))
    half = np.sin((v - y) / 2) ** 2 + np.cos(y) * np.cos(v) * np.sin((u - x) / 2) ** 2
    return 2 * RADIUS * np.arcsin(np.sqrt(half))


def some_cells(count: int = 60, shape: tuple[int, int] = NORTH.shape) -> np.ndarray:  # (2, n)
    generator = np.random.default_rng(0)
    return np.stack([generator.integers(0, n, count) for n in shape])


def across_180(east: float = 179.96, west: float = -179.96) -> pd.DataFrame:
    """Two sensors eight or nine kilometres apart, one on each side."""
    times = np.repeat(pd.date_range("2024-01-01", periods=3, freq="h", tz="UTC"), 2)
    return pd.DataFrame({"time": times, "lat": 0.0, "lon": [east, west] * 3, "pm": np.arange(6.0)})


@pytest.mark.parametrize("cell", ["0.01deg", "1km"])
def test_sensors_on_both_sides_of_the_dateline_are_neighbours(cell):
    said = []
    frames = grid(across_180(), cell=cell, every="1h", say=said.append)
    assert frames.sizes["lon"] <= 10
    where = np.flatnonzero(np.isfinite(frames["pm"].values).all((0, 1)))
    assert len(where) == 2
    step = frames["lon"].values[where]
    assert step[1] - step[0] == pytest.approx(0.08, abs=0.011)
    assert any("both sides of the dateline" in words for words in said)
    # New readings of one sensor alone fall into its cell, whichever way its longitude is written.
    for lon in (-179.96, 180.04):
        one = across_180(lon, lon).drop_duplicates("time")
        again = grid(one, like=frames)
        assert np.flatnonzero(np.isfinite(again["pm"].values).any((0, 1))).tolist() == [where[1]]


def test_bounds_go_across_the_dateline():
    frames = grid(across_180(), cell="1deg", every="1h", bounds=(-1, 178, 1, -178))
    np.testing.assert_allclose(frames["lon"].values, [178.5, 179.5, 180.5, 181.5])
    assert frames.attrs["rows_outside"] == 0


@pytest.mark.parametrize("lon", [[10.0, 12.0], [-70.0, -75.0], [-179.0, 0.0, 100.0]])
def test_longitudes_elsewhere_stay_as_they_are(lon):
    table = open_table(pd.DataFrame({"time": "2024-01-01T00:00Z", "lat": 0.0, "lon": lon, "pm": 1.0}))
    rows, _ = next(table.chunks())
    np.testing.assert_array_equal(rows.x, lon)


def test_maps_across_the_dateline_answer_in_both_conventions():
    fields = ("member", "init_time", "lead_time", "lat", "lon")
    values = np.arange(4.0).reshape(1, 1, 1, 1, 4)
    maps = xr.Dataset({"pm": (fields, values)}, {"lat": [0.0], "lon": [178.5, 179.5, 180.5, 181.5]})
    assert at(maps, 0.0, -179.5)["pm"].values.ravel() == at(maps, 0.0, 180.5)["pm"].values.ravel() == 2.0
    west = [[[-180, -1], [-178, -1], [-178, 1], [-180, 1]]]
    east = [[[178, -1], [180, -1], [180, 1], [178, 1]]]
    for rings, expected in (([west], 2.5), ([east], 0.5), ([west, east], 1.5)):
        area = {"type": "MultiPolygon", "coordinates": rings}
        answer = area_mean(maps, area)
        assert answer["pm"].values.ravel() == pytest.approx(expected)
        assert answer.attrs["covered"] == pytest.approx(1.0, abs=0.02)


def test_a_grid_around_the_earth_wraps():
    around = xr.DataArray(
        np.zeros((3, 36)), {"lat": [0.0, 1.0, 2.0], "lon": np.arange(-175.0, 185.0, 10)}, ("lat", "lon")
    )
    assert grid_of(around).periodic == (False, True)
    assert grid_of(around[:, :-1]).periodic == (False, False)
    assert closed(Grid((3, 36), (10.0, 10.0))).periodic == (False, False)


def test_distances_to_sensors_are_great_circles():
    mask = np.zeros(NORTH.shape, bool)
    mask[0, 0] = mask[8, 5] = True
    y, x = np.meshgrid(NORTH.y, NORTH.x, indexing="ij")
    expected = np.minimum(*(great_circle(y, x, NORTH.y[r], NORTH.x[c]) for r, c in ((0, 0), (8, 5))))
    np.testing.assert_allclose(grid_distance(mask, NORTH), expected, atol=1e-6)


def test_points_are_chords_apart():
    a, b = (points(NORTH, *some_cells()[:, part]) for part in (slice(30), slice(30, 60)))
    (i, j), (k, m) = (some_cells()[:, part] for part in (slice(30), slice(30, 60)))
    arc = great_circle(NORTH.y[i], NORTH.x[j], NORTH.y[k], NORTH.x[m])
    np.testing.assert_allclose(np.linalg.norm(a - b, axis=1), 2 * RADIUS * np.sin(arc / (2 * RADIUS)), atol=1e-6)
    box = Grid((4, 6), (0.5, 2.0), periodic=(False, True), units="km")  # a cylinder
    there = points(box, np.array([0, 0, 3]), np.array([0, 5, 0]))
    assert np.linalg.norm(there[1] - there[0]) == pytest.approx(12 / np.pi * np.sin(np.pi / 6))
    assert np.linalg.norm(there[2] - there[0]) == pytest.approx(1.5)


def test_the_covariance_is_of_great_circles_and_positive_definite():
    model = SpaceTime(NORTH, (556.0, 1668.0), globe=True).requires_grad_(False)
    row, column = some_cells(80)
    places = torch.from_numpy(np.stack([0 * row, row, column, 0 * row], 1))
    found = across(model, places[:, None], places[None])
    arc = great_circle(NORTH.y[row][:, None], NORTH.x[column][:, None], NORTH.y[row], NORTH.x[column])
    chord = torch.from_numpy(2 * RADIUS * np.sin(arc / (2 * RADIUS))).float()[..., None]
    length = model.reach.exp()
    expected = (model.share.exp()[0] * torch.exp(-(chord.square() + (1e-3 * length).square()).sqrt() / length)).sum(-1)
    torch.testing.assert_close(found, expected * np.exp(-1e-3) + model.level.exp(), atol=1e-4, rtol=1e-4)
    assert torch.linalg.eigvalsh(found.double() + 1e-6 * torch.eye(80)).min() > 0
    # The same from a target to its readings, and between those, as kriging asks.
    offset = (places[1:, :3] - places[0, :3])[None]
    torch.testing.assert_close(model(offset, None, places[:1, 1:2])[0], found[0, 1:])
    torch.testing.assert_close(model.between(offset, None, places[:1, 1])[0], found[1:, 1:], atol=1e-5, rtol=1e-5)


def test_kriging_on_the_globe_is_the_dense_conditional_law_and_the_same_around_the_seam():
    model = SpaceTime(NORTH, (556.0, 1668.0), globe=True).requires_grad_(False)
    values = np.full((1, 1, *NORTH.shape), np.nan)
    row, column = some_cells(30)
    values[0, 0, row, column] = np.random.default_rng(1).normal(size=30)
    laws = []
    for turn in (0, 5):
        record = Record.of_frames(np.roll(values, turn, -1), NORTH, ("x",), np.zeros(1))
        cell = np.array([4 * 12 + (11 + turn) % 12])
        questions = ask(
            record, np.zeros(1, int), cell, *np.zeros((2, 1), int), Hiding.unread(1), "train", torch.Generator()
        )
        known = nearest_readings(model, questions, NORTH.shape, 100, NORTH.periodic)
        assert known.offset[..., 2].abs().max() <= 6
        laws.append(krige(model, known, model))
    for one, other in zip(laws[0].mean, laws[1].mean, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    read = np.argwhere(np.isfinite(values[0, 0]))
    read = read[(read != [4, 11]).any(1)]
    places = torch.from_numpy(np.concatenate([[[0, 4, 11, 0]], np.insert(np.insert(read, 0, 0, 1), 3, 0, 1)]))
    dense = across(model, places[:, None], places[None]).double().numpy()
    k = dense[1:, 1:] + float(model.nugget) * np.eye(len(read))
    mean = dense[0, 1:] @ np.linalg.solve(k, values[0, 0][tuple(read.T)])
    assert float(laws[0].mean[0]) == pytest.approx(mean, abs=1e-4)


def test_offsets_go_the_short_way_around():
    values = np.full((1, 1, *NORTH.shape), np.nan)
    values[0, 0, 3, [0, 11]] = 1.0
    record = Record.of_frames(values, NORTH, ("x",), np.zeros(1))
    window = np.zeros(1, int), np.array([3 * 12]), *np.zeros((2, 1), int)
    questions = ask(record, *window, Hiding.nothing(1), "train", torch.Generator())
    assert offsets(questions, NORTH.shape, NORTH.periodic)[0, :, 2].tolist() == [-1]
    assert offsets(questions, NORTH.shape)[0, :, 2].tolist() == [11]
