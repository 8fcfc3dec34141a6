"""Kriging in space and time: equal to conditioning a dense Gaussian law, and its covariance is found again."""

from collections import Counter

import numpy as np
import pytest
import torch

from solidfield.grid import Grid
from solidfield.models.neighbours import nearest_readings, offsets
from solidfield.questions.asking import Hiding, ask
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


@pytest.mark.parametrize("few", [1, 2, 1000])
def test_the_nearest_are_those_with_the_largest_covariance_but_few_of_a_place_around_an_unread_one(few):
    """One after the other: those whose place has its share already wait until nothing else is left."""
    model = covariance()
    record, _ = simulated(model, 6, 0.5)
    plan = Plan(before=5, after=5, unread=0.5)
    questions = draw(record, record.of_split("train"), 20, plan, "train", torch.Generator()).questions
    known = nearest_readings(model, questions, GRID.shape, 8, of_a_place=few)
    every = torch.where(questions.known, model(offsets(questions, GRID.shape)), -torch.inf)
    for row, covariances in enumerate(every):
        order = [i for i in covariances.argsort(descending=True).tolist()[:32] if questions.known[row, i]]
        cells = questions.cell[row].tolist()
        unread = int(questions.asked_cell[row]) not in [cells[i] for i in order]
        first, later, places = [], [], Counter()
        for i in order:
            (later if unread and places[cells[i]] >= few else first).append(i)
            places[cells[i]] += 1
        expected = covariances[[*first, *later][:8]].sort().values
        found = model(known.offset[row])[known.valid[row]].sort().values
        torch.testing.assert_close(found, expected)


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
