"""How examples become the arrays of a pair store: ragged lists that grow as examples come, at constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from ..errors import SolidError
from .ragged import Growing
from .windows import SOURCE_LIST

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


def write_arrays(
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
