"""A cell of a study: all that decides one result, and the file that holds it.

    key = what is simulated, how it is measured, which model learns from how much of it, with what budget, and on what
          it is judged

A cell belongs to no study: several studies show the same one, and it is run once. Its file is sealed by a checksum;
one that is cut short, changed, or made for another key counts as missing and is made again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...disk import Damaged, digest, read_json, replace
from ...worlds.scenarios import Scenario, as_dict
from .scale import Scale

PROTOCOL = 2  # how `measure.py` tunes and trains; another number makes other keys, so old runs are never mixed in
DIGITS = 5  # significant ones of a stored number: a tenth of a thousandth, far below every error bar


@dataclass(frozen=True)
class Cell:
    scale: Scale
    scenario: Scenario
    label: str  # how tables name it
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0  # of the training trajectories
    split: str = "test"  # or "between": the odd frames, never trained on
    rollout: int = 1  # steps to judge
    seed: int = 0
    minutes: float | None = None  # budget in CPU time of one thread ...
    steps: int | None = None  # ... or in steps; neither: fitted in closed form
    rates: tuple[float, ...] = ()  # learning rates to choose from

    @property
    def trained(self) -> dict[str, Any]:
        """What decides the weights; cells that differ in nothing of it share a run."""
        return {
            "protocol": PROTOCOL,
            "world": self.scale.about(),
            "scenario": as_dict(self.scenario),
            "model": self.model,
            "options": self.options,
            "share": self.share,
            "seed": self.seed,
            "minutes": self.minutes,
            "steps": self.steps,
            "batch": self.scale.batch,
            "rates": self.rates,
        }

    def as_dict(self) -> dict[str, Any]:
        judged = {"split": self.split, "rollout": self.rollout}
        plain = {"scale": self.scale.name, "label": self.label, **judged, **self.trained}
        return json.loads(json.dumps(plain))

    @property
    def run(self) -> str:
        """Name of the run folder."""
        return f"{self.model}-{digest(self.trained)[:12]}"

    @cached_property
    def key(self) -> str:
        """A readable name with the hash of everything that decides the result."""
        parts = [self.label, measured(self.scenario)]
        parts += [f"data{100 * self.share:g}"] if self.share < 1 else []
        parts += [self.split] if self.split != "test" else []
        parts += [f"rollout{self.rollout}"] if self.rollout > 1 else []
        slug = re.sub(r"[^a-z0-9.]+", "-", " ".join(parts).lower()).strip("-")
        return f"{slug}-{digest(self.as_dict())[:8]}"

    @property
    def leaks(self) -> bool:
        return bool(self.options.get("oracle"))


def measured(scenario: Scenario) -> str:
    """The scenario in a word: random10-instance, block26-global."""
    amount = 100 * scenario.amount if scenario.pattern == "random" else scenario.amount
    overlap = f"-overlap{100 * scenario.overlap:g}" if scenario.overlap else ""
    return f"{scenario.pattern}{amount:g}-{scenario.regime}{overlap}"


def path_of(cell: Cell, results: Path) -> Path:
    return results / cell.scale.name / f"{cell.key}.json"


def write_result(cell: Cell, results: Path, result: dict[str, Any]) -> Path:
    """Seal and put in place in one step; a line for each part, so that a change can be read."""
    document = {"key": cell.key, "cell": cell.as_dict(), **rounded(result)}
    parts = {**document, "sha256": digest(document)}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in parts.items())
    path = path_of(cell, results)
    replace(path, f"{{\n{lines}\n}}\n".encode())
    return path


def read_result(cell: Cell, results: Path) -> dict[str, Any] | None:
    """The stored result; None where there is none, or none that can be trusted."""
    path = path_of(cell, results)
    if not path.is_file():
        return None
    try:
        document = read_json(path)
    except Damaged:
        return None
    return document if document.get("cell") == cell.as_dict() else None


def rounded(value: Any) -> Any:
    """Plain JSON with numbers of a few digits; what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(name): rounded(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
