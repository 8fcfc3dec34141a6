"""solidfield: dense maps and forecasts, with uncertainty that can be trusted, from sparse moving sensors alone.

The public names, in the order of the data's way; everything else is an implementation that may change.
"""

from .ask import area_mean, at, exceedance
from .calibration import coverage, rank_histogram, spread_skill
from .config import load_config
from .covariates import Covariates
from .ensemble import draw, rollout
from .errors import SolidError
from .evaluate import evaluate
from .fields import Pair, Source, Target
from .fit import fit
from .forecast import Forecaster, Spec
from .frames import frame_pairs
from .grid import Grid
from .holdout import Holdout
from .intake import read_frames
from .maps import open_maps, save_maps
from .metrics import crps, energy_score, mae, mse
from .models import MODELS, build
from .pairs import PairStore, observe, open_pairs, write_pairs
from .predict import Run, load, predict_examples
from .scaling import Scaling
from .scenarios import PAPER_SCENARIOS, scenario, scenario_masks
from .train import train
from .worlds import gaussian_world, open_truth, simulate_navier_stokes, write_truth

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
