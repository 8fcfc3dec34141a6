"""State on disk that survives a kill, a full disk and a flipped bit: safetensors + JSON, nothing pickled.

A checkpoint is a folder `step-00000400` of tensor files and one `state.json` that holds the SHA-256 of each
of them and of itself. It is written under a temporary name, flushed to the disk, and renamed: at every moment
a checkpoint either exists in full or not at all. Reading checks every byte; a damaged checkpoint is an error
that says which older one is intact, never a silent step back.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from .errors import SolidError

KEPT = 2  # the newest, and one to return to should the disk damage it
TEMPORARY = ".tmp-"


class Damaged(SolidError):
    """A file whose bytes are not those that were written."""


@dataclass(frozen=True)
class State:
    """Named groups of tensors (weights, averages, moments) and the plain counters that belong to them."""

    tensors: Mapping[str, Mapping[str, Tensor]]
    counters: Mapping[str, Any]


def digest(plain: Any) -> str:
    """The SHA-256 of a plain value's canonical JSON: the hash of a configuration in provenance."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says of a failed write into one line for the user."""
    try:
        yield
    except OSError as error:
        raise SolidError(
            f"cannot write {path}: {error.strerror or error}; make room there and resume, "
            "the last good checkpoint is untouched"
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write and flush to the disk, not only to the system's cache."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, content: bytes) -> None:
    """Put new content in place of a file in one step: a reader meets the old one or the new one."""
    temporary = path.with_name(TEMPORARY + path.name)
    with writing(path):
        try:
            write_bytes(temporary, content)
            os.replace(temporary, path)
            _flush_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def _flush_folder(folder: Path) -> None:
    """A rename lasts only once the folder that lists it is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    replace(path, _sealed(document))


def _sealed(document: Mapping[str, Any]) -> bytes:
    """JSON text with the hash of its own content, so that a changed digit is noticed."""
    return (json.dumps({**document, "sha256": digest(document)}, indent=2) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        seal = document.pop("sha256")
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise Damaged(f"{path} is damaged: it is not the JSON that was written") from None
    if digest(document) != seal:
        raise Damaged(f"{path} is damaged: its content does not match its checksum")
    return document


def pack(tensors: Mapping[str, Tensor]) -> tuple[bytes, str]:
    """The tensors as safetensors bytes, and their SHA-256; tied tensors are stored once for each name."""
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = safetensors.torch.save(own)
    return content, hashlib.sha256(content).hexdigest()


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Damaged(f"{path} is damaged: its {len(content)} bytes do not match their checksum")
    return safetensors.torch.load(content)


def save_state(folder: Path, step: int, state: State) -> Path:
    """Write the checkpoint of this step into `folder`, then let go of all but the newest two."""
    final = folder / f"step-{step:08d}"
    temporary = folder / (TEMPORARY + final.name)
    with writing(final):
        try:
            temporary.mkdir(parents=True)
            files = {}
            for name, tensors in state.tensors.items():
                content, files[f"{name}.safetensors"] = pack(tensors)
                write_bytes(temporary / f"{name}.safetensors", content)
            write_bytes(temporary / "state.json", _sealed({"step": step, **state.counters, "files": files}))
            _flush_folder(temporary)
            os.rename(temporary, final)
            _flush_folder(folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    for old in checkpoints(folder)[:-KEPT]:
        _remove(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def _remove(checkpoint: Path) -> None:
    """Rename, then delete: a kill in between must not leave half a checkpoint under a good name."""
    doomed = checkpoint.with_name(TEMPORARY + "old-" + checkpoint.name)
    with suppress(OSError):  # an old checkpoint that cannot be deleted harms nobody
        os.rename(checkpoint, doomed)
        shutil.rmtree(doomed)


def clean(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for left in folder.glob(TEMPORARY + "*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


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
