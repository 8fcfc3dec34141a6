"""Maps for the tests of `solid view`, a server in a thread, and a Chromium where the machine has one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import uvicorn
import xarray as xr

from shared import standard_normal
from solidfield.prediction.ask import summarised
from solidfield.view.sensors import Sensors
from solidfield.view.server import Exhibition, application, bind
from solidfield.view.shown import Shown

TOKEN = "a-token-of-the-test"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def some_maps(
    members: int = 12, starts: int = 2, leads: int = 3, H: int = 6, W: int = 7, name: str = "pm"
) -> xr.Dataset:
    """Members of a smooth law on true coordinates, one cell outside the domain, two rows never taught, five sensors."""
    y, x = np.mgrid[:H, :W]
    noise = standard_normal(members, starts, leads, H, W, key="view")
    values = (40 + 3 * np.sin(x / 2) + y + 4 * noise).astype(np.float32)
    inside, never, read = np.ones((H, W), np.int8), np.zeros((H, W), np.int8), np.zeros((starts, H, W), np.int8)
    inside[0, 0], never[-2:], read[:, 1, 1:6] = 0, 1, 1
    values[..., 0, 0] = np.nan
    fields = ("member", "init_time", "lead_time", "lat", "lon")
    times = {
        "init_time": np.datetime64("2024-01-15T08:00", "ns") + np.arange(starts) * np.timedelta64(6, "h"),
        "lead_time": (1 + np.arange(leads)) * np.timedelta64(3600 * 10**9, "ns"),
    }
    places = {"lat": 22.5 + 0.01 * np.arange(H), "lon": 88.3 + 0.01 * np.arange(W)}
    maps = summarised(
        xr.Dataset({name: (fields, values, {"units": "ug/m3"})}, times | places), (0.05, 0.25, 0.5, 0.75, 0.95)
    )
    for variable in maps.data_vars:
        maps[variable].attrs["units"] = "ug/m3"
    given = np.where(read, values[0, :, 0], np.nan)
    return maps.assign(
        {
            "observed": (("init_time", "lat", "lon"), read),
            "never_supervised": (("lat", "lon"), never),
            "domain": (("lat", "lon"), inside),
            f"{name}_given": (("init_time", "lat", "lon"), given),
        }
    ).assign_attrs(title=f"{name} predicted by nobody")


def named_sensors(maps: xr.Dataset, names: list[str], variable: str = "pm") -> Sensors:
    """Sensors with these names in the cells that were read, and one frame for each start."""
    frames = maps[[f"{variable}_given"]].rename({f"{variable}_given": variable, "init_time": "time"})
    rows, columns = np.nonzero(maps["observed"].values[0])
    pick = np.arange(len(names)) % len(rows)
    places = {"name": names, "y": maps["lat"].values[rows[pick]], "x": maps["lon"].values[columns[pick]]}
    return Sensors(frames, pd.DataFrame(places))


@contextmanager
def serving(exhibition: Exhibition) -> Iterator[str]:
    """The address of a page that is really served."""
    ready, hosts = bind("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(application(exhibition, TOKEN, hosts), log_level="error", ws="none", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [ready]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{ready.getsockname()[1]}/{TOKEN}/"
    finally:
        server.should_exit = True
        thread.join(10)
        ready.close()


@contextmanager
def chromium() -> Iterator[object]:
    """A browser without a window; where there is none, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on this machine; CONTRIBUTING.md says how to get one")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


def exhibit(maps: xr.Dataset, name: str = "maps.nc", sensors: Sensors | None = None) -> Exhibition:
    return Exhibition([Shown(maps, name, sensors)])


def axe_script() -> str:
    """axe-core, from `npm install axe-core` in the repository; skipped where it is not there."""
    path = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
    if not path.exists():
        pytest.skip("axe-core is not installed; CONTRIBUTING.md says how to get it")
    return path.read_text()
