"""Trajectories per second of the Navier-Stokes world against torch-cfd, at equal accuracy, in one run.

Both solve the paper's flow (Re = 100, forcing -4 cos(4 y), side 2 pi, 64 x 64 stored, 96 x 96 solved with
the 2/3 rule) from the same fields, in double precision. Each takes the longest of a ladder of steps whose error
over one time unit is below TOLERANCE; torch-cfd may choose among its steppers. A trajectory is the paper's: 10 time
units of warm-up and 50 frames 0.1 apart. Timed on one thread, and on all of the machine's, as a user would run it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np
import torch
from torch_cfd.forcings import KolmogorovForcing
from torch_cfd.grids import Grid
from torch_cfd.spectral import IMEXStepper, NavierStokes2DSpectral, RK4CrankNicolsonStepper

from solidfield.errors import SolidError
from solidfield.worlds import NavierStokes

CELLS, POINTS, SIDE, REYNOLDS = 64, 96, 2 * pi, 100.0
TOLERANCE = 1e-4  # of the field's norm
LADDER = (20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512)  # steps a time unit
UNITS = 10.0 + 49 * 0.1  # time units of a trajectory
BATCH, REPEATS = 8, 3

Solver = Callable[[np.ndarray, int], np.ndarray]  # (B, M, M), steps a time unit -> (B, M, M) one time unit later


def ours(start: np.ndarray, steps: int) -> np.ndarray:
    world = NavierStokes(cells=POINTS, solver_grid=POINTS, side=SIDE, frames=2, spacing=1.0, warmup=0.0, step=1 / steps)
    return world.evolve(start)[:, 1]


def theirs(stepper: IMEXStepper) -> Solver:
    grid = Grid(shape=(POINTS, POINTS), domain=((0, SIDE), (0, SIDE)))
    forcing = KolmogorovForcing(grid=grid, diam=SIDE, wave_number=4, vorticity=True)
    equation = NavierStokes2DSpectral(1 / REYNOLDS, grid, forcing_fn=forcing, step_fn=stepper)
    n = POINTS * torch.fft.fftfreq(POINTS).abs()
    equation.filter.copy_((n[:, None] < POINTS / 3) & (n[: POINTS // 2 + 1] < POINTS / 3))  # exactly our modes

    def solve(start: np.ndarray, steps: int) -> np.ndarray:
        hat = torch.fft.rfft2(torch.from_numpy(start).transpose(-1, -2))  # their first axis is x
        with torch.no_grad():
            hat, _ = equation(hat, dt=1 / steps, steps=steps)
        return torch.fft.irfft2(hat).transpose(-1, -2).numpy()

    return solve


def error(solver: Solver, start: np.ndarray, steps: int, reference: np.ndarray) -> float:
    try:
        return float(np.linalg.norm(solver(start, steps) - reference) / np.linalg.norm(reference))
    except SolidError:  # ours refuses a step that is too long
        return float("inf")


def seconds(solver: Solver, start: np.ndarray, steps: int) -> float:
    begin = time.perf_counter()
    solver(start, steps)
    return time.perf_counter() - begin


def main() -> dict[str, Any]:
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        results = measure(threads)
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
    print(json.dumps(results, indent=2))
    return results


def measure(threads: int) -> dict[str, Any]:
    developed = NavierStokes(cells=CELLS, side=SIDE, frames=1, warmup=3.0, step=0.02)
    finer = NavierStokes(cells=POINTS, solver_grid=POINTS, side=SIDE, frames=1, warmup=0.0)
    coarse = developed.trajectories(range(BATCH))[:, 0, 0].astype(np.float64)
    start = finer.evolve(np.stack([refine(field) for field in coarse]))[:, 0]
    solvers: dict[str, Solver] = {
        "solidfield": ours,
        "torch-cfd RK4 Crank-Nicolson": theirs(RK4CrankNicolsonStepper()),
        "torch-cfd RK2 Crank-Nicolson": theirs(IMEXStepper(order=2)),
    }
    few = start[:2]
    reference = ours(few, 600)
    rows: dict[str, dict[str, float]] = {}
    for name, solver in solvers.items():
        for steps in LADDER:
            found = error(solver, few, steps, reference)
            if found < TOLERANCE:
                rows[name] = {"steps_per_unit": steps, "error": found}
                break
    results: dict[str, Any] = {"tolerance": TOLERANCE, "batch": BATCH, "threads": threads, "solvers": rows}
    for used, label in ((1, "one_thread"), (threads, "all_threads")):
        torch.set_num_threads(used)  # ours takes as many threads as torch may
        taken = dict.fromkeys(rows, np.inf)
        for _ in range(REPEATS):  # in turn, so that a busy machine slows all alike
            for name, row in rows.items():
                taken[name] = min(taken[name], seconds(solvers[name], start, int(row["steps_per_unit"])))
        for name, row in rows.items():
            row[f"trajectories_per_second_{label}"] = BATCH / (UNITS * taken[name])
        best = min(time for name, time in taken.items() if name != "solidfield")
        results[f"ratio_{label}"] = best / taken["solidfield"]
    return results


def refine(field: np.ndarray) -> np.ndarray:  # (CELLS, CELLS) -> (POINTS, POINTS)
    """The same modes on the solver's points, so that both solvers start from one field."""
    k = CELLS // 2 - 1
    rows = np.r_[0 : k + 1, -k:0]
    hat = np.zeros((POINTS, POINTS // 2 + 1), complex)
    hat[rows, : k + 1] = np.fft.rfft2(field, norm="forward")[rows, : k + 1]
    return np.fft.irfft2(hat, s=(POINTS, POINTS), norm="forward")


if __name__ == "__main__":
    main()
