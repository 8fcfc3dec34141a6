"""What is on disk is whole or is an error: damage, a full disk, a foreign folder, a finished run."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

import solidfield.disk
import tiny
from solidfield.disk import atomic, digest, pack, read_json, refuse_existing, replace, save_dataset, write_json
from solidfield.engine import Progress
from solidfield.errors import SolidError
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.models import MODELS, build
from solidfield.models.solid_set import SolidSet
from solidfield.pairs.store import PairStore
from solidfield.training.checkpoint import State, checkpoints, load_state, save_state
from solidfield.training.loop import train
from solidfield.training.record import FORMAT, RunRecord
from solidfield.worlds.scenarios import Scenario


class Stop(Exception):
    pass


def stop_after(steps: int) -> Progress:
    """A display that breaks training off, as an interrupt would."""

    def stop(what: str, done: int, total: int | None) -> None:
        if done == steps:
            raise Stop

    return stop


def broken_off(store: PairStore, run: Path, steps: int = 10) -> None:
    with pytest.raises(Stop):
        train(tiny.Tiny(tiny.spec_of(store)), store, run, tiny.tiny_config(), progress=stop_after(steps))


def finished(store: PairStore, run: Path, resume: bool = False) -> bytes:
    train(tiny.Tiny(tiny.spec_of(store)), store, run, tiny.tiny_config(), resume=resume)
    return (run / "weights.safetensors").read_bytes()


def test_state_comes_back_bit_by_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "model": {"w": torch.randn(3, 4, generator=generator), "n": torch.tensor(7)},
        "best": {"h": torch.randn(2, generator=generator).bfloat16(), "t": torch.arange(6.0).reshape(2, 3).T},
        "none": {},
    }
    counters = {"crps": 0.1 + 0.2, "stale": 3, "none": None}
    save_state(tmp_path, 12, State(tensors, counters))
    step, state = load_state(tmp_path)
    assert step == 12
    assert state.counters == counters
    for group, members in tensors.items():
        assert state.tensors[group].keys() == members.keys()
        for name, tensor in members.items():
            assert state.tensors[group][name].dtype == tensor.dtype
            assert torch.equal(state.tensors[group][name], tensor)


def test_the_newest_two_are_kept_and_nothing_is_left_half_written(tmp_path: Path) -> None:
    for step in (0, 5, 10, 15):
        save_state(tmp_path, step, State({"model": {"w": torch.ones(1)}}, {}))
    assert sorted(os.listdir(tmp_path)) == ["step-00000010", "step-00000015"]


def test_every_file_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush the files, then their folder, then rename, then flush the folder that holds the name."""
    events: list[str] = []
    rename = os.rename

    def fsync(handle: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", lambda old, new: (events.append("rename"), rename(old, new)))
    save_state(tmp_path, 3, State({"model": {"w": torch.ones(1)}, "best": {}}, {}))
    files = ["model.safetensors", "best.safetensors", "state.json"]
    assert events == [*files, ".tmp-step-00000003", "rename", tmp_path.name]


def test_a_digest_depends_on_content_not_on_order() -> None:
    assert digest({"a": 1, "b": [2.5]}) == digest({"b": [2.5], "a": 1}) != digest({"a": 1, "b": [2.25]})


def test_json_notices_a_changed_digit(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"lr": 0.125})
    assert read_json(tmp_path / "a.json") == {"lr": 0.125}
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text.replace("0.125", "0.126"))
    with pytest.raises(SolidError, match=r"a\.json is damaged"):
        read_json(tmp_path / "a.json")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("harm", [flip, truncate, Path.unlink])
@pytest.mark.parametrize("name", ["model", "average", "optimiser", "best", "state"])
def test_damage_is_an_error_that_shows_the_way_back(tmp_path: Path, harm: Callable[[Path], None], name: str) -> None:
    for step in (4, 8):
        groups = {group: {"w": torch.randn(9)} for group in ("model", "average", "optimiser", "best")}
        save_state(tmp_path, step, State(groups, {"counters": {}}))
    harm(next((tmp_path / "step-00000008").glob(f"{name}.*")))
    way_back = "step-00000004 is intact: delete the folder step-00000008"
    with pytest.raises(SolidError, match=rf"{name}\.\w+ .*; {way_back}"):
        load_state(tmp_path)
    shutil.rmtree(tmp_path / "step-00000008")
    assert load_state(tmp_path)[0] == 4
    harm(next((tmp_path / "step-00000004").glob(f"{name}.*")))
    with pytest.raises(SolidError, match="no older checkpoint is intact"):
        load_state(tmp_path)


def test_after_damage_the_older_checkpoint_leads_to_the_same_weights(store: PairStore, run: Path) -> None:
    expected = finished(store, run / "whole")
    broken_off(store, run / "harmed")
    newest = checkpoints(run / "harmed" / "state")[-1]
    flip(newest / "model.safetensors")
    with pytest.raises(SolidError, match="is damaged"):
        finished(store, run / "harmed", resume=True)
    shutil.rmtree(newest)
    assert finished(store, run / "harmed", resume=True) == expected


@pytest.mark.parametrize("allowed", [6, 9, 13])  # flushes that succeed before the disk is full
def test_a_full_disk_is_one_line_and_costs_nothing(
    store: PairStore, run: Path, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    expected = finished(store, run / "whole")
    flushes = [0]

    def fsync(handle: int) -> None:
        flushes[0] += 1
        if flushes[0] > allowed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(solidfield.disk.os, "fsync", fsync)
        with pytest.raises(SolidError, match=r"cannot write \S+: No space left on device; make room there"):
            finished(store, run / "full")
    assert not list((run / "full").rglob(".tmp-*"))
    assert finished(store, run / "full", resume=True) == expected


def test_a_log_that_cannot_grow_is_the_same_error(store: PairStore, run: Path) -> None:
    broken_off(store, run)
    (run / "log.jsonl").unlink()
    (run / "log.jsonl").mkdir()
    with pytest.raises(SolidError, match=r"log\.jsonl"):
        finished(store, run, resume=True)


def test_resume_continues_the_log_without_a_gap_or_a_repeat(store: PairStore, run: Path) -> None:
    broken_off(store, run, steps=11)
    with open(run / "log.jsonl", "a") as file:
        file.write('{"step": 11, "lo')  # cut short by a kill
    finished(store, run, resume=True)
    lines = (run / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 10, 12]


def test_an_existing_folder_is_never_written_over(store: PairStore, run: Path) -> None:
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    with pytest.raises(SolidError, match="never written over; resume it or choose another folder"):
        finished(store, run)
    assert os.listdir(run) == ["notes.txt"]
    with pytest.raises(SolidError, match="holds no run to resume"):
        finished(store, run, resume=True)


def test_resuming_a_finished_run_changes_nothing(store: PairStore, run: Path) -> None:
    content = finished(store, run)
    first = read_json(run / "run.json")
    assert finished(store, run, resume=True) == content
    assert read_json(run / "run.json") == first


def test_resuming_with_other_settings_or_data_names_the_difference(store: PairStore, run: Path, tmp_path: Path) -> None:
    broken_off(store, run)
    spec = tiny.spec_of(store)
    with pytest.raises(SolidError, match=r"train\.lr was 0\.01 in the run and is 0\.02 now"):
        train(tiny.Tiny(spec), store, run, tiny.tiny_config(lr=0.02), resume=True)
    with pytest.raises(SolidError, match=r"model\.options\.width was None in the run and is 8 now"):
        train(tiny.Tiny(spec, width=8), store, run, tiny.tiny_config(), {"width": 8}, resume=True)
    other = tiny.tiny_store(tmp_path / "other", tiny.TinyTruth.make(seed=1))
    with pytest.raises(SolidError, match=r"data\.fingerprint was"):
        train(tiny.Tiny(spec), other, run, tiny.tiny_config(), resume=True)
    finished(store, run, resume=True)


def test_a_loaded_run_is_the_model_that_was_trained(run: Path, tmp_path: Path) -> None:
    truth = tiny.TinyTruth.make(channels=2)
    domain = np.ones((8, 8), dtype=bool)
    domain[0, :3] = False
    object.__setattr__(truth, "fields", np.where(domain, truth.fields, np.float32(np.nan)))

    class Coast(tiny.TinyTruth):
        grid = property(lambda self: Grid.box(8, 8, side=1.0).with_domain(domain))

    store = tiny.tiny_store(tmp_path / "pairs", Coast(truth.fields), units=("m", "K"))
    options = {"width": 6, "dropout": 0.2}
    model = tiny.Tiny(tiny.spec_of(store), **options)
    train(model, store, run, tiny.tiny_config(shifts=False), options)
    loaded = RunRecord.open(run)
    best = load_state(run / "state")[1].tensors["best"]
    assert all(torch.equal(tensor, best[name]) for name, tensor in loaded.model.state_dict().items())
    assert not loaded.model.training
    assert (loaded.variables, loaded.units, loaded.leaks) == (("u", "v"), ("m", "K"), False)
    assert loaded.grid == store.grid
    assert np.array_equal(loaded.grid.domain, domain)
    assert np.array_equal(loaded.never_supervised.numpy(), ~store.supervised())
    assert loaded.info["data"]["fingerprint"] == store.fingerprint
    assert loaded.info["config_hash"] == digest({part: loaded.info[part] for part in ("model", "train")})


def test_rolled_examples_supervise_the_cells_they_reach(run: Path, tmp_path: Path) -> None:
    """One mask for all, rolled by even steps along x: exactly the cells an even way along x from a target."""
    truth = tiny.TinyTruth(tiny.TinyTruth.make().fields, shifts=(0, 2))
    store = tiny.tiny_store(tmp_path / "pairs", truth, scenario=Scenario(amount=0.1, regime="global"))
    targets = store.supervised()
    for shifts in (False, True):
        train(tiny.Tiny(tiny.spec_of(store)), store, run / str(shifts), tiny.tiny_config(shifts=shifts))
    expected = targets | np.roll(targets, 2, 2) | np.roll(targets, 4, 2) | np.roll(targets, 6, 2)
    assert 0 < targets.sum() < expected.sum() < targets.size
    assert np.array_equal(~RunRecord.open(run / "False").never_supervised.numpy(), targets)
    assert np.array_equal(~RunRecord.open(run / "True").never_supervised.numpy(), expected)


def test_what_cannot_be_loaded_says_why(store: PairStore, run: Path) -> None:
    with pytest.raises(SolidError, match="is not a run folder"):
        RunRecord.open(run)
    broken_off(store, run)
    with pytest.raises(SolidError, match="has not finished training; resume it"):
        RunRecord.open(run)
    finished(store, run, resume=True)
    flip(run / "weights.safetensors")
    with pytest.raises(SolidError, match=r"weights\.safetensors is damaged"):
        RunRecord.open(run)
    flip(run / "weights.safetensors")
    flip(run / "run.json")
    with pytest.raises(SolidError, match=r"run\.json is damaged"):
        RunRecord.open(run)


@pytest.mark.parametrize(("format", "fits"), [(FORMAT - 1, True), (FORMAT - 1, False), (FORMAT + 1, True)])
def test_a_run_of_another_format_opens_only_if_it_is_older_and_fits(
    store: PairStore, run: Path, format: int, fits: bool
) -> None:
    finished(store, run)
    document = read_json(run / "run.json") | {"format": format}
    if not fits:
        content, document["files"]["weights.safetensors"] = pack({"another": torch.zeros(2)})
        (run / "weights.safetensors").write_bytes(content)
    write_json(run / "run.json", document)
    if fits and format < FORMAT:
        assert RunRecord.open(run).info["format"] == format
    else:
        with pytest.raises(SolidError, match=f"trained by format {format}, this is {FORMAT}; train again"):
            RunRecord.open(run)


def test_the_format_is_raised_whenever_weights_change_shape() -> None:
    """A change here is a run that no longer opens: raise FORMAT, and write its digest beside it."""
    spec = Spec(Grid((12, 12)))
    models = {name: build(name, spec, {"size": "smoke"}) for name in MODELS}
    every = models | {SolidSet.name: SolidSet(spec.grid, 1, (1.0, 1.0), 4)}
    shapes = {name: {key: list(value.shape) for key, value in m.state_dict().items()} for name, m in every.items()}
    assert (FORMAT, digest(shapes)[:16]) == (8, "700bb016694463b7")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def content_of(path: Path) -> dict[str, bytes]:
    """Every file below, by its name."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def new_file(path: Path) -> None:
    replace(path, b"new")


def new_folder(path: Path) -> None:
    with atomic(path) as part:
        part.mkdir()
        (part / "values").write_bytes(b"new")


def new_maps(path: Path) -> None:
    save_dataset(xr.Dataset({"pm": ("x", np.arange(3.0))}), path)


WRITERS = [("a.json", new_file), ("a", new_folder), ("a.nc", new_maps), ("a.zarr", new_maps)]


@pytest.mark.parametrize("step", ["fsync", "rename"])
@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_a_failed_write_keeps_the_old_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path], None], step: str
) -> None:
    path = tmp_path / name
    write(path)
    if path.is_dir():
        (path / "mine").write_bytes(b"old")
    else:
        path.write_bytes(b"old")
    before = content_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(solidfield.disk.os, step, full)
        with pytest.raises(SolidError, match=rf"cannot write \S+{name}: No space left on device; make room there"):
            write(path)
    assert content_of(tmp_path) == before
    write(path)
    assert b"old" not in content_of(tmp_path).values()
    assert os.listdir(tmp_path) == [name]


def test_a_folder_comes_back_when_its_successor_cannot_take_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old folder was set aside already when the second rename fails."""
    new_folder(tmp_path / "a")
    (tmp_path / "a" / "values").write_bytes(b"old")
    rename, calls = os.rename, []

    def second_fails(old: Path, new: Path) -> None:
        calls.append(old)
        if len(calls) == 2:
            full()
        rename(old, new)

    monkeypatch.setattr(solidfield.disk.os, "rename", second_fails)
    with pytest.raises(SolidError, match="No space left"):
        new_folder(tmp_path / "a")
    assert content_of(tmp_path) == {"a/values": b"old"}


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic(tmp_path / "a") as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_only_what_somebody_made_is_refused(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "absent")
    refuse_existing(tmp_path)
    (tmp_path / "pairs.zarr").mkdir()
    refuse_existing(tmp_path, besides=("pairs.zarr",))
    for path in (tmp_path, tmp_path / "notes.txt"):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(SolidError, match="exists and is never written over; remove it"):
            refuse_existing(path, besides=("pairs.zarr",))
