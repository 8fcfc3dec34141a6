"""The truth store: pure in chunking and resumption, honest about what is missing."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from solidfield.errors import SolidError
from solidfield.worlds import GaussianWorld, NavierStokes, open_truth, write_truth

WORLD = GaussianWorld(cells=8, frames=3)


def chunk_files(path: Path) -> list[Path]:
    return sorted((file for file in (path / "truth" / "c").rglob("*") if file.is_file()), key=str)


class Interrupted(Exception):
    pass


def stop_after(count: int):
    def progress(what: str, done: int, total: int | None) -> None:
        if done >= count:
            raise Interrupted

    return progress


@pytest.mark.parametrize("chunk", [1, 3, 16])
def test_what_is_read_is_what_was_simulated_in_any_chunks(tmp_path, chunk):
    truth = write_truth(WORLD, tmp_path / "t", trajectories=7, chunk=chunk)
    np.testing.assert_array_equal(truth.read(range(7)), WORLD.trajectories(range(7)))
    np.testing.assert_array_equal(truth.read([5, 0, 5]), WORLD.trajectories([5, 0, 5]))
    assert truth.read([]).shape == (0, 3, 1, 8, 8)


def test_the_store_knows_its_world(tmp_path):
    world = NavierStokes(cells=16, frames=2, warmup=0.0)
    truth = write_truth(world, tmp_path / "t", trajectories=2)
    again = open_truth(tmp_path / "t")
    for opened in (truth, again):
        assert opened.grid == world.grid
        assert opened.shifts == world.shifts
        assert opened.count == 2
        assert opened.variables == ("vorticity",)
        assert opened.world == world.describe()
        assert opened.frames == 2
        np.testing.assert_array_equal(opened.times, world.times)
    json.dumps(truth.world)


def test_resumption_ends_in_the_same_bits_and_repeats_nothing(tmp_path):
    calls: list[int] = []

    class Counting(GaussianWorld):
        def trajectories(self, indices):
            calls.extend(indices)
            return super().trajectories(indices)

    world = Counting(cells=8, frames=3)
    write_truth(world, tmp_path / "whole", 7, chunk=2)
    calls.clear()
    with pytest.raises(Interrupted):
        write_truth(world, tmp_path / "t", 7, chunk=2, progress=stop_after(4))
    with pytest.raises(SolidError, match=r"incomplete: 4 of 7 .*resume"):
        open_truth(tmp_path / "t")
    seen: list[tuple[int, int]] = []
    write_truth(world, tmp_path / "t", 7, chunk=5, progress=lambda what, *done: seen.append(done))
    assert calls == list(range(7))
    assert seen == [(4, 7), (6, 7), (7, 7)]
    for one, other in zip(chunk_files(tmp_path / "whole"), chunk_files(tmp_path / "t"), strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("harm", ["delete", "truncate"])
def test_a_lost_or_half_written_chunk_is_noticed_and_computed_again(tmp_path, harm):
    path = tmp_path / "t"
    whole = write_truth(WORLD, path, 7, chunk=2).read(range(7))
    victim = chunk_files(path)[1]
    if harm == "delete":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:100])
    with pytest.raises(SolidError, match="incomplete: 5 of 7"):
        open_truth(path)
    np.testing.assert_array_equal(write_truth(WORLD, path, 7).read(range(7)), whole)


def test_a_flipped_bit_is_an_error_not_data(tmp_path):
    truth = write_truth(WORLD, tmp_path / "t", 4, chunk=2)
    victim = chunk_files(tmp_path / "t")[1]
    content = bytearray(victim.read_bytes())
    content[40] ^= 1
    victim.write_bytes(content)
    truth.read([0, 1])
    with pytest.raises(SolidError, match="damaged"):
        truth.read([3])


def test_a_killed_process_resumes_to_the_same_bits(tmp_path):
    path = tmp_path / "t"
    code = (
        "import sys; from solidfield.worlds import GaussianWorld, write_truth; "
        "write_truth(GaussianWorld(cells=32, frames=20), sys.argv[1], 4000, chunk=4)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    deadline = time.monotonic() + 60
    while not (path.exists() and len(chunk_files(path)) > 2) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    with pytest.raises(SolidError, match="incomplete"):
        open_truth(path)
    world = GaussianWorld(cells=32, frames=20)
    with pytest.raises(Interrupted):
        write_truth(world, path, 4000, progress=stop_after(24))
    reread = xr.open_zarr(path, consolidated=False)["truth"][:24].values
    np.testing.assert_array_equal(reread, world.trajectories(range(24)))


def test_another_world_is_refused_by_the_name_of_the_difference(tmp_path):
    write_truth(WORLD, tmp_path / "t", 2)
    with pytest.raises(SolidError, match=r"damping=0\.5, not 0\.7"):
        write_truth(GaussianWorld(cells=8, frames=3, damping=0.7), tmp_path / "t", 2)
    with pytest.raises(SolidError, match="trajectories=2, not 3"):
        write_truth(WORLD, tmp_path / "t", 3)
    with pytest.raises(SolidError, match="kind=gaussian, not navier-stokes"):
        write_truth(NavierStokes(cells=16), tmp_path / "t", 2)


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(SolidError, match="does not exist"):
        open_truth(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("folder", "file"):
        with pytest.raises(SolidError, match="not a truth store"):
            open_truth(tmp_path / name)
        with pytest.raises(SolidError):
            write_truth(WORLD, tmp_path / name, 2)
    assert (tmp_path / "folder" / "letter.txt").read_text() == "mine"
    with pytest.raises(SolidError, match="0 to 1, not 2"):
        write_truth(WORLD, tmp_path / "good", 2).read([2])
    with pytest.raises(SolidError, match="trajectories=0"):
        write_truth(WORLD, tmp_path / "bad", 0)


def test_xarray_opens_the_store(tmp_path):
    write_truth(WORLD, tmp_path / "t", 3)
    data = xr.open_zarr(tmp_path / "t", consolidated=False)
    assert data["truth"].dims == ("trajectory", "frame", "channel", "y", "x")
    np.testing.assert_array_equal(data["x"], WORLD.grid.x)
