"""A record: readings stored once, sparse, frame by frame, on one clock.

    offsets (T + 1,)   readings of frame t are offsets[t] : offsets[t + 1]
    cells   (R,)       flat index into (C, H, W), ascending within a frame
    values  (R,)       float32, physical units
    errors  (R,)       standard deviation of each reading's error, physical units; 0 where a reading is exact

Frames are the ticks of the clock from the first reading to the last, so that a difference of positions is a time:
an hour without any reading is a frame without readings. Every frame has a split (train, validation, test) and a
stretch; frames of different stretches (trajectories of a simulation, months of a protocol) never see each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import SolidError
from ..grid import Grid

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Record:
    """Readings of one grid and one clock; see the head of this file for the arrays."""

    grid: Grid
    variables: tuple[str, ...]  # (C,)
    offsets: np.ndarray  # (T + 1,) int64
    cells: np.ndarray  # (R,) int64
    values: np.ndarray  # (R,) float32
    split: np.ndarray  # (T,) int8, positions in SPLITS
    stretch: np.ndarray  # (T,) int32
    errors: np.ndarray | None = None  # (R,) float32; None: every reading is exact
    calendar: np.ndarray | None = None  # (T, D) float32, known of every time: hour of day and the like
    static: np.ndarray | None = None  # (S, H, W) float32, standardised fields that stay
    start: float = 0.0  # time of the first frame: seconds since 1970, or a simulation's own
    step: float = 1.0  # time from frame to frame
    units: tuple[str, ...] = field(default=())  # (C,)

    def __post_init__(self) -> None:
        count = len(self.split)
        if len(self.offsets) != count + 1 or len(self.stretch) != count or self.offsets[-1] != len(self.cells):
            raise SolidError(f"{count} frames need {count + 1} offsets that end at the number of readings; check them")
        if len(self.cells) != len(self.values) or not np.isfinite(self.values).all():
            raise SolidError("a record holds one finite value per reading; leave out what was not observed")
        limit = len(self.variables) * self.grid.cells
        if len(self.cells) and (self.cells.min() < 0 or self.cells.max() >= limit):
            raise SolidError(f"a reading lies outside (variables, y, x) = {(len(self.variables), *self.grid.shape)}")

    @classmethod
    def of_frames(
        cls,
        frames: np.ndarray,  # (T, C, H, W), NaN = not read
        grid: Grid,
        variables: tuple[str, ...],
        split: np.ndarray,  # (T,)
        stretch: np.ndarray | None = None,  # (T,)
        errors: np.ndarray | None = None,  # (T, C, H, W)
        **others: object,
    ) -> Record:
        """The readings of dense arrays; what is NaN is not copied."""
        rows, cells = np.nonzero(np.isfinite(frames.reshape(len(frames), -1)))
        flat = frames.reshape(len(frames), -1)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(frames)))])
        return cls(
            grid,
            variables,
            offsets.astype(np.int64),
            cells.astype(np.int64),
            flat[rows, cells].astype(np.float32),
            np.asarray(split, np.int8),
            np.zeros(len(frames), np.int32) if stretch is None else np.asarray(stretch, np.int32),
            None if errors is None else errors.reshape(len(frames), -1)[rows, cells].astype(np.float32),
            **others,  # type: ignore[arg-type]
        )

    def __len__(self) -> int:  # frames
        return len(self.split)

    @property
    def frames(self) -> np.ndarray:  # (R,) the frame of each reading
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def of_split(self, name: str) -> np.ndarray:  # (n,) positions of readings
        """The readings of the frames of a split."""
        if name not in SPLITS:
            raise SolidError(f"no split '{name}'; choose one of {', '.join(SPLITS)}")
        return np.flatnonzero(np.repeat(self.split == SPLITS.index(name), np.diff(self.offsets)))

    def with_values(self, values: np.ndarray) -> Record:  # (R,)
        return replace(self, values=values.astype(np.float32))

    def without(self, readings: np.ndarray) -> Record:  # (n,) positions
        """The record without some of its readings; its frames stay."""
        stays = np.ones(len(self.cells), bool)
        stays[readings] = False
        counts = np.bincount(self.frames[stays], minlength=len(self))
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            cells=self.cells[stays],
            values=self.values[stays],
            errors=None if self.errors is None else self.errors[stays],
        )
