"""The verdict in plain words, from the table of scores and nothing else.

Worth it: the paired difference in CRPS to the best rival lies beyond its 95 % interval, on either side, or within it.
Honest: 90 % intervals hold 85-95 % of the held-out readings; a region, distance or hour is named where it holds less or
more and 90 % lies outside its error bar; and values above the 95 % quantile of the training readings are forecast as
often as they are observed, within the error bar of the difference. Where not to trust: what no reading taught and what
no reading judged.

The map between the sensors has a verdict of its own, from places whose readings were kept away as every other cell's
are: held-out sensors and blocks, else places set aside, else sensors left out in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..scores.estimate import Estimate
from ..scores.registry import TAIL
from ..scores.table import Lead, Score, ScoreTable
from .calls import (
    DAYS,
    HIGHEST,
    LOWEST,
    MAP,
    Call,
    between,
    call_of,
    honesty,
    hour_of,
    judged,
    reach,
    rolled_variables,
    where_of,
)
from .cautions import caution, few_days, told_once, untaught
from .words import REGIONS, amount, distinct, hours_label, listed, percent, runs

NOMINAL = 0.9
CLEAR = 3.0  # standard errors: of two dozen hours and a few distances one or two are beyond two of them by chance
LUCK = 0.05  # chance below which what all days agree on is no accident
SPREAD = (0.85, 1.15)  # of the ensemble over the error of its mean


@dataclass(frozen=True)
class Verdict:
    headline: str
    map: str  # the same of the map between the sensors
    worth: list[str]
    honest: list[str]
    caution: list[str]
    calls: list[Call]

    def to_json(self) -> dict[str, object]:
        words = {name: getattr(self, name) for name in ("headline", "map", "worth", "honest", "caution")}
        return words | {"calls": [call.to_json() for call in self.calls]}


def verdict(table: ScoreTable) -> Verdict:
    """A headline, then sentences; and the calls they rest on."""
    calls: list[Call] = []
    of_map: list[Call] = []
    worth: list[str] = []
    honest: list[str] = []
    doubts: list[tuple[str, str]] = []  # where, and what
    for lead in (lead for lead in table.leads if not lead.rolled):
        for variable in table.variables:
            call = call_of(table, lead, variable)
            if call is None:
                doubts.append((where_of(table, lead, variable), "no reading was held out, nothing is known."))
                continue
            calls.append(call)
            unread = between(table, lead, variable)
            of_map += unread
            worth += _worth(table, lead, call)
            honest += [_honest(table, lead, call), *_mean(table, lead, call)]
            apart = [there for there in unread if there.own.region != call.own.region]
            honest += [sentence for each in (call, *apart) for sentence in _tail(table, lead, each)]
            where = where_of(table, lead, variable)
            doubts += [(where, what) for what in caution(table, lead, variable)]
    last = [lead for lead in table.leads if lead.rolled][-1:]
    for lead in last:
        for variable in rolled_variables(table):
            call = call_of(table, lead, variable)
            assert call is not None
            worth += _worth(table, lead, call)
            honest.append(_honest(table, lead, call))
    trust_less = [*few_days(table, calls), *untaught(table), *told_once(doubts)]
    return Verdict(_headline(calls, of_map), _map_line(of_map), worth, honest, trust_less, calls)


def _map_line(of_map: Sequence[Call]) -> str:
    if not of_map:
        return "The map between the sensors was not judged: hold sensors out (--hold-sensors 0.1) to know."
    where = REGIONS[of_map[0].own.region]
    honest = _intervals({call.intervals for call in of_map})
    return f"The map between the sensors, judged at {where}: {_details(of_map)}. {honest}"


def _headline(calls: Sequence[Call], of_map: Sequence[Call] = ()) -> str:
    known, unread = ({call.result for call in kind} for kind in (calls, of_map))
    gains = ["better" in found and "worse" not in found for found in (known, unread)]
    if gains[0] and "worse" in unread and "better" not in unread:
        worth = "Worth it at known places, not for the map between them"
    elif gains[1] and "better" not in known:
        worth = f"Worth it for the map between known places, not {'' if 'worse' in known else 'shown '}at them"
    elif known == {"better"} and "worse" not in unread:
        worth = "Worth it here"
    elif "better" in known | unread:
        worth = "Worth it in part"
    elif "worse" in known:
        worth = "Not worth it here"
    elif "same" in known:
        worth = "Not shown to be worth it here"
    else:
        worth = "Whether it is worth it cannot be said"
    intervals = _intervals({call.intervals for call in calls})
    return f"{worth}: {_details(calls) or 'nothing was held out'}. {intervals}"


def _details(calls: Sequence[Call]) -> str:
    said: dict[str, list[str]] = {}
    for call in calls:
        said.setdefault(_in_short(call), []).append(call.where)
    return "; ".join(f"{words} {listed(where)}" if len(said) > 1 else words for words, where in said.items())


def _in_short(call: Call) -> str:
    best = call.best.model if call.best else ""
    return {
        "better": "better than every rival",
        "worse": f"{best} is better",
        "same": f"no clear difference from {best}",
        "unknown": "too few readings for an error bar",
        "alone": "no rival was drawn",
    }[call.result]


def _intervals(kinds: set[str]) -> str:
    judged = kinds - {"unmeasured"}
    if not judged:
        return "Its intervals could not be judged."
    words = {"narrow": "too narrow", "wide": "too wide", "honest": "honest"}
    if len(judged) == 1:
        part = "" if judged == kinds else " where they could be judged"
        return f"Its 90 % intervals are {words[judged.pop()]}{part}."
    said = [f"{word} in part" for kind, word in words.items() if kind in judged and kind != "honest"]
    return f"Its 90 % intervals are {' and '.join(said)}."


def _worth(table: ScoreTable, lead: Lead, call: Call) -> list[str]:
    where = where_of(table, lead, call.variable)
    sentences = [f"{where}: {_comparison(table, call)}"]
    unread = [there for region in MAP if (there := call_of(table, lead, call.variable, region)) is not None]
    strict = [there for there in unread if there.own.region in MAP[:2]]
    for there in strict or unread[:1]:
        sentences.append(f"{where}, at {REGIONS[there.own.region]}: {_comparison(table, there)}")
    return sentences


def _comparison(table: ScoreTable, call: Call) -> str:
    units, own, crps = table.variables[call.variable], call.own.model, call.own["crps"].mean
    if call.best is None or call.gap is None:
        return f"{own} has a CRPS of {amount(crps, units)}; no rival was drawn to compare it with."
    best, other, gap = call.best.model, call.best["crps"].mean, call.gap.difference
    share = "" if other == 0 else f", {percent(abs(1 - crps / other))} {'below' if crps < other else 'above'}"
    if call.result == "unknown":
        return (
            f"{own} has a CRPS of {amount(crps, units)}, the best rival, {best}, {amount(other, units)}; all readings "
            f"are of a single {table.about['group']}, so no error bar can be given and nothing is shown."
        )
    interval = f"{gap.mean:+.2g} ({gap.low:+.2g} to {gap.high:+.2g})"
    if call.result == "better":
        return (
            f"{own} has a CRPS of {amount(crps, units)}{share} the best rival, {best} ({amount(other, units)}). The "
            f"difference, {interval}, is beyond its error bar."
        )
    if call.result == "worse":
        return (
            f"{best} wins. {own} has a CRPS of {amount(crps, units)}{share} that of {best} ({amount(other, units)}); "
            f"the difference, {interval}, is beyond its error bar. Use {best} here."
        )
    return (
        f"{own} has a CRPS of {amount(crps, units)}, the best rival, {best}, {amount(other, units)}. The difference, "
        f"{interval}, is within its error bar: these readings do not show that either is better."
    )


def _honest(table: ScoreTable, lead: Lead, call: Call) -> str:
    where, coverage = where_of(table, lead, call.variable), call.own["coverage_90"]
    if coverage is None:
        return f"{where}: {call.own.members} member(s) span no 90 % interval; draw 19 or more to judge them."
    words = {
        "honest": "honest",
        "narrow": "too narrow, the model is surer than it should be",
        "wide": "too wide, the model is less sure than it could be",
    }[call.intervals]
    if call.intervals != "honest" and coverage.has_bar and coverage.low <= NOMINAL <= coverage.high:
        words += f", unless by chance: the error bar holds {percent(NOMINAL)}"
    bar = f" ({percent(coverage.low, 1)} to {percent(coverage.high, 1)})" if coverage.has_bar else ""
    outside = outliers(table, lead, call)
    limits = f"{100 * LOWEST:.0f} to {percent(HIGHEST)}"
    rest = (
        f"Clearly outside {limits}: {'; '.join(outside)}."
        if outside
        else f"No other region, distance or hour that could be judged is clearly outside {limits}."
    )
    overall = "on the whole " if outside else ""
    return (
        f"{where}: the 90 % intervals hold {percent(coverage.mean, 1)} of the readings{bar}: {overall}{words}. {rest}"
    )


def _mean(table: ScoreTable, lead: Lead, call: Call) -> list[str]:
    """What the map of means and of spread is worth, where that is not what the CRPS says."""
    where, own, best, said = where_of(table, lead, call.variable), call.own, call.best, []
    units = table.variables[call.variable]
    ours, theirs = own.metrics.get("rmse"), None if best is None else best.metrics.get("rmse")
    if isinstance(ours, Estimate) and isinstance(theirs, Estimate) and best is not None and theirs.mean < ours.low:
        said.append(
            f"{where}: the mean of {best.model} is closer to the readings (RMSE {amount(theirs.mean, units)}) "
            f"than this run's ({amount(ours.mean, units)})."
        )
    ratio = own.metrics.get("spread_skill")
    if isinstance(ratio, Estimate) and not SPREAD[0] <= ratio.mean <= SPREAD[1]:
        said.append(
            f"{where}: go by the intervals, not by the standard deviation, which is {ratio.mean:.2f} times the error "
            "of the mean."
            if call.intervals == "honest"
            else f"{where}: the standard deviation of the members is {ratio.mean:.2f} times the error of their mean."
        )
    return said


def _tail(table: ScoreTable, lead: Lead, call: Call) -> list[str]:
    """Chances of high values, where they are off by more than their error bar."""
    own = call.own
    said, seen, excess = (own.metrics.get(f"tail_{name}") for name in ("forecast", "observed", "excess"))
    if not (isinstance(said, Estimate) and isinstance(seen, Estimate) and isinstance(excess, Estimate)):
        return []
    if not excess.has_bar or excess.low <= 0 <= excess.high or own.groups < DAYS or own.tail is None:
        return []
    if seen.mean == 0 and (1 - said.mean) ** own.groups > LUCK:  # resampling what never happened gives too short a bar
        return []
    words = "too often" if excess.mean > 0 else "too rarely"
    where, high = where_of(table, lead, call.variable), amount(own.tail, table.variables[call.variable])
    return [
        f"{where}, {REGIONS[own.region]}: values above {high}, the {percent(TAIL)} quantile of the training readings, "
        f"are forecast {words}: with a chance of {percent(said.mean, 1)} on average, and {percent(seen.mean, 1)} were "
        f"above. The difference, {100 * excess.low:+.1f} to {100 * excess.high:+.1f} points, is beyond its error bar."
    ]


def outliers(table: ScoreTable, lead: Lead, call: Call) -> list[str]:
    """Regions, distances and hours whose coverage is clearly not 90 %, beside the region that the call is about."""
    at: dict[str, Any] = {"model": call.own.model, "variable": call.variable, "lead": lead.lead, "rolled": lead.rolled}
    words = [
        f"{REGIONS[score.region]} ({percent(score['coverage_90'].mean)})"
        for score in distinct([call.own, *table.select(**at)])[1:]
        if score.region != "all" and _clearly_off(score)
    ]
    distances, hours = (table.select(**at, bins=kind) for kind in ("distance", "hour"))
    for kind in ("narrow", "wide"):
        off = [place for place, score in enumerate(distances) if _clearly_off(score) == kind]
        words += [f"{reach(table, distances, *span)} (too {kind})" for span in runs(off)]
        off = [hour_of(score) for score in hours if _clearly_off(score) == kind]
        if off:
            words.append(f"{hours_label(off)} (too {kind})")
    return words


def _clearly_off(score: Score) -> str:
    """narrow, wide, or nothing where the intervals may be honest or readings are few."""
    coverage = score["coverage_90"]
    if coverage is None or not judged(score) or honesty(coverage.mean) == "honest":
        return ""
    if coverage.mean == 1 and NOMINAL**score.groups > LUCK:  # resampling what is all inside gives a bar of no width
        return ""
    return honesty(coverage.mean) if abs(coverage.mean - NOMINAL) > CLEAR * coverage.error else ""
