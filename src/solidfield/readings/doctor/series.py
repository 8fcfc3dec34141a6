"""Each sensor's readings in time: duplicates, gaps, stuck values, spikes, sensors that jump.

All work on the kept rows in the order (sensor, time), where neighbours in the table are neighbours in time. Scales are
robust (medians and quantiles), so that the fault that is looked for does not hide itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...clock import as_text
from .findings import Finding, Scene, resting
from .reservoir import DAY, Kept

GAP = 1.5  # own intervals: a longer step has readings missing
STUCK = 6  # equal readings in a row that no continuous quantity shows
SPIKE = 12.0  # robust deviations by which a reading stands out from both its neighbours
JUMPING = 4.0  # times the scatter of the other sensors' differences
ENOUGH = 20  # readings of a sensor below which its scale says little
SILENCE = 0.1  # of the whole time in which nothing at all was read: worth a doubt


@dataclass(frozen=True)
class Steps:
    """One row a sensor and time, and the step in time to the next of the same sensor."""

    kept: Kept  # n readings
    at: np.ndarray  # (n,) their places among the kept rows
    follows: np.ndarray  # (n - 1,) bool: i + 1 is the same sensor, and no day between them was left out
    step: np.ndarray  # (n - 1,) nanoseconds
    interval: np.ndarray  # (n,) the usual step of its sensor, NaN where it has none

    @property
    def near(self) -> np.ndarray:  # (n - 1,) bool: the next reading came when it was due
        with np.errstate(invalid="ignore"):
            return self.follows & (self.step <= GAP * self.interval[:-1])


def steps_of(kept: Kept) -> Steps:
    new = np.ones(len(kept), bool)
    new[1:] = (np.diff(kept.who) != 0) | (np.diff(kept.time) != 0)
    at = np.flatnonzero(new)
    one = replace(kept[at], values=_first_values(kept.values, np.cumsum(new) - 1, len(at)))
    step = np.diff(one.time)
    follows = np.diff(one.who) == 0
    if kept.share < 1:
        follows &= np.diff(one.time // DAY) <= 1
    usual = pd.Series(step[follows], dtype=float).groupby(one.who[:-1][follows]).median()
    return Steps(one, at, follows, step, usual.reindex(one.who).to_numpy(dtype=float))


def _first_values(values: np.ndarray, of: np.ndarray, count: int) -> np.ndarray:  # (n, V), (n,) -> (count, V)
    """The first value of each variable in each group of rows: several quantities may have a row each."""
    first = np.full((count, values.shape[1]), np.nan)
    for v, column in enumerate(values.T):
        read = np.flatnonzero(np.isfinite(column))
        group, where = np.unique(of[read], return_index=True)
        first[group, v] = column[read[where]]
    return first


def duplicates(scene: Scene) -> list[Finding]:
    """Rows of one sensor (or place) and time: the same again, or saying something else."""
    kept = scene.kept
    again = (np.diff(kept.who) == 0) & (np.diff(kept.time) == 0)
    other = np.diff(kept.content) != 0
    read = np.isfinite(kept.values)
    again &= (read[1:] & read[:-1]).any(1)  # else they are rows of several quantities
    exact, conflicting = np.flatnonzero(again & ~other) + 1, np.flatnonzero(again & other) + 1
    owner = "sensor" if scene.identity == "sensor" else "place"
    found = []
    if len(exact):
        text = f"{len(exact):,} rows repeat another row of the same {owner}, time and value"
        remedy = "a mean over a cell counts them twice: drop them from the file if they are copies"
        found.append(scene.finding("duplicates", "note", text, exact, remedy))
    if len(conflicting):
        text = f"{len(conflicting):,} rows have the {owner} and time of another row and a different value"
        remedy = (
            "`solid grid` averages them within a cell and keeps their scatter in <name>_spread; a column that "
            "names the sensor (--columns sensor=NAME) tells several instruments apart"
        )
        found.append(scene.finding("conflicts", "doubt", text, conflicting, remedy))
    return found


def gaps(scene: Scene, steps: Steps) -> list[Finding]:
    """Readings that were due and did not come, and times when nothing at all was read."""
    found = []
    near, count = steps.near, len(steps.kept)
    late = np.flatnonzero(steps.follows & ~near)
    if scene.identity != "none" and len(late):
        due = np.round(steps.step[late] / steps.interval[late]) - 1
        missing = int(due.sum())
        longest = late[np.argmax(steps.step[late])]
        who = scene.name_of(int(steps.kept.who[longest]), int(steps.at[longest]))
        share = missing / (missing + count)
        text = (
            f"{100 * share:.0f} % of the readings that were due are missing, in {len(late):,} gaps; the longest "
            f"lasts {words(steps.step[longest])} (sensor {who})"
        )
        remedy = "nothing: cells without a reading stay empty and are reconstructed; a longer --every closes short gaps"
        found.append(scene.finding("gaps", "note", text, steps.at[late + 1], remedy, len(late)))
    times = np.unique(steps.kept.time)
    if len(times) > 2 and scene.kept.share == 1:
        silent = np.diff(times)
        at = int(np.argmax(silent))
        if silent[at] > max(SILENCE * (times[-1] - times[0]), 10 * np.median(silent)):
            first, last = (as_text(times[i].astype("datetime64[ns]")) for i in (at, at + 1))
            text = f"nothing at all was read for {words(silent[at])}, from {first} to {last} UTC"
            remedy = "nothing: no pair of frames spans it; held-out days should come from both sides"
            found.append(scene.finding("silence", "note", text, steps.at[steps.kept.time == times[at + 1]], remedy, 1))
    return found


def stuck(scene: Scene, steps: Steps) -> list[Finding]:
    """The same value many times in a row, far more often than the resolution of the readings explains."""
    found = []
    for v, name in enumerate(scene.variables):
        value = steps.kept.values[:, v]
        same = steps.follows & (np.diff(value) == 0)
        run = np.concatenate([[0], np.cumsum(~same)])  # (n,) number of the run of each reading
        length = np.bincount(run)
        rates = pd.Series(same[steps.follows]).groupby(steps.kept.who[:-1][steps.follows]).mean()
        rate = float(rates.median()) if len(rates) else 0.0
        least = STUCK
        if rate > 0.01:  # coarse readings repeat by themselves: thrice the longest run that chance would bring
            least = max(STUCK, int(np.ceil(3 * np.log(0.01 / len(value)) / np.log(min(rate, 0.999)))))
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        long = (length >= least) & np.isfinite(value[first]) & ~resting(value, steps.kept.who)[first]
        if not long.any():
            continue
        worst = int(np.argmax(np.where(long, length, 0)))
        sensors = np.unique(steps.kept.who[first[long]])
        who = scene.name_of(int(steps.kept.who[first[worst]]), int(steps.at[first[worst]]))
        text = (
            f"{name}: {_sensors(len(sensors), 'repeat')} one value {least} times or more ({int(length[long].sum()):,} "
            f"readings); longest: {length[worst]:,} times {value[first[worst]]:g} (sensor {who})"
        )
        remedy = "a stuck sensor teaches a constant: drop those rows, or the sensor, from the file"
        found.append(scene.finding("stuck", "doubt", text, steps.at[first[long]], remedy, int(length[long].sum())))
    return found


def jumps(scene: Scene, steps: Steps) -> list[Finding]:
    """Single readings far from both neighbours in time, and sensors whose every step is larger than the others'."""
    found = []
    near = steps.near
    for v, name in enumerate(scene.variables):
        change = np.diff(steps.kept.values[:, v])
        rests = resting(steps.kept.values[:, v], steps.kept.who)
        known = near & np.isfinite(change) & ~(rests[:-1] & rests[1:])  # from dry to dry is no change to measure by
        size = pd.Series(np.abs(change[known])).groupby(steps.kept.who[:-1][known])
        count, scale = size.size(), size.quantile(0.9) / 1.645
        scale = scale[(count >= ENOUGH) & (scale > 0)]
        if len(scale) == 0:
            continue
        usual = float(scale.median())
        own = scale.clip(lower=0.3 * usual).reindex(steps.kept.who[:-1]).fillna(usual).to_numpy()
        z = np.where(known, change / own, 0.0)
        both = (np.minimum(np.abs(z[:-1]), np.abs(z[1:])) > SPIKE) & (z[:-1] * z[1:] < 0)
        spikes = np.flatnonzero(both) + 1
        if len(spikes):
            many = f"{len(spikes):,} single readings stand" if len(spikes) > 1 else "a single reading stands"
            text = f"{name}: {many} out from the ones before and after by more than {SPIKE:g} usual changes"
            remedy = "`solid grid --outliers mad:6` drops and lists readings far from their frame; by default they stay"
            found.append(scene.finding("spikes", "doubt", text, steps.at[spikes], remedy, len(spikes)))
        if len(scale) < 5:
            continue
        wild = scale[scale > JUMPING * usual]
        if len(wild):
            rows = np.flatnonzero(np.isin(steps.kept.who, wild.index.to_numpy()))
            worst = int(wild.idxmax())
            who = scene.name_of(worst, int(steps.at[np.flatnonzero(steps.kept.who == worst)[0]]))
            text = (
                f"{name}: {_sensors(len(wild), 'change')} from reading to reading {JUMPING:g} times as much as the "
                f"others do; most: {wild.max() / usual:.0f} times (sensor {who})"
            )
            remedy = "`solid quality` on the gridded frames compares it with its neighbours; drop it if it fails"
            found.append(scene.finding("jumping", "doubt", text, steps.at[rows], remedy, len(wild)))
    return found


def _sensors(count: int, verb: str) -> str:
    """
    >>> _sensors(1, "change"), _sensors(2, "change")
    ('1 sensor changes', '2 sensors change')
    """
    return f"1 sensor {verb}s" if count == 1 else f"{count:,} sensors {verb}"


def words(nanoseconds: float) -> str:
    """A length of time for people.

    >>> words(5400e9), words(3 * 86400e9)
    ('1.5 h', '3 days')
    """
    seconds = nanoseconds / 1e9
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= (2 if unit == "days" else 1) * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
