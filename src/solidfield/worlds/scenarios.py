"""The paper's twelve ways of measuring, and any other: where the source mask M_i and the target mask M_o lie.

pattern   `random`: floor(density * cells) single cells; `block`: a number of b x b blocks
regime    `global`: one pair of masks for all examples; `instance`: one for each example, by its index
overlap   share of the cells (or blocks) that are in both masks; 0 gives disjoint halves, as in the paper

The masks are a pure function of the arguments: the same at every epoch, in every process, in any order.
Neither the amount nor the overlap is part of the random key, so a study that varies one of them keeps the
rest equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

from ..errors import SolidError
from ..keys import numpy_generator
from .masks import block_cells, random_cells, split


class ScenarioLike(Protocol):
    """Anything with these fields is a scenario: `Scenario` below, or the configuration's record."""

    @property
    def pattern(self) -> str: ...
    @property
    def amount(self) -> float: ...
    @property
    def regime(self) -> str: ...
    @property
    def block(self) -> int: ...
    @property
    def overlap(self) -> float: ...


@dataclass(frozen=True)
class Scenario:
    """One way of measuring."""

    pattern: str = "random"  # random | block
    amount: float = 0.1  # a density, or a number of blocks
    regime: str = "instance"  # global | instance
    block: int = 8  # side of a block in cells
    overlap: float = 0.0


# The paper's twelve: pattern (random density in percent, or number of blocks) x regime, by name.
PAPER_SCENARIOS: dict[str, Scenario] = {
    f"{pattern}-{label}-{regime}": Scenario(pattern, amount, regime)
    for pattern, amounts in (("random", {"4": 0.04, "10": 0.10, "40": 0.40}), ("block", {"2": 2, "6": 6, "26": 26}))
    for label, amount in amounts.items()
    for regime in ("global", "instance")
}


def scenario(name: str) -> Scenario:
    """One of the paper's twelve scenarios by name.

    Parameters
    ----------
    name : str
        `random-{4, 10, 40}-{global, instance}` (per cent of the cells) or `block-{2, 6, 26}-{global, instance}`.

    Returns
    -------
    Scenario
        Pattern, amount, regime, side of a block in cells, overlap.

    Raises
    ------
    SolidError
        If there is no such scenario; the message names the nearest.

    Examples
    --------
    >>> scenario("block-26-global").amount
    26
    """
    if name in PAPER_SCENARIOS:
        return PAPER_SCENARIOS[name]
    near = get_close_matches(name, PAPER_SCENARIOS, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise SolidError(f"unknown scenario '{name}'; {hint}the twelve are {', '.join(PAPER_SCENARIOS)}")


def as_dict(record: ScenarioLike) -> dict[str, Any]:
    """The fields that decide the masks, as plain JSON."""
    return {
        "pattern": record.pattern,
        "amount": record.amount,
        "regime": record.regime,
        "block": record.block,
        "overlap": record.overlap,
    }


def scenario_masks(
    pattern: str,  # random | block
    amount: float,  # a density for `random`, a number of blocks for `block`
    regime: str,  # global | instance
    shape: tuple[int, int],  # (H, W)
    index: int,  # which example; the global regime does not look at it
    seed: int,
    overlap: float = 0.0,
    block: int = 8,
    domain: np.ndarray | None = None,  # (H, W) bool, True = a cell that counts
) -> tuple[np.ndarray, np.ndarray]:  # M_i, M_o: (H, W) bool
    """The source mask and the target mask of one example: a pure function of the arguments.

    Parameters
    ----------
    pattern : str
        "random" for single cells, "block" for squares of cells.
    amount : float
        A density in (0, 1] for "random", a number of blocks for "block"; both masks together.
    regime : str
        "global": one pair of masks for all examples; "instance": one for each.
    shape : tuple of int
        Cells (H, W).
    index : int
        Which example; the global regime does not look at it.
    seed : int
        Another seed, other masks.
    overlap : float, default 0
        Share of the cells, or blocks, that are in both masks.
    block : int, default 8
        Side of a block in cells.
    domain : array (H, W) of bool, optional
        Cells that count. Default: all.

    Returns
    -------
    tuple of two arrays (H, W) of bool
        M_i and M_o.

    Raises
    ------
    SolidError
        If a choice is unknown or out of range, or so few cells are measured that a mask is empty.

    Examples
    --------
    >>> m_i, m_o = scenario_masks("random", 0.1, "instance", (64, 64), index=7, seed=0)
    >>> int(m_i.sum()), int(m_o.sum()), bool((m_i & m_o).any())
    (205, 204, False)
    """
    _check(pattern, amount, regime, overlap, block)
    which: int | str = int(index) if regime == "instance" else "all"
    generator = numpy_generator(int(seed), "scenario", pattern, regime, which)
    if pattern == "random":
        cells = shape[0] * shape[1] if domain is None else int(domain.sum())
        count = int(amount * cells + 1e-9)  # the margin keeps 0.29 * 100 at 29
        units = random_cells(count, shape, generator, domain)
    else:
        units = block_cells(int(amount), block, shape, generator, domain)
    m_i, m_o = split(units, shape, overlap)
    if not (m_i.any() and m_o.any()):
        what = f"density {amount:g}" if pattern == "random" else f"{int(amount)} block(s)"
        raise SolidError(
            f"{what} on a {shape[0]} x {shape[1]} grid is {len(units)} sensor unit(s), one mask is empty; "
            f"raise the {'density' if pattern == 'random' else 'number of blocks to 2'} or the overlap"
        )
    return m_i, m_o


def _check(pattern: str, amount: float, regime: str, overlap: float, block: int) -> None:
    if pattern not in ("random", "block"):
        raise SolidError(f"pattern '{pattern}' is unknown; use 'random' or 'block'")
    if regime not in ("global", "instance"):
        raise SolidError(f"regime '{regime}' is unknown; use 'global' or 'instance'")
    if pattern == "random" and not 0 < amount <= 1:
        raise SolidError(f"amount {amount:g} of the random pattern is a density; give a number in (0, 1]")
    if pattern == "block" and (amount < 1 or amount != int(amount)):
        raise SolidError(f"amount {amount:g} of the block pattern is a number of blocks; give a whole number from 1")
    if not 0 <= overlap <= 1:
        raise SolidError(f"overlap {overlap:g} is a share; give a number from 0 to 1")
    if block < 1:
        raise SolidError(f"block {block} is the side of a block in cells; give at least 1")
