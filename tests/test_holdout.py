"""What is held out: days by their number, sensors and blocks by their share, all functions of the settings alone."""

import numpy as np
import pytest
import xarray as xr

from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.pairs.holdout import Holdout, hold_list, hold_mask
from solidfield.pairs.writing import Example, write_pairs

TIMES = np.datetime64("2022-12-25", "ns") + np.arange(24 * 40) * np.timedelta64(3600, "s")
READ = np.random.default_rng(0).random((12, 15)) < 0.6


def test_every_fifth_day_since_new_year_2023_tests():
    splits = Holdout().splits(TIMES)
    days = (TIMES.astype("M8[D]") - np.datetime64("2023-01-01", "D")).astype(int)
    for day, split in zip(days, splits, strict=True):
        assert split == ("test" if day % 5 == 4 else "validation" if day % 10 == 2 else "train")


def test_a_day_begins_at_local_midnight():
    """2023-01-05 is test day 4: in Kolkata it begins at 18:30 UTC of the 4th."""
    times = np.array(["2023-01-04T18:29", "2023-01-04T18:30", "2023-01-05T18:29", "2023-01-05T18:30"], "M8[ns]")
    assert Holdout(timezone="Asia/Kolkata").splits(times).tolist() == ["train", "test", "test", "train"]


def test_a_day_can_be_shorter():
    splits = Holdout(hours=2.0, validation_days=0).splits(TIMES[: 24 * 7])
    for n, split in enumerate(splits):
        number = (n - 24 * 7) // 2  # since New Year
        assert split == ("test" if number % 5 == 4 else "train")


def test_nothing_is_held_unless_asked_for():
    none = Holdout(days=0, validation_days=0)
    assert (none.splits(TIMES) == "train").all()
    assert none.cells(READ) == {}


def test_held_sensors_are_the_share_of_the_cells_with_readings():
    held = Holdout(sensors=0.1).cells(READ)["held_sensors"]
    assert held.sum() == round(0.1 * READ.sum())
    assert not (held & ~READ).any()
    assert (Holdout(sensors=0.1).cells(READ)["held_sensors"] == held).all()
    assert (Holdout(sensors=0.1, seed=1).cells(READ)["held_sensors"] != held).any()


def test_each_cell_is_in_one_fold():
    folds = [Holdout(folds=3, fold=n).cells(READ)["held_sensors"] for n in range(3)]
    assert (np.sum([mask.astype(int) for mask in folds], axis=0) == READ).all()
    assert max(mask.sum() for mask in folds) - min(mask.sum() for mask in folds) <= 1
    for wrong in ({"folds": 1}, {"folds": 3, "fold": 3}):
        with pytest.raises(SolidError, match="fold"):
            Holdout(**wrong)


def test_a_list_and_a_mask_hold_their_cells_and_no_others(tmp_path):
    grid = Grid(READ.shape, spacing=(0.5, 0.25), origin=(10.0, -3.0), axes=("lat", "lon"))
    wanted = np.zeros_like(READ)
    wanted.flat[np.flatnonzero(READ)[[2, 5, 6]]] = True
    rows, columns = np.nonzero(wanted)
    lines = [f"{grid.y[r] + 0.1},{grid.x[c] - 0.1},s{n}" for n, (r, c) in enumerate(zip(rows, columns, strict=True))]
    (tmp_path / "list.csv").write_text("\n".join(["Latitude,long,name", *lines]))
    xr.Dataset({"held": (("lat", "lon"), wanted.astype("i1"))}, {"lat": grid.y, "lon": grid.x}).to_netcdf(
        tmp_path / "mask.nc"
    )
    for places in (hold_list(tmp_path / "list.csv"), hold_mask(tmp_path / "mask.nc")):
        held = Holdout(places=places, calibration=0.2).cells(READ, grid)
        assert (held["held_sensors"] == wanted).all()
        assert not (held["calibration_cells"] & wanted).any()
    row, column = np.argwhere(~READ)[0]
    with pytest.raises(SolidError, match="nothing was ever read"):
        Holdout(places=((grid.y[row], grid.x[column]),)).cells(READ, grid)
    xr.Dataset({"held": ("lat", wanted[:, 0])}).to_netcdf(tmp_path / "line.nc")
    with pytest.raises(SolidError, match="no mask"):
        hold_mask(tmp_path / "line.nc")
    (tmp_path / "other.csv").write_text("name\na")
    with pytest.raises(SolidError, match="lat and lon"):
        hold_list(tmp_path / "other.csv")


def test_calibration_cells_are_others_than_what_tests():
    held = Holdout(blocks=0.2, block=2, sensors=0.1, calibration=0.1).cells(READ)
    assert set(held) == {"held_blocks", "held_sensors", "calibration_cells"}
    assert np.sum([mask.astype(int) for mask in held.values()], axis=0).max() == 1
    assert not (held["calibration_cells"] & ~READ).any()
    free = READ & ~held["held_blocks"] & ~held["held_sensors"]
    assert held["calibration_cells"].sum() == round(0.1 * free.sum())
    without = Holdout(blocks=0.2, block=2, sensors=0.1).cells(READ)
    assert (without["held_sensors"] == held["held_sensors"]).all()


@pytest.mark.parametrize("side", [2, 3, 5])
def test_held_blocks_are_whole_and_hold_readings(side):
    held = Holdout(blocks=0.2, block=side, sensors=0.1).cells(READ)
    blocks = held["held_blocks"]
    assert not (blocks & held["held_sensors"]).any()
    assert 0 < blocks.sum() < blocks.size / 2
    # Every held cell lies in a side x side tile of one offset that is held as far as the map goes.
    for oy in range(side):
        for ox in range(side):
            y, x = (np.arange(12) + oy) // side, (np.arange(15) + ox) // side
            tile = y[:, None] * 100 + x
            if all(blocks[tile == t].all() and READ[tile == t].any() for t in np.unique(tile[blocks])):
                return
    raise AssertionError("no tiling fits the held blocks")


def test_shares_that_leave_nothing_are_refused():
    with pytest.raises(SolidError, match="share"):
        Holdout(sensors=1.0)
    with pytest.raises(SolidError, match="every day"):
        Holdout(days=1)
    with pytest.raises(SolidError, match="leaves none"):
        Holdout(sensors=0.5).cells(np.eye(1, dtype=bool))
    with pytest.raises(SolidError, match="leaves none"):
        Holdout(blocks=0.5, block=9).cells(np.ones((4, 4), dtype=bool) & (np.arange(4) < 1))


def test_a_store_written_under_the_former_name_shows_its_calibration_cells(tmp_path):
    mask = np.array([[True, False]])
    example = Example(np.array([0]), np.ones(1), np.array([1]), np.ones(1), 1, "train", 0.0, 1.0)
    store = write_pairs(tmp_path / "pairs", Grid((1, 2)), ("u",), [example], held={"strangers": mask})
    assert list(store.held) == ["calibration_cells"]
    assert (store.held["calibration_cells"] == mask).all()
