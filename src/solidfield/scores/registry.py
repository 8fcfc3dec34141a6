"""The metrics, declared once: a function of what was measured, and a line in METRICS.

A metric that stands there is computed for every model, lead, region, bin and variable; it is written to `scores.json`,
is a column of the report and of what `solid evaluate` prints, and can be asked for by name: `score["crps"]`.

What cannot be measured is None, never a number that looks like one: the spread of a point forecast, a 90 % interval of
ten members, the roughness of maps that are known at sensors only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .calibration import correlate, counted, covered, ranks, ratio
from .estimate import Estimate, bootstrap
from .metrics import Array, Cells, block_means, crps_cells, energy_scores, median_error, moments, roughness, select

BLOCK = 4  # cells along the side of a block mean
TAIL = 0.95  # quantile of the training readings where their upper tail begins
Value = Estimate | tuple[float, ...]


@dataclass(frozen=True)
class WholeMaps:
    """Maps whose truth is known in every cell: what the joint law of cells is judged by."""

    members: np.ndarray  # (K, N, H, W)
    truth: np.ndarray  # (N, H, W)
    mask: np.ndarray  # (N, H, W) bool, the cells that count
    periodic: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Measured:
    """What every metric is a mean of, cell by cell: computed once, then selected."""

    cells: Cells
    groups: np.ndarray  # (N,) labels of the cases: what error bars resample
    std: float  # of the field
    crps: np.ndarray  # (P,)
    error: np.ndarray  # (P,) of the ensemble mean
    variance: np.ndarray  # (P,) of the members, NaN for one
    median_error: np.ndarray  # (P,)
    below: np.ndarray  # (P,) members below the truth
    equal: np.ndarray  # (P,) members equal to it
    chance: np.ndarray  # (P,) share of members in the upper tail
    tail: float = np.nan  # where that begins; NaN: nobody said
    dense: bool = False  # is the truth known beyond what was read?
    maps: WholeMaps | None = None  # of the region that holds every cell

    @property
    def members(self) -> int:
        return self.cells.members.shape[0]

    def __getitem__(self, rows: np.ndarray) -> Measured:  # (P,) bool
        """Some of the cells; cases keep their numbers."""
        old = self.cells
        columns = ("crps", "error", "variance", "median_error", "below", "equal", "chance")
        chosen = {name: getattr(self, name)[rows] for name in columns}
        cells = Cells(old.members[:, rows], old.truth[rows], old.case[rows], old.cases)
        return replace(self, cells=cells, maps=None, **chosen)

    def pooled(self) -> Measured:
        """Every cell a case of its own, so that all cells count alike."""
        count = self.cells.truth.size
        cells = replace(self.cells, case=np.arange(count), cases=count)
        return replace(self, cells=cells, groups=self.groups[self.cells.case])

    def mean(self, *values: np.ndarray, of: Callable[[np.ndarray], np.ndarray] | None = None) -> Estimate:
        """Over the cells of each case, then over cases, with its error bar; `of` several means, such as a ratio."""
        columns = [self.cells.per_case(column) for column in values]
        return bootstrap(columns[0] if len(columns) == 1 else np.stack(columns, axis=1), of=of, groups=self.groups)


def measure(
    cells: Cells,
    groups: Array | None = None,  # (N,) labels: cases of one day or one trajectory share one; None: none do
    std: float = 1.0,
    dense: bool = False,
    maps: WholeMaps | None = None,
    tail: float = np.nan,
) -> Measured:
    label = np.arange(cells.cases) if groups is None else np.asarray(groups)
    parts = (crps_cells(cells.members, cells.truth), *moments(cells), median_error(cells), *ranks(cells))
    return Measured(cells, label, std, *parts, (cells.members > tail).mean(axis=0), tail, dense=dense, maps=maps)


@dataclass(frozen=True)
class Metric:
    name: str
    of: Callable[[Measured], Value | None]
    label: str = ""  # heading of its column; without one it is kept out of tables
    power: int = 0  # of the field's unit: 1 for an error, 2 for its square, 0 for a number of its own
    share: bool = False  # shown in per cent
    least: int = 1  # members that it needs
    dense: bool = False  # only where the truth is known beyond what was read
    vector: bool = False  # several numbers; not measured in bins

    def measure(self, found: Measured) -> Value | None:
        if not found.crps.size or found.members < self.least or (self.dense and not found.dense):
            return None
        value = self.of(found)
        return None if isinstance(value, Estimate) and not np.isfinite(value.mean) else value


def crps(m: Measured) -> Estimate:
    return m.mean(m.crps)


def mse(m: Measured) -> Estimate:
    return m.mean(m.error**2)


def mae(m: Measured) -> Estimate:
    """Of the median, the point forecast that this score rewards."""
    return m.mean(m.median_error)


def rmse(m: Measured) -> Estimate:
    return m.mean(m.error**2, of=np.sqrt)


def coverage(level: float) -> Callable[[Measured], Estimate]:
    return lambda m: m.mean(covered(m.below, m.equal, m.members, level))


def spread(m: Measured) -> Estimate:
    """With the factor sqrt((K + 1) / K), so that for a perfect ensemble it equals the RMSE."""
    return m.mean((m.members + 1) / m.members * m.variance, of=np.sqrt)


def spread_skill(m: Measured) -> Estimate:
    factor = (m.members + 1) / m.members
    return m.mean(factor * m.variance, m.error**2, of=lambda means: ratio(means[..., 0], means[..., 1]))


def tail_forecast(m: Measured) -> Estimate | None:
    """How often values of the upper tail are forecast: the mean chance of one."""
    return None if np.isnan(m.tail) else m.mean(m.chance)


def tail_observed(m: Measured) -> Estimate | None:
    """How often they are observed."""
    return None if np.isnan(m.tail) else m.mean((m.cells.truth > m.tail).astype(float))


def tail_excess(m: Measured) -> Estimate | None:
    """How much more often they are forecast than observed, on the same cells: zero where chances are reliable."""
    return None if np.isnan(m.tail) else m.mean(m.chance - (m.cells.truth > m.tail))


def correlation(m: Measured) -> Estimate:
    """Of spread with error, cell by cell."""
    return Estimate(correlate(m.cells, m.error, m.variance).pixel)


def correlation_of_cases(m: Measured) -> Estimate:
    return Estimate(correlate(m.cells, m.error, m.variance).sample)


def rank_histogram(m: Measured) -> tuple[float, ...]:  # (K + 1,)
    return tuple(counted(m.below, m.equal, m.members).tolist())


def crps_per_case(m: Measured) -> tuple[float, ...]:  # (N,) NaN where a case has no cell here
    return tuple(m.cells.per_case(m.crps).tolist())


def energy_score(m: Measured) -> Estimate | None:
    if m.maps is None:
        return None
    return bootstrap(energy_scores(select(m.maps.members, m.maps.truth, m.maps.mask)), groups=m.groups)


def roughness_of_members(m: Measured) -> Estimate | None:
    if m.maps is None:
        return None
    squares = [roughness(member, m.maps.periodic, m.std, m.maps.mask) ** 2 for member in m.maps.members]
    return Estimate(float(np.sqrt(np.mean(squares))))


def roughness_of_truth(m: Measured) -> Estimate | None:
    return None if m.maps is None else Estimate(float(roughness(m.maps.truth, m.maps.periodic, m.std, m.maps.mask)))


def in_blocks(metric: Callable[[Measured], Estimate]) -> Callable[[Measured], Estimate | None]:
    """The same metric of means over blocks of cells, which single cells say nothing about."""

    def of(m: Measured) -> Estimate | None:
        if m.maps is None or min(m.maps.truth.shape[-2:]) < BLOCK:
            return None
        members, truth, mask = (block_means(part, BLOCK) for part in (m.maps.members, m.maps.truth, m.maps.mask))
        return metric(measure(select(members, truth, mask == 1), m.groups, m.std)) if (mask == 1).any() else None

    return of


METRICS = {
    metric.name: metric
    for metric in (
        Metric("crps", crps, "CRPS", power=1),
        Metric("mae", mae, "MAE", power=1),
        Metric("rmse", rmse, "RMSE", power=1),
        Metric("mse", mse, power=2),
        Metric("coverage_50", coverage(0.5), "50 % intervals hold", share=True, least=3),
        Metric("coverage_90", coverage(0.9), "90 % intervals hold", share=True, least=19),
        Metric("spread", spread, "spread", power=1, least=2),
        Metric("spread_skill", spread_skill, "spread / skill", least=2),
        Metric("tail_forecast", tail_forecast, "high values forecast", share=True, least=2),
        Metric("tail_observed", tail_observed, "observed", share=True, least=2),
        Metric("tail_excess", tail_excess, share=True, least=2),
        Metric("correlation", correlation, least=2),
        Metric("correlation_of_cases", correlation_of_cases, least=2),
        Metric("rank_histogram", rank_histogram, least=2, vector=True),
        Metric("crps_per_case", crps_per_case, power=1, dense=True, vector=True),  # to pair models judged apart
        Metric("energy_score", energy_score, "energy score", power=1, dense=True),
        Metric("block_crps", in_blocks(crps), f"CRPS of {BLOCK} x {BLOCK} blocks", power=1, dense=True),
        Metric("block_spread_skill", in_blocks(spread_skill), "their spread / skill", least=2, dense=True),
        Metric("roughness", roughness_of_members, "roughness", dense=True),
        Metric("roughness_of_truth", roughness_of_truth, "of the truth", dense=True),
    )
}


def summarise(found: Measured, bins: bool = False) -> dict[str, Value | None]:
    """Every metric of a region; of a bin, those that are one number."""
    return {name: metric.measure(found) for name, metric in METRICS.items() if not (bins and metric.vector)}
