"""Gridding a stream of readings against pandas' read and group-by: the same means, in one run.

    python benchmarks/gridding.py 2000000      fewer rows than the 12.5 million of the stored result

Synthetic readings of 200 moving sensors over 90 days, in a CSV and in a Parquet file; cells of 0.01 degree, frames of
30 minutes. Each contestant runs in a process of its own, so that its peak memory is its own: what it holds beyond the
imports. Both read the same columns and compute mean, count and standard deviation. Goal: seconds to tens of seconds,
at a memory that does not grow with the rows.
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

ROWS = 12_500_000
BLOCK = 500_000  # rows written at a time
CELL, EVERY = 0.01, "30min"


def write(folder: Path, rows: int) -> None:
    """The same readings as CSV and as Parquet, block by block."""
    import pyarrow
    import pyarrow.parquet

    writer = None
    for start in range(0, rows, BLOCK):
        generator = numpy_generator(0, "benchmark gridding", start)
        n = min(BLOCK, rows - start)
        seconds = np.sort(generator.integers(0, 90 * 86_400 * n // rows, n)) + 90 * 86_400 * start // rows
        frame = pd.DataFrame(
            {
                "time": np.datetime64("2023-01-01", "s") + seconds.astype("timedelta64[s]"),
                "lat": (22.4 + 0.2 * generator.random(n)).round(5),
                "lon": (88.2 + 0.2 * generator.random(n)).round(5),
                "pm": generator.gamma(4.0, 10.0, n).round(2),
                "sensor": np.char.add("S", generator.integers(0, 200, n).astype(str)),
            }
        )
        frame.to_csv(folder / "readings.csv", mode="a", header=start == 0, index=False)
        table = pyarrow.Table.from_pandas(frame)
        writer = writer or pyarrow.parquet.ParquetWriter(folder / "readings.parquet", table.schema)
        writer.write_table(table)
        if start == 0:
            frame[:1000].to_csv(folder / "few.csv", index=False)
            frame[:1000].to_parquet(folder / "few.parquet")
    assert writer is not None
    writer.close()


def by_solidfield(path: Path) -> tuple[float, int]:
    frames = grid(path, timezone="UTC", cell=f"{CELL}deg", every=EVERY)
    return float(frames["pm"].sum(dtype=np.float64)), int(frames["pm_count"].sum())


def by_pandas(path: Path) -> tuple[float, int]:
    columns = ["time", "lat", "lon", "pm"]
    if path.suffix == ".csv":
        frame = pd.read_csv(path, usecols=columns, parse_dates=["time"])
    else:
        frame = pd.read_parquet(path, columns=columns)
    place = [np.floor(frame[name] / CELL + 0.5).astype(int) for name in ("lat", "lon")]
    means = frame.groupby([frame["time"].dt.floor(EVERY), *place])["pm"].agg(["mean", "count", "std"])
    return float(means["mean"].sum()), int(means["count"].sum())


CONTESTANTS = {"solidfield": by_solidfield, "pandas": by_pandas}


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
    result: dict[str, float] = {"rows": rows}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        for kind in ("csv", "parquet"):
            path = Path(folder) / f"readings.{kind}"
            result[f"{kind}_file_mb"] = path.stat().st_size / 1e6
            found = {}
            for name in CONTESTANTS:
                words = [sys.executable, __file__, "contest", name, str(path)]
                run = subprocess.run(words, capture_output=True, text=True, check=True)
                found[name] = json.loads(run.stdout)
                result |= {f"{kind}_{name}_{key}": found[name][key] for key in ("seconds", "cpu_seconds", "peak_mb")}
            ours, theirs = found["solidfield"], found["pandas"]
            assert ours["count"] == theirs["count"] == rows
            result[f"{kind}_ratio"] = theirs["seconds"] / ours["seconds"]
            result[f"{kind}_relative_difference"] = abs(ours["sum"] / theirs["sum"] - 1)
            print(
                f"{rows:,} rows of {kind} ({result[f'{kind}_file_mb']:.0f} MB): "
                f"{ours['seconds']:.1f} s ({ours['cpu_seconds']:.1f} s of CPU) and {ours['peak_mb']:.0f} MB, "
                f"pandas {theirs['seconds']:.1f} s ({theirs['cpu_seconds']:.1f}) and {theirs['peak_mb']:.0f} MB; "
                f"sums of means equal to {result[f'{kind}_relative_difference']:.0e}",
                flush=True,
            )
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["contest"]:
        print(json.dumps(contest(sys.argv[2], Path(sys.argv[3]))))
    else:
        main(*(int(word) for word in sys.argv[1:]))
