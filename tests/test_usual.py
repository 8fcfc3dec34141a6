"""What is usual at a place: least squares, shrunk; nothing of a target's own time, nothing that does not train."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from solidfield.grid import Grid
from solidfield.models.solid_set import SolidSet
from solidfield.questions.asking import Hiding, ask
from solidfield.questions.drawing import Plan, draw
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
    assert clean.lasting == other.lasting


def test_places_never_read_have_nothing():
    values, _ = readings()
    values[:, 0, 2, 3] = np.nan
    assert record(values).usual.at(torch.tensor([2 * 5 + 3])).abs().max() == 0


@pytest.mark.parametrize("variables", [1, 2])
def test_for_how_long_it_lasts_is_learned_from_blocks_that_lie_apart(variables):
    blocks, length = 200, 12.0
    values, _ = readings(blocks * BLOCK, variables=variables)
    always = record(values).usual.lasting
    assert always == (float(blocks * BLOCK),) * variables  # no longer than it was seen to
    lag = np.arange(blocks)[:, None] - np.arange(blocks)
    drift = np.linalg.cholesky(np.exp(-((lag / length) ** 2) / 2) + 1e-6 * np.eye(blocks))
    drift = drift @ np.random.default_rng(4).standard_normal((blocks, GRID.cells))
    values = readings(blocks * BLOCK, offsets=0.0, variables=variables)[0]
    values[:, 0] += drift.reshape(blocks, *GRID.shape).repeat(BLOCK, 0)
    lasting = np.array(record(values).usual.lasting) / BLOCK
    assert abs(np.log(lasting[0] / length)) < np.log(1.25)


def test_beyond_the_time_of_training_it_fades():
    questions, model, place = asked_about(Hiding.nothing(1)), told(1.0), torch.tensor([[6, 7]])
    model.taught.copy_(torch.tensor([100.0, 200.0]))
    model.lasting.fill_(20.0)
    for time, lapse in ((100.0, 0), (150.0, 0), (200.0, 0), (220.0, 1), (60.0, 2)):
        when = replace(questions, asked_time=torch.tensor([time]).double())
        expected = np.exp(-(lapse**2) / 2) * model.usual[place]
        torch.testing.assert_close(model._usually(place, when, None), expected)
    assert model.placed(replace(questions, asked_time=torch.tensor([220.0]).double())).tolist() == [True]  # 0.55
    assert model.placed(replace(questions, asked_time=torch.tensor([60.0]).double())).tolist() == [False]


def test_questions_ask_at_the_record_s_own_time():
    values, _ = readings()
    late = replace(record(values), start=1e9, step=3600.0)
    window = np.array([-8, -8]), np.array([8, 8])
    when = ask(late, np.array([0, 7]), np.array([6, 6]), *window, Hiding.nothing(2), "test", torch.Generator())
    assert when.asked_time.tolist() == [1e9, 1e9 + 7 * 3600]


def test_training_leaves_out_more_time_around_its_share_of_the_questions():
    values, _ = readings()
    one, count, blocks = record(values), 4000, 20
    plan = Plan(before=8, after=8, stale=0.6)
    lesson = draw(one, one.of_split("train"), count, plan, "train", torch.Generator().manual_seed(0))
    reach = lesson.usual.reach.numpy()
    for least in (2, 5, 10):  # log-uniform from one to all blocks
        share = 0.6 * (1 - np.log(least) / np.log(blocks))
        assert abs((reach >= least).mean() - share) < 4 * np.sqrt(share * (1 - share) / count)
    cells = everywhere().repeat(count, 1)
    for row in (int(np.argmax(reach == 3)), int(np.argmax(reach == 7))):
        block = int(lesson.frame[row]) // BLOCK
        leave = range(block - reach[row], block + reach[row] + 1)
        expected = torch.stack([_mean_of_blocks(one.usual, c, leave) for c in range(GRID.cells)])
        found = lesson.usual.at(cells)[row]
        torch.testing.assert_close(found[:, 0], (found[:, 2] * expected).float(), rtol=1e-4, atol=1e-6)


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
