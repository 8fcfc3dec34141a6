"""One contract for all models (`contract.py` states its laws): grids, sensors, gradients, strictness, members."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

import contract
from solidfield.forecast import Fitted, Forecaster
from solidfield.models import MODELS, MODERN, THE_NINE

TRAINED = [model for model in MODELS.values() if not issubclass(model, Fitted)]

# How a short training learns the easy world: steps, learning rate, options. `solid-paper` chains its passes, so that an
# error of one is met by the next: it is asked in blocks of cells and with the schedule that needs the least training.
LEARNS: dict[str, tuple[int, float, dict[str, Any]]] = {
    "solid": (120, 5e-3, {"prior": "none"}),  # kriging alone knows this world: there would be nothing left to learn
    "solid-onepass": (80, 5e-3, {}),
    "solid-paper": (100, 5e-3, {"patch": 2, "multipliers": (1,), "schedule": "cosine", "dropout": 0.0, "left": 0.75}),
    "unet": (60, 1e-2, {}),
    "ffno": (60, 1e-2, {}),
    "oformer": (60, 3e-3, {}),
    "omnifield": (60, 3e-3, {}),
    "scent": (60, 3e-3, {}),
    "stylegan3": (60, 5e-3, {"beta": 1.0}),
    "inr-gan": (60, 5e-3, {"beta": 1.0}),
    "infty-diff": (140, 1e-2, {"left": 0.75}),
    "ddo": (60, 1e-2, {}),
    "unet-mixture": (60, 1e-2, {}),
}
LAWS = [
    contract.mixed_batch_is_finite,
    contract.every_parameter_learns,
    contract.blind_off_the_masks,
    contract.same_input_same_output,
    contract.members_are_their_own,
    contract.round_trip,
    contract.reads_channels_and_covariates,
]
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
each_trained = pytest.mark.parametrize("model", TRAINED, ids=lambda model: model.name)


@each_model
@pytest.mark.parametrize("periodic", [True, False], ids=["periodic", "closed"])
@pytest.mark.parametrize("shape", contract.SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_finite_on_every_grid_with_any_sensors(model: type[Forecaster], shape: tuple[int, int], periodic: bool):
    contract.finite_on(model, shape, periodic)


@each_trained
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_contract(model: type[Forecaster], law):
    law(model)


@pytest.mark.parametrize("name", LEARNS)
def test_learns_an_easy_world(name: str):
    steps, lr, options = LEARNS[name]
    contract.learns_an_easy_world(MODELS[name], steps, lr, **options)


@pytest.mark.parametrize("model", [*THE_NINE, *MODERN], ids=lambda model: model.name)
def test_a_rival_names_its_reference_and_lists_its_departures(model: type[Forecaster]):
    opening = sys.modules[model.__module__].__doc__ or ""
    assert "Reference: " in opening
    assert "Where we depart from it" in opening
    assert re.search(r"Learning rate:\s", opening)
    assert model.reference.split()[0].rstrip(",") in opening  # the same first author


def test_every_trained_model_is_asked_to_learn():
    assert {model.name for model in TRAINED} == set(LEARNS)
