"""The store of results: one sealed JSON a cell, with everything needed to measure it again; sheets that list cells.

    results/HOME/KEY.json   what was measured of a cell, and its provenance
    results/NAME.json       a sheet: the cells of a table, in order; or a table measured as a whole (`benchmarks/`)

A file that is cut short, changed, or made for another key counts as missing and is measured again.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..disk import Damaged, digest, plain, read_json, replace
from .cell import Cell, Result

DIGITS = 5  # significant ones of a stored number: a tenth of a thousandth, far below every error bar
# What a result depends on, the oracles of the benchmarks included where they are installed.
PACKAGES = ("solidfield", "torch", "numpy", "scipy", "scikit-learn", "diffusers", "scoringrules", "torch-cfd")


def provenance(command: str, seed: int) -> dict[str, Any]:
    """Command, seed, commit, versions, machine and date of a result."""
    import torch  # here alone: reading what is stored does not need it

    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "command": command,
        "seed": seed,
        "commit": git.stdout.strip() or "not a git checkout",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }


def seal(path: Path, document: dict[str, Any]) -> Path:
    """Seal and put in place in one step; a line for each part, so that a change can be read."""
    parts = {**document, "sha256": digest(document)}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in parts.items())
    replace(path, f"{{\n{lines}\n}}\n".encode())
    return path


def path_of(cell: Cell, results: Path) -> Path:
    return results / cell.folder / f"{cell.key}.json"


def write_result(cell: Cell, results: Path, result: Result) -> Path:
    return seal(path_of(cell, results), {"key": cell.key, "cell": cell.as_dict(), **rounded(result)})


def read_result(cell: Cell, results: Path) -> Result | None:
    """The stored result; None where there is none, or none that can be trusted."""
    try:
        document = read_json(path_of(cell, results))
    except Damaged:
        return None
    return document if document.get("cell") == cell.as_dict() else None


def write_measured(path: Path, command: str, seed: int, result: dict[str, Any]) -> Path:
    """A table that is measured as a whole."""
    return seal(path, {"provenance": provenance(command, seed), "result": rounded(result)})


def write_sheet(path: Path, experiment: str, cells: Sequence[Cell]) -> Path:
    """Which cells a table shows."""
    return seal(path, {"experiment": experiment, "cells": [f"{cell.folder}/{cell.key}" for cell in cells]})


def read_sheet(sheet: dict[str, Any], results: Path) -> list[Result]:
    """The results of its cells; those that are not stored are left out."""
    found = []
    for place in sheet["cells"]:
        with suppress(Damaged):
            found.append(read_json(results / f"{place}.json"))
    return found


def rounded(value: Any) -> Any:
    """Plain JSON with numbers of a few digits; what is not finite becomes None."""
    return plain(value, DIGITS)
