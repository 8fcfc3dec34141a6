"""The laws of the training loop: where it goes, at what rate, on which examples, and when it stops."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import solidfield.training.budget
import tiny
from solidfield.errors import SolidError
from solidfield.models import build
from solidfield.pairs.scaling import Scaling
from solidfield.pairs.store import PairStore
from solidfield.training.budget import LEAST, SKIP, Budget
from solidfield.training.checkpoint import load_state
from solidfield.training.loop import train
from solidfield.training.optimise import learning_rate, update_average
from solidfield.training.record import RunRecord
from solidfield.training.task import PairTask, rows_of_step

UNSCALED = Scaling((0.0,), (1.0,))


def weights(run: Path) -> dict[str, Tensor]:
    return RunRecord.open(run).model.state_dict()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def log_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_convex_loss_reaches_its_closed_form_optimum(store: PairStore, run: Path) -> None:
    scaling = Scaling.fit(store, store.split("train"))
    pair = scaling.standardise(store.batch(store.split("train")))
    truth = pair.target.values.sum((1, 2, 3)) / pair.target.mask.sum((1, 2, 3))
    design = torch.stack([tiny.Line.feature(pair.source), torch.ones(len(pair))], 1)
    best = torch.linalg.lstsq(design.double(), truth.double()).solution
    whole = {"batch": len(pair), "shifts": False, "weight_decay": 0, "clip": 1e9, "ema": 0.9}
    config = tiny.tiny_config(steps=400, lr=0.1, validate_every=400, checkpoint_every=400, **whole)
    train(tiny.Line(tiny.spec_of(store)), store, run, config, scaling=scaling)
    found = weights(run)
    torch.testing.assert_close(torch.stack([found["w"], found["b"]]).double(), best, rtol=1e-3, atol=1e-3)


def test_learning_rate_warms_up_linearly_and_falls_as_a_cosine(store: PairStore, run: Path) -> None:
    config = tiny.tiny_config(steps=12, lr=1.0, lr_end=0.2, warmup=4, validate_every=1)
    rates = [learning_rate(step, 12, config) for step in range(12)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[8] == pytest.approx(0.6)  # half way between warm-up and end: the mean of the two rates
    assert rates[6] == pytest.approx(0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2)
    assert learning_rate(12, 12, config) == pytest.approx(0.2)
    assert learning_rate(8, None, config) == 1.0
    train(tiny.Tiny(tiny.spec_of(store)), store, run, config)
    assert [line["lr"] for line in log_of(run)] == rates


def test_one_adamw_step_follows_the_formula(store: PairStore, run: Path) -> None:
    """With a constant slope AdamW moves by its rate and shrinks by rate x decay: w' = w (1 - r d) + r."""
    constant = {"warmup": 0, "lr": 0.1, "lr_end": 0.1, "ema": 0}
    config = tiny.tiny_config(steps=5, weight_decay=0.5, validate_every=5, **constant)
    train(tiny.Point(tiny.spec_of(store)), store, run, config)
    w = 0.0
    for _ in range(5):
        w = w * (1 - 0.1 * 0.5) + 0.1
    assert float(weights(run)["w"]) == pytest.approx(w, rel=1e-5)


def test_average_is_the_weighted_sum_of_all_weights() -> None:
    model, average = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    path = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    average.weight.data.fill_(path[0])
    for step in range(39):
        model.weight.data.fill_(path[step + 1])
        update_average(average, model, step, ema=0.7)
    decay = torch.tensor([min(0.7, (1 + n) / (10 + n)) for n in range(39)], dtype=torch.float64)
    later = torch.cat([decay.flip(0).cumprod(0).flip(0), torch.ones(1).double()])  # product of d_j, j >= n
    expected = later[0] * path[0] + ((1 - decay) * later[1:] * path[1:]).sum()
    assert average.weight.item() == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(("count", "batch", "processes"), [(12, 4, 1), (10, 4, 2), (5, 12, 3), (7, 2, 1)])
def test_each_example_comes_once_an_epoch(count: int, batch: int, processes: int) -> None:
    moments = [(step, 0, rank) for step in range(3 * count) for rank in range(processes)]
    sequence = np.concatenate([rows_of_step(count, batch, *moment, processes) for moment in moments])
    epochs = sequence[: len(sequence) // count * count].reshape(-1, count)
    assert (np.sort(epochs, axis=1) == np.arange(count)).all()
    assert len({tuple(epoch) for epoch in epochs.tolist()}) > 1


def test_a_batch_is_a_function_of_seed_step_and_rank(store: PairStore) -> None:
    config = tiny.tiny_config(thin=1.0)

    def values(**where: int) -> Tensor:
        settings = {"step": 3, "rank": 0, "seed": 0} | where
        changed = config.model_copy(update={"seed": settings["seed"]})
        task = PairTask(store, UNSCALED, changed, None)
        return task.batch(settings["step"], settings["rank"], 2, build("persistence", store.spec())).source.values

    assert torch.equal(values(), values())
    for other in ({"step": 4}, {"rank": 1}, {"seed": 1}):
        assert not torch.equal(values(), values(**other))


def test_shifts_and_thinning_obey_the_configuration(store: PairStore) -> None:
    indices = store.split("train")

    def batch(**options: float) -> tuple[int, int, Tensor]:
        task = PairTask(store, UNSCALED, tiny.tiny_config(**options), None)
        pair = task.batch(0, 0, 1, build("persistence", store.spec()))
        return int(pair.source.mask.sum()), int(pair.target.mask.sum()), pair.target.values

    plain, rolled, thinned = batch(shifts=False), batch(), batch(shifts=False, thin=1.0, thin_most=0.9)
    raw = store.batch(indices[rows_of_step(len(indices), 4, 0, 0)])
    assert torch.equal(plain[2], raw.target.values)
    assert rolled[:2] == plain[:2]
    assert not torch.equal(rolled[2], plain[2])
    assert torch.equal(rolled[2].flatten(1).sort().values, plain[2].flatten(1).sort().values)
    assert thinned[0] < plain[0]
    assert torch.equal(thinned[2], plain[2])


def test_same_seed_same_bits_other_seed_other_bits(store: PairStore, run: Path) -> None:
    spec = tiny.spec_of(store)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.manual_seed(hash(name) % 1000)  # the caller's global stream must not matter
        train(tiny.Tiny(spec), store, run / name, tiny.tiny_config(seed=seed, thin=0.5))
    assert equal(weights(run / "a"), weights(run / "b"))
    assert not equal(weights(run / "a"), weights(run / "c"))


def test_training_leaves_the_callers_streams_and_settings_alone(store: PairStore, run: Path) -> None:
    state, deterministic = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled()
    train(tiny.Tiny(tiny.spec_of(store)), store, run, tiny.tiny_config())
    RunRecord.open(run)
    assert torch.equal(state, torch.get_rng_state())
    assert deterministic == torch.are_deterministic_algorithms_enabled()


def test_early_stopping_stops_after_patience_and_keeps_the_best(store: PairStore, run: Path) -> None:
    """w = 0.5 n, so the validation CRPS is mean |0.5 n - u| over the targets: its minimum is known."""
    held_out = store.batch(store.split("validation"))
    u, mask = held_out.target.values, held_out.target.mask
    errors = [((0.5 * n - u).abs() * mask).sum((1, 2, 3)) / mask.sum((1, 2, 3)) for n in range(0, 60, 2)]
    scores = [float(error.mean()) for error in errors]
    best = 2 * int(np.argmin(scores))
    assert 4 < best < 40
    config = tiny.tiny_config(
        steps=200, warmup=0, lr=0.5, lr_end=0.5, weight_decay=0, ema=0, validate_every=2, patience=3
    )
    result = train(tiny.Point(tiny.spec_of(store)), store, run, config, scaling=UNSCALED)
    assert (result.stopped, result.best_step, result.steps) == ("patience", best, best + 3 * 2)
    assert result.crps == pytest.approx(min(scores), rel=1e-5)
    assert float(weights(run)["w"]) == pytest.approx(0.5 * best, rel=1e-5)


def test_reads_nothing_but_training_and_validation_examples(store: PairStore, run: Path) -> None:
    class Watched(PairStore):
        seen: ClassVar[Counter[int]] = Counter()
        read: ClassVar[Counter[int]] = Counter()

        def batch(self, indices):  # type: ignore[no-untyped-def]
            self.seen.update(np.asarray(indices).tolist())
            return super().batch(indices)

        def readings_of(self, side, indices, back=0):  # type: ignore[no-untyped-def]
            self.read.update(np.asarray(indices).tolist())
            return super().readings_of(side, indices, back)

        def oracle_batch(self, indices):  # type: ignore[no-untyped-def]
            raise AssertionError("a strict model asked for dense truth")

    watched = Watched(store.path)
    train(tiny.Tiny(tiny.spec_of(store)), watched, run, tiny.tiny_config(validation_examples=99))
    assert set(watched.seen) == {*store.split("train").tolist(), *store.split("validation").tolist()}
    assert set(watched.read) == set(watched.seen)
    validations = 12 // 4
    assert all(watched.seen[index] == validations for index in store.split("validation"))


def test_objectives_step_in_turn_and_move_only_their_own(store: PairStore, run: Path) -> None:
    config = tiny.tiny_config(steps=4, warmup=0, lr=0.1, lr_end=0.1, weight_decay=0, ema=0, validate_every=4)
    model = tiny.Game(tiny.spec_of(store))
    train(model, store, run, config)
    expected = [(0.1 * (n + 1), -0.1 * n) for n in range(4)]  # the second sees the first's new value
    np.testing.assert_allclose(model.seen, expected, atol=1e-6)
    assert {"loss", "grad_norm", "loss_second", "grad_norm_second"} <= log_of(run)[0].keys()


def test_a_fitted_model_sees_each_training_example_once(store: PairStore, run: Path) -> None:
    model = tiny.Climatology(tiny.spec_of(store))
    result = train(model, store, run, tiny.tiny_config(batch=5), scaling=UNSCALED)
    target = store.batch(store.split("train")).target
    found = weights(run)
    assert (result.stopped, int(found["examples"])) == ("fitted", len(store.split("train")))
    assert float(found["mean"]) == pytest.approx(float(target.values.sum() / target.mask.sum()), rel=1e-5)


def test_without_validation_examples_the_last_average_is_kept(tmp_path: Path, run: Path) -> None:
    store = tiny.tiny_store(tmp_path / "pairs", validation=0.0)
    config = tiny.tiny_config()
    result = train(tiny.Tiny(tiny.spec_of(store)), store, run, config)
    assert (result.crps, result.best_step) == (None, 12)
    assert equal(weights(run), dict(load_state(run / "state")[1].tensors["average"]))
    with pytest.raises(SolidError, match="patience = 2 needs validation examples"):
        train(tiny.Tiny(tiny.spec_of(store)), store, tmp_path / "b", tiny.tiny_config(patience=2))


def test_oracle_needs_a_leaking_store_and_is_labelled(store: PairStore, tmp_path: Path, run: Path) -> None:
    with pytest.raises(SolidError, match="observe with oracle on"):
        train(tiny.TinyOracle(tiny.spec_of(store)), store, run, tiny.tiny_config())
    leaking = tiny.tiny_store(tmp_path / "leaking", oracle=True)
    train(tiny.TinyOracle(tiny.spec_of(leaking)), leaking, run, tiny.tiny_config(thin=0.5))
    assert RunRecord.open(run).leaks


def test_a_loss_that_is_not_finite_is_an_error_before_the_weights(store: PairStore, run: Path) -> None:
    config = tiny.tiny_config(warmup=0, lr=0.1, lr_end=0.1, weight_decay=0)
    with pytest.raises(SolidError, match=r"is -inf .* at step 7; train again with a lower train.lr"):
        train(tiny.Point(tiny.spec_of(store), limit=0.55), store, run, config)
    step, state = load_state(run / "state")
    assert step == 4
    assert float(state.tensors["model"]["w"]) == pytest.approx(0.4, rel=1e-5)


def test_impossible_settings_are_named(store: PairStore, run: Path) -> None:
    with pytest.raises(SolidError, match=r"train\.warmup = 12 leaves none of train\.steps = 12"):
        train(tiny.Tiny(tiny.spec_of(store)), store, run, tiny.tiny_config(warmup=12))
    other = tiny.spec_of(store).__class__(store.grid, channels=2)
    with pytest.raises(SolidError, match=r"made for \(variables, y, x\) = \(2, 8, 8\)"):
        train(tiny.Tiny(other), store, run, tiny.tiny_config())
    assert not run.exists()


def test_progress_is_told_after_every_step(store: PairStore, run: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    train(tiny.Tiny(tiny.spec_of(store)), store, run, tiny.tiny_config(), progress=lambda *heard: told.append(heard))
    assert [(done, total) for _, done, total in told] == [(step, 12) for step in range(1, 13)]
    assert all(math.isfinite(float(what.split()[1])) for what, _, _ in told)  # loss 0.123 ...
    assert ["validation CRPS" in what for what, _, _ in told] == [False] * 3 + [True] * 9


def test_a_budget_of_minutes_becomes_a_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 1 s, validations of 10 s every 20, checkpoints of 2 s every 4: a step costs 2 s in all."""
    now = [100.0]
    monkeypatch.setattr(solidfield.training.budget.time, "perf_counter", lambda: now[0])
    budget = Budget(tiny.tiny_config(minutes=10.0, validate_every=20, checkpoint_every=4))
    steps = 0
    while not budget.known():
        now[0] += 9.0 if steps < SKIP else 1.0  # the first steps are slow and do not count
        budget.stepped()
        steps += 1
    assert steps == max(SKIP + LEAST, SKIP + 30)  # 5 % of ten minutes
    for kind, cost in (("validation", 10.0), ("checkpoint", 2.0)):
        with budget.aside(kind):
            now[0] += cost
    spent = SKIP * 9.0 + 30 + 12
    assert budget.step_seconds == pytest.approx(1.0)
    assert budget.total(steps) == steps + int((600 - spent - 12) / 2)


def test_the_number_of_steps_is_fixed_once_and_the_cosine_ends_there(store: PairStore, run: Path) -> None:
    config = tiny.tiny_config(minutes=0.02, lr=0.01)
    totals: list[int | None] = []
    model = tiny.Tiny(tiny.spec_of(store))
    result = train(model, store, run, config, progress=lambda what, done, total: totals.append(total))
    assert len({total for total in totals if total is not None}) == 1
    assert totals[0] is None
    assert totals[-1] == result.steps == RunRecord.open(run).info["total_steps"]
    assert log_of(run)[-1]["lr"] == learning_rate(result.steps - 1, result.steps, config) < 0.01


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_trains_close_to_full(store: PairStore, run: Path, precision: str) -> None:
    losses = {}
    for name in ("32-true", precision):
        train(tiny.Tiny(tiny.spec_of(store)), store, run / name, tiny.tiny_config(precision=name))
        losses[name] = log_of(run / name)[-1]["loss"]
    assert losses[precision] == pytest.approx(losses["32-true"], rel=0.05)


DISTRIBUTED = """
import sys, tiny, torch
from solidfield.pairs.store import open_pairs
from solidfield.training.loop import train
torch.set_num_threads(1)
store = open_pairs(sys.argv[1])
model = tiny.Tiny(tiny.spec_of(store), dropout=0.0, jitter=0.0)
print(train(model, store, sys.argv[2], tiny.tiny_config(shifts=False)).crps)
"""


def test_two_processes_by_torchrun_equal_one(store: PairStore, run: Path, tmp_path: Path) -> None:
    """The mean of the gradients of two halves is the gradient of the whole."""
    script = tmp_path / "distributed.py"
    script.write_text(DISTRIBUTED)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    command = [*torchrun, str(script), str(store.path), str(run / "two")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]

    model = tiny.Tiny(tiny.spec_of(store), dropout=0.0, jitter=0.0)
    result = train(model, store, run / "one", tiny.tiny_config(shifts=False))
    two = RunRecord.open(run / "two")
    assert two.info["processes"] == 2
    assert two.info["history"]["crps"] == pytest.approx(result.crps, rel=1e-5)
    for name, tensor in weights(run / "one").items():
        torch.testing.assert_close(two.model.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)
