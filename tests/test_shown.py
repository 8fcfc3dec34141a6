"""What a map shows is of its laws: mean, spread and quantiles are theirs, whatever members were drawn."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from solidfield.models.solid_set import SolidSet
from solidfield.pairs.scaling import Scaling
from solidfield.prediction.answer import Scene, answer, answer_shown
from solidfield.questions.asking import Hiding, ask
from test_answer import gaussian_model
from test_spacetime import GRID, covariance, simulated

LEVELS_SHOWN = (0.0, 0.05, 0.5, 0.95, 0.999)
CELLS = np.arange(GRID.cells)


def bent_model() -> SolidSet:
    """Skewed mixtures that differ from cell to cell, stretched level by level, with tails that end."""
    torch.manual_seed(1)
    model = SolidSet(GRID, 1, (1.0, 1.0), 12, nearest=24)
    model.prior = covariance()
    with torch.no_grad():
        for last in model.law.last:
            last.weight.mul_(10)
            last.bias.view(3, 3)[:, 0] = torch.tensor([0.5, 0.0, -0.5])
            last.bias.view(3, 3)[:, 1] = torch.tensor([-0.6, 0.1, 1.2])
        model.stretch.copy_(torch.tensor([0.9, 1.1, 1.4, 1.8]).expand_as(model.stretch))
        model.ends.copy_(torch.tensor([[-2.0, 0.4, 2.5, 0.8]]))
    return model


def scene_and_record(errors: bool = False):
    record, _ = simulated(covariance(), 6, 0.3)
    if errors:
        given = np.where(np.arange(len(record.values)) % 2, 0.5, 0.0).astype(np.float32)  # half of them without any
        record = replace(record, errors=given)
    return Scene.filling(np.full(GRID.cells, 3), CELLS, 3, 2), record


@pytest.mark.parametrize("transform", ["none", "log", "sqrt"])
@pytest.mark.parametrize("errors", [False, True])
def test_what_is_shown_is_what_very_many_members_have(transform, errors):
    """Mean, spread and quantiles within five standard errors of 20,000 members, at read cells and at all others."""
    scene, record = scene_and_record(errors)
    scaling = Scaling((2.0,), (0.6,), (transform,), (0.0,), (1.0,))
    members, shown = answer_shown(bent_model(), record, scene, 20_000, 0, scaling, LEVELS_SHOWN)
    drawn = scaling.physical_of(torch.from_numpy(members), torch.zeros(GRID.cells, dtype=torch.long)).double().numpy()
    mean, std, low, *quantiles = shown.astype(float)
    sure = drawn.std(0) < 1e-4
    assert sure.any()
    np.testing.assert_allclose(mean[sure], drawn.mean(0)[sure], rtol=1e-6)
    assert (std[sure] == 0).all()
    mean, std, low, drawn = mean[~sure], std[~sure], low[~sure], drawn[:, ~sure]
    assert (np.abs(drawn.mean(0) - mean) < 5 * std / np.sqrt(20_000)).all()
    fourth = ((drawn - mean) ** 4).mean(0)
    assert (np.abs(drawn.var(0) - std**2) < 5 * np.sqrt((fourth - std**4) / 20_000) + 1e-3 * std**2).all()
    for level, value in zip(LEVELS_SHOWN[1:], quantiles, strict=True):
        share = (drawn <= value[~sure]).mean(0)
        assert (np.abs(share - level) < 5 * np.sqrt(level * (1 - level) / 20_000) + 1e-4).all()
    assert (low <= drawn.min(0)).all()


@pytest.mark.parametrize("transform", ["none", "log", "sqrt"])
def test_the_rule_is_that_of_a_dense_one(transform):
    """Within a thousandth of the spread, through stretches that bend, tails that end and a transform."""
    scene, record = scene_and_record()
    scaling, model = Scaling((2.0,), (0.6,), (transform,), (0.0,), (1.0,)), bent_model()
    _, shown = answer_shown(model, record, scene, 0, 0, scaling)
    z = torch.linspace(-6.5, 6.5, 4001)
    weight = torch.exp(-0.5 * z.double() ** 2)
    weight = (weight / weight.sum()).numpy()[:, None]
    with pytest.MonkeyPatch.context() as patch:  # the same laws at many latents
        patch.setattr("solidfield.prediction.answer.latents_of", lambda _: z)
        patch.setattr("solidfield.prediction.answer.shown", lambda values: values)
        _, dense = answer_shown(model, record, scene, 0, 0, scaling)
    dense = dense.astype(float)
    mean = (weight * dense).sum(0)
    std = np.sqrt((weight * (dense - mean) ** 2).sum(0))
    assert (np.abs(shown[0] - mean) <= 1e-3 * std + 1e-6).all()
    assert (np.abs(shown[1] - std) <= 1e-3 * std + 1e-6).all()


def test_in_a_gaussian_world_it_is_the_closed_form():
    """Kriging's mean and spread; of a logarithm, those of the log-normal law."""
    model, (scene, record) = gaussian_model(60), scene_and_record()
    _, shown = answer_shown(model, record, scene, 0, 0, Scaling((0.0,), (1.0,)), (0.05, 0.95))
    _, lognormal = answer_shown(model, record, scene, 0, 0, Scaling((0.0,), (0.5,), ("log",), (0.0,), (1.0,)))
    window = scene.frame, scene.cell, scene.first, scene.last
    asked = ask(record, *window, Hiding.nothing(GRID.cells), "test", torch.Generator())
    law = model.kriged(asked, as_read=False)[1]
    free = ~np.isin(CELLS, record.cells[record.frames == 3])
    m, s = (part.double().numpy()[free] for part in (law.mean, law.std))
    np.testing.assert_allclose(shown[0][free], m, atol=2e-4)
    np.testing.assert_allclose(shown[1][free], s, rtol=1e-3)
    np.testing.assert_allclose(shown[2:, free], m + np.array([[-1.644854], [1.644854]]) * s, atol=1e-3)
    np.testing.assert_allclose(lognormal[0][free], np.exp(0.5 * m + 0.125 * s**2), rtol=1e-3)
    np.testing.assert_allclose(lognormal[1][free] / lognormal[0][free], np.sqrt(np.expm1(0.25 * s**2)), rtol=2e-3)


def test_members_are_those_of_the_answer_alone():
    scene, record = scene_and_record(errors=True)
    model = bent_model()
    members, _ = answer_shown(model, record, scene, 7, 3, Scaling((0.0,), (1.0,)))
    np.testing.assert_allclose(members, answer(model, record, scene, 7, 3), rtol=1e-5, atol=1e-6)
