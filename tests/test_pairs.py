"""Strict pairs: the store is the readings and nothing else; it opens as it was written, or says why not."""

import hashlib
import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr

from solidfield.config import ScenarioConfig
from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.pairs.store import SPLITS, open_pairs
from solidfield.pairs.writing import Example, write_pairs
from solidfield.worlds.observe import observe
from solidfield.worlds.scenarios import Scenario, as_dict, scenario_masks

FRAMES, VARIABLES, SHAPE = 7, ("u", "v"), (12, 10)
GRID = Grid(SHAPE, (0.5, 0.5), periodic=(True, True), units="m")
SCENARIO = Scenario("random", 0.2, "instance")


@dataclass(frozen=True)
class FakeTruth:
    """Ten short trajectories of white noise, each value its own."""

    fields: np.ndarray = field(
        default_factory=lambda: np.random.default_rng(0).normal(size=(10, FRAMES, 2, *SHAPE)).astype(np.float32)
    )  # (N, F, C, H, W)
    grid: Grid = GRID
    variables: tuple[str, ...] = VARIABLES
    shifts: tuple[int, int] = (3, 1)
    world: dict = field(default_factory=lambda: {"kind": "fake", "viscosity": np.float64(0.1)})

    @property
    def times(self) -> np.ndarray:
        return 10 + 0.1 * np.arange(self.fields.shape[1])

    @property
    def count(self) -> int:
        return len(self.fields)

    def read(self, indices: list[int]) -> np.ndarray:
        return self.fields[indices]


def masks_of(truth, trajectory, frame, scenario=SCENARIO, seed=0):
    index = trajectory * truth.fields.shape[1] + frame
    return scenario_masks(**as_dict(scenario), shape=truth.grid.shape, index=index, seed=seed, domain=truth.grid.domain)


def arrays(path: Path) -> dict[str, np.ndarray]:
    group = zarr.open_group(path, mode="r")
    return {name: group[name][...] for name in group.array_keys()}


def files(path: Path) -> dict[str, str]:
    """Every file of the store by its bytes."""
    paths = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in paths}


# The strict law


@pytest.mark.parametrize("scenario", [SCENARIO, Scenario("block", 3, "global", block=3)])
@pytest.mark.parametrize("fill", [np.nan, 1e30, np.inf])
def test_unobserved_truth_cannot_change_a_byte(tmp_path, scenario, fill):
    truth, leads = FakeTruth(), (0, 1)
    used = np.zeros(truth.fields.shape, dtype=bool)
    for trajectory in range(truth.count):
        for frame in range(FRAMES):
            if frame % 2 and trajectory != 9:
                continue
            m_i, m_o = masks_of(truth, trajectory, frame, scenario)
            used[trajectory, frame] |= m_i
            for lead in leads:
                if frame + 2 * lead < FRAMES:
                    used[trajectory, frame + 2 * lead] |= m_o
    assert 0.05 < used.mean() < 0.5
    poisoned = FakeTruth(np.where(used, truth.fields, np.float32(fill)))
    clean = observe(truth, tmp_path / "clean", scenario, leads, obs_std=0.1)
    strict = observe(poisoned, tmp_path / "poisoned", scenario, leads, obs_std=0.1)
    assert strict.fingerprint == clean.fingerprint
    assert files(tmp_path / "poisoned") == files(tmp_path / "clean")


def test_the_store_is_the_readings_and_nothing_else(tmp_path):
    truth = FakeTruth()
    store = observe(truth, tmp_path / "pairs", SCENARIO, leads=(0, 1))
    held, columns = arrays(tmp_path / "pairs"), store.columns
    floats = {name for name, array in held.items() if array.dtype.kind == "f"}
    assert floats == {"source_values", "target_values", "time_source", "time_target"}
    for side, number in (("source", 0), ("target", 1)):
        cells, values, offsets = (held[f"{side}_{part}"] for part in ("cells", "values", "offsets"))
        expected_cells, expected_values = [], []
        for trajectory, frame, at in zip(
            columns["trajectory"], columns["frame_source"], columns[f"frame_{side}"], strict=True
        ):
            mask = np.broadcast_to(masks_of(truth, trajectory, frame)[number], (2, *SHAPE))
            expected_cells.append(np.flatnonzero(mask))
            expected_values.append(truth.fields[trajectory, at][mask])
        np.testing.assert_array_equal(cells, np.concatenate(expected_cells))
        np.testing.assert_array_equal(values, np.concatenate(expected_values))
        np.testing.assert_array_equal(np.diff(offsets), [len(some) for some in expected_cells])
    assert store.readings() == len(held["source_values"]) + len(held["target_values"])


def test_an_oracle_store_says_that_it_leaks(tmp_path):
    truth = FakeTruth()
    strict = observe(truth, tmp_path / "strict", SCENARIO)
    oracle = observe(truth, tmp_path / "oracle", SCENARIO, oracle=True)
    assert (strict.leaks, oracle.leaks) == (False, True)
    assert "oracle_dense" not in arrays(tmp_path / "strict")
    assert json.loads((tmp_path / "oracle" / "zarr.json").read_text())["attributes"]["leaks"] is True
    indices = oracle.split("test")
    leaking = oracle.oracle_batch(indices)
    expected = truth.fields[oracle.columns["trajectory"][indices], oracle.columns["frame_target"][indices]]
    assert torch.equal(leaking.dense, torch.from_numpy(expected))
    assert torch.equal(leaking.pair.target.values, strict.batch(indices).target.values)
    with pytest.raises(SolidError, match="observe again with oracle on"):
        strict.oracle_batch(indices)


# Examples, splits, batches


def test_examples_of_even_frames_and_odd_ones_between(tmp_path):
    store = observe(FakeTruth(), tmp_path / "pairs", SCENARIO, leads=(0, 1), validation=0.2, test=0.3)
    columns = store.columns
    expected = []
    for trajectory in range(10):
        name = "train" if trajectory < 5 else "validation" if trajectory < 7 else "test"
        for frame in range(FRAMES):
            if frame % 2 == 0:
                expected += [(trajectory, frame, frame, 0, name)]
                expected += [(trajectory, frame, frame + 2, 1, name)] if frame + 2 < FRAMES else []
            elif name == "test":
                expected += [(trajectory, frame, frame, 0, "between")]
                expected += [(trajectory, frame, frame + 2, 1, "between")] if frame + 2 < FRAMES else []
    names = ("trajectory", "frame_source", "frame_target", "lead")
    found = [
        (*map(int, row), SPLITS[s]) for *row, s in zip(*(columns[n] for n in names), columns["split"], strict=True)
    ]
    assert found == expected
    np.testing.assert_allclose(columns["time_target"] - columns["time_source"], columns["lead"] * store.step)
    np.testing.assert_allclose(columns["time_source"], 10 + 0.1 * columns["frame_source"])
    assert store.step == pytest.approx(0.2)
    assert store.leads == (0, 1)
    assert sum(len(store.split(name)) for name in SPLITS) == len(store) == len(expected)
    assert not (columns["frame_source"][store.split("train")] % 2).any()


def test_a_batch_is_the_restriction_of_truth_in_any_order(tmp_path):
    truth = FakeTruth()
    store = observe(truth, tmp_path / "pairs", SCENARIO, leads=(0, 1))
    indices = np.random.default_rng(0).permutation(len(store))[:17]
    pair = store.batch(indices)
    assert pair.source.values.dtype == pair.target.values.dtype == torch.float32
    assert pair.source.values.shape == pair.target.mask.shape == (17, 2, *SHAPE)
    for row, e in enumerate(indices):
        trajectory, here, there = (store.columns[n][e] for n in ("trajectory", "frame_source", "frame_target"))
        m_i, m_o = masks_of(truth, trajectory, here)
        for side, mask, frame in ((pair.source, m_i, here), (pair.target, m_o, there)):
            mask = np.broadcast_to(mask, (2, *SHAPE))
            np.testing.assert_array_equal(side.mask[row], mask)
            np.testing.assert_array_equal(side.values[row], np.where(mask, truth.fields[trajectory, frame], 0))
        assert pair.source.lead[row] == store.columns["lead"][e]
    assert len(store.batch([])) == 0
    assert torch.equal(store.batch(indices.tolist()).source.values, pair.source.values)
    for wrong in (len(store), -1):
        with pytest.raises(SolidError, match=f"example {wrong} is not among"):
            store.batch([wrong])


def test_a_forecast_is_followed_by_the_one_that_begins_where_it_ends(tmp_path):
    store = observe(FakeTruth(), tmp_path / "pairs", SCENARIO, leads=(0, 1), validation=0.2, test=0.3)
    indices = store.split("validation")
    columns = {name: store.columns[name] for name in ("trajectory", "frame_source", "frame_target", "lead")}
    expected = [
        (i, j)
        for i in indices
        for j in indices
        if columns["trajectory"][i] == columns["trajectory"][j]
        and columns["frame_target"][i] == columns["frame_source"][j]
        and columns["lead"][i] == columns["lead"][j] == 1
    ]
    assert list(zip(*store.followed(indices), strict=True)) == expected
    assert len(expected) == 2 * 2  # of three forecasts of each of two trajectories the last has no successor
    assert [len(side) for side in store.followed(indices[columns["lead"][indices] == 0])] == [0, 0]


def test_splits_need_enough_trajectories(tmp_path):
    truth = FakeTruth(FakeTruth().fields[:3])
    store = observe(truth, tmp_path / "three", SCENARIO)  # one each, however small the share
    assert [store.columns["trajectory"][store.split(name)[0]] for name in SPLITS] == [0, 1, 2, 2]
    with pytest.raises(SolidError, match="2 trajectories leave none to train"):
        observe(FakeTruth(truth.fields[:2]), tmp_path / "two", SCENARIO)
    alone = observe(FakeTruth(truth.fields[:1]), tmp_path / "one", SCENARIO, validation=0, test=0)
    with pytest.raises(SolidError, match=r"split 'test' of .* is empty"):
        alone.split("test")
    with pytest.raises(SolidError, match="unknown split 'dev'"):
        alone.split("dev")


def test_leads_need_enough_frames(tmp_path):
    two = FakeTruth(FakeTruth().fields[:, :2])
    with pytest.raises(SolidError, match="lead 1 needs 3 frames or more, the truth holds 2"):
        observe(two, tmp_path / "pairs", SCENARIO)
    assert len(observe(two, tmp_path / "pairs", SCENARIO, leads=(0,)).split("train")) == 8


def test_supervised_cells_are_training_targets_and_lead_0_sources(tmp_path):
    truth = FakeTruth()
    for leads in ((1,), (0, 1)):
        store = observe(truth, tmp_path / "pairs", Scenario("random", 0.2, "global"), leads=leads)
        m_i, m_o = masks_of(truth, 0, 0, Scenario("random", 0.2, "global"))
        expected = m_o | m_i if 0 in leads else m_o
        np.testing.assert_array_equal(store.supervised(), np.broadcast_to(expected, (2, *SHAPE)))


def test_chunks_do_not_change_a_byte(tmp_path, monkeypatch):
    observe(FakeTruth(), tmp_path / "whole", SCENARIO, leads=(0, 1), obs_std=0.2)
    monkeypatch.setattr("solidfield.worlds.observe.READ_BYTES", 1)  # one trajectory at a time
    observe(FakeTruth(), tmp_path / "cut", SCENARIO, leads=(0, 1), obs_std=0.2)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    monkeypatch.setattr("solidfield.pairs.ragged.CHUNK", 100)  # many Zarr chunks: other files, the same numbers
    small = observe(FakeTruth(), tmp_path / "small", SCENARIO, leads=(0, 1), obs_std=0.2)
    assert small.fingerprint == open_pairs(tmp_path / "whole").fingerprint
    small.load()
    for name, array in arrays(tmp_path / "small").items():
        np.testing.assert_array_equal(array, arrays(tmp_path / "whole")[name])


def test_a_reading_has_one_error_wherever_it_appears(tmp_path):
    truth = FakeTruth()
    exact = observe(truth, tmp_path / "exact", Scenario("random", 1.0, "instance", overlap=1.0), leads=(0, 1))
    noisy = observe(
        truth, tmp_path / "noisy", Scenario("random", 1.0, "instance", overlap=1.0), leads=(0, 1), obs_std=0.3
    )
    errors: dict[tuple[int, int], torch.Tensor] = {}
    pair, clean = noisy.batch(np.arange(len(noisy))), exact.batch(np.arange(len(noisy)))
    for side in ("source", "target"):
        noise = getattr(pair, side).values - getattr(clean, side).values
        for e, key in enumerate(zip(noisy.columns["trajectory"], noisy.columns[f"frame_{side}"], strict=True)):
            assert torch.equal(errors.setdefault(key, noise[e]), noise[e])
    pool = torch.stack(list(errors.values()))
    assert pool.std().item() == pytest.approx(0.3, rel=0.03)
    assert abs(pool.mean().item()) < 0.01
    assert abs(torch.corrcoef(pool.flatten(1)[:2])[0, 1]) < 0.3  # other frames, other errors
    assert noisy.obs_std == 0.3


# What is missing


def test_an_observed_nan_was_not_observed(tmp_path):
    truth = FakeTruth()
    fields = truth.fields.copy()
    fields[0, 2, 1] = np.nan  # one variable of one frame
    fields[1, 4] = np.nan  # a frame without any value: a source at lead 0, and a target twice
    store = observe(FakeTruth(fields), tmp_path / "pairs", SCENARIO, leads=(0, 1))
    full = observe(truth, tmp_path / "full", SCENARIO, leads=(0, 1))
    assert store.attributes["dropped"] == 3
    assert len(store) == len(full) - 3
    first = np.flatnonzero((store.columns["trajectory"] == 0) & (store.columns["frame_source"] == 2))
    pair = store.batch(first)
    assert not pair.source.mask[:, 1].any()
    assert pair.source.mask[:, 0].any()
    assert torch.isfinite(pair.source.values).all()


def test_nothing_to_observe_is_an_error_and_leaves_nothing(tmp_path):
    truth = FakeTruth(np.full_like(FakeTruth().fields, np.nan))
    with pytest.raises(SolidError, match="none of 32 examples has both a source and a target reading"):
        observe(truth, tmp_path / "pairs", SCENARIO)
    assert list(tmp_path.iterdir()) == []


def test_sensors_stand_in_the_domain_and_the_domain_is_kept(tmp_path):
    domain = np.zeros(SHAPE, dtype=bool)
    domain[2:9, 3:8] = True
    truth = replace(FakeTruth(), grid=FakeTruth().grid.with_domain(domain))
    store = open_pairs(observe(truth, tmp_path / "pairs", SCENARIO).path)
    np.testing.assert_array_equal(store.grid.domain, domain)
    pair = store.batch(np.arange(len(store)))
    assert not (pair.source.mask | pair.target.mask)[..., ~torch.from_numpy(domain)].any()


# On disk


def test_a_store_opens_as_it_was_written(tmp_path):
    written = observe(
        FakeTruth(),
        tmp_path / "pairs",
        ScenarioConfig(amount=0.2),
        units=("m/s", "m/s"),
        leads=(1, 0),
        seed=4,
    )
    opened = open_pairs(str(tmp_path / "pairs"))
    assert opened.fingerprint == written.fingerprint
    assert opened.grid == FakeTruth().grid
    assert (opened.variables, opened.units, opened.shifts) == (VARIABLES, ("m/s", "m/s"), (3, 1))
    assert opened.attributes["scenario"] == {**as_dict(SCENARIO), "seed": 4}
    assert opened.attributes["world"] == {"kind": "fake", "viscosity": 0.1}
    assert sum(opened.attributes["splits"].values()) == len(opened)
    other = observe(FakeTruth(), tmp_path / "pairs", SCENARIO, leads=(1, 0), seed=5)  # replaces the first
    assert open_pairs(tmp_path / "pairs").fingerprint == other.fingerprint != written.fingerprint
    assert [p.name for p in tmp_path.iterdir()] == ["pairs"]


def test_a_failure_leaves_the_old_store_and_nothing_else(tmp_path):
    class Broken(FakeTruth):
        def read(self, indices):
            raise RuntimeError("the truth is gone")

    before = observe(FakeTruth(), tmp_path / "pairs", SCENARIO).fingerprint
    for path in (tmp_path / "pairs", tmp_path / "new"):
        with pytest.raises(RuntimeError, match="gone"):
            observe(Broken(), path, SCENARIO)
    assert [p.name for p in tmp_path.iterdir()] == ["pairs"]
    assert open_pairs(tmp_path / "pairs").fingerprint == before


def test_something_else_in_the_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("precious")
    zarr.open_group(tmp_path / "zarr", mode="w").attrs["format"] = "truth"
    for name in ("file", "folder", "zarr"):
        with pytest.raises(SolidError, match=f"{name} exists and is not a pair store"):
            observe(FakeTruth(), tmp_path / name, SCENARIO)
        with pytest.raises(SolidError, match=f"{name} is not a pair store"):
            open_pairs(tmp_path / name)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "precious"
    with pytest.raises(SolidError, match="there is no pair store at"):
        open_pairs(tmp_path / "nowhere")


@pytest.mark.parametrize("harm", ["remove", "truncate", "change", "array"])
@pytest.mark.parametrize("name", ["source_values", "target_cells", "source_offsets", "split"])
def test_damage_is_noticed(tmp_path, name, harm):
    store = observe(FakeTruth(), tmp_path / "pairs", SCENARIO)
    chunk = next(file for file in (store.path / name).rglob("*") if file.is_file() and file.name != "zarr.json")
    content = chunk.read_bytes()
    if harm == "remove":
        chunk.unlink()
    elif harm == "truncate":
        chunk.write_bytes(content[: len(content) // 2])
    elif harm == "change":
        array = zarr.open_group(store.path, mode="a")[name]  # sound to Zarr, and yet not what was written
        array[3] = array[3] + 1
    else:
        shutil.rmtree(store.path / name)
    with pytest.raises(SolidError, match=r"damaged.*write it anew"):
        open_pairs(store.path)


def test_damaged_metadata_and_newer_versions_are_named(tmp_path):
    store = observe(FakeTruth(), tmp_path / "pairs", SCENARIO)
    group = zarr.open_group(store.path, mode="a")
    group.attrs["version"] = 99
    with pytest.raises(SolidError, match="format version 99"):
        open_pairs(store.path)
    del group.attrs["step"]
    group.attrs["version"] = 1
    with pytest.raises(SolidError, match=r"damaged .*'step'"):
        open_pairs(store.path)


def test_written_readings_are_checked(tmp_path):
    def write(cells, values):
        one = Example(np.array(cells), np.array(values), np.array([0]), np.array([1.0]), 0, "train", 0.0, 0.0)
        return write_pairs(tmp_path / "pairs", Grid((2, 3)), ("u",), [one])

    pair = write([4, 1], [40.0, 10.0]).batch([0])  # any order
    assert pair.source.values.flatten().tolist() == [0, 10, 0, 0, 40, 0]
    for cells, values in (([1, 1], [1.0, 2.0]), ([6], [1.0]), ([-1], [1.0]), ([1, 2], [1.0])):
        with pytest.raises(SolidError, match="one value per distinct cell"):
            write(cells, values)
    with pytest.raises(SolidError, match="not finite"):
        write([1], [np.nan])


def test_progress_counts_trajectories(tmp_path):
    calls = []
    observe(FakeTruth(), tmp_path / "pairs", SCENARIO, progress=lambda what, done, total: calls.append((done, total)))
    assert calls == [(n + 1, 10) for n in range(10)]
