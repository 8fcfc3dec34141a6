"""Who wins at a lead, for a variable, in a region, and how honest the intervals are: what the verdict rests on.

Worth it: the paired difference in CRPS to the best rival lies beyond its 95 % interval, on either side, or within it.
Honest: 90 % intervals hold 85-95 % of the held-out readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..scores.estimate import Estimate
from ..scores.table import Comparison, Lead, Score, ScoreTable
from .words import distance_label

LOWEST, HIGHEST = 0.85, 0.95
FEW = 30  # readings below which a bin is not judged
DAYS = 5  # of which fewer give an error bar that is too short
MAP = ("held_sensors", "held_blocks", "set_aside", "left_out")  # places without a sensor, the strictest first


@dataclass(frozen=True)
class Call:
    """Who wins in a region, and how honest the intervals are."""

    lead: int
    variable: str
    where: str  # the lead in words, and the variable where there are several
    own: Score
    best: Score | None  # of the rivals
    gap: Comparison | None  # to the best rival
    result: str  # better, worse, same, unknown (no error bar) or alone (no rival)
    intervals: str  # honest, narrow, wide or unmeasured

    def to_json(self) -> dict[str, object]:
        names = ("lead", "variable", "where", "result", "intervals")
        about = {name: getattr(self, name) for name in names}
        return about | {"own": self.own.model, "best_rival": self.best.model if self.best else None}


def call_of(table: ScoreTable, lead: Lead, variable: str, region: str | None = None) -> Call | None:
    """Who wins in the region that decides, or in another; None where no reading of the variable was held out."""
    region = region or main_region(table, lead, variable)
    at: dict[str, Any] = {"variable": variable, "lead": lead.lead, "region": region, "rolled": lead.rolled}
    found = table.select(**at)
    if not found:
        return None
    own, *rivals = found
    best = min(rivals, key=lambda score: score["crps"].mean, default=None)
    gap = None if best is None else table.compared(rival=best.model, **at)[0]
    coverage = own["coverage_90"]
    return Call(
        lead=lead.lead,
        variable=variable,
        where=lead.ahead if len(table.variables) == 1 else f"for {variable} {lead.ahead}",
        own=own,
        best=best,
        gap=gap,
        result="alone" if gap is None else side(gap.difference),
        intervals="unmeasured" if coverage is None else honesty(coverage.mean),
    )


def main_region(table: ScoreTable, lead: Lead, variable: str) -> str:
    """The region that decides at this lead; all readings where it has none of this variable."""
    return lead.main if table.select(variable=variable, lead=lead.lead, region=lead.main, rolled=lead.rolled) else "all"


def between(table: ScoreTable, lead: Lead, variable: str) -> list[Call]:
    """Who wins at places without a sensor, by the strictest evidence there is."""
    found = (call_of(table, lead, variable, region) for region in MAP)
    return [call for call in found if call is not None][:1]


def rolled_variables(table: ScoreTable) -> list[str]:
    """Those with readings at every step of the rollouts."""
    rolled = [lead for lead in table.leads if lead.rolled]
    return [
        name
        for name in (table.variables if rolled else ())
        if all(table.select(variable=name, lead=lead.lead, region="all", rolled=True) for lead in rolled)
    ]


def side(difference: Estimate) -> str:
    """better, worse, same, or unknown without an error bar."""
    if not difference.has_bar:
        return "unknown"
    return "better" if difference.high < 0 else "worse" if difference.low > 0 else "same"


def judged(score: Score) -> bool:
    """Are there readings enough to judge a bin or a region by itself, and of days enough?"""
    return score.cells >= FEW and score.groups >= DAYS


def honesty(coverage: float) -> str:
    return "narrow" if coverage < LOWEST else "wide" if coverage > HIGHEST else "honest"


def where_of(table: ScoreTable, lead: Lead, variable: str) -> str:
    ahead = lead.ahead[:1].upper() + lead.ahead[1:]
    return ahead if len(table.variables) == 1 else f"{variable}, {lead.ahead}"


def reach(table: ScoreTable, bins: Sequence[Score], first: int, last: int) -> str:
    """Bins of distance from the first to the last, in words."""
    low, high = bins[first].bin, bins[last].bin
    assert low is not None
    assert high is not None
    return distance_label(low.low, high.high, table.about["distance_units"])


def hour_of(score: Score) -> int:
    assert score.bin is not None
    return int(score.bin.low)
