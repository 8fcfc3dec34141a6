"""A small record of readings with dates: a smooth field through forty days, read by sensors that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from solidfield.config import TrainConfig
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.keys import numpy_generator
from solidfield.models import build
from solidfield.pairs.covariates import Covariates
from solidfield.pairs.frames import Frames
from solidfield.pairs.holdout import Holdout
from solidfield.pairs.pairing import frame_pairs
from solidfield.pairs.store import PairStore
from solidfield.training.loop import train
from solidfield.training.record import RunRecord

H, W, EVERY = 6, 7, 6  # cells, hours between frames
GRID = Grid((H, W), (0.01, 0.01), (22.5, 88.3), axes=("lat", "lon"), units="degrees")


def dated_frames(days: int = 40) -> Frames:
    """An AR(1) of smooth fields plus a daily cycle; each of 30 sensors is read in half of the frames."""
    count = days * 24 // EVERY
    generator = numpy_generator(0, "dated")
    y, x = np.mgrid[:H, :W]
    waves = np.stack([np.cos(0.5 * x + 0.3 * y), np.sin(0.6 * y), np.sin(0.4 * x - 0.2 * y), np.ones((H, W))])
    state, fields = generator.standard_normal(4), []
    for t in range(count):
        state = 0.8 * state + 0.6 * generator.standard_normal(4)
        fields.append(30 + 5 * np.tensordot(state, waves, 1) + 4 * np.sin(2 * np.pi * t * EVERY / 24))
    sensors = np.zeros(H * W, dtype=bool)
    sensors[generator.permutation(H * W)[:30]] = True
    seen = sensors.reshape(H, W) & (generator.random((count, H, W)) < 0.5)
    values = np.where(seen, np.stack(fields), np.nan).astype(np.float32)[:, None]
    times = pd.date_range("2023-01-01", periods=count, freq=f"{EVERY}h").to_numpy()
    return Frames(values, times, GRID, ("pm",), ("ug/m3",), EVERY * 3600.0, timezone="+05:30")


def dated_store(path: Path, leads: Sequence[int] = (0, 1), frames: Frames | None = None) -> PairStore:
    """Its pairs; every fifth day tests, four sensors and two blocks are held for ever."""
    holdout = Holdout(sensors=0.15, blocks=0.15, block=2)
    plain = Covariates(calendar=(), history=0.0)
    frames = dated_frames() if frames is None else frames
    return frame_pairs(frames, path, leads=leads, holdout=holdout, covariates=plain, hide=0.3)


def fitted_run(path: Path, store: PairStore, model: str = "kriging") -> RunRecord:
    """A closed-form model as a run folder: no training to wait for."""
    torch.set_num_threads(1)
    train(build(model, Spec(store.grid, len(store.variables))), store, path, TrainConfig(validation_examples=4))
    return RunRecord.open(path)
