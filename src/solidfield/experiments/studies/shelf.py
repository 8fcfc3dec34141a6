"""Stored cells, looked up for tables, figures and sentences; what is not stored is None and is shown as missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...disk import Damaged, read_json
from ...scores.estimate import bootstrap
from ...worlds.scenarios import Scenario
from ..cell import Cell, Result
from ..text import MISSING, markdown, named
from ..text import with_error as estimated
from .catalog import make, random
from .scale import Scale


class Gap(NamedTuple):
    """How much lower the CRPS of one cell is than another's, scene by scene."""

    mean: float
    error: float

    @property
    def clear(self) -> bool:
        """Beyond two standard errors."""
        return abs(self.mean) > 2 * self.error


@dataclass(frozen=True)
class Shelf:
    scale: Scale
    folder: Path  # of all results

    @cached_property
    def stored(self) -> dict[str, Result]:  # by key
        found = {}
        for path in sorted((self.folder / "studies" / self.scale.name).glob("*.json")):
            try:
                found[path.stem] = read_json(path)
            except Damaged:
                continue  # it is missing until it is run again
        return found

    def get(self, cell: Cell) -> Result | None:
        return self.stored.get(cell.key)

    def at(self, label: str, density: float = 0.10, **fields: Any) -> Result | None:
        """The cell of a model at a density of random sensors that differ from example to example."""
        return self.get(make(self.scale, label, random(density), **{"short": density != 0.10, **fields}))

    def under(self, label: str, scenario: Scenario) -> Result | None:
        """The cell of a model with sensors of any pattern, of the short budget."""
        return self.get(make(self.scale, label, scenario, short=True))


def crps(result: Result | None, region: str = "off") -> float | None:
    """In standard deviations of the field."""
    if result is None or "scores" not in result or region not in result["scores"]["regions"]:
        return None
    return result["scores"]["regions"][region]["crps"]["mean"]


def score(result: Result | None, name: str, region: str = "off") -> Any:
    """Any other score of a region; None where it cannot be had."""
    if result is None or "scores" not in result:
        return None
    return result["scores"]["regions"].get(region, {}).get(name)


def coverage(result: Result | None, level: str = "0.9", region: str = "off") -> float | None:
    found = score(result, "coverage", region)
    return None if not found or not found.get(level) else found[level]["mean"]


def gap(lower: Result, higher: Result, region: str = "off") -> Gap:
    """The mean of higher - lower over the same scenes, with its standard error."""
    a, b = (np.array(score(result, "crps_per_scene", region), dtype=float) for result in (lower, higher))
    estimate = bootstrap(b - a)
    return Gap(estimate.mean, estimate.error)


def ranked(found: dict[str, Result | None]) -> list[tuple[str, float]]:
    """Labels and CRPS from the lowest on, of those that are stored."""
    values = {label: crps(result) for label, result in found.items()}
    return sorted(((label, value) for label, value in values.items() if value is not None), key=lambda row: row[1])


def table_of(found: Mapping[str, Result | None], columns: Mapping[str, Callable[[Result], str]]) -> str:
    """A row for each label; a column is a title and what it shows of a result."""
    rows = [
        (named(label), *(MISSING if result is None else show(result) for show in columns.values()))
        for label, result in found.items()
    ]
    return markdown(("model", *columns), rows)


def with_error(result: Result | None, region: str = "off", missing: str = MISSING) -> str:
    """The CRPS of a region and its standard error."""
    return estimated(score(result, "crps", region), missing)
