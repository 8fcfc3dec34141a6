"""One step down a loss: each objective's own Adam, and an average that running statistics belong to."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import contract
import tiny
from solidfield.forecast import Fitted, Forecaster
from solidfield.keys import torch_generator
from solidfield.models import MODELS
from solidfield.models.adversarial import Adversarial
from solidfield.models.inr_gan import INRGAN
from solidfield.training.optimise import moments, optimiser_of, restore_moments, update_average

TRAINED = [model for model in MODELS.values() if not issubclass(model, Fitted)]


@pytest.mark.parametrize("model", TRAINED, ids=lambda model: model.name)
def test_every_objective_has_its_own_betas(model: type[Forecaster]):
    """A game forgets its old gradients, as StyleGAN's recipes do; everything else has Adam's usual memory."""
    expected = (0.0, 0.99) if issubclass(model, Adversarial) else (0.9, 0.999)
    for objective in contract.build(model, contract.make_spec()).objectives():
        assert optimiser_of(objective, tiny.tiny_config()).param_groups[0]["betas"] == expected


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_game_put_back_goes_on_with_the_same_bits(optimiser: str):
    """Weights and moments taken after two steps and given to a new game: its third step is the third step."""
    spec = contract.make_spec((8, 8))
    pair, config = contract.make_pair(spec), tiny.tiny_config().model_copy(update={"optimiser": optimiser})

    def steps(model: Forecaster, optimisers: list[torch.optim.Optimizer], numbers: range) -> None:
        for step in numbers:
            for objective, optimiser in zip(model.objectives(), optimisers, strict=True):
                optimiser.zero_grad()
                objective.loss(pair, torch_generator(step, objective.name)).backward(inputs=objective.parameters)
                optimiser.step()

    one, other = contract.build(INRGAN, spec), contract.build(INRGAN, spec)
    mine, theirs = ([optimiser_of(objective, config) for objective in model.objectives()] for model in (one, other))
    steps(one, mine, range(2))
    other.load_state_dict(one.state_dict())
    kept = {name: tensor.clone() for name, tensor in moments(one.objectives(), mine).items()}  # as a file would
    restore_moments(other.objectives(), theirs, kept)
    steps(one, mine, range(2, 3))
    steps(other, theirs, range(2, 3))
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_statistics_are_those_of_the_averaged_weights():
    """A mean is linear in the weights before it: averaged with them it is exact, whatever path they took."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3, generator=generator)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5, momentum=1.0))  # statistics of the last batch alone
    model.train()(x)
    average = copy.deepcopy(model).eval()
    for step in range(20):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        model.train()(x)
        update_average(average, model, step, ema=0.9)
    exact = average[0](x).mean(0)
    torch.testing.assert_close(average[1].running_mean, exact, rtol=0, atol=1e-5)
    assert (model[1].running_mean - exact).abs().max() > 0.1  # what copying would have kept
    assert int(average[1].num_batches_tracked) == int(model[1].num_batches_tracked) == 21


@pytest.mark.parametrize("model", TRAINED, ids=lambda model: model.name)
def test_an_average_moves_what_was_learnt_and_keeps_the_bits_of_the_rest(model: type[Forecaster]):
    """Coordinates, filters and bases are buffers, too: a step leaves them alone, and so does the average of it."""
    spec = contract.make_spec()
    made = contract.build(model, spec)
    average, before = copy.deepcopy(made), copy.deepcopy(made)
    contract.descend(made, [contract.make_pair(spec)], lr=1e-2)
    update_average(average, made, 8, ema=0.9)  # decay (1 + 8) / (10 + 8)
    moved = 0
    for old, new, mean in zip(*(one.state_dict().values() for one in (before, made, average)), strict=True):
        if torch.equal(old, new):
            assert torch.equal(mean, old)
        elif mean.is_floating_point():
            torch.testing.assert_close(mean, (old + new) / 2, atol=1e-6, rtol=1e-5)
            moved += 1
    assert moved > 0
