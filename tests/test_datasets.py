"""Public data sets: every reading in the slot and cell the protocol names, the cut of scikit-learn, no unread value."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from airfiles import write_airdelhi, write_era5, write_kolkata
from solidfield.errors import SolidError
from solidfield.experiments.datasets.airdelhi import busiest_box, fold_rows, larger_part, place, read_airdelhi, trim
from solidfield.experiments.datasets.era5 import era5_pairs, measured_era5
from solidfield.experiments.datasets.kolkata import read_kolkata
from solidfield.grid import Grid
from solidfield.keys import numpy_generator
from solidfield.pairs.covariates import Covariates
from solidfield.pairs.frames import Frames
from solidfield.pairs.holdout import Holdout
from solidfield.pairs.masked import masked_pairs

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="module")
def delhi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delhi")
    rows = write_airdelhi(folder)
    return rows, read_airdelhi(folder)


@pytest.mark.parametrize("count", [5, 7, 31, 100])
@pytest.mark.parametrize("fold", range(5))
def test_folds_are_those_of_scikit_learn(count, fold):
    split = pytest.importorskip("sklearn.model_selection").KFold(5, shuffle=True, random_state=0)
    wanted = [test for _, test in split.split(np.zeros(count))][fold]
    assert fold_rows(count, fold).tolist() == wanted.tolist()


def test_every_mean_is_that_of_its_slot_and_cell(delhi):
    rows, frames = delhi
    slot = pd.to_datetime(rows["dateTime"]).dt.round("30min").dt.tz_convert("UTC").dt.tz_localize(None)
    iy = [int((lat - 28.48) / 0.009) for lat in rows["lat"]]
    ix = [int((long - 77.10) / 0.0102) for long in rows["long"]]
    means = rows.assign(slot=slot, iy=iy, ix=ix).groupby(["slot", "iy", "ix"])["pm2_5"].mean()
    assert np.isfinite(frames.values).sum() == len(means)
    for (when, y, x), mean in means.items():
        t = int(np.flatnonzero(frames.times == np.datetime64(when))[0])
        assert frames.values[t, 0, y, x] == pytest.approx(mean, rel=1e-5)
    assert frames.grid.y[0] == pytest.approx(28.4845)
    assert frames.every == 1800


def test_the_variant_with_weather_reads_alike(tmp_path, delhi):
    write_airdelhi(tmp_path, weather=True)
    np.testing.assert_array_equal(read_airdelhi(tmp_path).values, delhi[1].values)


def test_slots_and_cells_at_the_edges():
    local = ["2020-11-12 04:44", "2020-11-12 04:46", "2020-11-12 22:44", "2020-11-12 22:46", "2020-11-11 12:00",
             "2021-01-31 12:00", "2021-01-30 22:30"]  # fmt: skip
    times = pd.DatetimeIndex(local).tz_localize("Asia/Kolkata").tz_convert("UTC").tz_localize(None).to_numpy()
    y, x = np.full(7, 28.475), np.full(7, 77.1205)  # int() cuts -0.56 to 0
    placed = place(times, y, x)
    assert placed["slot"].notna().tolist() == [False, True, True, False, False, False, True]
    assert str(placed["slot"][1]) == "2020-11-12 05:00:00"
    assert placed["y"].tolist() == [0] * 7
    assert placed["x"].tolist() == [2] * 7


def test_a_folder_without_daily_files_is_named(tmp_path):
    with pytest.raises(SolidError, match="YYYY-MM-DD_all"):
        read_airdelhi(tmp_path)
    with pytest.raises(SolidError, match="Mobile_Spring"):
        read_kolkata(tmp_path)
    with pytest.raises(SolidError, match="0 files"):
        measured_era5(tmp_path)


def test_each_day_is_cut_by_itself(delhi):
    _, frames = delhi
    seen, larger = np.isfinite(frames.values[:, 0]), larger_part(frames)
    days = (frames.times + np.timedelta64(330, "m")).astype("datetime64[D]")
    for day in np.unique(days):
        rows = seen[days == day].sum()
        assert (seen & ~larger)[days == day].sum() == -(-rows // 5)  # the first fold has the rest
        cut = np.flatnonzero(~larger[days == day][seen[days == day]])
        assert cut.tolist() == fold_rows(rows).tolist()


def test_the_window_with_most_rows(delhi):
    counts = numpy_generator(0, "box").integers(0, 9, (8, 7))
    y, x, height, width = busiest_box(counts, (3, 4))
    everywhere = {(i, j): counts[i : i + 3, j : j + 4].sum() for i in range(6) for j in range(4)}
    assert counts[y : y + height, x : x + width].sum() == max(everywhere.values())
    assert busiest_box(counts, (21, 20)) == (0, 0, 8, 7)
    _, frames = delhi
    part = trim(frames, (2, 1, 3, 4))
    assert part.grid.y[0] == pytest.approx(frames.grid.y[2])
    assert part.grid.x[0] == pytest.approx(frames.grid.x[1])
    assert np.isfinite(part.values).sum() == np.isfinite(frames.values[:, :, 2:5, 1:5]).sum()


def history(frames, source, known, path):  # -> store
    holdout, past = Holdout(timezone="UTC"), Covariates(calendar=(), history=72.0)
    read = np.isfinite(frames.values[:, 0])
    return masked_pairs(frames, path, source, read & ~source, leads=(0,), holdout=holdout, covariates=past, known=known)


def test_history_knows_what_it_may(tmp_path):
    """Of the same day the sources, of days before what is named, and in training nothing of a judged day."""
    generator = numpy_generator(0, "history")
    times = pd.date_range("2023-01-01", periods=40, freq="6h").to_numpy()
    values = generator.normal(size=(40, 1, 3, 4)).astype(np.float32)
    values[generator.random(values.shape) < 0.3] = np.nan
    frames = Frames(values, times, Grid((3, 4)), ("pm",), ("",), 21600.0)
    read = np.isfinite(values[:, 0])
    source = read & (generator.random(read.shape) < 0.7)
    for name, known in (("C", np.zeros_like(read)), ("AC", source), ("ABC", read)):
        store = history(frames, source, known, tmp_path / f"{name}.zarr")
        weight = store.channels.moving[:, 1]
        for t in range(40):
            day, split = t // 4, Holdout(timezone="UTC").splits(times[t : t + 1])[0]
            allowed = {"train": ("train",), "validation": ("train", "validation")}.get(
                split, ("train", "validation", "test")
            )
            expected = np.zeros((3, 4), bool)
            for s in range(max(0, t - 12), t):
                if Holdout(timezone="UTC").splits(times[s : s + 1])[0] in allowed:
                    expected |= source[s] if s // 4 == day else known[s]
            np.testing.assert_array_equal(weight[t] > 0, expected)


def test_unread_cells_never_enter_the_pairs(tmp_path):
    field = write_era5(tmp_path / "a")
    frames, source, target = measured_era5(tmp_path / "a", share=0.05)
    assert not (source & target).any()
    assert set(source.sum((1, 2))) == {5}
    assert set(target.sum((1, 2))) == {4}
    np.testing.assert_array_equal(np.isfinite(frames.values[:, 0]), source | target)
    write_era5(tmp_path / "b", spoil=np.where(source | target, 0.0, 1e3))
    one, other = (era5_pairs(tmp_path / name, tmp_path / f"{name}.zarr", share=0.05) for name in "ab")
    assert one.fingerprint == other.fingerprint
    case, cells, values = one.readings_of("target", np.arange(len(one)))
    truth = field[one.columns["frame_target"][case]].reshape(len(case), -1)
    np.testing.assert_allclose(values, truth[np.arange(len(case)), cells], rtol=1e-6)


def test_kolkata_files_are_gridded_by_local_hours(tmp_path):
    write_kolkata(tmp_path)
    frames = read_kolkata(tmp_path)
    assert frames.grid.shape == (5, 6)
    assert str(frames.times[0]) == "2023-03-31T18:30:00.000000000"
    assert np.nanmax(frames.values) < 400
    assert frames.timezone == "+05:30"


@pytest.mark.skipif(not (DATA / "kolkata").is_dir(), reason="the Kolkata files are not in ../shared/data")
def test_kolkata_has_the_counts_of_its_description():
    frames = read_kolkata(DATA)
    seen = np.isfinite(frames.values)
    assert frames.grid.shape == (19, 18)
    assert seen.any((0, 1)).sum() == 144
    assert seen.any((1, 2, 3)).sum() == 3255
