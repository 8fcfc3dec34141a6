"""Validation: the fair CRPS of the averaged weights at the observed targets of held-out examples.

Examples and members are the same at every validation of a run, so that a difference between two of them is
the weights' and not the draw's. Values are standardised: the score is in standard deviations of each
variable, and variables of different units can share it.
"""

from __future__ import annotations

import numpy as np
import torch

from ..config import TrainConfig
from ..errors import SolidError
from ..forecast import Forecaster
from ..keys import key, numpy_generator
from ..noise import MemberNoise
from ..pairs.scaling import Scaling
from ..pairs.store import PairStore
from ..scores.metrics import crps
from .crops import standard_crops


def validation_examples(store: PairStore, config: TrainConfig) -> np.ndarray | None:  # (V,) indices
    """At most `validation_examples` of the validation split; None where the store has none."""
    if store.attributes["splits"]["validation"] == 0:
        return None
    held_out = store.split("validation")
    order = numpy_generator(config.seed, "validation").permutation(len(held_out))
    return np.sort(held_out[order[: config.validation_examples]])


@torch.no_grad()
def total_crps(
    model: Forecaster,
    store: PairStore,
    scaling: Scaling,
    examples: np.ndarray,  # (V,)
    config: TrainConfig,
    device: torch.device | str = "cpu",
) -> float:
    """The sum over examples of their mean CRPS, so that the shares of several processes can be added."""
    members = config.validation_members if model.stochastic else 1
    at_once = max(1, config.batch // members)  # as many fields in memory as a training batch has
    seed = key(config.seed, "validation")
    total = 0.0
    for start in range(0, len(examples), at_once):
        chosen = examples[start : start + at_once]
        pair = standard_crops(store, scaling, chosen) if model.crops else scaling.standardise(store.batch(chosen))
        pair = pair.to(device)
        noise = MemberNoise(seed, chosen.tolist(), range(members), device)
        ensemble = model.sample_few(pair.source, members, noise)
        if not torch.isfinite(ensemble).all():
            raise SolidError(
                "the model draws values that are not finite at validation; train again with a lower train.lr"
            )
        total += float(crps(ensemble.float(), pair.target.values, pair.target.mask)) * len(chosen)
    return total
