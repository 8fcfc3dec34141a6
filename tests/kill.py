"""SIGKILL every verb that writes, at random times: `make kill`, or `python tests/kill.py 200`.

The law: what stands under its final name after a kill is whole, that is, what an undisturbed call writes; and the same
command (with --resume, of a training) then ends in just that, and leaves no half file behind. Verbs run in children
that are forked from a process which has imported everything, so that most kills hit work and not imports.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import xarray as xr

import solidfield.cli as cli
from city import GRID, city
from solidfield.disk import TEMPORARY

SMOKE = ("--preset", "smoke")
TRAIN = ("train", "readings.csv", "--out", "new", *GRID, *SMOKE, "--steps", "30")
VERBS: dict[str, tuple[str, ...]] = {  # each writes `new`, with or without an ending
    "grid": ("grid", "readings.csv", "--out", "new.nc", *GRID),
    "grid-zarr": ("grid", "readings.csv", "--out", "new.zarr", *GRID),
    "check": ("check", "readings.csv", "--refused", "new.csv"),
    "quality": ("quality", "frames.nc", "--out", "new"),
    "train": (*TRAIN, "--model", "solid"),
    "fit": (*TRAIN, "--model", "kriging"),
    "predict": ("predict", "run", "readings.csv", "--out", "new.nc", "--members", "40", "--steps", "6"),
    "predict-zarr": ("predict", "run", "readings.csv", "--out", "new.zarr", "--members", "40", "--lead", "0"),
    "fill": ("fill", "sets", "readings.csv", "--out", "new.csv", "--members", "20"),
    "export": ("export", "maps.nc", "--layer", "chance", "--above", "20", "--out", "new.tif"),
    "evaluate": ("evaluate", "run", "--out", "new", "--members", "10", "--scenes", "4"),
    "simulate": ("simulate", "new.zarr", *SMOKE),
    "observe": ("observe", "truth.zarr", "new.zarr", *SMOKE),
}
READ_ONLY = ("readings.csv", "frames.nc", "maps.nc", "run", "sets", "truth.zarr")


def call(words: tuple[str, ...], folder: Path, delay: float | None = None) -> int:
    """Run a verb in a child; with a delay, kill it then. Its exit code, or minus the signal."""
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        with open("log.txt", "a") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            sys.argv = ["solid", *words]
            try:
                cli.main()
            except SystemExit as done:
                log.flush()
                os._exit(int(done.code or 0))
            finally:
                os._exit(1)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(path: Path) -> str:
    """What a result says, whatever order a library wrote it in: a hash."""
    if path.suffix == ".nc":
        with xr.open_dataset(path) as data:
            return hashlib.sha256(repr(data.load().to_dict()).encode()).hexdigest()
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if (path / "run.json").exists():
        document = json.loads((path / "run.json").read_text())
        return document["files"].get("weights.safetensors", "unfinished") if document["finished"] else "unfinished"
    names = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
    if (path / "report.html").exists() or path.suffix == "":
        return " ".join(map(str, names))  # a report holds times of computing; a figure, the version of its library
    return hashlib.sha256(b"".join(bytes(name) + (path / name).read_bytes() for name in names)).hexdigest()


def result(folder: Path) -> tuple[Path, str] | None:
    found = [path for path in folder.iterdir() if path.stem == "new"]
    return (found[0], content(found[0])) if found else None


def fresh(inputs: Path, folder: Path) -> None:
    folder.mkdir()
    for name in READ_ONLY:
        (folder / name).symlink_to(inputs / name)


def unfinished(verb: str, path: Path, found: str) -> bool:
    """May a result under its name be half done? Only those that are gone on with, and say so."""
    return verb == "simulate" or (
        verb in ("train", "fit") and (found == "unfinished" or not (path / "run.json").exists())
    )


def trial(verb: str, inputs: Path, expected: str, seconds: float, lot: random.Random) -> str:
    """One kill; "" where the law holds, else what broke it."""
    with tempfile.TemporaryDirectory() as place:
        folder, words = Path(place, "at"), VERBS[verb]
        fresh(inputs, folder)
        code = call(words, folder, delay=lot.uniform(0, 1.1 * seconds))
        if code not in (0, -signal.SIGKILL):
            return f"ended with {code} before it was killed"
        left = result(folder)
        if left is not None and left[1] != expected and not unfinished(verb, *left):
            return f"{left[0].name} is neither whole nor absent"
        if left is None or left[1] != expected:
            again = (*words, "--resume") if verb in ("train", "fit") and left is not None else words
            if (code := call(again, folder)) != 0:
                return f"`solid {' '.join(again)}` ended with {code}: {(folder / 'log.txt').read_text()[-300:]}"
        done = result(folder)
        if done is None or done[1] != expected:
            return "did not end in the result of an undisturbed call"
        half = [str(path.relative_to(folder)) for path in folder.rglob(f"{TEMPORARY}*") if "run/" not in str(path)]
        return f"left {half} behind" if half and left != done else ""


def main(kills: int) -> None:
    lot, broken, struck = random.Random(0), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        inputs = Path(place, "inputs")
        inputs.mkdir()
        city().to_csv(inputs / "readings.csv", index=False)
        made = (
            ("grid", "readings.csv", "--out", "frames.nc", *GRID),
            ("train", "readings.csv", "--out", "run", *GRID, *SMOKE, "--model", "kriging"),
            ("train", "readings.csv", "--out", "sets", *GRID, *SMOKE, "--model", "solid-set", "--steps", "6"),
            ("predict", "run", "readings.csv", "--out", "maps.nc", "--members", "40", "--steps", "6"),
            ("simulate", "truth.zarr", *SMOKE),
        )
        for words in made:
            assert call(words, inputs) == 0, (inputs / "log.txt").read_text()[-500:]
        whole: dict[str, tuple[str, float]] = {}
        for verb, words in VERBS.items():
            folder = Path(place, verb)
            fresh(inputs, folder)
            begun = time.monotonic()
            assert call(words, folder) == 0, (folder / "log.txt").read_text()[-500:]
            found = result(folder)
            assert found is not None, verb
            whole[verb] = (found[1], time.monotonic() - begun)
        for number in range(kills):
            verb = list(VERBS)[number % len(VERBS)]
            fault = trial(verb, inputs, *whole[verb], lot)
            struck[verb] += 1
            if fault:
                broken[verb] += 1
                print(f"kill {number} of {verb}: {fault}", flush=True)
    print(f"{sum(struck.values())} kills of {len(struck)} verbs, {sum(broken.values())} violations {dict(broken)}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
