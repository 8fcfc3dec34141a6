"""Start-up: user CPU seconds of what a newcomer types first, best of five fresh processes.

    python benchmarks/run.py startup

`check` reads a table of 2,000 readings. User time, since waiting for a disk or for other work is not ours; the best of
five, since the first one fills the caches. A bar that is missed ends the benchmark with an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from solidfield.keys import numpy_generator

REPEATS = 5
SOLID = "import sys; from solidfield.cli import main; sys.argv[0] = 'solid'; main()"
BARS = {"import solidfield": 1.0, "solid --help": 0.6, "solid check": 2.0, "solid models": 3.0}  # user seconds


def write(path: Path, sensors: int = 20, hours: int = 100) -> None:
    """Hourly readings of fixed sensors."""
    draws = numpy_generator(0, "startup")
    place = np.round(22.5 + 0.2 * draws.random((sensors, 2)), 4)
    table = {
        "time": np.repeat(pd.date_range("2024-01-01", periods=hours, freq="h", tz="UTC"), sensors),
        "lat": np.tile(place[:, 0], hours),
        "lon": np.tile(place[:, 1] + 66, hours),
        "pm": draws.gamma(4.0, 10.0, sensors * hours).round(2),
    }
    pd.DataFrame(table).to_csv(path, index=False)


def user_seconds(words: list[str]) -> float:
    """User time of one process, and of it alone."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"error: python {' '.join(words)} ended with {process.returncode}")
    return usage.ru_utime


def main() -> dict[str, Any]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        readings = Path(folder) / "readings.csv"
        write(readings)
        commands = {
            "import solidfield": ["-c", "import solidfield"],
            "solid --help": ["-c", SOLID, "--help"],
            "solid check": ["-c", SOLID, "check", str(readings)],
            "solid models": ["-c", SOLID, "models"],
        }
        for name, words in commands.items():
            best = min(user_seconds(words) for _ in range(REPEATS))
            found[name] = {"user_seconds": best, "bar": BARS[name]}
            print(f"{name:20} {best:5.2f} s of user time, bar {BARS[name]} s", flush=True)
    late = [name for name, row in found.items() if row["user_seconds"] > row["bar"]]
    if late:
        sys.exit(f"error: {', '.join(late)} above the bar; `python -X importtime` shows what is imported needlessly")
    return found


if __name__ == "__main__":
    main()
