"""More examples from the same readings: translations the world does not notice, sensors that may fail.

`roll` moves a whole example along a periodic axis by a multiple of the step under which the world is
invariant (any number of cells where nothing depends on position, a period of the forcing where something
does). `thin` hides sensors from the source, so that one model serves many densities and does not learn
fixed masks by heart; the target is left alone. `hide_history` hides the past of cells, too. All randomness is the
generator's, drawn on the CPU so that devices agree.
"""

from __future__ import annotations

from math import gcd
from typing import overload

import torch
from torch import Tensor

from ..fields import OraclePair, Pair, Source, Target, Window


@overload
def roll(pair: Pair, shifts: tuple[int, int], generator: torch.Generator) -> Pair: ...
@overload
def roll(pair: OraclePair, shifts: tuple[int, int], generator: torch.Generator) -> OraclePair: ...
def roll(
    pair: Pair | OraclePair,
    shifts: tuple[int, int],  # step along (y, x) in cells; 0 leaves the axis alone
    generator: torch.Generator,
) -> Pair | OraclePair:
    """Each example moved by its own random multiples of the steps; right for periodic axes only."""
    if isinstance(pair, Pair):
        return _roll_pair(pair, _wrapped_cells(pair, shifts, generator))
    cells = _wrapped_cells(pair.pair, shifts, generator)
    return OraclePair(_roll_pair(pair.pair, cells), _take(pair.dense, cells))


def _wrapped_cells(
    pair: Pair, shifts: tuple[int, int], generator: torch.Generator
) -> Tensor:  # (B, H * W): which cell each cell's value comes from
    count, _, height, width = pair.source.values.shape
    rows, columns = (
        (torch.arange(length) - _multiples(step, length, count, generator)) % length  # (B, H) and (B, W)
        for step, length in zip(shifts, (height, width), strict=True)
    )
    cells = rows[:, :, None] * width + columns[:, None, :]
    return cells.reshape(count, -1).to(pair.source.values.device)


def _multiples(step: int, length: int, count: int, generator: torch.Generator) -> Tensor:  # (B, 1)
    if step == 0:
        return torch.zeros(count, 1, dtype=torch.long)
    distinct = length // gcd(step, length)  # multiples of the step before the axis closes
    return step * torch.randint(distinct, (count, 1), generator=generator)


def _roll_pair(pair: Pair, cells: Tensor) -> Pair:
    source, target = pair.source, pair.target
    covariates = None if source.covariates is None else _take(source.covariates, cells)
    window = None
    if source.window is not None:
        frames = source.window.mask.shape[1:3]
        window = source.window.map(lambda tensor: _take(tensor.flatten(1, 2), cells).unflatten(1, frames))
    return Pair(
        Source(_take(source.values, cells), _take(source.mask, cells), source.lead, covariates, window),
        Target(_take(target.values, cells), _take(target.mask, cells)),
    )


def _take(field: Tensor, cells: Tensor) -> Tensor:  # (B, C, H, W), (B, H * W) -> (B, C, H, W)
    index = cells[:, None].expand(-1, field.shape[1], -1)
    return field.flatten(2).gather(2, index).reshape(field.shape)


def thin(
    source: Source,
    probability: float,  # share of the examples that lose sensors
    most: float,  # of those sensors, a share uniform in [0, most] is hidden
    generator: torch.Generator,
) -> Source:
    """Hide floor(share * n) random sensors of an example, in all variables at once; at least one stays."""
    device = source.mask.device
    sensors = source.mask.any(dim=1).flatten(1)  # (B, H * W)
    count = sensors.sum(dim=1)  # (B,)
    chosen = torch.rand(len(source), generator=generator).to(device) < probability
    share = most * torch.rand(len(source), generator=generator, dtype=torch.float64).to(device)
    hidden = torch.minimum((share * count).long(), (count - 1).clamp(min=0)) * chosen  # (B,)

    row, cell = sensors.nonzero(as_tuple=True)  # (S,), ordered by row
    lot = torch.rand(len(row), generator=generator).to(device)
    order = torch.argsort(row + lot.double(), stable=True)  # a shuffle within each row: a float32 lot never reaches 1
    rank = torch.arange(len(row), device=device) - (count.cumsum(0) - count)[row]
    lost = order[rank < hidden[row]]

    keep = torch.ones_like(sensors)
    keep[row[lost], cell[lost]] = False
    mask = source.mask & keep.reshape(len(source), 1, *source.mask.shape[2:])
    window = source.window
    if window is not None:  # of the frames before, every sensor with the chance of these
        lot = torch.rand(*window.mask.shape[:2], 1, *window.mask.shape[3:], generator=generator).to(device)
        stays = lot >= (share * chosen).to(lot)[:, None, None, None, None]
        window = Window.of(window.values, window.mask & stays)
    return Source.of(source.values, mask, source.lead, source.covariates, window)


def hide(pair: Pair, probability: float, most: float, generator: torch.Generator, past: int = 0) -> Pair:
    """Thin the sources of a batch. At lead 0 a hidden reading is of the target's own time: it becomes a target."""
    source = thin(pair.source, probability, most, generator)
    hidden = pair.source.mask & ~source.mask
    known = hidden & (source.lead == 0)[:, None, None, None]
    values = torch.where(known, pair.source.values, pair.target.values)
    if past:
        source = hide_history(source, hidden.any(dim=1), most, past, generator)
    return Pair(source, Target.of(values, pair.target.mask | known))


def hide_history(
    source: Source,
    hidden: Tensor,  # (B, H, W) bool: cells whose reading was hidden
    most: float,
    past: int,  # how many of the last covariates tell of earlier readings
    generator: torch.Generator,
) -> Source:
    """In half of the examples the hidden cells lose their past as well, and of all others a share in [0, most].

    A cell without reading and without past is what the map mostly consists of; where sensors stand still no example
    shows one, and the network would be as sure of it as of a cell it knows.
    """
    assert source.covariates is not None
    device, (count, *shape) = hidden.device, hidden.shape
    chosen = (torch.rand(count, generator=generator) < 0.5).to(device)[:, None, None]
    share = most * torch.rand(count, generator=generator).to(device)[:, None, None]
    lot = torch.rand(count, *shape, generator=generator).to(device)
    gone = chosen & (hidden | (lot < share))
    covariates = source.covariates.clone()
    covariates[:, -past:] *= ~gone[:, None]
    return Source.of(source.values, source.mask, source.lead, covariates, source.window)
