"""Rolled forward and judged: chains by brute force, the first step is the forecast, later readings stay unknown."""

import numpy as np
import pytest

from dated import dated_store, fitted_run
from solidfield.errors import SolidError
from solidfield.report import evaluate_run
from solidfield.report.ensembles import contenders, draw_targets
from solidfield.report.figures import pictures
from solidfield.report.page import page
from solidfield.report.rollouts import chains, judge_rollouts
from solidfield.report.scoring import judge
from solidfield.report.targets import reading_targets

STEPS, MEMBERS, STD = 3, 20, (5.0,)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return dated_store(tmp_path_factory.mktemp("rolled") / "run" / "pairs.zarr")


@pytest.fixture(scope="module")
def run(store):
    return fitted_run(store.path.parent, store, "kriging")


@pytest.fixture(scope="module")
def models(run, store):
    return contenders(run, store, ("persistence", "nearest", "climatology"))


@pytest.fixture(scope="module")
def rolled(models, run, store):
    return judge_rollouts(models, run, store, STEPS, STD, MEMBERS)


def after(table, step, model, region="all"):
    return table.one(model=model, lead=step, region=region, rolled=True)


def test_a_chain_is_every_row_of_frames_that_were_all_held_out(store) -> None:
    test = [int(i) for i in store.split("test") if store.columns["lead"][i] == 1]
    begins = {int(store.columns["frame_source"][i]): i for i in test}
    expected = set()
    for frame, first in begins.items():
        row = [begins.get(frame + step) for step in range(STEPS)]
        if None not in row:
            expected.add((first, *row[1:]))
    found = chains(store, 1, STEPS)
    assert {tuple(row) for row in found.tolist()} == expected
    assert len(found) == len(expected) > 0


def test_the_first_step_is_the_forecast_itself(models, run, store, rolled) -> None:
    first = chains(store, 1, STEPS)[:, 0]
    targets = reading_targets(store, first, run.never_supervised.numpy())
    drawn = {m.name: draw_targets(m, store, [targets], MEMBERS).members[0] for m in models if m.name != "nearest"}
    for score in judge(targets, drawn, store, STD).select(region="all"):
        assert after(rolled, 1, score.model)["crps"].mean == pytest.approx(score["crps"].mean, rel=1e-4)


def test_persistence_stays_what_was_read_first(models, store, rolled) -> None:
    """Its error after each step by hand: the map of the first source against the readings of the step."""
    rows = chains(store, 1, STEPS)
    persistence = next(model for model in models if model.name == "persistence")
    source = persistence.scaling.standardise(store.batch(rows[:, 0]).source)
    maps = persistence.scaling.restore(persistence.model.sample(source, 1, None))[0].numpy()
    for step, lead in enumerate(rolled.leads):
        target = store.batch(rows[:, step]).target
        error = np.abs(maps - target.values.numpy())[target.mask.numpy()].mean()
        assert after(rolled, step + 1, "persistence")["crps"].mean == pytest.approx(error, rel=1e-5)
        assert (lead.lead, lead.ahead) == (step + 1, f"{6 * (step + 1)} hours ahead")


def test_a_cell_was_seen_if_the_first_source_read_it(store, rolled) -> None:
    rows = chains(store, 1, STEPS)
    given = store.batch(rows[:, 0]).source.mask
    for step in range(STEPS):
        seen = int((store.batch(rows[:, step]).target.mask & given).sum())
        assert after(rolled, step + 1, "kriging", "seen").cells == seen


def test_what_is_read_on_the_way_is_kept_from_every_model(models, run, store, monkeypatch) -> None:
    opened, batch = set(), type(store).batch
    monkeypatch.setattr(type(store), "batch", lambda self, indices: opened.update(indices) or batch(self, indices))
    judge_rollouts(models, run, store, STEPS, STD, MEMBERS)
    assert opened == set(chains(store, 1, STEPS)[:, 0])


def test_errors_grow_and_the_report_says_so(run, store, rolled) -> None:
    growing = [after(rolled, step, "kriging")["crps"].mean for step in (1, 2, 3)]
    assert growing == sorted(growing)  # an AR(1) field is the less known the farther ahead
    found = evaluate_run(run, store, rivals=("persistence",), members=MEMBERS, steps=STEPS)
    words = found.verdict
    assert any(line.startswith("18 hours ahead:") for line in words.worth)
    assert any(line.startswith("18 hours ahead: the 90 % intervals hold") for line in words.honest)
    assert "rolled" in [picture.name for picture in pictures(found)]
    text = page(found.table, words, [], "")
    for lead in rolled.leads:
        assert f">{lead.ahead}<" in text
        assert f">{after(rolled, lead.lead, 'persistence')['crps'].mean:.3g}<" in text


def test_more_steps_than_were_held_out_in_a_row_are_an_error(models, run, store) -> None:
    with pytest.raises(SolidError, match=r"no 9 test examples in a row.*fewer steps"):
        judge_rollouts(models, run, store, 9, STD, MEMBERS)
