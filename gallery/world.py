"""The city of the gallery: hourly PM2.5 whose truth is known everywhere, 28 stations that read it, one run of them.

    log PM2.5(t, p) = 3.6 + 0.3 sin(2 pi (hour - 8) / 24) + 0.45 x(t, p)

x is the library's Gaussian world: it drifts with a wind, decays, and is stirred anew. The scripts show maps beside the
truth; the model has seen nothing but the stations. The run is made once and kept in `gallery/made`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shutil import rmtree

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import solidfield as sf
from solidfield.plot.ground import coordinates

HERE = Path(__file__).parent
PICTURES = HERE.parent / "docs" / "images" / "gallery"
DAYS, CELLS, STATIONS = 30, 24, 28
UNITS = "ug/m3"
NOW = "2024-01-25T09:00"  # of a day that training never saw
STEPS = 60  # of training: kriging is nearly exact in this world, so there is little to learn


@cache
def truth() -> xr.DataArray:
    """(time, lat, lon): the field itself, which no model sees."""
    world = sf.gaussian_world(cells=CELLS, frames=24 * DAYS, seed=3, length=0.12, spacing=0.06)
    x = world.trajectories([0])[0, :, 0]  # (T, H, W)
    time = pd.date_range("2024-01-01", periods=len(x), freq="h").to_numpy()
    daily = 0.3 * np.sin(2 * np.pi * (np.arange(len(x)) - 8) / 24)
    place = {"lat": 22.4 + 0.01 * np.arange(CELLS), "lon": 88.2 + 0.01 * np.arange(CELLS)}
    values = np.exp(3.6 + daily[:, None, None] + 0.45 * x)
    return xr.DataArray(values, {"time": time, **place}, name="PM2.5", attrs={"units": UNITS})


@cache
def readings() -> xr.DataArray:
    """(time, lat, lon), NaN where nothing was read: stations with an error of 3 % and with gaps."""
    draws = np.random.default_rng(5)
    cells = draws.choice(CELLS**2, STATIONS, replace=False)
    read = draws.random((24 * DAYS, STATIONS)) > 0.05
    for station in draws.choice(STATIONS, 10, replace=False):  # and longer gaps
        start = draws.integers(24 * DAYS - 30)
        read[start : start + draws.integers(8, 30), station] = False
    mask = np.zeros((24 * DAYS, CELLS**2), bool)
    mask[:, cells] = read
    field = truth()
    noisy = field * np.exp(0.03 * draws.normal(size=field.shape))
    return noisy.where(mask.reshape(field.shape)).astype("float32").assign_attrs(field.attrs)


def table() -> pd.DataFrame:
    """The same as rows, as a CSV would have them: time, lat, lon, PM2.5."""
    rows = readings().to_dataframe().dropna().reset_index()
    return rows.sort_values("time", kind="stable", ignore_index=True)


@cache
def run() -> sf.Run:
    """Trained by whichever script needs it first; opened by the others."""
    folder = HERE / "made" / "run"
    folder.parent.mkdir(exist_ok=True)
    try:
        return sf.load(folder)
    except sf.SolidError:  # not there, stopped half-way, or of an earlier version
        rmtree(folder, ignore_errors=True)
        options = {"holdout": sf.Holdout(sensors=0.15), "settings": ["train.warmup=10"]}
        return sf.fit(readings(), folder, steps=STEPS, transform="log", **options)


@cache
def findings():  # type: ignore[no-untyped-def]
    """The run judged by what was held out."""
    return run().evaluate(members=40, scenes=24)


def place_of_most(values: xr.DataArray) -> tuple[float, float]:
    """Latitude and longitude of the cell with the greatest value of (lat, lon)."""
    row, column = np.unravel_index(np.nanargmax(values.values), values.shape)
    return float(values["lat"][row]), float(values["lon"][column])


def busiest() -> tuple[float, float]:
    """The station that was read most."""
    return place_of_most(readings().notnull().sum("time"))


def draw_map(ax: Axes, values: xr.DataArray, title: str, colours: object, low: float, high: float) -> object:
    """One map on its true coordinates."""
    y, x = values["lat"].values, values["lon"].values
    half = (y[1] - y[0]) / 2
    extent = (x[0] - half, x[-1] + half, y[0] - half, y[-1] + half)
    image = ax.imshow(values, origin="lower", extent=extent, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
    ax.set_title(title, fontsize=10)
    coordinates(ax, run().grid)
    return image


def draw_stations(ax: Axes, at: str) -> None:
    """Those that were read at a time."""
    rows, columns = np.nonzero(readings().sel(time=at).notnull().values)
    grid = run().grid
    ax.plot(grid.x[columns], grid.y[rows], "o", color="black", markersize=2.5)


def save(figure: Figure, script: str) -> None:
    """The picture of a script, for the site."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{Path(script).stem}.png", dpi=90)
