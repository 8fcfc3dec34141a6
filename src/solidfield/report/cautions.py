"""Where not to trust the map: what no reading taught, what no reading judged, and where a rival is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scores.table import Lead, ScoreTable
from .calls import DAYS, FEW, MAP, Call, hour_of, judged, reach, side
from .words import PLURAL, REGIONS, hours_label, listed, of_unit, percent, runs


def few_days(table: ScoreTable, calls: Sequence[Call]) -> list[str]:
    """Resampling a handful of days hardly tells how they differ from others."""
    fewest, group = min((call.own.groups for call in calls), default=DAYS), table.about["group"]
    if not 1 < fewest < DAYS:
        return []
    few = f"{fewest} {PLURAL[group]} only"
    return [f"All was judged on {few}: error bars of fewer than {DAYS} are too short, and show little."]


def untaught(table: ScoreTable) -> list[str]:
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


def caution(table: ScoreTable, lead: Lead, variable: str) -> list[str]:
    unit = table.about["distance_units"]
    at: dict[str, Any] = {"variable": variable, "lead": lead.lead, "rolled": lead.rolled}
    sentences = []
    limit, share = lead.beyond.get(variable, (0.0, 0.0))
    if share > 0:
        sentences.append(
            f"no reading farther than {limit:.3g}{of_unit(unit)} from a sensor was held out; "
            f"{percent(share)} of the map lies farther and is not judged."
        )
    own, *rivals = table.models(lead.lead, lead.rolled)
    of_days = table.about["group"] == "day"  # a record of minutes has no hours of the day to speak of
    hours = table.select(model=own, bins="hour", **at) if of_days else []
    few, enough = [hour_of(score) for score in hours if not judged(score)], f"{FEW} readings of {DAYS} days"
    if few and len(few) == len(hours):
        sentences.append(f"no hour of the day has {enough} held out, so none is judged by itself.")
    elif few:
        sentences.append(f"fewer than {enough} were held out at {hours_label(few)}; trust those less.")
    bins = table.select(model=own, bins="distance", **at)
    for rival in rivals:
        gaps = {gap.bin: gap for gap in table.compared(rival=rival, bins="distance", **at)}
        lost = [
            place
            for place, score in enumerate(bins)
            if judged(score) and score.bin in gaps and side(gaps[score.bin].difference) == "worse"
        ]
        sentences += [f"{rival} is better {reach(table, bins, *span)}." for span in runs(lost)]
    return sentences


def told_once(doubts: Sequence[tuple[str, str]]) -> list[str]:
    """Each doubt with all the places it is of, in the order in which it came up first.

    >>> told_once([("Now", "few readings."), ("Now", "too far."), ("1 h ahead", "few readings.")])
    ['Now; 1 h ahead: few readings.', 'Now: too far.']
    """
    places: dict[str, list[str]] = {}
    for where, what in doubts:
        places.setdefault(what, []).append(where)
    return [f"{'; '.join(where)}: {what}" for what, where in places.items()]
