"""The page of `solid view` in Chromium: the wait for a map and for a chart, members a second, memory.

    python benchmarks/run.py view

A file of 100 members of 64 x 64 at 6 leads, and one of 1 GB (600 leads). Times are those a user waits, measured in
the page from its navigation and from the click; the best of three, since the machine does other work. Memory is what
the server's process grows by while the large file is opened, looked at and asked. A bar that is missed is an error.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from solidfield.keys import numpy_generator

K, SIDE, REPEATS = 100, 64, 3
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SOLID = "import sys; from solidfield.cli import main; sys.argv[0] = 'solid'; main()"
BARS = {"first_map_s": 1.0, "fan_chart_s": 0.1, "frames_a_second": 10.0, "grown_mb": 200.0}
WAITED = """() => new Promise((done) => {
    const canvas = document.getElementById("map-a");
    const tell = () => done(performance.now());
    const look = () => canvas.dataset.drawn ? requestAnimationFrame(tell) : setTimeout(look, 2);
    look();
})"""
CLICKED = """([x, y]) => new Promise((done) => {
    const [canvas, chart] = [document.getElementById("map-a"), document.getElementById("chart")];
    const since = performance.now();
    new MutationObserver((_, watch) => {
        if (!chart.querySelector("path")) return;
        watch.disconnect();
        requestAnimationFrame(() => done(performance.now() - since));
    }).observe(chart, {childList: true, subtree: true});
    for (const kind of ["pointerdown", "pointerup"]) {
        canvas.dispatchEvent(new PointerEvent(kind, {clientX: x, clientY: y, button: 0, pointerId: 1, bubbles: true}));
    }
})"""


def write(path: Path, leads: int) -> int:  # bytes
    """Maps as `solid predict` writes them, a lead at a time, so that a gigabyte needs no memory here either."""
    draws = numpy_generator(0, "view")
    pattern = draws.normal(size=(K, SIDE, SIDE)).cumsum(1).cumsum(2)
    pattern = (40 + 10 * pattern / pattern.std()).astype(np.float32)
    fields = ("init_time", "lead_time", "lat", "lon")
    with netCDF4.Dataset(path, "w") as file:
        sizes = {"member": K, "init_time": 1, "lead_time": leads, "lat": SIDE, "lon": SIDE}
        for name, size in sizes.items():
            file.createDimension(name, size)
        for name, values in {"lat": 22 + 0.01 * np.arange(SIDE), "lon": 88 + 0.01 * np.arange(SIDE)}.items():
            file.createVariable(name, "f8", (name,))[:] = values
        start = file.createVariable("init_time", "i8", ("init_time",))
        start.units, start[:] = "hours since 2024-01-15", [8]
        lead = file.createVariable("lead_time", "i8", ("lead_time",))
        lead.units, lead[:] = "hours", 1 + np.arange(leads)
        lead.setncattr("dtype", "timedelta64[ns]")
        members = file.createVariable("pm", "f4", ("member", *fields))
        summaries = {
            f"pm_{name}": file.createVariable(f"pm_{name}", "f4", fields) for name in ("mean", "std", "q05", "q95")
        }
        read = np.zeros((1, SIDE, SIDE), np.int8)
        read[0, 5::12, 5::12] = 1
        file.createVariable("observed", "i1", ("init_time", "lat", "lon"))[:] = read
        for k in range(leads):
            now = np.roll(pattern, k, axis=2)
            members[:, 0, k] = now
            low, high = np.sort(now, 0)[[5, 94]]
            for name, values in zip(summaries, (now.mean(0), now.std(0, ddof=1), low, high), strict=True):
                summaries[name][0, k] = values
    return path.stat().st_size


@contextmanager
def viewing(path: Path) -> Iterator[tuple[str, int]]:
    """`solid view` as a user starts it: its address and its process."""
    words = [sys.executable, "-c", SOLID, "view", str(path), "--no-browser", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = "".join(iter(lambda: process.stdout.readline(), "}\n")) + "}"
        try:
            yield json.loads(told)["address"], process.pid
        finally:
            process.terminate()


def megabytes(pid: int) -> float:
    """What a process holds in memory now."""
    line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def measured(browser: Any, address: str) -> dict[str, float]:
    page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    page.goto(address, wait_until="commit")
    first = page.evaluate(WAITED) / 1000
    box = page.locator("#map-a").bounding_box()
    place = [box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"]]
    chart = page.evaluate(CLICKED, place) / 1000
    page.goto(f"{address}#l=member:0")
    page.wait_for_timeout(300)
    page.click("#layer-a button")  # flicker
    page.wait_for_timeout(300)
    before, since = int(page.get_attribute("#map-a", "data-drawn")), time.perf_counter()
    page.wait_for_timeout(3000)
    frames = (int(page.get_attribute("#map-a", "data-drawn")) - before) / (time.perf_counter() - since)
    page.context.close()
    return {"first_map_s": first, "fan_chart_s": chart, "frames_a_second": frames}


def main() -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("error: no Chromium on this machine; CONTRIBUTING.md says how to get one")
    found: dict[str, Any] = {"bars": BARS}
    late = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for name, leads in (("100 members of 64 x 64, 6 leads", 6), ("1 GB: 600 leads", 600)):
            path = Path(folder) / f"maps-{leads}.nc"
            size = write(path, leads)
            with viewing(path) as (address, pid):
                before = megabytes(pid)
                tries = [measured(browser, address) for _ in range(REPEATS)]
                row = {key: min(one[key] for one in tries) for key in ("first_map_s", "fan_chart_s")}
                row["frames_a_second"] = max(one["frames_a_second"] for one in tries)
                row |= {"grown_mb": megabytes(pid) - before, "file_mb": size / 1e6}
            found[name] = row
            print(name, {key: round(value, 3) for key, value in row.items()}, flush=True)
            late += [
                f"{key} of {name}"
                for key, bar in BARS.items()
                if (row[key] < bar if key == "frames_a_second" else row[key] > bar)
            ]
        browser.close()
    if late:
        sys.exit(f"error: {', '.join(late)} misses its bar")
    return found


if __name__ == "__main__":
    main()
