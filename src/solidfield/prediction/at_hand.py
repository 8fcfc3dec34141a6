"""Laws for the season at hand: as far from kriging's, and as wide, as the readings that are given ask.

A run is calibrated by days held out of its training. In another season what its network learned may hold less, and its
laws may be too wide or too narrow. The readings that it is given show by how much: each of some of them is asked about
as if it had not been read. Laws of known places depart from kriging's as far as lowers their CRPS at these, and all
laws are stretched as these ask, by kind of question and level (`set_calibration.recalibrate`). n windows are trusted

    t = n / (n + 1),      departure = (1 - t) (that of training) + t (that asked for),
                          stretch = (stretch of training)^(1 - t) (stretch asked for)^t,

so a few hours change little and a week nearly all. Nothing later than what a question may know is looked at: for
forecasts readings up to the first time they start from. Off unless asked for, and maps that had it say so.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..keys import torch_generator
from ..models.set_calibration import recalibrate
from ..models.solid_set import SolidSet
from ..questions.asking import Lesson
from ..questions.drawing import Plan, draw
from ..questions.record import Record
from ..scores.conformal import FEWEST

ASKED, AT_ONCE = 3000, 500  # questions about readings at hand
SAID = "laws brought nearer to kriging and stretched as the readings given ask, each of some hidden in turn"
TOO_FEW = f"laws as in training: fewer than {FEWEST} readings were given up to then to recalibrate by"


def recalibrated(
    model: SolidSet,
    record: Record,  # what is given, standardised
    plan: Plan,  # how the model was trained to be asked
    last: int | None = None,  # the last frame that may be looked at; None: all
    seed: int = 0,
    asked: int = ASKED,
) -> SolidSet:
    """The model with laws as these readings ask; as it is where they are too few to tell."""
    known = record if last is None else record.window(0, last + 1)
    if len(known.cells) < FEWEST:
        return model
    # As the network is there: no sensor is away but those that are.
    as_it_is = replace(plan, sparse=0.0, sparse_unread=0.0, silent=0.0, outage=0.0, as_was=0.0)
    readings, windows = np.arange(len(known.cells)), len(np.unique(known.frames)) / plan.before

    def lessons() -> Iterator[Lesson]:
        for start in range(0, asked, AT_ONCE):
            generator = torch_generator(seed, "at hand", start)
            yield draw(known, readings, min(AT_ONCE, asked - start), as_it_is, "test", generator)

    fitting = copy.deepcopy(model)
    recalibrate(fitting, lessons, windows / (windows + 1))
    return fitting
