"""Leave-one-sensor-out quality control: which sensors read what the others do not imply.

Hide one reading of a frame and reconstruct it from the others; z = (reading - mean) / std says how far off it is. With
kriging both moments have a closed form (`hidden.py`), and `suspects.py` judges each sensor by its z over time. The
worst sensor is set aside before the others are judged again, since it drags its neighbours along, until none is left
to set aside; then the covariance, which it blurred, is fitted again without those, and the judging begins anew.

A trained run can take the place of kriging. It is asked once for each hidden reading, and nothing is set aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from ..engine import Progress
from ..errors import SolidError
from ..grid import DEGREE, Grid
from ..keys import evenly
from ..pairs.frames import Frames, as_frames
from ..prediction.context import frames_for, query
from ..prediction.ensemble import draw_members
from ..readings.intake import Readings, read_frames
from ..training.record import RunRecord
from .leave_out import Laws, Panel, fit_covariance, hidden_laws
from .suspects import BOUND, judge, shrunk_offsets, verdict

FRAMES = 400  # that are judged at most, spread evenly: a month of hours twice over, seconds of work
WORK = 2e11  # multiplications of all inverses: bounds the frames where each holds many hundreds of readings
LEAST = 20  # readings of a sensor below which its median says little
SENSORS = 5  # below which nobody can say which of them is wrong
LEVEL = 0.05  # chance that a family of sound sensors sees any alarm
MEMBERS = 64
RUN_FRAMES = 50  # that a run is asked about: a query for every reading in them


@dataclass(frozen=True)
class Quality:
    """Every hidden reading beside what the others imply, and the sensors ranked, the worst first."""

    variable: str
    units: str
    model: str
    transform: str  # none | log: the space of `expected`, `std` and z
    level: float
    readings: pd.DataFrame  # sensor, time, y, x, reading, expected, low, high (99 %), z, pit
    sensors: pd.DataFrame  # sensor, y, x, readings, bias, bias_z, spread, outside, p, suspect, verdict

    @property
    def suspects(self) -> pd.DataFrame:
        return self.sensors[self.sensors["suspect"]]


def quality(
    frames: Readings,
    variable: str | None = None,
    model: str | Path = "kriging",
    *,
    transform: str = "none",
    most: int | None = None,
    least: int = LEAST,
    level: float = LEVEL,
    members: int = MEMBERS,
    progress: Progress | None = None,
) -> Quality:
    """Hide each sensor from its frames, reconstruct it from the others, and rank sensors by how far they are off.

    Parameters
    ----------
    frames : path, xarray object or table
        Sparse frames, NaN where nothing was read; a table is put on a grid as `read_frames` does.
    variable : str, optional
        Which one, where there are several.
    model : str or path
        "kriging", in closed form, or the folder of a trained run. Default: "kriging".
    transform : {"none", "log"}
        "log" is for concentrations and other positive quantities. Default: "none".
    most : int, optional
        Frames to judge by. Default: as many as take seconds.
    least : int
        Readings that a cell needs to be judged. Default: 20.
    level : float
        Chance of any false alarm among sound sensors. Default: 0.05.
    members : int
        Of a run's ensemble. Default: 64.
    progress : callable, optional
        Called as `progress(what, done, total)`.

    Returns
    -------
    Quality
        `sensors`, ranked with a verdict each, the worst first; `suspects` among them; every hidden reading.

    Raises
    ------
    SolidError
        If too few cells were read often enough, or logarithms are asked for of readings that are not positive.

    Examples
    --------
    >>> wave = np.sin(np.arange(60) / 5)[:, None, None] + 0.1 * np.random.default_rng(0).normal(size=(60, 3, 3))
    >>> wave[:, 1, 1] += 5  # one sensor reads too much
    >>> times = np.datetime64("2024-01-01", "ns") + np.arange(60) * np.timedelta64(3600, "s")
    >>> frames = xr.DataArray(wave, {"time": times, "lat": [0.0, 0.1, 0.2], "lon": [0.0, 0.1, 0.2]}, name="pm")
    >>> [(round(row.y, 1), round(row.x, 1)) for row in quality(frames).suspects.itertuples()]
    [(0.1, 0.1)]
    """
    if not 0 < level < 1:
        raise SolidError(f"level {level:g} is the chance of a false alarm; give one between 0 and 1, such as 0.05")
    for name, number in (("least", least), ("most", most), ("members", members)):
        if number is not None and number < 1:
            raise SolidError(f"{name} is {number}; give at least 1")
    frames = read_frames(frames)
    if transform not in ("none", "log"):
        raise SolidError(f"transform '{transform}' is unknown; choose none or log")
    given = as_frames(frames, None if variable is None else [variable])
    if len(given.variables) > 1:
        raise SolidError(f"the frames hold {', '.join(given.variables)}; name the variable to judge")
    if str(model) == "kriging":
        panel = _panel(given, transform, most or FRAMES, least)
        mean, std = _by_kriging(panel, level, progress)
    else:
        panel = _panel(given, transform, most or RUN_FRAMES, least)
        mean, std = _by_run(frames, given, panel, Path(model), members, transform, progress)
    z = (panel.value - mean) / std
    return Quality(
        given.variables[0],
        given.units[0],
        str(model),
        transform,
        level,
        _readings(given, panel, mean, std, z, transform),
        _ranked(given, panel, mean, z, transform, level),
    )


def _panel(given: Frames, transform: str, most: int, least: int) -> Panel:
    """The cells read often enough, in frames spread evenly over those that hold at least three of them."""
    name, values = given.variables[0], given.values[:, 0].astype(np.float64)  # (T, H, W)
    seen = np.isfinite(values)
    if transform == "log":
        wrong = int((values[seen] <= 0).sum())
        if wrong:
            raise SolidError(f"{wrong} readings of '{name}' are not positive; take transform none, or grid --positive")
        values = np.log(values, out=np.full_like(values, np.nan), where=seen)
    often = seen.sum(0) >= least
    if often.sum() < SENSORS:
        raise SolidError(
            f"{int(often.sum())} cells of '{name}' were read {least} times or more; judging one sensor by the others "
            f"takes {SENSORS}"
            + (": lower --least, or grid with longer steps" if seen.any(0).sum() >= SENSORS else ", so more sensors")
        )
    value = values[:, often]  # (T, S)
    full = np.flatnonzero(np.isfinite(value).sum(1) >= 3)
    if len(full) == 0:
        raise SolidError(f"no frame of '{name}' holds three readings at once; grid with a longer step")
    count = min(most, max(LEAST, int(WORK / np.isfinite(value[full]).sum(1).max() ** 3)), len(full))
    chosen = evenly(full, count)
    enough = np.isfinite(value[chosen]).sum(0) >= min(least, LEAST // 2)
    if enough.sum() < SENSORS:
        raise SolidError(f"too few readings of '{name}' fall into the {count} frames judged; raise --most")
    return Panel(_in_kilometres(given.grid), chosen, np.argwhere(often)[enough], value[chosen][:, enough])


def _in_kilometres(grid: Grid) -> Grid:
    """Degrees become kilometres, so that a distance means the same along both axes."""
    if grid.axes[0] != "lat":
        return grid
    narrow = max(float(np.cos(np.deg2rad(grid.y.mean()))), 0.01)
    return replace(grid, spacing=(DEGREE * grid.spacing[0], DEGREE * narrow * grid.spacing[1]))


def _by_kriging(panel: Panel, level: float, progress: Progress | None) -> Laws:
    """Fit, set the worst aside one by one; fit again without them, for they blurred the covariance; begin anew."""
    aside: list[int] = []
    for _ in range(2):
        sound = np.setdiff1d(np.arange(len(panel.site)), aside)
        centre, width, covariance = fit_covariance(panel, sound)
        standard = (panel.value - centre) / width
        aside = []
        while True:
            mean, std = hidden_laws(covariance, panel.site, standard, aside)
            found = judge((standard - mean) / std, level)
            worst = next((int(i) for i in found.order if found.suspect[i] and i not in aside), None)
            if progress is not None:
                progress("setting sensors aside", len(aside), len(panel.site) // 3)
            if worst is None or len(aside) >= len(panel.site) // 3:  # a majority must stay to judge by
                break
            aside.append(worst)
        if not aside:
            break
    return centre + width * mean, width * std


def _by_run(
    frames: xr.Dataset | xr.DataArray,
    given: Frames,
    panel: Panel,
    folder: Path,
    members: int,
    transform: str,
    progress: Progress | None,
) -> Laws:
    """The run's ensemble for each hidden reading; the sensor is hidden from every frame, for a run may look back."""
    run = RunRecord.open(folder)
    if 0 not in run.info["data"]["leads"]:
        raise SolidError(f"the run {folder} was not trained to reconstruct (lead 0); train with it, or use kriging")
    if given.variables[0] not in run.variables:
        raise SolidError(f"the run {folder} predicts {', '.join(run.variables)}, not '{given.variables[0]}'")
    whole, *_ = frames_for(run, frames)
    channel = run.variables.index(given.variables[0])
    mean, std = np.full((2, *panel.value.shape), np.nan)
    for s, (row, column) in enumerate(panel.site):
        seen = np.flatnonzero(np.isfinite(panel.value[:, s]))
        without = whole.values.copy()
        without[:, :, row, column] = np.nan
        source, _ = query(run, replace(whole, values=without), panel.rows[seen], 0)
        identities = [s * len(panel.rows) + int(f) for f in seen]
        drawn = draw_members(run.model, run.scaling, source, members, queries=identities)
        at = drawn[:, :, 0, channel, row, column].astype(np.float64)  # (K, n)
        if transform == "log":
            at = np.log(np.maximum(at, 1e-3 * np.exp(np.nanmin(panel.value))))
        mean[seen, s], std[seen, s] = at.mean(0), at.std(0, ddof=1)
        if progress is not None:
            progress("hiding sensors", s + 1, len(panel.site))
    return mean, std


def _readings(
    given: Frames, panel: Panel, mean: np.ndarray, std: np.ndarray, z: np.ndarray, transform: str
) -> pd.DataFrame:
    """One row for each hidden reading, in physical units."""
    f, s = np.nonzero(np.isfinite(z))
    back = np.exp if transform == "log" else np.asarray
    row, column = panel.site[s].T
    return pd.DataFrame(
        {
            "sensor": s,
            "time": given.times[panel.rows[f]],
            "y": given.grid.y[row],
            "x": given.grid.x[column],
            "reading": back(panel.value[f, s]),
            "expected": back(mean[f, s]),
            "low": back(mean[f, s] - BOUND * std[f, s]),
            "high": back(mean[f, s] + BOUND * std[f, s]),
            "z": z[f, s],
            "pit": stats.norm.cdf(z[f, s]),
        }
    )


def _ranked(given: Frames, panel: Panel, mean: np.ndarray, z: np.ndarray, transform: str, level: float) -> pd.DataFrame:
    """One row for each sensor, the least likely to be sound first."""
    found = judge(z, level)
    gap = np.nanmedian(panel.value - mean, 0)  # (S,) in the space of the panel
    offset, unsure = shrunk_offsets(panel.value - mean)
    if transform == "log":
        offset, unsure = np.expm1(offset), np.exp(offset) * unsure
        shift, words = np.expm1(gap), [f"{100 * abs(np.expm1(g)):.0f} %" for g in gap]
    else:
        shift, words = gap, [f"{abs(g):.3g} {given.units[0]}".strip() for g in gap]
    numbers = zip(found.bias, found.spread, found.outside, found.log_p.T, found.suspect, words, strict=True)
    table = pd.DataFrame(
        {
            "sensor": np.arange(len(panel.site)),
            "y": given.grid.y[panel.site[:, 0]],
            "x": given.grid.x[panel.site[:, 1]],
            "readings": np.isfinite(z).sum(0),
            "bias": shift,  # in units, or as a share where the logarithm was taken
            "bias_z": found.bias,
            "offset": offset,  # the bias, shrunk by how sure it is, and its standard deviation; in the same units
            "offset_std": unsure,
            "spread": found.spread,
            "outside": found.outside,
            "p": found.p,
            "suspect": found.suspect,
            "verdict": [verdict(*row) for row in numbers],
        }
    )
    return table.iloc[found.order].reset_index(drop=True)
