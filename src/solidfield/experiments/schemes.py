"""The schemes that are compared: one network size, one budget, one data set, and what differs between them.

`solid-paper` is the strict reading of the paper (x_tau zero off M_o); `oracle` is its literal one and leaks. Both
see the same wrap-around, dropout, rolls and learning-rate schedule as `solid`, so that what is left is the scheme.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..engine import Progress
from ..fields import Source
from ..forecast import Fitted
from ..models import model_class
from ..pairs.store import PairStore
from ..prediction.ensemble import draw_members
from ..training.record import RunRecord
from .costs import sampling_cost
from .trainer import STANDING, trained


@dataclass(frozen=True)
class Scheme:
    name: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    lr: float = 2e-3
    settings: dict[str, Any] = field(default_factory=dict)  # of training, where they differ
    after: dict[str, float] = field(default_factory=dict)  # what training left behind, filled with a number

    @property
    def dear(self) -> bool:
        """Does every member cost many passes?"""
        return self.model == "solid-paper"

    @property
    def leaks(self) -> bool:
        return bool(self.options.get("oracle"))


DEAR_MEMBERS = 24  # 19 or more span a 90 % interval
# DPM-Solver++ with 20 steps is better calibrated than the paper's DDIM with 50, and affordable here.
PAPER = {"size": "laptop", "periodic": "auto", "coordinates": True, "sampler": "dpmpp", "steps": 20}
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("solid", "solid"),
        Scheme("solid-plain", "solid", {"prior": "none"}),
        Scheme("solid-diffusion", "solid", {"law": "diffusion"}),
        Scheme("solid-diffusion-gaussian", "solid", {"law": "diffusion", "law_options": {"components": 1}}),
        Scheme("solid-diffusion-paper", "solid", {"law": "diffusion", "law_options": {"weight": "paper"}}),
        Scheme("solid-diffusion-4", "solid", {"law": "diffusion", "law_options": {"levels": 4}}),
        Scheme("solid-independent", "solid", {"copula": "independent"}),
        Scheme("solid-stationary", "solid", {"copula": "stationary"}),
        Scheme("solid-no-coordinates", "solid", {"coordinates": False}),
        Scheme("solid-no-stretch", "solid", after={"stretch": 1.0}),
        Scheme("solid-no-dropout", "solid", {"dropout": 0.0}),
        Scheme("solid-no-thinning", "solid", settings={"thin": 0.0}),
        Scheme(
            "solid-bare", "solid", {"dropout": 0.0}, settings={"thin": 0.0, "validate_every": 10**6}
        ),  # nor stopping
        Scheme("solid-onepass", "solid-onepass", lr=1e-3),
        Scheme("solid-paper", "solid-paper", PAPER, lr=1e-3),
        Scheme("oracle", "solid-paper", PAPER | {"oracle": True}, lr=1e-3),
    )
}


def scheme(name: str) -> Scheme:
    """A scheme of ours, or a rival as it is, shown which readings are real where it leaves the choice."""
    if name in SCHEMES:
        return SCHEMES[name]
    options = {"mask_channel": True} if "mask_channel" in inspect.signature(model_class(name)).parameters else {}
    return Scheme(name, name, options, lr=1e-3)


def is_closed(name: str) -> bool:
    """Is the model fitted in closed form?"""
    return issubclass(model_class(scheme(name).model), Fitted)


def train_scheme(
    name: str, store: PairStore, folder: Path, minutes: float, seed: int, progress: Progress | None = None
) -> RunRecord:
    """Within a budget of CPU time, or the run that is already there."""
    chosen = scheme(name)
    settings: dict[str, Any] = {
        "minutes": minutes,
        "lr": chosen.lr,
        "validate_every": 500,
        "checkpoint_every": 500,
        "validation_examples": 16 if chosen.dear else 64,
        "validation_members": 4,
        "seed": seed,
    }
    config = TrainConfig(**(STANDING | settings | chosen.settings))
    run = trained(chosen.model, chosen.options, store, folder, config, progress, f"training {name}")
    for name, value in chosen.after.items():
        getattr(run.model, name).fill_(value)
    return run


def members_of(
    run: RunRecord, source: Source, members: int, seed: int, dear: bool = False
) -> np.ndarray:  # (K, N, C, H, W)
    """Of a dear scheme at most DEAR_MEMBERS: the scores are fair, so fewer only widens error bars."""
    members = min(members, DEAR_MEMBERS) if dear else members
    return draw_members(run.model, run.scaling, source, members, seed=seed)[:, :, 0]


def account(run: RunRecord, source: Source) -> dict[str, Any]:  # source in physical units
    """What a result cost, and whether it leaks."""
    return {
        "cost_of_100_members": sampling_cost(run.model, run.scaling.standardise(source)),
        "parameters": run.model.parameter_count(),
        "steps": run.info["history"]["steps"],
        "training_seconds": run.info["history"]["seconds"],
        "leaks": run.leaks,
    }
