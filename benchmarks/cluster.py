"""Maps of readings on a Dask cluster: two workers against one, one thread each; the same bits, also when one is killed.

    python benchmarks/cluster.py 24        a smaller map, for a quick look

A run of `solid-set` on a synthetic field draws maps of several times. Workers are processes of their own and have
opened the run before the clock starts. Then one of two is killed with SIGKILL in the midst of the same work. Goals: two
workers at least 1.7 times as fast as one, the result the same bits as without a cluster, and nothing lost. Where other
work shares the cores the first goal cannot be seen, so how much of a core one process was given is stored beside it,
and what can be seen: CPU seconds of the one worker over those of the busier of two (`shared`), and those of the process
that asks (`asking_seconds`), which has the scheduler in it and shares the cores with the workers. A map takes about a
second, so there are enough of them that starting and ending weigh little.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from distributed import Client, LocalCluster

import solidfield as sf
from solidfield.engine import Engine
from solidfield.keys import numpy_generator

SIDE, HOURS, SENSORS, MEMBERS, TIMES = 40, 96, 150, 50, 32


def readings(side: int) -> xr.DataArray:
    """Waves that travel, read at a few cells."""
    generator = numpy_generator(0, "benchmark cluster", side)
    y, x = np.divmod(generator.choice(side**2, SENSORS, replace=False), side)
    hour = np.arange(HOURS)[:, None]
    values = np.full((HOURS, side, side), np.nan, np.float32)
    values[:, y, x] = 20 + 5 * np.sin((x + hour) / 6) * np.cos(y / 7) + generator.normal(0, 0.5, (HOURS, SENSORS))
    times = np.datetime64("2024-01-01", "ns") + np.arange(HOURS) * np.timedelta64(3600, "s")
    centres = 0.01 * np.arange(side)
    return xr.DataArray(values, {"time": times, "lat": centres, "lon": centres}, name="pm")


def timed(
    run: sf.Run, frames: xr.DataArray, workers: int, kill: bool = False
) -> tuple[float, float, float, xr.Dataset]:
    """Seconds of the maps on so many workers, of which one may be killed when the first map is there.

    Then CPU seconds of the busiest worker and of this process.
    """
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        engine = Engine("dask", workers, cluster.scheduler_address)
        asked: dict[str, Any] = {"members": MEMBERS, "engine": engine}
        run.reconstruct(frames, at=frames["time"].values[-workers:], **asked)  # imports, and the run opened
        with Client(cluster) as client:
            victim, before = next(iter(client.run(os.getpid).values())), client.run(time.process_time)

        def strike(what: str, done: int, total: int | None) -> None:
            if kill and done == 1:
                os.kill(victim, signal.SIGKILL)

        start, busy = time.perf_counter(), time.process_time()
        maps = run.reconstruct(frames, at=frames["time"].values[-TIMES:], progress=strike, **asked)
        seconds, asking = time.perf_counter() - start, time.process_time() - busy
        with Client(cluster) as client:
            after = client.run(time.process_time)
        worked = max((after[worker] - before[worker] for worker in after if worker in before), default=0.0)
        return seconds, worked, asking, maps


def main(side: int = SIDE) -> dict[str, float]:
    os.environ["OMP_NUM_THREADS"] = "1"
    frames = readings(side)
    with tempfile.TemporaryDirectory() as folder:
        run = sf.fit(frames, Path(folder) / "run", model="solid-set", preset="smoke", transform="none")
        busy, start = time.process_time(), time.perf_counter()
        here = run.reconstruct(frames, at=frames["time"].values[-TIMES:], members=MEMBERS)
        given = (time.process_time() - busy) / (time.perf_counter() - start)
        one, alone, _, by_one = timed(run, frames, 1)
        two, busier, asking, by_two = timed(run, frames, 2)
        *_, survived = timed(run, frames, 2, kill=True)
        for maps in (by_one, by_two, survived):
            xr.testing.assert_identical(here, maps)
    print(f"one worker {one:.1f} s, two {two:.1f} s: x {one / two:.2f}; the same bits, also with one of them killed")
    print(f"one process alone was given {given:.2f} of a core")
    print(
        f"CPU: one worker {alone:.1f} s, the busier of two {busier:.1f}: x {alone / busier:.2f}; asking {asking:.1f} s"
    )
    return {
        "side": side,
        "one_seconds": one,
        "two_seconds": two,
        "speedup": one / two,
        "core_given": given,
        "one_cpu_seconds": alone,
        "two_cpu_seconds": busier,
        "asking_seconds": asking,
        "shared": alone / busier,
    }


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
