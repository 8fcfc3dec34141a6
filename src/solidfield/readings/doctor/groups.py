"""Groups beside one another: values and units of sensors and files that do not fit the rest.

outliers     readings beyond 8 upper (lower) deviations of all readings, the deviation taken from the 95 % (5 %)
             quantile of that side; of a positive quantity also beyond 4.5 of its logarithm; hours without rain and
             the like (`resting`) do not count
unit slips   a sensor or file whose median m is 1000 M, M / 1000, M + 273.15 or 1.8 M + 32 (or back), where M is the
             median of the others' medians
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from .findings import Finding, Scene, kind_of, plain_units, resting

RAW, LOG = 8.0, 4.5
GROUP = 10  # readings below which a group's median says little
MANY = 50  # groups, beyond which one of them does not move the median of all
SLIPS: tuple[tuple[str, str, Callable[[float], float], Callable[[float], float]], ...] = (
    # what the group holds, what undoes it, where its median should be, how much wider it should be
    ("a thousandth of the unit of the others", "divide by 1000", lambda m: 1000 * m, lambda w: 1000 * w),
    ("a thousand times the unit of the others", "multiply by 1000", lambda m: m / 1000, lambda w: w / 1000),
    ("kelvin, the others degrees Celsius", "subtract 273.15", lambda m: m + 273.15, lambda w: w),
    ("degrees Celsius, the others kelvin", "add 273.15", lambda m: m - 273.15, lambda w: w),
    ("degrees Fahrenheit, the others Celsius", "(v - 32) / 1.8", lambda m: 1.8 * m + 32, lambda w: 1.8 * w),
    ("degrees Celsius, the others Fahrenheit", "1.8 v + 32", lambda m: (m - 32) / 1.8, lambda w: w / 1.8),
)


def outliers(scene: Scene) -> list[Finding]:
    found = []
    for v, name in enumerate(scene.variables):
        value = scene.kept.values[:, v]
        known = np.isfinite(value) & ~resting(value, scene.kept.who)
        if known.sum() < 2 * GROUP:
            continue
        beyond = known & (_side(value, known) > RAW)
        if (value[known] > 0).all():
            beyond &= _side(np.log(value, out=np.zeros_like(value), where=known), known) > LOG
        at = np.flatnonzero(beyond)
        if len(at):
            low, high = value[known & ~beyond].min(), value[known & ~beyond].max()
            text = (
                f"{name}: {len(at):,} readings lie far outside all others ({_range(value[at])}; the others are "
                f"within {low:.4g} .. {high:.4g})"
            )
            remedy = f"`solid grid {_options(value[at], low, high)}` drops and lists them; by default they stay"
            found.append(scene.finding("outliers", "doubt", text, at, remedy))
    return found


def _options(outside: np.ndarray, low: float, high: float) -> str:
    """The limits halfway between the others and the outliers on either side."""
    above, below = outside[outside > high], outside[outside < low]
    options = [f"--drop-above {(high + above.min()) / 2:.3g}"] if len(above) else []
    options += [f"--drop-below {(low + below.max()) / 2:.3g}"] if len(below) else []
    return " ".join(options)


def _side(value: np.ndarray, known: np.ndarray) -> np.ndarray:  # (n,) deviations from the median, by side
    low, middle, high = np.quantile(value[known], [0.05, 0.5, 0.95])
    scale = np.where(value > middle, high - middle, middle - low) / 1.645
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scale > 0, np.abs(value - middle) / scale, 0.0)


def unit_slips(scene: Scene) -> list[Finding]:
    """By file and by sensor; a sensor within a file that slipped is not reported again."""
    found = []
    for v, name in enumerate(scene.variables):
        value = scene.kept.values[:, v]
        told = np.zeros(len(value), bool)
        groups = [("file", scene.kept.file)] if len(scene.files) > 1 else []
        groups += [("sensor", scene.kept.who)] if scene.identity != "none" else []
        for what, label in groups:
            for who, slip in _slipped(value, label, kind_of(name, scene.units[v])):
                at = np.flatnonzero((label == who) & ~told)
                if len(at) < GROUP:
                    continue
                told[at] = True
                holder = scene.files[int(who)] if what == "file" else scene.name_of(int(who), int(at[0]))
                middle = np.nanmedian(value[at])
                text = (
                    f"{name}: {what} {holder} seems to hold {SLIPS[slip][0]} (median {middle:.4g}, the others "
                    f"{np.nanmedian(value[label != who]):.4g})"
                )
                remedy = f"convert its {len(at):,} readings ({SLIPS[slip][1]}) before gridding, or leave it out"
                found.append(scene.finding("unit-slip", "fault", text, at, remedy))
    return found


def _slipped(value: np.ndarray, label: np.ndarray, kind: str) -> list[tuple[int, int]]:
    """(group, which slip) for groups that hold fewer than half of all readings."""
    grouped = pd.Series(value).groupby(label)
    count = grouped.count()
    count = count[count >= GROUP]
    middle = grouped.median()[count.index].to_numpy()  # (G,)
    width = (grouped.quantile(0.75) - grouped.quantile(0.25))[count.index].to_numpy()  # (G,)
    found = []
    for g in np.flatnonzero(2 * count.to_numpy() < np.isfinite(value).sum() + 1):
        others = np.delete(middle, g) if len(middle) < MANY else middle
        if len(others) == 0:
            continue
        centre, wide, m = float(np.median(others)), float(np.median(width)), middle[g]
        scatter = 1.4826 * float(np.median(np.abs(others - centre)))
        if abs(m - centre) <= max(4 * scatter, 1.5 * wide):
            continue
        for slip, (_, _, place, stretch) in enumerate(SLIPS):
            expected = place(centre)
            if slip < 2:
                fits = centre > 0 and m > 0 and abs(np.log(m / expected)) < np.log(2)
            else:
                fits = kind in ("temperature", "") and abs(m - expected) < max(3 * scatter, wide, 1.0) * stretch(1.0)
                fits = fits and (slip < 4 or 0.6 < width[g] / max(stretch(wide), 1e-12) < 1.6)
            if fits:
                found.append((int(count.index[g]), slip))
                break
    return found


def unit_doubts(scene: Scene) -> list[Finding]:
    """Units on the label against the size of the values."""
    found = []
    for v, name in enumerate(scene.variables):
        value, units = scene.kept.values[:, v], scene.units[v]
        if not np.isfinite(value).any() or kind_of(name, units) != "temperature":
            continue
        middle, label = float(np.nanmedian(value)), plain_units(units)
        looks = "K" if middle > 150 else "degC or degF"
        if label and (label == "K") != (looks == "K"):
            at = np.flatnonzero(np.isfinite(value))
            text = f"{name} is labelled {units}, but its median {middle:.4g} looks like {looks}"
            remedy = f"correct the label: --units {'K' if looks == 'K' else 'degC'}"
            found.append(scene.finding("units", "fault", text, at, remedy))
    return found


def _range(values: np.ndarray) -> str:
    low, high = values.min(), values.max()
    return f"{low:.4g}" if low == high else f"{low:.4g} .. {high:.4g}"
