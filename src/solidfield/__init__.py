"""solidfield: dense maps and forecasts, with uncertainty that can be trusted, from sparse moving sensors alone.

The public names, in the order of the data's way; everything else is an implementation that may change. A name is
imported when it is first asked for (PEP 562), so that `import solidfield` costs nothing and only what draws or learns
waits for torch.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors: the same names as in _HOMES, which a test compares
    from .config import load_config as load_config
    from .errors import SolidError as SolidError
    from .fields import Pair as Pair
    from .fields import Source as Source
    from .fields import Target as Target
    from .fit import fit as fit
    from .forecast import Forecaster as Forecaster
    from .forecast import Spec as Spec
    from .grid import Grid as Grid
    from .models import MODELS as MODELS
    from .models import build as build
    from .pairs.covariates import Covariates as Covariates
    from .pairs.holdout import Holdout as Holdout
    from .pairs.pairing import frame_pairs as frame_pairs
    from .pairs.scaling import Scaling as Scaling
    from .pairs.store import PairStore as PairStore
    from .pairs.store import open_pairs as open_pairs
    from .pairs.writing import write_pairs as write_pairs
    from .prediction.ask import area_mean as area_mean
    from .prediction.ask import at as at
    from .prediction.ask import exceedance as exceedance
    from .prediction.ensemble import draw as draw
    from .prediction.ensemble import rollout as rollout
    from .prediction.export import export as export
    from .prediction.maps import open_maps as open_maps
    from .prediction.maps import save_maps as save_maps
    from .prediction.over_time import over_time as over_time
    from .prediction.predict import predict_examples as predict_examples
    from .quality.ranking import quality as quality
    from .readings.intake import check as check
    from .readings.intake import grid as grid
    from .readings.intake import read_frames as read_frames
    from .report.maps import evaluate as evaluate
    from .run import Run as Run
    from .run import load as load
    from .scores.calibration import coverage as coverage
    from .scores.calibration import rank_histogram as rank_histogram
    from .scores.calibration import spread_skill as spread_skill
    from .scores.metrics import crps as crps
    from .scores.metrics import energy_score as energy_score
    from .scores.metrics import mae as mae
    from .scores.metrics import mse as mse
    from .training.loop import train as train
    from .worlds import gaussian_world as gaussian_world
    from .worlds import open_truth as open_truth
    from .worlds import simulate_navier_stokes as simulate_navier_stokes
    from .worlds import write_truth as write_truth
    from .worlds.observe import observe as observe
    from .worlds.scenarios import PAPER_SCENARIOS as PAPER_SCENARIOS
    from .worlds.scenarios import scenario as scenario
    from .worlds.scenarios import scenario_masks as scenario_masks

_HOMES = {  # public names by the module that holds them
    "config": ["load_config"],
    "errors": ["SolidError"],
    "fields": ["Pair", "Source", "Target"],
    "fit": ["fit"],
    "forecast": ["Forecaster", "Spec"],
    "grid": ["Grid"],
    "models": ["MODELS", "build"],
    "pairs.covariates": ["Covariates"],
    "pairs.pairing": ["frame_pairs"],
    "pairs.holdout": ["Holdout"],
    "pairs.scaling": ["Scaling"],
    "pairs.store": ["PairStore", "open_pairs"],
    "pairs.writing": ["write_pairs"],
    "prediction.ask": ["area_mean", "at", "exceedance"],
    "prediction.over_time": ["over_time"],
    "prediction.ensemble": ["draw", "rollout"],
    "prediction.export": ["export"],
    "prediction.maps": ["open_maps", "save_maps"],
    "prediction.predict": ["predict_examples"],
    "quality.ranking": ["quality"],
    "readings.intake": ["check", "grid", "read_frames"],
    "report.maps": ["evaluate"],
    "run": ["Run", "load"],
    "scores.calibration": ["coverage", "rank_histogram", "spread_skill"],
    "scores.metrics": ["crps", "energy_score", "mae", "mse"],
    "training.loop": ["train"],
    "worlds": ["gaussian_world", "open_truth", "simulate_navier_stokes", "write_truth"],
    "worlds.observe": ["observe"],
    "worlds.scenarios": ["PAPER_SCENARIOS", "scenario", "scenario_masks"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version(__name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))


class _Package(ModuleType):
    """Python binds an imported file to its package: the file `fit.py` would hide the public function `fit`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOME or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
