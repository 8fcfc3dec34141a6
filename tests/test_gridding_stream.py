"""Gridding in a stream: the sums of a plain loop over the readings, bit for bit, however the stream is cut."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import solidfield
from solidfield.clock import FIRST, LAST, Clock, to_ns
from solidfield.grid import EDGE, Grid, nearest_turn
from solidfield.readings.accumulate import Accumulator
from solidfield.readings.limits import Limits, drop
from solidfield.readings.table import open_table

SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def awkward(seed, n, variables=2):
    """Readings in no order of time, frames far apart, cells on both sides of zero, values of all sizes, gaps."""
    generator = np.random.default_rng(seed)
    frame = generator.choice([-3, 0, 1, 2, 10**6], n)
    if seed % 2:
        frame = np.sort(frame)
    iy, ix = generator.integers(-2, 2, n), generator.integers(5, 8, n)
    values = 10.0 ** generator.integers(-3, 9, (n, variables)) + generator.standard_normal((n, variables))
    values[generator.random((n, variables)) < 0.3] = np.nan
    return frame, iy, ix, values


def looped(frame, iy, ix, values):
    """(frame, variable, cell) -> count, mean, spread: one reading after the other."""
    sums = {}
    for f, i, j, row in zip(frame.tolist(), iy.tolist(), ix.tolist(), values.tolist(), strict=True):
        for v, value in enumerate(row):
            if not math.isnan(value):
                n, first, s, q = sums.get((f, v, i, j), (0, value, 0.0, 0.0))
                sums[f, v, i, j] = n + 1, first, s + (value - first), q + (value - first) * (value - first)
    return {
        key: (n, np.float32(first + s / n), np.sqrt(np.float32(max(q - s / n * s, 0.0) / (n - 1))) if n > 1 else None)
        for key, (n, first, s, q) in sums.items()
    }


@SOME
@given(seed=st.integers(0, 10**6), n=st.integers(1, 200), cuts=st.lists(st.integers(0, 200), max_size=5))
@pytest.mark.parametrize("bounded", [False, True])
def test_sums_are_those_of_a_loop_over_the_readings(bounded, seed, n, cuts):
    frame, iy, ix, values = awkward(seed, n)
    shape, corner = ((4, 8), (-2, 0)) if bounded else (None, (0, 0))
    sums = Accumulator(2, shape, errors=False, max_memory=1.0)
    for part in np.split(np.arange(n), sorted(cuts)):
        sums.add(frame[part], iy[part] - corner[0], ix[part] - corner[1], values[part])
    cube = sums.finish()
    expected = looped(frame, iy, ix, values)
    low = tuple(np.add(cube.first_cell, corner))
    found = {
        (int(cube.frames[f]), int(v), int(i + low[0]), int(j + low[1])): (
            int(cube.count[f, v, i, j]),
            cube.mean[f, v, i, j],
            None if np.isnan(cube.spread[f, v, i, j]) else cube.spread[f, v, i, j],
        )
        for f, v, i, j in np.argwhere(cube.count > 0)
    }
    assert found == expected  # every bit
    assert np.isnan(cube.mean[cube.count == 0]).all()
    assert np.isnan(cube.spread[cube.count < 2]).all()


@SOME
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 90),
    group=st.integers(1, 90),
    unit=st.sampled_from(["ms", "us", "ns"]),
)
def test_parquet_in_any_groups_and_chunks_is_the_table_it_was_written_from(tmp_path, seed, size, group, unit):
    pytest.importorskip("pyarrow")
    generator, n = np.random.default_rng(seed), 80
    seconds = generator.integers(0, 86_400, n)
    frame = pd.DataFrame(
        {
            "time": (np.datetime64("2024-02-28", "s") + seconds).astype(f"M8[{unit}]"),
            "lat": generator.uniform(-0.1, 0.1, n),
            "lon": generator.choice([-179.99, 179.98, 179.99], n),
            "pm": np.where(generator.random(n) < 0.2, np.nan, generator.gamma(4.0, 10.0, n)),
            "no2": generator.integers(-5, 5, n),
        }
    )
    if seed % 2:
        frame.loc[::7, "time"] = pd.NaT
        frame.loc[::11, "lat"] = 91.0
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=group)
    options = {"timezone": "+05:30", "cell": "0.02deg", "every": "1h", "drop_above": 60}
    whole = solidfield.grid(frame, **options)
    streamed = solidfield.grid(tmp_path / "t.parquet", rows=size, **options)
    assert whole.identical(streamed.assign_attrs(source=whole.attrs["source"]))


@pytest.mark.parametrize(("group", "rows", "sizes"), [(12, 12, 12), (12, 11, 6), (12, 5, 4), (4, 8, 8)])
def test_chunks_of_parquet_are_equal_parts_of_a_row_group_as_far_as_these_are_larger(tmp_path, group, rows, sizes):
    pytest.importorskip("pyarrow")
    times = pd.date_range("2024-01-01", periods=48, freq="h", tz="UTC")
    pd.DataFrame({"time": times, "lat": 22.5, "lon": 88.3, "pm": 1.0}).to_parquet(
        tmp_path / "t.parquet", row_group_size=group
    )
    assert [len(part) for part, _ in open_table(tmp_path / "t.parquet").chunks(rows)] == 48 // sizes * [sizes]


def test_limits_leave_the_rows_as_they_were():
    table = open_table(pd.DataFrame({"time": "2024-01-01", "lat": 1.0, "lon": 2.0, "pm": [1.0, 5.0]}), timezone="UTC")
    ((rows, _),) = table.chunks()
    values, dropped = drop(table, rows, rows.values, np.zeros(2, int), Limits(above=2), [0])
    assert np.isnan(values[1, 0])
    assert rows.values.ravel().tolist() == [1, 5]
    assert [one.text for one in dropped] == ["5"]


@pytest.mark.parametrize("unit", ["Y", "D", "h", "s", "ms", "us", "ns"])
def test_nanoseconds_are_numpys_own_as_far_as_they_count(unit):
    inside = np.array(["1678", "1969", "1970", "2024", "2261"], f"M8[{unit}]")
    np.testing.assert_array_equal(to_ns(inside), inside.astype("M8[ns]"))
    np.testing.assert_array_equal(to_ns(inside[::2]), inside[::2].astype("M8[ns]"))
    if unit != "ns":  # which cannot count the others
        step = np.timedelta64(1, unit)
        beyond = np.array([FIRST.astype(f"M8[{unit}]") - step, LAST.astype(f"M8[{unit}]"), np.datetime64("NaT")])
        assert np.isnat(to_ns(beyond)).all()
        np.testing.assert_array_equal(np.isnat(to_ns(np.append(inside, beyond))), [False] * 5 + [True] * 3)


@SOME
@given(
    seed=st.integers(0, 10**6),
    spacing=st.sampled_from([0.01, 0.1, 1 / 3, 250.0]),
    origin=st.sampled_from([0.0, 22.405, -1e6]),
)
def test_cells_and_frames_are_their_formulas(seed, spacing, origin):
    generator = np.random.default_rng(seed)
    edges = origin + (generator.integers(-1000, 1000, 50) + 0.5) * spacing
    near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), edges * (1 - 2e-16)])
    (row, column) = Grid((1, 1), (spacing, 1.0), (origin, 0.5)).index(near, near)
    assert row.tolist() == [math.floor((at - origin) / spacing + 0.5 + EDGE) for at in near.tolist()]
    assert column.tolist() == [math.floor((at - 0.5) / 1.0 + 0.5 + EDGE) for at in near.tolist()]
    times = generator.integers(-(10**18), 10**18, 50)
    clock = Clock(1800 * 10**9, 7, "round")
    assert clock.index(times.astype("M8[ns]")).tolist() == [
        (t - 7 + 900 * 10**9) // (1800 * 10**9) for t in times.tolist()
    ]


@SOME
@given(x=st.lists(st.floats(-720, 720), min_size=1, max_size=5), middle=st.floats(-180, 180))
def test_longitudes_turn_to_the_nearest_circle(x, middle):
    turned = nearest_turn(np.array(x), middle)
    assert (np.abs(turned - middle) <= 180 + 1e-9).all()
    np.testing.assert_array_equal(turned, [at - 360.0 * np.round((at - middle) / 360.0) for at in x])
