"""Run the measured claims and store each result under results/ with what made it: `make bench`.

    python benchmarks/run.py                 all of them
    python benchmarks/run.py crps unet       some of them

Timings are ratios within one run on one machine; absolute times of different runs are not compared.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from solidfield.experiments.store import write_measured

HERE = Path(__file__).parent
BENCHMARKS = (
    "startup",
    "crps",
    "unet",
    "simulator",
    "sampling",
    "gridding",
    "growth",
    "growth_sets",
    "sparse",
    "view",
    "place",
    "cluster",
)


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"error: no benchmark '{unknown[0]}'; choose among {', '.join(BENCHMARKS)}")
    sys.path.insert(0, str(HERE))
    out = HERE.parent / "results" / "bench"
    for name in names or BENCHMARKS:
        print(f"--- {name}", flush=True)
        write_measured(
            out / f"{name}.json", f"python benchmarks/run.py {name}", 0, importlib.import_module(name).main()
        )
        print(f"stored in results/bench/{name}.json", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
