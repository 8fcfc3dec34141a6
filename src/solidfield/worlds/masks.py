"""Where sensors stand: cells or square blocks at random, and halves of them.

A layout is a list of units, `units (n, cells per unit)`: flat indices y * W + x, one row a unit, in random
order. A unit is one cell (`random_cells`) or one b x b block (`block_cells`); `split` works on units alike,
so that a block is never cut in two.

Blocks are placed one after another, each uniformly among all offsets that are still free, so no draw is
rejected. That process jams at some 56 % of the plane; after a few fresh starts, strips of blocks with
random slack always reach floor(H / b) * floor(W / b) blocks.
"""

from __future__ import annotations

import numpy as np

from ..errors import SolidError

RESTARTS = 8  # fresh starts of the sequential placement; 26 blocks of 8 x 8 on 64 x 64 hardly ever need a second


def random_cells(
    count: int,
    shape: tuple[int, int],
    generator: np.random.Generator,
    domain: np.ndarray | None = None,  # (H, W) bool, True = a cell that may hold a sensor
) -> np.ndarray:  # (count, 1) flat cells
    """Distinct cells, uniformly, in random order."""
    allowed = np.arange(shape[0] * shape[1]) if domain is None else np.flatnonzero(domain)
    if count > len(allowed):
        raise SolidError(
            f"{count} sensors do not fit on the {len(allowed)} usable cells of a {shape} grid; ask for fewer"
        )
    return generator.permutation(allowed)[:count, None]


def block_cells(
    blocks: int,
    block: int,  # b, the side in cells
    shape: tuple[int, int],
    generator: np.random.Generator,
    domain: np.ndarray | None = None,  # (H, W) bool; blocks then lie wholly inside it
) -> np.ndarray:  # (blocks, b * b) flat cells
    """Square blocks at any offset, none overlapping another, in random order."""
    height, width = shape
    capacity = (height // block) * (width // block)
    if blocks > capacity:
        raise SolidError(
            f"{blocks} blocks of {block} x {block} exceed the {capacity} that fit {height} x {width} cells; "
            "ask for fewer or smaller blocks"
        )
    corners = None
    for _ in range(RESTARTS):
        corners = _place_in_turn(blocks, block, shape, generator, domain)
        if corners is not None:
            break
    if corners is None and domain is not None:
        raise SolidError(
            f"found no room for {blocks} blocks of {block} x {block} in a domain of {domain.sum()} cells "
            f"on a {height} x {width} grid; ask for fewer or smaller blocks"
        )
    if corners is None:
        corners = _place_in_strips(blocks, block, shape, generator)
    corners = generator.permutation(corners)  # placement in turn favours the early blocks: forget the order
    inside = np.arange(block)[:, None] * width + np.arange(block)  # (b, b)
    return corners[:, :1] * width + corners[:, 1:] + inside.ravel()


def _place_in_turn(
    blocks: int, block: int, shape: tuple[int, int], generator: np.random.Generator, domain: np.ndarray | None
) -> np.ndarray | None:  # (blocks, 2) corners (y, x), or None when jammed
    positions = (shape[0] - block + 1, shape[1] - block + 1)
    if domain is None:
        free = np.ones(positions, dtype=bool)
    else:
        windows = np.lib.stride_tricks.sliding_window_view(domain, (block, block))
        free = np.array(windows.all(axis=(2, 3)))
    corners = np.empty((blocks, 2), dtype=np.int64)
    for n in range(blocks):
        left = np.flatnonzero(free)
        if len(left) == 0:
            return None
        y, x = divmod(int(left[generator.integers(len(left))]), positions[1])
        free[max(0, y - block + 1) : y + block, max(0, x - block + 1) : x + block] = False
        corners[n] = y, x
    return corners


def _place_in_strips(
    blocks: int, block: int, shape: tuple[int, int], generator: np.random.Generator
) -> np.ndarray:  # (blocks, 2) corners (y, x)
    """Random slots of a regular packing; then strips, and blocks in their strip, move by random slack."""
    turned = bool(generator.integers(2))  # strips along x or along y
    across, along = shape[::-1] if turned else shape
    slots = generator.permutation((across // block) * (along // block))[:blocks]
    strip_of, counts = np.unique(slots // (along // block), return_counts=True)
    rows = _spread(len(strip_of), block, across, generator)
    corners = [
        (row, column)
        for row, count in zip(rows, counts, strict=True)
        for column in _spread(int(count), block, along, generator)
    ]
    return np.array(corners, dtype=np.int64)[:, :: -1 if turned else 1]


def _spread(count: int, block: int, length: int, generator: np.random.Generator) -> np.ndarray:  # (count,) starts
    """Segments of the block's length along an axis, in order, with the slack cut at random."""
    slack = np.sort(generator.integers(0, length - count * block + 1, size=count))
    return np.arange(count) * block + slack


def split(
    units: np.ndarray,  # (n, cells per unit) flat cells, in random order
    shape: tuple[int, int],
    overlap: float = 0.0,  # share of the units that both masks hold
) -> tuple[np.ndarray, np.ndarray]:  # M_i, M_o: (H, W) bool
    """Two masks that share s = round(overlap * n) units and halve the rest; an odd one goes to M_i."""
    shared = int(overlap * len(units) + 0.5)
    middle = shared + (len(units) - shared + 1) // 2
    return (_mask(units[:middle], shape), _mask(np.concatenate([units[:shared], units[middle:]]), shape))


def _mask(units: np.ndarray, shape: tuple[int, int]) -> np.ndarray:  # (H, W) bool
    mask = np.zeros(shape, dtype=bool)
    mask.ravel()[units.ravel()] = True
    return mask
