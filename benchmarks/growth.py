"""What a cell costs on a large map: drawing, writing and learning at 1,024 x 1,024 cells against 64 x 64.

    python benchmarks/growth.py 256        a smaller map, for a quick look

Synthetic Gaussian fields, read at 1 % of the cells (10,000 sensors at full size) and at 5 %. Each map is learned for a
few steps and drawn in a process of its own, so that its peak memory is its own. Goals: a cell and member of the large
map costs at most 1.5 x that of the small one and at most 1 microsecond, 5 % at most 2 x 1 %; 100 members within 4 GiB
and 10 minutes, in fewer than 1,000 files; a training step at most 2 x that of 64 x 64 cells.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from solidfield.config import TrainConfig
from solidfield.grid import Grid
from solidfield.keys import numpy_generator, torch_generator
from solidfield.models import build
from solidfield.noise import MemberNoise
from solidfield.pairs.store import PairStore
from solidfield.pairs.writing import Example, write_pairs
from solidfield.prediction.predict import predict_examples
from solidfield.run import load
from solidfield.training.loop import train
from solidfield.training.task import PairTask

SIDE, MEMBERS, BATCH, STEPS = 1024, 100, 32, 8
SMALL = 64  # cells along the side of the map that the large one is compared with


def examples(side: int, share: float) -> Iterator[Example]:
    """Smooth fields, read at random cells; targets are other random cells of the same field."""
    count = int(share * side**2)
    k = 2 * np.pi * np.fft.fftfreq(side)
    amplitude = np.exp(-4.0 * (k[:, None] ** 2 + k[None] ** 2))
    for index in range(16):
        generator = numpy_generator(0, "growth", side, index)
        field = np.fft.ifft2(np.fft.fft2(generator.standard_normal((side, side))) * amplitude).real.ravel()
        cells = generator.choice(side**2, 2 * count, replace=False)
        field /= field.std()
        source, target = np.sort(cells[:count]), np.sort(cells[count:])
        split = "train" if index < 12 else "validation" if index < 14 else "test"
        yield Example(source, field[source], target, field[target], 0, split, float(index), float(index), index)


def trained(folder: Path, side: int, share: float) -> tuple[PairStore, float]:
    """A run after a few steps, and the CPU seconds of a step with its batch."""
    store = write_pairs(folder / "pairs", Grid((side, side)), ["u"], examples(side, share))
    config = TrainConfig(steps=3, warmup=1, batch=BATCH, validate_every=3, validation_examples=2, validation_members=2)
    options = {"size": "laptop"}
    torch.manual_seed(0)
    train(build("solid", store.spec(), options), store, folder / "run", config, options=options)
    model, task = load(folder / "run").model.train(), PairTask.of(store, config)
    model.requires_grad_(True)
    for step in range(STEPS):
        if step == 2:
            start = time.process_time()
        model.loss(task.batch(step, 0, 1, model), torch_generator(step)).backward()
    return store, (time.process_time() - start) / (STEPS - 2)


def measure(side: int, share: float) -> dict[str, float]:
    """One map in this process: CPU microseconds of a cell and member, seconds, GiB, files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, step = trained(folder, side, share)
        run, scene = load(folder / "run"), store.split("test")[:1]
        learned = peak()
        source = run.scaling.standardise(store.batch(scene).source)
        some = MEMBERS if side <= 2 * SMALL else MEMBERS // 2
        run.model.drawing(source)(1, MemberNoise(0, [0], [0]))
        start = time.process_time()
        draws = run.model.drawing(source)
        for first in range(0, MEMBERS, some):
            draws(some, MemberNoise(0, [0], range(first, first + some)))
        drawing = time.process_time() - start
        del draws
        start, busy = time.perf_counter(), time.process_time()
        predict_examples(run, store, scene, members=MEMBERS, out=folder / "maps.zarr", max_memory=4.0)
        files = sum(path.is_file() for path in (folder / "maps.zarr").rglob("*"))
        return {
            "sensors": float(source.mask.sum()),
            "microseconds": 1e6 * drawing / MEMBERS / side**2,
            "command_seconds": time.perf_counter() - start,
            "command_microseconds": 1e6 * (time.process_time() - busy) / MEMBERS / side**2,
            "files": files,
            "training_step_seconds": step,
            "training_gib": learned,
            "gib": peak(),
        }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(side: int = SIDE) -> dict[str, float]:
    result: dict[str, float] = {"side": side}
    for name, cells, share in (("small", SMALL, 0.01), ("large", side, 0.01), ("dense", side, 0.05)):
        words = [sys.executable, __file__, "measure", str(cells), str(share)]
        found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        result |= {f"{name}_{key}": value for key, value in found.items()}
        print(f"{cells} x {cells}, {found['sensors']:,.0f} sensors: " + json.dumps(found), flush=True)
    result["growth"] = result["large_microseconds"] / result["small_microseconds"]
    result["denser"] = result["dense_microseconds"] / result["large_microseconds"]
    result["training_growth"] = result["large_training_step_seconds"] / result["small_training_step_seconds"]
    print({key: round(result[key], 2) for key in ("growth", "denser", "training_growth")})
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(int(sys.argv[2]), float(sys.argv[3]))))
    else:
        main(*(int(word) for word in sys.argv[1:]))
