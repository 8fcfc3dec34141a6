"""Examples written as a pair store (`store.py`): ragged lists that grow as examples come, at constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ..errors import SolidError
from ..grid import Grid
from .channels import Channels
from .ragged import Growing, appearing, label
from .store import COLUMNS, KIND, SIDES, SPLITS, VERSION, PairStore
from .windows import SOURCE_LIST


@dataclass(frozen=True)
class Example:
    """One source and one target as lists of readings."""

    source_cells: np.ndarray  # (n,) flat index into (C, H, W)
    source_values: np.ndarray  # (n,)
    target_cells: np.ndarray  # (m,)
    target_values: np.ndarray  # (m,)
    lead: int
    split: str  # one of SPLITS
    time_source: float
    time_target: float
    trajectory: int = 0
    frame_source: int = 0
    frame_target: int = 0
    dense: np.ndarray | None = None  # (C, H, W), simulated truth at the target time, in leaking stores only


def write_pairs(
    path: str | Path,
    grid: Grid,
    variables: Sequence[str],
    examples: Iterable[Example],
    units: Sequence[str] | None = None,  # (C,)
    step: float = 0.0,  # time between source and target at lead 1
    shifts: tuple[int, int] = (0, 0),
    obs_std: float = 0.0,
    scenario: dict[str, Any] | None = None,
    world: dict[str, Any] | None = None,
    leaks: bool = False,
    transforms: Sequence[str] | None = None,  # (C,) "none" or "log", for the scaling; None: none
    offsets: Sequence[float] | None = None,  # (C,) of the logarithms
    epoch: str | None = None,  # the zero of times that are instants; None: a simulation's own clock
    clock: Mapping[str, Any] | None = None,  # how readings fell into frames, for new ones
    held: Mapping[str, np.ndarray] | None = None,  # of HELD
    channels: Channels | None = None,
    window: int = 1,
    stride: int = 1,  # frames in a step
) -> PairStore:
    """Write examples at constant memory as they come; the store appears under its name only when complete.

    An example without any reading on one of its sides is dropped and counted. Most users call `frame_pairs` (readings)
    or `observe` (simulated truth), which call this.

    Parameters
    ----------
    path : str or Path
        Where; a pair store that is there is replaced, anything else refused.
    grid : Grid
        The cells.
    variables : sequence of str
        (C,) names.
    examples : iterable of Example
        Sources and targets as lists of readings.
    units : sequence of str, optional
        (C,) of the variables.
    step : float
        Time between source and target at lead 1: seconds, or a simulation's own.
    shifts : tuple of int
        Cells along (y, x) after which the world repeats itself; 0: it does not.
    obs_std : float
        Standard deviation of an error of reading, physical units.
    scenario, world : dict, optional
        How it was measured and simulated, kept as they are.
    leaks : bool
        Examples hold dense truth, for a model run as oracle.
    transforms, offsets : sequence, optional
        (C,) "none" or "log", and the offsets of the logarithms, for the scaling.
    epoch : str, optional
        The zero of times that are instants. Default: a simulation's own clock.
    clock : dict, optional
        How readings fell into frames, for new ones.
    held : dict of arrays, optional
        (H, W) bool: `held_sensors`, `held_blocks`, `calibration_cells`.
    channels : Channels, optional
        What is known at every cell.
    window : int
        Frames that an example knows: its source, and the sources of its trajectory before it, `stride` frames apart.
    stride : int
        Frames in a step.

    Returns
    -------
    PairStore

    Raises
    ------
    SolidError
        If no example has both sides, or a reading is not finite, off the grid or given twice.

    Examples
    --------
    >>> import tempfile
    >>> one = Example(np.array([0]), np.array([1.5]), np.array([3]), np.array([2.5]), 1, "train", 0.0, 1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_pairs(f"{folder}/pairs", Grid((2, 2)), ["u"], [one]).batch([0]).target.values[0, 0]
    tensor([[0.0000, 0.0000],
            [0.0000, 2.5000]])
    """
    path = Path(path)
    with appearing(path, KIND) as group:
        masks = {name: mask for name, mask in {"domain": grid.domain, **(held or {})}.items() if mask is not None}
        counts, checksums = _write_arrays(group, (len(variables), *grid.shape), masks, examples, leaks, window > 1)
        if channels is not None:
            checksums |= channels.write(group)
        attributes = {
            "grid": grid.as_dict(),
            "variables": list(variables),
            "units": list(units) if units is not None else [""] * len(variables),
            "shifts": list(shifts),
            "step": step,
            "obs_std": obs_std,
            "scenario": scenario or {},
            "world": world or {},
            "leaks": leaks,
        }
        if transforms is not None:
            attributes |= {"transforms": list(transforms), "offsets": list(offsets or [0.0] * len(variables))}
        if epoch is not None:
            attributes |= {"epoch": epoch, "clock": dict(clock or {})}
        if channels is not None:
            attributes |= {"recipe": channels.recipe, "covariates": list(channels.counts)}
        if window > 1:
            attributes |= {"window": window, "stride": stride}
        label(group, KIND, VERSION, attributes | counts | {"checksums": checksums})
    return PairStore(path)


def _write_arrays(
    group: zarr.Group,
    shape: tuple[int, int, int],  # (C, H, W)
    masks: Mapping[str, np.ndarray],  # domain and held cells: (H, W) bool
    examples: Iterable[Example],
    leaks: bool,
    shared: bool,  # examples of one frame share their source
) -> tuple[dict[str, Any], dict[str, str]]:  # counts, checksums
    arrays = {name: Growing(group, name, dtype) for name, dtype in COLUMNS.items()}
    for side in SIDES:
        for part, dtype in (("offsets", "<i8"), ("cells", "<i4"), ("values", "<f4")):
            arrays[f"{side}_{part}"] = Growing(group, f"{side}_{part}", dtype)
        arrays[f"{side}_offsets"].add([0])
    if leaks:
        arrays["oracle_dense"] = Growing(group, "oracle_dense", "<f4", shape)
    if shared:
        arrays[SOURCE_LIST] = Growing(group, SOURCE_LIST, "<i4")
    for name, mask in masks.items():
        arrays[name] = Growing(group, name, "|b1", mask.shape[1:])
        arrays[name].add(mask)

    dropped, leads, per_split = 0, set(), dict.fromkeys(SPLITS, 0)
    frame: tuple[int, int] | None = None  # whose source was written last
    for example in examples:
        if len(example.source_cells) == 0 or len(example.target_cells) == 0:
            dropped += 1
            continue
        known = shared and frame == (example.trajectory, example.frame_source)
        frame = (example.trajectory, example.frame_source)
        for side in SIDES[known:]:
            cells, values = _in_order(
                getattr(example, f"{side}_cells"), getattr(example, f"{side}_values"), shape, side
            )
            arrays[f"{side}_cells"].add(cells)
            arrays[f"{side}_values"].add(values)
            arrays[f"{side}_offsets"].add([arrays[f"{side}_cells"].length])
        if shared:
            arrays[SOURCE_LIST].add([arrays["source_offsets"].length - 2])
        for name in COLUMNS:
            arrays[name].add([SPLITS.index(example.split) if name == "split" else getattr(example, name)])
        if leaks:
            arrays["oracle_dense"].add(np.asarray(example.dense)[None])
        leads.add(int(example.lead))
        per_split[example.split] += 1
    if not leads:
        raise SolidError(
            f"none of {dropped} examples has both a source and a target reading, nothing was written; "
            "check the data for missing values or measure more cells"
        )
    for array in arrays.values():
        array.flush(everything=True)
    counts = {
        "leads": sorted(leads),
        "examples": arrays["lead"].length,
        "splits": per_split,
        "dropped": dropped,
        "readings": {side: arrays[f"{side}_cells"].length for side in SIDES},
    }
    return counts, {name: array.checksum.hexdigest() for name, array in arrays.items()}


def _in_order(
    cells: np.ndarray,  # (n,)
    values: np.ndarray,  # (n,)
    shape: tuple[int, int, int],  # (C, H, W)
    side: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Readings by ascending cell, one a cell, each finite and inside the grid."""
    if np.any(cells[1:] <= cells[:-1]) and len(cells) == len(values):
        order = np.argsort(cells, kind="stable")
        cells, values = cells[order], values[order]
    if len(cells) != len(values) or cells[0] < 0 or cells[-1] >= np.prod(shape) or np.any(cells[1:] == cells[:-1]):
        raise SolidError(f"{side} readings must be one value per distinct cell of {shape}; check the cell indices")
    if not np.all(np.isfinite(values)):
        raise SolidError(f"{side} readings hold a value that is not finite; leave out cells that were not observed")
    return cells, values
