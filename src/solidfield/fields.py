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
class Source:
    """A query: the readings at hand, how far ahead to predict, and what is known everywhere (covariates).

    Parameters
    ----------
    values : tensor (B, C, H, W)
        X_c, standardised readings; exact zeros off the mask (`Source.of` puts them in).
    mask : tensor (B, C, H, W) of bool
        M_i, the cells that were read.
    lead : tensor (B,)
        Steps ahead: 0 reconstructs, 1 forecasts one step.
    covariates : tensor (B, E, H, W), optional
        Channels known at every cell: hour of the day, elevation, history. Default: none.

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

    @classmethod
    def of(cls, values: Tensor, mask: Tensor, lead: Tensor, covariates: Tensor | None = None) -> Source:
        return cls(restrict(values, mask), mask, lead, covariates)

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, rows: slice | Tensor) -> Source:
        """Some of the queries of the batch."""
        return self.map(lambda tensor: tensor[rows])

    def map(self, change: Callable[[Tensor], Tensor]) -> Source:
        """The same change to every tensor: a device, a repetition, a selection of rows."""
        covariates = None if self.covariates is None else change(self.covariates)
        return Source(change(self.values), change(self.mask), change(self.lead), covariates)


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
