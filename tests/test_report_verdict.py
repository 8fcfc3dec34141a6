"""The verdict follows the numbers and nothing else: when they flip, its words flip."""

import copy

import pytest

from solidfield.report.verdict import FEW, call_of, honesty, side, verdict
from solidfield.report.words import lead_label, percent


def estimate(mean, half=0.01):
    return {"mean": mean, "low": mean - half, "high": mean + half, "error": half / 2}


def row(crps, cover, readings=500):
    return {
        "readings": readings,
        "crps": estimate(crps),
        "coverage": {"0.5": estimate(0.5), "0.9": None if cover is None else estimate(cover)},
    }


def results(difference=-0.3, half=0.1, cover=0.9, hours=(), bins=(), lead=1):
    """The run has CRPS 3, the best rival 3 - difference, the other one more."""
    crps = {"solid": 3.0, "kriging": 3.0 - difference, "persistence": 9.0}
    gaps = {name: estimate(3.0 - value, half) for name, value in crps.items() if name != "solid"}
    distances = [
        {"low": 1.0 * i, "high": 1.0 * i, "mean": 1.0 * i, "readings": 400, "crps": estimate(3.0), "coverage": c}
        for i, c in enumerate(bins or [estimate(cover)])
    ]
    by_hour = [{"hour": h, "readings": n, "crps": estimate(3.0), "coverage": estimate(c)} for h, n, c in hours]
    return {
        "variables": {"pm": "ug/m3"},
        "group": "day",
        "distance_units": "km",
        "map": {"cells": 100, "never_supervised": {"pm": 0}, "held": {}},
        "run": {"trained_on_this_store": True},
        "leads": [
            {
                "lead": lead,
                "ahead": lead_label(3600.0 * lead, True),
                "main": "all",
                "beyond": {"pm": {"limit": 4.0, "share": 0.0}},
                "models": {
                    name: {
                        "members": 100,
                        "variables": {
                            "pm": {"regions": {"all": row(value, cover)}, "by_distance": distances, "by_hour": by_hour}
                        },
                    }
                    for name, value in crps.items()
                },
                "comparisons": {
                    name: {"pm": {"regions": {"all": {"difference": gap}}, "by_distance": [None] * len(distances)}}
                    for name, gap in gaps.items()
                },
            }
        ],
    }


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
    assert found["calls"][0]["result"] == result
    assert found["headline"].startswith(headline)
    assert sentence in found["worth"][0]
    assert ("Use kriging here" in found["worth"][0]) == (result == "worse")


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
    assert found["calls"][0]["intervals"] == kind
    assert headline in found["headline"]
    assert sentence in found["honest"][0]


def test_a_single_day_shows_nothing() -> None:
    plain = results()
    gap = plain["leads"][0]["comparisons"]["kriging"]["pm"]["regions"]["all"]["difference"]
    gap["low"] = gap["high"] = None
    found = verdict(plain)
    assert found["calls"][0]["result"] == "unknown"
    assert "cannot be said" in found["headline"]
    assert "a single day" in found["worth"][0]


def test_leads_that_disagree_are_told_apart() -> None:
    plain = results(-0.3)
    plain["leads"] += results(0.3, lead=2)["leads"]
    headline = verdict(plain)["headline"]
    assert headline.startswith(
        "Worth it in part: better than every rival 1 hour ahead; kriging is better 2 hours ahead"
    )


def test_distances_and_hours_are_named_where_they_are_clearly_off_and_often_read() -> None:
    bins = [estimate(0.90), estimate(0.80), estimate(0.70), estimate(0.84, half=0.2)]
    hours = [(0, 500, 0.5), (1, 500, 0.5), (2, 500, 0.9), (3, FEW - 1, 0.1), (4, 500, 0.99)]
    found = verdict(results(bins=bins, hours=hours))
    said = found["honest"][0]
    assert "1 to 2 km from a sensor (too narrow)" in said  # two bins in one; the unsure third is left out
    assert "00:00-01:59 (too narrow)" in said
    assert "04:00-04:59 (too wide)" in said
    assert "03:00" not in said
    assert f"fewer than {FEW} readings were held out at 03:00-03:59" in " ".join(found["caution"])
    assert "is clearly outside" in verdict(results())["honest"][0]  # "no region, distance or hour ..."


def test_what_was_never_taught_never_judged_or_not_held_out_is_a_caution() -> None:
    plain = results()
    assert verdict(plain)["caution"] == []
    doubtful = copy.deepcopy(plain)
    doubtful["map"]["never_supervised"]["pm"] = 25
    doubtful["leads"][0]["beyond"]["pm"]["share"] = 0.4
    doubtful["run"]["trained_on_this_store"] = False
    compared = doubtful["leads"][0]["comparisons"]["persistence"]["pm"]
    compared["by_distance"] = [{"difference": estimate(0.2)}]
    found = " ".join(verdict(doubtful)["caution"])
    assert "25 of 100 cells (25 %)" in found
    assert "farther than 4 km from a sensor was held out; 40 % of the map" in found
    assert "trained on other pairs" in found
    assert "persistence is better at the sensors" in found


def test_the_best_rival_is_the_one_with_the_least_error() -> None:
    plain = results()
    assert call_of(plain["leads"][0], "pm")["best_rival"] == "kriging"
    models = plain["leads"][0]["models"]
    models["persistence"]["variables"]["pm"]["regions"]["all"]["crps"]["mean"] = 1.0
    assert call_of(plain["leads"][0], "pm")["best_rival"] == "persistence"
    plain["leads"][0]["models"] = {"solid": models["solid"]}
    assert verdict(plain)["calls"][0]["result"] == "alone"


def test_bounds_belong_to_the_honest_side() -> None:
    assert [honesty(c) for c in (0.849, 0.85, 0.95, 0.951)] == ["narrow", "honest", "honest", "wide"]
    assert side({"low": 0.0, "high": 1.0}) == "same"
    assert [percent(s) for s in (0.0, 0.004, 0.05)] == ["0 %", "less than 1 %", "5 %"]
