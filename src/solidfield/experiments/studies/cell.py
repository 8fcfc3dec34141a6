"""A cell of the paper's studies: a scale's world, a way of measuring it, a model and its budget."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ...disk import digest
from ...models import model_class
from ...worlds.scenarios import Scenario, as_dict
from ..cell import Cell
from .scale import Scale

LONG = 4.0  # CPU minutes; a longer budget is part of the readable name


@dataclass(frozen=True)
class Setting(Cell):
    """All that decides a result; `measure.StudyCell` also knows how to get it."""

    HOME = "studies"
    PROTOCOL = 2  # how `measure.py` tunes and trains

    scale: Scale
    scenario: Scenario
    label: str  # how tables name it
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0  # of the training trajectories
    split: str = "test"  # or "between": the odd frames, never trained on
    rollout: int = 1  # steps to judge
    window: int = 1  # frames that are known; from 2 on the steps are learned together, and drawn by their direct laws
    minutes: float | None = None  # budget in CPU time of one thread ...
    steps: int | None = None  # ... or in steps; neither: fitted in closed form
    rates: tuple[float, ...] = ()  # learning rates to choose from

    @property
    def trained(self) -> dict[str, Any]:
        """What decides the weights; cells that differ in nothing of it share a run."""
        revision = model_class(self.model).revision
        return {
            "protocol": self.PROTOCOL,
            "world": self.scale.about(),
            "scenario": as_dict(self.scenario),
            "model": self.model,
            **({"revision": revision} if revision > 1 else {}),  # the first has no word for it: its keys are older
            "options": self.options,
            "share": self.share,
            "seed": self.seed,
            "minutes": self.minutes,
            "steps": self.steps,
            "batch": self.scale.batch,
            "rates": self.rates,
            **({"window": self.window, "leads": list(self.leads)} if self.window > 1 else {}),
        }

    def as_dict(self) -> dict[str, Any]:
        judged = {"split": self.split, "rollout": self.rollout}
        return json.loads(json.dumps({"scale": self.scale.name, "label": self.label, **judged, **self.trained}))

    @property
    def leads(self) -> tuple[int, ...]:
        """Those that examples have."""
        return (1,) if self.window == 1 else tuple(range(self.rollout + 1))

    @property
    def run(self) -> str:
        return f"{self.model}-{digest(self.trained)[:12]}"

    @property
    def words(self) -> tuple[str, ...]:
        share = (f"data{100 * self.share:g}",) if self.share < 1 else ()
        split = (self.split,) if self.split != "test" else ()
        rollout = (f"rollout{self.rollout}",) if self.rollout > 1 else ()
        window = (f"window{self.window}",) if self.window > 1 else ()
        long = (f"{self.minutes:g}min",) if self.minutes and self.minutes > LONG else ()
        seed = (f"seed{self.seed}",) if self.seed else ()
        return (self.label, measured(self.scenario), *share, *split, *window, *rollout, *long, *seed)

    @property
    def folder(self) -> str:
        return f"{self.HOME}/{self.scale.name}"

    @property
    def sheet(self) -> None:
        """Pages look cells up by their key."""
        return

    @property
    def leaks(self) -> bool:
        return bool(self.options.get("oracle"))


def measured(scenario: Scenario) -> str:
    """The scenario in a word: random10-instance, block26-global."""
    amount = 100 * scenario.amount if scenario.pattern == "random" else scenario.amount
    overlap = f"-overlap{100 * scenario.overlap:g}" if scenario.overlap else ""
    return f"{scenario.pattern}{amount:g}-{scenario.regime}{overlap}"
