"""A cell: all that decides one result. An experiment: which cells a verb of `solid bench` runs, and how they are shown.

    key = a readable name + the hash of what is simulated or read, which model learns from how much of it, with what
          budget, and on what it is judged

A cell belongs to no table: several may show the same one, and it is measured once.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..disk import digest
from ..engine import Progress
from ..errors import SolidError
from .text import Table

Result = dict[str, Any]
FORMS = {"minutes": "{:g}min", **{name: f"{name}{{}}" for name in ("seed", "lead", "window", "fold")}}  # of words


@dataclass(frozen=True)
class Place:
    """Where a cell works; nothing of it decides the result."""

    work: Path  # simulations, pairs and runs, so that what was interrupted goes on
    data: Path | None = None  # files of a real data set, read and never copied

    def files(self, of: str) -> Path:
        """The folder of a data set's files."""
        if self.data is None:
            raise SolidError(f"the files of {of} are not in the repository; name their folder with --data")
        return self.data


@dataclass(frozen=True)
class Cell(ABC):
    """What the cells of all experiments have in common; a subclass adds its fields and `measure`."""

    HOME: ClassVar[str] = ""  # the experiment, and the folder of its results
    PROTOCOL: ClassVar[int] = 1  # how it is measured; another number makes other keys, so old results are not mixed in
    JUDGED: ClassVar[tuple[str, ...]] = ("members", "scenes")  # fields that decide the result but not the weights
    WORDS: ClassVar[tuple[str, ...]] = ()  # fields that the readable part of the key is made of

    seed: int = field(default=0, kw_only=True)

    @abstractmethod
    def measure(self, place: Place, progress: Progress | None = None) -> Result:
        """The result, as plain values."""

    @property
    def words(self) -> tuple[str, ...]:
        """The readable part of the key; what a cell has nothing of is left out."""
        told = {name: value for name in self.WORDS if (value := getattr(self, name)) is not None}
        return tuple(FORMS.get(name, "{}").format(value) for name, value in told.items())

    @property
    def folder(self) -> str:
        """Where its result is stored, below the folder of all results."""
        return self.HOME

    @property
    def sheet(self) -> str | None:
        """The table that lists the cells of a run of this experiment, unless another is named; None: there is none."""
        return self.HOME

    @property
    def trained(self) -> dict[str, Any]:
        """What decides the weights; cells that differ in nothing of it share a run."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self.JUDGED}
        return {"experiment": self.HOME, "protocol": self.PROTOCOL, **plain}

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides the result, as plain JSON."""
        judged = {name: getattr(self, name) for name in self.JUDGED if hasattr(self, name)}
        return json.loads(json.dumps(self.trained | judged))

    @property
    def run(self) -> str:
        """Name of the run folder."""
        return f"{self.words[0]}-{digest(self.trained)[:12]}"

    @cached_property
    def key(self) -> str:
        slug = re.sub(r"[^a-z0-9.]+", "-", " ".join(self.words).lower()).strip("-")
        return f"{slug}-{digest(self.as_dict())[:8]}"


@dataclass(frozen=True)
class Experiment:
    """One verb of `solid bench`. The parameters of `cells` are its options: Annotated[type, "help"] = default."""

    name: str
    about: str  # the help of the verb
    cells: Callable[..., list[Any]]  # of Cell
    tables: Callable[[Sequence[Result]], list[Table]] | None = None  # of stored results, for a terminal and a page
    verdict: Callable[[Sequence[Result]], list[str]] | None = None  # sentences for the terminal
    figure: Callable[[Sequence[Result]], Any] | None = None  # a Figure, shown on a page below the tables
    scene: Callable[[Sequence[Result]], Any] | None = None  # a Figure or None, drawn into the file of --figure
    reads: bool = False  # does it need --data?
    work: str = "bench"  # default folder of Place.work
    jobs: int = 1
