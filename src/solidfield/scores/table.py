"""One table of scores, whatever they were judged by: typed rows that write and read JSON.

A `Score` is one model at one lead in one region (or one bin of distance or hour) for one variable, with every metric of
the registry. A `Comparison` pairs the first model with a rival on the same readings. A `Lead` says how far ahead, and
what was judged there. A lead is a number of steps ahead everywhere; `rolled` tells scores that were reached step by
step from those of a single step. Values are in the units of the field; `score.scaled` has standard deviations of it.

    table.one(model="solid", lead=1, region="all")["crps"].mean
    table.select(lead=1, bins="distance")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..disk import plain
from ..errors import SolidError
from .bins import Bin
from .estimate import Estimate
from .registry import METRICS, Value


@dataclass(frozen=True)
class Score:
    model: str
    variable: str
    lead: int  # steps ahead
    region: str
    members: int
    cells: int  # judged cells: readings, or cells of the truth
    cases: int  # scenes or readings, each of which counts once
    groups: int  # days or trajectories that error bars resample
    std: float  # of the field
    metrics: Mapping[str, Value | None]
    tail: float | None = None  # where the upper tail of the readings begins, if their metrics were measured
    bin: Bin | None = None  # None: the whole region
    rolled: bool = False

    def __getitem__(self, name: str) -> Any:
        """A metric: an Estimate, a tuple of numbers, or None where it cannot be measured."""
        if name not in self.metrics:
            raise SolidError(f"no metric '{name}' in this table; it has {', '.join(self.metrics)}")
        return self.metrics[name]

    def scaled(self, name: str) -> Any:
        """The same in standard deviations of the field."""
        value, unit = self[name], self.std ** METRICS[name].power
        if value is None:
            return None
        return value.over(unit) if isinstance(value, Estimate) else tuple(number / unit for number in value)


@dataclass(frozen=True)
class Comparison:
    """The CRPS of a model minus a rival's on the same cells; below zero the model is better."""

    model: str
    rival: str
    variable: str
    lead: int
    region: str
    cells: int
    difference: Estimate
    saved: Estimate | None  # share of the rival's CRPS; None if that is zero
    bin: Bin | None = None
    rolled: bool = False


@dataclass(frozen=True)
class Lead:
    """How far ahead, and what was judged there."""

    lead: int  # steps
    time: float  # seconds, or the simulation's own unit
    ahead: str  # the same in words
    scenes: int
    scenes_in_all: int
    groups: int
    main: str  # the region that decides
    rolled: bool = False
    beyond: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # farthest judged; share of the map farther


Row = TypeVar("Row", Score, Comparison)


@dataclass(frozen=True)
class ScoreTable:
    """All scores of an evaluation; `about` is plain JSON that says where they come from."""

    variables: Mapping[str, str]  # name -> unit
    leads: tuple[Lead, ...]
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def join(cls, tables: Sequence[ScoreTable], about: Mapping[str, Any] | None = None) -> ScoreTable:
        """One table of several of the same variables, and more to say about them."""
        return cls(
            tables[0].variables,
            tuple(lead for table in tables for lead in table.leads),
            tuple(score for table in tables for score in table.scores),
            tuple(comparison for table in tables for comparison in table.comparisons),
            {**tables[0].about, **(about or {})},
        )

    def select(
        self,
        *,
        model: str | None = None,
        variable: str | None = None,
        lead: int | None = None,
        region: str | None = None,
        rolled: bool | None = False,
        bins: str | None = None,
    ) -> list[Score]:
        """The scores that fit; None fits everything, but without `bins` (distance, hour) only whole regions do."""
        return _fitting(self.scores, bins, model=model, variable=variable, lead=lead, region=region, rolled=rolled)

    def one(self, **wanted: Any) -> Score:
        """The only score that fits."""
        found = self.get(**wanted)
        if found is None:
            raise SolidError(f"the table has no score with {_words(wanted)}")
        return found

    def get(self, **wanted: Any) -> Score | None:
        """The only score that fits, or None."""
        found = self.select(**wanted)
        if len(found) > 1:
            raise SolidError(f"{len(found)} scores have {_words(wanted)}; say more of the one that is meant")
        return found[0] if found else None

    def compared(
        self,
        *,
        rival: str | None = None,
        variable: str | None = None,
        lead: int | None = None,
        region: str | None = None,
        rolled: bool | None = False,
        bins: str | None = None,
    ) -> list[Comparison]:
        """The comparisons that fit, as in `select`."""
        wanted = {"rival": rival, "variable": variable, "lead": lead, "region": region, "rolled": rolled}
        return _fitting(self.comparisons, bins, **wanted)

    def models(self, lead: int, rolled: bool = False) -> list[str]:
        """Those that were judged at a lead, in their order."""
        return list(dict.fromkeys(score.model for score in self.select(lead=lead, rolled=rolled)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; what is not finite becomes null."""
        return {
            "variables": dict(self.variables),
            "leads": plain(self.leads),
            "scores": plain(self.scores),
            "comparisons": plain(self.comparisons),
            "about": plain(self.about),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ScoreTable:
        """The table that `to_json` wrote."""
        try:
            return cls(
                document["variables"],
                tuple(Lead(**{**row, "beyond": _pairs(row["beyond"])}) for row in document["leads"]),
                tuple(Score(**_typed(row)) for row in document["scores"]),
                tuple(Comparison(**_typed(row)) for row in document["comparisons"]),
                document["about"],
            )
        except (KeyError, TypeError) as error:
            raise SolidError(f"this is no table of scores ({error}); evaluate again to write one") from None


def _fitting(rows: Sequence[Row], bins: str | None, **wanted: Any) -> list[Row]:
    return [
        row
        for row in rows
        if (row.bin.kind if row.bin else None) == bins
        and all(value is None or getattr(row, name) == value for name, value in wanted.items())
    ]


def _words(wanted: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in wanted.items())


def _pairs(found: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    return {name: (low, high) for name, (low, high) in found.items()}


def _typed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of JSON with its estimates and its bin as records."""
    typed = {name: _value(value) if name in ("difference", "saved") else value for name, value in row.items()}
    if "metrics" in row:
        typed["metrics"] = {name: _value(value) for name, value in row["metrics"].items()}
    return typed | {"bin": None if row["bin"] is None else Bin(**row["bin"])}


def _value(found: Any) -> Value | None:
    if isinstance(found, Mapping):
        return Estimate(**{name: _number(value) for name, value in found.items()})
    return None if found is None else tuple(_number(value) for value in found)


def _number(value: float | None) -> float:
    return np.nan if value is None else value
