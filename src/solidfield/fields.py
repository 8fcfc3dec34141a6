"""What a model may see: the restriction R_M(U) = M * U of a field to the cells that were measured.

`restrict` selects, it does not multiply: an unobserved NaN or 1e30 becomes an exact zero and can reach nothing.
A `Pair` has a slot for readings and none for a dense field; `OraclePair`, the paper's literal reading, is another type
that only simulated truth can fill and that only a model run as `oracle` accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def restrict(
    values: Tensor,  # (..., H, W), anything at all off the mask
    mask: Tensor,  # (..., H, W) bool
) -> Tensor:
    """R_M(U): the value where observed, exact zero elsewhere.

    >>> restrict(torch.tensor([1.0, float("nan")]), torch.tensor([True, False]))
    tensor([1., 0.])
    """
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))


@dataclass(frozen=True)
class Target:
    """Readings to be predicted: values are exact zeros off the mask.

    Parameters
    ----------
    values : tensor (B, C, H, W)
        Standardised readings; `Target.of` puts the zeros in.
    mask : tensor (B, C, H, W) of bool
        M_o, the cells that were read.

    Examples
    --------
    >>> mask = torch.tensor([[[[True, False]]]])
    >>> Target.of(torch.tensor([[[[2.0, float("nan")]]]]), mask).values.tolist()
    [[[[2.0, 0.0]]]]
    """

    values: Tensor  # (B, C, H, W)
    mask: Tensor  # (B, C, H, W) bool, M_o

    @classmethod
    def of(cls, values: Tensor, mask: Tensor) -> Target:
        return cls(restrict(values, mask), mask)


@dataclass(frozen=True)
class Window:
    """The frames before a source, a step apart, newest first; each has sensors of its own, or none."""

    values: Tensor  # (B, P, C, H, W), exact zeros off the mask
    mask: Tensor  # (B, P, C, H, W) bool

    @classmethod
    def of(cls, values: Tensor, mask: Tensor) -> Window:
        return cls(restrict(values, mask), mask)

    def map(self, change: Callable[[Tensor], Tensor]) -> Window:
        return Window(change(self.values), change(self.mask))


@dataclass(frozen=True)
class Around:
    """Of a crop of a large map: where it begins, and what was read in it and beyond its edges."""

    values: Tensor  # (B, C, H', W'), exact zeros off the mask; the crop stands in the middle
    mask: Tensor  # (B, C, H', W') bool
    corner: Tensor  # (B, 2) int64: row and column of the crop's first cell in the map

    def map(self, change: Callable[[Tensor], Tensor]) -> Around:
        return Around(change(self.values), change(self.mask), change(self.corner))


@dataclass(frozen=True)
class Source:
    """A query: the readings at hand, how far ahead to predict, and what is known everywhere (covariates).

    Parameters
    ----------
    values : tensor (B, C, H, W)
        X_c, standardised readings; exact zeros off the mask (`Source.of` puts them in).
    mask : tensor (B, C, H, W) of bool
        M_i, the cells that were read.
    lead : tensor (B,)
        Steps ahead: 0 reconstructs, 1 forecasts one step; -1 asks for the frame before, between others of a window.
    covariates : tensor (B, E, H, W), optional
        Channels known at every cell: hour of the day, elevation, history. Default: none.
    window : Window, optional
        The frames before these readings. Default: none.
    around : Around, optional
        Of crops of a large map: where they lie, and what surrounds them. Default: these are whole maps.

    Examples
    --------
    >>> values, mask = torch.full((3, 1, 4, 4), torch.nan), torch.zeros(3, 1, 4, 4, dtype=torch.bool)
    >>> source = Source.of(values, mask, lead=torch.ones(3))
    >>> len(source), bool(source.values.any()), len(source[:2])
    (3, False, 2)
    """

    values: Tensor  # (B, C, H, W), X_c: exact zeros off the mask
    mask: Tensor  # (B, C, H, W) bool, M_i
    lead: Tensor  # (B,) in steps: 0 reconstructs, 1 forecasts one step
    covariates: Tensor | None = None  # (B, E, H, W) known at every cell: coordinates, hour of day, elevation
    window: Window | None = None
    around: Around | None = None

    @classmethod
    def of(
        cls, values: Tensor, mask: Tensor, lead: Tensor, covariates: Tensor | None = None, window: Window | None = None
    ) -> Source:
        return cls(restrict(values, mask), mask, lead, covariates, window)

    @property
    def frames(self) -> Window:  # (B, W, C, H, W)
        """All that was read: the source, and the frames before it."""
        now = Window(self.values[:, None], self.mask[:, None])
        if self.window is None:
            return now
        pairs = zip(vars(now).values(), vars(self.window).values(), strict=True)
        return Window(*(torch.cat(pair, 1) for pair in pairs))

    def read_then(self) -> Target:
        """What was read at the very time that is asked for: at lead 0 by the source, at lead -k by the k-th before."""
        frames, back = self.frames, (-self.lead).long()
        inside = (back >= 0) & (back < frames.mask.shape[1]) & (-back == self.lead)
        place = (torch.arange(len(self), device=back.device), back.clamp(0, frames.mask.shape[1] - 1))
        return Target.of(frames.values[place], frames.mask[place] & inside[:, None, None, None])

    def then(self, values: Tensor, mask: Tensor, covariates: Tensor | None) -> Source:
        """The source of the next step, once this has been read; the window moves on."""
        window = None
        if self.window is not None:
            window = self.frames.map(lambda tensor: tensor[:, :-1])
        return Source.of(values, mask, self.lead, covariates, window)

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, rows: slice | Tensor) -> Source:
        """Some of the queries of the batch."""
        return self.map(lambda tensor: tensor[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Source:
        """The same change to every tensor: a device, a repetition, a selection of rows."""
        covariates = None if self.covariates is None else change(self.covariates)
        window = None if self.window is None else self.window.map(change)
        around = None if self.around is None else self.around.map(change)
        return Source(change(self.values), change(self.mask), change(self.lead), covariates, window, around)


@dataclass(frozen=True)
class Pair:
    """One training example a row: a source and the sparse target it should lead to; no slot for a dense field.

    Parameters
    ----------
    source : Source
        What the model is given.
    target : Target
        What was read at the target time.

    Examples
    --------
    >>> values, mask = torch.zeros(3, 1, 4, 4), torch.ones(3, 1, 4, 4, dtype=torch.bool)
    >>> len(Pair(Source.of(values, mask, torch.zeros(3)), Target.of(values, mask)))
    3
    """

    source: Source
    target: Target

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device | str) -> Pair:
        return Pair(
            self.source.map(lambda tensor: tensor.to(device)),
            Target(self.target.values.to(device), self.target.mask.to(device)),
        )


@dataclass(frozen=True)
class OraclePair:
    """A pair that also holds the dense target: leaking, simulated truth only, never made unless asked for."""

    pair: Pair
    dense: Tensor  # (B, C, H, W)

    def to(self, device: torch.device | str) -> OraclePair:
        return OraclePair(self.pair.to(device), self.dense.to(device))
