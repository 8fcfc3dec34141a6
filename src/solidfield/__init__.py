"""solidfield: dense maps and forecasts, with uncertainty that can be trusted, from sparse moving sensors alone.

The public names, in the order of the data's way; everything else is an implementation that may change.
"""

from .config import load_config
from .errors import SolidError
from .fields import Pair, Source, Target
from .fit import fit
from .forecast import Forecaster, Spec
from .grid import Grid
from .models import MODELS, build
from .pairs.covariates import Covariates
from .pairs.frames import frame_pairs
from .pairs.holdout import Holdout
from .pairs.scaling import Scaling
from .pairs.store import PairStore, open_pairs, write_pairs
from .prediction.ask import area_mean, at, exceedance
from .prediction.ensemble import draw, rollout
from .prediction.maps import open_maps, save_maps
from .prediction.predict import Run, load, predict_examples
from .readings.intake import read_frames
from .report.truth import evaluate
from .scores.calibration import coverage, rank_histogram, spread_skill
from .scores.metrics import crps, energy_score, mae, mse
from .training.loop import train
from .worlds import gaussian_world, open_truth, simulate_navier_stokes, write_truth
from .worlds.observe import observe
from .worlds.scenarios import PAPER_SCENARIOS, scenario, scenario_masks

__all__ = [
    "MODELS",
    "PAPER_SCENARIOS",
    "Covariates",
    "Forecaster",
    "Grid",
    "Holdout",
    "Pair",
    "PairStore",
    "Run",
    "Scaling",
    "SolidError",
    "Source",
    "Spec",
    "Target",
    "area_mean",
    "at",
    "build",
    "coverage",
    "crps",
    "draw",
    "energy_score",
    "evaluate",
    "exceedance",
    "fit",
    "frame_pairs",
    "gaussian_world",
    "load",
    "load_config",
    "mae",
    "mse",
    "observe",
    "open_maps",
    "open_pairs",
    "open_truth",
    "predict_examples",
    "rank_histogram",
    "read_frames",
    "rollout",
    "save_maps",
    "scenario",
    "scenario_masks",
    "simulate_navier_stokes",
    "spread_skill",
    "train",
    "write_pairs",
    "write_truth",
]
