"""Where simulated truth and masks meet: dense fields in, a store of readings out.

`observe` takes a truth store and a scenario and writes sparse pairs (`pairs/store.py`); a value that no mask
selects is never copied. Training opens the pairs and nothing else.

Frames: lead L pairs the source frame f with the target frame f + 2 L. Even frames train, validate and test;
odd frames of the test trajectories are the split `between`, times that no training example has seen. A
window of W also shows the sources of frames f - 2, f - 4 ... f - 2 (W - 1), and a lead of -1 or less asks for
a frame between them. The masks of the global regime are one pair for all; of the instance regime, one for each
(trajectory, source frame), whatever the lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..engine import Progress
from ..errors import SolidError
from ..keys import numpy_generator
from ..pairs.store import PairStore
from ..pairs.writing import Example, write_pairs
from .scenarios import ScenarioLike, as_dict, scenario_masks
from .store import Truth

READ_BYTES = 2**26  # truth held in memory at a time


def observe(
    truth: Truth,
    path: str | Path,
    scenario: ScenarioLike,
    leads: Sequence[int] = (1,),
    validation: float = 0.05,  # shares of the trajectories
    test: float = 0.1,
    seed: int = 0,
    obs_std: float = 0.0,  # standard deviation of the readings' errors, physical units
    oracle: bool = False,
    units: Sequence[str] | None = None,  # (C,)
    progress: Progress | None = None,
    window: int = 1,
) -> PairStore:
    """Measure simulated truth as the scenario says and write the readings as sparse pairs, at constant memory.

    Parameters
    ----------
    truth : Truth
        An open truth store (`open_truth`).
    path : path
        Folder of the pairs; never written over.
    scenario : Scenario
        Where the masks lie (`scenario`).
    leads : sequence of int, default (1,)
        Steps ahead; a step is two frames. 0 reconstructs; with a window, -1 asks for the step before the last.
    validation, test : float, default 0.05 and 0.1
        Shares of the trajectories; the last ones test, those before them validate.
    seed : int, default 0
        Of masks and errors.
    obs_std : float, default 0
        Standard deviation of the readings' errors, in the unit of the field.
    oracle : bool, default False
        Also store dense targets, for a model that is labelled as leaking.
    units : sequence of str, optional
        A unit for each variable.
    progress : callable, optional
        Called as `progress(what, done, total)`, with numbers of trajectories.
    window : int, default 1
        Frames that an example knows: the source and those before it, each with its own sensors. They are stored once.

    Returns
    -------
    PairStore
        The pairs, open for reading; no unobserved value is in them.

    Raises
    ------
    SolidError
        If a lead is longer than the record, the shares leave nothing to train, or the folder exists.

    Examples
    --------
    >>> from solidfield import gaussian_world, scenario, write_truth
    >>> truth = write_truth(gaussian_world(cells=16, frames=5), "truth.zarr", trajectories=20)
    >>> store = observe(truth, "pairs.zarr", scenario("random-10-instance"), leads=(0, 1))
    >>> len(store.split("train")), len(store.split("test"))  # 17 and 2 trajectories; 3 + 2 examples of each
    (85, 10)
    """
    leads = tuple(sorted(set(leads)))
    if window < 1:
        raise SolidError(f"window {window} is a number of frames; give 1 or more")
    if not leads or leads[0] <= -window:
        raise SolidError(
            f"leads {leads} must be one or more whole numbers from {1 - window}; widen the window for earlier ones"
        )
    if len(truth.times) <= 2 * leads[-1]:
        raise SolidError(
            f"lead {leads[-1]} needs {2 * leads[-1] + 1} frames or more, the truth holds {len(truth.times)}; "
            "simulate more frames or take a smaller lead"
        )
    if obs_std < 0:
        raise SolidError(f"obs_std {obs_std:g} is a standard deviation; give 0 or more")
    splits = _splits(truth.count, validation, test)
    return write_pairs(
        path,
        truth.grid,
        truth.variables,
        _measured(truth, scenario, leads, splits, int(seed), obs_std, oracle, progress),
        units=units,
        step=float(2 * (truth.times[1] - truth.times[0])) if len(truth.times) > 1 else 0.0,
        shifts=truth.shifts,
        obs_std=obs_std,
        scenario={**as_dict(scenario), "seed": int(seed)},
        world=truth.world,
        leaks=oracle,
        window=window,
        stride=2,
    )


def _splits(count: int, validation: float, test: float) -> list[str]:  # one per trajectory
    """The last trajectories test, those before them validate, the rest train; no share above 0 is empty."""
    tests, validations = (max(1, round(share * count)) if share > 0 else 0 for share in (test, validation))
    trains = count - validations - tests
    if trains < 1:
        raise SolidError(
            f"{count} trajectories leave none to train beside {validations} to validate and {tests} to test; "
            "simulate more or lower the shares"
        )
    return ["train"] * trains + ["validation"] * validations + ["test"] * tests


def _measured(
    truth: Truth,
    scenario: ScenarioLike,
    leads: Sequence[int],
    splits: Sequence[str],
    seed: int,
    obs_std: float,
    oracle: bool,
    progress: Progress | None,
) -> Iterator[Example]:
    frames, channels, grid = len(truth.times), len(truth.variables), truth.grid
    at_once = max(1, READ_BYTES // (4 * frames * channels * grid.cells))
    masks = partial(scenario_masks, **as_dict(scenario), shape=grid.shape, seed=seed, domain=grid.domain)
    common = masks(index=0) if scenario.regime == "global" else None

    for start in range(0, truth.count, at_once):
        trajectories = list(range(start, min(start + at_once, truth.count)))
        for trajectory, fields in zip(trajectories, truth.read(trajectories), strict=True):
            for frame in range(frames):
                if frame % 2 and splits[trajectory] != "test":
                    continue
                index = trajectory * frames + frame  # of (trajectory, frame) alone, so all leads share their masks
                m_i, m_o = common or masks(index=index)
                for lead in leads:
                    ahead = frame + 2 * lead
                    if not 0 <= ahead < frames:
                        continue
                    yield Example(
                        *_readings(fields[frame], m_i, obs_std, (seed, "noise", trajectory, frame)),
                        *_readings(fields[ahead], m_o, obs_std, (seed, "noise", trajectory, ahead)),
                        lead=lead,
                        split="between" if frame % 2 else splits[trajectory],
                        time_source=float(truth.times[frame]),
                        time_target=float(truth.times[ahead]),
                        trajectory=trajectory,
                        frame_source=frame,
                        frame_target=ahead,
                        dense=fields[ahead] if oracle else None,
                    )
            if progress is not None:
                progress("observing trajectories", trajectory + 1, truth.count)


def _readings(
    field: np.ndarray,  # (C, H, W)
    mask: np.ndarray,  # (H, W) bool
    obs_std: float,
    noise_key: tuple[int | str, ...],
) -> tuple[np.ndarray, np.ndarray]:  # cells (n,), values (n,)
    """The values that the mask selects; one that is not finite was not observed."""
    cells = (np.arange(len(field))[:, None] * mask.size + np.flatnonzero(mask)).ravel()
    values = field.reshape(-1)[cells]
    if obs_std > 0:
        # Noise is drawn for the whole frame, so a reading has one error in whatever example it appears.
        noise = numpy_generator(*noise_key).standard_normal(field.size, dtype=np.float32)
        values = values + np.float32(obs_std) * noise[cells]
    seen = np.isfinite(values)
    return cells[seen], values[seen]
