"""What judges, readings or truth, and what error bars resample: days of a record, trajectories of a simulation."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dated import EVERY, H, W, dated_frames, dated_store, fitted_run
from solidfield.cli.evaluate import print_table
from solidfield.clock import from_seconds
from solidfield.errors import SolidError
from solidfield.keys import numpy_generator
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import PairStore
from solidfield.prediction.predict import predict_examples
from solidfield.report import evaluate_run
from solidfield.report.ensembles import closed_forms, draw_maps, draw_targets, fit_rival
from solidfield.report.maps import evaluate, write_scores
from solidfield.report.page import page
from solidfield.report.scoring import judge
from solidfield.report.targets import groups_of, local_times, reading_targets, truth_targets
from solidfield.scores.registry import METRICS, Metric
from solidfield.scores.table import ScoreTable
from tiny import TinyTruth, tiny_store


@pytest.fixture(scope="module")
def dated(tmp_path_factory) -> PairStore:
    return dated_store(tmp_path_factory.mktemp("dated") / "pairs")


def test_groups_of_a_record_are_the_local_days_of_its_targets(dated) -> None:
    test = dated.split("test")
    groups, times = groups_of(dated, test), local_times(dated, test)
    utc = from_seconds(dated.columns["time_target"][test])
    assert (times.to_numpy() - utc == np.timedelta64(330, "m")).all()
    days = times.to_numpy().astype("datetime64[D]")
    assert len(np.unique(groups)) == len(np.unique(days))
    for day in np.unique(days):
        assert len(np.unique(groups[days == day])) == 1
    assert (groups % 5 == 4).all()  # the very days that were held out
    per_day = np.bincount(groups)
    assert per_day.max() == 2 * 24 // EVERY  # two leads


def test_groups_of_a_simulation_are_its_trajectories(store) -> None:
    indices = np.arange(len(store))
    assert local_times(store, indices) is None
    assert np.array_equal(groups_of(store, indices), store.columns["trajectory"])


def test_regions_of_the_truth_split_the_grid(store, truth) -> None:
    """Cell by cell: what was given, what was measured besides, and everything."""
    test = store.split("test")
    targets, pair = truth_targets(store, test, truth), store.batch(test)
    given, measured = pair.source.mask.numpy().ravel(), pair.target.mask.numpy().ravel()
    expected = {
        "sensors": given,
        "targets": measured & ~given,
        "unobserved": ~given,
        "grid": np.ones_like(given),
    }
    assert set(targets.regions) == set(expected)
    for name, rows in expected.items():
        assert np.array_equal(targets.regions[name], rows)
    fields = truth.fields[store.columns["trajectory"][test], store.columns["frame_target"][test]]
    assert np.array_equal(targets.values, fields.ravel())
    again, values = targets.take(fields[None])
    assert again.all()
    assert np.array_equal(values[0], targets.values)


def test_a_lead_is_steps_ahead_of_the_source(store, truth) -> None:
    test = store.split("test")
    early = test[store.columns["frame_source"][test] == 0]
    targets = truth_targets(store, early, truth, lead=2)  # every second frame of the truth is a step
    assert targets.lead == 2
    assert np.array_equal(targets.values, truth.fields[store.columns["trajectory"][early], 4].ravel())
    with pytest.raises(SolidError, match="beyond the truth's 6 frames"):
        truth_targets(store, early, truth, lead=3)


def test_readings_and_truth_are_judged_by_one_function(store, truth) -> None:
    """The truth at the measured cells alone gives what the readings give, scene by scene."""
    test, std = store.split("test"), (2.0,)
    dense, sparse = truth_targets(store, test, truth), reading_targets(store, test)
    maps = numpy_generator(0, "maps").standard_normal((20, len(test), 1, *store.grid.shape)).astype(np.float32)
    for n in range(len(test)):
        rows = dense.scene == n
        one = replace(dense, regions={"unseen": dense.regions["targets"] & rows})
        other = replace(sparse, regions={"unseen": sparse.regions["unseen"] & (sparse.scene == n)})
        first = judge(one, {"maps": one.take(maps)[1]}, store, std).one()
        second = judge(other, {"maps": other.take(maps)[1]}, store, std).one()
        assert first.cells == second.cells
        for name in ("crps", "mae", "rmse", "coverage_90", "spread_skill"):
            assert first[name].mean == pytest.approx(second[name].mean, rel=1e-5)


def test_error_bars_follow_the_number_of_trajectories(store, truth) -> None:
    """Scenes of one trajectory are one piece of evidence."""
    targets = truth_targets(store, store.split("test"), truth)
    nothing = {"maps": np.zeros((1, len(targets.values)), np.float32)}
    grid = judge(targets, nothing, store, (2.0,)).one(region="grid")
    assert grid["crps"].mean == pytest.approx(np.abs(targets.values).mean())
    assert grid.scaled("crps").mean == pytest.approx(grid["crps"].mean / 2)
    assert grid.groups == 2
    together = judge(replace(targets, groups=np.zeros_like(targets.groups)), nothing, store, (2.0,))
    assert not together.one(region="grid")["crps"].has_bar


def test_maps_of_all_variables_are_tabulated_and_drawn(tmp_path) -> None:
    truth = TinyTruth.make(channels=2)
    store = tiny_store(tmp_path / "pairs", truth)
    run = fitted_run(tmp_path / "run", store, "kriging")
    maps = predict_examples(run, store, store.split("test"), members=20)
    for known, regions in ((truth, {"sensors", "targets", "unobserved", "grid"}), (None, {"all", "unseen"})):
        table = evaluate(maps, store, known, rivals=("climatology",))
        assert ScoreTable.from_json(json.loads(json.dumps(table.to_json(), allow_nan=False))) == table
        assert table.models(1) == ["kriging", "climatology"]
        for variable in ("u", "v"):
            assert {score.region for score in table.select(variable=variable)} == regions
        out = tmp_path / f"scores-{len(regions)}"
        figures = {path.name for path in write_scores(table, maps, store, known, out)}
        assert figures == {"maps-1.png", "maps-2.png", "calibration-1.png", "calibration-2.png"}
        assert all((out / name).is_file() for name in figures)


def test_a_new_metric_is_printed_and_reported(tmp_path, store, truth, monkeypatch, capsys) -> None:
    """One function and one line: it is in the JSON, in the printed table and in the report."""
    monkeypatch.setitem(METRICS, "bias", Metric("bias", lambda m: m.mean(m.error), "bias of the mean", power=1))
    run = fitted_run(tmp_path / "run", store, "climatology")
    maps = predict_examples(run, store, store.split("test"), members=20)
    table = evaluate(maps, store, truth, rivals=())
    error = maps["u"].mean("member").values[:, 0] - truth_targets(store, store.split("test"), truth).values.reshape(
        -1, *store.grid.shape
    )
    assert table.one(region="grid")["bias"].mean == pytest.approx(error.mean(), rel=1e-4)
    assert "bias" in table.to_json()["scores"][0]["metrics"]
    print_table(table)
    assert "bias of the mean" in capsys.readouterr().out
    findings = evaluate_run(run, store, rivals=(), members=20)
    assert "bias of the mean" in page(findings.table, findings.verdict, [], "")


def test_a_rival_sees_training_examples_only(dated, tmp_path) -> None:
    """Readings of no training example may be anything: the fit is the same."""
    frames, train = dated_frames(), dated.split("train")
    taught = np.zeros((len(frames.values), H * W), dtype=bool)
    for side in ("source", "target"):
        rows, cells, _ = dated.readings_of(side, train)
        taught[dated.columns[f"frame_{side}"][train][rows], cells] = True
    wild = np.where(taught.reshape(-1, 1, H, W), frames.values, frames.values + np.float32(1e6))
    other = dated_store(tmp_path / "pairs", frames=replace(frames, values=wild))
    test = dated.batch(dated.split("test")).target.values
    assert not test.equal(other.batch(other.split("test")).target.values)
    first, second = (
        fit_rival("climatology", store, Scaling.fit(store, store.split("train"))).state_dict()
        for store in (dated, other)
    )
    assert all(first[name].equal(second[name]) for name in first)


def test_trees_are_fitted_once_and_a_forest_draws_what_was_read_in_training(dated) -> None:
    forest, boosting = closed_forms(["forest", "boosting"], dated)
    assert forest.model.trees is boosting.model.trees
    test = dated.split("test")
    some = test[dated.columns["lead"][test] == 1][:3]
    maps = draw_maps(forest, dated, some, members=7)
    _, _, values = dated.readings_of("target", dated.split("train"))
    assert maps.shape == (7, 3, 1, 1, *dated.grid.shape)
    assert np.abs(maps.reshape(-1, 1) - values).min(1).max() < 1e-4 * np.abs(values).max()
    targets = reading_targets(dated, some, np.zeros((1, *dated.grid.shape), bool))
    judged = draw_targets(forest, dated, [targets], members=7).members[0]  # the cells that are judged, and no map
    assert judged.shape == (7, len(targets.scene))
    assert np.abs(judged.reshape(-1, 1) - values).min(1).max() < 1e-4 * np.abs(values).max()
    mean = draw_targets(boosting, dated, [targets], members=200).members[0].mean(0)
    whole = targets.take(draw_maps(boosting, dated, some, members=200)[:, :, 0])[1].mean(0)
    np.testing.assert_allclose(mean, whole, rtol=0.1)


def test_only_closed_forms_can_be_fitted_as_rivals(dated) -> None:
    scaling = Scaling.fit(dated, dated.split("train"))
    with pytest.raises(SolidError, match="has to be trained"):
        fit_rival("unet", dated, scaling)
    (nearest,) = closed_forms(["nearest"], dated)
    one = draw_maps(nearest, dated, dated.split("test")[:3], members=7)
    assert one.shape == (1, 3, 1, 1, *dated.grid.shape)  # members of a point forecast are alike: one says it all
