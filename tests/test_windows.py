"""Windows: the frames before a source are those that were read then, stored once, and nothing later or hidden."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from solidfield.errors import SolidError
from solidfield.experiments.bench import gaussian_window
from solidfield.fields import Source, Window
from solidfield.keys import torch_generator
from solidfield.models import MODELS, build
from solidfield.models import window_prior as prior_file
from solidfield.models.window_prior import WindowPrior
from solidfield.noise import MemberNoise
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import PairStore
from solidfield.prediction.ensemble import rollout
from solidfield.run import load
from solidfield.theory.covariance import TorusCovariance
from solidfield.theory.spacetime import SpaceTime
from solidfield.theory.trajectory_copula import TrajectoryCopula, TrajectoryLatents
from solidfield.training.augment import roll, thin
from solidfield.training.loop import train
from solidfield.training.record import RunRecord
from solidfield.worlds.scenarios import Scenario, as_dict, scenario_masks

LEADS = (-1, 0, 1, 2)
FRAMES = 12


def windowed(path: Path, truth: tiny.TinyTruth | None = None) -> PairStore:
    return tiny.tiny_store(path, truth or tiny.TinyTruth.make(frames=FRAMES), leads=LEADS, window=3)


def test_a_window_is_the_restriction_of_the_frames_before(tmp_path):
    truth = tiny.TinyTruth.make(frames=FRAMES)
    store = windowed(tmp_path / "pairs", truth)
    source = store.batch(np.arange(len(store))).source
    assert source.window is not None
    columns = store.columns
    for e in range(0, len(store), 7):
        trajectory, frame = int(columns["trajectory"][e]), int(columns["frame_source"][e])
        for back in (1, 2):
            before = frame - 2 * back
            mask = np.zeros((8, 8), bool)
            if before >= 0:
                scenario = as_dict(Scenario(amount=0.3))
                mask = scenario_masks(**scenario, shape=(8, 8), index=trajectory * FRAMES + before, seed=0)[0]
            assert torch.equal(source.window.mask[e, back - 1, 0], torch.from_numpy(mask))
            expected = np.where(mask, truth.fields[trajectory, before, 0], 0)
            np.testing.assert_array_equal(source.window.values[e, back - 1, 0], expected)


def test_every_frame_is_stored_once_whatever_the_leads_and_the_window(tmp_path):
    store, plain = (
        windowed(tmp_path / "window"),
        tiny.tiny_store(tmp_path / "plain", tiny.TinyTruth.make(frames=FRAMES)),
    )
    frames = np.unique(np.stack([store.columns["trajectory"], store.columns["frame_source"]]), axis=1).shape[1]
    per_frame = plain.attributes["readings"]["source"] // len(plain)
    assert store.attributes["readings"]["source"] == frames * per_frame
    assert len(store) > 3 * frames
    assert set(store.leads) == set(LEADS)


@pytest.mark.parametrize("poison", [1e30, math.nan])
def test_what_no_window_shows_and_what_comes_later_changes_no_bit(tmp_path, poison):
    truth = tiny.TinyTruth.make(frames=FRAMES)
    store = windowed(tmp_path / "clean", truth)
    seen = np.zeros(truth.fields.shape, bool)
    for side in ("source", "target"):
        for e in range(len(store)):
            where = store.columns["trajectory"][e], store.columns[f"frame_{side}"][e]
            seen[where].reshape(-1)[store.readings_of(side, [e])[1]] = True
    other = windowed(tmp_path / "poisoned", tiny.TinyTruth(np.where(seen, truth.fields, np.float32(poison))))
    assert store.fingerprint == other.fingerprint
    # A forecast from frame 4 knows nothing of frame 5 and later, whatever they hold.
    late = truth.fields.copy()
    late[:, 5:] = 7.0
    future = windowed(tmp_path / "future", tiny.TinyTruth(late))
    now = np.flatnonzero((store.columns["frame_source"] == 4) & (store.columns["lead"] > 0))
    sources = [s.batch(now).source for s in (store, future)]
    for a, b in zip(vars(sources[0].frames).values(), vars(sources[1].frames).values(), strict=True):
        assert torch.equal(a, b)


@pytest.fixture
def brief(monkeypatch):
    """Fits of a few steps: enough where only equality is asked for."""
    monkeypatch.setattr(WindowPrior, "fit", partialmethod(WindowPrior.fit, steps=3))
    monkeypatch.setattr(TrajectoryCopula, "fit", partialmethod(TrajectoryCopula.fit, steps=3))


def test_training_with_a_window_is_bit_identical_on_poisoned_truth(tmp_path, brief):
    truth = tiny.TinyTruth.make(frames=FRAMES)
    clean = windowed(tmp_path / "clean", truth)
    seen = np.zeros(truth.fields.shape, bool)
    for side in ("source", "target"):
        for e in range(len(clean)):
            where = clean.columns["trajectory"][e], clean.columns[f"frame_{side}"][e]
            seen[where].reshape(-1)[clean.readings_of(side, [e])[1]] = True
    poisoned = windowed(tmp_path / "poisoned", tiny.TinyTruth(np.where(seen, truth.fields, np.float32(1e30))))
    weights = []
    for name, store in (("a", clean), ("b", poisoned)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build("solid", store.spec(), {"size": "smoke"})
        train(model, store, tmp_path / name, tiny.tiny_config(steps=4, thin=0.5), {"size": "smoke"})
        weights.append(RunRecord.open(tmp_path / name).model.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_rolling_scaling_and_thinning_treat_the_window_as_they_treat_the_source(tmp_path):
    pair = windowed(tmp_path / "pairs").batch(np.arange(20))
    window = pair.source.window
    assert window is not None
    same = Source(pair.source.values, pair.source.mask, pair.source.lead, None, Window(*_as_window(pair.source)))
    moved = roll(type(pair)(same, pair.target), (1, 1), torch_generator(0)).source
    assert moved.window is not None
    assert torch.equal(moved.window.values[:, 0], moved.values)
    standard = Scaling((3.0,), (5.0,)).standardise(same)
    assert standard.window is not None
    assert torch.equal(standard.window.values[:, 0], standard.values)
    fewer = thin(pair.source, 1.0, 0.5, torch_generator(1)).window
    assert fewer is not None
    assert not (fewer.mask & ~window.mask).any()
    assert 0.6 < fewer.mask.sum() / window.mask.sum() < 0.9  # 1 - E[share] = 0.75
    assert not fewer.values[~fewer.mask].any()


def _as_window(source: Source) -> tuple[torch.Tensor, torch.Tensor]:
    return source.values[:, None], source.mask[:, None]


def test_what_was_read_then_is_the_frame_that_is_asked_for():
    frames = torch.arange(1.0, 4.0)[None, :, None, None, None].expand(4, 3, 1, 2, 2)
    mask = torch.ones_like(frames, dtype=torch.bool)
    lead = torch.tensor([0.0, -1.0, -2.0, 1.0])
    read = Source(frames[:, 0], mask[:, 0], lead, None, Window(frames[:, 1:], mask[:, 1:])).read_then()
    assert read.values[:, 0, 0, 0].tolist() == [1, 2, 3, 0]
    assert read.mask.all((1, 2, 3)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("stylegan3", "inr-gan")])
def test_every_network_reads_the_window_and_the_lead(tmp_path, name):
    store = windowed(tmp_path / "pairs")
    pair = Scaling.fit(store, store.split("train")).standardise(store.batch(store.split("train")[:6]))
    model = build(name, store.spec(), {"size": "smoke"})
    if model.family == "classical":
        pytest.skip("closed forms read the source alone")
    loss = model.loss(pair, torch_generator(0))
    loss.backward()
    assert torch.isfinite(loss)
    narrow = Source(pair.source.values, pair.source.mask, pair.source.lead)
    with pytest.raises(SolidError, match="window of 3"):
        model.sample(narrow, 1, MemberNoise(0, range(6), range(1)))


def test_a_rollout_moves_its_window_on():
    """A model that answers with the oldest frame it knows repeats what it was given, and then itself."""

    class Oldest(tiny.Point):
        def sample(self, source, members, noise):
            assert source.window is not None
            return source.window.values[:, -1].expand(members, *source.values.shape)

    frames = torch.arange(1.0, 4.0)[None, :, None, None, None].expand(1, 3, 1, 2, 2)
    mask = torch.ones_like(frames, dtype=torch.bool)
    source = Source(frames[:, 0], mask[:, 0], torch.ones(1), None, Window(frames[:, 1:], mask[:, 1:]))
    spec = tiny.Spec(tiny.Grid((2, 2)), window=3)
    states = rollout(Oldest(spec), source, MemberNoise(0, [0], range(2)), steps=5)
    assert states[1, 0, :, 0, 0, 0].tolist() == [3, 2, 1, 3, 2]


def a_source(shape=(6, 8), leads=(2.0,), window=3, channels=1, density=0.2, seed=0) -> Source:
    generator = torch_generator(seed)
    size = (len(leads), window, channels, *shape)
    mask = torch.rand(size, generator=generator) < density
    frames = Window.of(torch.randn(size, generator=generator), mask)
    earlier = frames.map(lambda part: part[:, 1:])
    return Source(frames.values[:, 0], mask[:, 0], torch.tensor(leads), None, earlier)


def conditioned(covariance: SpaceTime, known: torch.Tensor, asked: torch.Tensor, error: float):
    """Gain and covariance of a Gaussian field at `asked`, given readings at `known`, by brute force."""
    places = torch.cat([known, asked])
    joint = covariance(places[None] - places[:, None]).double()
    n = len(known)
    gain = joint[n:, :n] @ torch.linalg.inv(joint[:n, :n] + error * torch.eye(n))
    return gain, joint[n:, n:] - gain @ joint[:n, n:]


@pytest.mark.parametrize("periodic", [True, False])
def test_with_all_readings_the_prior_is_the_law_of_the_joint_normal(monkeypatch, periodic):
    monkeypatch.setattr(prior_file, "NEAREST", 500)
    monkeypatch.setattr(prior_file, "TILE", 4)
    grid = tiny.Grid((6, 8), periodic=(periodic, periodic))
    prior = WindowPrior(tiny.Spec(grid, window=3), obs_std=0.1)
    with torch.no_grad():
        prior.covariance[0].drift.fill_(0.7)
    source = a_source(leads=(2.0, 0.0, -1.0))
    mean, std = prior(source)
    every = torch.cartesian_prod(torch.zeros(1, dtype=torch.long), torch.arange(6), torch.arange(8))
    covariance = prior.covariance[0]
    for b, lead in enumerate((2, 0, -1)):
        back, y, x = source.frames.mask[b, :, 0].nonzero(as_tuple=True)
        known = torch.stack([-back - lead, y, x], 1)
        gain, left = conditioned(covariance, known, every, 0.01 + float(covariance.nugget))
        values = source.frames.values[b, back, 0, y, x].double()
        torch.testing.assert_close(mean[b, 0].flatten(), (gain @ values).float(), rtol=1e-3, atol=1e-4)
        expected = (left.diagonal() + float(covariance.nugget) + 0.02**2).sqrt()
        torch.testing.assert_close(std[b, 0].flatten(), expected.float(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("periodic", [True, False])
def test_members_of_several_leads_have_the_joint_law_of_the_field_given_the_window(periodic):
    grid = tiny.Grid((4, 6), periodic=(periodic, periodic))
    copula = TrajectoryCopula(grid, 1, (1.0, 1.0)).requires_grad_(False)
    with torch.no_grad():
        copula.covariance.drift.fill_(0.4)
        copula.covariance.reach.clamp_(max=math.log(1.5))  # so that the box, twice as large, has room for it
        copula.covariance.duration.clamp_(max=math.log(2.0))
        copula.covariance.level.fill_(-9.0)
        copula.log_nu.fill_(-1.0)
    source = a_source((4, 6), leads=(1.0,), density=0.15)
    leads = torch.tensor([[-1, 0, 3]])
    draws = copula(source, leads, MemberNoise(0, [0], range(20_000)), furthest=3)[:, 0, :, 0].flatten(1)  # (K, 3 * 24)
    asked = torch.cartesian_prod(leads[0], torch.arange(4), torch.arange(6))
    known = source.frames.mask[0, :, 0].nonzero() * torch.tensor([-1, 1, 1])
    expected = copula.correlation(TrajectoryLatents(torch.zeros(72), asked, known))
    found = draws.T.double() @ draws.double() / len(draws)
    assert (found - expected).abs().max() < 0.06
    assert (found.diagonal() - 1).abs().max() < 0.05
    _, left = conditioned(copula.covariance, known, asked, float(copula.covariance.nugget) + math.exp(-2.0))
    scale = left.diagonal().sqrt()
    assert (left / (scale[:, None] * scale) - expected).abs().max() < 0.02  # nuggets and jitter aside


def test_the_copula_of_trajectories_finds_how_long_latents_last():
    grid = tiny.Grid((6, 6))
    truth = TrajectoryCopula(grid, 1, (1.0, 1.0)).requires_grad_(False)
    copula = TrajectoryCopula(grid, 1, (1.0, 1.0))
    with torch.no_grad():
        truth.covariance.reach.fill_(math.log(3.0))
        truth.covariance.duration.fill_(math.log(4.0))
    places = torch.cartesian_prod(torch.arange(1, 6), torch.arange(6), torch.arange(6))[::3]
    known = torch.tensor([[0, 1, 1], [-1, 4, 2]])
    root = torch.linalg.cholesky(truth.correlation(TrajectoryLatents(torch.zeros(len(places)), places, known)))
    z = (root @ torch.randn(len(places), 40, dtype=torch.double, generator=torch_generator(1))).float()
    examples = [TrajectoryLatents(column, places, known) for column in z.T]
    scale = torch.ones(())

    @torch.no_grad()
    def mean(of: TrajectoryCopula) -> float:
        return float(torch.stack([of._surprise(example, scale) for example in examples]).mean())

    best, start = mean(truth), mean(copula)
    copula.fit(examples, steps=60)
    fitted = mean(copula)
    assert start - best > 0.03
    assert fitted - best < 0.3 * (start - best)


def test_leads_are_drawn_together_and_one_by_one_with_the_same_laws(tmp_path, brief):
    """Quantiles of the members at a lead are those of that lead asked for alone; what was read is as it was read."""
    store = windowed(tmp_path / "pairs")
    model = build("solid", store.spec(), {"size": "smoke"})
    train(model, store, tmp_path / "run", tiny.tiny_config(steps=4), {"size": "smoke"})
    run = RunRecord.open(tmp_path / "run")
    assert run.model.leads.tolist() == list(LEADS)
    pair = run.scaling.standardise(store.batch(store.split("test")[-2:]))
    noise = MemberNoise(0, range(2), range(400))
    together = run.model.sample_leads(pair.source, LEADS, 400, noise)
    for place, lead in enumerate(LEADS):
        alone = replace(pair.source, lead=torch.full((2,), float(lead)))
        members = run.model.sample(alone, 400, MemberNoise(1, range(2), range(400)))
        both = [part.quantile(torch.tensor([0.2, 0.5, 0.8]), dim=0) for part in (together[:, :, place], members)]
        assert (both[0] - both[1]).abs().mean() < 0.12
        read = alone.read_then()
        assert torch.equal(together[:, :, place][:, read.mask], read.values[read.mask].expand(400, -1))


def test_leads_reach_back_no_further_than_the_window(tmp_path):
    with pytest.raises(SolidError, match="widen the window"):
        tiny.tiny_store(tmp_path / "pairs", leads=(-2, 0), window=2)


def test_maps_ahead_are_drawn_by_direct_laws_and_rolled_out_when_asked(tmp_path, brief):
    """The first step is the same law both ways; a lead that was not trained is named, and only rolled to."""
    truth = tiny.TinyTruth.make(frames=FRAMES)
    store = tiny.tiny_store(tmp_path / "pairs", truth, leads=(0, 1, 2), window=3)
    train(
        build("solid", store.spec(), {"size": "smoke"}),
        store,
        tmp_path / "run",
        tiny.tiny_config(steps=4),
        {"size": "smoke"},
    )
    run = load(tmp_path / "run")
    mask = np.random.default_rng(0).random((5, 8, 8)) < 0.3
    frames = np.where(mask, truth.fields[0, 0:10:2, 0], np.nan)
    direct, rolled = (run.forecast(frames, members=30, steps=2, at=None, rollout=way) for way in (False, True))
    assert direct.sizes["lead_time"] == rolled.sizes["lead_time"] == 2
    assert abs(float((direct["u_mean"] - rolled["u_mean"])[:, 0].mean())) < 1.0  # of a standard deviation of 5
    assert not np.array_equal(direct["u_mean"][:, 1], rolled["u_mean"][:, 1])
    with pytest.raises(SolidError, match=r"none of \[3\].*--rollout"):
        run.forecast(frames, members=2, steps=3)
    assert run.forecast(frames, members=2, steps=3, rollout=True).sizes["lead_time"] == 3
    # What the frames after it hold changes nothing of a forecast, and what was read before it does.
    later = frames.copy()
    later[3:] = 9.0
    assert run.forecast(later[:4], members=5, steps=2)["u"][:, 2].equals(
        run.forecast(frames[:4], members=5, steps=2)["u"][:, 2]
    )
    before = frames.copy()
    before[1][mask[1]] += 3.0
    changed = run.forecast(before, members=5, steps=2)["u"][:, 2]
    assert not changed.equals(run.forecast(frames, members=5, steps=2)["u"][:, 2])


def test_scenes_of_the_bench_are_those_of_its_store_and_its_posterior_covers_them(tmp_path, monkeypatch):
    monkeypatch.setattr(gaussian_window, "ASKED", {"filling": -2, "mean of 8 steps": gaussian_window.AHEAD})
    cell = gaussian_window.WindowCell("exact", 4, None, 20, 3, 200)
    judge = gaussian_window.Judge.of(tmp_path, cell)
    for name, members in judge.exact_members(200, 0).items():
        found = judge.compare(name, members)
        assert abs(found["crps"]["mean"] - 1) < 0.02, name
        assert abs(found["spread"]["mean"] - 1) < 0.01, name
    record, place = gaussian_window.record_of_sources(judge.store)
    for n, example in enumerate(judge.chosen):
        trajectory, frame = (int(judge.store.columns[c][example]) for c in ("trajectory", "frame_source"))
        for back in range(4):
            at = place[trajectory, frame - 2 * back]
            rows = slice(*record.offsets[at : at + 2])
            seen = ~np.isnan(judge.readings[n, back].ravel())
            np.testing.assert_array_equal(record.cells[rows], np.flatnonzero(seen))
            np.testing.assert_array_equal(record.values[rows], judge.readings[n, back].ravel()[seen])
            assert record.split[at] == 2


def test_kriging_tells_leads_of_both_signs_apart():
    kernel, cross = torch.eye(4).double(), torch.stack([torch.full((4, 4), value).double() for value in (2.0, 3.0)])
    covariance = TorusCovariance(kernel, cross, torch.tensor([-1.0, 1.0]))
    assert covariance.at(0) is kernel
    assert covariance.at(-1).max() == 2
    assert covariance.at(1).max() == 3
    assert torch.equal(covariance.at(-0.5), (kernel + 2) / 2)
