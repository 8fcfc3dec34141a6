"""Candidates that were tried: their own errors from what they read, and choices by measurement instead of a law.

Under a covariance K of what sensors see at one time, with variances e of their errors, A = (K + diag(e))^-1 gives what
hiding each reading shows (Dubrule 1983): its residual (A y)_i / A_ii and the variance 1 / A_ii that it should have.
Where a sensor's residuals are larger than that, its own error is; e moves by the excess until both agree.

Where readings were kept aside elsewhere, the score of a set of candidates can be measured as it will be used. A `Trial`
does so with the run's own law: at one time, Q_c(z) is the calibrated law of a judging reading given what was read
before any candidate, z standard normal, and y_p the reading of a candidate as such a latent times its spread. By the
joint law of `gain.py` the readings of a set g move the latent of c to

    mean  w' y_g / sqrt(v_c),    variance  left_c / v_c,        w = (K_gg + E_g)^-1 K_gc

so a set costs a small solve a time, and no network is asked again. `choose_by` takes the candidate of the best score
again and again, then exchanges, as `gain.choose` does; any score of a set will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ..errors import SolidError
from ..keys import evenly
from ..pairs.frames import Frames
from ..training.record import RunRecord
from .candidates import Candidates
from .gain import BETTER, SWEEPS, Joint, Pick, together
from .law import Moment, Wanted, Z
from .tried import Tried
from .trust import Trust, ratio_error

ROUNDS = 4  # of errors and residuals: they hardly move after that
LEAST = 0.05  # of the first guess: no sensor is exact
TRIALS = 200  # times at which candidates are tried, at most
JUDGES = 4000  # judging readings, at most: a set is scored in milliseconds
LATENTS = np.linspace(-5.0, 5.0, 81)  # at which laws are kept
BEYOND = 8  # of them: the slope at an end
LEVELS = (np.arange(len(Z)) + 0.5) / len(Z)  # of the quantiles at Z

Snapshot = tuple[np.ndarray, np.ndarray, np.ndarray]  # (n, n) covariance, (n,) readings, (n,) which sensor read each


def own_errors(snapshots: Sequence[Snapshot], count: int, guess: float) -> np.ndarray:  # (count,) variances
    """Of each sensor's readings, from what the others say at the same times; `guess` is that of all."""
    error = np.full(count, guess)
    for _ in range(ROUNDS):
        excess, seen = np.zeros(count), np.zeros(count)
        for covariance, values, who in snapshots:
            precision = np.linalg.inv(covariance + np.diag(error[who]))
            variance = 1 / precision.diagonal()
            residual = variance * (precision @ values)
            excess += np.bincount(who, residual**2 - variance, count)
            seen += np.bincount(who, minlength=count)
        error = np.maximum(error + excess / np.maximum(seen, 1), LEAST * guess)
    return error


def choose_by(
    score: Callable[[tuple[int, ...]], float],  # of a set, its numbers ascending; lower is better
    candidates: int,
    count: int,
    cost: np.ndarray | None = None,  # (M,) positive; with it the gain per cost decides
    budget: float = np.inf,
) -> list[int]:
    """The candidates whose set has the lowest score, by greedy steps and exchanges; each set is measured once."""
    measured = cache(score)

    def affordable(others: list[int]) -> list[int]:
        spent = 0.0 if cost is None else cost[others].sum()
        limit = budget * (1 + BETTER)
        return [c for c in range(candidates) if c not in others and (cost is None or spent + cost[c] <= limit)]

    def beside(others: list[int], c: int) -> float:
        return measured(tuple(sorted([*others, c])))

    chosen: list[int] = []
    while len(chosen) < count and (free := affordable(chosen)):
        if cost is None:
            chosen.append(min(free, key=lambda c: beside(chosen, c)))
        else:
            now = measured(tuple(sorted(chosen)))
            chosen.append(max(free, key=lambda c: (now - beside(chosen, c)) / cost[c]))
    for _ in range(SWEEPS):
        before = list(chosen)
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            chosen[place] = min(affordable(others), key=lambda c: beside(others, c))
        if chosen == before:
            break
    return chosen


@dataclass(frozen=True)
class Attempt:
    """One time of a trial: the law before any candidate, what they read, and what judges."""

    joint: Joint  # targets are the judging readings
    groups: list[np.ndarray]  # (M,) what each candidate read then: one reading or none
    residual: np.ndarray  # (P,) readings less what was expected, units of the joint law
    table: np.ndarray  # (F, N) laws of the judging readings at LATENTS, physical units
    truth: np.ndarray  # (N,)
    above: float | None

    def scores(self, chosen: Sequence[int]) -> np.ndarray:  # (N,)
        """Of the judging readings, with the readings of these candidates."""
        group, known = together(self.groups, chosen), self.joint.believed
        mean, left = np.zeros(len(self.truth)), self.joint.left
        if len(group):
            w = np.linalg.solve(known.noisy(group), known.cross[group])
            mean = w.T @ self.residual[group] / np.sqrt(self.joint.variance)
            left = left - (w * known.cross[group]).sum(0)
        spread = np.sqrt(np.maximum(left / self.joint.variance, 0.0))
        if self.above is not None:
            level = _latents(self.table, np.full(len(self.truth), self.above))
            return (ndtr((mean - level) / np.maximum(spread, 1e-6)) - (self.truth > self.above)) ** 2
        off = self.truth - _values_at(self.table, mean + spread * Z[:, None])
        return 2 * (off * (LEVELS[:, None] - (off < 0))).mean(0)  # quantile scores: their mean is the CRPS


def _latents(table: np.ndarray, values: np.ndarray) -> np.ndarray:  # (F, N), (N,) -> (N,)
    """Where values lie in laws that are kept at LATENTS; beyond them on a line, where the law has no end there."""
    found = np.empty(len(values))
    for n, (value, law) in enumerate(zip(values, np.maximum.accumulate(table, 0).T, strict=True)):
        found[n] = np.interp(value, law, LATENTS)
        end, inner = (0, BEYOND) if value < law[0] else (-1, -1 - BEYOND)
        if not law[0] <= value <= law[-1] and law[end] != law[inner]:
            found[n] += (value - law[end]) * (LATENTS[end] - LATENTS[inner]) / (law[end] - law[inner])
    return found


def _values_at(table: np.ndarray, latents: np.ndarray) -> np.ndarray:  # (F, N), (Z, N) -> (Z, N)
    """The way back, on lines between two of LATENTS and beyond them."""
    place = (latents - LATENTS[0]) / (LATENTS[1] - LATENTS[0])
    low = np.clip(place, 0, len(LATENTS) - 2).astype(int)
    first, second = (np.take_along_axis(table, low + step, 0) for step in (0, 1))
    return first + (place - low) * (second - first)


@dataclass(frozen=True)
class Trial:
    """Candidates at the times at which they were tried."""

    rows: np.ndarray  # (n,) frames
    attempts: list[Attempt]  # (n,), none without judging readings
    candidates: Candidates
    errors: np.ndarray  # (M,) own variances, units of the joint law
    believed: float  # what the run takes for that of any sensor

    def score(self, chosen: tuple[int, ...]) -> float:
        """Mean over all judging readings."""
        return float(np.concatenate([attempt.scores(chosen) for attempt in self.attempts]).mean())

    def alone(self) -> np.ndarray:  # (M,) realised gains
        return self.score(()) - np.array([self.score((m,)) for m in range(len(self.candidates.names))])

    def choose(self, count: int, budget: float) -> list[Pick]:
        """The set of the lowest measured score, each the best after those before it; gains are realised ones."""
        measured = cache(self.score)
        left = choose_by(measured, len(self.candidates.names), count, self.candidates.cost, budget)
        picks, before = list[Pick](), list[int]()
        while left:
            now = measured(tuple(sorted(before)))
            best = min(left, key=lambda c: measured(tuple(sorted([*before, c]))))
            before.append(best)
            left.remove(best)
            after = measured(tuple(sorted(before)))
            picks.append(Pick(best, now - after, after))
        return picks

    def trust(self) -> Trust:
        """Every candidate alone: what the law with its own error expects at the judging readings, and what it did."""
        found = []
        for attempt in self.attempts:
            true = replace(attempt.joint.believed, errors=self.errors[_who(attempt.groups)])
            expected = replace(attempt.joint, true=true).gains(attempt.groups)
            base, share = attempt.scores(()).sum(), len(attempt.truth) / self.judging
            for m, group in enumerate(attempt.groups):
                if len(group):
                    realised = (base - attempt.scores((m,)).sum()) / self.judging
                    found.append((m, share * expected[m], realised))
        every = pd.DataFrame(found, columns=["candidate", "expected", "realised"])
        table = every.groupby("candidate").sum()
        names = [self.candidates.names[m] for m in table.index]
        table = table.reset_index(drop=True).assign(name=names)[["name", "expected", "realised"]]
        return Trust(
            table, ratio_error(every), "candidates were tried one by one: what they gained at judging readings"
        )

    @property
    def judging(self) -> int:
        return sum(len(attempt.truth) for attempt in self.attempts)


def _who(groups: Sequence[np.ndarray]) -> np.ndarray:  # (P,) which candidate made each reading
    return np.concatenate([np.zeros(0, int), *(np.full(len(group), m) for m, group in enumerate(groups))])


def try_candidates(
    run: RunRecord,
    known: Frames,
    rows: np.ndarray,  # (n,) frames at which they are tried
    wanted: Wanted,
    candidates: Candidates,  # one cell each
    tried: Tried,
    seed: int = 0,
) -> Trial:
    """Ask the run at these times, before any candidate; without judging readings only own errors are found."""
    cells = np.concatenate(candidates.cells)
    never = ~np.isfinite(tried.values[np.ix_(rows, cells)]).any(0)
    if tried.judging is not None and never.any():
        name = candidates.names[int(never.argmax())]
        raise SolidError(f"candidate '{name}' was read at none of the {len(rows)} times of the trial; leave it out")
    attempts, snapshots, believed = [], [], []
    for row in rows:
        there = np.flatnonzero(np.isfinite(tried.values[row, cells]))
        judges = cells[:1]  # nothing is judged: any target will do
        if tried.judging is not None:
            judges = evenly(np.flatnonzero(np.isfinite(tried.judging[row])), max(1, JUDGES // len(rows)))
        about = replace(wanted, cells=judges, weight=np.full(len(judges), 1 / len(judges)))
        moment = Moment.of(run, known, int(row), about, seed)
        joint = moment.law(about, cells[there])
        here = Wanted(cells[there], np.full(len(there), 1 / max(len(there), 1)), wanted.variable)
        spread = np.sqrt(joint.believed.own.diagonal() + joint.believed.errors)
        residual = spread * _latents(moment.at(here, LATENTS), tried.values[row, cells[there]])
        groups = [np.flatnonzero(there == m) for m in range(len(cells))]
        believed.append(float(joint.believed.errors.mean()))
        snapshots.append((joint.believed.own, residual, there))
        if tried.judging is not None:
            table, truth = moment.at(about, LATENTS), tried.judging[row, judges]
            attempts.append(Attempt(joint, groups, residual, table, truth, wanted.above))
    guess = float(np.mean(believed))
    return Trial(rows, attempts, candidates, own_errors(snapshots, len(cells), guess), guess)
