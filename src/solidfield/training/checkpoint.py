"""Checkpoints: everything that training needs to go on, step by step on disk.

A checkpoint is a folder `step-00000400` of tensor files and one `state.json` that holds the SHA-256 of each of them
and of itself. It appears in full or not at all (`disk.atomic`). Reading checks every byte; a damaged checkpoint is an
error that says which older one is intact, never a silent step back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..disk import TEMPORARY, Damaged, atomic, pack, read_json, read_tensors, sealed, write_bytes
from ..errors import SolidError

KEPT = 2  # the newest, and one to return to should the disk damage it
RESUME = "make room there and resume, the last good checkpoint is untouched"


@dataclass(frozen=True)
class State:
    """Named groups of tensors (weights, averages, moments) and the plain counters that belong to them."""

    tensors: Mapping[str, Mapping[str, Tensor]]
    counters: Mapping[str, Any]


def save_state(folder: Path, step: int, state: State) -> Path:
    """Write the checkpoint of this step into `folder`, then let go of all but the newest two."""
    path = folder / f"step-{step:08d}"
    with atomic(path, RESUME) as part:
        part.mkdir()
        files = {}
        for name, tensors in state.tensors.items():
            content, files[f"{name}.safetensors"] = pack(tensors)
            write_bytes(part / f"{name}.safetensors", content)
        write_bytes(part / "state.json", sealed({"step": step, **state.counters, "files": files}))
    for old in checkpoints(folder)[:-KEPT]:
        _remove(old)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def _remove(checkpoint: Path) -> None:
    """Rename, then delete: a kill in between must not leave half a checkpoint under a good name."""
    doomed = checkpoint.with_name(TEMPORARY + "old-" + checkpoint.name)
    with suppress(OSError):  # an old checkpoint that cannot be deleted harms nobody
        os.rename(checkpoint, doomed)
        shutil.rmtree(doomed)


def load_state(folder: Path) -> tuple[int, State] | None:
    """The newest checkpoint, checked to the last byte; None before the first."""
    found = checkpoints(folder)
    if not found:
        return None
    try:
        return _read_state(found[-1])
    except Damaged as damage:
        raise SolidError(f"{damage}; {_way_back(found)}") from None


def _read_state(checkpoint: Path) -> tuple[int, State]:
    counters = read_json(checkpoint / "state.json")
    files = counters.pop("files")
    tensors = {Path(name).stem: read_tensors(checkpoint / name, sha256) for name, sha256 in files.items()}
    return counters.pop("step"), State(tensors, counters)


def _way_back(found: list[Path]) -> str:
    for older in reversed(found[:-1]):
        with suppress(Damaged):
            _read_state(older)
            return f"{older.name} is intact: delete the folder {found[-1].name} and resume from it"
    return "no older checkpoint is intact: train again into a new folder"
