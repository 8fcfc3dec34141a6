"""Climatology, persistence, inverse distance and splines as forecasters."""

import pytest
import safetensors.torch
import torch

import contract
from solidfield.errors import SolidError
from solidfield.fields import Pair, Source, Target
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.models.classical import Climatology, InverseDistance, Nearest, Persistence, RadialBasis
from solidfield.models.kriging import Kriging
from solidfield.noise import MemberNoise
from solidfield.theory.covariance import collect, mean_field
from solidfield.theory.interpolate import inverse_distance, nearest, radial_basis

MODELS = [Climatology, Persistence, Nearest, InverseDistance, RadialBasis, Kriging]
READERS = MODELS[1:]  # climatology ignores the readings


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("model", MODELS)
def test_unobserved_values_reach_nothing(model):
    contract.blind_off_the_masks(model)


@pytest.mark.parametrize("model", MODELS)
def test_same_noise_same_members(model):
    contract.same_input_same_output(model)
    contract.members_are_their_own(model)


@pytest.mark.parametrize("model", READERS)
def test_reads_several_channels(model):
    contract.reads_channels_and_covariates(model)


@pytest.mark.parametrize("model", READERS)
def test_beats_climatology_on_an_easy_world(model):
    contract.learns_an_easy_world(model, steps=0, lr=0.0)


@pytest.mark.parametrize("model", MODELS)
def test_a_fitted_model_survives_saving(model):
    """Into a model that was never fitted, and with two leads where it started with one."""
    spec = contract.make_spec()
    made, fresh = model(spec), model(spec)
    pairs = [contract.make_pair(spec, batch=8, seed=seed) for seed in range(4)]
    pairs[0] = Pair(Source(pairs[0].source.values, pairs[0].source.mask, torch.full((8,), 3.0)), pairs[0].target)
    made.fit(iter(pairs))
    fresh.load_state_dict(safetensors.torch.load(safetensors.torch.save(made.state_dict())))
    source = pairs[0].source
    assert torch.equal(contract.evaluated(made, source), contract.evaluated(fresh, source))


@pytest.mark.parametrize("model", MODELS)
def test_fitting_does_not_depend_on_the_batches(model):
    spec = contract.make_spec()
    pairs = [contract.make_pair(spec, batch=8, seed=seed) for seed in range(4)]
    several, once = model(spec), model(spec)
    several.fit(pairs)
    once.fit([collect(pairs)])
    for name, buffer in several.state_dict().items():
        assert torch.equal(buffer, once.state_dict()[name]), name


def observed(field: torch.Tensor, share: float = 0.3, lead: float = 1.0) -> Pair:  # (N, 1, H, W)
    score = torch.rand(field.shape, generator=torch_generator("observed"))
    source = Source.of(field, score < share, torch.full((len(field),), lead))
    return Pair(source, Target.of(field, score > 1 - share))


def test_climatology_draws_the_law_of_the_targets():
    """An exponential law of mean 1: mean, spread and tail of the members are its own, skewed as it is."""
    spec = Spec(Grid((16, 16)))
    field = -torch.rand(200, 1, 16, 16, generator=torch_generator("law")).clamp(min=1e-6).log()
    pair = observed(field)
    model = Climatology(spec)
    model.fit([pair])
    draws = model.sample(pair.source[:4], 100, MemberNoise(0, range(4), range(100)))
    assert float(draws.mean()) == pytest.approx(1.0, abs=0.03)
    assert float(draws.std()) == pytest.approx(1.0, abs=0.03)
    assert float((draws > 3).float().mean()) == pytest.approx(0.0498, abs=0.005)
    assert draws.min() >= pair.target.values[pair.target.mask].min() - 0.05


def test_a_mean_by_row_is_found_where_there_is_one_and_only_there():
    generator = torch_generator("rows")
    noise = torch.randn(400, 12, 10, generator=generator)
    mask = torch.rand(400, 12, 10, generator=generator) < 0.2
    plain = mean_field(torch.where(mask, noise, 0.0), mask)
    assert torch.equal(plain, plain[:1, :1].expand(12, 10))
    rows = torch.cos(torch.arange(12.0))[:, None].expand(12, 10)
    found = mean_field(torch.where(mask, noise + rows, 0.0), mask)
    assert torch.equal(found, found[:, :1].expand(12, 10))
    torch.testing.assert_close(found.float(), rows.contiguous(), atol=0.15, rtol=0)


def test_climatology_knows_the_mean_of_a_cell():
    spec = Spec(Grid((8, 8)))
    level = 3 * torch.randn(8, 8, generator=torch_generator("level"))
    pair = observed(level + torch.randn(400, 1, 8, 8, generator=torch_generator("weather")))
    model = Climatology(spec)
    model.fit([pair])
    members = model.sample(pair.source[:1], 400, MemberNoise(0, [0], range(400)))
    torch.testing.assert_close(members.mean((0, 1, 2)), level, atol=0.45, rtol=0)
    assert float(members.std(0).mean()) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("model", [Persistence, Nearest])
def test_persistence_is_the_nearest_reading_at_any_lead(model):
    spec = Spec(Grid.box(9, 9, 1.0))
    for lead in (0.0, 1.0, 7.0):
        source = observed(torch.randn(2, 1, 9, 9, generator=torch_generator("p")), 0.1, lead).source
        members = model(spec).sample(source, 3, MemberNoise(0, range(2), range(3)))
        for b in range(2):
            expected = nearest(source.values[b, 0], source.mask[b, 0], (True, True), spec.grid.spacing)
            assert torch.equal(members[:, b, 0], expected.expand(3, 9, 9))


def test_settings_are_those_with_the_least_error():
    """A power and a smoothing by exhaustive trial; smooth fields want no smoothing, noisy ones do."""
    spec = Spec(Grid.box(12, 12, 1.0))
    smooth = contract.easy_fields(spec, 24, 0)
    noisy = smooth + torch.randn(smooth.shape, generator=torch_generator("noisy"))
    for field in (smooth, noisy):
        pair = observed(field)
        for model, method, option, ladder in (
            (InverseDistance(spec), inverse_distance, "power", InverseDistance.POWERS),
            (RadialBasis(spec), radial_basis, "smoothing", RadialBasis.SMOOTHINGS),
        ):
            model.fit([pair])
            errors = []
            for setting in ladder:
                error = 0.0
                for b in range(24):
                    x, m = pair.source.values[b, 0], pair.source.mask[b, 0]
                    guess = method(x, m, (True, True), spec.grid.spacing, **{option: setting})
                    error += float((guess - field[b, 0])[pair.target.mask[b, 0]].abs().sum())
                errors.append(error)
            chosen = model.powers if option == "power" else model.smoothings
            assert float(chosen) == pytest.approx(ladder[errors.index(min(errors))])
            if field is smooth and option == "smoothing":
                assert float(chosen) == 0.0
            if field is noisy and option == "smoothing":
                assert float(chosen) > 0.0


def test_no_target_reading_is_an_error_that_says_so():
    spec = contract.make_spec()
    pair = contract.make_pair(spec)
    empty = Pair(pair.source, Target.of(pair.target.values, torch.zeros_like(pair.target.mask)))
    with pytest.raises(SolidError, match="no target reading"):
        Climatology(spec).fit([empty])
