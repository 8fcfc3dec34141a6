"""What the benches on real data share. A cell is the models of a part and a seed, judged side by side.

Every trained model has the same CPU time on one thread; the first of them is the run that the others are compared with,
and where all are fitted in closed form the first of those plays it. A run that stands in the work folder is used again,
one that was cut short is resumed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ...engine import Progress
from ...errors import SolidError
from ...pairs.store import PairStore, open_pairs
from ...report import Findings, evaluate_run
from ...training.record import RunRecord
from ..cell import Cell, Place, Result
from ..schemes import is_closed, scheme, train_scheme
from ..trainer import alone

Models = Annotated[str, "Comma-separated names of `solid models`; the first trained one is the run."]
Minutes = Annotated[float, "CPU time on one thread for each trained model."]
Seeds = Annotated[int, "Trainings of each model."]
Members = Annotated[int, "Of each ensemble."]
Scenes = Annotated[int | None, "Test examples of a lead, evenly in time; else all."]
Steps = Annotated[int, "Hours that every model is rolled forward, held-out days."]


@dataclass(frozen=True)
class RealCell(Cell):
    """A data set adds what decides its pairs, `pairs` that makes them, and `judge` if readings are not all there is."""

    JUDGED = ("members", "scenes", "steps", "models")
    UNITS: ClassVar[str] = "ug/m3"
    CREDIT: ClassVar[str] = ""
    WORDS: ClassVar[tuple[str, ...]] = ("part", "minutes", "seed")

    part: str
    models: tuple[str, ...]
    minutes: float
    members: int
    scenes: int | None  # None: all test examples
    steps: int  # from 2 on all are rolled forward, too

    def __post_init__(self) -> None:
        if not self.models:
            raise SolidError("no model is left to judge; name one or more with --models")
        for name in self.models:
            scheme(name)  # an unknown name is an error before anything is trained

    @property
    def region(self) -> str:
        """Where the models are compared first of all."""
        return "all"

    @property
    def home(self) -> str:
        """Folder of the pairs and of the runs that learn from them, below the work folder."""
        return self.part.replace(" ", "-")

    @abstractmethod
    def pairs(self, data: Path, path: Path) -> PairStore:
        """Read the files and write the pairs."""

    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        home = place.work / self.home
        with alone(home / "pairs.lock"):
            if not (home / "pairs.zarr").exists():
                self.pairs(place.files(self.HOME), home / "pairs.zarr")
        store = open_pairs(home / "pairs.zarr")
        runs = []
        for name in self.contestants:
            folder = home / f"{name}-{self.minutes:g}min-seed{self.seed}"
            runs.append(train_scheme(name, store, folder, self.minutes, self.seed, progress))
        about = {"data": self.CREDIT, "units": self.UNITS, "region": self.region}
        return about | self.judge(runs, store, place.files(self.HOME), progress)

    @property
    def contestants(self) -> list[str]:
        """What is trained."""
        return [name for name in self.models if not is_closed(name)] or list(self.models[:1])

    @property
    def rivals(self) -> list[str]:
        return [name for name in self.models if is_closed(name) and name not in self.contestants]

    @abstractmethod
    def judge(self, runs: Sequence[RunRecord], store: PairStore, data: Path, progress: Progress | None) -> Result:
        """What the runs are worth at the held-out readings."""

    def findings(self, runs: Sequence[RunRecord], store: PairStore, progress: Progress | None) -> Findings:
        """The runs and the closed-form rivals at the held-out readings."""
        return evaluate_run(
            runs[0],
            store,
            rivals=self.rivals,
            runs=runs[1:],
            members=self.members,
            scenes=self.scenes,
            steps=self.steps,
            seed=self.seed,
            progress=progress,
        )


def some(seeds: int) -> range:
    if seeds < 1:
        raise SolidError(f"{seeds} seeds leave nothing to judge; give one or more")
    return range(seeds)
