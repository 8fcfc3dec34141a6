"""Several variables at once: one joint Gaussian law across them, of kriging and of members, and what it is worth."""

import dataclasses

import numpy as np
import pytest
import torch

from solidfield.grid import Grid
from solidfield.models.neighbours import nearest_readings
from solidfield.noise import MemberNoise
from solidfield.questions.asking import Hiding, ask
from solidfield.questions.drawing import Plan, draw
from solidfield.questions.record import Record
from solidfield.theory import trajectories
from solidfield.theory.covariance_table import across
from solidfield.theory.spacetime import SpaceTime, krige
from solidfield.theory.trajectories import joint_latents

GRID = Grid((6, 7))
FRAMES = 4


def covariance() -> SpaceTime:
    model = SpaceTime(GRID, (1.0, 1.0), components=2, channels=2)
    with torch.no_grad():
        model.drift.copy_(torch.tensor([[0.3, -0.2], [0.0, 0.5]]))
        model.reach.copy_(torch.tensor([1.5, 4.0]).log())
        model.share += torch.tensor([[0.0], [0.5]])
        model.tie.copy_(torch.tensor([[1.0, 0.0], [-0.8, 0.6]]).expand(3, 2, 2))
        model.noise.copy_(torch.tensor([-4.0, -2.0]))
    return model.requires_grad_(False)


def places() -> torch.Tensor:  # (N, 4), in the order of (frame, variable, cell)
    axes = [torch.arange(n) for n in (FRAMES, 2, *GRID.shape)]
    return torch.cartesian_prod(*axes)[:, [0, 2, 3, 1]]


def simulated(
    model: SpaceTime, density: tuple[float, float], worlds: int = 1, seed: int = 0
) -> tuple[Record, np.ndarray]:  # and the covariance of one world
    generator = np.random.default_rng(seed)
    every = places()
    dense = across(model, every[:, None], every[None]).double().numpy()
    root = np.linalg.cholesky(dense + 1e-6 * np.eye(len(dense)))
    nugget = model.nugget[every[:, 3]].numpy()
    field = generator.normal(size=(worlds, len(dense))) @ root.T
    field += nugget**0.5 * generator.normal(size=field.shape)
    field = field.reshape(worlds * FRAMES, 2, *GRID.shape)
    read = np.where(generator.random(field.shape) < np.reshape(density, (1, 2, 1, 1)), field, np.nan)
    stretch = np.repeat(np.arange(worlds), FRAMES)
    return Record.of_frames(read, GRID, ("x", "y"), np.zeros(len(field)), stretch), dense


def test_the_covariance_is_symmetric_and_positive_definite():
    dense = simulated(covariance(), (0.1, 0.1))[1]
    np.testing.assert_allclose(dense, dense.T, atol=1e-6)
    assert np.linalg.eigvalsh(dense).min() > -1e-5


@pytest.mark.parametrize("tabulated", [False, True])
def test_kriging_with_all_readings_is_the_conditional_law_across_variables(tabulated):
    model = covariance()
    record, dense = simulated(model, (0.1, 0.3))
    asked = np.array([3, 17, GRID.cells + 20])
    window = np.full(3, 1 - FRAMES), np.full(3, -1)
    questions = ask(record, np.full(3, FRAMES - 1), asked, *window, Hiding.nothing(3), "train", torch.Generator())
    look = model.lookup(FRAMES) if tabulated else model
    law = krige(model, nearest_readings(look, questions, GRID.shape, 1000), look)
    use = record.frames < FRAMES - 1
    site = record.frames[use] * 2 * GRID.cells + record.cells[use]
    nugget = model.nugget.numpy()
    k = dense[np.ix_(site, site)] + np.diag(nugget[record.cells[use] // GRID.cells])
    target = (FRAMES - 1) * 2 * GRID.cells + asked
    cross = dense[np.ix_(target, site)]
    weight = np.linalg.solve(k, cross.T)
    np.testing.assert_allclose(law.mean, weight.T @ record.values[use].astype(float), atol=2e-4)
    left = dense[target, target] + nugget[asked // GRID.cells] - (cross.T * weight).sum(0)
    np.testing.assert_allclose(law.std, np.sqrt(left), rtol=1e-3)


@pytest.mark.parametrize("dense", [1200, 5])
def test_members_hang_together_across_variables(monkeypatch, dense):
    monkeypatch.setattr(trajectories, "DENSE", dense)
    model, members = covariance(), 4000
    asked = torch.cartesian_prod(torch.arange(2, 4), torch.arange(1, 4), torch.arange(2, 5), torch.arange(2))
    known = torch.tensor([[0, 1, 1, 0], [1, 3, 3, 1], [2, 5, 6, 1], [1, 0, 4, 0]])
    errors = torch.tensor([0.0, 0.1, 0.0, 0.3])
    z = joint_latents(model, asked, known, errors, MemberNoise(0, [0], range(members))).numpy()
    k = across(model, known[:, None], known[None]).double() + torch.diag(errors + model.nugget[known[:, 3]]).double()
    cross = across(model, asked[:, None], known[None]).double()
    left = across(model, asked[:, None], asked[None]).double() - cross @ torch.linalg.solve(k, cross.T)
    scale = left.diagonal().sqrt()
    np.testing.assert_allclose(z.T @ z / members, (left / scale / scale[:, None]).numpy(), atol=0.09)


def test_the_others_of_a_cell_stay_where_one_variable_is_hidden():
    record, _ = simulated(covariance(), (1.0, 1.0))
    window = np.array([-1]), np.array([1])
    ever, never = torch.tensor([[-9, 9]]), torch.tensor([[1, 0]])

    def known(alone: bool) -> set[tuple[int, int, int]]:
        hiding = Hiding(ever, never, torch.zeros(1), alone=torch.tensor([alone]))
        found = ask(record, np.array([2]), np.array([10]), *window, hiding, "train", torch.Generator())
        return set(zip(found.frame[0].tolist(), found.channel[0].tolist(), found.cell[0].tolist(), strict=True))

    everything = {(f, c, p) for f in (-1, 0, 1) for c in (0, 1) for p in range(GRID.cells)}
    assert known(alone=True) == everything - {(f, 0, 10) for f in (-1, 0, 1)}
    assert known(alone=False) == everything - {(f, c, 10) for f in (-1, 0, 1) for c in (0, 1)}


def test_a_variable_learns_from_another_that_is_measured_where_it_is_not():
    both, _ = simulated(covariance(), (0.1, 0.5), worlds=30, seed=1)
    one = dataclasses.replace(both.without(np.flatnonzero(both.cells >= GRID.cells)), variables=("x",))
    plan = Plan(before=3, after=3, unread=0.5, sparse=0.0, sparse_unread=0.0, outage=0.0, as_was=0.0)
    asked = one.frames, one.cells, np.full(len(one.cells), -3), np.full(len(one.cells), 3)

    def error(record: Record) -> float:
        torch.manual_seed(0)
        model = SpaceTime(GRID, (1.0, 1.0), components=2, channels=len(record.variables))

        def batch(step, look):
            found = draw(record, record.of_split("train"), 64, plan, "train", torch.Generator().manual_seed(step))
            return nearest_readings(look, found.questions, GRID.shape, 12), found.values, found.errors

        model.fit(batch, 8, 60)
        questions = ask(record, *asked, Hiding.nothing(len(one.cells)), "train", torch.Generator())
        known = nearest_readings(model, questions, GRID.shape, 12)
        return float((krige(model, known, model).mean - torch.from_numpy(one.values)).square().mean())

    assert error(both) < 0.8 * error(one)
