"""Tails of laws: readings' own ends, a bend that keeps order and stops, and its inverse."""

from __future__ import annotations

import math

import pytest
import torch

from solidfield.theory.tails import FULL, bounded, ends_of, unbounded

READINGS = torch.arange(1001.0) / 100 - 5  # -5 .. 5, so the outermost per cent is 0.1 long


def test_ends_are_the_outermost_readings_and_the_way_to_them_from_the_last_per_cent():
    torch.testing.assert_close(ends_of(READINGS), torch.tensor([-5.0, 0.1, 5.0, 0.1]))


def test_within_the_readings_nothing_changes_and_beyond_them_order_stays_up_to_the_length_of_the_tail():
    ends = ends_of(READINGS)[None]
    torch.testing.assert_close(bounded(READINGS[:, None], ends)[:, 0], READINGS)
    beyond = bounded(5 + torch.linspace(0, 1, 50)[:, None], ends)[:, 0]
    assert (beyond.diff() > 0).all()
    for far in (1e6, -1e6):
        assert float(bounded(torch.tensor([[far]]), ends)) == pytest.approx(5.1 * far / abs(far), abs=1e-5)


def test_unbounded_is_the_inverse_as_far_as_float_can_tell_values_apart():
    ends = ends_of(READINGS)[None].double()
    values = torch.linspace(-5.5, 5.5, 400).double()[:, None]
    back = unbounded(bounded(values, ends)[:, 0], ends.expand(400, 4))
    torch.testing.assert_close(back, values[:, 0], rtol=1e-6, atol=1e-6)
    farthest = float(unbounded(torch.tensor([9.0]).double(), ends))
    assert farthest == pytest.approx(5 - 0.1 * math.log1p(-FULL), abs=1e-5)
