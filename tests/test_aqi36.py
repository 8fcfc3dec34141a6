"""AQI-36: the published score is the authors' formula, and the protocol's readings are those it says."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from solidfield.experiments.bench.aqi36 import LEVELS, gap_lengths, published_crps, scores
from solidfield.experiments.bench.laws import held, levels
from solidfield.experiments.datasets.aqi36 import read_aqi36

DATA = Path(__file__).parents[2] / "shared" / "data"
STATIONS = 4


def write_files(folder: Path) -> np.ndarray:
    """A year of four stations in the layout of the three files, one reading in seven cut out of `missing`."""
    times = pd.date_range("2014-05-01 01:00", "2015-04-30 23:00", freq="h").strftime("%Y/%m/%d %H:%M:%S")
    generator = np.random.default_rng(0)
    ground = generator.integers(1, 300, (len(times), STATIONS)).astype(float)
    ground[generator.random(ground.shape) < 0.1] = np.nan
    missing = np.where(generator.random(ground.shape) < 1 / 7, np.nan, ground)
    names = [f"00100{n}" for n in range(STATIONS)]
    for name, values in (("ground", ground), ("missing", missing)):
        pd.DataFrame(values, index=pd.Index(times, name="datetime"), columns=names).to_csv(folder / f"pm25_{name}.txt")
    places = pd.DataFrame({"sensor_id": names, "latitude": [39.9, 39.7, 40.1, 39.8], "longitude": 116.3})
    places.to_csv(folder / "pm25_latlng.txt", index=False)
    return ground


def test_the_score_is_the_authors_formula_reading_by_reading():
    generator = np.random.default_rng(0)
    truth, members = generator.gamma(2.0, 30.0, 50), generator.gamma(2.0, 30.0, (100, 50))
    total = 0.0
    for p in LEVELS:
        for n in range(50):
            q = np.quantile(members[:, n], p)
            total += 2 * abs((q - truth[n]) * (float(truth[n] <= q) - p))
    expected = total / (19 * sum(abs(y) for y in truth))
    assert published_crps(np.quantile(members, LEVELS, axis=0), truth) == pytest.approx(expected, rel=1e-12)


def test_a_gap_is_as_long_as_its_station_goes_unread():
    given = np.array([1, 0, 0, 0, 1, 1, 0, 1, 0], bool)[:, None]
    frames = np.array([1, 2, 3, 6, 8])
    assert gap_lengths(given, frames, np.zeros(5, int)).tolist() == [3, 3, 3, 1, 1]


def test_files_are_read_as_the_protocol_splits_them(tmp_path):
    ground = write_files(tmp_path)
    data = read_aqi36(tmp_path)
    north = np.argsort([39.9, 39.7, 40.1, 39.8])
    np.testing.assert_array_equal(data.ground, ground[:, north])
    assert set(np.unique(data.month[data.split == 2])) == {3, 6, 9, 12}
    assert set(np.unique(data.month[data.split == 1])) == {2, 5, 8, 11}
    assert not data.asked[data.split != 2].any()
    record = data.record(data.missing)
    assert len(record.values) == np.isfinite(data.missing).sum()
    starts = np.flatnonzero(np.diff(record.stretch))
    assert (data.month[starts] != data.month[starts + 1]).all()
    assert len(starts) == 11


@pytest.mark.skipif(not (DATA / "aqi36").is_dir(), reason="the AQI-36 files are not beside the repository")
def test_as_many_readings_are_judged_as_the_papers_judge():
    data = read_aqi36(DATA)
    assert int(data.asked.sum()) == 20_434
    assert data.ground[data.asked].mean() == pytest.approx(69.66, abs=0.01)
    by_month = [int(data.asked[data.month == month].sum()) for month in (3, 6, 9, 12)]
    assert by_month == [3_835, 3_414, 9_752, 3_433]
    empty = ~np.isfinite(data.missing).any(1)
    assert int(data.asked[empty].sum()) == 4_961


def test_intervals_of_members_and_of_laws_hold_their_share():
    """A hundred draws of the law that truth is drawn from, and the law's own quantiles: 90 % intervals hold 90 %."""
    rng = np.random.default_rng(0)
    truth, length = rng.exponential(size=20_000), np.ones(20_000, int)
    members = rng.exponential(size=(100, 20_000))
    drawn = scores(np.quantile(members, LEVELS, axis=0), truth, length, members)
    exact = scores(np.tile(-np.log1p(-LEVELS)[:, None], 20_000), truth, length)
    assert [drawn["coverage"], exact["coverage"]] == pytest.approx([0.9, 0.9], abs=0.007)
    law = np.tile(-np.log1p(-levels())[:, None], 20_000)
    assert held(law, truth).mean() == pytest.approx(0.9, abs=0.007)
