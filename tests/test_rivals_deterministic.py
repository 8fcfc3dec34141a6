"""The five deterministic rivals and the UNet with a mixture head: sizes, and the laws of each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import contract
from solidfield.errors import SolidError
from solidfield.fields import Pair, Source, Target
from solidfield.forecast import Forecaster, Spec
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.models.ffno import FFNO, factorised, spectral_map
from solidfield.models.oformer import OFormer, galerkin_attention, normalise_tokens
from solidfield.models.omnifield import OmniField
from solidfield.models.scent import Scent, random_reads
from solidfield.models.unet import UNet
from solidfield.models.unet_mixture import UNetMixture
from solidfield.nn.coords import unit_coordinates
from solidfield.nn.tokens import tokens_at
from solidfield.theory.mixture_law import LEAST_SCALE

RIVALS = [UNet, FFNO, OFormer, OmniField, Scent, UNetMixture]
TOKEN_RIVALS = [OFormer, OmniField, Scent]
each_rival = pytest.mark.parametrize("model", RIVALS, ids=lambda model: model.name)


def normal(*shape: int, key: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch_generator(key, "test"))


# ---- the contract, where an option changes the network (test_contract.py has the rest)


@pytest.mark.parametrize("model", [UNet, UNetMixture], ids=lambda model: model.name)
def test_finite_with_wrapping_convolutions(model: type[Forecaster]):
    contract.finite_on(model, (21, 20), True, periodic=True)


@each_rival
def test_the_contract_holds_with_a_mask_channel(model: type[Forecaster]):
    contract.every_parameter_learns(model, mask_channel=True)
    contract.reads_channels_and_covariates(model, mask_channel=True)


# ---- sizes


@pytest.mark.parametrize(
    ("model", "count", "tolerance"),
    [
        (UNet, 466_593, 0),
        (FFNO, 535_746, 0),
        (OFormer, 2_662_849, 0),
        (OmniField, 10_272_327, 0.005),
        (Scent, 28_988_739, 0.005),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_paper_size_has_the_paper_count(model: type[Forecaster], count: int, tolerance: float):
    made = model(Spec(Grid.box(64, 64, 2 * math.pi)), **model.SIZES["paper"])
    assert abs(made.parameter_count() - count) <= tolerance * count


@each_rival
def test_laptop_size_is_small(model: type[Forecaster]):
    made = model(Spec(Grid.box(32, 32, math.pi)), **model.SIZES["laptop"])
    assert 0.1e6 < made.parameter_count() < 1e6


@pytest.mark.parametrize(("model", "extra"), [(UNet, 288), (FFNO, 64), (OFormer, 0), (OmniField, 0), (Scent, 0)])
def test_mask_channel_adds_one_input(model: type[Forecaster], extra: int):
    """For one variable; a list of sensors is its own mask."""
    spec = Spec(Grid.box(64, 64, 2 * math.pi))
    without, with_mask = (model(spec, **model.SIZES["paper"], mask_channel=on) for on in (False, True))
    assert with_mask.parameter_count() - without.parameter_count() == extra


def test_ffno_has_no_more_modes_than_an_axis_has_bins():
    """21 x 20 cells have 11 bins along both axes; eight more cells have 15."""
    spec = contract.make_spec((21, 20), periodic=False)
    assert FFNO(spec, **FFNO.SIZES["paper"], margin=0).parameter_count() == 322_754
    assert [r.shape[2] for r in FFNO(spec, **FFNO.SIZES["paper"]).spectral] == [15, 15]


# ---- the family


def mixture_of(made: UNetMixture, source: Source) -> torch.distributions.MixtureSameFamily:  # of (B, C, H, W)
    """The law of every cell as torch has it."""
    with torch.no_grad():
        parts = made.law.parts(made.encode(source).movedim(1, -1))  # three of (B, H, W, C, J)
    log_pi, mu, s = (part.movedim(-2, 1) for part in parts)
    components = torch.distributions.Normal(mu, s)
    return torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=log_pi), components)


@each_rival
def test_loss_is_the_mean_over_observed_targets(model: type[Forecaster]):
    """Per example a sum over M_o divided by its count, averaged over examples."""
    spec = contract.make_spec()
    made = contract.build(model, spec).eval()
    pair = contract.make_pair(spec)
    source, target = pair.source, pair.target
    with torch.no_grad():
        if isinstance(made, UNetMixture):
            term = -mixture_of(made, source).log_prob(target.values) - 0.5 * math.log(2 * math.pi)
        else:
            made.reads = 1000  # SCENT's random reading of sensors would make the two passes differ
            term = (made.forecast(source) - target.values).square()
        rows = [term[b][target.mask[b]].mean() for b in range(len(pair))]
        loss = made.loss(pair, torch_generator(0))
    torch.testing.assert_close(loss, torch.stack(rows).mean())


@pytest.mark.parametrize("model", TOKEN_RIVALS, ids=lambda model: model.name)
def test_point_models_answer_where_asked(model: type[Forecaster]):
    spec = contract.make_spec()
    made = contract.build(model, spec).eval()
    pair = contract.make_pair(spec)
    cells = pair.target.mask.any(1)
    some, everywhere = made.forecast(pair.source, cells), made.forecast(pair.source)
    torch.testing.assert_close(some, torch.where(cells[:, None], everywhere, 0.0))


def test_wrong_covariates_are_named():
    made = contract.build(UNet, contract.make_spec(covariates=2))
    with pytest.raises(SolidError, match="0 covariates, the model was built for 2"):
        made.sample(contract.make_pair(contract.make_spec()).source, 1, lambda shape: torch.zeros(1, 3, *shape))


# ---- UNet


def rolled(source: Source, shift: tuple[int, int]) -> Source:
    return source.map(lambda t: t.roll(shift, (-2, -1)) if t.ndim == 4 else t)


def test_wrapping_unet_commutes_with_shifts_of_a_pooling_cell():
    spec = contract.make_spec((16, 24))
    source = contract.make_pair(spec).source
    wrapping = contract.build(UNet, spec, periodic=True).eval()
    closed = contract.build(UNet, spec).eval()
    shift = (4, -8)
    expected = wrapping.forecast(source).roll(shift, (-2, -1))
    torch.testing.assert_close(wrapping.forecast(rolled(source, shift)), expected)
    assert not torch.allclose(closed.forecast(rolled(source, shift)), closed.forecast(source).roll(shift, (-2, -1)))


# ---- UNet with a mixture head


def test_mixture_members_have_the_mixture_moments():
    spec = contract.make_spec((6, 6))
    made = contract.build(UNetMixture, spec)
    contract.descend(made, [contract.make_pair(spec, seed=seed) for seed in range(20)], lr=1e-2)
    source = contract.make_pair(spec, batch=1).source
    members = contract.evaluated(made, source, range(4000))
    law = mixture_of(made, source)
    mean, variance = law.mean, law.variance
    assert law.component_distribution.scale.min() > LEAST_SCALE
    assert ((members.mean(0) - mean).abs() < 5 * (variance / 4000).sqrt()).all()
    torch.testing.assert_close(members.var(0).mean(), variance.mean(), rtol=0.03, atol=0)


# ---- FFNO


@pytest.mark.parametrize(("height", "width"), [(8, 6), (7, 9)])
def test_spectral_operator_is_the_explicit_transform(height: int, width: int):
    """Against sums over cos and sin, for even and odd lengths."""
    x = normal(2, height, width, 3).double()
    weights = [normal(3, 4, modes, 2, key=modes).double() for modes in (3, 2)]  # (y, x)
    expected = torch.zeros(2, height, width, 4, dtype=torch.float64)
    for axis, length, weight in ((1, height, weights[0]), (2, width, weights[1])):
        r = torch.view_as_complex(weight)
        place = torch.arange(length, dtype=torch.float64)
        for mode in range(weight.shape[2]):
            wave = torch.exp(-2j * math.pi * mode * place / length)
            coefficient = torch.tensordot(x.to(wave.dtype), wave, dims=([axis], [0])) @ r[:, :, mode]  # (B, other, O)
            part = (
                coefficient.unsqueeze(axis) * wave.conj().reshape([-1 if a == axis else 1 for a in range(4)]) / length
            )
            expected += part.real * (1 if mode == 0 else 2)
    torch.testing.assert_close(factorised(x, *weights), expected)


@pytest.mark.parametrize(("length", "modes"), [(12, 7), (12, 4), (9, 5), (1, 1)])
def test_spectral_map_is_the_truncated_fft(length: int, modes: int):
    """Up to all bins, where the fastest mode of an even length is its own mirror image."""
    x, weight = normal(2, length, 3, 4).double(), normal(4, 5, modes, 2, key=1).double()
    low = torch.fft.rfft(x, dim=1)[:, :modes]
    mixed = torch.einsum("bmni,iom->bmno", low, torch.view_as_complex(weight))
    expected = torch.fft.irfft(mixed, n=length, dim=1)
    torch.testing.assert_close(spectral_map(x, weight, 1), expected)
    torch.testing.assert_close(spectral_map(x.transpose(1, 2), weight, 2), expected.transpose(1, 2))


def test_spectral_map_commutes_with_shifts_and_drops_high_modes():
    x = normal(2, 12, 10, 3)
    weight = normal(3, 3, 4, 2, key=1)
    for axis in (1, 2):
        torch.testing.assert_close(
            spectral_map(x.roll(3, axis), weight, axis), spectral_map(x, weight, axis).roll(3, axis)
        )
    high = torch.cos(2 * math.pi * 5 * torch.arange(12) / 12)[None, :, None, None].expand(1, 12, 10, 3)
    torch.testing.assert_close(spectral_map(high, weight, 1), torch.zeros(1, 12, 10, 3), rtol=0, atol=1e-5)


# ---- OFormer


def test_token_norm_is_instance_norm_over_real_tokens():
    x = normal(2, 3, 6, 4)
    keys = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    out = normalise_tokens(x, keys)
    for b, count in ((0, 6), (1, 4)):
        expected = torch.nn.functional.instance_norm(x[b : b + 1, :, :count].transpose(2, 3).flatten(1, 2))
        torch.testing.assert_close(out[b, :, :count].transpose(1, 2).flatten(0, 1), expected[0])
    assert not out[1, :, 4:].any()


def test_one_token_or_none_adds_nothing():
    q, k, v = normal(2, 1, 3, 8), normal(2, 1, 2, 8, key=1), normal(2, 1, 2, 8, key=2)
    keys = torch.tensor([[True, False], [False, False]])
    here = torch.zeros(2, 3, 2), torch.zeros(2, 2, 2)
    assert torch.equal(galerkin_attention(q, k, v, *here, keys, 1.0), torch.zeros(2, 1, 3, 8))


# ---- models that read lists of sensors


@pytest.mark.parametrize("model", TOKEN_RIVALS, ids=lambda model: model.name)
def test_answers_ignore_the_order_of_sensors_and_the_padding(model: type[Forecaster], monkeypatch):
    """Reversing the slots, and appending empty ones, leaves the forecast as it was."""
    spec = contract.make_spec()
    made = contract.build(model, spec).eval()
    source = contract.make_pair(spec).source
    expected = made.forecast(source)

    def reversed_and_padded(features: Tensor, mask: Tensor, coordinates: Tensor):
        plain = tokens_at(features, mask, coordinates)
        empty = 5

        def change(t: Tensor) -> Tensor:
            return torch.cat([t, t.new_zeros(t.shape[0], empty, *t.shape[2:])], dim=1).flip(1)

        parts = (plain.features, plain.positions, plain.keys, plain.index)
        return type(plain)(*map(change, parts), plain.shape)

    monkeypatch.setattr("solidfield.models.regression.tokens_at", reversed_and_padded)
    torch.testing.assert_close(made.forecast(source), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", TOKEN_RIVALS, ids=lambda model: model.name)
def test_an_example_does_not_see_the_rest_of_its_batch(model: type[Forecaster]):
    """Others have more sensors, so that its list is padded; alone it is not."""
    spec = contract.make_spec()
    made = contract.build(model, spec).eval()
    few, many = (
        contract.make_pair(spec, "one", batch=1).source,
        contract.make_pair(spec, "all", batch=1).source,
    )
    both = Source(*(torch.cat([getattr(few, n), getattr(many, n)]) for n in ("values", "mask", "lead")))
    torch.testing.assert_close(made.forecast(both)[:1], made.forecast(few), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [OmniField, Scent], ids=lambda model: model.name)
def test_the_lead_matters(model: type[Forecaster]):
    spec = contract.make_spec()
    made = contract.build(model, spec).eval()
    source = contract.make_pair(spec).source
    later = Source(source.values, source.mask, source.lead + 1)
    assert not torch.allclose(made.forecast(source), made.forecast(later))


def test_random_reads_are_real_sensors_and_belong_to_the_generator():
    spec = contract.make_spec()
    source = contract.make_pair(spec).source
    mask = source.mask[:, 0].clone()
    mask[0, 6:] = False
    sensors = tokens_at(source.values, mask, unit_coordinates(spec.grid))
    reads = random_reads(sensors, 5, torch_generator(0))
    assert reads is not None
    assert reads.shape == (*sensors.keys.shape, 5)
    assert (reads < sensors.count[:, None, None]).all()
    assert (reads >= 0).all()
    assert torch.equal(reads, random_reads(sensors, 5, torch_generator(0)))
    assert random_reads(sensors, 5, None) is None


def test_scent_embeds_values_by_a_frozen_layer():
    made = contract.build(Scent, contract.make_spec())
    before = made.value.weight.clone()
    contract.descend(made, [contract.make_pair(contract.make_spec())], lr=1e-2)
    assert torch.equal(before, made.value.weight)


def test_empty_targets_give_a_finite_loss():
    spec = contract.make_spec()
    pair = contract.make_pair(spec)
    nothing = Pair(pair.source, Target.of(pair.target.values, torch.zeros_like(pair.target.mask)))
    for model in RIVALS:
        assert torch.isfinite(contract.build(model, spec).loss(nothing, torch_generator(0)))
