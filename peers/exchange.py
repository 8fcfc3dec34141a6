"""What the scripts of this folder share: the task that `solid bench peers` wrote, a CPU clock, and the answer.

    task = Task.read()            given and asked rows, standardised under the task's transform; see bench/peers.py
    task.left()                   CPU seconds of the budget that are left
    task.answer(quantiles, ...)   given in standard units, written in physical ones; `task.normal`: of Gaussian laws

Quantiles go through a monotone transform unchanged, so a model of the logarithm is judged in physical units.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

FORWARD = {"none": lambda x: x, "log": np.log, "sqrt": np.sqrt}
BACK = {"none": lambda x: x, "log": np.exp, "sqrt": lambda x: np.maximum(x, 0) ** 2}


@dataclass
class Task:
    folder: Path
    about: dict  # task.json
    given: pd.DataFrame  # frame, y, x, value (standardised); y and x in cells, a degree of longitude shortened
    asked: pd.DataFrame  # frame, y, x
    mean: float  # of the transformed readings
    std: float
    begun: float  # on the CPU clock

    @classmethod
    def read(cls) -> Task:
        folder, begun = Path(sys.argv[1]), time.process_time()
        about = json.loads((folder / "task.json").read_text())
        given, asked = (pd.read_csv(folder / f"{name}.csv") for name in ("given", "asked"))
        shorter = np.cos(np.deg2rad(given["y"].mean())) if about["degrees"] else 1.0
        for table in (given, asked):
            table["y"] /= about["spacing"][0]
            table["x"] *= shorter / about["spacing"][0]
        values = FORWARD[about["transform"]](given["value"].to_numpy())
        mean, std = float(values.mean()), float(values.std())
        return cls(folder, about, given.assign(value=(values - mean) / std), asked, mean, std, begun)

    def left(self) -> float:
        return self.about["seconds"] - (time.process_time() - self.begun)

    def cycle(self, frame: np.ndarray) -> np.ndarray:  # (n,) -> (n, 2), or (n, 0) where a frame is a day or longer
        """Sine and cosine of the time of day."""
        if self.about["cycle"] is None:
            return np.zeros((len(frame), 0))
        angle = 2 * np.pi * np.asarray(frame) / self.about["cycle"]
        return np.stack([np.sin(angle), np.cos(angle)], 1)

    def answer(self, quantiles: np.ndarray, training: float, package: str, chosen: dict) -> None:  # (levels, n)
        """Quantiles in standard units; how many CPU seconds training took; what was chosen."""
        values = BACK[self.about["transform"]](self.mean + self.std * quantiles)
        np.save(self.folder / "quantiles.npy", values.astype(np.float32))
        told = {"training_seconds": training, "version": version(package), "chosen": chosen}
        (self.folder / "answer.json").write_text(json.dumps(told))

    def normal(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:  # (n,), (n,) -> (levels, n)
        """The quantiles of Gaussian laws."""
        from scipy.stats import norm

        return mean + std * norm.ppf(self.about["levels"])[:, None]
