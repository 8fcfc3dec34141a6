"""Large maps of sets: pieces are the whole, a killed prediction goes on, and neighbours are those of the whole map."""

import json

import numpy as np
import pytest
import torch
import xarray as xr
from typer.testing import CliRunner

import solidfield as sf
from solidfield.cli import app
from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.models.neighbours import nearest_readings
from solidfield.models.solid_set import SolidSet
from solidfield.noise import MemberNoise
from solidfield.prediction import answer, sets, stream, stream_sets
from solidfield.prediction.answer import Scene
from solidfield.questions.asking import Hiding, ask, ask_together
from solidfield.questions.record import Record
from solidfield.theory import spacetime, trajectories
from solidfield.theory.covariance_table import CovarianceTable, across
from solidfield.theory.spacetime import SpaceTime
from solidfield.theory.trajectories import joint_latents
from solidfield.training import lessons

SIDE, HOURS, SENSORS = (11, 14), 44, 70


def readings() -> xr.DataArray:
    """Waves that travel, read at a few cells."""
    generator = np.random.default_rng(0)
    y, x = np.divmod(generator.choice(SIDE[0] * SIDE[1], SENSORS, replace=False), SIDE[1])
    hour = np.arange(HOURS)[:, None]
    values = np.full((HOURS, *SIDE), np.nan, np.float32)
    values[:, y, x] = 20 + 5 * np.sin((x + hour) / 5) * np.cos(y / 6) + generator.normal(0, 0.5, (HOURS, SENSORS))
    times = np.datetime64("2024-01-01", "ns") + np.arange(HOURS) * np.timedelta64(3600, "s")
    return xr.DataArray(values, {"time": times, "y": np.arange(SIDE[0]), "x": np.arange(SIDE[1])}, name="pm")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> sf.Run:
    folder, prepare = tmp_path_factory.mktemp("large") / "run", SolidSet.prepare
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lessons, "FEWEST_QUESTIONS", 500)
        patch.setattr(SolidSet, "prepare", lambda self, *words, **_: prepare(self, *words[:3], 6))
        return sf.fit(readings(), folder, model="solid-set", preset="smoke", transform="sqrt", steps=6)


@pytest.fixture
def small_pieces(monkeypatch) -> None:
    """Tiles, bands, shards and tables so small that the map of these tests is a large one."""
    monkeypatch.setattr(answer, "TILE", 4)
    monkeypatch.setattr(stream, "SHARD", (4, 8))
    monkeypatch.setattr(stream, "CHUNK", (4, 8))
    monkeypatch.setattr(trajectories, "DENSE", 8)
    monkeypatch.setattr(trajectories, "READINGS", 96)
    monkeypatch.setattr(trajectories, "BAND", 3)
    monkeypatch.setattr(trajectories, "MARGIN", 2)
    monkeypatch.setattr(trajectories, "AT_ONCE", 30)
    monkeypatch.setattr(stream_sets, "DRAWN", 4e5)  # four members at a time


@pytest.mark.parametrize("ask_for", ["map", "course"])
def test_pieces_are_the_whole(run, tmp_path, small_pieces, ask_for):
    """Laws and members have the very bits, whichever squares, leads and members are drawn together."""
    frames = readings()
    options = {"at": frames["time"].values[30], "members": 10, "seed": 3}
    verb = run.reconstruct if ask_for == "map" else run.forecast
    options |= {} if ask_for == "map" else {"steps": 2}
    whole = verb(frames, **options)
    maps = verb(frames, out=tmp_path / "maps.zarr", max_memory=0.1, **options)
    assert len(stream_sets.squares(SIDE, 1, 10, 0.1)) == 2 * 2 * 3
    xr.testing.assert_equal(maps.drop_vars("valid_time"), whole.drop_vars("valid_time"))
    for name in whole.data_vars:
        assert maps[name].dims == whole[name].dims
        assert maps[name].attrs["long_name"] == whole[name].attrs["long_name"]
    assert not list((tmp_path / "maps.zarr").glob("*latents*"))


def test_laws_alone_need_no_members(run, tmp_path, small_pieces):
    frames = readings()
    options = {"at": "last", "members": 5, "keep_members": False}
    maps = run.reconstruct(frames, out=tmp_path / "maps.zarr", **options)
    assert "member" not in maps.dims
    xr.testing.assert_equal(maps["pm_q05"], run.reconstruct(frames, **options)["pm_q05"])


def test_a_killed_prediction_goes_on_and_is_what_it_would_have_been(run, tmp_path, small_pieces, monkeypatch):
    """Killed in the latents of a map and again among its pieces: none is drawn twice, and the bits are the same."""
    frames, out = readings(), tmp_path / "maps.zarr"
    options = {"at": frames["time"].values[[28, 30]], "members": 6, "out": out, "max_memory": 0.1}
    done, draw, real = [], stream_sets.draw_part, stream_sets.scene_latents

    def killed(*words):
        raise SolidError("killed")

    monkeypatch.setattr(stream_sets, "scene_latents", killed)
    with pytest.raises(SolidError, match="killed"):
        run.reconstruct(frames, **options)
    drawn = []
    monkeypatch.setattr(stream_sets, "scene_latents", lambda *words: drawn.append(words[5]) or real(*words))

    def counted(drawing, part):
        if len(done) == 11:
            raise SolidError("killed")
        done.append(part.piece)
        return draw(drawing, part)

    monkeypatch.setattr(stream_sets, "draw_part", counted)
    with pytest.raises(SolidError, match="killed"):
        run.reconstruct(frames, **options)
    assert not out.exists()
    monkeypatch.setattr(stream_sets, "draw_part", lambda *words: done.append(words[-1].piece) or draw(*words))
    maps = run.reconstruct(frames, **options)
    assert len(done) == len(set(done)) == 2 * 4 * 2
    assert len(drawn) == 2  # the latents of each map once, though the second call was killed after the first map's
    whole = run.reconstruct(frames, **{**options, "out": None})
    xr.testing.assert_equal(maps["pm"], whole["pm"])
    other = run.reconstruct(frames, **{**options, "out": tmp_path / "other.zarr", "seed": 1})
    assert not other["pm"].equals(whole["pm"])


def test_memory_that_holds_no_map_is_said(run, tmp_path):
    with pytest.raises(SolidError, match="raise max_memory"):
        run.reconstruct(readings(), at="last", out=tmp_path / "maps.zarr", max_memory=1e-5)


def test_the_command_draws_into_a_store_what_memory_would_not_hold(run, tmp_path, small_pieces):
    readings().to_dataframe().dropna().reset_index().to_csv(tmp_path / "pm.csv", index=False)
    out = tmp_path / "maps.zarr"
    words = [str(run.path), str(tmp_path / "pm.csv"), str(out), "--lead", "0", "--members", "20", "--memory", "4e-5"]
    done = CliRunner().invoke(app, ["predict", *words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["out"] == str(out)
    whole = run.reconstruct(run.read(tmp_path / "pm.csv"), at="last", members=20)
    np.testing.assert_array_equal(sf.open_maps(out)["pm"], whole["pm"])
    assert sets.in_pieces(run, out, 20, 1, 1, 4e-5, True)
    assert not sets.in_pieces(run, out, 9, 1, 1, 4.0, True)
    assert not sets.in_pieces(run, out.with_suffix(".nc"), 20, 1, 1, 4e-5, True)


def network(shape: tuple[int, int], sensors: int, frames: int = 6) -> Record:
    generator = np.random.default_rng(1)
    cells = np.sort(generator.choice(shape[0] * shape[1], sensors, replace=False))
    values = np.full((frames, 1, shape[0] * shape[1]), np.nan, np.float32)
    values[:, 0, cells] = generator.normal(size=(frames, sensors))
    return Record.of_frames(values.reshape(frames, 1, *shape), Grid(shape), ("u",), np.full(frames, 2))


def test_places_of_a_tile_are_told_what_each_would_be_told_alone(monkeypatch):
    """Together they know the places nearest to each, so that the readings a law takes are those of each alone."""
    monkeypatch.setattr("solidfield.questions.record.PLACES", 16)
    monkeypatch.setattr("solidfield.questions.record.ENOUGH", 20)
    record = network((30, 30), 80)
    cells = np.setdiff1d((np.arange(8, 12)[:, None] * 30 + np.arange(8, 12)).ravel(), record.places)
    together = ask_together(record, 3, cells, -3, 2)
    count, model = len(cells), SpaceTime(Grid((30, 30)), (1.0, 1.0)).requires_grad_(False)
    window = np.full(count, 3), cells, np.full(count, -3), np.full(count, 2)
    alone = ask(record, *window, Hiding.nothing(count), "test", torch.Generator())
    assert together.values.stride(0) == 0  # one row of memory for all
    assert together.known.sum(1).max() < 6 * len(record.places)  # and not of all places
    some = torch.tensor([0, 2, 5])
    assert torch.equal(together.where(some).asked_cell, together.asked_cell[some])
    table = CovarianceTable(model, Grid((30, 30)), 6, most=spacetime.NEAR)
    by_table, known, own = (
        nearest_readings(look, asked, (30, 30), 8)
        for look, asked in ((table, together), (model, together), (model, alone))
    )
    torch.testing.assert_close(by_table.offset, known.offset)
    for found in (known, own):
        assert found.valid.all()
    torch.testing.assert_close(model(known.offset), model(own.offset))


@pytest.mark.parametrize("channels", [1, 2])
def test_a_table_of_neighbours_is_the_covariance_near_and_far(monkeypatch, channels):
    monkeypatch.setattr(spacetime, "NEAR", 9 * 11 * 11 * channels**2)
    monkeypatch.setattr(spacetime, "TABLE", 100)
    torch.manual_seed(0)
    model = SpaceTime(Grid((40, 50)), (1.0, 1.0), channels=channels).requires_grad_(False)
    with torch.no_grad():
        model.drift += 0.2
    look = model.lookup(4)
    assert isinstance(look, CovarianceTable)
    assert look.reach.tolist() == [4, 5, 5]
    offset = torch.stack([torch.randint(-n, n + 1, (30, 8)) for n in (4, 12, 12)], -1)
    link = None if channels == 1 else torch.randint(0, 4, (30, 8))
    torch.testing.assert_close(look(offset, link), model(offset, link))
    channel = None if channels == 1 else torch.randint(0, 2, (30, 8))
    for far in (1, 6):
        torch.testing.assert_close(look.between(offset // far, channel), model.between(offset // far, channel))


@pytest.mark.parametrize("periodic", [False, True])
def test_latents_in_bands_have_the_correlations_of_the_dense_law(monkeypatch, periodic):
    """A map cut into bands, with more readings than are solved for at once, across the seams between bands."""
    grid = Grid((24, 6), periodic=(periodic, periodic))
    torch.manual_seed(0)
    model = SpaceTime(grid, (1.0, 1.0), components=2).requires_grad_(False)
    with torch.no_grad():
        model.reach.copy_(torch.tensor([2.0, 5.0]).log())
        model.level.fill_(-5.0)
    asked = torch.cartesian_prod(torch.tensor([2]), torch.arange(24), torch.arange(6), torch.tensor([0]))
    known = torch.cartesian_prod(torch.arange(1, 4), torch.arange(1, 24, 4), torch.tensor([1, 4]), torch.tensor([0]))
    errors = torch.full((len(known),), 0.05)
    monkeypatch.setattr(trajectories, "READINGS", 32)
    monkeypatch.setattr(trajectories, "NEIGHBOURS", 16)
    monkeypatch.setattr(trajectories, "BAND", 2)
    monkeypatch.setattr(trajectories, "MARGIN", 4)
    members = 4000
    z = joint_latents(model, asked, known, errors, MemberNoise(0, [0], range(members)), model.lookup(4)).numpy()
    k = across(model, known[:, None], known[None]).double() + torch.diag(errors.double() + model.nugget[0])
    cross = across(model, asked[:, None], known[None]).double()
    left = across(model, asked[:, None], asked[None]).double() - cross @ torch.linalg.solve(k, cross.T)
    scale = left.diagonal().sqrt()
    np.testing.assert_allclose(z.T @ z / members, left / scale / scale[:, None], atol=0.15)


def test_latents_are_n01_where_readings_are_more_than_can_be_solved_for():
    """Everywhere in a map with thousands of readings, of which a coarse value needs its own."""
    record = network((64, 64), 400, 5)
    model = SpaceTime(record.grid, (1.0, 1.0)).requires_grad_(False)
    with torch.no_grad():
        model.reach.copy_(torch.full((6,), 6.0).log())
        model.level.fill_(-6.0)
    sites = torch.from_numpy(np.stack([record.frames, record.cells // 64, record.cells % 64, 0 * record.cells], 1))
    asked = torch.cartesian_prod(torch.tensor([2]), torch.arange(64), torch.arange(64), torch.tensor([0]))
    assert len(sites) > trajectories.READINGS
    noise = MemberNoise(0, [0], range(600))
    z = joint_latents(model, asked, sites, torch.zeros(len(sites)), noise, model.lookup(5))
    assert z.std(0).mean() == pytest.approx(1, abs=0.03)
    assert z.std(0).sub(1).abs().max() < 0.25


def test_a_scene_takes_the_readings_of_its_own_window_along():
    record = network((10, 10), 20, 12)
    scene = Scene.filling(np.full(100, 7), np.arange(100), 2, 1, tiled=True)
    known, mine = scene.among(record)
    assert len(known) == 4
    assert (mine.frame == 2).all()
    np.testing.assert_array_equal(known.values, record.values[(record.frames >= 5) & (record.frames <= 8)])
