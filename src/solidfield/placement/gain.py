"""What readings are expected to tell of a map, and which of them tell most: closed forms of a joint Gaussian law.

A map's targets c and the readings y_p = x_p + e_p that candidates would make are jointly Gaussian, given all that is
known already. A candidate is a group g of readings: one for a sensor that stays, many for a track. Given them

    w      = (K_gg + E_g)^-1 K_gc,                what the map makes of the readings
    left_c = v_c - 2 w' K_gc + w' (K_gg + D_g) w  the variance that is left, whatever the values turn out to be

where v_c is the variance of the target, with what no reading can remove, E the errors that the map believes readings
to have and D those they have. Where these are the same, left_c = v_c - K_cg (K_gg + E_g)^-1 K_gc; where a sensor is
worse than is believed, a reading may do harm. The expected score of a target is

    CRPS     spread_c sqrt(left_c / v_c) / sqrt(pi)            of a normal law of that spread
    chance   2 T(t_c, sqrt(r / (2 - r))),  r = left_c / v_c    the Brier score of the chance above a threshold that is
                                                               t_c standard deviations from the mean

(T is Owen's function: before any reading this is p (1 - p), and knowing all brings it to 0). A gain is how far the
mean over targets falls. `choose` takes the candidate of the largest gain (per cost) again and again, then exchanges
chosen ones as long as that gains more, from several first candidates where there is time. `missed` is the way back:
with A = (K_SS + E)^-1 for the sensors S there are, and B = A K_Sc, the variance that is left without g grows by
B_gc' A_gg^-1 B_gc, so the loss of every sensor follows from one inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import owens_t

AT_ONCE = 2**17  # numbers weighed together: they stay in the processor's cache
SWEEPS = 5  # of exchanges: almost always one or two are enough
STARTS, WORK = 12, 3e8  # first candidates that are tried, where so many numbers can be looked at; else the best alone
LEAST = 1e-6  # of a variance: what rounding may leave
BETTER = 1e-9  # relative: an exchange must gain more than rounding

Group = np.ndarray  # (b,) positions of the readings that a candidate makes


@dataclass(frozen=True)
class Covariances:
    """Of P possible readings with one another, without their errors, and with N targets."""

    own: np.ndarray  # (P, P)
    cross: np.ndarray  # (P, N)
    errors: np.ndarray  # (P,) variances of the readings' errors

    def noisy(self, group: Group) -> np.ndarray:  # (b, b)
        return self.own[np.ix_(group, group)] + np.diag(self.errors[group])

    def weights(self, group: Group) -> tuple[np.ndarray, np.ndarray]:  # (b, P), (b, N)
        """Of the group's readings in all other readings and in the targets."""
        both = np.linalg.solve(self.noisy(group), np.hstack([self.own[group], self.cross[group]]))
        return both[:, : len(self.own)], both[:, len(self.own) :]

    def given(self, group: Group, along: np.ndarray, onto: np.ndarray, right: bool) -> Covariances:
        """Of what is left when the group's readings are used with these weights; `right`: they are its own."""
        own, cross = self.own - along.T @ self.own[group], self.cross - along.T @ self.cross[group]
        if right:
            return replace(self, own=own, cross=cross)
        excess = along.T @ self.noisy(group) - self.own[group].T  # 0 where the weights are right
        return replace(self, own=own + excess @ along, cross=cross + excess @ onto)


@dataclass(frozen=True)
class Joint:
    """The law of N targets and of P possible readings, given what is known; latent units but for `spread`."""

    believed: Covariances
    variance: np.ndarray  # (N,) v
    left: np.ndarray  # (N,) what is left of it; v before any reading
    spread: np.ndarray  # (N,) calibrated standard deviation of the target before any reading, in units of the map
    weight: np.ndarray  # (N,) of the targets, sum 1
    level: np.ndarray | None = None  # (N,) t: threshold in standard deviations from the mean; None: the CRPS
    true: Covariances | None = None  # where errors are other than is believed

    def score(self, left: np.ndarray) -> np.ndarray:  # (..., N) -> (..., N)
        """Expected score of each target when so much variance is left."""
        share = np.maximum(left / self.variance, LEAST)
        if self.level is None:
            return self.spread * np.sqrt(share / np.pi)
        share = np.minimum(share, 1.0)
        return 2 * owens_t(self.level, np.sqrt(share / (2 - share)))

    def mean_score(self) -> float:
        return float(self.score(self.left) @ self.weight)

    def spread_left(self) -> np.ndarray:  # (N,)
        return self.spread * np.sqrt(np.maximum(self.left / self.variance, 0.0))

    def gains(self, groups: Sequence[Group]) -> np.ndarray:  # (M,)
        """How far the mean score is expected to fall by each candidate alone."""
        now, found = self.mean_score(), np.zeros(len(groups))
        single = np.flatnonzero([len(group) == 1 for group in groups])
        place = np.array([group[0] for group in groups if len(group) == 1], int)
        rows = max(1, AT_ONCE // max(len(self.left), 1))
        for start in range(0, len(single), rows):
            left = self._left_by_one(place[start : start + rows])
            found[single[start : start + rows]] = now - self.score(left) @ self.weight
        for g, group in enumerate(groups):
            if len(group) > 1:
                found[g] = now - self.score(self.given(group).left) @ self.weight
        return found

    def _left_by_one(self, place: np.ndarray) -> np.ndarray:  # (n,) readings, each alone -> (n, N)
        cross = self.believed.cross[place]
        size = (self.believed.own[place, place] + self.believed.errors[place])[:, None]
        if self.true is None:
            return self.left - cross**2 / size
        w, real = cross / size, self.true
        noise = (real.own[place, place] + real.errors[place])[:, None]
        return self.left - 2 * w * real.cross[place] + w**2 * noise

    def given(self, group: Group) -> Joint:
        """The law once the group is read."""
        if not len(group):
            return self
        along, onto = self.believed.weights(group)
        real = self.true or self.believed
        left = self.left - 2 * (onto * real.cross[group]).sum(0) + (onto * (real.noisy(group) @ onto)).sum(0)
        after = self.believed.given(group, along, onto, right=True)
        true = None if self.true is None else self.true.given(group, along, onto, right=False)
        return replace(self, believed=after, true=true, left=left)


Law = tuple[Joint, Sequence[Group]]  # of one time, and what each candidate would read then


@dataclass(frozen=True)
class Pick:
    """A candidate that was chosen, or a sensor that is missed least, in the order of choice."""

    candidate: int
    gain: float  # by which the mean score falls, those before it given; below zero where it rises
    score: float  # the mean score that is left


def choose(
    laws: Sequence[Law],  # of several times: gains are means over them
    count: int,
    cost: np.ndarray | None = None,  # (M,) positive; with it the gain per cost decides
    budget: float = np.inf,
) -> list[Pick]:
    """The candidates that gain most together, the one of the largest gain first."""
    price = np.ones(len(laws[0][1])) if cost is None else np.asarray(cost, float)
    work = sum(joint.believed.cross.size for joint, _ in laws) * count**2
    starts = np.argsort(-_gains(laws, ()) / price, kind="stable")[: int(np.clip(WORK / work, 1, STARTS))]
    tries = [_exchanged(laws, _greedy(laws, [int(first)], count, price, budget), price, budget) for first in starts]
    return _in_order(laws, max(tries, key=lambda chosen: gain_of(laws, chosen)))


def _greedy(laws: Sequence[Law], chosen: list[int], count: int, price: np.ndarray, budget: float) -> list[int]:
    """Beside those chosen already, the largest gain per cost again and again; what cannot be paid is left out."""
    chosen = [c for c in chosen if _affordable(price, (), budget)[c]]
    while len(chosen) < count:
        found = _gains(_given(laws, chosen), chosen) / price
        found[~_affordable(price, chosen, budget)] = -np.inf
        if not found.max() > -np.inf:
            break
        chosen.append(int(found.argmax()))
    return chosen


def _exchanged(laws: Sequence[Law], chosen: list[int], price: np.ndarray, budget: float) -> list[int]:
    """Exchange one at a time for what gains more beside the others, as long as that helps."""
    for _ in range(SWEEPS):
        before = list(chosen)
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            found = _gains(_given(laws, others), others)
            found[~_affordable(price, others, budget)] = -np.inf
            if found.max() - found[chosen[place]] > BETTER * abs(found[chosen[place]]):
                chosen[place] = int(found.argmax())
        if chosen == before:
            break
    return chosen


def _affordable(price: np.ndarray, chosen: Sequence[int], budget: float) -> np.ndarray:  # (M,) bool
    return price + price[list(chosen)].sum() <= budget * (1 + BETTER)


def _in_order(laws: Sequence[Law], chosen: Sequence[int]) -> list[Pick]:
    """Each the best after those before it."""
    left, found = list(chosen), list[Pick]()
    for _ in chosen:
        now = _given(laws, [pick.candidate for pick in found])
        gain = np.mean([joint.gains([groups[c] for c in left]) for joint, groups in now], axis=0)
        best = float(gain.max())
        found.append(Pick(left.pop(int(gain.argmax())), best, mean_score(now) - best))
    return found


def _gains(laws: Sequence[Law], taken: Sequence[int]) -> np.ndarray:  # (M,)
    found = np.mean([joint.gains(groups) for joint, groups in laws], axis=0)
    found[list(taken)] = -np.inf
    return found


def given(law: Law, chosen: Sequence[int]) -> Law:
    """The law once these candidates have read."""
    joint, groups = law
    return joint.given(together(groups, chosen)), groups


def _given(laws: Sequence[Law], chosen: Sequence[int]) -> list[Law]:
    return [given(law, chosen) for law in laws]


def together(groups: Sequence[Group], chosen: Sequence[int]) -> Group:
    """All that these candidates read."""
    return np.concatenate([np.zeros(0, int), *(groups[c] for c in chosen)])


def mean_score(laws: Sequence[Law]) -> float:
    return float(np.mean([joint.mean_score() for joint, _ in laws]))


def gain_of(laws: Sequence[Law], chosen: Sequence[int]) -> float:
    """How far the mean score is expected to fall by all of these together."""
    return mean_score(laws) - mean_score(_given(laws, chosen))


def missed(joint: Joint, groups: Sequence[Group]) -> np.ndarray:  # (M,)
    """How far the mean score is expected to rise without each of the sensors, the others staying."""
    every = together(groups, range(len(groups)))
    cross = joint.believed.cross[every]
    precision = np.linalg.inv(joint.believed.noisy(every))  # A
    pull = precision @ cross  # B
    left = joint.left - (cross * pull).sum(0)
    now, found, start = joint.score(left) @ joint.weight, np.zeros(len(groups)), 0
    for g, group in enumerate(groups):
        rows = slice(start, start := start + len(group))
        more = (pull[rows] * np.linalg.solve(precision[rows, rows], pull[rows])).sum(0)
        found[g] = joint.score(left + more) @ joint.weight - now
    return found


def remove(laws: Sequence[Law], count: int) -> list[Pick]:
    """The sensors that are missed least, one after the other; under the laws none of them is read yet."""
    stays, found = list(range(len(laws[0][1]))), list[Pick]()
    for _ in range(min(count, len(stays))):
        loss = np.mean([missed(joint, [groups[s] for s in stays]) for joint, groups in laws], axis=0)
        least = int(loss.argmin())
        gone = stays.pop(least)
        found.append(Pick(gone, -float(loss[least]), mean_score(_given(laws, stays))))
    return found
