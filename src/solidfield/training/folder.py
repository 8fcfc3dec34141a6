"""The run folder: everything a trained model needs to be used again, and to be accounted for.

    run.json             what was trained, on what, how, with which versions; sealed by its own checksum
    weights.safetensors  the weights to use, written when training ends
    cells.safetensors    which cells count, which were never supervised, static covariates
    pairs.zarr           the pairs it was trained on, where they were made for it (`fit.py`)
    readings.safetensors the readings of a run of questions, held-out ones included: what it is judged by
    log.jsonl            one line per logged step
    state/step-00000400  the last two checkpoints

A folder belongs to one run: starting into it again is an error, resuming it with other data or settings is an
error that names the difference, and so is resuming it while another process trains in it.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import TrainConfig
from ..disk import clean, digest, only_begun, pack, read_json, refuse_existing, replace, write_json, writing
from ..errors import SolidError
from ..pairs.scaling import Scaling
from .record import CELLS, FORMAT, LOG, PAIRS, READINGS, RUN, STATE, WEIGHTS, Document

BEGUN = (PAIRS, CELLS, READINGS)  # what is written before a run begins: a folder with these alone holds no run yet


def describe(
    model: Any,
    options: Mapping[str, Any],
    data: Mapping[str, Any],  # what decides them, and what a run needs to know of them
    scaling: Scaling,
    config: TrainConfig,
    processes: int,
    reading: Mapping[str, Any] | None = None,  # how the readings were read and paired, where they were for this run
) -> Document:
    """All that decides the result of a training run, as plain JSON."""
    model_part = {"name": model.name, "options": dict(options), "leaks": model.leaks}
    train_part = config.model_dump(mode="json")
    versions = {name: version(name) for name in ("solidfield", "torch", "numpy")}
    document = {
        "format": FORMAT,
        "label": model.label(),
        "model": model_part,
        "data": dict(data),
        "scaling": scaling.as_dict(),
        "train": train_part,
        "processes": processes,  # each draws its own noise: another number gives another result
        "threads": torch.get_num_threads(),  # sums depend on how many threads share them
        "config_hash": digest({"model": model_part, "train": train_part}),
        "versions": versions | {"python": platform.python_version()},
        "total_steps": None if config.minutes is not None else config.steps,
        "finished": False,
        "files": {},
        "history": {},
    }
    if reading is not None:
        document["reading"] = dict(reading)
    return json.loads(json.dumps(document))


def start(path: Path, document: Document, files: Mapping[str, Mapping[str, Tensor]]) -> Document:
    """Make the folder; one that holds anything but the pairs of this run is never written over."""
    refuse_existing(path, "resume it or choose another folder", besides=BEGUN)
    if path.is_dir():
        clean(path)
    written = {}
    for name, tensors in files.items():
        content, written[name] = pack(tensors)
        replace(path / name, content)
    document = document | {"files": written}
    write_json(path / RUN, document)
    return document


def barely_begun(path: Path) -> bool:
    """Was a run killed here before its first step, so that there is nothing to resume and nothing to lose?"""
    return path.is_dir() and any(path.iterdir()) and only_begun(path, BEGUN)


def recorded_run(path: Path) -> Document:
    """What the folder to resume says of itself."""
    if not (path / RUN).is_file():
        raise SolidError(f"{path} holds no run to resume ({RUN} is missing); start one without resume")
    return read_json(path / RUN)


def check_reading(path: Path, asked: Mapping[str, Any]) -> None:
    """Refuse to resume with other files or options of reading; what is not given is as the run has it."""
    recorded = recorded_run(path).get("reading")
    if recorded is None:
        return  # a run of an earlier version, which kept no record of them
    for name, value in json.loads(json.dumps(dict(asked))).items():
        difference = None if value is None else _difference(recorded.get(name), value, name)
        if difference:
            raise SolidError(f"cannot resume {path}: {difference}; use its own files and options, or a new folder")


def resume(path: Path, document: Document) -> Document:
    """What the folder says of itself, once it is clear that it is the same run."""
    recorded = recorded_run(path)
    decide = ("model", "data", "train", "processes", "scaling")
    for part in decide if recorded.get("finished") else ("format", *decide):
        difference = _difference(recorded.get(part), document[part], part)
        if difference:
            raise SolidError(f"cannot resume {path}: {difference}; use its own settings or a new folder")
    clean(path)
    clean(path / STATE)
    return recorded


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep other processes from training in this folder; the system lets go of it when its holder dies."""
    holder = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SolidError(f"another process is training in {path}; wait for it or choose another folder") from None
        except OSError:
            pass  # a file system without locks protects nobody, and keeps nobody from training
        yield
    finally:
        os.close(holder)


def _difference(recorded: Any, present: Any, name: str) -> str | None:
    """The first place where two plain values differ, in words."""
    if isinstance(recorded, dict) and isinstance(present, dict):
        for key in sorted(recorded.keys() | present.keys()):
            difference = _difference(recorded.get(key), present.get(key), f"{name}.{key}")
            if difference:
                return difference
        return None
    return None if recorded == present else f"{name} was {recorded} in the run and is {present} now"


def total_steps(path: Path) -> int | None:
    """How long this run is; None while a budget of minutes has not become a number of steps."""
    return read_json(path / RUN)["total_steps"]


def fix_total(path: Path, total: int) -> None:
    write_json(path / RUN, read_json(path / RUN) | {"total_steps": total})


def finish(path: Path, weights: Mapping[str, Tensor], history: Mapping[str, Any]) -> None:
    """Publish the weights; `run.json` comes last, so a run that calls itself finished has them."""
    content, sha256 = pack(weights)
    replace(path / WEIGHTS, content)
    document = read_json(path / RUN)
    files = document["files"] | {WEIGHTS: sha256}
    write_json(path / RUN, document | {"finished": True, "files": files, "history": dict(history)})


def log(path: Path, line: Mapping[str, Any]) -> None:
    with writing(path / LOG), open(path / LOG, "a") as file:
        file.write(json.dumps(line) + "\n")


def trim_log(path: Path, step: int) -> None:
    """Forget the lines after the checkpoint that training returns to, and a last line cut short by a kill."""
    with writing(path / LOG):
        lines = (path / LOG).read_text().splitlines() if (path / LOG).exists() else []
    kept = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
    replace(path / LOG, "".join(kept).encode())
