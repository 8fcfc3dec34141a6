"""Kriging in space and time: equal to conditioning a dense Gaussian law, and its covariance is found again."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from solidfield.grid import Grid
from solidfield.models.neighbours import nearest_readings, offsets
from solidfield.questions.asking import Hiding, ask, ask_together
from solidfield.questions.drawing import Plan, draw
from solidfield.questions.record import Record
from solidfield.theory.spacetime import SpaceTime, krige

GRID = Grid((6, 7))


def covariance(grid: Grid = GRID) -> SpaceTime:
    torch.manual_seed(0)
    model = SpaceTime(grid, (1.0, 1.0), components=2)
    with torch.no_grad():
        model.drift.copy_(torch.tensor([[0.3, -0.2], [0.0, 0.5]]))
        model.reach.copy_(torch.tensor([1.5, 4.0]).log())
    return model.requires_grad_(False)


def simulated(model: SpaceTime, frames: int, density: float, seed: int = 0) -> tuple[Record, np.ndarray]:
    """Draws of the field itself, read at random cells with the nugget as their error."""
    generator = np.random.default_rng(seed)
    axes = [np.arange(n) for n in (frames, *model.grid.shape)]
    places = torch.from_numpy(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3))
    dense = model(places[None] - places[:, None]).double().numpy()
    root = np.linalg.cholesky(dense + 1e-6 * np.eye(len(dense)))
    field = (root @ generator.normal(size=len(dense))).reshape(frames, 1, *model.grid.shape)
    field += float(model.nugget) ** 0.5 * generator.normal(size=field.shape)
    read = np.where(generator.random(field.shape) < density, field, np.nan)
    return Record.of_frames(read, model.grid, ("x",), np.zeros(frames)), dense


def test_kriging_with_all_readings_is_the_conditional_law():
    model = covariance()
    record, dense = simulated(model, 5, 0.3)
    asked = np.array([3, 17, 41])
    questions = ask(
        record, np.full(3, 4), asked, np.full(3, -4), np.full(3, -1), Hiding.nothing(3), "train", torch.Generator()
    )
    known = nearest_readings(model, questions, GRID.shape, 1000)
    law = krige(model, known, model)
    use = record.frames < 4
    site = record.frames[use] * GRID.cells + record.cells[use]
    k = dense[np.ix_(site, site)] + float(model.nugget) * np.eye(len(site))
    cross = dense[np.ix_(4 * GRID.cells + asked, site)]
    mean = cross @ np.linalg.solve(k, record.values[use].astype(float))
    variance = dense[0, 0] + float(model.nugget) - (cross * np.linalg.solve(k, cross.T).T).sum(1)
    np.testing.assert_allclose(law.mean, mean, atol=2e-4)
    np.testing.assert_allclose(law.std, np.sqrt(variance), rtol=1e-3)


def test_a_table_holds_the_covariance():
    model = covariance()
    look = model.lookup(4)
    offset = torch.stack([torch.randint(-n, n + 1, (200,)) for n in (4, GRID.shape[0] - 1, GRID.shape[1] - 1)], -1)
    torch.testing.assert_close(look(offset), model(offset))
    assert look is not model


def test_covariances_are_positive_definite_whatever_the_parameters():
    for seed in range(5):
        torch.manual_seed(seed)
        model = SpaceTime(GRID, (1.0, 2.0))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        places = torch.cartesian_prod(torch.arange(3), torch.arange(6), torch.arange(7)).double()
        k = model.double()(places[None] - places[:, None])
        assert torch.linalg.eigvalsh(k).min() > -1e-8 * k.diagonal().max()


def test_the_nearest_of_a_place_that_was_read_are_those_with_the_largest_covariance():
    model = covariance()
    record, _ = simulated(model, 6, 0.5)
    lesson = draw(record, record.of_split("train"), 30, Plan(before=5, after=5), "train", torch.Generator())
    read = (lesson.questions.known & lesson.questions.own).any(1)
    questions = lesson.questions.where(read)
    known = nearest_readings(model, questions, GRID.shape, 8)
    every = torch.where(questions.known, model(offsets(questions, GRID.shape)), -torch.inf).sort(1, descending=True)
    best = torch.where(known.valid, model(known.offset), -torch.inf)
    torch.testing.assert_close(best, every.values[:, : best.shape[1]])
    assert torch.equal(known.errors, torch.zeros_like(known.errors))


@pytest.mark.parametrize(("count", "last"), [(29, 2), (12, -1)])
def test_of_few_readings_all_cells_of_a_map_hear_all(count, last):
    """Six places and five frames: 29 readings, or 12 of the two before."""
    model = covariance()
    field = np.full((5, 1, *GRID.shape), np.nan)
    field[:, :, [0, 2, 5, 5, 1, 4], [0, 3, 6, 1, 5, 2]] = np.random.default_rng(0).normal(size=(5, 1, 6))
    field[2, :, 2, 3] = np.nan
    record = Record.of_frames(field, GRID, ("x",), np.zeros(5))
    cells = np.setdiff1d(np.arange(GRID.cells), record.places)
    questions = ask_together(record, 2, cells, -2, last)
    known = nearest_readings(model, questions, GRID.shape, count)
    assert known.valid.sum(1).eq(29 if last == 2 else 12).all()
    assert known.errors.eq(0).all()


def test_what_a_question_hears_does_not_depend_on_those_asked_beside_it():
    """Two hours of one place, which know as many readings of the same places, each as long ago as it is."""
    model = covariance()
    field = np.full((5, 1, *GRID.shape), np.nan)
    field[:, :, [0, 2, 5, 5], [0, 3, 6, 1]] = np.random.default_rng(0).normal(size=(5, 1, 4))
    record = Record.of_frames(field, GRID, ("x",), np.zeros(5))
    frame, cell, window = np.array([1, 3]), np.array([9, 9]), np.full(2, 4)
    asked = ask(record, frame, cell, -window, window, Hiding.nothing(2), "train", torch.Generator())
    both = nearest_readings(model, asked, GRID.shape, 4)
    for place in (0, 1):
        alone = nearest_readings(model, asked[place : place + 1], GRID.shape, 4)
        assert torch.equal(both.offset[place], alone.offset[0])
        assert torch.equal(both.errors[place], alone.errors[0])


def test_of_a_larger_network_places_lose_their_say_before_they_are_left_out():
    """In full up to one tenth; then with an error of 0.1 (c_0 - c) / (c - c_k), which grows beyond all bounds."""
    grid, count, whole = Grid((1, 400)), 20, 2
    model = SpaceTime(grid, (1.0, 1.0), components=1).requires_grad_(False)
    model.reach.fill_(math.log(60.0))
    field = np.full((1, 1, 1, 400), np.nan)
    places = np.sort(np.random.default_rng(1).choice(400, 40, replace=False))
    field[..., places] = np.random.default_rng(2).normal(size=40)
    record = Record.of_frames(field, grid, ("x",), np.zeros(1))
    cells = np.setdiff1d(np.arange(100, 300), places)
    questions = ask_together(record, 0, cells, 0, 0)
    known = nearest_readings(model, questions, grid.shape, count)
    assert known.valid.sum(1).eq(count).all()
    every = model(offsets(questions, grid.shape)).sort(1, descending=True).values
    full, none, mine = every[:, whole : whole + 1], every[:, count : count + 1], every[:, :count]
    torch.testing.assert_close(known.errors[:, : whole + 1], torch.zeros(len(cells), whole + 1))
    fading = (
        0.1 * (full - mine[:, whole:]) / (mine[:, whole:] - none).clamp_min(1e-6)
    )  # of two places as far away one is left out
    torch.testing.assert_close(known.errors[:, whole:], fading, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(known.heard[:, whole:], (mine[:, whole:] - none) / (full - none), rtol=1e-3, atol=1e-3)
    # Of one reading with a larger error e the weight is D / (D + e) of what it was, D <= C(0) + nugget.
    faded, heard = (
        krige(model, replace(known, errors=errors), model).weight[:, -1].abs()
        for errors in (known.errors, F.pad(known.errors[:, :-1], (0, 1)))
    )
    most = model.variance + model.nugget
    assert (faded <= 1.001 * heard * most / (most + known.errors[:, -1]) + 1e-6).all()
    assert known.errors[:, -1].max() > 10


def test_the_fit_finds_a_likelihood_as_high_as_the_truth():
    truth = covariance()
    records = [simulated(truth, 12, 0.4, seed)[0] for seed in range(2)]
    plan = Plan(before=4, after=4, unread=0.3, longest=4, sparse=0.0)

    def questions(step, look):
        record = records[step % 2]
        lesson = draw(record, record.of_split("train"), 100, plan, "train", torch.Generator().manual_seed(step))
        return nearest_readings(look, lesson.questions, GRID.shape, 16), lesson.values, lesson.errors

    fitted = SpaceTime(GRID, (1.0, 1.0))
    fitted.fit(questions, 8)

    def surprise(model):
        total = 0.0
        for step in range(1000, 1010):
            known, values, _ = questions(step, model)
            law = krige(model, known, model)
            total += float((law.std.log() + 0.5 * ((values - law.mean) / law.std) ** 2).mean())
        return total / 10

    assert surprise(fitted) < surprise(truth) + 0.05


def test_around_a_periodic_axis_the_covariance_stays_positive_definite():
    """Smooth, far-reaching components on a small torus: with the way around instead of the chord it is not."""
    grid = Grid((8, 8), periodic=(True, True))
    model = SpaceTime(grid, (1.0, 1.0))
    with torch.no_grad():
        model.bend += 2.5
        model.drift += 0.3
    places = torch.cartesian_prod(torch.arange(3), torch.arange(8), torch.arange(8))
    values = torch.linalg.eigvalsh(model(places[None] - places[:, None]).detach().double())
    assert values.min() > -1e-5 * values.max()
    once_around = torch.tensor([[0, 8, 0], [0, 0, -8], [2, 8, 8]])
    assert torch.allclose(model(once_around), model(torch.tensor([[0, 0, 0], [0, 0, 0], [2, 0, 0]])), atol=1e-5)
