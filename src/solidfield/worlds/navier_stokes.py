"""Forced two-dimensional turbulence: the vorticity w of an incompressible flow on a periodic box of any side.

    dw/dt + u . grad w = (1/Re) lap w + A cos(k x2),      A = -4, k = 4, Re = 100, x2 = y

From a Gaussian random field (`spectral.random_state`), through a warm-up, to frames at equal spacing. A
trajectory is a pure function of (seed, index): batches, threads, chunks and resumption do not change a bit
of it (`spectral.py` says why).

With no drag the largest eddies fill slowly. At 32 cells on side 2 pi the vorticity's standard deviation is
3.5 at time 10 and 3.0 from time 20 on, while the energy is 1.08 at time 10, 1.3 at 20, 1.9 at 80, and then
stays. On side pi: 3.4 at time 10, 4.1 at 20, 4.3 from 25 on; energy 0.90, 1.1, 1.3. Where stationarity
matters, warm up for longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import ceil, pi, sqrt
from typing import Any

import numpy as np
import scipy.fft
import torch
import xarray as xr

from ..errors import SolidError
from ..grid import Grid
from ..keys import numpy_generator
from .spectral import (
    COURANT_LIMIT,
    Modes,
    Unstable,
    advance,
    evaluate,
    guard,
    make_modes,
    random_spectrum,
    random_state,
    tendency,
    transform,
)

HALVINGS = 3  # of the automatic step, for a trajectory that is faster than expected


@dataclass(frozen=True)
class NavierStokes:
    """Trajectories of F frames of vorticity on a square periodic box."""

    cells: int = 64  # along each axis of the stored fields
    side: float = 2 * pi  # length of the box: the paper's
    frames: int = 50
    spacing: float = 0.1  # time between frames
    warmup: float = 10.0  # time before the first frame
    seed: int = 0
    reynolds: float = 100.0
    forcing: float = -4.0  # A
    wavenumber: float = 4.0  # k of the forcing; a whole number of its periods must fit the box
    alpha: float = 2.5  # smoothness of the initial field
    tau: float = 3.0  # inverse length of the initial field
    solver_grid: int | None = None  # M; None: the smallest fast size that keeps every mode the stored grid can show
    step: float | None = None  # the longest time step; None: automatic, see `longest_step`

    def __post_init__(self) -> None:
        for name in ("cells", "frames", "side", "spacing", "reynolds", "wavenumber", "alpha", "tau"):
            if not getattr(self, name) > 0:
                raise SolidError(f"{name}={getattr(self, name)} of the Navier-Stokes world must be positive")
        if not self.warmup >= 0:
            raise SolidError(f"warmup={self.warmup} of the Navier-Stokes world must not be negative")
        if self.step is not None and not self.step > 0:
            raise SolidError(f"step={self.step} of the Navier-Stokes world must be positive")
        if self.points % 4 or self.points < self.cells:
            raise SolidError(
                f"solver_grid={self.solver_grid} must be a multiple of 4 and at least cells={self.cells}; "
                f"{_fast_points(self.cells)} is a good choice"
            )
        periods = self.wavenumber * self.side / (2 * pi)
        if round(periods) < 1 or abs(periods - round(periods)) > 1e-6:
            raise SolidError(
                f"forcing wavenumber {self.wavenumber:g} has {periods:.4g} periods on side {self.side:.4g}; "
                f"a whole number must fit: side={2 * pi * max(1, round(periods)) / self.wavenumber:.10g}"
            )
        if self.periods > self.band:
            raise SolidError(
                f"{self.cells} cells do not resolve the {self.periods} periods of the forcing; "
                f"use at least {2 * self.periods + 2} cells"
            )

    @property
    def grid(self) -> Grid:
        return Grid.box(self.cells, self.cells, self.side)

    @property
    def times(self) -> np.ndarray:  # (F,)
        """Model time of the frames; the warm-up lies before zero."""
        return self.spacing * np.arange(self.frames)

    @property
    def variables(self) -> tuple[str, ...]:
        return ("vorticity",)

    @property
    def shifts(self) -> tuple[int, int]:
        """The translations in cells along (y, x) that leave the law unchanged; 0: there are none."""
        if self.forcing == 0:
            return (1, 1)
        return (self.cells // self.periods if self.cells % self.periods == 0 else 0, 1)

    @property
    def periods(self) -> int:
        """Periods of the forcing on the box."""
        return round(self.wavenumber * self.side / (2 * pi))

    @property
    def points(self) -> int:
        """M, the solver grid."""
        return _fast_points(self.cells) if self.solver_grid is None else self.solver_grid

    @property
    def band(self) -> int:
        """K, the highest mode along an axis."""
        return (self.points - 1) // 3

    @property
    def longest_step(self) -> float:
        """The given step, or the longest that is stable up to the fastest flow to be expected.

        That is the laminar flow of the forcing, |A| Re / k^3 = 6.25 at the paper's values (the fastest of 128
        trajectories reaches 5.3), or four times the rms speed of the initial field where that is more. A
        trajectory that is faster still is computed again with half this step; a given step is never changed.
        """
        if self.step is not None:
            return self.step
        k = 2 * pi / self.side * np.arange(-self.band, self.band + 1)
        square = np.delete((k[:, None] ** 2 + k**2).ravel(), 2 * self.band * (self.band + 1))  # without k = 0
        initial = sqrt(float(np.sum(random_spectrum(square, self.alpha, self.tau) / square)))
        speed = max(abs(self.forcing) * self.reynolds / self.wavenumber**3, 4 * initial)
        return COURANT_LIMIT / (speed * float(k[-1]))

    def describe(self) -> dict[str, Any]:
        """Everything that determines the data, as plain JSON."""
        step = "automatic" if self.step is None else self.step
        resolved = {"solver_grid": self.points, "step": step, "longest_step": self.longest_step}
        return {"kind": "navier-stokes", **asdict(self), **resolved}

    def trajectories(self, indices: Sequence[int]) -> np.ndarray:  # (n, F, 1, H, W) float32
        """The trajectories with these indices, each the same in whatever company it is computed."""

        def initial(name: int, modes: Modes) -> np.ndarray:  # (M, 2 C)
            return random_state(numpy_generator(self.seed, "navier-stokes", name), modes, self.alpha, self.tau)

        return _simulate(self, [int(index) for index in indices], initial, np.float32)[:, :, None]

    def evolve(self, initial: np.ndarray) -> np.ndarray:  # (n, H, W) -> (n, F, H, W) float64
        """Trajectories from given fields of vorticity; a mean is dropped: the periodic flow has none."""
        if initial.ndim != 3 or initial.shape[1:] != self.grid.shape:
            raise SolidError(f"initial vorticity has shape {initial.shape}, expected (n, {self.cells}, {self.cells})")
        return _simulate(self, list(range(len(initial))), lambda i, modes: transform(initial[i], modes), np.float64)


def simulate_navier_stokes(trajectories: int | Sequence[int] = 1, **parameters: Any) -> xr.DataArray:
    """Simulate the vorticity of forced two-dimensional turbulence on a periodic box.

    Parameters
    ----------
    trajectories : int or sequence of int, default 1
        How many, or which indices; each is a pure function of seed and index.
    **parameters
        Fields of `NavierStokes`: `cells` along each axis (64), `side` of the box (2 pi), `frames` (50), `spacing` in
        time (0.1), `warmup` before the first frame (10), `seed` (0), `reynolds` (100), `forcing` (-4) and its
        `wavenumber` (4), `alpha` and `tau` of the initial field, `solver_grid`, `step`.

    Returns
    -------
    xarray.DataArray
        Dimensions (trajectory, time, y, x); the parameters are its attributes.

    Raises
    ------
    SolidError
        If a parameter is out of range, or the flow is too fast for the time step that was asked for.

    Examples
    --------
    >>> simulate_navier_stokes(2, cells=16, frames=3, warmup=0.0).shape
    (2, 3, 16, 16)
    """
    world = NavierStokes(**parameters)
    indices = list(range(trajectories)) if isinstance(trajectories, int) else [int(i) for i in trajectories]
    return xr.DataArray(
        world.trajectories(indices)[:, :, 0],
        dims=("trajectory", "time", "y", "x"),
        coords={"trajectory": indices, "time": world.times, "y": world.grid.y, "x": world.grid.x},
        name="vorticity",
        attrs=world.describe(),
    )


def _simulate(
    world: NavierStokes,
    names: list[int],
    initial: Callable[[int, Modes], np.ndarray],  # (M, 2 C)
    dtype: type[np.floating[Any]],
) -> np.ndarray:  # (n, F, H, W)
    """Groups small enough for the processor's cache, shared among threads (as many as torch may use)."""
    modes = make_modes(world.side, world.points, 1 / world.reynolds, world.forcing, world.periods)
    fields = np.empty((len(names), world.frames, *world.grid.shape), dtype)
    size = min(16, max(1, 20_000 // world.points**2))

    def run(first: int) -> None:
        part = names[first : first + size]
        states = np.stack([initial(name, modes) for name in part])  # (B, M, 2 C)
        frames = fields[first : first + size]
        try:
            _run(world, modes, part, states, frames, world.longest_step)
        except Unstable:
            if world.step is not None:
                raise
            for row in range(len(part)):
                alone = slice(row, row + 1)
                _run_alone(world, modes, part[alone], states[alone], frames[alone])

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        for _ in threads.map(run, range(0, len(names), size)):
            pass  # to meet the first error
    return fields


def _run_alone(world: NavierStokes, modes: Modes, name: list[int], state: np.ndarray, fields: np.ndarray) -> None:
    """One trajectory, with the automatic step halved for it alone until it is stable."""
    for halvings in range(HALVINGS):
        try:
            return _run(world, modes, name, state, fields, world.longest_step / 2**halvings)
        except Unstable:
            continue
    return _run(world, modes, name, state, fields, world.longest_step / 2**HALVINGS)


def _run(
    world: NavierStokes,
    modes: Modes,
    names: list[int],
    state: np.ndarray,  # (B, M, 2 C)
    fields: np.ndarray,  # (B, F, H, W), filled here
    longest: float,
) -> None:
    steps = ceil(world.spacing / longest - 1e-9)
    step = world.spacing / steps
    with np.errstate(over="ignore", invalid="ignore"):  # the guard reports them
        if world.warmup > 0:
            warm = ceil(world.warmup / longest - 1e-9)
            state = advance(state, modes, world.warmup / warm, warm, names, -world.warmup)
        for frame, time in enumerate(world.times):
            if frame > 0:
                state = advance(state, modes, step, steps, names, float(time) - world.spacing)
            for row, field in enumerate(fields[:, frame]):
                field[...] = evaluate(state[row], modes, world.cells)
        guard(tendency(state, modes)[1], modes, step, names, float(world.times[-1]))


def _fast_points(cells: int) -> int:
    """The smallest multiple of 4 from 3/2 cells on without a prime factor above 5."""
    points = ceil(1.5 * cells / 4) * 4
    while scipy.fft.next_fast_len(points, real=True) != points:
        points += 4
    return points
