"""Small sparse frames for tests: random readings on a few cells, with a gap in time."""

from __future__ import annotations

import numpy as np
import xarray as xr

START = np.datetime64("2023-01-01T00:00", "ns")
HOUR = np.timedelta64(3600, "s").astype("timedelta64[ns]")


def some_frames(
    count: int = 60,
    shape: tuple[int, int] = (5, 6),
    density: float = 0.3,
    channels: int = 1,
    gap: tuple[int, int] = (20, 23),  # frames that are missing
    every: int = 1,  # hours
    seed: int = 0,
) -> xr.Dataset:
    """Positive readings that drift slowly, on (time, lat, lon)."""
    generator = np.random.default_rng(seed)
    keep = np.array([n for n in range(count) if not gap[0] <= n < gap[1]])
    dataset = xr.Dataset(attrs={"every": f"{every}h", "cell": "0.1deg"})
    for name in ("pm", "wind", "rain")[:channels]:
        level = np.exp(0.3 * np.sin(np.arange(count) / 4))[:, None, None]
        values = (30 * level * np.exp(0.3 * generator.standard_normal((count, *shape)))).astype(np.float32)
        values[generator.random(values.shape) > density] = np.nan
        dataset[name] = (("time", "lat", "lon"), values[keep], {"units": "ug/m3"})
    coordinates = {"time": START + keep * every * HOUR}
    places = {"lat": 22.0 + 0.1 * np.arange(shape[0]), "lon": 88.0 + 0.1 * np.arange(shape[1])}
    return dataset.assign_coords(coordinates | places)
