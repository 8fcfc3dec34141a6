"""Questions know what they may know: brute force over readings, poisoned values, and what each kind of hiding hides."""

import dataclasses

import numpy as np
import pytest
import torch

from solidfield.config import TrainConfig
from solidfield.errors import SolidError
from solidfield.grid import Grid
from solidfield.models.solid_set import SolidSet
from solidfield.pairs.scaling import Scaling
from solidfield.questions.asking import MAY_KNOW, Hiding, ask
from solidfield.questions.drawing import Plan, draw
from solidfield.questions.record import Record
from solidfield.training.lessons import QuestionTask

GRID = Grid((4, 5))


def record(seed: int = 0, frames: int = 40, density: float = 0.4) -> Record:
    generator = np.random.default_rng(seed)
    field = generator.normal(size=(frames, 1, *GRID.shape)).astype(np.float32)
    field[generator.random(field.shape) > density] = np.nan
    field[7:9] = np.nan  # hours without any reading
    split = np.repeat([0, 0, 1, 2], frames // 4)
    return Record.of_frames(field, GRID, ("x",), split, stretch=np.repeat([0, 1], frames // 2))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def known_by_hand(store: Record, t: int, cell: int, first: int, last: int, split: str) -> set[tuple[int, int, float]]:
    found = set()
    for r, frame in enumerate(store.frames):
        inside = first <= frame - t <= last and store.stretch[frame] == store.stretch[t]
        if inside and store.split[frame] in MAY_KNOW[split] and (frame != t or store.cells[r] != cell):
            found.add((int(frame) - t, int(store.cells[r]), float(store.values[r])))
    return found


@pytest.mark.parametrize(("first", "last"), [(-6, 0), (-9, -3), (-5, 5)])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_question_knows_what_brute_force_finds(first, last, split):
    store = record()
    readings = store.of_split(split)
    frame, cell = store.frames[readings], store.cells[readings]
    count = len(readings)
    questions = ask(
        store, frame, cell, np.full(count, first), np.full(count, last), Hiding.nothing(count), split, generator()
    )
    for row in range(count):
        seen = questions.known[row]
        columns = (questions.frame[row][seen], questions.cell[row][seen], questions.values[row][seen])
        heard = set(zip(*(column.tolist() for column in columns), strict=True))
        assert heard == known_by_hand(store, int(frame[row]), int(cell[row]), first, last, split)


def test_an_unread_place_has_no_record_and_its_neighbours_keep_theirs():
    store = record()
    readings = store.of_split("train")
    count = len(readings)
    window = np.full(count, -8), np.full(count, 8)
    frame, cell = store.frames[readings], store.cells[readings]
    every, unread = (
        ask(store, frame, cell, *window, hiding(count), "train", generator())
        for hiding in (Hiding.nothing, Hiding.unread)
    )
    own = every.known & (every.cell == every.asked_cell[:, None])
    assert not (unread.known & (unread.cell == unread.asked_cell[:, None])).any()
    assert (unread.known.sum(1) == every.known.sum(1) - own.sum(1)).all()
    assert own.any()


def test_a_forecast_is_the_same_whatever_the_future_holds():
    store = record()
    future = store.frames >= 20
    other = store.with_values(np.where(future, 1e30, store.values))
    arguments = (np.array([20, 22]), np.array([3, 7]), np.array([-8, -8]), np.array([-1, -3]))
    stretch = np.zeros(len(store), np.int32)  # one stretch: only the window keeps the future out
    answers = [
        ask(dataclasses.replace(r, stretch=stretch), *arguments, Hiding.nothing(2), "test", generator())
        for r in (store, other)
    ]
    for name, value in vars(answers[0]).items():
        assert torch.equal(value, getattr(answers[1], name)), name


@pytest.mark.parametrize("poison", [1e30, -7.0])
def test_training_questions_do_not_depend_on_what_they_may_not_know(poison):
    store = record()
    may = np.isin(store.split[store.frames], MAY_KNOW["train"])
    other = store.with_values(np.where(may, store.values, poison))
    plan = Plan(before=6, after=6, leads=(1, 3), fill=0.4, now=0.3, ahead=0.3, sparse=0.5)
    drawn = [draw(r, r.of_split("train"), 200, plan, "train", generator(1)) for r in (store, other)]
    assert torch.equal(drawn[0].values, drawn[1].values)
    for name, value in vars(drawn[0].questions).items():
        assert torch.equal(value, getattr(drawn[1].questions, name)), name


def test_the_target_never_stands_among_what_is_known():
    store = record(density=0.9)
    plan = Plan(before=6, after=6, leads=(2,), fill=0.5, now=0.3, ahead=0.2)
    questions = draw(store, store.of_split("train"), 500, plan, "train", generator(2)).questions
    target = (questions.frame == 0) & (questions.cell == questions.asked_cell[:, None])
    assert not (questions.known & target).any()
    assert questions.known.any(1).float().mean() > 0.9


def test_values_that_are_not_finite_are_refused():
    store = record()
    with pytest.raises(SolidError, match="finite"):
        store.with_values(np.full(len(store.values), np.nan))


def test_a_record_without_some_readings_keeps_its_frames():
    store = record()
    less = store.without(store.of_split("test"))
    assert len(less) == len(store)
    assert len(less.of_split("test")) == 0
    assert (less.values == store.values[: len(less.values)]).all()


def test_of_a_large_network_the_places_around_are_known(monkeypatch):
    """Brute force: the readings of the nearest places within the window, and no others."""
    store = record(density=0.5)
    readings = store.of_split("train")[::7]
    frame, cell, count = store.frames[readings], store.cells[readings], len(readings)
    window = np.full(count, -5), np.full(count, 4)
    whole = ask(store, frame, cell, *window, Hiding.nothing(count), "train", generator())
    monkeypatch.setattr("solidfield.questions.record.PLACES", 6)
    monkeypatch.setattr("solidfield.questions.record.ENOUGH", 1)
    near = store.around(cell)
    assert near is not None
    few = ask(store, frame, cell, *window, Hiding.nothing(count), "train", generator())
    for row in range(count):
        there = set(store.places[near[row]].tolist())
        expected = {
            (int(f), int(c), float(v))
            for f, c, v, k in zip(whole.frame[row], whole.cell[row], whole.values[row], whole.known[row], strict=True)
            if k and int(c) in there
        }
        heard = {
            (int(f), int(c), float(v))
            for f, c, v, k in zip(few.frame[row], few.cell[row], few.values[row], few.known[row], strict=True)
            if k
        }
        assert heard == expected
        rows, columns = np.divmod(store.places, 5)
        away = np.hypot(rows - cell[row] // 5, columns - cell[row] % 5)
        assert away[near[row]].max() <= np.sort(away)[5] + 1e-9


def stations(seed: int = 1) -> Record:
    """Places that are read in four frames of five: what is missing is a gap."""
    return dataclasses.replace(record(seed, density=0.8), stretch=np.zeros(40, np.int32))


def test_gaps_as_they_were_hide_what_stations_missed_around_another_frame():
    store = stations()
    readings = store.of_split("train")[::11]
    frame, cell, count = store.frames[readings], store.cells[readings], len(readings)
    window, other = (np.full(count, -4), np.full(count, 4)), 9
    whole = ask(store, frame, cell, *window, Hiding.nothing(count), "train", generator())
    hiding = dataclasses.replace(Hiding.nothing(count), as_at=torch.full((count,), other))
    few = ask(store, frame, cell, *window, hiding, "train", generator())
    missed = {(int(t), int(store.places[p])) for t, p in zip(*np.nonzero(store.gaps), strict=True)}
    assert missed
    for row in range(count):
        seen = whole.known[row]
        expected = {
            (int(f), int(c))
            for f, c in zip(whole.frame[row][seen], whole.cell[row][seen], strict=True)
            if (other + int(f), int(c)) not in missed
        }
        heard = few.known[row]
        assert set(zip(few.frame[row][heard].tolist(), few.cell[row][heard].tolist(), strict=True)) == expected


def test_gaps_are_of_training_frames_alone():
    store = stations()
    assert not store.gaps[store.split > 0].any()
    read = np.zeros_like(store.gaps)
    read[store.frames, store.place] = True
    train = store.split == 0
    assert (store.gaps[train] == ~read[train])[:, store.stations].all()


def test_a_place_set_aside_is_never_taken_for_unread_in_training():
    """It is asked about with what it read at other times; calibration asks about it, and about all, as unread."""
    aside = np.zeros(GRID.shape, bool)
    aside[1, 2] = True
    store = dataclasses.replace(stations(), aside=aside)
    config = TrainConfig(minutes=1, batch=400)
    task = QuestionTask(store, Scaling((0.0,), (1.0,)), Plan(unread=1.0, as_was=0.5, outage=0.0), config, {})
    lesson, at = task.batch(0, 0, 1, None).questions, torch.from_numpy(aside.ravel())
    own = (lesson.known & lesson.own).any(1)
    assert own[at[lesson.asked_cell]].all()
    assert not own[~at[lesson.asked_cell]].any()
    assert at[lesson.asked_cell].any()
    model = SolidSet(GRID, 1, (1.0, 1.0), task.plan.reach)
    *others, unread = [one.questions for one in task.calibration(model)]
    assert all((one.known & one.own).any(1).all() for one in others if not at[one.asked_cell].all())  # known by itself
    everywhere = next(task.everywhere()).questions
    assert at[unread.asked_cell].all()
    assert set(everywhere.asked_cell.tolist()) == set(store.places.tolist())
    for questions in (unread, everywhere):
        assert not (questions.known & questions.own).any()


WIDE = Grid((24, 24), (1.0, 1.0))


def drifting(floats=5, frames=80, seed=0):
    """Sensors that move by at most a cell a frame: where each was."""
    rng = np.random.default_rng(seed)
    at = rng.uniform(0, 24, (floats, 2))
    values = np.full((frames, 1, *WIDE.shape), np.nan)
    for frame in range(frames):
        at = np.clip(at + rng.uniform(-1, 1, at.shape), 0, 23.99)
        row, column = at.astype(int).T
        values[frame, 0, row, column] = rng.standard_normal(floats)
    return Record.of_frames(values, WIDE, ("t",), np.zeros(frames, np.int8))


def standing(stations=30, frames=80, share=1.0, seed=0):
    rng = np.random.default_rng(seed)
    values = np.full((frames, 1, WIDE.cells), np.nan)
    values[:, :, rng.choice(WIDE.cells, stations, replace=False)] = rng.standard_normal((frames, 1, stations))
    values[rng.random(values.shape) > share] = np.nan
    return Record.of_frames(values.reshape(frames, 1, *WIDE.shape), WIDE, ("t",), np.zeros(frames, np.int8))


def test_sensors_that_move_are_told_from_sensors_that_stand():
    moving = drifting()
    nearest = []
    for frame in range(len(moving)):
        cells = moving.cells[moving.offsets[frame] : moving.offsets[frame + 1]]
        place = np.stack([cells // 24, cells % 24], 1)
        apart = np.linalg.norm(place[:, None] - place[None], axis=-1) + 1e9 * np.eye(len(place))
        nearest.append(apart.min(1))
    assert moving.clearance == pytest.approx(np.median(np.concatenate(nearest)))
    assert standing().clearance == 0
    assert standing(share=0.8).clearance == 0  # gaps do not make a sensor move


def test_beside_moving_sensors_unread_places_are_asked_about_without_the_track():
    """No reading nearer than what is hidden is known, at whatever time; and how much is hidden varies."""
    store = drifting()
    plan = Plan(unread=1.0, sparse_unread=0.0)
    lesson = draw(store, store.of_split("train"), 300, plan, "train", torch.Generator().manual_seed(0))
    asked, near = lesson.questions, []
    for q in range(len(asked)):
        cell = asked.cell[q][asked.known[q]]
        away = torch.stack([cell // 24 - asked.asked_cell[q] // 24, cell % 24 - asked.asked_cell[q] % 24]).double()
        near.append(float(away.norm(dim=0).min()) if len(cell) else np.inf)
    far = np.quantile(near, [0.1, 0.5])
    assert far[0] < 0.5 * store.clearance < far[1]
    without = draw(store, store.of_split("train"), 300, Plan(unread=0.0), "train", torch.Generator().manual_seed(0))
    assert (without.questions.known & without.questions.own).any()


def test_places_are_kept_away_with_all_beside_them_where_sensors_move():
    moving, fixed = drifting(), standing()
    side = round(moving.clearance)
    block = moving.block(np.arange(WIDE.cells)).reshape(WIDE.shape)
    assert (block[:side, :side] == block[0, 0]).all()
    assert block[side, 0] != block[0, 0] != block[0, side]
    np.testing.assert_array_equal(fixed.block(fixed.places), fixed.places)
