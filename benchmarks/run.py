"""Run the measured claims and store each result under results/ with what made it: `make bench`.

    python benchmarks/run.py                 all of them
    python benchmarks/run.py crps unet       some of them

Timings are ratios within one run on one machine; absolute times of different runs are not compared.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BENCHMARKS = ("crps", "unet", "simulator")
PACKAGES = ("solidfield", "torch", "numpy", "scipy", "diffusers", "scoringrules", "torch-cfd")


def provenance(name: str) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout.strip()
    return {
        "command": f"python benchmarks/run.py {name}",
        "commit": commit or "not a git checkout",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {package: version(package) for package in PACKAGES},
    }


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"error: no benchmark '{unknown[0]}'; choose among {', '.join(BENCHMARKS)}")
    sys.path.insert(0, str(HERE))
    out = HERE.parent / "results" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    for name in names or BENCHMARKS:
        print(f"--- {name}", flush=True)
        result = importlib.import_module(name).main()
        content = json.dumps({"provenance": provenance(name), "result": result}, indent=1)
        (out / f"{name}.json").write_text(content + "\n")
        print(f"stored in results/bench/{name}.json", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
