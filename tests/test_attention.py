"""Attention over lists of any length, cells as tokens, codes of place: closed forms and invariances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.nn.attention import Attention, chosen_attention, masked_attention
from solidfield.nn.coords import GaussianFeatures, dyadic_features, rotary, sinusoidal_codes, unit_coordinates
from solidfield.nn.tokens import tokens_at


def normal(*shape: int, key: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch_generator(key, "test"))


def test_attention_without_keys_is_zero_and_masked_keys_do_not_count():
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 5, 8, key=1), normal(2, 3, 5, 8, key=2)
    keys = torch.tensor([[True, True, False, False, False], [False] * 5])
    out = masked_attention(q, k, v, keys)
    torch.testing.assert_close(out[0], masked_attention(q[:1], k[:1, :, :2], v[:1, :, :2])[0])
    assert torch.equal(out[1], torch.zeros(3, 4, 8))


def test_attention_without_keys_has_finite_gradients():
    layer = Attention(8, 2, 4, context_dim=6)
    x, context = normal(2, 3, 8).requires_grad_(), normal(2, 5, 6, key=1).requires_grad_()
    layer(x, context, torch.zeros(2, 5, dtype=torch.bool)).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert context.grad is not None
    assert torch.equal(context.grad, torch.zeros_like(context))


def test_chosen_attention_over_every_key_is_attention():
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 5, 8, key=1), normal(2, 3, 5, 8, key=2)
    every = torch.arange(5).expand(2, 4, 5)
    torch.testing.assert_close(chosen_attention(q, k, v, every), masked_attention(q, k, v))
    one = torch.tensor([[[3], [0], [1], [1]], [[4], [2], [0], [3]]])
    expected = torch.stack([v[b][:, one[b, :, 0]] for b in range(2)])
    torch.testing.assert_close(chosen_attention(q, k, v, one), expected)


def test_tokens_are_the_cells_of_the_mask():
    features, coordinates = normal(3, 2, 4, 5), unit_coordinates(Grid((4, 5)))
    mask = normal(3, 4, 5, key=1) > 0.3
    mask[1] = False
    tokens = tokens_at(features, mask, coordinates)
    assert torch.equal(tokens.count, mask.sum((1, 2)))
    for b in range(3):
        keys = tokens.keys[b]
        assert torch.equal(tokens.features[b, keys], features[b][:, mask[b]].T)
        assert torch.equal(tokens.positions[b, keys], coordinates[mask[b]])
        assert not tokens.features[b, ~keys].any()
    assert torch.equal(tokens.to_grid(tokens.features), torch.where(mask[:, None], features, 0.0))


def test_rotary_products_depend_on_differences_alone():
    q, k = normal(1, 2, 5, 8), normal(1, 2, 5, 8, key=1)
    here, shift = normal(1, 5, 2, key=2), torch.tensor([0.3, -0.7])
    torch.testing.assert_close(
        rotary(q, here, 3.0) @ rotary(k, here, 3.0).mT,
        rotary(q, here + shift, 3.0) @ rotary(k, here + shift, 3.0).mT,
    )
    torch.testing.assert_close(rotary(q, here, 3.0).norm(dim=-1), q.norm(dim=-1))
    turned = rotary(q, here * torch.tensor([1.0, 0.0]), 3.0)
    assert torch.equal(turned[..., 4:], q[..., 4:])  # the second half belongs to x


def test_codes_have_their_closed_forms():
    u = torch.tensor([[0.25, 0.5]])
    angles = torch.tensor([0.25, 0.5, 0.5, 1.0]) * math.pi  # bands of the first coordinate, then of the second
    torch.testing.assert_close(dyadic_features(u, 2)[0], torch.cat([angles.sin(), angles.cos()]))
    codes = sinusoidal_codes(3, 4)
    torch.testing.assert_close(codes[2], torch.tensor([math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]))
    assert len({tuple(row.tolist()) for row in dyadic_features(torch.arange(9)[:, None] / 8, 7)}) == 9  # leads 0 .. 8


def test_gaussian_features_are_a_function_of_their_name():
    first, again, other = (GaussianFeatures(name, 2, 200, 15.0) for name in ("a", "a", "b"))
    assert torch.equal(first.waves, again.waves)
    assert not torch.equal(first.waves, other.waves)
    assert abs(first.waves.std() / 15 - 1) < 0.1
    assert not first.waves.requires_grad
    u = normal(3, 2)
    torch.testing.assert_close(first(u).square().sum(-1), torch.full((3,), 200.0))  # sin^2 + cos^2


def test_coordinates_close_a_periodic_axis_and_centre_a_closed_one():
    y, x = unit_coordinates(Grid((4, 5), periodic=(True, False))).unbind(-1)
    torch.testing.assert_close(y[:, 0], torch.tensor([0.0, 0.25, 0.5, 0.75]))
    torch.testing.assert_close(x[0], torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9]))
