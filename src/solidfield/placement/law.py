"""The joint law of a map and of what sensors would read on it, at one time, from a run and the readings known then.

A run of `solid-set` has it in closed form: under its covariance C the field at targets and candidates, given the
readings r of the window, has covariance C - C_r (C_rr + E)^-1 C_r, and a reading adds the nugget and its own error. How
wide the law of a target is, and where a threshold lies in it, says the model's calibrated law of that target.

Of other runs only members are known. A correlation of K members is off by 1 / sqrt(K), and a map has thousands of
cells, so most of what far cells seem to share is noise. Let r be these correlations and m(d) the mean of r^2 over all
pairs at distance d. Of m(d) about 1 / K is noise, and each correlation is shrunk by the share that is not:

    r -> r max(0, 1 - (1 - m(d))^2 / (K m(d)))
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial import cKDTree
from scipy.special import ndtri
from torch import Tensor

from ..clock import from_seconds
from ..errors import SolidError
from ..grid import Grid, lengths
from ..models.solid_set import SolidSet
from ..pairs.frames import Frames
from ..prediction.answer import AT_ONCE, Scene
from ..prediction.context import query
from ..prediction.predict import predict
from ..prediction.sets import check_lead, standard_record
from ..questions.record import Record
from ..theory.covariance_table import Covariance, CovarianceTable
from ..training.record import RunRecord
from .gain import Covariances, Joint

READINGS = 500  # known ones of a window that are used: those nearest in time
Z = ndtri((np.arange(25) + 0.5) / 25)  # latents at which a law is looked at: its quantiles of equal shares
ASKED = 1024  # targets of a large map whose calibrated law is looked at
MEMBERS = 400  # where there is no closed form
ROWS = 256  # of a covariance, computed together
FINEST = 1e-4  # of a variance: the least error of a reading, where a run names none


@dataclass(frozen=True)
class Wanted:
    """What is cared about: targets with weights, at a lead, for the CRPS or the chance above a threshold."""

    cells: np.ndarray  # (N,) flat, of one variable
    weight: np.ndarray  # (N,) sum 1
    variable: int = 0
    lead: int = 0
    above: float | None = None  # physical units


@dataclass(frozen=True)
class Moment:
    """What a run knows at the time of a frame, given what was read up to it: readings of its window, or members."""

    run: RunRecord
    known: tuple[Record, int] | None  # of a run of sets: the window in the units of the model, and the frame in it
    drawn: np.ndarray  # (K, H W) members in physical units; none where the law has a closed form
    obs_std: float

    @classmethod
    def of(cls, run: RunRecord, frames: Frames, row: int, wanted: Wanted, seed: int = 0) -> Moment:
        if isinstance(run.model, SolidSet):
            return cls(run, _window(run, frames, row, wanted.lead), np.zeros((0, run.grid.cells)), frames.obs_std)
        return cls(run, None, _members(run, frames, row, wanted, seed), frames.obs_std)

    def law(self, wanted: Wanted, cells: np.ndarray, errors: np.ndarray | None = None) -> Joint:  # as for `law_of`
        if self.known is None:
            return members_law(self.drawn, self.run.grid, wanted, cells, self.obs_std, errors)
        return set_law(self.run, *self.known, wanted, cells, errors)

    def values(self, wanted: Wanted) -> np.ndarray:  # (K, N)
        """The calibrated law of each target on its own: members, or quantiles of equal shares, in physical units."""
        if self.known is None:
            return self.drawn[:, wanted.cells]
        return _values(self.run, *self.known, wanted)

    def at(self, wanted: Wanted, latents: np.ndarray) -> np.ndarray:  # (Z,) -> (Z, N) physical units
        """The same at these latents; of members the normal law of their mean and spread, as in `members_law`."""
        if self.known is None:
            some = self.drawn[:, wanted.cells]
            return some.mean(0) + some.std(0, ddof=1) * latents[:, None]
        return _values(self.run, *self.known, wanted, latents)


def law_of(
    run: RunRecord,
    frames: Frames,
    row: int,  # the frame whose time it is
    wanted: Wanted,
    cells: np.ndarray,  # (P,) where candidates would read
    errors: np.ndarray | None = None,  # (P,) true variances of their errors, units of the law; None: as is believed
    seed: int = 0,
) -> Joint:
    """The law at the time of a frame, given what was read up to it."""
    return Moment.of(run, frames, row, wanted, seed).law(wanted, cells, errors)


def predicted(run: RunRecord, frames: Frames, row: int, wanted: Wanted, seed: int = 0) -> np.ndarray:  # (K, N)
    """The calibrated laws of the targets at the time of a frame."""
    return Moment.of(run, frames, row, wanted, seed).values(wanted)


def _window(run: RunRecord, frames: Frames, row: int, lead: int) -> tuple[Record, int]:  # and the frame in it
    """What a run of sets may know at the time of a frame, in the units of the model."""
    check_lead(run, lead)
    late = frames.seconds[row] - frames.seconds
    rows = np.flatnonzero((late >= 0) & (late <= run.info["data"]["plan"]["before"] * frames.every))
    errors = None if frames.errors is None else frames.errors[rows]
    part = replace(frames, values=frames.values[rows], times=frames.times[rows], errors=errors)
    record = standard_record(run, part, ahead=lead)
    return record, int(np.round((frames.seconds[row] - record.start) / record.step))


@torch.no_grad()
def set_law(
    run: RunRecord, record: Record, tick: int, wanted: Wanted, cells: np.ndarray, errors: np.ndarray | None = None
) -> Joint:
    """The same in closed form, from a record in the units of the model."""
    prior, before = run.model.prior, run.info["data"]["plan"]["before"]
    shape, c = run.grid.shape, wanted.variable
    frame, place, error = known_readings(record, tick, before, c)
    known = places(frame, place, shape)
    here, there = places(tick, cells, shape), places(tick + wanted.lead, wanted.cells, shape)
    if run.model.look is None:
        run.model.look = prior.lookup(run.model.frames)  # once for all laws
    covariance = Between(run.model.look, prior.channels, c)
    nugget = float(prior.nugget[c])
    own, cross = covariance(here, here), covariance(here, there)
    left = np.full(len(there), float(prior.variance[c]))
    if len(known):
        root = cho_factor(covariance(known, known) + np.diag(nugget + error**2 + 1e-9), lower=True)
        to_here, to_there = covariance(known, here), covariance(known, there)
        weight = cho_solve(root, to_here)
        own, cross = own - weight.T @ to_here, cross - weight.T @ to_there
        left = left - (cho_solve(root, to_there) * to_there).sum(0)
    total = np.maximum(left, 0.0) + nugget
    spread, level = _calibrated(run, record, tick, wanted, np.sqrt(total))
    believed = Covariances(own, cross, np.full(len(cells), nugget))
    true = None if errors is None else replace(believed, errors=errors)
    return Joint(believed, total, total, spread, wanted.weight, level, true)


class Between:
    """Covariances of one variable between places and times, by table where there is one."""

    def __init__(self, look: Covariance, channels: int = 1, variable: int = 0):
        self.look = look
        self.link = None if channels == 1 else torch.tensor(variable * (channels + 1))

    @torch.no_grad()
    def __call__(self, here: Tensor, there: Tensor) -> np.ndarray:  # (n, 3), (m, 3) -> (n, m)
        parts = [self._rows(rows, there) for rows in here.split(ROWS)]
        return torch.cat([torch.zeros(0, len(there)), *parts]).double().numpy()

    def _rows(self, here: Tensor, there: Tensor) -> Tensor:
        if isinstance(self.look, CovarianceTable) and self.look.covers(here, there):
            return self.look.at(self.look.along(there)[None] - self.look.along(here)[:, None], self.link)
        return self.look(there[None] - here[:, None], self.link)


def places(frame: int | np.ndarray, cells: np.ndarray, shape: tuple[int, int]) -> Tensor:  # (n, 3)
    frame = np.broadcast_to(frame, cells.shape)
    return torch.from_numpy(np.stack([frame, cells // shape[1], cells % shape[1]], 1).astype(np.int64))


def known_readings(
    record: Record, tick: int, before: int, variable: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (n,) frames, cells, errors
    """The latest readings of one variable up to a frame."""
    rows = np.arange(record.offsets[max(tick - before, 0)], record.offsets[tick + 1])
    rows = rows[record.cells[rows] // record.grid.cells == variable][-READINGS:]
    error = np.zeros(len(rows)) if record.errors is None else record.errors[rows].astype(float)
    return record.frames[rows], record.cells[rows] % record.grid.cells, error


def _calibrated(
    run: RunRecord, record: Record, tick: int, wanted: Wanted, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:  # (N,) spread, (N,) where the threshold lies
    """By the model's own law of every target; a target that is read now has no spread.

    How much wider or narrower that is than the `prior` changes slowly from place to place: of large maps some targets
    are asked, and the others are like the nearest of them.
    """
    some = np.arange(len(wanted.cells))
    if wanted.above is None and len(some) > ASKED:
        some = some[:: len(some) // ASKED]
    value = _values(run, record, tick, replace(wanted, cells=wanted.cells[some], weight=wanted.weight[some]))
    wider = value.std(0) / Z.std() / prior[some]  # a normal law's own, whatever the number of quantiles
    place = np.stack(np.divmod(wanted.cells, record.grid.shape[1]), 1)
    spread = prior * wider[cKDTree(place[some]).query(place)[1]]
    if wanted.lead == 0:
        now = record.cells[record.offsets[tick] : record.offsets[tick + 1]]
        spread[np.isin(wanted.cells + wanted.variable * record.grid.cells, now)] = 0.0
    if wanted.above is None:
        return spread, None
    level = [np.interp(wanted.above, np.maximum.accumulate(column), Z) for column in value.T]
    return spread, np.where(spread > 0, level, np.inf)


@torch.no_grad()
def _values(
    run: RunRecord, record: Record, tick: int, wanted: Wanted, latents: np.ndarray = Z
) -> np.ndarray:  # (Z, N) physical units
    """The laws of the targets at these latents."""
    flat = wanted.cells + wanted.variable * record.grid.cells
    if not len(record.cells):  # nothing is known: the law of any value at all
        prior, c = run.model.prior, wanted.variable
        values = torch.from_numpy(latents * float(prior.variance[c] + prior.nugget[c]) ** 0.5)[:, None].expand(
            -1, len(flat)
        )
        return run.scaling.physical_of(values, torch.full((len(flat),), c)).numpy()
    scene = Scene.course(tick, [wanted.lead], flat, run.info["data"]["plan"]["before"], tick)
    z, found = torch.from_numpy(latents).float()[:, None], []
    for start in range(0, len(flat), AT_ONCE):
        questions = scene.questions(record, slice(start, start + AT_ONCE))
        values = run.model.quantiles(questions, z)
        found.append(run.scaling.physical_of(values, questions.asked_channel).double().numpy())
    return np.concatenate(found, 1)


def _members(run: RunRecord, frames: Frames, row: int, wanted: Wanted, seed: int) -> np.ndarray:  # (K, H W)
    """An ensemble of maps at the time of the frame, in physical units."""
    if wanted.lead:
        raise SolidError(
            f"only a run of '{SolidSet.name}' knows what readings now say of later; place for lead 0, or train one"
        )
    source, later = query(run, frames, np.array([row]), 0)
    time = from_seconds(frames.seconds[[row]])
    maps = predict(run, source, time, members=MEMBERS, seed=seed, later=later, quantiles=())
    return maps[run.variables[wanted.variable]].values[:, 0, 0].reshape(MEMBERS, -1).astype(float)


def members_law(
    drawn: np.ndarray,  # (K, H W) physical units
    grid: Grid,
    wanted: Wanted,
    cells: np.ndarray,  # (P,)
    obs_std: float = 0.0,
    errors: np.ndarray | None = None,  # (P,) true variances of the readings' errors
) -> Joint:
    """The law that members show, without what is only the noise of drawing."""
    away, count = drawn - drawn.mean(0), len(drawn)
    std = np.maximum(away.std(0, ddof=1), 1e-12)
    z = away / std / np.sqrt(count - 1)
    shrink = _shrinkage(z, grid, count)

    def covariance(there: np.ndarray) -> np.ndarray:  # (P, n)
        steps = _steps(cells, there, grid)
        return (z[:, cells].T @ z[:, there]) * shrink[steps] * std[cells][:, None] * std[there]

    spread = std[wanted.cells]
    error = np.full(len(cells), max(obs_std**2, FINEST * float(np.mean(std**2))))
    level = None
    if wanted.above is not None:
        share = np.clip((drawn[:, wanted.cells] <= wanted.above).mean(0), 0.5 / count, 1 - 0.5 / count)
        level = ndtri(share)
    total = np.maximum(spread**2, 1e-12)
    known = Covariances(covariance(cells), covariance(wanted.cells), error)
    true = None if errors is None else replace(known, errors=errors)
    return Joint(known, total, total, spread, wanted.weight, level, true)


def _shrinkage(z: np.ndarray, grid: Grid, count: int) -> np.ndarray:  # (D,) by whole steps of distance
    """How much of a correlation at each distance is not noise, from all pairs of some cells with all others."""
    some = np.linspace(0, grid.cells - 1, min(grid.cells, 200)).astype(int)
    steps, square = _steps(some, np.arange(grid.cells), grid), (z[:, some].T @ z) ** 2
    mean = np.bincount(steps.ravel(), square.ravel()) / np.maximum(np.bincount(steps.ravel()), 1)
    found = np.clip(1 - (1 - mean) ** 2 / (count * np.maximum(mean, 1e-12)), 0.0, 1.0)
    found[0] = 1.0
    return np.minimum.accumulate(found)  # what is farther apart shares no more


def _steps(here: np.ndarray, there: np.ndarray, grid: Grid) -> np.ndarray:  # (n,), (m,) -> (n, m) int
    """Distances in whole cells, around periodic axes the short way."""
    size, square = lengths(grid)[0], np.zeros((len(here), len(there)))
    parts = (np.divmod(here, grid.shape[1]), np.divmod(there, grid.shape[1]))
    for axis in (0, 1):
        step = np.abs(parts[0][axis][:, None] - parts[1][axis])
        if grid.periodic[axis]:
            step = np.minimum(step, grid.shape[axis] - step)
        square += (step * size[axis] / min(size)) ** 2
    return np.round(np.sqrt(square)).astype(int)
