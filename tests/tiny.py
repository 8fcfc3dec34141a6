"""Small worlds and models for tests: fields of a few cells, networks of a few weights, each with a known
answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from solidfield.config import TrainConfig
from solidfield.fields import OraclePair, Pair, Source, Target
from solidfield.forecast import Fitted, Forecaster, Objective, Spec
from solidfield.grid import Grid
from solidfield.keys import numpy_generator, torch_generator
from solidfield.models import MODELS
from solidfield.noise import Noise
from solidfield.pairs.store import PairStore
from solidfield.worlds.observe import observe
from solidfield.worlds.scenarios import Scenario


@dataclass(frozen=True)
class TinyTruth:
    """Smooth random fields on a periodic box that drift one cell a frame: learnable without a simulator."""

    fields: np.ndarray  # (N, F, C, H, W) float32
    shifts: tuple[int, int] = (1, 1)
    world: dict[str, Any] = field(default_factory=lambda: {"kind": "tiny"})

    @classmethod
    def make(cls, count: int = 10, frames: int = 6, channels: int = 1, size: int = 8, seed: int = 0) -> TinyTruth:
        white = numpy_generator(seed, "tiny").standard_normal((count, channels, size, size))
        k = np.fft.fftfreq(size) * size
        smooth = np.exp(-0.15 * (k[:, None] ** 2 + k[None, :] ** 2))
        start = np.fft.ifft2(np.fft.fft2(white) * smooth).real
        drifted = np.stack([np.roll(start, frame, axis=-1) for frame in range(frames)], axis=1)
        return cls((3.0 + 5.0 * drifted).astype(np.float32))

    @property
    def grid(self) -> Grid:
        return Grid.box(*self.fields.shape[-2:], side=1.0)

    @property
    def times(self) -> np.ndarray:
        return 0.1 * np.arange(self.fields.shape[1])

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple("uvw"[: self.fields.shape[2]])

    @property
    def count(self) -> int:
        return len(self.fields)

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self.fields[indices]


def tiny_store(path: Path, truth: TinyTruth | None = None, **options: Any) -> PairStore:
    """Readings of tiny truth at 30 % of the cells; `options` as for `observe`."""
    settings = {"scenario": Scenario(amount=0.3), "validation": 0.2, "test": 0.2} | options
    return observe(truth or TinyTruth.make(), path, **settings)


def tiny_config(**changes: Any) -> TrainConfig:
    loop = {"steps": 12, "warmup": 2, "batch": 4, "lr": 1e-2, "checkpoint_every": 4}
    validation = {"validate_every": 4, "validation_examples": 4, "validation_members": 2}
    return TrainConfig(**{**loop, **validation, **changes})


def spec_of(store: PairStore) -> Spec:
    return Spec(store.grid, len(store.variables))


class Tiny(Forecaster):
    """Two convolutions to a mean and a log std per cell; its loss draws noise and its layers drop out."""

    name = "tiny"
    family = "distribution"
    reference = "none"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {"laptop": {}}

    def __init__(self, spec: Spec, width: int = 4, dropout: float = 0.1, jitter: float = 0.1):
        super().__init__(spec)
        self.jitter = jitter
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.net = nn.Sequential(
                nn.Conv2d(2 * spec.channels, width, 3, padding=1),
                nn.SiLU(),
                nn.Dropout(dropout),
                nn.Conv2d(width, 2 * spec.channels, 3, padding=1),
            )

    def law(self, source: Source) -> tuple[Tensor, Tensor]:  # mean and log std: (B, C, H, W)
        mean, log_std = self.net(torch.cat([source.values, source.mask.float()], 1)).chunk(2, 1)
        return mean, log_std

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        mean, log_std = self.law(pair.source)
        mean = mean + self.jitter * torch.randn(mean.shape, generator=generator).to(mean.device)
        terms = log_std + 0.5 * ((pair.target.values - mean) / log_std.exp()).square()
        weight = pair.target.mask.float()
        return ((terms * weight).sum((1, 2, 3)) / weight.sum((1, 2, 3))).mean()

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        mean, log_std = self.law(source)
        return mean + log_std.exp() * noise(mean.shape[1:])


class TinyOracle(Tiny):
    """Leaks: its loss reads the dense target."""

    name = "tiny-oracle"
    leaks = True

    def loss(self, pair: OraclePair, generator: torch.Generator) -> Tensor:  # type: ignore[override]
        return (self.law(pair.pair.source)[0] - pair.dense).square().mean()


class Point(Forecaster):
    """The same value w everywhere: a base for models of one number."""

    name = "tiny-point"
    family = "deterministic"
    reference = "none"
    stochastic = False
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {"laptop": {}}

    def __init__(self, spec: Spec, limit: float = float("inf")):
        super().__init__(spec)
        self.limit = limit
        self.w = nn.Parameter(torch.zeros(()))

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        """A constant slope: AdamW moves w up by its learning rate at every step, until the loss blows up."""
        return -self.w if float(self.w.detach()) < self.limit else -self.w / 0.0

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        return self.w.expand(members, *source.values.shape)


class Line(Point):
    """u = w s + b with s the mean of the source's readings: least squares, whose optimum is known."""

    name = "tiny-line"

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.b = nn.Parameter(torch.zeros(()))

    @staticmethod
    def feature(source: Source) -> Tensor:  # (B,)
        return source.values.sum((1, 2, 3)) / source.mask.sum((1, 2, 3))

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        forecast = self.w * self.feature(pair.source) + self.b
        truth = pair.target.values.sum((1, 2, 3)) / pair.target.mask.sum((1, 2, 3))
        return (forecast - truth).square().mean()

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        forecast = self.w * self.feature(source) + self.b
        return forecast[:, None, None, None].expand(members, *source.values.shape)


class Game(Point):
    """Two objectives of one slope each; the second writes down what it sees of the first's parameter."""

    name = "tiny-game"

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.v = nn.Parameter(torch.zeros(()))
        self.seen: list[tuple[float, float]] = []

    def objectives(self) -> list[Objective]:
        def second(pair: Pair, generator: torch.Generator) -> Tensor:
            self.seen.append((float(self.w.detach()), float(self.v.detach())))
            return self.v + 0.0 * self.w

        def first(pair: Pair, generator: torch.Generator) -> Tensor:
            return -self.w + 0.0 * self.v

        return [Objective("first", first, [self.w]), Objective("second", second, [self.v])]


class Climatology(Fitted):
    """The mean of all training targets, by one pass."""

    name = "tiny-climatology"
    reference = "none"
    stochastic = False
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {"laptop": {}}

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("examples", torch.zeros((), dtype=torch.long))

    def fit(self, batches: Iterable[Pair]) -> None:
        total, count = torch.zeros(()), torch.zeros(())
        for pair in batches:
            total += pair.target.values.sum()
            count += pair.target.mask.sum()
            self.examples += len(pair)
        self.mean = total / count

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        return self.mean.expand(members, *source.values.shape)


TINY: tuple[type[Forecaster], ...] = (Tiny, TinyOracle, Point, Line, Game, Climatology)


def register() -> None:
    """Let `build`, and so `RunRecord.open`, know the tiny models."""
    MODELS.update({model.name: model for model in TINY})


def random_pair(batch: int = 3, channels: int = 1, size: int = 8, seed: int = 0) -> Pair:
    """A pair of unrelated readings at disjoint cells, for laws that hold for any values."""
    generator = torch_generator(seed, "pair")
    lots = torch.rand(batch, 1, size, size, generator=generator).expand(-1, channels, -1, -1)
    values = torch.randn(2, batch, channels, size, size, generator=generator)
    source = Source.of(values[0], lots < 0.3, torch.ones(batch))
    return Pair(source, Target.of(values[1], lots > 0.7))
