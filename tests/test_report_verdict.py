"""The verdict follows the numbers and nothing else: when they flip, its words flip."""

from dataclasses import replace

import pytest

from solidfield.report.calls import DAYS, FEW, call_of, honesty, side
from solidfield.report.verdict import verdict
from solidfield.report.words import distinct, lead_label, percent
from solidfield.scores.bins import Bin
from solidfield.scores.estimate import Estimate
from solidfield.scores.table import Comparison, Lead, Score, ScoreTable


def estimate(mean, half=0.01):
    return Estimate(mean, mean - half, mean + half, half / 2)


def score(model, crps, cover, cells=500, lead=1, region="all", bin=None):
    found = {"crps": estimate(crps), "coverage_90": cover}
    about = {"members": 100, "cases": cells, "groups": 9, "std": 5.0}
    return Score(model=model, variable="pm", lead=lead, region=region, cells=cells, metrics=found, bin=bin, **about)


def results(difference=-0.3, half=0.1, cover=0.9, hours=(), bins=(), lead=1, gaps=(), share=0.0):
    """The run has CRPS 3, the best rival 3 - difference, the other one more."""
    crps = {"solid": 3.0, "kriging": 3.0 - difference, "persistence": 9.0}
    held = None if cover is None else estimate(cover)
    rings = [(Bin("distance", float(i), float(i), float(i)), c) for i, c in enumerate(bins or [held])]
    scores = [score(name, value, held, lead=lead) for name, value in crps.items()]
    scores += [score("solid", 3.0, c, cells=400, lead=lead, bin=bin) for bin, c in rings]
    scores += [score("solid", 3.0, estimate(c), cells=n, lead=lead, bin=Bin("hour", h, h, h)) for h, n, c in hours]
    pair = {"model": "solid", "variable": "pm", "lead": lead, "region": "all", "cells": 400, "saved": None}
    compared = [
        Comparison(rival=n, difference=estimate(3.0 - crps[n], half), **pair) for n in ("kriging", "persistence")
    ]
    compared += [Comparison(rival=n, difference=gap, bin=rings[i][0], **pair) for n, i, gap in gaps]
    about = {
        "group": "day",
        "distance_units": "km",
        "map": {"cells": 100, "never_supervised": {"pm": 0}, "held": {}},
        "run": {"trained_on_this_store": True},
    }
    ahead = lead_label(3600.0 * lead, True)
    when = Lead(lead, 3600.0 * lead, ahead, 20, 20, 9, "all", beyond={"pm": (4.0, share)})
    return ScoreTable({"pm": "ug/m3"}, (when,), tuple(scores), tuple(compared), about)


@pytest.mark.parametrize(
    ("difference", "half", "result", "headline", "sentence"),
    [
        (
            -0.3,
            0.1,
            "better",
            "Worth it here: better than every rival",
            "9 % below the best rival, kriging (3.3 ug/m3)",
        ),
        (-0.3, 0.5, "same", "Not shown to be worth it here: no clear difference from kriging", "within its error bar"),
        (0.3, 0.5, "same", "Not shown to be worth it here: no clear difference from kriging", "within its error bar"),
        (0.3, 0.1, "worse", "Not worth it here: kriging is better", "kriging wins"),
    ],
)
def test_who_wins_is_said_as_the_paired_difference_says(difference, half, result, headline, sentence) -> None:
    found = verdict(results(difference, half))
    assert found.calls[0].result == result
    assert found.headline.startswith(headline)
    assert sentence in found.worth[0]
    assert ("Use kriging here" in found.worth[0]) == (result == "worse")


@pytest.mark.parametrize(
    ("cover", "kind", "headline", "sentence"),
    [
        (0.80, "narrow", "too narrow", "surer than it should be"),
        (0.90, "honest", "are honest", "hold 90.0 % of the readings (89.0 % to 91.0 %): honest"),
        (0.97, "wide", "too wide", "less sure than it could be"),
        (None, "unmeasured", "could not be judged", "draw 19 or more"),
    ],
)
def test_honesty_is_said_as_the_coverage_says(cover, kind, headline, sentence) -> None:
    found = verdict(results(cover=cover, bins=[None]))
    assert found.calls[0].intervals == kind
    assert headline in found.headline
    assert sentence in found.honest[0]


def test_a_single_day_shows_nothing() -> None:
    table = results()
    alone = tuple(replace(gap, difference=Estimate(gap.difference.mean)) for gap in table.comparisons)
    found = verdict(replace(table, comparisons=alone))
    assert found.calls[0].result == "unknown"
    assert "cannot be said" in found.headline
    assert "a single day" in found.worth[0]


def together(first, second):
    parts = {name: getattr(first, name) + getattr(second, name) for name in ("leads", "scores", "comparisons")}
    return replace(first, **parts)


def test_leads_that_disagree_are_told_apart() -> None:
    headline = verdict(together(results(-0.3), results(0.3, lead=2))).headline
    assert headline.startswith(
        "Worth it in part: better than every rival 1 hour ahead; kriging is better 2 hours ahead"
    )


def at_unread(table, difference, lead):
    """The same table, with a region of places without a sensor."""
    crps = {"solid": 3.0, "kriging": 3.0 - difference}
    scores = [score(name, value, estimate(0.9), lead=lead, region="set_aside") for name, value in crps.items()]
    pair = {"model": "solid", "rival": "kriging", "variable": "pm", "lead": lead, "region": "set_aside"}
    gap = Comparison(difference=estimate(difference, 0.1), cells=400, saved=None, **pair)
    return replace(table, scores=(*table.scores, *scores), comparisons=(*table.comparisons, gap))


@pytest.mark.parametrize(
    ("known", "unread", "headline"),
    [
        ((-0.3, -0.3), (-0.3, -0.3), "Worth it here:"),
        ((-0.3, -0.3), (0.3, 0.3), "Worth it at known places, not for the map between them:"),
        ((-0.3, -0.3), (0.3, 0.0), "Worth it at known places, not for the map between them:"),
        ((-0.3, -0.3), (-0.3, 0.3), "Worth it in part:"),  # the map gains at one lead and loses at another
        ((-0.3, 0.3), (-0.3, 0.3), "Worth it in part:"),  # as known places do
        ((-0.3, 0.3), (0.3, 0.3), "Worth it in part:"),
        ((0.3, 0.0), (-0.3, -0.3), "Worth it for the map between known places, not at them:"),
        ((0.0, 0.0), (-0.3, -0.3), "Worth it for the map between known places, not shown at them:"),
        ((0.3, 0.3), (0.3, 0.3), "Not worth it here:"),
    ],
)
def test_known_places_and_the_map_are_set_against_each_other_only_where_they_differ(known, unread, headline) -> None:
    tables = [
        at_unread(results(one, lead=n), two, n) for n, (one, two) in enumerate(zip(known, unread, strict=True), 1)
    ]
    assert verdict(together(*tables)).headline.startswith(headline)


def test_error_bars_of_few_days_are_said_to_be_short() -> None:
    def of(days):
        table = results()
        return verdict(replace(table, scores=tuple(replace(one, groups=days) for one in table.scores))).caution

    assert "judged on 3 days only" in of(3)[0]
    assert not of(DAYS)


@pytest.mark.parametrize(("group", "many"), [("stretch", "stretches"), ("trajectory", "trajectories")])
def test_what_is_no_day_is_not_called_one(group, many) -> None:
    table = results(hours=[(3, FEW - 1, 0.1)], share=0.2)
    short = tuple(replace(one, groups=3) for one in table.scores)
    found = verdict(replace(table, scores=short, about=table.about | {"group": group, "distance_units": "1"})).caution
    assert f"judged on 3 {many} only" in found[0]
    assert not any("hour of the day" in sentence for sentence in found)
    assert "no reading farther than 4 from a sensor was held out" in " ".join(found)


def test_intervals_that_disagree_are_not_called_by_one_of_them() -> None:
    """Too narrow at one lead and too wide at another is said of both; an unmeasured lead does not spoil the others."""

    def said(first, second):
        return verdict(together(results(cover=first), results(cover=second, lead=2))).headline.split(". ")[-1]

    assert said(0.80, 0.97) == "Its 90 % intervals are too narrow in part and too wide in part."
    assert said(0.90, 0.80) == "Its 90 % intervals are too narrow in part."
    assert said(0.90, None) == "Its 90 % intervals are honest where they could be judged."
    assert said(None, None) == "Its intervals could not be judged."


def test_no_region_is_named_twice() -> None:
    """A region with the very cells of the one that decides is the same fact."""
    table = results(cover=0.8)
    same = replace(table.scores[0], region="unseen")
    other = replace(score("solid", 3.0, estimate(0.7)), region="seen")
    said = verdict(replace(table, scores=(*table.scores, same, other))).honest[0]
    assert "cells not read in the source" not in said
    assert "cells read in the source (70 %)" in said
    assert distinct([table.scores[0], same, other]) == [table.scores[0], other]


def test_distances_and_hours_are_named_where_they_are_clearly_off_and_often_read() -> None:
    bins = [estimate(0.90), estimate(0.80), estimate(0.70), estimate(0.84, half=0.2)]
    hours = [(0, 500, 0.5), (1, 500, 0.5), (2, 500, 0.9), (3, FEW - 1, 0.1), (4, 500, 0.99)]
    found = verdict(results(bins=bins, hours=hours))
    said = found.honest[0]
    assert "1 to 2 km from a sensor (too narrow)" in said  # two bins in one; the unsure third is left out
    assert "00:00-01:59 (too narrow)" in said
    assert "04:00-04:59 (too wide)" in said
    assert "03:00" not in said
    assert f"fewer than {FEW} readings of {DAYS} days were held out at 03:00-03:59" in " ".join(found.caution)
    none = verdict(results(hours=[(3, FEW - 1, 0.1), (4, FEW - 1, 0.9)])).caution
    assert none == [
        f"1 hour ahead: no hour of the day has {FEW} readings of {DAYS} days held out, so none is judged by itself."
    ]
    assert "is clearly outside" in verdict(results()).honest[0]  # "no region, distance or hour ..."


@pytest.mark.parametrize(("errors", "days", "named"), [(2.9, 9, False), (3.1, 9, True), (3.1, DAYS - 1, False)])
def test_a_bin_is_clearly_off_beyond_three_standard_errors_of_enough_days(errors, days, named) -> None:
    table = results(bins=[estimate(0.9), estimate(0.8, half=2 * 0.1 / errors)])
    scores = tuple(replace(one, groups=days) if one.bin else one for one in table.scores)
    assert ("1 km from a sensor (too narrow)" in verdict(replace(table, scores=scores)).honest[0]) == named


def test_all_inside_on_few_days_is_no_evidence_of_width() -> None:
    """Nine days inside have a chance of 0.9^9 = 39 % by intervals that are honest, forty days of 1.5 %."""
    table = results(hours=[(7, 500, 1.0)])
    exact = [
        replace(one, metrics=one.metrics | {"coverage_90": estimate(1.0, 0.0)}) if one.bin else one
        for one in table.scores
    ]
    for days, named in ((9, False), (40, True)):
        scores = tuple(replace(one, groups=days) for one in exact)
        assert ("07:00-07:59 (too wide)" in verdict(replace(table, scores=scores)).honest[0]) == named


def test_what_judges_unread_places_is_named_and_never_denied() -> None:
    table = results()
    about = dict(table.about) | {"map": {"cells": 100, "never_supervised": {"pm": 25}, "held": {}}}
    assert "no place was held out" in verdict(replace(table, about=about)).caution[0]
    aside = replace(table.scores[0], region="set_aside", cells=40)
    gap = replace(table.comparisons[0], region="set_aside")
    judged = replace(table, about=about, scores=(*table.scores, aside), comparisons=(*table.comparisons, gap))
    assert "places kept unread to judge the map are the only evidence" in verdict(judged).caution[0]


def test_a_spread_that_is_off_does_not_contradict_honest_intervals() -> None:
    for cover, words in ((0.9, "go by the intervals, not by the standard deviation"), (0.97, "of the members is 1.30")):
        table = results(cover=cover)
        metrics = table.scores[0].metrics | {"spread_skill": estimate(1.3)}
        scores = (replace(table.scores[0], metrics=metrics), *table.scores[1:])
        assert words in verdict(replace(table, scores=scores)).honest[1]


@pytest.mark.parametrize(
    ("said", "seen", "half", "words"),
    [
        (0.08, 0.04, 0.01, "forecast too often: with a chance of 8.0 % on average, and 4.0 % were above"),
        (0.02, 0.04, 0.01, "forecast too rarely"),
        (0.05, 0.04, 0.02, ""),  # within the error bar
        (0.05, 0.0, 0.01, ""),  # on nine days nothing is expected to happen for sure
        (0.5, 0.0, 0.01, "forecast too often"),
    ],
)
def test_chances_of_high_values_are_named_where_they_are_off(said, seen, half, words) -> None:
    table = results()
    tail = {
        "tail_forecast": estimate(said),
        "tail_observed": estimate(seen),
        "tail_excess": estimate(said - seen, half),
    }
    own = replace(table.scores[0], metrics=table.scores[0].metrics | tail, tail=80.0)
    found = verdict(replace(table, scores=(own, *table.scores[1:]))).honest[1:]
    assert bool(found) == bool(words)
    assert all(words in sentence and "above 80 ug/m3, the 95 % quantile" in sentence for sentence in found)


def test_what_was_never_taught_never_judged_or_not_held_out_is_a_caution() -> None:
    assert verdict(results()).caution == []
    table = results(share=0.4, gaps=[("persistence", 0, estimate(0.2))])
    about = dict(table.about) | {"run": {"trained_on_this_store": False}}
    about["map"] = about["map"] | {"never_supervised": {"pm": 25}}
    found = " ".join(verdict(replace(table, about=about)).caution)
    assert "25 of 100 cells (25 %)" in found
    assert "farther than 4 km from a sensor was held out; 40 % of the map" in found
    assert "trained on other pairs" in found
    assert "persistence is better at the sensors" in found


def test_the_best_rival_is_the_one_with_the_least_error() -> None:
    table = results()
    assert call_of(table, table.leads[0], "pm").best.model == "kriging"
    scores = [score("persistence", 1.0, estimate(0.9)) if one.model == "persistence" else one for one in table.scores]
    assert call_of(replace(table, scores=tuple(scores)), table.leads[0], "pm").best.model == "persistence"
    alone = tuple(one for one in table.scores if one.model == "solid")
    assert verdict(replace(table, scores=alone, comparisons=())).calls[0].result == "alone"


def test_intervals_that_chance_explains_are_not_called_narrow_without_a_word() -> None:
    table = results(cover=0.84)
    for half, chance in ((0.05, False), (0.07, True)):
        scores = tuple(replace(s, metrics=s.metrics | {"coverage_90": estimate(0.84, half)}) for s in table.scores)
        said = verdict(replace(table, scores=scores)).honest[0]
        assert "too narrow" in said
        assert ("unless by chance: the error bar holds 90 %" in said) == chance


def test_bounds_belong_to_the_honest_side() -> None:
    assert [honesty(c) for c in (0.849, 0.85, 0.95, 0.951)] == ["narrow", "honest", "honest", "wide"]
    assert side(Estimate(0.5, 0.0, 1.0, 0.3)) == "same"
    assert [percent(s) for s in (0.0, 0.004, 0.05)] == ["0 %", "less than 1 %", "5 %"]
