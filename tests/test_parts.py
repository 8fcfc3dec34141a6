"""What the default is made of: a part that is left out is left out, for a while, and nothing else changes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import torch

from airfiles import write_kolkata
from solidfield.experiments.bench import kolkata_day, parts
from solidfield.experiments.cell import Place
from solidfield.experiments.schemes import SCHEMES
from solidfield.models import solid_set


def test_every_change_names_what_is_there():
    cells = parts.parts_cells()
    assert len({cell.key for cell in cells}) == len(cells) == 2 * 7 + 2 * 9
    assert {cell.sheet for cell in cells} == {"parts"}
    assert set(parts.SCHEMES) < set(SCHEMES)
    for change in parts.CHANGES.values():
        assert all(hasattr(solid_set, name) for name in change.constants)


def test_a_part_is_left_out_of_training_and_nothing_else_is(tmp_path, monkeypatch):
    write_kolkata(tmp_path, days=12)
    contest = parts.kolkata_contest(tmp_path)
    monkeypatch.setitem(parts.CONTESTS, "kolkata", lambda folder: contest)
    seen, names = {}, ("FEW", "AROUND", "LIKELIHOOD")

    def trained(record, plan, *others, options, training):
        seen["options"], seen["training"] = options, training
        seen["constants"] = {name: getattr(solid_set, name) for name in names}
        seen["plan"], seen["calendar"] = plan, record.calendar
        seen["model"] = SimpleNamespace(stretch=torch.full((3,), 1.5))
        return seen["model"], SimpleNamespace(scaling=None), 1.0

    def laws(model, scaling, record, frame, cell, plan):
        return {"solid": np.full((9, len(frame)), 30.0) + np.arange(9)[:, None]}

    monkeypatch.setattr(parts, "trained_on_questions", trained)
    monkeypatch.setattr(parts, "laws_at", laws)
    usual, results = {name: getattr(solid_set, name) for name in names}, []
    for name, change in parts.CHANGES.items():
        cell = parts.SetPart("kolkata", name, 2.0)
        results.append(cell.measure(Place(tmp_path / "work", tmp_path)) | {"cell": cell.as_dict()})
        assert seen["constants"] == usual | dict(change.constants)
        assert seen["plan"] == replace(kolkata_day.PLAN, **change.plan)
        assert (seen["calendar"] is not None) == change.calendar
        assert (seen["options"], seen["training"]) == (change.options, change.training)
        assert usual == {name: getattr(solid_set, name) for name in names}
        assert (seen["model"].stretch == change.after.get("stretch", 1.5)).all()
    for header, rows in parts.tables(results):
        assert header[0] in ("kolkata, gap, ug/m3", "kolkata, never read, ug/m3")
        assert [row[0] for row in rows] == list(parts.CHANGES)
        assert {row[-1] for row in rows} == {"1.000"}  # the same laws for all
