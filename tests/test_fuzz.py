"""Fuzzing. The law: a right answer, or one line with culprit and remedy; never a traceback, never a silent change.

A bounded share runs with the other tests, the same cases each time; `make fuzz` draws FUZZ cases of each kind anew.
A warning of numpy with a path of its source is a traceback by another name, and so is memory without bounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from typer.testing import CliRunner

from city import city, city_run
from hostile import JUNK, KEYS, NAMES, NUMBERS, ODD, OPTIONS, TIMES
from solidfield import check, load
from solidfield import grid as grid_readings
from solidfield.cli import app
from solidfield.disk import digest
from solidfield.errors import SolidError
from solidfield.readings.size import NINES

COUNT = int(os.environ.get("FUZZ", "0"))
GROWTH = 3 << 20  # kB that all cases together may add to the process: no bound of theirs is above 2 GiB


def cases(share: float = 1.0):
    """So many of them; those that work for long are fewer."""
    return settings(
        max_examples=max(1, round(share * (COUNT or 25))),
        derandomize=not COUNT,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """How large forests are is no matter of hostile input."""
    with pytest.MonkeyPatch.context() as patch:
        small = {"rivals.LESSONS": 6, "trees.LEAVES": (3,), "trees.TREES": 5, "ensembles.FIT_TREES": 40}
        for name, few in small.items():
            patch.setattr(f"solidfield.report.{name}", few)
        yield


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """readings.csv, frames.nc of them, and a run."""
    folder = tmp_path_factory.mktemp("fuzz")
    city().to_csv(folder / "readings.csv", index=False)
    grid_readings(folder / "readings.csv", folder / "frames.nc", cell="0.01deg", every="1h")
    city_run(folder / "run")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield folder
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH


@contextlib.contextmanager
def answered():
    """A right answer or one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with contextlib.suppress(SolidError):
            yield


field = st.one_of(st.sampled_from(TIMES), st.sampled_from(NUMBERS), st.sampled_from(JUNK), st.text(max_size=8))


class Plain(list):
    """A row that can be read."""


plain = st.tuples(
    st.integers(0, 47).map(lambda h: f"2024-01-0{1 + h // 24}T{h % 24:02d}:00:00Z"),
    st.sampled_from(["22.5", "22.51"]),
    st.sampled_from(["88.3", "88.31"]),
    st.floats(-1e3, 1e3).map(lambda v: f"{v:.3f}").filter(lambda text: float(text) not in NINES),
).map(Plain)


@cases()
@given(st.lists(st.one_of(plain, plain, plain, st.lists(field, min_size=3, max_size=6)), min_size=1, max_size=30))
def test_every_line_of_a_table_is_read_or_refused(rows):
    """Of one variable: lines = read + refused, and what is read is in the means with its count."""
    lines = [",".join(text.replace("\n", " ").replace("\r", " ") for text in row) for row in rows]
    with tempfile.TemporaryDirectory() as folder, answered():
        path = Path(folder, "readings.csv")
        path.write_bytes("\n".join(["time,lat,lon,pm", *lines, ""]).encode("utf-8", "replace"))
        frames = grid_readings(path, cell="0.01deg", every="1h", max_memory=0.1)
        told = {name: int(frames.attrs[name]) for name in frames.attrs if name.startswith("rows_")}
        said = sum(bool(line.strip()) for line in path.read_text(errors="replace").split("\n")[1:])
        blank = said - told["rows_read"] - told["rows_refused"]
        assert 0 <= blank <= sum(not line.replace(",", "").strip() for line in lines)
        assert int(frames["pm_count"].sum()) == told["rows_read"] - told["rows_outside"] - told["rows_outliers"]
        assert told["rows_read"] >= sum(isinstance(row, Plain) for row in rows) - told["rows_outliers"]
        assert np.isfinite(frames["pm"].values[frames["pm_count"].values > 0]).all()


@cases()
@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=7),
    st.lists(st.lists(field, max_size=8), max_size=8),
    st.none() | st.dictionaries(st.sampled_from([*NAMES, *NUMBERS]), st.just((22.5, 88.3)), min_size=1, max_size=4),
    st.sampled_from([",", " ", "  ", ";", "# ,"]),
)
def test_any_header_over_any_fields_is_checked_or_refused(names, rows, places, layout):
    text = "\n".join(layout[-1:].join(row) for row in [names, *rows])
    text = layout[:-1] + text.replace("\n", "\n" + layout[:-1].strip("#"))
    with tempfile.TemporaryDirectory() as folder, answered():
        Path(folder, "t.csv").write_bytes(text.encode("utf-8", "replace"))
        json.dumps(check(Path(folder, "t.csv"), places=places).as_dict(), allow_nan=False)


@cases()
@given(st.sampled_from([".csv", ".csv.gz", ".nc", ".parquet", ".zarr"]), st.binary(max_size=400), st.data())
def test_bytes_are_a_table_or_refused(at, ending, noise, data):
    """Noise, and a sound file with some of its bytes changed."""
    content = noise
    if data.draw(st.booleans()) and ending in (".csv", ".nc"):
        whole = bytearray((at / ("readings.csv" if ending == ".csv" else "frames.nc")).read_bytes())
        for place, byte in data.draw(
            st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=9)
        ):
            whole[place] = byte
        content = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with tempfile.TemporaryDirectory() as folder, answered():
        Path(folder, f"t{ending}").write_bytes(content)
        check(Path(folder, f"t{ending}"))


values = st.one_of(
    arrays.arrays(
        st.sampled_from(["f4", "f8", "i2", "u1", "?", "c16", "M8[s]", "U3", "O"]),
        arrays.array_shapes(max_dims=4, max_side=5),
    ),
    arrays.arrays("f8", st.tuples(st.integers(1, 3), st.just(4), st.just(4)), elements=st.floats(width=64)),
)
hours = st.integers(0, 400).map(lambda h: np.datetime64("2024-01-01", "ns") + np.timedelta64(h, "h"))
odd = st.sampled_from([np.datetime64(text, "s") for text in ("NaT", "1500-01-01", "2024-01-01T00:30")])
stamps = st.one_of(
    hours.map(lambda first: [first + np.timedelta64(k, "h") for k in range(3)]),
    st.lists(st.one_of(hours, odd), min_size=3, max_size=3),
)


@cases()
@given(values, stamps, st.booleans(), st.data())
def test_arrays_are_mapped_or_refused(at, field, times, dated, data):
    """What comes out is finite, and holds the readings that went in where they are not hidden."""
    run = load(at / "run")
    with answered():
        if field.dtype.kind in "fi" and data.draw(st.booleans()):
            field = np.ma.array(field, mask=data.draw(arrays.arrays("?", field.shape)))
        frames = field
        if dated and field.ndim == 3:
            axes = {"time": np.array(times[: len(field)]), "lat": run.grid.y, "lon": run.grid.x}
            if tuple(map(len, axes.values())) == field.shape:
                frames = xr.DataArray(field, axes, tuple(axes), name="pm")
        maps = run.reconstruct(frames, members=2)
        assert np.isfinite(maps["pm"].values).all()
        assert (maps["observed"].values.sum((1, 2)) > 0).all()


@cases(0.3)
@given(st.sampled_from(sorted(OPTIONS)), st.data())
def test_any_option_is_obeyed_or_refused(at, verb, data):
    """Exit code 0, or 2 and words: of the program's own parser, or one line of ours. A refusal leaves nothing."""
    names = data.draw(st.lists(st.sampled_from(OPTIONS[verb]), max_size=3, unique=True))
    with tempfile.TemporaryDirectory() as folder, answered():
        out = Path(folder, "out" if verb in ("quality", "evaluate", "train") else "out.nc")
        subject = {
            "predict": [at / "run", at / "readings.csv"],
            "quality": [at / "frames.nc"],
            "evaluate": [at / "run"],
        }
        words = [verb, *subject.get(verb, [at / "readings.csv"]), *(["--out", out] if verb != "check" else [])]
        words += {"train": ["--model", "climatology"], "predict": ["--members", 2], "evaluate": ["--scenes", 2]}.get(
            verb, []
        )
        for name in names:
            value = data.draw(st.sampled_from(ODD))
            words += [name, f"{data.draw(st.sampled_from(KEYS))}={value}" if name == "--set" else value]
        words += ["--preset", "smoke"] if verb == "train" and "--preset" not in names else []
        words += (
            ["--cell", "0.01deg", "--every", "1h"] if verb == "train" and not {"--cell", "--every"} & {*names} else []
        )
        words += ["--json"] if data.draw(st.booleans()) else []
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            assert verb == "train" or not out.exists()
            raise result.exception
        assert result.exit_code in (0, 2)
        if result.exit_code == 0 and words[-1] == "--json":
            json.loads(result.stdout, parse_constant=pytest.fail)


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("log"), st.just(10**12)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)


def _places(value, here=()):
    """The path of every value of a JSON document."""
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*here, name)
        yield from _places(inner, (*here, name))


@cases(0.5)
@given(st.integers(0, 10**6), anything, st.booleans(), st.booleans())
def test_a_run_that_says_anything_is_used_or_refused(at, seed, junk, remove, flip):
    """run.json with a value changed and its hash made right, or any file with a byte changed."""
    with tempfile.TemporaryDirectory() as folder, answered():
        run = Path(folder, "run")
        shutil.copytree(at / "run", run)
        lot = random.Random(seed)
        if flip:
            file = lot.choice(sorted(path for path in run.rglob("*") if path.is_file()))
            content = bytearray(file.read_bytes())
            content[lot.randrange(len(content))] ^= 1 << lot.randrange(8)
            file.write_bytes(content)
        else:
            document = json.loads((run / "run.json").read_text())
            del document["sha256"]
            *way, last = lot.choice(sorted(_places(document), key=str))
            inside = document
            for step in way:
                inside = inside[step]
            if remove:
                del inside[last]
            else:
                inside[last] = junk
            (run / "run.json").write_text(json.dumps(document | {"sha256": digest(document)}))
        opened = load(run)
        table = pd.DataFrame({"time": ["2024-01-05T05:00Z"], "lat": 22.5, "lon": 88.3, "pm": 30.0})
        maps = opened.forecast(table, members=2)
        assert all(np.isfinite(maps[name].values).all() for name in opened.variables)
