"""Gridding a stream of readings against what pandas, polars and DuckDB make of the same file: one run, the same means.

    python benchmarks/gridding.py 2000000      fewer rows than the 100 million of the stored result

Synthetic readings of 200 moving sensors over 90 days in a Parquet file, the first eighth of them in a CSV file, too;
cells of 0.01 degree, frames of 30 minutes. Each contestant runs in a process of its own, so that its peak memory is its
own: what it holds beyond the imports. All read the same columns and compute mean, count and standard deviation, on as
many threads as they like, in turns, and the best of three counts; pandas, which holds all rows several times over, is
spared more than 12.5 million of them.
Goals: 100 million rows within 1 GiB, at least as fast as the fastest.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

from solidfield.keys import numpy_generator
from solidfield.readings.intake import grid

ROWS = 100_000_000
PART = 8  # the rows of the CSV file are so many times fewer
PANDAS = 12_500_000  # rows that pandas may be given
TURNS = 3  # of each contestant, of which the fastest counts
BLOCK = 500_000  # rows written at a time
CELL, EVERY, DAYS, SENSORS = 0.01, "30min", 90, 200
Answer = tuple[float, int]  # sum of the means, readings


def write(path: Path, rows: int) -> None:
    """Readings as CSV or Parquet by the name, block by block; a thousand of them in a file called few."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    plain = pa.csv.WriteOptions(quoting_style="none")
    names = pa.array([f"S{number}" for number in range(SENSORS)])
    writer = None
    for start in range(0, rows, BLOCK):
        generator = numpy_generator(0, "benchmark gridding", start)
        n = min(BLOCK, rows - start)
        seconds = np.sort(generator.integers(0, DAYS * 86_400 * n // rows, n)) + DAYS * 86_400 * start // rows
        table = pa.table(
            {
                "time": np.datetime64("2023-01-01", "s") + seconds.astype("timedelta64[s]"),
                "lat": (22.4 + 0.2 * generator.random(n)).round(5),
                "lon": (88.2 + 0.2 * generator.random(n)).round(5),
                "pm": generator.gamma(4.0, 10.0, n).round(2),
                "sensor": pa.DictionaryArray.from_arrays(generator.integers(0, SENSORS, n, np.int32), names),
            }
        )
        if path.suffix == ".csv":
            table = table.set_column(4, "sensor", table["sensor"].cast(pa.string()))
            writer = writer or pa.csv.CSVWriter(path, table.schema, write_options=plain)
        else:
            writer = writer or pa.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
        if start == 0:
            few = path.with_stem("few")
            if path.suffix == ".csv":
                pa.csv.write_csv(table[:1000], few, plain)
            else:
                pa.parquet.write_table(table[:1000], few)
    assert writer is not None
    writer.close()


def by_solidfield(path: Path) -> Answer:
    frames = grid(path, timezone="UTC", cell=f"{CELL}deg", every=EVERY)
    return float(frames["pm"].sum(dtype=np.float64)), int(frames["pm_count"].sum())


def by_pandas(path: Path) -> Answer:
    columns = ["time", "lat", "lon", "pm"]
    if path.suffix == ".csv":
        frame = pd.read_csv(path, usecols=columns, parse_dates=["time"])
    else:
        frame = pd.read_parquet(path, columns=columns)
    place = [np.floor(frame[name] / CELL + 0.5).astype(int) for name in ("lat", "lon")]
    means = frame.groupby([frame["time"].dt.floor(EVERY), *place])["pm"].agg(["mean", "count", "std"])
    return float(means["mean"].sum()), int(means["count"].sum())


def by_polars(path: Path) -> Answer:
    import polars as pl

    rows = pl.scan_csv(path, try_parse_dates=True) if path.suffix == ".csv" else pl.scan_parquet(path)
    place = [(pl.col(name) / CELL + 0.5).floor().cast(pl.Int32).alias(f"i_{name}") for name in ("lat", "lon")]
    value = pl.col("pm")
    means = rows.group_by(pl.col("time").dt.truncate("30m").alias("frame"), *place).agg(
        value.mean().alias("mean"), value.count().alias("count"), value.std().alias("std")
    )
    found = means.collect(engine="streaming")
    return float(found["mean"].sum()), int(found["count"].sum())


def by_duckdb(path: Path) -> Answer:
    import duckdb

    place = ", ".join(f"floor({name} / {CELL} + 0.5)::INT" for name in ("lat", "lon"))
    frame = "epoch(time)::BIGINT // 1800"
    rows = f"read_csv('{path}')" if path.suffix == ".csv" else f"'{path}'"
    query = f"SELECT avg(pm), count(pm), stddev_samp(pm) FROM {rows} GROUP BY {frame}, {place}"
    means, counts, _ = duckdb.sql(query).fetchnumpy().values()
    return float(means.sum()), int(counts.sum())


CONTESTANTS = {"solidfield": by_solidfield, "pandas": by_pandas, "polars": by_polars, "duckdb": by_duckdb}


def contest(name: str, path: Path) -> dict[str, float]:
    """Times, peak memory beyond the imports (MB) and result of one contestant, in this process."""
    CONTESTANTS[name](path.with_stem("few"))  # imports on demand are not counted
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of the imports is not the contestant's
    before, start, busy = memory("VmRSS"), time.perf_counter(), time.process_time()
    total, count = CONTESTANTS[name](path)
    seconds, cpu = time.perf_counter() - start, time.process_time() - busy
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_mb": memory("VmHWM") - before,
        "sum": total,
        "count": count,
    }


def memory(what: str) -> float:
    """VmRSS, resident now, or VmHWM, at its highest, in MB; elsewhere than on Linux the highest stands for both."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    line = next(line for line in status.read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def main(rows: int = ROWS) -> dict[str, float]:
    result: dict[str, float] = {}
    for kind, of_kind in (("csv", rows // PART), ("parquet", rows)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"readings.{kind}"
            write(path, of_kind)
            result |= {f"{kind}_rows": of_kind, f"{kind}_file_mb": path.stat().st_size / 1e6}
            found: dict[str, dict[str, float]] = {}
            names = [name for name in CONTESTANTS if name != "pandas" or of_kind <= PANDAS]
            for name in names * TURNS:
                words = [sys.executable, __file__, "contest", name, str(path)]
                one = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
                found[name] = min(one, found.get(name, one), key=lambda turn: turn["seconds"])
            for name, one in found.items():
                result |= {f"{kind}_{name}_{key}": one[key] for key in ("seconds", "cpu_seconds", "peak_mb")}
                told = f"{one['seconds']:.1f} s ({one['cpu_seconds']:.1f} s of CPU), {one['peak_mb']:.0f} MB"
                print(f"{of_kind:,} rows of {kind}, {name}: {told}", flush=True)
                assert one["count"] == of_kind, name
                assert abs(one["sum"] / found["solidfield"]["sum"] - 1) < 1e-6, name
        ours = found.pop("solidfield")
        for key in ("seconds", "cpu_seconds"):
            result[f"{kind}_{key}_fastest_over_ours"] = min(one[key] for one in found.values()) / ours[key]
    print({key: round(value, 2) for key, value in result.items() if key.endswith("ours")})
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["contest"]:
        print(json.dumps(contest(sys.argv[2], Path(sys.argv[3]))))
    else:
        main(*(int(word) for word in sys.argv[1:]))
