"""Sparse pairs on disk: all that training ever opens, with no room for a value that was not observed.

One example is a source (readings at t_i on M_i), a target (readings at t_o on M_o) and a lead. A store is a
Zarr v3 group of ragged lists, for `source` and `target` alike:

    <side>_offsets (E + 1,)   readings of example e are offsets[e] : offsets[e + 1]
    <side>_cells   (R,)       flat index into (C, H, W), ascending within an example
    <side>_values  (R,)       float32, physical units

with one column per example for trajectory, frames, times, lead and split. A store with a window holds every frame
that is a source once, `source_list (E,)` says which list is an example's, and the frames before it are the lists of
the same trajectory a step earlier (`windows.py`): windows and leads cost no further reading. On request a store has
what is known at every cell (`channels.py`) and which cells are held for ever (`holdout.py`). The one exception has
another name and says so: `oracle_dense (E, C, H, W)`, in a store made from simulated truth on request, whose
attributes have `leaks: true`. `writing.py` writes a store, this file reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import SolidError
from ..fields import OraclePair, Pair, Source, Target, Window
from ..forecast import Spec
from ..grid import Grid
from ..keys import evenly
from .channels import Channels
from .ragged import kind_of, load, positions, read_label
from .windows import SOURCE_LIST, earlier_lists

KIND, VERSION = "pair", 1
# (H, W) bool: never sources; targets of test examples only, of validation examples only
HELD = ("held_sensors", "held_blocks", "calibration_cells")
FORMER = {"strangers": "calibration_cells"}  # names of held cells in older stores
SPLITS = ("train", "validation", "test", "between")  # the column `split` holds positions in this list
SIDES = ("source", "target")
COLUMNS = {
    "trajectory": "<i4",
    "frame_source": "<i4",
    "frame_target": "<i4",
    "time_source": "<f8",
    "time_target": "<f8",
    "lead": "<i4",
    "split": "|i1",
}
Indices = Sequence[int] | np.ndarray


def is_pairs(path: str | Path) -> bool:
    return kind_of(Path(path)) == KIND


def open_pairs(path: str | Path, share: float = 1.0) -> PairStore:
    """Open a pair store and load its readings into memory, 8 bytes a reading.

    Parameters
    ----------
    path : str or Path
        Of a store that `frame_pairs`, `observe` or `write_pairs` wrote.
    share : float
        Of the training trajectories, the first; to see what would be learned from less. Default 1.

    Returns
    -------
    PairStore

    Raises
    ------
    SolidError
        If there is no pair store, or it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from solidfield.pairs.writing import Example, write_pairs
    >>> one = Example(np.array([0]), np.array([1.5]), np.array([3]), np.array([2.5]), 1, "train", 0.0, 1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_pairs(f"{folder}/pairs", Grid((2, 2)), ["u"], [one])
    ...     open_pairs(f"{folder}/pairs").variables
    ('u',)
    """
    store = PairStore(Path(path), share)
    store.load()
    return store


class PairStore:
    """Sparse pairs, in memory from the first use on (dense fields of a leaking store only if asked for).

    Parameters
    ----------
    path : Path
        Of the store; `open_pairs` takes a string, too, and loads the readings at once.
    share : float
        Of the training trajectories, the first. Default 1.

    Examples
    --------
    >>> import tempfile
    >>> from solidfield.pairs.writing import Example, write_pairs
    >>> one = Example(np.array([0]), np.array([1.5]), np.array([3]), np.array([2.5]), 1, "train", 0.0, 1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = write_pairs(f"{folder}/pairs", Grid((2, 2)), ["u"], [one])
    ...     len(store), store.split("train"), store.batch([0]).source.mask.sum().item()
    (1, array([0]), 1)
    """

    def __init__(
        self,
        path: Path,
        share: float = 1.0,  # of the training trajectories, the first: what would be learned from less?
    ):
        self.path, self.share = path, share
        self.attributes = read_label(path, KIND, VERSION)
        try:
            domain = self._array("domain") if "domain" in self.attributes["checksums"] else None
            self.grid = Grid.from_dict(self.attributes["grid"], domain)
            self.variables: tuple[str, ...] = tuple(self.attributes["variables"])
            self.units: tuple[str, ...] = tuple(self.attributes["units"])
            self.shifts: tuple[int, int] = (self.attributes["shifts"][0], self.attributes["shifts"][1])
            self.leads: tuple[int, ...] = tuple(self.attributes["leads"])
            self.step: float = self.attributes["step"]  # time between source and target at lead 1
            self.obs_std: float = self.attributes["obs_std"]
            self.leaks: bool = self.attributes["leaks"]
            self.examples: int = self.attributes["examples"]
            self.transforms: tuple[str, ...] = tuple(self.attributes.get("transforms", ("none",) * len(self.variables)))
            self.offsets: tuple[float, ...] = tuple(self.attributes.get("offsets", (0.0,) * len(self.variables)))
            self.epoch: str | None = self.attributes.get("epoch")  # None: times are a simulation's own
            self.recipe: dict[str, Any] | None = self.attributes.get("recipe")  # of the covariates
            self.window: int = self.attributes.get("window", 1)  # frames that an example knows
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise SolidError(f"{path} is damaged (its attributes: {error!r}); write it anew") from None

    def __len__(self) -> int:
        return self.examples

    def readings(self) -> int:
        """How many values the store holds, sources and targets together."""
        return sum(self.attributes["readings"].values())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the metadata, which holds the checksum of every array."""
        whole = hashlib.sha256(json.dumps(self.attributes, sort_keys=True).encode()).hexdigest()
        return whole if self.share == 1 else hashlib.sha256(f"{whole}, first {self.share:g}".encode()).hexdigest()

    def spec(self) -> Spec:
        """What a model must know to be built for these pairs."""
        covariates = sum(self.attributes.get("covariates", ()))
        return Spec(self.grid, len(self.variables), covariates, self.shifts, self.window)

    @cached_property
    def held(self) -> dict[str, np.ndarray]:  # name -> (H, W) bool, of HELD
        """Cells that no source and no training example has ever seen."""
        stored = [name for name in (*HELD, *FORMER) if name in self.attributes["checksums"]]
        return {FORMER.get(name, name): self._array(name) for name in stored}

    @cached_property
    def channels(self) -> Channels | None:
        """What the examples know at every cell; None where they know nothing but readings."""
        if self.recipe is None:
            return None
        frames = int(max(self.columns["frame_source"].max(), self.columns["frame_target"].max())) + 1
        return Channels.read(self.path, self.recipe, self.attributes["checksums"], frames, self.grid.shape)

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:  # each (E,)
        """What is known of each example; `split` holds positions in SPLITS."""
        return {name: self._array(name) for name in COLUMNS}

    @cached_property
    def _ragged(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:  # side -> offsets, cells, values
        return {
            side: (self._array(f"{side}_offsets"), self._array(f"{side}_cells"), self._array(f"{side}_values"))
            for side in SIDES
        }

    @cached_property
    def _lists(self) -> np.ndarray:  # (E, W) of sources: an example's own, then those before it; -1: nothing was read
        if self.window == 1:
            return np.arange(len(self))[:, None]
        stride = self.attributes["stride"]
        return earlier_lists(self.columns, self._array(SOURCE_LIST), self.window, stride)

    @cached_property
    def _dense(self) -> np.ndarray:  # (E, C, H, W)
        return self._array("oracle_dense")

    def _array(self, name: str) -> np.ndarray:
        return load(self.path, name, self.attributes["checksums"][name])

    def load(self) -> None:
        """Bring readings and columns into memory and check them against their checksums."""
        _ = self.columns, self._ragged, self._lists, self.channels

    def split(self, name: str) -> np.ndarray:  # (n,) indices of examples
        if name not in SPLITS:
            raise SolidError(f"unknown split '{name}'; the splits are {', '.join(SPLITS)}")
        indices = np.flatnonzero(self.columns["split"] == SPLITS.index(name))
        if len(indices) == 0:
            raise SolidError(f"split '{name}' of {self.path} is empty; observe with a larger share or more frames")
        if name != "train" or self.share == 1:
            return indices
        trajectory = self.columns["trajectory"][indices]
        every = np.unique(trajectory)
        return indices[trajectory <= every[max(1, round(self.share * len(every))) - 1]]

    def first(self, share: float) -> PairStore:
        """The same pairs with the first share of the training trajectories."""
        return self if share == self.share else open_pairs(self.path, share)

    def readings_of(
        self, side: str, indices: Indices, back: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (N,) row in the batch, flat cell in (C, H, W), value
        """The readings of some examples on one side, `source` or `target`; of a source so many steps back."""
        chosen = np.asarray(indices, dtype=np.int64)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(self)):
            raise SolidError(f"example {chosen.max()} is not among the {len(self)} of {self.path}; count from 0")
        offsets, cells, values = self._ragged[side]
        lists = chosen if side == "target" else self._lists[chosen, back]
        there = np.flatnonzero(lists >= 0)
        rows, where = positions(offsets, lists[there])
        return there[rows], cells[where], values[where]

    def of_sources(self, indices: Indices, count: int) -> list[np.ndarray]:
        """Some of these examples, about `count`, in groups that share a source: its leads."""
        chosen = np.asarray(indices, dtype=np.int64)
        _, first, group = np.unique(self._lists[chosen, 0], return_index=True, return_inverse=True)
        wanted = evenly(np.arange(len(first)), max(1, count * len(first) // len(chosen)))
        return [chosen[group == one] for one in wanted]

    def followed(self, indices: Indices) -> tuple[np.ndarray, np.ndarray]:  # two of (n,)
        """The forecasts among these examples that end in the frame where another begins, and those others."""
        trajectory, start, end, lead = (
            self.columns[name][np.asarray(indices, dtype=np.int64)]
            for name in ("trajectory", "frame_source", "frame_target", "lead")
        )
        begins = dict(zip(zip(trajectory, start, lead, strict=True), indices, strict=True))
        ends = zip(zip(trajectory, end, lead, strict=True), indices, strict=True)
        found = [(index, begins[key]) for key, index in ends if key in begins and key[-1] > 0]
        earlier, later = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return earlier, later

    def crop(
        self,
        indices: Indices,
        corner: np.ndarray,  # (B, 2) row and column where each begins; beyond an edge nothing was read
        shape: tuple[int, int],  # of the crops
    ) -> Pair:
        """Parts of examples without their windows, as tensors; an axis that wraps goes on across its seam."""
        rows = np.asarray(indices, dtype=np.int64)
        lead, start, end = (self.columns[name][rows] for name in ("lead", "frame_source", "frame_target"))
        source, target = (self._scatter(side, indices, 0, (corner, shape)) for side in SIDES)
        known = None if self.channels is None else self.channels.crop(start, end, corner, shape, self.grid.periodic)
        return Pair(Source(*source, torch.from_numpy(lead.astype(np.float32)), known), Target(*target))

    def batch(self, indices: Indices) -> Pair:
        """Examples as tensors, physical units, exact zeros off the masks."""
        source_values, source_mask = self._scatter("source", indices)
        chosen = {name: column[np.asarray(indices, dtype=np.int64)] for name, column in self.columns.items()}
        lead = torch.from_numpy(chosen["lead"].astype(np.float32))
        known = None if self.channels is None else self.channels.at(chosen["frame_source"], chosen["frame_target"])
        window = None
        if self.window > 1:
            earlier = [self._scatter("source", indices, back) for back in range(1, self.window)]
            window = Window(*(torch.stack(part, 1) for part in zip(*earlier, strict=True)))
        source = Source(source_values, source_mask, lead, known, window)
        return Pair(source, Target(*self._scatter("target", indices)))

    def _scatter(
        self, side: str, indices: Indices, back: int = 0, part: tuple[np.ndarray, tuple[int, int]] | None = None
    ) -> tuple[Tensor, Tensor]:  # (B, C, H, W) twice
        rows, cells, readings = self.readings_of(side, indices, back)
        shape = (len(indices), len(self.variables), *(self.grid.shape if part is None else part[1]))
        values, mask = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
        flat = rows * (len(self.variables) * self.grid.cells) + cells
        if part is not None:
            channel, *place = np.unravel_index(cells, (len(self.variables), *self.grid.shape))
            there = np.ones(len(cells), dtype=bool)
            for axis, (length, wraps) in enumerate(zip(self.grid.shape, self.grid.periodic, strict=True)):
                place[axis] = place[axis] - part[0][rows, axis]
                place[axis] = place[axis] % length if wraps else place[axis]
                there &= (place[axis] >= 0) & (place[axis] < shape[2 + axis])
            where = (rows, channel, *place)
            flat = np.ravel_multi_index([x[there] for x in where], shape)
            readings = readings[there]
        values.reshape(-1)[flat] = readings
        mask.reshape(-1)[flat] = True
        return torch.from_numpy(values), torch.from_numpy(mask)

    def oracle_batch(self, indices: Indices) -> OraclePair:
        """Examples with their dense targets; leaking, and only where the store was made so."""
        if not self.leaks:
            raise SolidError(f"{self.path} holds readings only; to run a model as oracle, observe again with oracle on")
        return OraclePair(self.batch(indices), torch.from_numpy(self._dense[np.asarray(indices, dtype=np.int64)]))

    def supervised(self) -> np.ndarray:  # (C, H, W) bool
        """Cells whose value some training example teaches: its targets, and its own sources at lead 0."""
        train = self.split("train")
        seen = np.zeros((len(self.variables), *self.grid.shape), dtype=bool)
        seen.reshape(-1)[self.readings_of("target", train)[1]] = True
        seen.reshape(-1)[self.readings_of("source", train[self.columns["lead"][train] == 0])[1]] = True
        return seen
