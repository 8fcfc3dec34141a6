"""The scores of one lead: every model on every region, by distance to the nearest sensor, by hour of day, and in pairs.

All are means over readings, each reading counting once, and their error bars resample days (or trajectories). Two
models are compared on the same readings, d_r = CRPS_run(r) - CRPS_rival(r), with the mean of d and its own error bar:
what is hard for both drops out. Below zero the run is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ..scores.calibration import covered, distance_edges, resolved
from ..scores.estimate import bootstrap
from ..scores.metrics import Cells
from ..scores.nested import Measured, measure, summarise
from ..scores.table import plain
from .held import Held

LEVELS = (0.5, 0.9)
BINS = 6  # of distance beyond the sensors themselves
PER_BIN = 50  # readings that a bin of distance should have

Bins = list[tuple[dict[str, float], np.ndarray]]  # what a bin is, and (P,) bool: the readings in it


def score_lead(
    held: Held,
    members: Mapping[str, np.ndarray],  # model -> (K, P), the run's own first
    variables: tuple[str, ...],  # (C,)
    std: tuple[float, ...],  # (C,) of the training readings, physical units
) -> dict[str, Any]:
    """Plain JSON: `models` by name, and `comparisons` of the first of them with every other."""
    models: dict[str, Any] = {name: {"members": len(ensemble), "variables": {}} for name, ensemble in members.items()}
    own, *rivals = members
    comparisons: dict[str, Any] = {name: {} for name in rivals}
    for c, variable in enumerate(variables):
        rows = held.channel == c
        if not rows.any():
            continue
        found = {name: measure_readings(held, ensemble, rows) for name, ensemble in members.items()}
        cuts = {"by_distance": distance_bins(held, rows)}
        if held.hour is not None:
            cuts["by_hour"] = hour_bins(held, rows)
        for name, measured in found.items():
            models[name]["variables"][variable] = {
                "std": std[c],
                "regions": {
                    region: _region(measured, held.group, here[rows], std[c])
                    for region, here in held.regions.items()
                    if here[rows].any()
                },
                **{cut: [what | _bin(measured, held.group, here[rows]) for what, here in bins]
                   for cut, bins in cuts.items()},
            }  # fmt: skip
        for name in rivals:
            pair = found[own].crps, found[name].crps
            comparisons[name][variable] = {
                "regions": {
                    region: compare(*pair, held.group, rows, here)
                    for region, here in held.regions.items()
                    if here[rows].any()
                },
                **{cut: [compare(*pair, held.group, rows, here) for _, here in bins] for cut, bins in cuts.items()},
            }
    return plain({"models": models, "comparisons": comparisons})


def measure_readings(
    held: Held,
    ensemble: np.ndarray,  # (K, P)
    rows: np.ndarray,  # (P,) bool
) -> Measured:
    """Every reading is a case of its own and keeps its position among all P."""
    return measure(Cells(ensemble[:, rows], held.values[rows], np.flatnonzero(rows), len(rows)))


def _region(
    measured: Measured,
    group: np.ndarray,  # (P,)
    here: np.ndarray,  # (p,) bool, among the readings of the variable
    std: float,
) -> dict[str, Any]:
    table = summarise(measured[here], std, LEVELS, groups=group)
    readings = measured.cells.case[here]
    left_out = ("cells", "cases", "crps_per_case", "correlation")
    return {
        "readings": len(readings),
        "groups": len(np.unique(group[readings])),
        **{name: value for name, value in table.items() if name not in left_out},
    }


def _bin(
    measured: Measured,
    group: np.ndarray,  # (P,)
    here: np.ndarray,  # (p,) bool
) -> dict[str, Any]:
    """Value and reliability of one bin; None where it is empty or cannot be measured."""
    K, readings = measured.cells.members.shape[0], measured.cells.case[here]
    row: dict[str, Any] = {
        "readings": len(readings),
        "groups": len(np.unique(group[readings])),
        "crps": None,
        "mae": None,
        "coverage": None,
    }
    if len(readings):
        days = group[readings]
        row["crps"] = bootstrap(measured.crps[here], groups=days)
        row["mae"] = bootstrap(measured.median_error[here], groups=days)
        if K > 1 and resolved(K, max(LEVELS)):
            inside = covered(measured.below[here], measured.equal[here], K, max(LEVELS))
            row["coverage"] = bootstrap(inside, groups=days)
    return row


def compare(
    own: np.ndarray,  # (p,) CRPS of the readings of a variable
    rival: np.ndarray,  # (p,)
    group: np.ndarray,  # (P,)
    rows: np.ndarray,  # (P,) bool: the p readings of the variable
    here: np.ndarray,  # (P,) bool: the region
) -> dict[str, Any] | None:
    """The mean difference and the share that the run saves, each with its error bar."""
    among = here[rows]
    if not among.any():
        return None
    days, both = group[rows & here], np.stack([own[among], rival[among]], axis=1)

    def saved(means: np.ndarray) -> np.ndarray:  # (..., 2) -> (...)
        with np.errstate(divide="ignore", invalid="ignore"):
            return 1 - means[..., 0] / means[..., 1]

    return {
        "difference": bootstrap(both[:, 0] - both[:, 1], groups=days),
        "saved": bootstrap(both, of=saved, groups=days) if both[:, 1].mean() > 0 else None,
    }


def distance_bins(held: Held, rows: np.ndarray) -> Bins:  # (P,) bool
    """The sensors themselves, then bins of about equally many readings, fewer where readings are few."""
    here = held.distance[rows & np.isfinite(held.distance)]
    away = here[here > 0]
    edges = [0.0] if len(away) < len(here) else []
    if len(away):
        edges += distance_edges(away, int(np.clip(len(away) // PER_BIN, 1, BINS))).tolist()
    else:
        edges.append(float(np.nextafter(0.0, 1.0)))
    bins: Bins = []
    for low, high in pairwise(edges):
        inside = rows & (held.distance >= low) & (held.distance < high)
        if inside.any():
            far = held.distance[inside]
            bins.append(({"low": float(far.min()), "high": float(far.max()), "mean": float(far.mean())}, inside))
    return bins


def hour_bins(held: Held, rows: np.ndarray) -> Bins:  # (P,) bool
    """The hours that the record has; none of them may have been held out."""
    return [({"hour": int(hour)}, rows & (held.hour == hour)) for hour in held.hours]
