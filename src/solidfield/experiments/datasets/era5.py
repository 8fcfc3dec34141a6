"""ERA5: hourly 2 m temperature over the United Kingdom, March 2019, dense; measured here by few sensors.

In every hour 3 % of the cells, drawn anew, are read by sensors (S_t) and 3 % others are kept as targets (T_t): the
instance-specific random masks of the paper's simulations, on a real field. Training sees those readings and nothing
else; `dense_era5` is for the judge alone. Contains modified Copernicus Climate Change Service information 2019.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from ...errors import SolidError
from ...pairs.covariates import Covariates
from ...pairs.frames import Frames, as_frames
from ...pairs.holdout import Holdout
from ...pairs.masked import masked_pairs
from ...pairs.store import PairStore
from ...worlds.scenarios import scenario_masks
from .kolkata import find

PATTERN = "era5*.nc"
CREDIT = "Contains modified Copernicus Climate Change Service information 2019"


def dense_era5(folder: Path | str) -> Frames:
    """The whole field at every hour; only a judge may ask for it."""
    folder = Path(folder)
    here = find(folder, "era5", PATTERN)
    files = [folder] if folder.is_file() else sorted(here.glob(PATTERN))
    if len(files) != 1:
        raise SolidError(f"{folder} has {len(files)} files {PATTERN}, not one; name its folder with --data")
    try:
        with xr.open_dataset(files[0]) as data:
            return as_frames(data[["t2m"]].load())
    except (OSError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())[:120]
        raise SolidError(f"{files[0]} holds no t2m(time, latitude, longitude) ({text}); fetch it again") from None


def measured_era5(
    folder: Path | str,
    share: float = 0.03,  # of the cells, sensors and targets each
    seed: int = 0,
) -> tuple[Frames, np.ndarray, np.ndarray]:  # frames with NaN wherever nothing was read, S and T (T, H, W) bool
    """What the sensors read."""
    dense = dense_era5(folder)
    masks = [
        scenario_masks("random", 2 * share, "instance", dense.grid.shape, index, seed)
        for index in range(len(dense.times))
    ]
    source, target = (np.stack(side) for side in zip(*masks, strict=True))
    values = np.where((source | target)[:, None], dense.values, np.float32(np.nan))
    return replace(dense, values=values), source, target


def era5_pairs(folder: Path | str, path: Path | str, share: float = 0.03, seed: int = 0) -> PairStore:
    """Pairs of what was read; every fifth day tests. Readings of earlier hours are not given to any model: kriging
    could not use them, and with sensors drawn anew they would cover half of the map."""
    frames, source, target = measured_era5(folder, share, seed)
    about = {"share": share, "seed": seed}
    plain = Covariates(history=0.0)
    holdout = Holdout(timezone=frames.timezone)
    return masked_pairs(frames, path, source, target, leads=(0, 1), holdout=holdout, covariates=plain, scenario=about)
