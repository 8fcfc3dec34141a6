"""Members from sets of readings: in a Gaussian world they are draws of the exact posterior."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from solidfield.models.set_calibration import calibrate, depart
from solidfield.models.solid_set import SolidSet
from solidfield.models.stretch import KINDS, kind_of
from solidfield.prediction.answer import Scene, answer
from solidfield.questions.asking import Hiding, ask
from solidfield.questions.drawing import Plan, draw
from test_spacetime import GRID, covariance, simulated


def gaussian_model(nearest: int = 200) -> SolidSet:
    """The set model with the true covariance, and a law that says nothing beyond the prior's: one standard normal."""
    torch.manual_seed(0)
    model = SolidSet(GRID, 1, (1.0, 1.0), 12, nearest=nearest, law_options={"components": 1})
    truth = covariance()
    model.prior = truth
    with torch.no_grad():
        for last in model.law.last:
            last.weight.zero_()
            last.bias.copy_(torch.tensor([0.0, 0.0, float(np.log(np.expm1(0.99)))]))  # softplus + 0.01 = 1
    return model


def test_members_of_a_scene_are_draws_of_the_posterior():
    model = gaussian_model()
    record, dense = simulated(covariance(), 6, 0.3)
    cells = np.arange(GRID.cells)
    scene = Scene.course(3, [1, 2], cells, before=4, until=3)
    members = answer(model, record, scene, 2000, seed=0)
    nugget = float(covariance().nugget)
    use = record.frames <= 3
    site = record.frames[use] * GRID.cells + record.cells[use]
    k = dense[np.ix_(site, site)] + nugget * np.eye(len(site))
    asked = scene.frame * GRID.cells + scene.cell
    weight = np.linalg.solve(k, dense[np.ix_(site, asked)])
    mean = weight.T @ record.values[use].astype(float)
    left = dense[np.ix_(asked, asked)] - dense[np.ix_(asked, site)] @ weight
    np.testing.assert_allclose(members.mean(0), mean, atol=0.15)
    np.testing.assert_allclose(members.var(0), left.diagonal() + nugget, rtol=0.25)
    # The mean over the whole scene: only a joint draw has its spread.
    whole = members.mean(1)
    assert abs(whole.std() / np.sqrt(left.mean()) - 1) < 0.1


def test_members_know_nothing_of_one_another():
    """Else scores that take them for draws would flatter: a mirrored pair has a fair CRPS of two fifths too little."""
    model = gaussian_model(16)
    record, _ = simulated(covariance(), 4, 0.2)
    scene = Scene.course(2, [1], np.arange(GRID.cells), before=2, until=2)
    few = np.stack([answer(model, record, scene, 2, seed=1, number=number) for number in range(150)])  # (150, 2, N)
    apart = few - few.mean((0, 1))
    assert abs((apart[:, 0] * apart[:, 1]).mean() / apart.var()) < 0.15  # of mirrored pairs: -1
    difference = np.abs(few[:, 0] - few[:, 1]).mean((0, 1))
    assert difference == pytest.approx(2 / np.pi**0.5 * apart.std((0, 1)).mean(), rel=0.08)


def test_what_was_read_is_as_it_was_read():
    model = gaussian_model(16)
    record, _ = simulated(covariance(), 5, 0.3)
    frame = np.full(GRID.cells, 2)
    members = answer(model, record, Scene.filling(frame, np.arange(GRID.cells), 3, 3), 5, seed=1)
    here = record.frames == 2
    np.testing.assert_array_equal(members[:, record.cells[here]], np.tile(record.values[here], (5, 1)))


def test_every_kind_of_question_is_told_apart():
    record, _ = simulated(covariance(), 12, 0.9)
    middle = np.flatnonzero((record.frames == 6) & (record.cells == 20))
    frame, cell = record.frames[middle], record.cells[middle]

    def kind(first: int, last: int, hiding: Hiding, placed: bool = False) -> str:
        asked = ask(record, frame, cell, np.array([first]), np.array([last]), hiding, "train", torch.Generator())
        return KINDS[int(kind_of(asked, torch.tensor([placed]))[0])]

    never = torch.tensor([[1, 0]])
    thin = torch.zeros(1)
    assert len(middle) == 1
    assert kind(-5, 5, Hiding(torch.tensor([[-3, 3]]), never, thin)) == "gap 2-6"
    assert kind(-5, 5, Hiding.unread(1)) == "unread"
    assert kind(-5, 5, Hiding.unread(1), placed=True) == "gap 25+"  # silent, but known by what is usual
    assert kind(-5, -1, Hiding.unread(1), placed=True) == "ahead 1"
    assert kind(-5, 5, Hiding(torch.tensor([[-9, 9]]), torch.tensor([[-1, 1]]), thin)) == "unread, outage"
    assert kind(-5, -1, Hiding.nothing(1)) == "ahead 1"
    assert kind(-5, -3, Hiding.nothing(1)) == "ahead 2-4"


def test_a_stretch_makes_intervals_hold():
    model = gaussian_model(24)
    with torch.no_grad():
        for last in model.law.last:
            last.bias[2] = float(np.log(np.expm1(0.59)))  # laws that are too narrow by 0.6
    records = [simulated(covariance(), 12, 0.4, seed)[0] for seed in range(3)]
    plan = Plan(before=4, after=4, unread=1.0, outage=0.0, sparse=0.0)
    held = [draw(r, r.of_split("train"), 400, plan, "train", torch.Generator().manual_seed(3)) for r in records]
    stretch = calibrate(model, held)
    assert abs(stretch["unread"] - 1 / 0.6) < 0.15


def test_kriging_is_calibrated_where_its_own_laws_are_twice_too_wide():
    """A rival whose intervals are too wide is not a fair one: half of its targets lie within its 50 % intervals."""
    model = gaussian_model(24)
    record = simulated(covariance(), 12, 0.4, 0)[0]
    plan = Plan(before=4, after=4, unread=1.0, outage=0.0, sparse=0.0)
    held = draw(record, record.of_split("train"), 400, plan, "train", torch.Generator().manual_seed(3))
    mean = model.kriged(held.questions)[1].mean
    closer = replace(held, values=mean + 0.5 * (held.values - mean))
    for everywhere in ([], [closer]):
        calibrate(model, [closer], everywhere)
        low, high = model.prior_quantiles(held.questions, torch.tensor([[-0.6745], [0.6745]]))
        inside = (closer.values >= low) & (closer.values <= high)
        assert inside.float().mean() == pytest.approx(0.5, abs=0.01)


def test_places_set_aside_are_corrected_for_being_easier_than_all():
    """Where the prior misses by 1.3 times as much elsewhere, laws of unread places are wider by just that."""
    model = gaussian_model(24)
    record = simulated(covariance(), 12, 0.4, 0)[0]
    plan = Plan(before=4, after=4, unread=1.0, outage=0.0, sparse=0.0)
    held = draw(record, record.of_split("train"), 400, plan, "train", torch.Generator().manual_seed(3))
    mean = model.kriged(held.questions)[1].mean
    harder = replace(held, values=mean + 1.3 * (held.values - mean))
    alone = calibrate(model, [held])
    both = calibrate(model, [held], [harder])
    assert both["unread"] == pytest.approx(1.3 * alone["unread"], rel=1e-3)
    assert both["gap 1"] == alone["gap 1"]


def test_one_network_learns_nothing_of_places_set_aside_and_tells_how_wide_unread_ones_are(monkeypatch):
    """Its laws are too narrow by 1.6 there, the other's right: unread places are stretched as it alone asks.

    If laws may depart from the prior's less than all the way, they do not at all, since the prior is right.
    """
    model = gaussian_model(24)
    record = simulated(covariance(), 12, 0.4, 0)[0]
    plan = Plan(before=4, after=4, unread=1.0, outage=0.0, sparse=0.0)
    held = draw(record, record.of_split("train"), 400, plan, "train", torch.Generator().manual_seed(3))
    aside = replace(held, aside=torch.ones_like(held.aside))
    model.train().loss(aside, torch.Generator().manual_seed(0)).backward()
    silent, learner = (
        [w.grad for part in (model.encoder.networks[n], model.law.head.each[n]) for w in part.parameters()]
        for n in (0, 1)
    )
    assert all(w is None or not w.any() for w in silent)
    assert any(w is not None and w.any() for w in learner)
    model.eval()
    alike = calibrate(model, [held])["unread"]
    with torch.no_grad():
        model.law.last[0].bias[2] = float(np.log(np.expm1(1 / 1.6 - 0.01)))
    assert calibrate(model, [aside])["unread"] == pytest.approx(1.6 * alike, rel=1e-3)
    depart(model, [aside])
    assert calibrate(model, [aside])["unread"] == pytest.approx(alike, rel=1e-2)
    assert set(model.departure[0].tolist()) == {0.0, 1.0}
    assert model.departure[0, KINDS.index("gap 1")] == 1
    z = torch.tensor([[-1.0], [0.5], [2.0]])
    monkeypatch.setattr(model, "prior_stretch", model.stretch)
    unread = kind_of(held.questions, torch.zeros(len(held)).bool()) == KINDS.index("unread")
    own, prior = (of(held.questions, z)[:, unread] for of in (model.quantiles, model.prior_quantiles))
    assert unread.sum() > 300
    torch.testing.assert_close(own, prior)
