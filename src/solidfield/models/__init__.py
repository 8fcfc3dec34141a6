"""The list of models. Each is one file that holds only what is its own; families share their training.

`build` is the only way a name becomes a model: sizes (`smoke`, `laptop`, `paper`) are the model's own table of
options, anything else given overrides them, and an unknown option is an error that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import SolidError
from ..forecast import Forecaster, Spec
from .classical import Climatology, InverseDistance, Nearest, Persistence, RadialBasis
from .ddo import DDO
from .ffno import FFNO
from .infty_diff import InftyDiff
from .inr_gan import INRGAN
from .kriging import Kriging
from .oformer import OFormer
from .omnifield import OmniField
from .scent import Scent
from .solid import Solid
from .solid_onepass import SolidOnepass
from .solid_paper import SolidPaper
from .stylegan3 import StyleGAN3
from .unet import UNet
from .unet_mixture import UNetMixture

OURS = (Solid, SolidPaper, SolidOnepass)
THE_NINE = (UNet, FFNO, OFormer, OmniField, Scent, StyleGAN3, INRGAN, InftyDiff, DDO)  # in the order of the paper
MODERN = (UNetMixture,)
SIMPLE = (Kriging, RadialBasis, InverseDistance, Nearest, Persistence, Climatology)

# Every model by name: class attributes say its family, reference and sizes; `build` makes one.
MODELS: dict[str, type[Forecaster]] = {model.name: model for model in (*OURS, *THE_NINE, *MODERN, *SIMPLE)}

SIZES = ("smoke", "laptop", "paper", "paper-large")


def model_class(name: str) -> type[Forecaster]:
    if name not in MODELS:
        raise SolidError(f"unknown model '{name}'; choose one of {', '.join(MODELS)} (see `solid models`)")
    return MODELS[name]


def build(name: str, spec: Spec, options: dict[str, Any] | None = None) -> Forecaster:
    """Make a model by name for this grid and these variables.

    Parameters
    ----------
    name : str
        One of `MODELS`, such as "solid", "unet" or "kriging".
    spec : Spec
        The data it is made for; `PairStore.spec()` gives it.
    options : dict, optional
        `size` ("smoke", "laptop", "paper"; default "laptop") picks a row of the model's size table; all others are the
        model's own and override that row.

    Returns
    -------
    Forecaster
        With random weights, from torch's generator; untrained.

    Raises
    ------
    SolidError
        If the model, its size or an option is unknown; the known ones are named.

    Examples
    --------
    >>> from solidfield.grid import Grid
    >>> build("unet", Spec(Grid((16, 16))), {"size": "smoke", "mask_channel": True}).label()
    'unet, mask channel on'
    """
    model, size, chosen = check_options(name, options or {})
    return model(spec, **(model.SIZES[size] | chosen))


def check_options(name: str, options: Mapping[str, Any]) -> tuple[type[Forecaster], str, dict[str, Any]]:
    """The class of a model, its size and its other options; what it does not know is an error."""
    model, chosen = model_class(name), dict(options)
    size = chosen.pop("size", "laptop")
    if size not in model.SIZES:
        raise SolidError(f"model '{name}' has no size '{size}'; choose one of {', '.join(model.SIZES)}")
    known = [p for p in inspect.signature(model).parameters if p != "spec"]
    for option in chosen:
        if option not in known:
            raise SolidError(f"model '{name}' has no option '{option}'; it knows size, {', '.join(known)}")
    return model, size, chosen
