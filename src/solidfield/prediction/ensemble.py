"""Ensembles: draw K members in chunks under a memory cap, roll them forward, keep what is asked for.

One step: member k of query b is a sample of the model under the same conditioning (paper, Eq. 3). Several steps (the
paper's rollout): each member restricts its own prediction to the sensors and conditions on it again,

    X_c^(h) = R_{M_i}(U^(k)_{h-1}),    U^(k)_h ~ model( . | X_c^(h), M_i),

with noise that lasts from step to step as far as the model says (`Forecaster.memory`; the paper's is new every time).

What is read on the way (assimilation) replaces every member's value at its cell before the member conditions on
itself again, and the cell is known from there on: members differ only where nothing was read.

Every member has its own noise (`noise.py`), so how the work is cut into chunks changes nothing but the peak memory
(up to the rounding of float32 kernels, which may differ between batch sizes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..engine import Progress
from ..errors import SolidError
from ..fields import Source
from ..forecast import Forecaster
from ..noise import LastingNoise, MemberNoise, Noise, one_query_per_member
from ..pairs.scaling import Scaling

GIB = 2**30
DRAWN = 2.0  # GiB that an ensemble may take, unless the caller says otherwise
MEMBER = 32  # bytes for each cell of a member while it is drawn: noise, its transform, latents, values
LITTLE = 1 / 16  # GiB that nobody minds


@dataclass(frozen=True)
class Summary:
    """What is kept of an ensemble; arrays are (N queries, L leads, C, H, W) in physical units."""

    mean: np.ndarray
    std: np.ndarray  # unbiased; zero for a single member
    quantiles: dict[float, np.ndarray]
    members: np.ndarray | None  # (K, N, L, C, H, W) where asked for
    of: str = "members"  # whose mean, spread and quantiles these are; or those of the "law" that members are draws of


@torch.no_grad()
def rollout(
    model: Forecaster,
    source: Source,  # standardised
    noise: MemberNoise,
    steps: int,
    later: Sequence[Source] = (),  # at the time of each state: what is read then, and the covariates from there on
    memory: float | None = None,  # of the noise from step to step; None: the model's; 0: the paper's rollout
    first: Callable[[int, Noise], Tensor] | None = None,  # draws the first state, see `Forecaster.drawing`
) -> Tensor:  # (K, B, L, C, H, W), standardised
    """Draw members at leads 1 .. steps (or the single lead of the source when steps is 1), in the model's units.

    Parameters
    ----------
    model : Forecaster
        What is rolled forward.
    source : Source
        B queries, standardised.
    noise : MemberNoise
        Of K members of each query.
    steps : int
        Leads of the rollout.
    later : sequence of Source
        At the time of each state: what is read then, and the covariates from there on. Default: nothing.
    memory : float, optional
        Of the noise from step to step. Default: the model's; 0 is the paper's rollout.
    first : callable, optional
        Draws the first state: the `drawing` of this source, which several calls share. Default: the model's own.

    Returns
    -------
    Tensor
        (K, B, steps, C, H, W), standardised.

    Examples
    --------
    >>> from solidfield import Grid, Spec, build
    >>> source = Source.of(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool), torch.ones(1))
    >>> model = build("persistence", Spec(Grid((4, 4)), 1))
    >>> rollout(model, source, MemberNoise(0, [0], range(3), torch.device("cpu")), steps=2).shape
    torch.Size([3, 1, 2, 1, 4, 4])
    """
    members, queries = noise.size
    known, states = source, list[Tensor]()  # `known` is what all members share: mask, lead and covariates
    own: Source | None = None  # what each member conditions on
    lasting = LastingNoise(noise, model.memory if memory is None else memory)
    for step in range(steps):
        if step == 0:
            state = (first or model.drawing(source))(members, lasting.step())
        else:
            told = known.map(lambda tensor: tensor.repeat(members, *[1] * (tensor.ndim - 1)))
            own = (told if own is None else own).then(states[-1].flatten(0, 1), told.mask, told.covariates)
            state = model.sample_few(own, 1, one_query_per_member(lasting.step()))[0].unflatten(0, (members, queries))
        if step < len(later):
            read = later[step]
            state = torch.where(read.mask, read.values, state)
            known = replace(known, mask=known.mask | read.mask, covariates=read.covariates)
        states.append(state)
    return torch.stack(states, dim=2)


def draw(
    model: Forecaster,
    scaling: Scaling,
    source: Source,  # physical units, N queries
    members: int,
    *,
    first: int = 0,  # number of the first member: a share of a larger ensemble begins elsewhere
    steps: int = 1,
    later: Sequence[Source] = (),  # physical units, see `rollout`
    memory: float | None = None,  # see `rollout`
    leads: Sequence[int] | None = None,  # direct laws of these, as many as steps, instead of a rollout
    seed: int = 0,
    queries: Sequence[int] | None = None,  # identities of the queries; their noise depends on nothing else
    quantiles: Sequence[float] = (),
    keep_members: bool = True,
    max_memory: float = DRAWN,  # GiB
    progress: Progress | None = None,
) -> Summary:
    """Draw the ensemble of every query in chunks that fit the memory, and summarise it in physical units.

    Parameters
    ----------
    model : Forecaster
        What draws.
    scaling : Scaling
        From physical units to the model's and back.
    source : Source
        N queries, in physical units.
    members : int
        Of each ensemble.
    first : int
        Number of the first member: a share of a larger ensemble begins elsewhere. Default: 0.
    steps : int
        Leads of a rollout. Default: 1.
    later, memory
        As for `rollout`, the sources in physical units.
    leads : sequence of int, optional
        Draw these leads together by their direct laws (`Forecaster.sample_leads`); `steps` is their number. Default:
        a rollout.
    seed : int
        Same seed, same members. Default: 0.
    queries : sequence of int, optional
        Identities of the queries, on which their noise depends. Default: 0, 1, 2 ...
    quantiles : sequence of float
        To compute. Default: none.
    keep_members : bool
        Keep every member, not the summaries alone. Default: True.
    max_memory : float
        GiB that drawing may take. Default: 2.
    progress : callable, optional
        Called as `progress(what, done, total)`, with numbers of queries.

    Returns
    -------
    Summary
        `mean`, `std`, `quantiles` (N, steps, C, H, W) and `members` (K, N, steps, C, H, W).

    Raises
    ------
    SolidError
        If members or steps are fewer than one, a quantile is no share, or the source lies on another grid.

    Examples
    --------
    >>> from solidfield import Grid, Spec, build
    >>> source = Source.of(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4, dtype=torch.bool), torch.ones(1))
    >>> model = build("persistence", Spec(Grid((4, 4)), 1))
    >>> draw(model, Scaling((0.0,), (1.0,)), source, members=3).mean.shape
    (1, 1, 1, 4, 4)
    """
    _check(model, source, members, steps, quantiles)
    held = len(source) if keep_members else 1 if quantiles else 0  # queries whose members are all at hand
    check_memory(members, held, (steps, *source.values.shape[1:]), max_memory)
    identities = list(range(len(source))) if queries is None else list(queries)
    shape = (steps, *source.values.shape[1:])
    states_at_once = max(1, int(max_memory * GIB / 2 / _bytes_per_state(model, shape)))
    queries_at_once = max(1, states_at_once // members)  # as many members as fit, then as many queries
    if steps == 1 and model.crops:  # the network runs once for all members
        states_at_once = members_at_once(max_memory, shape)
    device = next(iter([*model.parameters(), *model.buffers()]), torch.zeros(())).device
    model.eval()

    total = len(source)
    mean, std = np.empty((2, total, *shape), np.float32)
    at = {q: np.empty((total, *shape), np.float32) for q in quantiles}
    kept = np.empty((members, total, *shape), np.float32) if keep_members else None
    for start in range(0, total, queries_at_once):
        rows = slice(start, min(start + queries_at_once, total))
        part, *ahead = (
            scaling.standardise(query[rows]).map(lambda tensor: tensor.to(device)) for query in (source, *later)
        )
        states = _Members((members, rows.stop - rows.start, *shape), hold=keep_members or bool(quantiles))
        sample = model.drawing(part) if leads is None else None
        for begin in range(first, first + members, states_at_once):
            chosen = range(begin, min(begin + states_at_once, first + members))
            noise = MemberNoise(seed, identities[rows], chosen, device)
            if leads is None:
                drawn = rollout(model, part, noise, steps, ahead, memory, sample)
            else:
                drawn = model.sample_leads(part, leads, len(chosen), noise)
            physical = scaling.restore(drawn)
            for step in range(steps):
                keep_digits(physical[:, :, step], drawn[:, :, step], source[rows], part)
                if step < len(later):
                    keep_digits(physical[:, :, step], drawn[:, :, step], later[step][rows], ahead[step])
            states.add(physical.cpu().numpy())
        mean[rows], std[rows] = states.mean, states.std
        for q in quantiles:
            at[q][rows] = np.quantile(states.held, q, axis=0)
        if kept is not None:
            kept[:, rows] = states.held
        if progress is not None:
            progress("drawing scenes", rows.stop, total)
    return Summary(mean, std, at, kept)


def draw_members(
    model: Forecaster, scaling: Scaling, source: Source, members: int, **options: Any
) -> np.ndarray:  # (K, N, L, C, H, W)
    """As `draw`, the members alone."""
    drawn = draw(model, scaling, source, members, **options).members
    assert drawn is not None  # they are kept unless that is declined
    return drawn


def keep_digits(
    physical: Tensor,  # (K, n, C, H, W), changed in place
    drawn: Tensor,  # the same in standard units
    given: Source,  # physical units
    standard: Source,
) -> None:
    """A member that holds a reading holds all its digits, which the way to standard units and back would round."""
    held = standard.mask & (drawn == standard.values)
    physical.copy_(torch.where(held, given.values.to(physical.device), physical))


def check_memory(members: int, queries: int, shape: Sequence[int], max_memory: float) -> None:
    """Refuse ensembles that cannot be held, before anything is drawn; `shape` is that of one member of a query."""
    if not 0 < max_memory < math.inf:
        raise SolidError(f"max_memory is {max_memory:g} GiB; give a size above 0, such as 2")
    need = 4 * members * queries * math.prod(shape) / GIB
    if need > max(max_memory, LITTLE):
        raise SolidError(
            f"{members:,} members of {queries:,} scenes need {need:,.1f} GiB, more than {max_memory:g}; ask for fewer, "
            "keep no members, or raise max_memory"
        )


def summarise(
    members: np.ndarray,  # (K, N, L, C, H, W)
    quantiles: Sequence[float],
    keep_members: bool = True,
) -> Summary:
    """The summary of members that are at hand."""
    std = members.std(axis=0, ddof=1) if len(members) > 1 else np.zeros_like(members[0])
    at = {q: np.quantile(members, q, axis=0).astype(np.float32) for q in quantiles}
    return Summary(members.mean(axis=0), std, at, members if keep_members else None)


def join(parts: Sequence[Summary]) -> Summary:
    """The summary of all queries from those of each."""
    members = [part.members for part in parts if part.members is not None]
    return Summary(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.std for part in parts]),
        {q: np.concatenate([part.quantiles[q] for part in parts]) for q in parts[0].quantiles},
        np.concatenate(members, 1) if members else None,
        parts[0].of,
    )


def members_at_once(max_memory: float, shape: Sequence[int]) -> int:
    """How many members of a large map may be drawn together."""
    return max(1, int(max_memory * GIB / 2 / (MEMBER * math.prod(shape))))


def _bytes_per_state(model: nn.Module, shape: Sequence[int]) -> int:
    """Rough peak of a forward pass per member: a dozen activations of the widest full-resolution layer."""
    widths = [layer.out_channels for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    cells = int(np.prod(shape))
    return 4 * cells * (12 * min(widths, default=1) + 12 * max(widths, default=1) // 4 + 8)


class _Members:
    """Running mean and variance over chunks of members (Chan's update); holds the members only where asked to."""

    def __init__(self, shape: Sequence[int], hold: bool):  # (K, n, L, C, H, W)
        self.count = 0
        self.mean = np.zeros(shape[1:])
        self.squares = np.zeros(shape[1:])
        self.held = np.empty(shape if hold else 0, np.float32)

    def add(self, states: np.ndarray) -> None:  # (k, n, L, C, H, W)
        count, total = len(states), self.count + len(states)
        if self.held.size:
            self.held[self.count : total] = states
        states = states.astype(np.float64)
        mean = states.mean(axis=0)
        delta = mean - self.mean
        self.squares += ((states - mean) ** 2).sum(axis=0) + delta**2 * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.squares / max(1, self.count - 1))


def _check(model: Forecaster, source: Source, members: int, steps: int, quantiles: Sequence[float]) -> None:
    if members < 1:
        raise SolidError(f"members is {members}; ask for at least 1")
    if steps < 1:
        raise SolidError(f"steps is {steps}; ask for at least 1")
    if any(not 0 <= q <= 1 for q in quantiles):
        raise SolidError(f"quantiles {tuple(quantiles)} must lie between 0 and 1")
    height, width = model.spec.grid.shape
    if source.values.shape[-2:] != (height, width):
        got = " x ".join(map(str, source.values.shape[-2:]))
        raise SolidError(f"the model is for a {height} x {width} grid, the readings are on {got}; grid them alike")
    if steps > 1 and bool((source.lead == 0).any()):
        raise SolidError("a rollout moves forward in time, but the source has lead 0; ask for lead 1 or one step")
