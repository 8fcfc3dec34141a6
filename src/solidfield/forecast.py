"""One small interface for every model: a loss on sparse pairs, and members of an ensemble for a query.

Values are standardised (`pairs/scaling.py`) on the way in and out; a model never meets physical units. Families
(regression, denoising, adversarial game) live beside the models and a model file holds only what is its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .fields import Pair, Source
from .grid import Grid
from .noise import Noise


@dataclass(frozen=True)
class Spec:
    """What a model must know of the data it will meet.

    Parameters
    ----------
    grid : Grid
        The cells.
    channels : int, default 1
        Variables predicted jointly.
    covariates : int, default 0
        Extra input channels known everywhere.
    shifts : tuple of int, default (0, 0)
        Cells along (y, x) after which the world repeats itself; 0: it does not.
    window : int, default 1
        Frames of readings that a query has: the source, and those before it.

    Examples
    --------
    >>> Spec(Grid((8, 8)), channels=2).channels
    2
    """

    grid: Grid
    channels: int = 1  # variables predicted jointly
    covariates: int = 0  # extra input channels known everywhere
    shifts: tuple[int, int] = (0, 0)  # cells along (y, x) after which the world repeats itself; 0: it does not
    window: int = 1  # frames of readings: the source, and those before it


@dataclass(frozen=True)
class Objective:
    """A loss and the parameters it may move; most models have one, an adversarial game has two."""

    name: str
    loss: Callable[[Any, torch.Generator], Tensor]  # of the examples that its training draws, pairs for most
    parameters: list[nn.Parameter]
    betas: tuple[float, float] = (0.9, 0.999)  # Adam's memory of the gradient and of its square; a game forgets


class Forecaster(nn.Module, ABC):
    """A law of the field at the target time, given a source: the one interface of all models.

    A model file gives `name`, `family`, `reference`, `SIZES`, a `loss` and a `sample`; docs/architecture.md tells when
    `objectives`, `prepare` and `conclude` are for it.

    Parameters
    ----------
    spec : Spec
        Grid, variables and input channels.

    Examples
    --------
    >>> class Zero(Forecaster):
    ...     name = "zero"
    ...     def loss(self, pair, generator):
    ...         return pair.target.values.square().sum() / pair.target.mask.sum()
    ...     def sample(self, source, members, noise):
    ...         return source.values.new_zeros(members, *source.values.shape)
    >>> Zero(Spec(Grid((8, 8)))).parameter_count()
    0
    """

    name: ClassVar[str]
    family: ClassVar[str]  # deterministic | diffusion | distribution | adversarial | classical
    reference: ClassVar[str]
    revision: ClassVar[int] = 1  # raised when its law or its network changes, so that stored results count as outdated
    stochastic: ClassVar[bool] = True  # do members differ?
    SIZES: ClassVar[dict[str, dict[str, Any]]]  # options of each size: smoke, laptop, paper
    leaks: bool = False  # True only for a model run as `oracle`
    crops: bool = False  # is it for a large map, and learns in crops of it?
    direct: bool = False  # has it a law of every lead of its training, drawn together by `sample_leads`?
    mask_channel: bool | None = None  # is M_i an input? None: the model leaves no choice

    def __init__(self, spec: Spec):
        super().__init__()
        self.spec = spec

    @abstractmethod
    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        """The training loss, a scalar; touches the target on its mask only. All its randomness is the generator's,
        except dropout, which the training loop seeds for every step."""

    @abstractmethod
    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        """Draw K members for each query. All randomness is the noise's, which is made for these members."""

    def drawing(self, source: Source, rows: slice | None = None) -> Callable[[int, Noise], Tensor]:
        """How to draw members of these queries part by part: what they share is computed once, where there is such.

        With `rows`, of these rows of the map alone: (K, B, C, h, W), the same that a whole member has there.
        """
        if rows is None:
            return lambda members, noise: self.sample(source, members, noise)
        return lambda members, noise: self.sample(source, members, noise)[..., rows, :]

    def sample_few(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        """As `sample`, where a query has so few members that another way may be cheaper; most have only one."""
        return self.sample(source, members, noise)

    def sample_leads(
        self, source: Source, leads: Sequence[int], members: int, noise: Noise
    ) -> Tensor:  # (K, B, L, C, H, W)
        """K members coherent over several leads at once, of a model that has direct laws of them (`direct`)."""
        raise TypeError(f"{self.name} has no direct laws of several leads; roll it out")

    def objectives(self) -> list[Objective]:
        return [Objective("loss", self.loss, [p for p in self.parameters() if p.requires_grad])]

    def prepare(self, batches: Iterable[Pair]) -> None:
        """Before training, once: estimate from training examples what the loss starts from; most have nothing to."""
        return None

    def prepared(self) -> nn.Module | None:
        """The part that `prepare` makes, so that runs on the same examples can share it."""
        return None

    def conclude(
        self,
        held_out: Iterable[Pair],
        never_supervised: Tensor,  # (C, H, W) bool: cells that no training target taught
        followed: Iterable[tuple[Pair, Pair]] = (),  # held-out examples, and those that begin where they end
    ) -> None:
        """After training, once: estimate from held-out examples what the loss does not see; most have nothing to."""
        return None

    @property
    def memory(self) -> float:
        """How far the noise of a rollout lasts from step to step; most draw it anew."""
        return 0.0

    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def label(self) -> str:
        """The name for tables and titles, with what a result must not be read without."""
        mask = "" if self.mask_channel is None else f", mask channel {'on' if self.mask_channel else 'off'}"
        return self.name + mask + (" (oracle: leaks dense truth)" if self.leaks else "")


class Fitted(Forecaster):
    """A forecaster fitted in closed form (kriging, climatology): its state is buffers, `fit` replaces the loop."""

    family = "classical"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {"smoke": {}, "laptop": {}, "paper": {}}  # the same at every size

    @abstractmethod
    def fit(self, batches: Iterable[Pair]) -> None:
        """Estimate everything from sparse pairs; called once."""

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        raise TypeError(f"{self.name} is fitted in closed form and has no loss")
