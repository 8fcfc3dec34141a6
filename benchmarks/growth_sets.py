"""What a cell costs on a large map of a sparse network (`solid-set`): 256 x 256 and 512 x 512 cells against 64 x 64.

    python benchmarks/growth_sets.py 256        one larger map, for a quick look

Waves that travel, read every hour at 1 % of the cells (40, 640 and 2,560 sensors). Each run is trained for a few steps
in a process of its own; another draws one map with 100 members into a Zarr store and is measured: CPU microseconds of a
cell and member, of the whole command and of the latents alone, peak memory and files. Then it is drawn again with a
quarter of the memory. Goals: a cell and member of a larger map costs at most 1.5 x that of the small one, within 4 GiB,
and the smaller memory changes no bit.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import solidfield as sf
from solidfield.keys import numpy_generator
from solidfield.prediction import stream_sets

SIDES, SMALL, SHARE, HOURS, MEMBERS, MEMORY = (256, 512), 64, 0.0098, 48, 100, 4.0


def readings(side: int) -> xr.DataArray:
    """Waves of one length whatever the map, read at 1 % of the cells with some noise."""
    generator, sensors = numpy_generator(0, "growth of sets", side), int(SHARE * side**2)
    y, x = np.divmod(generator.choice(side**2, sensors, replace=False), side)
    hour = np.arange(HOURS)[:, None]
    values = np.full((HOURS, side, side), np.nan, np.float32)
    values[:, y, x] = 20 + 5 * np.sin((x + hour) / 9) * np.cos(y / 11) + generator.normal(0, 0.5, (HOURS, sensors))
    times = np.datetime64("2024-01-01", "ns") + np.arange(HOURS) * np.timedelta64(3600, "s")
    return xr.DataArray(values, {"time": times, "y": np.arange(side), "x": np.arange(side)}, name="pm")


def train(folder: Path, side: int) -> None:
    sf.fit(readings(side), folder / "run", model="solid-set", preset="smoke", transform="none", steps=20)


def measure(folder: Path, side: int, memory: float, name: str) -> dict[str, float]:
    """One map by the run in the folder, in this process."""
    run, frames = sf.load(folder / "run"), readings(side)
    spent, draw = [0.0], stream_sets.scene_latents

    def timed(*words: Any) -> Any:
        start = time.process_time()
        drawn = draw(*words)
        spent[0] += time.process_time() - start
        return drawn

    stream_sets.scene_latents = timed
    options: dict[str, Any] = {"at": frames["time"].values[HOURS // 2], "members": MEMBERS, "max_memory": memory}
    before, start, busy = peak(), time.perf_counter(), time.process_time()
    run.reconstruct(frames, out=folder / name, **options)
    each = 1e6 / MEMBERS / side**2
    return {
        "sensors": int(SHARE * side**2),
        "microseconds": each * (time.process_time() - busy),
        "latents_microseconds": each * spent[0],
        "seconds": time.perf_counter() - start,
        "gib_before": before,
        "gib": peak(),
        "files": sum(path.is_file() for path in (folder / name).rglob("*")),
    }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def called(*words: object) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(*sides: int) -> dict[str, float]:
    result: dict[str, float] = {}
    for side in (SMALL, *(sides or SIDES)):
        with tempfile.TemporaryDirectory() as name:
            called("train", name, side)
            found = called("measure", name, side, MEMORY, "maps.zarr")
            less = called("measure", name, side, MEMORY / 4, "less.zarr") if side != SMALL else {}
            if less:
                xr.testing.assert_equal(*(sf.open_maps(Path(name, file)) for file in ("maps.zarr", "less.zarr")))
        found |= {"gib_of_a_quarter": less["gib"]} if less else {}
        result |= {f"side_{side}_{key}": value for key, value in found.items()}
        if side != SMALL:
            result[f"growth_{side}"] = found["microseconds"] / result[f"side_{SMALL}_microseconds"]
        print(f"{side} x {side}: " + json.dumps({key: round(value, 3) for key, value in found.items()}), flush=True)
    print({key: round(value, 2) for key, value in result.items() if key.startswith("growth")})
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), int(sys.argv[3]))
        print("{}")
    elif sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])))
    else:
        main(*(int(word) for word in sys.argv[1:]))
