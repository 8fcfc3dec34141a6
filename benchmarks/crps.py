"""Speed of the fair CRPS against scoringrules' fair estimator: the same numbers, in one run.

100 members, 32,768 cells. Both are warmed up first, so that compiling is not counted. scoringrules gets its
best layout (members last) and compares every pair; ours gets members first, as they are stored, and sorts.
Goal: equal to 1e-6, at least 10 x faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import scoringrules

from solidfield.keys import numpy_generator
from solidfield.scores.metrics import crps_map

MEMBERS, CELLS, REPEATS = 100, 32_768, 5


def seconds(run: Callable[[], np.ndarray]) -> float:
    """The best of a few runs after a warm-up: what else runs on the machine can only add."""
    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> dict[str, float]:
    results: dict[str, float] = {"members": MEMBERS, "cells": CELLS}
    for dtype in (np.float32, np.float64):
        generator = numpy_generator(0, "benchmark crps")
        truth = generator.standard_normal(CELLS).astype(dtype)
        ensemble = generator.standard_normal((MEMBERS, CELLS)).astype(dtype)
        members_last = np.ascontiguousarray(ensemble.T)
        ours = seconds(lambda x=ensemble, y=truth: crps_map(x, y))
        theirs = seconds(lambda x=members_last, y=truth: scoringrules.crps_ensemble(y, x, estimator="fair"))
        exact = scoringrules.crps_ensemble(truth.astype(float), members_last.astype(float), estimator="fair")
        name = np.dtype(dtype).name
        results[f"{name}_ours_ms"] = 1e3 * ours
        results[f"{name}_scoringrules_ms"] = 1e3 * theirs
        results[f"{name}_ratio"] = theirs / ours
        results[f"{name}_largest_difference"] = float(np.abs(crps_map(ensemble, truth) - exact).max())
        print(
            f"CRPS of {MEMBERS} members at {CELLS} cells, {name}: {1e3 * ours:.1f} ms, "
            f"scoringrules {1e3 * theirs:.0f} ms: "
            f"{theirs / ours:.1f} x faster, equal to {results[f'{name}_largest_difference']:.0e}"
        )
    return results


if __name__ == "__main__":
    main()
