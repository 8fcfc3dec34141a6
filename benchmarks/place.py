"""How long `Run.place` takes: five of 1,000 candidates on a run of `solid-set` with 64 x 64 cells.

    python benchmarks/run.py place

Readings of 40 sensors through two days, four times. The model is not trained: what a placement costs does not depend
on how good it is. CPU seconds on one thread, without and with the sensors that are hidden to say how far to trust the
gains. A bar that is missed is an error.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr

from solidfield.grid import lengths
from solidfield.keys import numpy_generator
from solidfield.models.solid_set import SolidSet
from solidfield.pairs.scaling import Scaling
from solidfield.readings.axes import grid_of
from solidfield.run import Run

SIDE, SENSORS, HOURS, CANDIDATES, BAR = 64, 40, 48, 1000, 10.0


def readings() -> xr.DataArray:
    draws = numpy_generator(0, "place")
    wave = 30 + np.cumsum(draws.normal(0, 1, HOURS))[:, None] + draws.normal(0, 2, (HOURS, SENSORS))
    values = np.full((HOURS, SIDE * SIDE), np.nan)
    values[:, draws.choice(SIDE * SIDE, SENSORS, replace=False)] = wave
    times = np.datetime64("2024-01-01", "ns") + np.arange(HOURS) * np.timedelta64(3600, "s")
    axes = {"time": times, "lat": 22 + 0.01 * np.arange(SIDE), "lon": 88 + 0.01 * np.arange(SIDE)}
    return xr.DataArray(values.reshape(HOURS, SIDE, SIDE), axes, name="pm")


def run_of(frames: xr.DataArray) -> Run:
    grid = grid_of(frames)
    model = SolidSet(grid, 1, lengths(grid)[0], 24).eval()
    data = {"plan": {"before": 18, "after": 0, "leads": [1]}, "step": 3600.0, "leads": [0, 1]}
    never = torch.zeros(1, *grid.shape, dtype=torch.bool)
    return Run(Path("run"), model, Scaling((30.0,), (5.0,)), grid, ("pm",), ("ug/m3",), never, False, {"data": data})


def main() -> dict[str, Any]:
    torch.set_num_threads(1)
    frames = readings()
    run = run_of(frames)
    cells = numpy_generator(1, "place").choice(SIDE * SIDE, CANDIDATES, replace=False)
    table = pd.DataFrame({"lat": frames["lat"].values[cells // SIDE], "lon": frames["lon"].values[cells % SIDE]})
    found: dict[str, Any] = {"bar_s": BAR, "candidates": CANDIDATES, "cells": SIDE * SIDE}
    for name, check in (("choice_s", False), ("with_trust_s", True)):
        start = time.process_time()
        run.place(frames, 5, candidates=table, check=check)
        found[name] = time.process_time() - start
    print({name: round(value, 2) for name, value in found.items()}, flush=True)
    if found["choice_s"] > BAR:
        sys.exit(f"error: {found['choice_s']:.1f} s miss the bar of {BAR:g} s")
    return found


if __name__ == "__main__":
    main()
