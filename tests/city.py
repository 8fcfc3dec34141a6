"""Readings of a small city as a user has them: a table of twelve fixed sensors through eight days, and a run of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from solidfield import fit
from solidfield.keys import numpy_generator
from solidfield.run import Run

PLACES = [(22.5 + 0.01 * i, 88.3 + 0.01 * j) for i in range(4) for j in range(4) if (7 * i + 3 * j) % 4 != 1]
CENTRE = "22.51,88.31"
HOURS = 8 * 24
GRID = ("--cell", "0.01deg", "--every", "1h")


def city() -> pd.DataFrame:
    """Rows in the order of time: a daily wave with a phase for each place, and noise."""
    times = pd.date_range("2024-01-01", periods=HOURS, freq="h")
    noise = numpy_generator(0, "city").normal(0, 3, (HOURS, len(PLACES)))
    wave = 30 + 10 * np.sin(np.arange(HOURS)[:, None] * 2 * np.pi / 24 + np.arange(len(PLACES)))
    rows = [
        (f"{time:%Y-%m-%dT%H:%M:%SZ}", f"{lat:.2f}", f"{lon:.2f}", f"{value:.2f}")
        for time, values in zip(times, wave + noise, strict=True)
        for (lat, lon), value in zip(PLACES, values, strict=True)
    ]
    return pd.DataFrame(rows, columns=["time", "lat", "lon", "pm"])


def city_run(folder: Path, model: str = "kriging", **options: Any) -> Run:
    table = city().astype({"lat": float, "lon": float, "pm": float})
    return fit(table, folder, model=model, preset="smoke", cell="0.01deg", every="1h", **options)
