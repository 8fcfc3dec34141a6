"""One contract for all models (`contract.py` states its laws): grids, sensors, gradients, strictness, members."""

from __future__ import annotations

from typing import Any

import pytest

import contract
from solidfield.forecast import Fitted, Forecaster
from solidfield.models import MODELS

TRAINED = [model for model in MODELS.values() if not issubclass(model, Fitted)]

# How a short training learns the easy world: steps, learning rate, options. `solid-paper` is not here: its fifty
# chained passes need more training than a test has time for; its own tests check its objective against closed forms.
LEARNS: dict[str, tuple[int, float, dict[str, Any]]] = {
    "solid": (120, 5e-3, {}),
    "solid-onepass": (80, 5e-3, {}),
    "unet": (60, 1e-2, {}),
    "ffno": (60, 1e-2, {}),
    "oformer": (60, 3e-3, {}),
    "omnifield": (60, 3e-3, {}),
    "scent": (60, 3e-3, {}),
    "stylegan3": (60, 5e-3, {"beta": 1.0}),
    "inr-gan": (60, 5e-3, {"beta": 1.0}),
    "infty-diff": (140, 1e-2, {}),
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
each_trained = pytest.mark.parametrize("model", TRAINED, ids=lambda model: model.name)


@each_trained
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


def test_every_trained_model_is_asked_to_learn():
    assert {model.name for model in TRAINED} - set(LEARNS) == {"solid-paper"}
