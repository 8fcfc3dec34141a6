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
from ..scores.table import Comparison, Lead, Score, ScoreTable
from .words import REGIONS, amount, distance_label, distinct, hours_label, listed, percent, runs

NOMINAL, LOWEST, HIGHEST = 0.9, 0.85, 0.95
LUCK = 0.05  # chance below which what all days agree on is no accident
FEW = 30  # readings below which a bin is not judged
DAYS = 5  # of which fewer give an error bar that is too short
MAP = ("held_sensors", "held_blocks", "set_aside", "left_out")  # places without a sensor, the strictest first
SPREAD = (0.85, 1.15)  # of the ensemble over the error of its mean


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
    between: list[Call] = []
    worth: list[str] = []
    honest: list[str] = []
    doubts: list[tuple[str, str]] = []  # where, and what
    for lead in (lead for lead in table.leads if not lead.rolled):
        for variable in table.variables:
            call = call_of(table, lead, variable)
            if call is None:
                doubts.append((_where(table, lead, variable), "no reading was held out, nothing is known."))
                continue
            calls.append(call)
            unread = _between(table, lead, variable)
            between += unread
            worth += _worth(table, lead, call)
            honest += [_honest(table, lead, call), *_mean(table, lead, call)]
            apart = [there for there in unread if there.own.region != call.own.region]
            honest += [sentence for each in (call, *apart) for sentence in _tail(table, lead, each)]
            where = _where(table, lead, variable)
            doubts += [(where, what) for what in _caution(table, lead, variable)]
    last = [lead for lead in table.leads if lead.rolled][-1:]
    for lead in last:
        for variable in rolled_variables(table):
            call = call_of(table, lead, variable)
            assert call is not None
            worth += _worth(table, lead, call)
            honest.append(_honest(table, lead, call))
    caution = [*_few_days(table, calls), *_untaught(table), *told_once(doubts)]
    return Verdict(_headline(calls, between), _map_line(between), worth, honest, caution, calls)


def told_once(doubts: Sequence[tuple[str, str]]) -> list[str]:
    """Each doubt with all the places it is of, in the order in which it came up first.

    >>> told_once([("Now", "few readings."), ("Now", "too far."), ("1 h ahead", "few readings.")])
    ['Now; 1 h ahead: few readings.', 'Now: too far.']
    """
    places: dict[str, list[str]] = {}
    for where, what in doubts:
        places.setdefault(what, []).append(where)
    return [f"{'; '.join(where)}: {what}" for what, where in places.items()]


def _few_days(table: ScoreTable, calls: Sequence[Call]) -> list[str]:
    """Resampling a handful of days hardly tells how they differ from others."""
    fewest, group = min((call.own.groups for call in calls), default=DAYS), table.about["group"]
    if not 1 < fewest < DAYS:
        return []
    return [
        f"All was judged on {fewest} {group}s only: error bars of fewer than {DAYS} are too short, and show little."
    ]


def _between(table: ScoreTable, lead: Lead, variable: str) -> list[Call]:
    """Who wins at places without a sensor, by the strictest evidence there is."""
    found = (call_of(table, lead, variable, region) for region in MAP)
    return [call for call in found if call is not None][:1]


def _map_line(between: Sequence[Call]) -> str:
    if not between:
        return "The map between the sensors was not judged: hold sensors out (--hold-sensors 0.1) to know."
    where = REGIONS[between[0].own.region]
    honest = _intervals({call.intervals for call in between})
    return f"The map between the sensors, judged at {where}: {_details(between)}. {honest}"


def rolled_variables(table: ScoreTable) -> list[str]:
    """Those with readings at every step of the rollouts."""
    rolled = [lead for lead in table.leads if lead.rolled]
    return [
        name
        for name in (table.variables if rolled else ())
        if all(table.select(variable=name, lead=lead.lead, region="all", rolled=True) for lead in rolled)
    ]


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


def side(difference: Estimate) -> str:
    """better, worse, same, or unknown without an error bar."""
    if not difference.has_bar:
        return "unknown"
    return "better" if difference.high < 0 else "worse" if difference.low > 0 else "same"


def honesty(coverage: float) -> str:
    return "narrow" if coverage < LOWEST else "wide" if coverage > HIGHEST else "honest"


def _headline(calls: Sequence[Call], between: Sequence[Call] = ()) -> str:
    known, unread = ({call.result for call in kind} for kind in (calls, between))
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
    where = _where(table, lead, call.variable)
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
    where, coverage = _where(table, lead, call.variable), call.own["coverage_90"]
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
    where, own, best, said = _where(table, lead, call.variable), call.own, call.best, []
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
    where, high = _where(table, lead, call.variable), amount(own.tail, table.variables[call.variable])
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
        words += [f"{_reach(table, distances, *span)} (too {kind})" for span in runs(off)]
        off = [_hour(score) for score in hours if _clearly_off(score) == kind]
        if off:
            words.append(f"{hours_label(off)} (too {kind})")
    return words


def _clearly_off(score: Score) -> str:
    """narrow, wide, or nothing where the intervals may be honest or readings are few."""
    coverage = score["coverage_90"]
    if coverage is None or score.cells < FEW or honesty(coverage.mean) == "honest":
        return ""
    if coverage.mean == 1 and NOMINAL**score.groups > LUCK:  # resampling what is all inside gives a bar of no width
        return ""
    return "" if coverage.has_bar and coverage.low <= NOMINAL <= coverage.high else honesty(coverage.mean)


def _reach(table: ScoreTable, bins: Sequence[Score], first: int, last: int) -> str:
    """Bins of distance from the first to the last, in words."""
    low, high = bins[first].bin, bins[last].bin
    assert low is not None
    assert high is not None
    return distance_label(low.low, high.high, table.about["distance_units"])


def _hour(score: Score) -> int:
    assert score.bin is not None
    return int(score.bin.low)


def _untaught(table: ScoreTable) -> list[str]:
    sentences, about = [], table.about["map"]
    if not table.about["run"]["trained_on_this_store"]:
        sentences.append("The run was trained on other pairs than these: whether it has seen them is not known.")
    for variable, count in about["never_supervised"].items():
        if count:
            known = [REGIONS[region] for region in MAP if table.select(variable=variable, region=region)]
            evidence = (
                f"{listed(known)} are the only evidence for it" if known else "no place was held out to tell how well"
            )
            sentences.append(
                f"{variable}: no training target ever lay at {count} of {about['cells']} cells "
                f"({percent(count / about['cells'])}); the map there is carried over from elsewhere, and {evidence}."
            )
    return sentences


def _caution(table: ScoreTable, lead: Lead, variable: str) -> list[str]:
    unit = table.about["distance_units"]
    at: dict[str, Any] = {"variable": variable, "lead": lead.lead, "rolled": lead.rolled}
    sentences = []
    limit, share = lead.beyond.get(variable, (0.0, 0.0))
    if share > 0:
        sentences.append(
            f"no reading farther than {limit:.3g} {unit} from a sensor was held out; "
            f"{percent(share)} of the map lies farther and is not judged."
        )
    own, *rivals = table.models(lead.lead, lead.rolled)
    hours = table.select(model=own, bins="hour", **at)
    few = [_hour(score) for score in hours if score.cells < FEW]
    if few and len(few) == len(hours):
        sentences.append(f"no hour of the day has {FEW} held-out readings, so none is judged by itself.")
    elif few:
        sentences.append(f"fewer than {FEW} readings were held out at {hours_label(few)}; trust those less.")
    bins = table.select(model=own, bins="distance", **at)
    for rival in rivals:
        gaps = {gap.bin: gap for gap in table.compared(rival=rival, bins="distance", **at)}
        lost = [
            place
            for place, score in enumerate(bins)
            if score.cells >= FEW and score.bin in gaps and side(gaps[score.bin].difference) == "worse"
        ]
        sentences += [f"{rival} is better {_reach(table, bins, *span)}." for span in runs(lost)]
    return sentences


def _where(table: ScoreTable, lead: Lead, variable: str) -> str:
    ahead = lead.ahead[:1].upper() + lead.ahead[1:]
    return ahead if len(table.variables) == 1 else f"{variable}, {lead.ahead}"
