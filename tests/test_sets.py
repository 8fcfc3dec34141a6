"""The model of sets from readings to answers: the front door, and what its answers may and may not depend on."""

import copy
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from typer.testing import CliRunner

import solidfield as sf
from solidfield.cli import app
from solidfield.config import TrainConfig
from solidfield.engine import Engine
from solidfield.errors import SolidError
from solidfield.models.set_encoder import TOGETHER, Blur, Network, _in_pieces
from solidfield.models.solid_set import SolidSet
from solidfield.models.stretch import KINDS, SLIMMEST, UNREAD_KINDS, WIDEST, kind_of
from solidfield.pairs.frames import as_frames
from solidfield.pairs.records import record_of
from solidfield.prediction import shares
from solidfield.prediction.at_hand import recalibrated
from solidfield.prediction.sets import standard_record
from solidfield.questions.drawing import Plan, draw
from solidfield.scores.metrics import law_crps
from solidfield.theory.disagreement import LocalSpread
from solidfield.training.lessons import QuestionTask
from solidfield.training.record import RunRecord
from solidfield.training.sets import best_transforms, train_sets

HOURS, SHAPE = 144, (3, 4)
KNOWN = [place for place in range(len(KINDS)) if place not in UNREAD_KINDS]
AS_IT_IS = Plan(
    leads=(1, 2), fill=0.5, now=0.2, ahead=0.3, sparse=0.0, sparse_unread=0.0, silent=0.0, outage=0.0, as_was=0.0
)


def readings(seed: int = 0) -> xr.DataArray:
    """A positive field that moves slowly, read at half of the cells, with two hours in which nobody was."""
    generator = np.random.default_rng(seed)
    walk = np.cumsum(generator.normal(0, 0.1, (HOURS, 1, 1)), 0) + generator.normal(0, 0.05, (HOURS, *SHAPE))
    values = np.exp(2 + walk).astype(np.float32)
    values[generator.random(values.shape) < 0.5] = np.nan
    values[50:52] = np.nan
    values[:, 0, 0] = np.nan  # a cell that is never read
    times = np.datetime64("2024-01-01", "ns") + np.arange(HOURS) * np.timedelta64(3600, "s")
    return xr.DataArray(values, {"time": times, "lat": [0.0, 0.1, 0.2], "lon": [0.0, 0.1, 0.2, 0.3]}, name="pm")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> sf.Run:
    folder = tmp_path_factory.mktemp("sets") / "run"
    with pytest.MonkeyPatch.context() as patch:  # a prior of a few steps: these laws do not need a good one
        patch.setattr("solidfield.models.solid_set.SolidSet.prepare", _hurried(SolidSet.prepare))
        return sf.fit(readings(), folder, model="solid-set", preset="smoke", transform="sqrt")


def _hurried(prepare):
    return lambda self, lessons, spacing, places, steps=0: prepare(self, lessons, spacing, places, 6)


@pytest.mark.parametrize(
    ("name", "units", "crps", "best"),
    [
        ("pm", "ug/m3", {"none": 0.300, "sqrt": 0.290, "log": 0.280}, "log"),
        ("noise", "dB", {"none": 0.300, "sqrt": 0.299, "log": 0.298}, "none"),  # by less than one in a hundred
        ("air_temp", "degC", {"none": 0.300, "sqrt": 0.200, "log": 0.100}, "none"),  # frost may come
        ("air_temp", "K", {"none": 0.300, "sqrt": 0.200, "log": 0.250}, "sqrt"),
    ],
)
def test_a_transform_has_to_be_better_and_possible_at_other_times(monkeypatch, name, units, crps, best):
    frames = as_frames(readings().rename(name).assign_attrs(units=units), None, None)
    record = record_of(frames, None, None, sf.Holdout())
    monkeypatch.setattr("solidfield.training.sets._prior_crps", lambda record, task, size: torch.tensor([crps[task]]))
    chosen, why = best_transforms(record, lambda transforms: transforms[0], {})
    assert (chosen, len(why)) == ((best,), 1)


def test_a_transform_is_chosen_by_krigings_own_spread(monkeypatch, tmp_path):
    """The rival has no other: whatever spreads follow readings, the choice and what is said of it are the same."""
    frames = as_frames(readings(), None, None)
    monkeypatch.setattr(SolidSet, "prepare", _hurried(SolidSet.prepare))
    monkeypatch.setattr("solidfield.training.sets.train_task", lambda *words, **options: None)
    config = TrainConfig(steps=6, seed=0)

    def said(spread: float) -> list[str]:
        monkeypatch.setattr(LocalSpread, "fit", lambda self, targets: self.told.fill_(spread))
        words: list[str] = []
        train_sets(frames, tmp_path / "run", config, {}, leads=(1,), holdout=sf.Holdout(), say=words.append)
        return [line for line in words if "CRPS" in line]

    assert said(0.0) == said(2.0) != []


def test_a_run_comes_back_as_it_was_trained(run):
    again = RunRecord.open(run.path)
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_a_forecast_is_the_same_bits_whatever_the_future_holds(run):
    frames = readings()
    poisoned = frames.copy()
    poisoned[101:] = np.where(np.isfinite(frames[101:]), 1e7, np.nan)
    at = frames["time"].values[100]
    with np.errstate(over="ignore"):
        maps = [run.forecast(f, members=4, steps=3, at=at) for f in (frames, poisoned)]
    xr.testing.assert_identical(maps[0]["pm"], maps[1]["pm"])


def test_a_map_knows_what_came_later_unless_told_not_to(run):
    frames = readings()
    changed = frames.copy()
    changed[102:] = changed[102:] * 2
    at = frames["time"].values[100]
    both = [run.reconstruct(f, members=4, at=at)["pm"] for f in (frames, changed)]
    past = [run.reconstruct(f, members=4, at=at, past_only=True)["pm"] for f in (frames, changed)]
    xr.testing.assert_identical(*past)
    assert not both[0].equals(both[1])


def test_a_map_is_the_same_whatever_the_members_and_the_seed(run):
    frames = readings()
    at = frames["time"].values[100]
    maps = [run.reconstruct(frames, members=k, seed=seed, at=at) for k, seed in ((3, 0), (40, 0), (3, 7))]
    bare = run.reconstruct(frames, members=3, at=at, keep_members=False)
    for name in ("pm_mean", "pm_std", "pm_q05", "pm_q95"):
        for other in (*maps[1:], bare):
            xr.testing.assert_allclose(maps[0][name], other[name], rtol=1e-5)
        assert "of the law" in maps[0][name].attrs["long_name"]
    assert not maps[0]["pm"].equals(maps[2]["pm"])
    read = np.isfinite(frames.values[100])
    np.testing.assert_allclose(maps[0]["pm_mean"].values[0, 0][read], frames.values[100][read], rtol=1e-6)
    assert (maps[0]["pm_std"].values[0, 0][read] == 0).all()
    assert (maps[0]["pm_std"].values[0, 0][~read] > 0).all()


def test_assimilation_is_the_window_moving_on(run):
    frames = readings()
    times = frames["time"].values
    course = run.assimilate(frames, members=4, since=times[90], until=times[94], steps=2)
    read = course["read"].values[0].astype(bool)  # (L, H, W)
    for lead in range(4):
        given = np.isfinite(frames.values[91 + lead])
        assert (read[lead] == given).all()
        values = course["pm"].values[:, 0, lead][:, given]
        np.testing.assert_allclose(values, np.broadcast_to(frames.values[91 + lead][given], values.shape), rtol=1e-4)
    assert not read[4:].any()
    # Its last two maps know what a forecast from there knows: the same laws, other members.
    ahead = run.forecast(frames, members=400, steps=2, at=times[94])
    course = run.assimilate(frames, members=400, since=times[93], until=times[94], steps=2)
    assert np.allclose(course["pm_mean"].values[0, 1:], ahead["pm_mean"].values[0], rtol=0.03)


def test_leads_are_those_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("solidfield.models.solid_set.SolidSet.prepare", _hurried(SolidSet.prepare))
    options = {"model": "solid-set", "preset": "smoke", "transform": "sqrt", "steps": 6}
    assert sf.fit(readings(), tmp_path / "a", ahead="3h", **options).info["data"]["leads"] == [0, 1, 2, 3]
    with pytest.raises(SolidError, match="give one of them"):
        sf.fit(readings(), tmp_path / "b", ahead="3h", leads=(1,), **options)


def test_limits_given_by_hand_hold_for_readings_and_for_models_that_know_them(tmp_path):
    with pytest.raises(SolidError, match="does nothing for model 'kriging'"):
        sf.fit(readings(), tmp_path / "a", model="kriging", preset="smoke", within={"pm": (0.0, None)})
    with pytest.raises(SolidError, match="lie outside"):
        sf.fit(readings(), tmp_path / "b", model="solid-set", preset="smoke", within={"pm": (0.0, 1.0)})


def test_a_filled_record_has_every_hour_and_leaves_readings_alone(run):
    frames = readings()
    filled = run.fill(frames, members=20)
    cells = int(np.isfinite(frames.values).any(0).sum())
    assert len(filled) == HOURS * cells
    given = filled[~filled["filled"]]
    assert np.array_equal(np.sort(given["value"]), np.sort(frames.values[np.isfinite(frames.values)]))
    gaps = filled[filled["filled"]]
    assert np.isfinite(gaps[["value", "low", "high"]]).all(axis=None)
    assert (gaps["low"] <= gaps["value"]).all()
    assert (gaps["value"] <= gaps["high"]).all()
    empty = gaps[gaps["time"].isin(frames["time"].values[50:52])]
    assert len(empty) == 2 * cells  # hours without any reading are answered


def test_members_of_a_filled_record_are_those_of_the_seed(run):
    columns = [f"member_{k}" for k in range(20)]
    one, again, other = (run.fill(readings(), 20, seed, keep_members=True) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(one[columns], again[columns])
    assert not one["member_0"].equals(other["member_0"])


def test_values_of_no_other_split_reach_training(tmp_path):
    """Held-out days replaced by anything leave the standardised training readings as they are."""
    frames = as_frames(readings())
    holdout = sf.Holdout(days=3, day_offset=1, validation_days=0, timezone="UTC")
    record = record_of(frames, holdout=holdout)
    train = record.of_split("train")
    spoiled = frames.values.copy()
    spoiled[np.isin(np.arange(HOURS), np.flatnonzero(record.split == 2)[:, None])] *= 7
    other = record_of(type(frames)(**{**vars(frames), "values": spoiled}), holdout=holdout)
    assert np.array_equal(record.values[train], other.values[train])
    assert not np.array_equal(record.values, other.values)


def test_more_members_than_fit_are_refused_at_once(run):
    with pytest.raises(SolidError, match="GiB"):
        run.fill(readings(), members=10**9)


def test_what_a_model_cannot_do_is_said(run, tmp_path):
    with pytest.raises(SolidError, match="between 0 and 1"):
        run.reconstruct(readings(), members=2, at="last", quantiles=(1.2,))
    with pytest.raises(SolidError, match="members is 0"):
        run.reconstruct(readings(), members=0, at="last")
    with pytest.raises(SolidError, match="learned leads up to 6, not 7"):
        run.forecast(readings(), members=2, steps=7, at="last")
    other = sf.fit(readings(), tmp_path / "run", model="climatology", preset="smoke")
    with pytest.raises(SolidError, match="cannot fill"):
        other.fill(readings())
    for options in ({"offset": 1.0}, {"holdout": {"calibration": 0.1}}):
        with pytest.raises(SolidError, match="does nothing for model 'solid-set'"):
            sf.fit(readings(), tmp_path / "b", model="solid-set", preset="smoke", **options)


def test_the_command_line_fills_from_and_into_csv_and_parquet_alike(run, tmp_path):
    table = readings().to_dataframe().dropna().reset_index()
    table["sensor"] = [f"{lat:.1f}/{lon:.1f}" for lat, lon in zip(table["lat"], table["lon"], strict=True)]
    table.to_csv(tmp_path / "pm.csv", index=False)
    table.to_parquet(tmp_path / "pm.parquet")
    for ending in ("csv", "parquet"):
        words = ["fill", str(run.path), str(tmp_path / f"pm.{ending}"), "--out", str(tmp_path / f"filled.{ending}")]
        answer = CliRunner().invoke(app, [*words, "--members", "20", "--json"])
        assert answer.exit_code == 0, answer.output
        counts = json.loads(answer.stdout)
    written = pd.read_csv(tmp_path / "filled.csv", parse_dates=["time"])
    assert counts["filled"] == int(written["filled"].sum())
    assert counts["given"] == len(table)
    columns = pd.read_parquet(tmp_path / "filled.parquet")
    assert columns["time"].dtype.kind == "M"
    pd.testing.assert_frame_equal(columns, written, check_dtype=False, rtol=1e-6)
    assert (written["sensor"] == [f"{y:.1f}/{x:.1f}" for y, x in written[["lat", "lon"]].to_numpy()]).all()


@pytest.mark.parametrize("recalibrate", [False, True])
def test_the_command_line_predicts_what_the_run_does(run, tmp_path, recalibrate):
    readings().to_dataframe().dropna().reset_index().to_csv(tmp_path / "pm.csv", index=False)
    words = ["--at", "2024-01-05T08:00", "--steps", "2", "--members", "4", "--out", str(tmp_path / "maps.nc")]
    words += ["--recalibrate"] if recalibrate else []
    answer = CliRunner().invoke(app, ["predict", str(run.path), str(tmp_path / "pm.csv"), *words])
    assert answer.exit_code == 0, answer.output
    options = {"at": "2024-01-05T08:00", "steps": 2, "members": 4, "recalibrate": recalibrate}
    maps = run.forecast(run.read(tmp_path / "pm.csv"), **options)
    np.testing.assert_array_equal(sf.open_maps(tmp_path / "maps.nc")["pm"], maps["pm"])


def test_a_cluster_draws_the_same_bits_by_time_and_by_place(run, monkeypatch, tmp_path):
    """Of many times each is a task; of one time, parts of its map are. They travel as bytes, or into a store."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("solidfield.prediction.answer.TILE", 2)
    frames, steps = readings(), {"members": 5, "steps": 2}
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "protocol": "tcp"}
    with distributed.LocalCluster(dashboard_address=None, **options) as cluster:
        engine = Engine("dask", 3, cluster.scheduler_address)
        for at in (frames["time"].values[[60, 80, 100]], "last"):
            here, there = (run.forecast(frames, at=at, engine=one, **steps) for one in (Engine(), engine))
            xr.testing.assert_identical(here, there)
        in_store = run.forecast(frames, at=at, engine=engine, out=tmp_path / "maps.zarr", **steps)
        xr.testing.assert_equal(in_store["pm"], here["pm"])
        xr.testing.assert_equal(in_store["pm_q95"], here["pm_q95"])
    assert shares._parts([4, 4, 4, 4], 1, 2) == [(0, 2), (2, 4)]
    assert shares._parts([9, 1], 1, 5) == [(0, 1), (1, 2)]
    assert shares._parts([4, 4], 3, 2) == [(0, 2)]


SHARED = """
import sys, test_sets, torch, solidfield as sf
from solidfield.models.solid_set import SolidSet
from solidfield.training import lessons
torch.set_num_threads(1)
SolidSet.prepare, lessons.FEWEST_QUESTIONS = test_sets._hurried(SolidSet.prepare), 100
drawn = lessons.QuestionTask.batch
def batch(task, step, rank, processes, model):
    lesson = drawn(task, step, rank, processes, model)
    with open(f"{sys.argv[1]}-{rank}", "a") as file:
        print(len(lesson.values), float(lesson.values.sum()), file=file)
    return lesson
lessons.QuestionTask.batch = batch
options = {"preset": "smoke", "transform": "sqrt", "steps": 3, "settings": ["train.warmup=0"]}
sf.fit(test_sets.readings(), sys.argv[1], model="solid-set", **options)
"""


def test_two_processes_by_torchrun_share_the_questions_of_readings(tmp_path):
    """Each draws half of a step's questions, others than the other's; one run comes of it, which answers."""
    script, out = tmp_path / "shared.py", tmp_path / "run"
    script.write_text(SHARED)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, script, out], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    shares = [np.loadtxt(f"{out}-{rank}") for rank in (0, 1)]  # (steps, 2): questions, and the sum of their answers
    run = sf.load(out)
    assert run.info["processes"] == 2
    for share in shares:
        assert (share[:, 0] == run.info["train"]["batch"] // 2).all()
    assert (shares[0][:, 1] != shares[1][:, 1]).all()
    assert np.isfinite(run.reconstruct(readings(), members=2)["pm"].values).all()


def test_pairs_of_readings_are_not_written_by_several_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SolidError, match="solid-set"):
        sf.fit(readings(), tmp_path / "run", model="climatology", preset="smoke")


def test_training_cannot_tell_an_unread_place_by_its_neighbours():
    """Blurred rows keep distances' proportions and the order of weights' signs; other rows are as they are."""
    torch.manual_seed(0)
    away, weight = torch.randn(400, 5, 2), torch.randn(400, 5)
    rows = torch.arange(400) % 2 == 0
    told, vague = Blur(rows, torch.Generator().manual_seed(1)).of(away, weight)
    assert torch.equal(told[~rows], away[~rows])
    assert torch.equal(vague[~rows], weight[~rows])
    before, after = away[rows].norm(dim=-1), told[rows].norm(dim=-1)
    zoom = after / before
    torch.testing.assert_close(zoom, zoom[:, :1].expand_as(zoom))  # one scale a target
    assert abs(float(zoom[:, 0].log().std()) - 0.5) < 0.08
    inner = lambda x: x @ x.mT  # noqa: E731
    torch.testing.assert_close(inner(told[rows]), inner(away[rows]) * zoom[:, :1, None].square())  # turned or mirrored
    assert torch.equal(vague[rows].sign(), weight[rows].sign())
    assert abs(float((vague / weight)[rows].log().std()) - 0.5) < 0.05


def season(rough: float) -> xr.DataArray:
    """The same walk with `rough` times the steps from cell to cell."""
    frames = readings()
    level = frames.mean(("lat", "lon"))
    return (level + rough * (frames - level)).clip(0.1).astype(np.float32).where(np.isfinite(frames))


@pytest.mark.parametrize("rough", [0.3, 5.0])
def test_laws_hold_their_share_of_the_readings_at_hand(run, rough):
    """Of a season much smoother or rougher than training's."""
    record = standard_record(run, as_frames(season(rough)))
    fitting = recalibrated(run.model, record, AS_IT_IS)
    fresh = draw(record, np.arange(len(record.cells)), 2000, AS_IT_IS, "test", torch.Generator().manual_seed(5))
    kind = kind_of(fresh.questions, run.model.placed(fresh.questions))
    edges = torch.tensor([[-1.6449], [1.6449]])
    missed = []
    for model in (run.model, fitting):
        low, high = model.quantiles(fresh.questions, edges)
        inside = ((fresh.values >= low) & (fresh.values <= high)).float()
        missed.append(abs(float(inside[torch.isin(kind, torch.tensor(KNOWN))].mean()) - 0.9))
    assert missed[1] < 0.5 * missed[0]


def test_laws_keep_to_the_prior_where_readings_at_hand_say_that_the_network_errs(run):
    record = standard_record(run, as_frames(readings()))
    erring = copy.deepcopy(run.model)
    with torch.no_grad():
        for last in erring.law.last:
            last.bias.view(1, -1, 3)[..., 1] += 3.0  # deviations of kriging's law
    fitting = recalibrated(erring, record, AS_IT_IS)
    windows = len(np.unique(record.frames)) / AS_IT_IS.before
    torch.testing.assert_close(fitting.departure[0, KNOWN], torch.full((len(KNOWN),), 1 / (windows + 1)))
    assert torch.equal(fitting.departure[0, UNREAD_KINDS], erring.departure[0, UNREAD_KINDS])
    lesson = draw(record, np.arange(len(record.cells)), 500, AS_IT_IS, "test", torch.Generator().manual_seed(5))
    rows = torch.isin(fitting.kind(lesson), torch.tensor(KNOWN))
    levels = torch.special.ndtri((torch.arange(99) + 0.5) / 99)[:, None]
    crps = [
        law_crps(model.quantiles(lesson.questions, levels).numpy(), lesson.values.numpy())[rows.numpy()].mean()
        for model in (erring, fitting)
    ]
    assert crps[1] < 0.5 * crps[0]


def test_unread_places_widen_as_the_prior_does(run):
    record = standard_record(run, as_frames(season(3.0)))
    fitting = recalibrated(run.model, record, AS_IT_IS)
    wider = fitting.prior_stretch / run.model.prior_stretch
    expected = (run.model.stretch * wider)[0, UNREAD_KINDS].clamp(SLIMMEST, WIDEST)
    torch.testing.assert_close(fitting.stretch[0, UNREAD_KINDS], expected)


def test_the_run_itself_stays_as_it_was_trained(run):
    before = run.model.stretch.clone()
    frames, at = season(3.0), readings()["time"].values[100]
    maps = run.reconstruct(frames, members=4, at=at, recalibrate=True)
    assert "stretched as the readings given ask" in maps.attrs["notes"]
    assert torch.equal(run.model.stretch, before)
    plain = run.reconstruct(frames, members=4, at=at)
    assert float(maps["pm_std"].mean()) > float(plain["pm_std"].mean())


def test_maps_long_after_training_say_how_far_what_is_usual_counts(run, monkeypatch):
    monkeypatch.setitem(run.model._buffers, "usual", torch.full_like(run.model.usual, 0.5))
    monkeypatch.setitem(run.model._buffers, "lasting", torch.full_like(run.model.lasting, 100 * 3600.0))
    frames = readings()
    later = frames.assign_coords(time=frames["time"] + np.timedelta64(HOURS + 200, "h"))
    soon, late = (f["time"].values[143] for f in (frames, later))
    assert "usual" not in run.reconstruct(frames, members=4, at=soon).attrs.get("notes", "")
    notes = run.reconstruct(later, members=4, at=late).attrs["notes"]
    last = run.model.taught[1] - pd.Timestamp(frames["time"].values[0]).timestamp()
    lapse = HOURS + 200 + 143 - float(last) / 3600
    assert f"counts for {100 * np.exp(-((lapse / 100) ** 2) / 2):.0f} %" in notes
    assert "notes" not in run.fill(frames, members=4).attrs
    assert "was usual at places in training counts for" in run.fill(later, members=4).attrs["notes"]


def test_a_forecast_is_recalibrated_by_nothing_later(run):
    frames = readings()
    changed = frames.copy()
    changed[101:] = changed[101:] * 3
    at = frames["time"].values[100]
    maps = [run.forecast(f, members=4, steps=2, at=at, recalibrate=True)["pm"] for f in (frames, changed)]
    xr.testing.assert_identical(*maps)


def test_too_few_readings_change_nothing(run):
    record = standard_record(run, as_frames(readings()[:10]))
    assert recalibrated(run.model, record, AS_IT_IS) is run.model
    maps = run.forecast(readings()[:10], members=4, recalibrate=True, at="last")
    assert "laws as in training" in maps.attrs["notes"]
    xr.testing.assert_identical(maps["pm"], run.forecast(readings()[:10], members=4, at="last")["pm"])


def test_a_record_filled_from_the_past_is_not_recalibrated_by_the_future(run):
    with pytest.raises(SolidError, match="leave recalibrate or past_only out"):
        run.fill(readings(), members=4, past_only=True, recalibrate=True)


def test_features_in_pieces_are_those_of_the_whole():
    """Without gradients a network reads TOGETHER targets at a time; with them all at once."""
    torch.manual_seed(0)
    network, count = Network(5, 3, 8, 2, 2), 2 * TOGETHER + 7
    told = torch.randn(count, 6, 5), torch.randn(count, 3), torch.rand(count, 6) < 0.7
    sizes = []
    network.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    whole = _in_pieces(network, *told)
    with torch.no_grad():
        pieces = _in_pieces(network, *told)
    assert sizes == [count, TOGETHER, TOGETHER, 7]
    torch.testing.assert_close(pieces, whole.detach())


@pytest.mark.parametrize(("steps", "questions"), [(3, 2000), (75, 4000), (150, 8000), (5000, 8000)])
def test_a_short_training_is_calibrated_by_fewer_questions(steps, questions):
    config = types.SimpleNamespace(steps=steps, minutes=None)
    assert QuestionTask(None, None, None, config, {}).questions == questions
