"""Offsets of sensors: left out of the field, kept in what a sensor reads, shrunk in the list of sensors."""

import numpy as np
import pytest
import torch

from solidfield.models.neighbours import nearest_readings
from solidfield.models.solid_set import AROUND, SolidSet
from solidfield.prediction.answer import Scene, answer
from solidfield.quality.suspects import shrunk_offsets
from solidfield.questions.asking import Hiding, ask
from solidfield.theory.spacetime import SpaceTime, krige
from test_answer import gaussian_model
from test_spacetime import GRID, covariance, simulated

OFFSET = 0.6


def with_offsets() -> SpaceTime:
    truth = covariance()
    model = SpaceTime(GRID, (1.0, 1.0), components=2, offsets=True).requires_grad_(False)
    model.load_state_dict(truth.state_dict() | {"apart": torch.tensor([np.log(OFFSET)])})
    return model


def dense_parts():
    """The record, and the covariances of field, offsets and nugget at all places and times."""
    record, dense = simulated(covariance(), 5, 0.3)
    site = record.frames * GRID.cells + record.cells
    same = OFFSET * (record.cells[:, None] == record.cells)
    return record, dense, site, same, float(covariance().nugget)


@pytest.mark.parametrize("as_read", [True, False])
def test_kriging_with_offsets_is_the_dense_conditional_law(as_read):
    model, (record, dense, _, _, nugget) = with_offsets(), dense_parts()
    use = record.frames < 4
    asked = np.concatenate([record.cells[use][:2], [41]])  # sensors with a record, and perhaps one without
    window = np.full(3, 4), asked, np.full(3, -4), np.full(3, -1)
    questions = ask(record, *window, Hiding.nothing(3), "train", torch.Generator())
    law = krige(model, nearest_readings(model, questions, GRID.shape, 1000), model, as_read)
    site = record.frames[use] * GRID.cells + record.cells[use]
    same = OFFSET * (record.cells[use][:, None] == record.cells[use])
    k = dense[np.ix_(site, site)] + same + nugget * np.eye(len(site))
    cross = dense[np.ix_(4 * GRID.cells + asked, site)] + as_read * OFFSET * (asked[:, None] == record.cells[use])
    np.testing.assert_allclose(law.mean, cross @ np.linalg.solve(k, record.values[use].astype(float)), atol=2e-4)
    left = dense[0, 0] + nugget + as_read * OFFSET - (cross * np.linalg.solve(k, cross.T).T).sum(1)
    np.testing.assert_allclose(law.std, np.sqrt(left), rtol=1e-3)


def test_a_map_at_a_sensor_is_the_field_and_not_its_reading():
    """The posterior of the field given all readings, where each is of the field, its sensor's offset and a nugget."""
    model, (record, dense, site, same, nugget) = gaussian_model(), dense_parts()
    model.prior = with_offsets()
    here = np.flatnonzero(record.frames == 2)
    scene = Scene.filling(np.full(len(here), 2), record.cells[here], 4, 4)
    members = answer(model, record, scene, 4000, seed=1)
    there = dense[np.ix_(site, site)] + nugget * np.eye(len(site))  # what is there, without the offset
    weight = np.linalg.solve(there + same, there[:, here])
    left = there.diagonal()[here] - (there[:, here] * weight).sum(0)
    chance = 4.5 * float(np.sqrt(left.max() / len(members)))
    np.testing.assert_allclose(members.mean(0), weight.T @ record.values.astype(float), atol=chance)
    np.testing.assert_allclose(members.std(0), np.sqrt(left), rtol=0.06)
    read = answer(model, record, scene, 4, seed=1, as_read=True)
    np.testing.assert_array_equal(read, np.tile(record.values[here], (4, 1)))


def test_features_of_an_unread_place_are_the_mean_over_places_around_it():
    torch.manual_seed(0)
    model = SolidSet(GRID, 1, (1.0, 1.0), 12, nearest=8)
    record, _ = simulated(covariance(), 5, 0.3)
    unread = np.setdiff1d(np.arange(GRID.cells), record.cells)
    cells = np.array([unread[0], record.cells[0]])

    def asked(cell: np.ndarray):
        window = np.full(len(cell), 2), cell, np.full(len(cell), -2), np.full(len(cell), 2)
        return ask(record, *window, Hiding.nothing(len(cell)), "train", torch.Generator())

    questions = asked(cells)
    found, *_ = model.evened(questions, as_read=True)
    own, _, _ = model.laws(questions)
    row, column = divmod(int(cells[0]), GRID.shape[1])
    moved = [(np.clip(row + y, 0, 5), np.clip(column + x, 0, 6)) for y, x in ((0, 0), *AROUND)]
    # The same readings are known at each place: the question is the first one, moved.
    features = []
    for y, x in moved:
        one = questions.where(torch.tensor([True, False]))
        one = type(one)(**{**vars(one), "asked_cell": torch.tensor([int(y) * GRID.shape[1] + int(x)])})
        features.append(model.laws(one)[0][0])
    torch.testing.assert_close(found[0], torch.stack(features).mean(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], own[1])


def test_offsets_of_sensors_are_shrunk_and_as_unsure_as_they_say():
    generator = np.random.default_rng(0)
    truth = generator.normal(0, 2.0, 200)
    count = generator.choice([5, 20, 200], 200)
    residual = truth + generator.normal(0, 3.0, (200, 200))
    residual[np.arange(200)[:, None] >= count] = np.nan
    offset, unsure = shrunk_offsets(residual)
    z = (offset - truth) / unsure
    assert 0.85 < z.std() < 1.15
    median = np.nanmedian(residual, 0)
    assert ((offset - truth) ** 2).mean() < 0.9 * ((median - truth) ** 2).mean()
    few, many = (np.abs(offset / median)[count == n].mean() for n in (5, 200))
    assert few < 0.75 < 0.97 < many


def test_sensors_without_offsets_have_none():
    offset, unsure = shrunk_offsets(np.random.default_rng(1).normal(0, 1.0, (300, 40)))
    assert np.abs(offset).max() < 0.1
    assert unsure.max() < 0.1
