"""Fixtures shared by all tests: a tiny pair store, the tiny models, a place for a run.

They import what they need when they are asked for: the tests of a lower room need none of the rooms above it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    import tiny
    from solidfield.pairs.store import PairStore


@pytest.fixture(autouse=True)
def same_weights_each_time() -> None:
    """What a test draws from the global stream (new weights, mostly) does not depend on the tests before it."""
    torch.manual_seed(int(os.environ.get("TEST_SEED", "0")))


@pytest.fixture(scope="module")
def calibrated_briefly() -> Iterator[None]:
    """Runs of some steps are calibrated by few questions: how many is no matter of what a test is about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solidfield.training.lessons.FEWEST_QUESTIONS", 500)
        yield


@pytest.fixture(scope="session")
def truth() -> tiny.TinyTruth:
    """10 trajectories of 6 frames of one variable on 8 x 8 cells."""
    import tiny

    return tiny.TinyTruth.make()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, truth: tiny.TinyTruth) -> PairStore:
    """Its readings at 30 % of the cells, lead 1: 12 training, 4 validation, 4 test examples, 4 in between."""
    import tiny

    return tiny.tiny_store(tmp_path_factory.mktemp("pairs") / "pairs", truth)


@pytest.fixture
def tiny_models() -> Iterator[None]:
    """`build` and `RunRecord.open` know the tiny models."""
    import tiny
    from solidfield.models import MODELS

    before = dict(MODELS)
    tiny.register()
    yield
    MODELS.clear()
    MODELS.update(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums are then taken in one order, whatever the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(tmp_path: Path, tiny_models: None, one_thread: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a run folder; one thread, and no waiting for the disk (only a power cut tells it apart)."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return tmp_path / "run"
