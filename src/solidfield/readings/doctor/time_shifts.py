"""Times that are off by hours: by the sun, or by the other sensors.

A temperature peaks in the afternoon and sunshine about noon, local solar time (UTC + longitude / 15). The hour at
which a daily cycle peaks is arg sum_t (v_t - mean of its day) exp(i 2 pi hour / 24). Sensors are compared with each
other by the lag at which a sensor's hourly anomalies correlate best with the mean of the others'; a clock is in doubt
where another lag than 0 fits much better.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .findings import Finding, Scene, kind_of
from .reservoir import DAY

SIGNIFICANT = 6.0  # standard errors of a daily cycle's strength
HOUR = 3600 * 10**9
PEAKS = {"temperature": (11.0, 18.0), "radiation": (9.0, 15.0)}  # usual hours by the sun
SENSORS, HOURS = 500, 20_000  # compared at most: some tens of megabytes
LAGS = 14  # hours either way: all time zones
FITS, BETTER = 0.7, 0.2  # correlation at the best lag, and its gain over lag 0
SHORTEST = 2  # hours: a lag of one may be weather that moves
COMMON = 72  # hours that a sensor and the others must share


def time_shifts(scene: Scene) -> list[Finding]:
    found = []
    for v, name in enumerate(scene.variables):
        value = scene.kept.values[:, v]
        usual = PEAKS.get(kind_of(name, scene.units[v]))
        if usual is not None and scene.geographic:
            for f in np.unique(scene.kept.file):
                found += _by_the_sun(scene, name, value, int(f), usual)
        if scene.identity != "none":
            found += _by_the_others(scene, name, value)
    return found


def _by_the_sun(scene: Scene, name: str, value: np.ndarray, f: int, usual: tuple[float, float]) -> list[Finding]:
    at = np.flatnonzero(scene.kept.file == f)
    peak = peak_hour(value[at], scene.kept.time[at])
    if peak is None:
        return []
    solar = (peak + float(np.median(scene.kept.x[at])) / 15) % 24
    if usual[0] <= solar <= usual[1]:
        return []
    shift = (solar - sum(usual) / 2 + 12) % 24 - 12
    return [
        Finding(
            "time-zone",
            "doubt",
            f"{name} of {scene.files[f]} peaks at {solar:.0f} h by the sun, where {usual[0]:.0f} .. {usual[1]:.0f} h "
            f"is usual: its times may be off by about {abs(shift):.0f} h",
            len(at),
            scene.examples(at),
            "name the zone of the file's clock, for instance --timezone Asia/Kolkata or --timezone +05:30",
        )
    ]


def peak_hour(value: np.ndarray, time: np.ndarray) -> float | None:  # (n,), (n,) nanoseconds
    """The UTC hour at which the daily cycle peaks; None where it is not plain to see."""
    known = np.isfinite(value)
    value, time = value[known], time[known]
    day, hour = time // DAY, (time % DAY) / HOUR
    read = pd.Series(hour.astype(int)).groupby(day).nunique()
    sound = np.isin(day, read.index[read >= 12])  # half of the day or more was read
    if len(np.unique(day[sound])) < 3:
        return None
    value, hour, day = value[sound], hour[sound], day[sound]
    away = (value - pd.Series(value).groupby(day).transform("mean")).to_numpy()
    strength = (away * np.exp(2j * np.pi * hour / 24)).mean()
    error = away.std() / np.sqrt(2 * len(away))
    if not abs(strength) > SIGNIFICANT * error or abs(strength) < 0.2 * away.std():
        return None
    return float(np.angle(strength) * 24 / (2 * np.pi) % 24)


def _by_the_others(scene: Scene, name: str, value: np.ndarray) -> list[Finding]:
    kept = scene.kept
    who, first = np.unique(kept.who, return_index=True)
    if len(who) < 3:
        return []
    found = []
    lags = best_lags(value, kept.time, np.searchsorted(who, kept.who), len(who))
    for s in np.flatnonzero(np.abs(lags) >= SHORTEST):
        at = np.flatnonzero(kept.who == who[s])
        text = (
            f"{name}: sensor {scene.name_of(int(who[s]), int(first[s]))} says the same as the others, but "
            f"{abs(lags[s])} h {'later' if lags[s] > 0 else 'earlier'}"
        )
        remedy = (
            "its clock may be on another zone: shift its times, or grid it apart with its own --timezone; nothing, "
            "where a tide or a front reaches it at another time than the others"
        )
        found.append(scene.finding("clock", "doubt", text, at, remedy))
    return found


def best_lags(
    value: np.ndarray,  # (n,)
    time: np.ndarray,  # (n,) nanoseconds
    sensor: np.ndarray,  # (n,) 0 .. S-1
    sensors: int,
) -> np.ndarray:  # (S,) hours by which a sensor comes later than the others; 0 where nothing else fits much better
    hour = time // HOUR
    hour = hour - hour.min()
    use = np.isfinite(value) & (sensor < SENSORS) & (hour < HOURS)
    shape = (min(sensors, SENSORS), int(hour[use].max()) + 1 if use.any() else 1)
    flat = sensor[use] * shape[1] + hour[use]
    size = shape[0] * shape[1]
    count = np.bincount(flat, minlength=size).reshape(shape)
    mean = np.bincount(flat, value[use], minlength=size).reshape(shape) / np.maximum(count, 1)
    mean -= np.where(count.any(1), mean.sum(1) / np.maximum((count > 0).sum(1), 1), 0.0)[:, None]
    mean[count == 0] = 0.0
    seen = (count > 0).astype(float)
    total, number = mean.sum(0), seen.sum(0)  # (T,)
    lags = np.zeros(sensors, int)
    for s in range(shape[0]):
        rest = (number - seen[s]) > 0
        others = np.where(rest, (total - mean[s]) / np.maximum(number - seen[s], 1), 0.0)
        score = [_correlation(mean[s], seen[s] > 0, others, rest, lag) for lag in range(-LAGS, LAGS + 1)]
        best = int(np.argmax(score))
        if score[best] > FITS and score[best] > score[LAGS] + BETTER:
            lags[s] = best - LAGS
    return lags


def _correlation(a: np.ndarray, in_a: np.ndarray, b: np.ndarray, in_b: np.ndarray, lag: int) -> float:
    """Of a(t + lag) with b(t), over the hours when both are known."""
    later, earlier = slice(max(lag, 0), len(a) + min(lag, 0)), slice(max(-lag, 0), len(a) - max(lag, 0))
    both = in_a[later] & in_b[earlier]
    if both.sum() < COMMON:
        return -1.0
    x, y = a[later][both], b[earlier][both]
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    return float((x * y).sum() / scale) if scale > 0 else -1.0
