"""A result on disk: what was measured, and everything needed to measure it again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ...disk import replace


def provenance(command: str, seed: int) -> dict[str, Any]:
    """Command, seed, commit, versions, machine and date of a result."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return {
        "command": command,
        "seed": seed,
        "commit": git.stdout.strip() or "not a git checkout",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | _versions(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }


def _versions() -> dict[str, str]:
    """Of what the result depends on, the oracles of the benchmarks included where they are installed."""
    found = {}
    for name in ("solidfield", "torch", "numpy", "scipy", "diffusers", "scoringrules", "torch-cfd"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def store(path: Path, command: str, seed: int, result: dict[str, Any]) -> None:
    """Write a result whole or not at all."""
    document = {"provenance": provenance(command, seed), "result": result}
    replace(path, (json.dumps(document, indent=1) + "\n").encode())
