"""Studies: keys name cells, stored cells are trusted only if sound, interrupted ones end as if nothing had happened."""

import json
import math
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from solidfield.engine import Engine, spread
from solidfield.errors import SolidError
from solidfield.experiments.cell import Place
from solidfield.experiments.runner import chosen, run_cells
from solidfield.experiments.store import path_of, read_result, rounded, write_result
from solidfield.experiments.studies import forecasting_cells
from solidfield.experiments.studies.catalog import (
    DENSITIES,
    LAMBDAS,
    STUDIES,
    TUNED,
    all_cells,
    cells,
    fair,
    make,
    random,
    rest,
    twelve,
)
from solidfield.experiments.studies.cell import measured
from solidfield.experiments.studies.data import pairs_of, scenes, truth_of
from solidfield.experiments.studies.measure import FEW_STEPS, late_gain, tuned
from solidfield.experiments.studies.scale import LAPTOP, PAPER, PILOT, REST, SMOKE, scale
from solidfield.models import MODELS, THE_NINE, model_class
from solidfield.pairs.store import PairStore
from solidfield.training.checkpoint import load_state
from solidfield.training.record import RunRecord
from solidfield.worlds import write_truth

HERE = random(0.10)
RESULTS = Path(__file__).parents[1] / "results"


@pytest.fixture(scope="session")
def studied(tmp_path_factory):
    """Every smoke cell, run once; the work folder and the results."""
    folder = tmp_path_factory.mktemp("studies")
    outcome = run_cells(all_cells(SMOKE), Place(folder / "work"), folder / "results", "solid bench all --scale smoke")
    return folder / "work", folder / "results", outcome


def without_times(result):
    """What a cell must reproduce to the bit; seconds are the machine's."""
    training = dict(result["training"] or {})
    for name in [name for name in training if "seconds" in name or name == "curve"]:
        del training[name]
    return json.loads(
        json.dumps(rounded({"training": training, "scores": result["scores"], "picture": result["picture"]}))
    )


# ---- keys


@pytest.mark.parametrize("size", [SMOKE, LAPTOP, PAPER], ids=lambda size: size.name)
def test_keys_are_unique_and_every_study_is_part_of_all(size):
    every = {cell.key for cell in all_cells(size)}
    assert len(every) == len(all_cells(size))
    for study in STUDIES:
        assert {cell.key for cell in cells(study, size)} <= every


def test_a_key_is_stable_and_changes_with_whatever_decides_the_result():
    cell = make(LAPTOP, "solid", HERE)
    assert cell.key == make(LAPTOP, "solid", HERE).key
    others = [
        make(LAPTOP, "solid", HERE, {"lam": 0.2}),
        make(LAPTOP, "solid", random(0.4)),
        make(PAPER, "solid", HERE),
        *(replace(cell, **change) for change in ({"seed": 1}, {"minutes": 6.0}, {"share": 0.1}, {"split": "between"})),
        replace(cell, rates=(1e-3,)),
        replace(cell, scale=replace(LAPTOP, trajectories=999)),
        replace(cell, scale=replace(LAPTOP, batch=16)),
    ]
    assert len({cell.key, *(other.key for other in others)}) == len(others) + 1


def test_another_revision_of_a_model_outdates_its_cells_and_no_others(monkeypatch):
    before = {cell.key: cell.model for cell in all_cells(LAPTOP)}
    monkeypatch.setattr(MODELS["unet"], "revision", MODELS["unet"].revision + 1)
    after = {cell.key for cell in all_cells(LAPTOP)}
    assert len(after) == len(before)
    assert {before[key] for key in before.keys() - after} == {"unet"}
    assert "unet" not in {before[key] for key in before.keys() & after}


def test_no_stored_cell_is_outdated():
    stored = {path.stem for path in (RESULTS / "studies" / "laptop").glob("*.json")}
    assert stored <= {cell.key for cell in (*all_cells(LAPTOP), *rest(LAPTOP, REST))}


def test_cells_that_are_only_judged_otherwise_share_a_run():
    cell = make(LAPTOP, "solid", HERE)
    assert cell.run == replace(cell, split="between").run == replace(cell, rollout=8).run
    assert cell.run != replace(cell, share=0.1).run


# ---- the catalogue


def test_the_ten_percent_column_has_every_model_in_both_variants():
    found = {
        (cell.model, cell.options.get("mask_channel")) for cell in cells("forecasting", LAPTOP) if cell.scenario == HERE
    }
    assert {name for name, _ in found} == set(MODELS)
    assert {(model.name, mask) for model in THE_NINE for mask in (True, False)} <= found
    leaking = [cell for cell in cells("forecasting", LAPTOP) if cell.leaks]
    assert [cell.label for cell in leaking] == ["oracle"] * len(DENSITIES)


def test_the_other_densities_have_ours_the_simple_ones_and_the_strong_rivals():
    labels = {cell.label for cell in cells("forecasting", LAPTOP, ("scent",)) if cell.scenario == random(0.04)}
    assert {"solid", "solid-paper", "oracle", "solid-onepass", "kriging", "scent + mask"} <= labels
    assert "unet + mask" not in labels


def test_ablations_overlap_and_patterns_keep_counts():
    study = cells("ablation", LAPTOP)
    assert [cell.options["lam"] for cell in study[: len(LAMBDAS)]] == list(LAMBDAS)
    assert all(cell.scenario.overlap > 0 and cell.minutes == LAPTOP.short for cell in study)
    assert len(twelve(LAPTOP)) == 12
    assert all(way.block == 4 for way in twelve(LAPTOP).values() if way.pattern == "block")


def test_tables_compare_cells_that_train_equally_long():
    """A cell that takes a learning rate over has what the pilots of one that chooses leave; a density is a table.

    Windows have a table of their own, which says how much longer they train.
    """
    left = defaultdict(set)
    for study in STUDIES:
        for cell in cells(study, LAPTOP):
            if cell.minutes is not None and cell.window == 1:
                pilots = len(cell.rates) if len(cell.rates) > 1 else 0
                table = (study, cell.scenario.amount if study == "forecasting" else None)
                left[table].add(round(cell.minutes * (1 - PILOT * pilots), 2))
    assert all(len(minutes) == 1 for minutes in left.values()), left


def test_rates_that_are_taken_over_are_those_the_ten_percent_column_chose():
    column = {cell.label: cell for cell in cells("forecasting", LAPTOP) if cell.scenario == random(0.10)}
    for label, rate in TUNED["laptop"].items():
        stored = read_result(column[label], RESULTS)
        assert stored is not None, f"run {column[label].key} again"
        assert stored["training"]["rate"] == rate, label


def test_the_column_at_rest_is_the_fair_one_with_long_budgets_and_solid_last():
    column, label = rest(LAPTOP, 60.0), [cell.label for cell in rest(LAPTOP, 60.0)]
    assert {name: label.count(name) for name in label} == {
        **{fair(model.name): 1 for model in THE_NINE},
        "oracle": 1,
        "solid-paper": 3,
        "unet-mixture + mask": 3,
        "solid": 3,
    }
    assert label[-3:] == ["solid"] * 3
    assert all(cell.minutes == (30 if model_class(cell.model).family == "adversarial" else 60) for cell in column)
    assert len({cell.key for cell in (*column, *all_cells(LAPTOP))}) == len(column) + len(all_cells(LAPTOP))
    short = {cell.label: cell for cell in cells("forecasting", LAPTOP) if cell.scenario == HERE}
    assert all(cell.rates == short[cell.label].rates and cell.scenario == HERE for cell in column)
    for refused in ({"budget": "0"}, {"budget": "long"}, {"budget": "rest", "steps": 3}):
        with pytest.raises(SolidError, match="--budget"):
            forecasting_cells(**refused)


def test_all_begins_with_the_ten_percent_column():
    first = cells("forecasting", LAPTOP)
    wanted = [cell.key for cell in first if cell.scenario == HERE]
    assert [cell.key for cell in all_cells(LAPTOP)][: len(wanted)] == wanted


def test_a_trial_keeps_grid_and_networks():
    trial = scale("paper", steps=3)
    assert trial.world == PAPER.world
    assert trial.size == "paper"
    assert trial.steps == 3
    assert trial.name != "paper"
    with pytest.raises(SolidError, match="laptop"):
        scale("huge")


# ---- files


def test_a_stored_result_comes_back_and_a_damaged_one_counts_as_missing(tmp_path):
    cell = make(SMOKE, "persistence", HERE)
    path = write_result(cell, tmp_path, {"scores": {"crps": 0.123456789, "bad": float("nan")}})
    found = read_result(cell, tmp_path)
    assert found is not None
    assert found["scores"] == {"crps": 0.12346, "bad": None}
    whole = path.read_text()
    for broken in (whole[: len(whole) // 2], whole.replace("0.12346", "0.12345"), "", "[]"):
        path.write_text(broken)
        assert read_result(cell, tmp_path) is None
    path.write_text(whole)
    other = replace(cell, seed=1)
    shutil.copy(path, path_of(other, tmp_path))
    assert read_result(other, tmp_path) is None  # sound, but of another cell


# ---- data


def test_a_part_has_the_first_training_trajectories_and_all_others(studied):
    work, _, _ = studied
    cell = make(SMOKE, "solid", HERE)
    store = pairs_of(cell, truth_of(cell, work), work)
    part = PairStore(store.path, 0.25)
    kept, every = (np.unique(s.columns["trajectory"][s.split("train")]) for s in (part, store))
    assert kept.tolist() == every[: round(0.25 * len(every))].tolist()
    assert part.split("test").tolist() == store.split("test").tolist()
    assert part.fingerprint != store.fingerprint


def test_scenes_are_one_a_trajectory_and_leave_room_for_a_rollout(studied):
    work, _, _ = studied
    cell = make(SMOKE, "solid", HERE)
    store = pairs_of(cell, truth_of(cell, work), work)
    for split, odd in (("test", 0), ("between", 1)):
        found = scenes(store, split, 2, last_frame=2)
        assert len(set(store.columns["trajectory"][found])) == 2
        assert (store.columns["frame_source"][found] <= 2).all()
        assert (store.columns["frame_source"][found] % 2 == odd).all()
    with pytest.raises(SolidError, match="2 test trajectories"):
        scenes(store, "test", 3, last_frame=6)


def test_only_a_leaking_cell_has_dense_targets(studied):
    work, _, _ = studied
    truth = truth_of(make(SMOKE, "solid", HERE), work)
    strict, leaking = (pairs_of(make(SMOKE, label, HERE), truth, work) for label in ("solid-paper", "oracle"))
    assert (strict.leaks, leaking.leaks) == (False, True)
    indices = strict.split("test")
    assert strict.batch(indices).source.values.equal(leaking.batch(indices).source.values)  # the same readings


# ---- running


def test_the_smoke_scale_runs_every_study_and_then_finds_all_of_it(studied):
    work, results, outcome = studied
    every = all_cells(SMOKE)
    assert outcome.failed == {}
    assert len(outcome.run) == len(every)
    assert {study for study in STUDIES if cells(study, SMOKE)} == set(STUDIES)
    again = run_cells(every, Place(work), results, "again")
    assert (again.run, again.skipped) == ((), len(every))
    assert not list((work / "running").glob("*.json"))


def test_a_result_has_scores_costs_and_provenance(studied):
    _, results, _ = studied
    result = read_result(make(SMOKE, "solid", HERE), results)
    region = result["scores"]["regions"]["off"]
    assert len(region["crps_per_scene"]) == SMOKE.scenes
    assert region["crps"]["mean"] == pytest.approx(np.mean(region["crps_per_scene"]), rel=1e-3)
    assert sum(region["ranks"]) == pytest.approx(1, abs=1e-3)
    assert result["costs"]["gmacs_of_100_members"] >= result["costs"]["gmacs_of_a_pass"] > 0
    assert result["training"]["examples"] == result["training"]["steps"] * SMOKE.batch
    assert {"command", "commit", "date", "versions", "machine", "seed"} <= set(result["provenance"])
    assert np.array(result["picture"]["truth"]).shape == (16, 16)
    assert read_result(make(SMOKE, "oracle", HERE), results)["leaks"] is True
    rolled = read_result(make(SMOKE, "solid", HERE, rollout=SMOKE.rollout), results)
    assert [lead["lead_time"] for lead in rolled["leads"]] == pytest.approx([0.4, 0.8])
    assert rolled["leads"][0]["crps"]["mean"] == pytest.approx(region["crps"]["mean"], rel=1e-3)


def test_a_damaged_cell_is_run_again_to_the_same_result(studied):
    work, results, _ = studied
    cell = make(SMOKE, fair("unet"), HERE)
    before = read_result(cell, results)
    path = path_of(cell, results)
    path.write_text(path.read_text()[:-40])
    outcome = run_cells([cell, make(SMOKE, "persistence", HERE)], Place(work), results, "again")
    assert (outcome.run, outcome.skipped) == ((cell.key,), 1)
    assert without_times(read_result(cell, results)) == without_times(before)


def test_an_interrupted_cell_resumes_to_the_same_bits(studied, tmp_path):
    work, _, _ = studied
    cell = replace(make(SMOKE, fair("unet"), HERE), steps=30, rates=(1e-3, 3e-3))
    for name in ("smoke/truth.zarr", "smoke/pairs/random10-instance.zarr"):
        shutil.copytree(work / name, tmp_path / name)
    whole = cell.measure(Place(tmp_path))
    shutil.rmtree(tmp_path / "smoke" / "runs")

    def killed(stage, done, total):
        if stage.startswith("training") and done == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cell.measure(Place(tmp_path), killed)
    assert without_times(cell.measure(Place(tmp_path))) == without_times(whole)
    assert set(whole["training"]["rates"]) == {"0.001", "0.003"}
    best = min(whole["training"]["rates"], key=lambda rate: whole["training"]["rates"][rate])
    assert whole["training"]["rate"] == float(best)


def test_pilots_and_main_run_share_one_budget(studied, tmp_path):
    """Steps add up to the cell's, minutes to what preparing and pilots left; a rate taken over has no pilots."""
    work, _, _ = studied
    cell = replace(make(SMOKE, "solid", HERE, {"copula": "independent"}), steps=50, rates=(1e-3, 2e-3, 3e-3))
    timed = replace(cell, steps=None, minutes=0.02)
    store = pairs_of(cell, truth_of(cell, work), work)

    def runs(one, name):
        account, main = tuned(one, store, tmp_path / name, None)
        pilots = [RunRecord.open(tmp_path / name / f"pilot-{rate:g}") for rate in one.rates]
        prepared = load_state(tmp_path / name / "prepared")[1].counters["seconds"]
        spent = prepared + sum(pilot.info["history"]["seconds"] for pilot in pilots)
        assert account["cpu_seconds_before"] == pytest.approx(spent)
        assert all(run.info["train"]["clock"] == "cpu" for run in (main, *pilots))
        return [pilot.info["train"] for pilot in pilots], main.info["train"], spent / 60

    pilots, main, _ = runs(cell, "steps")
    assert [config["steps"] for config in (*pilots, main)] == [4, 4, 4, 38]
    pilots, main, spent = runs(timed, "minutes")
    assert [config["minutes"] for config in pilots] == pytest.approx([PILOT * 0.02] * 3)
    assert main["minutes"] == pytest.approx(max(0.02 - spent, PILOT * 0.02))
    pilots, main, spent = runs(replace(timed, minutes=0.03, rates=(1e-3,)), "one rate")
    assert [config["steps"] for config in pilots] == [FEW_STEPS]
    assert main["minutes"] == pytest.approx(max(0.03 - spent, PILOT * 0.03))


def test_a_failure_is_noted_and_the_others_go_on(studied, tmp_path):
    work, _, _ = studied
    bad = replace(make(SMOKE, "solid", HERE), options={"size": "smoke", "law": "none such"}, rates=(1e-3, 2e-3))
    good = make(SMOKE, "persistence", HERE)
    outcome = run_cells([bad, good], Place(work), tmp_path, "test")
    assert outcome.run == (good.key,)
    assert list(outcome.failed) == [bad.key]
    assert "none such" in outcome.failed[bad.key]


def test_no_cell_is_begun_after_the_budget(studied, tmp_path):
    work, _, _ = studied
    outcome = run_cells(all_cells(SMOKE)[:3], Place(work), tmp_path, "test", minutes=0)
    assert (outcome.run, outcome.left) == ((), 3)


def test_cells_are_chosen_by_a_part_of_their_name_or_a_pattern():
    every = all_cells(LAPTOP)
    assert {cell.model for cell in chosen(every, "kriging")} == {"kriging"}
    assert all(cell.key.startswith("unet-") for cell in chosen(every, "unet-*"))
    assert chosen(every, None) == every


def test_a_curve_is_flat_or_at_rest_by_its_last_part():
    falling = [(float(t), 1.0 - 0.1 * t) for t in range(9)]
    assert late_gain(falling, 1 / 4) == pytest.approx(1 - 0.2 / 0.4)
    assert late_gain(falling, 1 / 3) == pytest.approx(1 - 0.2 / 0.5)
    assert late_gain([(t, min(1.0, 2 - t)) for t, _ in falling[:3]], 1 / 4) is None
    assert late_gain([(1.0, 0.5), (2.0, 0.4), (3.0, 0.4), (4.0, 0.45)], 1 / 4) == pytest.approx(0.0)


# ---- engines


@pytest.mark.parametrize("engine", [Engine(), Engine("processes")], ids=lambda engine: engine.kind)
def test_engines_agree_and_a_failure_is_an_outcome(engine):
    found = dict(spread(math.sqrt, [4, 9, -1], engine))
    assert (found[4], found[9]) == (2, 3)
    assert isinstance(found[-1], ValueError)


def test_a_simulation_is_the_same_wherever_it_is_computed(tmp_path):
    world = replace(SMOKE.world, frames=2, warmup=0.0)
    backwards = lambda function, items: [(item, function(item)) for item in reversed(items)]  # noqa: E731
    here, there = (
        write_truth(world, tmp_path / name, 5, chunk=2, apply=apply)
        for name, apply in (("here", partial(spread, engine=Engine())), ("there", backwards))
    )
    assert np.array_equal(here.read(range(5)), there.read(range(5)))
    failing = lambda function, items: [(item, ValueError("no worker")) for item in items]  # noqa: E731
    with pytest.raises(ValueError, match="no worker"):
        write_truth(world, tmp_path / "failed", 5, apply=failing)


def test_an_engine_must_exist():
    with pytest.raises(SolidError, match="dask"):
        Engine("cloud")


def test_a_dask_cluster_gives_the_same_bits(studied, tmp_path):
    pytest.importorskip("distributed")
    work, results, _ = studied
    cell = make(SMOKE, fair("unet"), HERE)
    for name in ("smoke/truth.zarr", "smoke/pairs/random10-instance.zarr"):
        shutil.copytree(work / name, tmp_path / "work" / name)
    outcome = run_cells([cell], Place(tmp_path / "work"), tmp_path / "results", "test", Engine("dask"))
    assert outcome.failed == {}
    assert without_times(read_result(cell, tmp_path / "results")) == without_times(read_result(cell, results))


def test_scenarios_have_distinct_stores():
    ways = {cell.scenario for cell in all_cells(LAPTOP)}
    assert len({measured(way) for way in ways}) == len(ways)
