"""The verdict in plain words, from the numbers of `scores.json` and nothing else.

Worth it: the paired difference in CRPS to the best rival lies beyond its 95 % interval, on either side, or within it.
Honest: 90 % intervals hold 85-95 % of the held-out readings; a region, distance or hour is named where it holds less or
more and 90 % lies outside its error bar. Where not to trust: what no reading taught and what no reading judged.
"""

from __future__ import annotations

from typing import Any

from .words import REGIONS, amount, distance_label, hours_label, percent, runs

NOMINAL, LOWEST, HIGHEST = 0.9, 0.85, 0.95
FEW = 30  # readings below which a bin is not judged

Results = dict[str, Any]


def verdict(results: Results) -> dict[str, Any]:
    """`headline`, then sentences: `worth`, `honest`, `caution`; and `calls`, the same for machines."""
    calls, worth, honest, caution = [], [], [], _untaught(results)
    for at_lead in results["leads"]:
        for variable in results["variables"]:
            own = next(iter(at_lead["models"]))
            if variable not in at_lead["models"][own]["variables"]:
                caution.append(f"{_where(results, at_lead, variable)}: no reading was held out, nothing is known.")
                continue
            call = call_of(at_lead, variable)
            where = at_lead["ahead"] if len(results["variables"]) == 1 else f"for {variable} {at_lead['ahead']}"
            calls.append(call | {"lead": at_lead["lead"], "variable": variable, "where": where})
            worth += _worth(results, at_lead, variable, call)
            honest += _honest(results, at_lead, variable, call)
            caution += _caution(results, at_lead, variable)
    for variable in results["rolled"]["variables"] if "rolled" in results else ():
        at_end = results["rolled"]["steps"][-1]
        call = call_of(at_end, variable)
        worth += _worth(results, at_end, variable, call)
        honest += _honest(results, at_end, variable, call)
    return {
        "headline": _headline(calls),
        "worth": worth,
        "honest": honest,
        "caution": caution,
        "calls": calls,
    }


def call_of(at_lead: dict[str, Any], variable: str, region: str | None = None) -> dict[str, Any]:
    """Who wins where it counts, and how honest the intervals are."""
    region = region or main_region(at_lead, variable)
    crps = {
        name: model["variables"][variable]["regions"][region]["crps"]["mean"]
        for name, model in at_lead["models"].items()
    }
    own, *rivals = crps
    best = min(rivals, key=lambda name: crps[name], default=None)
    compared = None if best is None else at_lead["comparisons"][best][variable]["regions"][region]
    coverage = at_lead["models"][own]["variables"][variable]["regions"][region]["coverage"][str(NOMINAL)]
    return {
        "own": own,
        "best_rival": best,
        "result": "alone" if compared is None else side(compared["difference"]),
        "intervals": "unmeasured" if coverage is None else honesty(coverage["mean"]),
    }


def main_region(at_lead: dict[str, Any], variable: str) -> str:
    """The region that decides at this lead; all readings where it has none of this variable."""
    own = next(iter(at_lead["models"].values()))
    return at_lead["main"] if at_lead["main"] in own["variables"][variable]["regions"] else "all"


def side(difference: dict[str, float | None]) -> str:
    """better, worse, same, or unknown without an error bar."""
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return "unknown"
    return "better" if high < 0 else "worse" if low > 0 else "same"


def honesty(coverage: float) -> str:
    return "narrow" if coverage < LOWEST else "wide" if coverage > HIGHEST else "honest"


def _headline(calls: list[dict[str, Any]]) -> str:
    said: dict[str, list[str]] = {}
    for call in calls:
        said.setdefault(_in_short(call), []).append(call["where"])
    found = {call["result"] for call in calls}
    if found == {"better"}:
        worth = "Worth it here"
    elif "better" in found:
        worth = "Worth it in part"
    elif "worse" in found:
        worth = "Not worth it here"
    elif "same" in found:
        worth = "Not shown to be worth it here"
    else:
        worth = "Whether it is worth it cannot be said"
    details = [f"{words} {' and '.join(where)}" if len(said) > 1 else words for words, where in said.items()]
    return f"{worth}: {'; '.join(details)}. {_intervals({call['intervals'] for call in calls})}"


def _in_short(call: dict[str, Any]) -> str:
    return {
        "better": "better than every rival",
        "worse": f"{call['best_rival']} is better",
        "same": f"no clear difference from {call['best_rival']}",
        "unknown": "too few readings for an error bar",
        "alone": "no rival was drawn",
    }[call["result"]]


def _intervals(kinds: set[str]) -> str:
    part = "" if len(kinds) == 1 else " in part"
    if kinds == {"honest"}:
        return "Its 90 % intervals are honest."
    if "narrow" in kinds:
        return f"Its 90 % intervals are too narrow{part}."
    if "wide" in kinds:
        return f"Its 90 % intervals are too wide{part}."
    return "Its intervals could not be judged."


def _worth(results: Results, at_lead: dict[str, Any], variable: str, call: dict[str, Any]) -> list[str]:
    where = _where(results, at_lead, variable)
    sentences = [f"{where}: {_comparison(results, at_lead, variable, call, main_region(at_lead, variable))}"]
    for region in ("held_sensors", "held_blocks"):
        if region in at_lead["models"][call["own"]]["variables"][variable]["regions"]:
            there = call_of(at_lead, variable, region)
            words = _comparison(results, at_lead, variable, there, region)
            sentences.append(f"{where}, at {REGIONS[region]}: {words}")
    return sentences


def _comparison(results: Results, at_lead: dict[str, Any], variable: str, call: dict[str, Any], region: str) -> str:
    own, best, units = call["own"], call["best_rival"], results["variables"][variable]
    crps = at_lead["models"][own]["variables"][variable]["regions"][region]["crps"]["mean"]
    if best is None:
        return f"{own} has a CRPS of {amount(crps, units)}; no rival was drawn to compare it with."
    other = at_lead["models"][best]["variables"][variable]["regions"][region]["crps"]["mean"]
    gap = at_lead["comparisons"][best][variable]["regions"][region]["difference"]
    share = "" if other == 0 else f", {percent(abs(1 - crps / other))} {'below' if crps < other else 'above'}"
    if call["result"] == "unknown":
        return (
            f"{own} has a CRPS of {amount(crps, units)}, the best rival, {best}, {amount(other, units)}; all readings "
            f"are of a single {results['group']}, so no error bar can be given and nothing is shown."
        )
    interval = f"{gap['mean']:+.2g} ({gap['low']:+.2g} to {gap['high']:+.2g})"
    if call["result"] == "better":
        return (
            f"{own} has a CRPS of {amount(crps, units)}{share} the best rival, {best} ({amount(other, units)}). The "
            f"difference, {interval}, is beyond its error bar."
        )
    if call["result"] == "worse":
        return (
            f"{best} wins. {own} has a CRPS of {amount(crps, units)}{share} that of {best} ({amount(other, units)}); "
            f"the difference, {interval}, is beyond its error bar. Use {best} here."
        )
    return (
        f"{own} has a CRPS of {amount(crps, units)}, the best rival, {best}, {amount(other, units)}. The difference, "
        f"{interval}, is within its error bar: these readings do not show that either is better."
    )


def _honest(results: Results, at_lead: dict[str, Any], variable: str, call: dict[str, Any]) -> list[str]:
    where = _where(results, at_lead, variable)
    found = at_lead["models"][call["own"]]
    if call["intervals"] == "unmeasured":
        return [f"{where}: {found['members']} member(s) span no 90 % interval; draw 19 or more to judge them."]
    coverage = found["variables"][variable]["regions"][main_region(at_lead, variable)]["coverage"][str(NOMINAL)]
    words = {
        "honest": "honest",
        "narrow": "too narrow, the model is surer than it should be",
        "wide": "too wide, the model is less sure than it could be",
    }[call["intervals"]]
    low, high = coverage["low"], coverage["high"]
    bar = "" if low is None else f" ({percent(low, 1)} to {percent(high, 1)})"
    outside = outliers(results, found["variables"][variable])
    limits = f"{100 * LOWEST:.0f} to {percent(HIGHEST)}"
    rest = (
        f"Clearly outside {limits}: {'; '.join(outside)}."
        if outside
        else f"No region, distance or hour that could be judged is clearly outside {limits}."
    )
    return [f"{where}: the 90 % intervals hold {percent(coverage['mean'], 1)} of the readings{bar}: {words}. {rest}"]


def outliers(results: Results, found: dict[str, Any]) -> list[str]:
    """Regions, distances and hours whose coverage is clearly not 90 %."""
    words = [
        f"{REGIONS[name]} ({percent(row['coverage'][str(NOMINAL)]['mean'])})"
        for name, row in found["regions"].items()
        if name != "all" and _clearly_off(row["coverage"][str(NOMINAL)], row["readings"])
    ]
    for kind in ("narrow", "wide"):
        distances, hours = (
            [
                place
                for place, row in enumerate(found.get(cut, ()))
                if _clearly_off(row["coverage"], row["readings"]) and honesty(row["coverage"]["mean"]) == kind
            ]
            for cut in ("by_distance", "by_hour")
        )
        bins = found["by_distance"]
        for first, last in runs(distances):
            reach = {"low": bins[first]["low"], "high": bins[last]["high"]}
            words.append(f"{distance_label(reach, results['distance_units'])} (too {kind})")
        if hours:
            words.append(f"{hours_label(found['by_hour'][place]['hour'] for place in hours)} (too {kind})")
    return words


def _clearly_off(coverage: dict[str, float | None] | None, readings: int) -> bool:
    if coverage is None or readings < FEW or honesty(coverage["mean"] or 0.0) == "honest":
        return False
    low, high = coverage["low"], coverage["high"]
    return low is None or high is None or not low <= NOMINAL <= high


def _untaught(results: Results) -> list[str]:
    sentences, cells = [], results["map"]["cells"]
    if not results["run"]["trained_on_this_store"]:
        sentences.append("The run was trained on other pairs than these: whether it has seen them is not known.")
    for variable, count in results["map"]["never_supervised"].items():
        if count:
            evidence = (
                "held-out sensors and blocks are the only evidence for it"
                if results["map"]["held"]
                else "no place was held out to tell how well"
            )
            sentences.append(
                f"{variable}: no training target ever lay at {count} of {cells} cells ({percent(count / cells)}); the "
                f"map there is carried over from elsewhere, and {evidence}."
            )
    return sentences


def _caution(results: Results, at_lead: dict[str, Any], variable: str) -> list[str]:
    where, unit = _where(results, at_lead, variable), results["distance_units"]
    own = next(iter(at_lead["models"]))
    found = at_lead["models"][own]["variables"][variable]
    sentences = []
    beyond = at_lead["beyond"][variable]
    if beyond["share"] > 0:
        sentences.append(
            f"{where}: no reading farther than {beyond['limit']:.3g} {unit} from a sensor was held out; "
            f"{percent(beyond['share'])} of the map lies farther and is not judged."
        )
    few = [row["hour"] for row in found.get("by_hour", ()) if row["readings"] < FEW]
    if few:
        sentences.append(f"{where}: fewer than {FEW} readings were held out at {hours_label(few)}; trust those less.")
    for rival, compared in at_lead["comparisons"].items():
        rows = zip(found["by_distance"], compared[variable]["by_distance"], strict=True)
        lost = [
            place
            for place, (row, gap) in enumerate(rows)
            if row["readings"] >= FEW and gap is not None and side(gap["difference"]) == "worse"
        ]
        for first, last in runs(lost):
            reach = {"low": found["by_distance"][first]["low"], "high": found["by_distance"][last]["high"]}
            sentences.append(f"{where}: {rival} is better {distance_label(reach, unit)}.")
    return sentences


def _where(results: Results, at_lead: dict[str, Any], variable: str) -> str:
    ahead = at_lead["ahead"][:1].upper() + at_lead["ahead"][1:]
    return ahead if len(results["variables"]) == 1 else f"{variable}, {at_lead['ahead']}"
