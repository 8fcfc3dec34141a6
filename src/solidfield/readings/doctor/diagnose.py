"""The data doctor: one pass over a table of readings, at constant memory, and a frank report.

Rows, refusals, ranges and impossible values are counted over every row. What needs whole stretches of time
(duplicates, gaps, stuck sensors, clocks, coverage) is judged on the rows kept (`reservoir.py`): all of them up to some
millions, whole days beyond; `kept_share` says which.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...disk import plain
from ...engine import Progress
from ..records import Refused, refusal_file
from ..rows import MIXED
from ..table import Table
from . import groups, series
from .counts import Counts
from .coverage import Candidate, candidates, choose, common
from .findings import SEVERITIES, Finding, Scene
from .locations import Places, misplaced, numbers_of_places, places_of
from .outlook import outlook
from .reservoir import NUMBERS, Keeper, Kept, size_of_places
from .time_shifts import time_shifts


@dataclass(frozen=True)
class Statistics:
    """Of one variable; the quantiles are those of the rows kept."""

    name: str
    units: str
    count: int
    missing: int
    low: float
    q05: float
    median: float
    q95: float
    high: float


@dataclass(frozen=True)
class Drawn:
    """What the figure shows."""

    y: np.ndarray  # (P,) places
    x: np.ndarray  # (P,)
    count: np.ndarray  # (P,) readings
    time: np.ndarray  # (n,) datetime64[ns], of the rows kept
    values: np.ndarray  # (n,) of the first variable


@dataclass(frozen=True)
class Diagnosis:
    name: str
    files: tuple[str, ...]
    rows: int  # that could be read
    refused: int  # fields that could not
    reasons: dict[str, int]
    refused_examples: tuple[Refused, ...]
    notes: tuple[str, ...]  # of the reader
    first: str  # UTC
    last: str
    box: tuple[float, float, float, float] | None  # south, west, north, east of all but far places
    geographic: bool
    identity: str  # sensor | place | none
    sensors: int
    places: int
    interval: float | None  # seconds between readings of a sensor, usually
    kept_share: float
    statistics: tuple[Statistics, ...]
    findings: tuple[Finding, ...]  # the gravest first
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    reason: str
    outlook: tuple[str, ...]
    drawn: Drawn

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what is not a number is None."""
        return plain({name: value for name, value in asdict(self).items() if name != "drawn"})

    def found(self, what: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.what == what)


def diagnose(
    table: Table,
    *,
    refused: Path | None = None,  # where to write every refusal
    rows: int = 262_144,  # at a time; changes nothing but the memory
    numbers: int = NUMBERS,  # kept
    progress: Progress | None = None,
) -> Diagnosis:
    """Read the table once and say what is wrong with it, how to grid it, and what can be learned from it."""
    first = table.sample
    counts = Counts(table, Keeper(numbers, size_of_places(first.y, first.x, table.geographic), len(table.variables)))
    with refusal_file(refused) as write:
        for chunk, refusals in table.chunks(rows):
            counts.add(chunk)
            counts.refuse(refusals, write)
            table.tell(progress, counts.rows)
    return _conclude(counts)


def _conclude(counts: Counts) -> Diagnosis:
    table, kept = counts.table, counts.keeper.result()
    variables, units = tuple(table.variables), tuple(table.units)
    places = places_of(kept.y, kept.x, counts.keeper.size)
    identity = _identity(counts, kept, places)
    scene = Scene(kept, counts.files, variables, units, table.geographic, identity, counts.keeper.names)
    steps = series.steps_of(kept)
    usual = steps.interval[np.isfinite(steps.interval)]
    interval = float(np.median(usual)) if len(usual) and identity != "none" else _between(kept)
    found = counts.findings() + _notes(counts, scene)
    found += (
        misplaced(scene, places)
        + numbers_of_places(scene, places)
        + series.duplicates(scene)
        + series.gaps(scene, steps)
    )
    if identity != "none":
        found += series.stuck(scene, steps) + series.jumps(scene, steps)
    found += groups.outliers(scene) + groups.unit_slips(scene) + groups.unit_doubts(scene) + time_shifts(scene)
    table_of = candidates(kept, places, interval, table.geographic) if np.isfinite(interval) else ()
    picked = choose(table_of)
    chosen, reason = picked if picked else (None, "too few readings to suggest a grid")
    lines: tuple[str, ...] = ("nothing: there are too few readings",)
    if chosen is not None:
        shared = common(kept, places, chosen, table.geographic)
        lines = outlook(chosen, shared, kept.share, table.geographic)
    first, last = ("", "") if counts.span is None else (f"{end.astype('datetime64[s]')}Z" for end in counts.span)
    return Diagnosis(
        str(table.name),
        counts.files,
        counts.rows,
        sum(counts.reasons.values()),
        dict(counts.reasons.most_common()),
        tuple(sorted((one for some in counts.refused.values() for one in some), key=lambda one: (one.file, one.row))),
        tuple(table.notes),
        first,
        last,
        None if len(kept) == 0 else places.box,
        table.geographic,
        identity,
        len(np.unique(kept.who)) if identity != "none" else 0,
        len(places.count),
        interval / 1e9 if np.isfinite(interval) else None,
        kept.share,
        _statistics(counts, kept),
        tuple(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))),
        table_of,
        chosen,
        reason,
        lines,
        Drawn(places.y, places.x, places.count, kept.time.astype("datetime64[ns]"), kept.values[:, 0]),
    )


def _identity(counts: Counts, kept: Kept, places: Places) -> str:
    """What a series in time belongs to: a named sensor, a place that repeats, or nothing."""
    if counts.named and 2 * len(np.unique(kept.who)) <= len(kept):
        return "sensor"
    return "place" if places.repeated and not counts.named else "none"


def _between(kept: Kept) -> float:
    """Where readings belong to nobody: the usual time between two of them that differ, in nanoseconds."""
    times = np.unique(kept.time)
    return float(np.median(np.diff(times))) if len(times) > 1 else float("nan")


def _notes(counts: Counts, scene: Scene) -> list[Finding]:
    """What the reader had to assume, and what the doctor could not look at."""
    found = []
    if counts.rows == 0:
        found.append(Finding("empty", "fault", "no row could be read", 0, (), "see the refusals and their reasons"))
    if counts.rows and scene.identity == "none" and counts.named:
        text = (
            f"column '{counts.table.columns.sensor}' has a new name in most rows: no series in time belongs to a sensor"
        )
        found.append(Finding("identity", "doubt", text, 0, (), "name the column of sensors: --columns sensor=NAME"))
    elif counts.rows and scene.identity == "none":
        text = "sensors have no name and places hardly repeat: moving readings have no identity, so gaps, stuck and "
        text += "jumping sensors are not judged"
        found.append(Finding("identity", "note", text, 0, (), "name a column of sensors: --columns sensor=NAME"))
    if scene.kept.share < 1:
        share = f"{100 * scene.kept.share:.0f} %"
        text = f"duplicates, gaps, sensors and coverage are judged on {share} of the rows, whole days"
        found.append(Finding("sampled", "note", text, len(scene.kept), (), "nothing: it keeps memory bounded"))
    for note in counts.table.notes:
        if "taken as UTC" in note:
            at = scene.examples(np.arange(min(len(scene.kept), 1)))
            remedy = "name it, for instance --timezone Asia/Kolkata or --timezone +05:30"
            found.append(Finding("time-zone", "doubt", note, counts.rows, at, remedy))
        elif note == MIXED:
            remedy = "nothing, if they do: `solid grid` brings all to -180 .. 180; else correct the column"
            found.append(Finding("longitude", "doubt", note, counts.rows, (), remedy))
    missing = counts.rows - counts.count
    if (counts.count > 0).all() and counts.count.sum() == counts.rows:
        missing[:] = 0  # every row is of one quantity, and lacks nothing
    for name, n in zip(scene.variables, missing.tolist(), strict=True):
        if n:
            text = f"{name}: {n:,} of {counts.rows:,} rows hold no value"
            severity = "fault" if n == counts.rows else "note"
            found.append(Finding("missing", severity, text, n, (), "nothing: cells without a reading stay empty"))
    return found


def _statistics(counts: Counts, kept: Kept) -> tuple[Statistics, ...]:
    result = []
    for v, (name, units) in enumerate(zip(counts.table.variables, counts.table.units, strict=True)):
        value = kept.values[:, v]
        value = value[np.isfinite(value)]
        quantiles = np.quantile(value, [0.05, 0.5, 0.95]) if len(value) else np.full(3, np.nan)
        count = int(counts.count[v])
        ends = (counts.low[v], counts.high[v]) if count else (np.nan, np.nan)
        numbers = (float(x) for x in (ends[0], *quantiles, ends[1]))
        result.append(Statistics(name, units, count, counts.rows - count, *numbers))
    return tuple(result)
