"""The three sizes of the studies: one world, one budget, one number of scenes and members each.

`laptop` is a quarter of the paper's box at the paper's cell size, so that a density means as many sensors per area:
side pi, 32 x 32 cells. `paper` has the paper's sizes. `smoke` shows that everything runs. A budget is CPU time of one
thread (`minutes`) or a number of steps; both include the short runs that choose the learning rate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import pi
from typing import Any

from ...errors import SolidError
from ...worlds import NavierStokes

PILOT = 0.08  # of a cell's budget, for each candidate learning rate
REST = 60.0  # CPU minutes in which trainings may come to rest
RATES = {"adversarial": (5e-4, 1e-3, 2e-3)}  # the games stop working outside a narrow range


@dataclass(frozen=True)
class Scale:
    """The defaults are those of the laptop."""

    name: str
    world: NavierStokes
    trajectories: int = 1000
    validation: float = 0.05  # shares of the trajectories
    test: float = 0.05
    scenes: int = 50  # judged, one per test trajectory
    members: int = 50  # of an ensemble
    dear_members: int = 24  # of one whose every member costs many passes; 19 or more span a 90 % interval
    size: str = "laptop"  # of the networks: a row of each model's own table
    minutes: float | None = 4.0  # CPU minutes of a cell that chooses its learning rate
    short: float | None = 1.5  # ... of tables that the 10 % column is not in: densities, lambda, filling, patterns
    steps: int | None = None  # instead of minutes
    batch: int = 32
    block: int = 4  # side of a block in cells: an eighth of the grid, as in the paper
    rollout: int = 8  # steps
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)  # learning rates to choose from

    def rates_of(self, family: str) -> tuple[float, ...]:
        return RATES.get(family, self.rates) if len(self.rates) > 1 else self.rates

    @property
    def given(self) -> dict[str, float | int | None]:
        """The budget of a cell that takes a rate over: what the pilots of the others leave."""
        left = 1 - PILOT * len(self.rates)
        return {
            "minutes": None if self.minutes is None else round(self.minutes * left, 2),
            "steps": None if self.steps is None else max(2, round(self.steps * left)),
        }

    def about(self) -> dict[str, Any]:
        """What decides the data and the judging, as plain JSON."""
        world = {name: value for name, value in asdict(self.world).items() if value is not None}
        shares = {"validation": self.validation, "test": self.test, "trajectories": self.trajectories}
        judged = {"scenes": self.scenes, "members": self.members, "dear_members": self.dear_members}
        return {"kind": "navier-stokes", **world, **shares, **judged}


LAPTOP = Scale("laptop", NavierStokes(cells=32, side=pi, frames=50, spacing=0.2, warmup=10.0))
PAPER = Scale(
    "paper", NavierStokes(), members=100, dear_members=100, size="paper", minutes=None, short=None, batch=64, block=8,
    steps=600_000,  # the paper's table
    rates=(1e-4, 2e-4, 4e-4),
)  # fmt: skip
FEW: dict[str, Any] = {"trajectories": 20, "validation": 0.1, "test": 0.1, "scenes": 2, "batch": 4, "rollout": 2}
FEW |= {"minutes": None, "short": None}
TINY = NavierStokes(cells=16, side=pi, frames=7, spacing=0.2, warmup=0.4)
SMOKE = Scale("smoke", TINY, members=8, dear_members=4, size="smoke", steps=4, block=2, rates=(1e-3,), **FEW)
SCALES = {scale.name: scale for scale in (SMOKE, LAPTOP, PAPER)}


def scale(name: str, steps: int | None = None) -> Scale:
    """A scale by name; with `steps`, a trial of it: the same grid and networks, a few steps, few scenes."""
    if name not in SCALES:
        raise SolidError(f"no scale '{name}'; choose one of {', '.join(SCALES)}")
    chosen = SCALES[name]
    if steps is None:
        return chosen
    return replace(chosen, name=f"{name}-trial", members=2, dear_members=2, steps=steps, **FEW)
