"""Who is kept away when a run of questions is judged by the readings of its test frames.

    held_sensors   held for ever: neither trained on nor known
    set_aside      never taken for unread in training; their whole record is hidden
    left_out       a fifth of the others in turn, with their whole record; training has taken them for unread
    gaps           another fifth, with a gap of their record around the frame; only at the time of the readings
    known_places   ahead: all others, of which everything up to the start is known

The first three are places without a sensor, as every cell of a map is. Every model knows the same readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..clock import from_seconds, local
from ..errors import SolidError
from ..keys import evenly, numpy_generator
from ..pairs.holdout import FIRST_DAY
from ..pairs.records import set_aside, without_held
from ..questions.record import SPLITS, Record
from ..training.record import RunRecord

FOLDS = 5
GAPS, KNOWN = "gaps", "known_places"  # the regions of places that are not taken for unread
SCENES = 300  # test frames of a lead, evenly spaced, unless more are asked for


@dataclass(frozen=True)
class Exam:
    """The readings that judge a run, and who is kept away when."""

    run: RunRecord
    record: Record  # all readings, physical units
    standard: Record  # the same in the units of the model
    held: dict[str, np.ndarray]  # each (H, W) bool
    aside: np.ndarray  # (H, W) bool
    fold: np.ndarray  # (H * W,) of each place, -1 where nothing was ever read
    hours: np.ndarray  # (T,) of the day
    day: np.ndarray  # (T,)
    times: np.ndarray  # (T,) local
    seed: int
    past_only: bool

    @classmethod
    def of(cls, run: RunRecord, seed: int, past_only: bool) -> Exam:
        record, held = run.readings()
        taught = set_aside(without_held(record, held))
        aside = np.zeros(run.grid.shape, bool) if taught.aside is None else taught.aside
        free = taught.places[~aside.ravel()[taught.places]]
        fold = np.full(run.grid.cells, -1)
        blocks, block = np.unique(taught.block(free), return_inverse=True)
        turn = np.argsort(numpy_generator(seed, "folds").permutation(len(blocks))) % FOLDS
        fold[free] = turn[block]
        holdout = run.info["data"]["holdout"]
        times = local(from_seconds(record.start + record.step * np.arange(len(record))), holdout["timezone"] or "UTC")
        day = np.floor((times - FIRST_DAY).total_seconds().to_numpy() / (3600 * holdout["hours"])).astype(np.int64)
        standard = run.scaling.of_readings(record)
        return cls(
            run, record, standard, held, aside, fold, times.hour.to_numpy(), day, times.to_numpy(), seed, past_only
        )

    def frames(self, lead: int, scenes: int | None) -> tuple[np.ndarray, int]:  # (N,), and of how many
        """Test frames to ask about, in the order of time."""
        first = self.run.info["data"]["plan"]["before"] + lead
        read = np.diff(self.record.offsets) > 0
        test = np.flatnonzero((self.record.split == SPLITS.index("test")) & read)
        test = test[test >= min(first, len(self.record) // 2)]
        if len(test) == 0:
            raise SolidError(f"{self.run.path} kept no frame to be judged by; hold some days out when it is trained")
        return evenly(test, min(SCENES if scenes is None else scenes, len(test))), len(test)

    def scene(self, number: int, frame: int, lead: int) -> tuple[Record, np.ndarray, int, dict[str, np.ndarray]]:
        """What is known, which readings of the frame judge (positions in the record), where the window begins, regions.

        The known record is standardised and holds no reading that is kept away.
        """
        plan, cells = self.run.info["data"]["plan"], self.run.grid.cells
        begin = max(frame - (lead + plan["before"] - 1 if lead else plan["before"]), 0)
        end = frame + 1 + (0 if lead or self.past_only else plan["after"])
        window = self.standard.window(begin, end)
        place = window.cells % cells
        turn, gap = self.fold == number % FOLDS, self.fold == (number + 1) % FOLDS
        never = np.logical_or.reduce([self.aside, *self.held.values()]).ravel()
        away = never[place] | turn[place]
        if lead == 0:
            draw = numpy_generator(self.seed, "gap", frame).random(2)
            length = np.exp(draw[0] * np.log(plan["before"]))
            when = window.frames + begin - frame
            away |= gap[place] & (when >= -length * draw[1]) & (when <= length * (1 - draw[1]))
        rows = np.arange(self.record.offsets[frame], self.record.offsets[frame + 1])
        at = self.record.cells[rows] % cells
        regions = {name: mask.ravel()[at] for name, mask in self.held.items()}
        regions |= {"set_aside": self.aside.ravel()[at], "left_out": turn[at]}
        regions[KNOWN if lead else GAPS] = ~never[at] & ~turn[at] if lead else gap[at]
        asked = np.logical_or.reduce(list(regions.values()))
        return window.without(np.flatnonzero(away)), rows[asked], begin, {n: m[asked] for n, m in regions.items()}
