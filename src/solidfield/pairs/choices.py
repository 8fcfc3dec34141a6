"""What nobody chose, decided by the readings and said in words: logarithms, and what is held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..readings.doctor.series import words
from ..readings.intake import Say, tell
from .frames import Frames
from .holdout import Holdout

SKEWED = 1.0  # skewness beyond which logarithms are tried: 2 for an exponential law, 0 for a symmetric one
DENSE = 0.2  # share of the cells read at a time from which on a map is seen as a picture, ...
MOST = 0.5  # ... if sensors move, so that such a share of the cells is read at some time
SHORTEST = 10  # days a record must last to be split by days; a shorter one is cut into as many equal parts
MANY_CELLS, CALIBRATION = 40, 0.1  # from so many cells with readings on, such a share is met in validation only


def choose_model(frames: Frames) -> tuple[str, str]:  # and why, in words
    """Sets of readings where few cells are read at a time or ever, a picture of the map where many are.

    An image that is empty but for a few cells teaches a network little of what lies between them, and of cells where
    no sensor ever stands nothing; a set of the nearest readings costs what its readings cost, and learns relations that
    hold there, too.
    """
    read = np.isfinite(frames.values).any(1)  # (T, H, W)
    share, ever = (
        float(count / frames.grid.inside.sum())
        for count in (read[read.any((1, 2))].sum((1, 2)).mean(), read.any(0).sum())
    )
    picture = share >= DENSE and ever >= MOST
    name = "solid" if picture else "solid-set"
    words = "the map is seen as a picture" if picture else "the nearest of them in space and time are taken as a set"
    few = f" and {float(f'{100 * ever:.2g}'):g} % ever" if share >= DENSE and not picture else ""
    return name, f"model {name}: {float(f'{100 * share:.2g}'):g} % of the cells are read at a time{few}, so {words}"


def choose_pairing(
    frames: Frames,
    transform: str | None = None,
    holdout: Holdout | Mapping[str, Any] | None = None,  # some of its fields: the others by the readings
    say: Say | None = None,
) -> dict[str, Any]:
    """Transform and holdout for `frame_pairs`; what was not chosen is decided by the readings, in words."""
    chosen = {}
    for c, name in enumerate(frames.variables if transform is None else ()):
        chosen[name], why = choose_transform(frames.values[:, c], name)
        tell(why, say)
    return {"transform": transform or chosen, "holdout": decide_holdout(frames, holdout, say)}


def decide_holdout(
    frames: Frames,
    holdout: Holdout | Mapping[str, Any] | None,
    say: Say | None,
    calibration: bool = True,  # does the model learn from cells that only validation shows?
) -> Holdout:
    """What is given, and the rest by the readings, in words."""
    if isinstance(holdout, Holdout):
        return holdout
    suggested, reasons = choose_holdout(frames, calibration)
    for why in reasons:
        tell(why, say)
    return replace(suggested, **(holdout or {}))


def choose_transform(values: np.ndarray, name: str = "value") -> tuple[str, str]:  # and why, in words
    """Logarithms where every reading is positive, the readings are skewed and their logarithms less so.

    >>> choose_transform(np.exp(np.linspace(-2, 2, 99)))[0], choose_transform(np.linspace(-2, 2, 99))[0]
    ('log', 'none')
    """
    known = values[np.isfinite(values)].astype(np.float64)
    if len(known) < 3 or known.min() <= 0 or known.std() == 0:
        return "none", f"{name} is modelled as it is: not every reading is positive, or they do not vary"
    before, after = _skewness(known), _skewness(np.log(known))
    if before > SKEWED and abs(after) < before:
        return "log", f"{name} is modelled by its logarithm: it is positive and skewed ({before:.1f}, then {after:.1f})"
    return "none", f"{name} is modelled as it is: its skewness is {before:.1f}"


def _skewness(values: np.ndarray) -> float:
    z = (values - values.mean()) / values.std()
    return float((z**3).mean())


def choose_holdout(
    frames: Frames, calibration: bool = True
) -> tuple[Holdout, list[str]]:  # and why, in words, where there is something to say
    """Days where the record has enough of them, shorter stretches of a shorter record; calibration cells among many."""
    hours = float((frames.times[-1] - frames.times[0]) / np.timedelta64(1, "h"))
    cells = int(np.isfinite(frames.values).any((0, 1)).sum())
    holdout, reasons = Holdout(), []
    if 0 < hours < 24 * SHORTEST:
        stretch = hours / SHORTEST
        holdout = replace(holdout, hours=stretch)
        lengths = [words(3600e9 * length) for length in (hours, stretch)]
        reasons.append(f"the record lasts {lengths[0]}: stretches of {lengths[1]} are held out instead of days")
    if calibration and cells >= MANY_CELLS and (frames.grid.cells - cells) > 0:
        holdout = replace(holdout, calibration=CALIBRATION)
        reasons.append(
            f"{cells} cells have readings: {round(CALIBRATION * cells)} are kept back to learn how wide to be where "
            "there are none"
        )
    return holdout, reasons
