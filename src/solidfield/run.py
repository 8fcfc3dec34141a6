"""The front door to a trained run: `load(folder)` opens it; it reads new readings, draws maps of them and is judged.

`reconstruct`, `forecast` and `assimilate` take tables of readings or frames with NaN where nothing was read, make the
covariates of the run's recipe for them, and return maps (`prediction/maps.py`). `evaluate` judges the run by readings
that were held out. `solid predict` and `solid evaluate` call these methods.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .errors import SolidError
from .prediction.context import FramesLike, Times, all_rows, check_frames, frames_for, query, read_new, rows_of
from .prediction.predict import predict
from .readings.intake import Readings
from .training.record import RunRecord


class Run(RunRecord):
    """A trained run, ready to use.

    >>> maps = load("demo/run").forecast(frames, members=100, steps=6)       # doctest: +SKIP
    """

    def read(self, readings: Readings, **options: Any) -> xr.Dataset:
        """New readings in the cells and frames of this run; `options` as for `read_frames`: timezone, columns."""
        return read_new(self, readings, **options)

    def reconstruct(
        self,
        frames: FramesLike,
        members: int = 100,
        seed: int = 0,
        at: Times | None = None,  # which frames; None: all that hold readings. The others are looked back on
        dynamic: xr.Dataset | None = None,  # changing covariates, for a run that was trained with some
        **options: Any,
    ) -> xr.Dataset:
        """Maps at the time of the frames; NaN in a frame means not observed."""
        return self._predict(frames, 0, 1, at, dynamic, members=members, seed=seed, **options)

    def forecast(
        self,
        frames: FramesLike,
        members: int = 100,
        steps: int = 1,
        seed: int = 0,
        at: Times | None = None,
        dynamic: xr.Dataset | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """Maps 1 .. steps leads after each frame, every member rolled forward on its own."""
        return self._predict(frames, 1, steps, at, dynamic, members=members, seed=seed, **options)

    def assimilate(
        self,
        frames: FramesLike,
        members: int = 100,
        steps: int = 0,  # further leads beyond the last frame
        seed: int = 0,
        since: Times | None = None,  # None: the first frame
        until: Times | None = None,  # None: the last frame
        dynamic: xr.Dataset | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """One rollout through the frames: what is read replaces every member's value there, and conditions the next."""
        given, times = frames_for(self, frames)
        first = int(rows_of(given, since)[0]) if since is not None else 0
        last = int(rows_of(given, until)[0]) if until is not None else len(times) - 1
        walk = round((given.seconds[last] - given.seconds[first]) / given.every) + steps
        if walk < 1:
            raise SolidError(
                "assimilation needs a frame after its first, or steps beyond it; give more frames or steps"
            )
        rows = np.array([first])
        check_frames(given, rows)
        given = replace(given, values=given.values[: last + 1], times=given.times[: last + 1])
        source, later = query(self, given, rows, 1, walk, dynamic, assimilate=True)
        maps = predict(self, source, times[rows], steps=walk, later=later, members=members, seed=seed, **options)
        read = np.stack([one.mask[0].any(0).numpy() for one in later]).astype(np.int8)  # (L, H, W)
        about = {"long_name": "a sensor was read here at this time, and every member holds its reading"}
        return maps.assign(read=(("init_time", "lead_time", *self.grid.axes), read[None], about))

    def _predict(
        self, frames: FramesLike, lead: int, steps: int, at: Times | None, dynamic: xr.Dataset | None, **options: Any
    ) -> xr.Dataset:
        given, times = frames_for(self, frames)
        rows = all_rows(given, times) if at is None else rows_of(given, at)
        check_frames(given, rows)
        source, later = query(self, given, rows, lead, steps, dynamic)
        return predict(self, source, times[rows], steps=steps, later=later, **options)


def load(folder: str | Path) -> Run:
    """Open a finished run folder."""
    return Run.open(folder)
