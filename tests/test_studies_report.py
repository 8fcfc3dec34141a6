"""Reports: numbers and verdicts follow the stored cells, and what is not stored is said to be missing."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shared import shows_something
from solidfield.errors import SolidError
from solidfield.experiments.pages import PLACE, write_page
from solidfield.experiments.store import write_result
from solidfield.experiments.studies import (
    FIGURES,
    PARTS,
    ablation,
    efficiency,
    forecasting,
    paper,
    patterns,
    rest,
    tuning,
    uncertainty,
)
from solidfield.experiments.studies.catalog import STUDIES, all_cells, cells, fair, long, make, random, twelve
from solidfield.experiments.studies.scale import LAPTOP
from solidfield.experiments.studies.shelf import Shelf, gap

DOCS = Path(__file__).parents[1] / "docs"
SCENES = 50
NOISE = np.random.default_rng(0).standard_normal(SCENES)


def invented(cell, crps, coverage=0.9, gain=0.01):
    """A result such as a run would store, with this CRPS in every region and small differences between scenes."""
    estimate = {"mean": crps, "low": crps, "high": crps, "error": 0.01}
    region = {
        "crps": estimate,
        "coverage": {"0.5": {"mean": 0.5}, "0.9": {"mean": coverage}},
        "spread_skill": {"mean": 1.0, "error": 0.02},
        "correlation": {"pixel": 0.5, "sample": 0.8},
        "ranks": [0.1] * 10,
        "crps_per_scene": (crps * (1 + 0.1 * NOISE)).tolist(),
    }
    scores = {
        "regions": dict.fromkeys(("M_i", "M_o", "off", "grid"), region),
        "structure": {"block_spread_skill": {"mean": 1.0}, "roughness": {"members": 0.4, "truth": 0.4}},
        "by_distance": {"distance": [1, 2], "rmse": [0.1, 0.2], "spread": [0.1, 0.2]},
        "by_spread": {name: [0.1, 0.2] for name in ("spread", "error", "spread_per_scene", "error_per_scene")},
    }
    training = {
        "steps": 1000,
        "rate": 1e-3,
        "flattened": gain < 0.02,
        "last_quarter_gain": gain,
        "at_rest": gain < 0.01,
        "last_third_gain": gain,
        "cpu_seconds_per_example": 1e-3,
        "curve": [[60.0, 0.3], [120.0, 0.2]],
    }
    costs = {"parameters": 10**6, "gmacs_of_a_pass": 0.1, "gmacs_of_100_members": 10.0, "members": 50}
    field = np.zeros((32, 32), int)
    result = {
        "training": None if cell.minutes is None else training,
        "costs": costs | {"draw_seconds_of_100_members": 0.5},
        "scores": scores,
        "picture": {"truth": field, "mean": field, "spread": field, "member": field, "sensors": [1, 40]},
        "provenance": {"commit": "0123456789abcdef", "machine": "a machine"},
    }
    if cell.rollout > 1:
        del result["scores"], result["picture"]
        leads = range(1, cell.rollout + 1)
        result["leads"] = [
            {"lead_time": 0.4 * n, "crps": estimate, "rmse": 0.1 * n, "spread": 0.1 * n, "sensors_rmse": 0.1 * n}
            | {"coverage": {"0.9": {"mean": 0.9}}, "spread_skill": {"mean": 1.0}}
            for n in leads
        ]
        result["leads_anew"] = [lead | {"spread": 0.05 * n} for n, lead in enumerate(result["leads"], 1)]
        result["memory"] = 0.25
    if cell.window > 1:
        mean = {"steps": [1, 4], "crps": estimate, "coverage": {"mean": 0.89}, "spread_skill": {"mean": 1.0}}
        result |= {"leads_rolled": result["leads"], "means": [mean], "rollout_over_direct_seconds": 12.3}
    return result


def shelve(folder, values, default=0.5):
    """Store every laptop cell; `values` maps (label, density) or label to a CRPS."""
    for cell in all_cells(LAPTOP):
        value = values.get((cell.label, cell.scenario.amount), values.get(cell.label, default))
        write_result(cell, folder, invented(cell, value))
    return Shelf(LAPTOP, folder)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """solid wins, the leak explains half of the paper's gain, kriging lies between."""
    return shelve(
        tmp_path_factory.mktemp("full"),
        {
            "solid": 0.12,
            "solid-paper": 0.3,
            "oracle": 0.2,
            "kriging": 0.27,
            "infty-diff": 0.4,
            "infty-diff + mask": 0.35,
        },
    )


@pytest.fixture
def empty(tmp_path):
    return Shelf(LAPTOP, tmp_path)


# ---- the whole


def test_pages_of_the_project_are_written_from_stored_cells_and_again_to_the_same_text(full, tmp_path):
    for name in ("studies.md", "rivals.md"):
        page = tmp_path / name
        page.write_text((DOCS / name).read_text())
        written = write_page(page, full.folder, LAPTOP)
        assert "missing" not in page.read_text().split("| model")[1]
    text = page.read_text()
    assert write_page(page, full.folder, LAPTOP) == written
    assert page.read_text() == text
    for picture in re.findall(r"\((images/studies/[\w-]+\.png)\)", (tmp_path / "studies.md").read_text()):
        assert shows_something(tmp_path / picture)


def test_the_page_shows_every_part_and_every_figure():
    named = {match["name"] for match in PLACE.finditer((DOCS / "studies.md").read_text())}
    assert set(PARTS) - named == {"rivals"}
    assert {f"{name}-figure" for name in FIGURES} <= named


def test_without_cells_everything_is_missing_and_nothing_is_claimed(empty):
    for name, write in PARTS.items():
        text = write(empty)
        assert re.search(r"missing|nothing is said|too few|0 of", text), name
    assert all(draw(empty) is None for draw in FIGURES.values())
    # A cell that was never asked for is not missing.
    assert forecasting.table(empty).count("missing") == len(cells("forecasting", LAPTOP))


def test_an_unknown_part_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- part horoscope -->\n<!-- end -->\n")
    with pytest.raises(SolidError, match="horoscope"):
        write_page(page, tmp_path, LAPTOP)


def test_a_damaged_cell_is_missing(full, tmp_path):
    cell = make(LAPTOP, "solid", random(0.10))
    path = write_result(cell, tmp_path, invented(cell, 0.1))
    path.write_text(path.read_text().replace("0.1", "0.2", 1))
    assert Shelf(LAPTOP, tmp_path).get(cell) is None


# ---- verdicts follow numbers


def test_the_winner_is_whoever_has_the_lowest_score(full, tmp_path):
    assert "At 10 % solid has the lowest CRPS, 0.120, before kriging with 0.270" in forecasting.lowest(full)
    other = shelve(tmp_path, {"solid": 0.3, ("unet + mask", 0.10): 0.2})
    text = forecasting.lowest(other)
    assert "At 10 % unet + mask has the lowest CRPS, 0.200, before solid with 0.300" in text
    assert "solid has 0.300 and does not win here" in text


def test_the_bar_against_the_nine_holds_or_fails_by_the_ratio(full, tmp_path):
    assert "The bar of 0.53 holds" in forecasting.against_nine(full)  # 0.12 / 0.4
    assert "still lower, at 0.34" in forecasting.against_nine(full)  # 0.12 / 0.35
    text = forecasting.against_nine(shelve(tmp_path, {"solid": 0.4, "infty-diff": 0.5, "ddo + mask": 0.3}))
    assert "fails by 0.27" in text
    assert "not lower, at 1.33" in text


@pytest.mark.parametrize(
    ("strict", "leaking", "best", "said"),
    [
        (0.3, 0.2, 0.4, "the leak explains 50 %"),  # (0.3 - 0.2) / (0.4 - 0.2)
        (0.45, 0.2, 0.4, "comes from the leak"),
        (0.45, 0.41, 0.4, "no gain to explain"),
        (0.2, 0.3, 0.4, "explains none"),
    ],
)
def test_what_the_leak_explains(tmp_path, strict, leaking, best, said):
    for label, value in (("solid-paper", strict), ("oracle", leaking), ("unet", best)):
        cell = make(LAPTOP, label, random(0.10))
        write_result(cell, tmp_path, invented(cell, value))
    assert said in forecasting.leak(Shelf(LAPTOP, tmp_path))


def test_long_trainings_are_judged_by_the_error_of_their_seeds(tmp_path):
    values = {"solid": (0.10, 0.11, 0.12), fair("unet-mixture"): (0.15, 0.15, 0.15), fair("unet"): (0.2,)}
    values |= {"solid-paper": (0.2, 0.2, 0.2), "oracle": (0.18,)}
    for label, seeds in values.items():
        for seed, value in enumerate(seeds):
            cell = long(LAPTOP, label, 60.0, seed)
            write_result(cell, tmp_path, invented(cell, value, gain=0.02 if label == "oracle" else 0.0))
    shelf = Shelf(LAPTOP, tmp_path)
    text = rest.words(shelf)
    assert "11 of 19" in text
    assert "Of 5 curves 4 had come to rest; still falling: oracle (leaks)." in text
    # The standard error of 0.10, 0.11, 0.12 is 0.01 / sqrt(3).
    assert "solid 0.110 ± 0.006 (3 seeds), unet-mixture + mask 0.150 ± 0.000 (3 seeds)" in text
    assert "a difference of 0.040, more than twice the error bar" in text
    assert "solid has 0.55 of its CRPS" in text
    assert "changes its CRPS by -10 %" in text
    assert "learning rates of their own" not in text
    assert rest.table(shelf).count("missing") == 8 + 13  # long cells, and none of the short study is there


def test_a_leak_is_not_said_to_help_within_the_error_of_the_seeds(tmp_path):
    for seed, (value, rate) in enumerate(((0.2, 1e-3), (0.16, 3e-3), (0.18, 3e-3))):  # standard error 0.0115
        cell = long(LAPTOP, "solid-paper", 60.0, seed)
        result = invented(cell, value)
        write_result(cell, tmp_path, {**result, "training": {**result["training"], "rate": rate}})
    cell = long(LAPTOP, "oracle", 60.0, 0)
    write_result(cell, tmp_path, invented(cell, 0.16))
    text = rest.words(Shelf(LAPTOP, tmp_path))
    assert "a difference of 0.020, less than twice the error bar, does not show" in text
    assert "0.200 with 0.001, 0.160 with 0.003, 0.180 with 0.003; with the leak it is 0.001." in text


def test_a_curve_that_still_falls_is_named(tmp_path):
    for label, gain in (("solid", 0.05), (fair("unet"), 0.01)):
        cell = make(LAPTOP, label, random(0.10))
        write_result(cell, tmp_path, invented(cell, 0.2, gain=gain))
    text = tuning.flat(Shelf(LAPTOP, tmp_path))
    assert "1 of 2 curves had flattened" in text
    assert "solid (5 %)" in text


def test_coverage_outside_its_bounds_is_said(tmp_path):
    cell = make(LAPTOP, "solid", random(0.10))
    for covers, word in ((0.9, "inside"), (0.95, "outside")):
        write_result(cell, tmp_path, invented(cell, 0.2, covers))
        assert f"({word} 0.88 to 0.92)" in forecasting.calibrated(Shelf(LAPTOP, tmp_path))


def test_lambda_that_makes_no_difference_is_called_so(full, tmp_path):
    assert "hardly matters" in ablation.lambda_words(full)  # all 0.5
    sharp = {f"solid, lambda {lam:g}": 0.5 for lam in (0, 0.02, 0.05, 0.1, 0.2, 0.5, 1)} | {"solid, lambda 0.05": 0.3}
    assert "is found here, too" in ablation.lambda_words(shelve(tmp_path, sharp))


def test_the_order_of_fillings_is_compared_with_the_papers(tmp_path):
    shelf = shelve(tmp_path, {"solid, no filling": 0.2, "solid, rbf filling": 0.3, "solid, nearest filling": 0.4})
    text = ablation.filling_words(shelf)
    assert "none, rbf, nearest; in the paper: none, rbf, nearest (the same order)" in text
    assert "x 2.00 the CRPS of no filling, in the paper x 3.22" in text


def test_patterns_count_where_moving_sensors_help(tmp_path):
    for name, way in twelve(LAPTOP).items():
        cell = make(LAPTOP, "solid", way, short=True)
        write_result(cell, tmp_path, invented(cell, 0.2 if name.endswith("instance") else 0.3))
    text = patterns.words(Shelf(LAPTOP, tmp_path))
    assert "in 6 of 6 patterns" in text
    assert "in the paper in 5; the two agree in 5 of 6" in text
    assert "Climatology" not in text  # not stored

    for nothing, expected in ((0.25, 6), (0.35, 0)):
        cell = make(LAPTOP, "climatology", random(0.10))
        write_result(cell, tmp_path, invented(cell, nothing))
        text = patterns.words(Shelf(LAPTOP, tmp_path))
        assert text.count(", global") == expected  # each pattern with sensors at rest is named where it is no use


def test_odd_frames_are_compared_with_even_ones(tmp_path):
    cell = make(LAPTOP, "solid", random(0.10))
    write_result(cell, tmp_path, invented(cell, 0.2))
    write_result(odd := replace(cell, split="between"), tmp_path, invented(odd, 0.3))
    assert "worse than at the others: 0.300 against 0.200 (+50 %)" in patterns.between_words(Shelf(LAPTOP, tmp_path))


def test_error_and_spread_that_grow_alike_grow_together(full):
    assert "error grows x 8.00 and the spread x 8.00" in uncertainty.rollout_words(full)
    assert "grow together" in uncertainty.rollout_words(full)
    assert "correlate by 0.25" in uncertainty.rollout_words(full)
    assert "spread / error ends at 0.50" in uncertainty.rollout_words(full)  # with noise drawn anew


def test_a_tenth_of_the_data_and_sizes_name_the_best(full):
    assert "With a tenth of the trajectories solid has the lowest CRPS" in efficiency.few_words(full)
    assert "The lowest of all is solid" in efficiency.sizes_words(full)


# ---- numbers


def test_a_gap_is_paired_by_scene(full):
    a, b = full.at("solid"), full.at("kriging")
    expected = (0.27 - 0.12) * (1 + 0.1 * NOISE)
    found = gap(a, b)
    assert found.mean == pytest.approx(expected.mean(), rel=1e-3)
    assert found.error == pytest.approx(expected.std() / np.sqrt(SCENES), rel=0.15)
    assert found.clear


def test_the_papers_numbers_are_quoted_in_standard_deviations(full):
    assert paper.best_rival() == ("infty-diff", 0.7276)
    row = next(line for line in forecasting.table(full).splitlines() if line.startswith("| solid |"))
    assert row.split(" | ")[-2:] == [f"{0.0968 / paper.STD:.3f}", "1.00 |"]


def test_direct_laws_stand_beside_the_rollouts(full):
    rows = uncertainty.direct(full).splitlines()[2:]
    assert len(rows) == LAPTOP.rollout + 1  # and the mean over four steps
    assert rows[0].split(" | ")[1:3] == ["0.500", "0.900"]
    assert rows[0].split(" | ")[6] == "0.120"  # the rollout of `solid` from one frame
    assert rows[-1].startswith("| mean, 0.4 to 1.6 | 0.500 | 0.890")
    assert f"x {0.5 / 0.12:.2f}, " in uncertainty.direct_words(full)
    assert "1 / 12 of the CPU time" in uncertainty.direct_words(full)


def test_every_study_has_cells_that_no_other_has():
    keys = {study: {cell.key for cell in cells(study, LAPTOP)} for study in STUDIES}
    for study, own in keys.items():
        assert own - set().union(*(keys[other] for other in STUDIES if other != study)), study
