"""The data of the cells in the work folder: truth once a scale, pairs once a scenario, whoever comes first makes them.

Two processes that need the same thing wait for one another (a lock that the system releases when its holder dies).
The truth is opened here, to measure it and to judge, and is given to no model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...engine import Progress
from ...errors import SolidError
from ...pairs.store import PairStore, open_pairs
from ...worlds import Truth, open_truth, write_truth
from ...worlds.observe import observe
from ..trainer import alone
from .cell import Setting, measured


def truth_of(cell: Setting, work: Path, progress: Progress | None = None) -> Truth:
    """The scale's truth; a finished store that is there is used, one that was begun is finished."""
    path = work / cell.scale.name / "truth.zarr"
    with alone(path.with_name("truth.lock")):
        write_truth(cell.scale.world, path, cell.scale.trajectories, progress=progress)
    return open_truth(path)


def pairs_of(cell: Setting, truth: Truth, work: Path, progress: Progress | None = None) -> PairStore:
    """The readings of the cell's scenario; with dense targets beside them only for a cell that leaks."""
    window = f"-window{cell.window}-to{cell.leads[-1]}" if cell.window > 1 else ""
    name = measured(cell.scenario) + ("-oracle" if cell.leaks else "") + window
    path = work / cell.scale.name / "pairs" / f"{name}.zarr"
    with alone(path.with_name(f"{name}.lock")):
        if not path.exists():
            observe(
                truth,
                path,
                cell.scenario,
                leads=cell.leads,
                window=cell.window,
                validation=cell.scale.validation,
                test=cell.scale.test,
                oracle=cell.leaks,
                progress=progress,
            )
    return open_pairs(path)


def scenes(store: PairStore, split: str, count: int, last_frame: int) -> np.ndarray:  # (count,) indices
    """One example of each test trajectory, at varied times not after `last_frame`, with a whole window if it can be."""
    indices = store.split(split)
    frame, lead = (store.columns[name][indices] for name in ("frame_source", "lead"))
    indices = indices[(lead == 1) & (frame >= min(2 * (store.window - 1), last_frame)) & (frame <= last_frame)]
    trajectory = store.columns["trajectory"][indices]
    groups = [indices[trajectory == number] for number in np.unique(trajectory)]
    if len(groups) < count:
        raise SolidError(f"{store.path} has {len(groups)} test trajectories for {count} scenes; observe a larger share")
    return np.array([group[7 * n % len(group)] for n, group in enumerate(groups[:count])])
