"""What is usual at a place: least squares, shrunk; nothing of a target's own time, nothing that does not train."""

import numpy as np
import pytest
import torch

from solidfield.grid import Grid
from solidfield.models.solid_set import SolidSet
from solidfield.questions.asking import Hiding, ask
from solidfield.questions.record import Record
from solidfield.questions.usual import BLOCK

GRID = Grid((4, 5), (1.0, 1.0), periodic=(False, False))


def readings(frames=20 * BLOCK, share=0.5, offsets=1.0, seed=0, variables=1):
    """y = course + offset of the place + noise, of moving sensors; and the offsets."""
    rng = np.random.default_rng(seed)
    place = offsets * rng.standard_normal((variables, *GRID.shape))
    values = (
        3 * rng.standard_normal((frames, variables, 1, 1))
        + place
        + 0.3 * rng.standard_normal((frames, variables, *GRID.shape))
    )
    values[rng.random(values.shape) > share] = np.nan
    return values, place


def record(values, split=None):
    names = tuple(f"v{c}" for c in range(values.shape[1]))
    return Record.of_frames(values, GRID, names, np.zeros(len(values), np.int8) if split is None else split)


def everywhere(variables=1):
    return torch.arange(variables * GRID.cells)


@pytest.mark.parametrize("variables", [1, 2])
def test_offsets_of_places_are_found_whatever_a_frame_happens_to_have(variables):
    values, place = readings(variables=variables)
    # Low places are read by day, high ones by night: the mean of a frame says more of its places than of its course.
    night = (np.arange(len(values)) // 12 % 2 == 1)[:, None, None, None]
    values[(place > 0)[None] & ~night & (np.random.default_rng(1).random(values.shape) < 0.8)] = np.nan
    mean, _, trust = record(values).usual.at(everywhere(variables)).T
    wanted = (place - place.mean((1, 2), keepdims=True)).ravel()
    assert trust.min() > 0.9
    assert np.abs(mean.numpy() - wanted).max() < 0.1


def test_a_frame_with_one_reading_says_nothing_of_its_place():
    values, _ = readings(share=0.3)
    alone = np.full((BLOCK, *values.shape[1:]), np.nan)
    alone[:, 0, 1, 1] = 99.0
    before = record(np.concatenate([values, np.full_like(alone, np.nan)])).usual
    after = record(np.concatenate([values, alone])).usual
    torch.testing.assert_close(before.at(everywhere()), after.at(everywhere()), rtol=0, atol=0)


def test_where_places_do_not_differ_nothing_is_usual():
    found = [record(readings(offsets=0.0, seed=seed)[0]).usual.at(everywhere())[:, 2].max() for seed in range(8)]
    assert sum(float(trust) > 0 for trust in found) <= 1


def test_a_place_of_few_days_is_trusted_less():
    values, _ = readings()
    values[2 * BLOCK :, 0, 0, 0] = np.nan
    trust = record(values).usual.at(everywhere())[:, 2]
    assert trust[0] < trust[1:].min()
    mean = record(values).usual.at(torch.tensor([0]))[0, 0]
    assert abs(mean) > 0


def test_the_time_around_a_question_is_left_out():
    """What is left is the mean of the other blocks, and nearly what a fit without those around would say."""
    values, _ = readings()
    frame, cell = torch.tensor([10 * BLOCK + 3]), everywhere()[None]
    near = slice(9 * BLOCK, 12 * BLOCK)
    gone = values.copy()
    gone[near] = np.nan
    told = record(values).usual
    expected = torch.stack([_mean_of_blocks(told, c, leave=(9, 10, 11)) for c in range(GRID.cells)])
    found = told.at(cell, frame)[0]
    trust = found[:, 2]
    torch.testing.assert_close(found[:, 0], (trust * expected).float(), rtol=1e-5, atol=1e-6)
    # Fitted without them altogether it is nearly that: only the frames' own course is shared.
    torch.testing.assert_close(found[:, 0], record(gone).usual.at(everywhere())[:, 0], rtol=0, atol=0.02)


def _mean_of_blocks(told, cell, leave):
    means = np.diff(told.sums[:, 0].numpy())
    place = int(np.searchsorted(told.cells.numpy(), cell))
    mine = (told.key.numpy() // told.blocks == place) & ~np.isin(told.key.numpy() % told.blocks, leave)
    return torch.tensor(means[mine].mean())


def test_only_training_frames_tell():
    values, _ = readings()
    split = np.zeros(len(values), np.int8)
    split[5 * BLOCK : 7 * BLOCK], split[12 * BLOCK :] = 1, 2
    poisoned = np.where((split > 0)[:, None, None, None] & np.isfinite(values), 1e30, values)
    clean, other = (record(v, split).usual for v in (values, poisoned))
    torch.testing.assert_close(clean.at(everywhere()), other.at(everywhere()), rtol=0, atol=0)


def test_places_never_read_have_nothing():
    values, _ = readings()
    values[:, 0, 2, 3] = np.nan
    assert record(values).usual.at(torch.tensor([2 * 5 + 3])).abs().max() == 0


def asked_about(hiding):
    """A cell in the middle of a record of which the window holds no reading of its own."""
    values, _ = readings()
    values[5 * BLOCK - 9 : 5 * BLOCK + 10, 0, 1, 1] = np.nan
    about = np.array([5 * BLOCK]), np.array([6]), np.array([-8]), np.array([8])
    return ask(record(values), *about, hiding, "test", torch.Generator())


def told(usually, seed=3):
    """A network of random weights that is told so much of the cell that is asked about, and of no other."""
    torch.manual_seed(seed)
    model = SolidSet(GRID, 1, (1.0, 1.0), 16)
    for last in model.law.last:
        torch.nn.init.normal_(last.weight)
    model.usual[6] = torch.tensor([usually, 0.3, 0.9])
    return model.eval()


@pytest.mark.parametrize(
    ("hiding", "as_read", "counts"),
    [
        (Hiding.nothing(1), True, True),  # a sensor that is silent: what it would read
        (Hiding.nothing(1), False, False),  # the field there, like that of its neighbours
        (Hiding.unread(1), True, False),  # as if no sensor had ever stood there
    ],
)
def test_what_is_usual_counts_for_what_a_silent_sensor_would_read_and_for_nothing_else(hiding, as_read, counts):
    questions, level = asked_about(hiding), torch.tensor([[-1.0], [0.5]])
    low, high = (told(usually).quantiles(questions, level, as_read) for usually in (-1.0, 1.0))
    assert torch.equal(low, high) != counts


def test_a_place_is_known_by_its_own_readings_or_by_what_is_usual_there():
    silent, new = asked_about(Hiding.nothing(1)), asked_about(Hiding.unread(1))
    model = told(1.0)
    assert model.placed(silent).tolist() == [True]
    assert model.placed(new).tolist() == [False]
    model.usual.zero_()
    assert model.placed(silent).tolist() == [False]
