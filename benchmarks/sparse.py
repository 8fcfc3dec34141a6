"""Speed of what stands between a store and the network: a batch of sparse pairs, and the placing of dense blocks.

    python benchmarks/run.py sparse

A batch of 64 examples on 64 x 64 cells at 10 % should take about a millisecond (bar 10), so that reading never slows a
step; 26 blocks of 8 x 8 cells on 64 x 64 are placed by chance with a bounded number of restarts (bar 17 ms a placing).
"""

from __future__ import annotations

import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

import numpy as np

from solidfield.keys import numpy_generator
from solidfield.worlds.gaussian import GaussianWorld
from solidfield.worlds.masks import block_cells
from solidfield.worlds.observe import observe
from solidfield.worlds.scenarios import Scenario
from solidfield.worlds.store import write_truth

BARS = {"batch_of_64": 0.010, "26_blocks": 0.017}  # seconds


def batch_of_64(folder: Path) -> float:
    """The best of twenty."""
    truth = write_truth(GaussianWorld(cells=64, frames=21), folder / "truth.zarr", 10)
    store = observe(truth, folder / "pairs.zarr", Scenario("random", 0.1, "instance"))
    indices = np.random.default_rng(0).permutation(len(store))[:64]
    return min(timeit.repeat(lambda: store.batch(indices), number=1, repeat=20))


def blocks(count: int = 300) -> float:
    """The mean over many: a jam is rare, and its restarts count."""
    draws = [numpy_generator(1, n) for n in range(count)]
    return timeit.timeit(lambda: block_cells(26, 8, (64, 64), draws.pop()), number=count) / count


def main() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        seconds = {"batch_of_64": batch_of_64(Path(folder)), "26_blocks": blocks()}
    for name, value in seconds.items():
        print(f"{name:12} {1000 * value:6.2f} ms, bar {1000 * BARS[name]:.0f} ms", flush=True)
        if value > BARS[name]:
            sys.exit(f"error: {name} is above the bar")
    return {name: {"seconds": value, "bar": BARS[name]} for name, value in seconds.items()}


if __name__ == "__main__":
    main()
