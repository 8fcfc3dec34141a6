"""`solid`, beyond the contract of every model: one encoder pass, pinned readings, the overlap weight."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import contract
from solidfield.fields import Pair, Source, Target
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.keys import numpy_generator, torch_generator
from solidfield.models.queries import coordinate_channels, in_patches
from solidfield.models.solid import Solid, stretch_asked_by, stretch_at_new_cells
from solidfield.models.solid_onepass import SolidOnepass
from solidfield.models.solid_paper import SolidPaper
from solidfield.noise import MemberNoise
from solidfield.theory.law import interpolate

LAWS = ["mixture", "diffusion"]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("shape", "wraps"), [((32, 32), True), ((21, 20), False)])
def test_finite_on_any_grid(law, shape, wraps):
    contract.finite_on(Solid, shape, wraps, law=law, patch=2)


def test_the_diffusion_law_learns_an_easy_world():
    contract.learns_an_easy_world(Solid, steps=150, lr=2e-3, law="diffusion", prior="none")


def made(**options):
    spec = contract.make_spec()
    return contract.build(Solid, spec, **options).eval(), contract.make_pair(spec)


def at_lead(pair: Pair, lead: float) -> Pair:
    source = pair.source
    return Pair(Source(source.values, source.mask, torch.full_like(source.lead, lead)), pair.target)


@pytest.mark.parametrize("law", LAWS)
def test_few_members_are_those_of_many_and_need_no_table(law, monkeypatch):
    model, pair = made(law=law)
    many = model.sample(pair.source, 3, MemberNoise(0, range(len(pair)), range(3)))
    monkeypatch.setattr(model.law, "table", None)
    few = model.sample_few(pair.source, 3, MemberNoise(0, range(len(pair)), range(3)))
    torch.testing.assert_close(few, many, atol=0.01, rtol=0)


def test_any_number_of_members_costs_one_encoder_pass():
    model, pair = made()
    passes = []
    model.encoder.register_forward_hook(lambda *_: passes.append(1))
    model.sample(pair.source, 50, MemberNoise(0, range(len(pair)), range(50)))
    assert len(passes) == 1


def test_readings_are_pinned_at_lead_0_and_free_at_lead_1():
    model, pair = made()
    noise = lambda: MemberNoise(0, range(len(pair)), range(3))  # noqa: E731
    mask, values = pair.source.mask, pair.source.values
    now = model.sample(at_lead(pair, 0.0).source, 3, noise())
    later = model.sample(at_lead(pair, 1.0).source, 3, noise())
    assert all(torch.equal(member[mask], values[mask]) for member in now)
    assert not torch.equal(later[0][mask], values[mask])


def test_readings_with_an_error_are_honoured_within_it():
    model, pair = made(obs_std=0.3)
    K = 2000
    now = model.sample(at_lead(pair, 0.0).source, K, MemberNoise(0, range(len(pair)), range(K)))
    off = now[:, pair.source.mask] - pair.source.values[pair.source.mask]
    assert abs(float(off.std()) - 0.3) < 0.01
    assert off.mean().abs() < 0.01


def test_the_overlap_weight_is_exactly_1_plus_lambda():
    """With every target also a sensor the loss grows by 1 + lambda; with none it does not change."""
    _, pair = made()
    overlapping = Pair(at_lead(pair, 1.0).source, Target.of(pair.source.values + 1, pair.source.mask))
    apart = Pair(overlapping.source, Target.of(pair.target.values, pair.target.mask & ~pair.source.mask))
    for example, factor in ((overlapping, 1.5), (apart, 1.0)):
        plain, weighted = (
            contract.build(Solid, contract.make_spec(), lam=lam).eval().loss(example, torch_generator(0))
            for lam in (0.0, 0.5)
        )
        torch.testing.assert_close(weighted, factor * plain, rtol=1e-5, atol=1e-6)


def test_concluding_gives_neighbours_the_dependence_they_show():
    """A field that is one random level everywhere: after the fit, distant members must move together."""
    spec = contract.make_spec()
    model = contract.build(Solid, spec, copula="stationary").eval()

    def level(seed):
        pair = contract.make_pair(spec, batch=8, seed=seed)
        values = torch.randn(8, 1, 1, 1, generator=torch_generator(seed)).expand_as(pair.target.values)
        return at_lead(Pair(pair.source, Target.of(values, pair.target.mask)), 1.0)

    pairs = [level(seed) for seed in range(6)]
    source = pairs[0].source

    def neighbours():
        z = model.copula(source, MemberNoise(0, range(8), range(200)))[:, 0, 0]
        return float(torch.corrcoef(torch.stack([z[:, 4, 4], z[:, 4, 6]]))[0, 1])

    before = neighbours()
    model.conclude(pairs, torch.zeros(1, *spec.grid.shape, dtype=torch.bool))
    assert neighbours() > max(0.8, before)


@pytest.mark.parametrize("lead", [0.0, 1.0])
def test_laws_are_as_wide_as_held_out_targets_ask(lead):
    """With targets more scattered than the laws say, intervals of that kind of cell and lead become as much wider."""
    spec = contract.make_spec()
    model = contract.build(Solid, spec, copula="independent").eval()
    pair = at_lead(contract.make_pair(spec, batch=64, seed=0), lead)
    strange = torch.zeros(1, *spec.grid.shape, dtype=torch.bool)
    strange[:, :, :4] = True

    def conclude(known, unknown, never):
        """The spread after a conclusion from targets so many times as scattered, over the spread before it."""
        scatter = torch.where(strange, unknown, known)
        noise = torch.randn(pair.target.values.shape, generator=torch_generator(1)) * scatter
        with torch.no_grad():
            features, location, scale = model.encode(pair.source)
            table = model.law.table(features.movedim(1, -1).flatten(0, 2))
            u = interpolate(table, noise.movedim(1, -1).flatten(0, 2)[None])[0]
            values = location + scale * u.unflatten(0, (64, *spec.grid.shape)).movedim(-1, 1)
        taught = Pair(pair.source, Target.of(values, torch.ones_like(pair.target.mask)))
        model.stretch.fill_(1.0)
        before = drawn()
        model.conclude([taught], never)
        ratio = (drawn().std(0) / before.std(0)).where(before.std(0) > 0, torch.nan)
        return float(ratio[:, ~strange].nanmean()), float(ratio[:, strange].nanmean())

    def drawn():
        return model.sample(pair.source, 100, MemberNoise(0, range(64), range(100)))

    assert conclude(0.5, 0.5, torch.zeros_like(strange)) == pytest.approx((0.5, 0.5), rel=0.1)
    assert conclude(1.0, 2.0, strange) == pytest.approx((1.0, 2.0), rel=0.1)
    assert conclude(1.5, 1.0, strange) == pytest.approx((1.5, 1.5), rel=0.1)  # unread cells are not the surer ones
    assert (model.stretch[:, 0 if lead else 1] == 1.0).all()  # the other lead has no target


@pytest.mark.parametrize(
    ("halves", "expected"),
    [((0.8, 0.9), 0.9), ((0.8, 1.05), 1.0), ((1.1, 1.3), 1.2), ((0.9, 1.4), 1.15)],
)
def test_laws_become_narrower_only_as_far_as_both_halves_of_the_targets_ask(halves, expected):
    latents = torch.randn(2, 40_000, generator=torch_generator(0)) * torch.tensor(halves)[:, None]
    assert stretch_asked_by(latents.abs().flatten().numpy()) == pytest.approx(expected, abs=0.03)


def test_few_calibration_cells_ask_for_what_holds_90_percent_at_a_cell_that_was_not_among_them():
    """Cells of different scale: over many draws of six of them, new cells are held as often as promised."""
    generator = numpy_generator(0, "strangers")
    others = np.exp(0.5 * generator.standard_normal(2000))
    held = []
    for _ in range(300):
        scales = np.repeat(np.exp(0.5 * generator.standard_normal(6)), 30)
        sizes, cells = np.abs(scales * generator.standard_normal(180)), np.repeat(np.arange(6), 30)
        stretches = stretch_asked_by(sizes), stretch_at_new_cells(sizes, cells)
        held.append([math.erf(1.645 * s / math.sqrt(2) / scale) for s in stretches for scale in others[:50]])
        others = np.roll(others, 50)
    pooled, new = np.array(held).reshape(300, 2, 50).mean((0, 2))
    assert new == pytest.approx(0.9, abs=0.012)
    assert pooled < new - 0.01  # what they ask together is too little


def test_memory_is_how_far_latents_last_between_targets_a_step_apart():
    """Targets made from latents of known correlation at the same cells of two queries."""
    spec = contract.make_spec()
    model = contract.build(Solid, spec, copula="independent").eval()

    def targets_from(pair, latents):
        with torch.no_grad():
            features, location, scale = model.encode(pair.source)
            u = interpolate(model.law.table(features.movedim(1, -1).flatten(0, 2)), latents.flatten()[None, :, None])
        values = location + scale * u.view_as(location)
        return Pair(pair.source, Target.of(values, pair.target.mask))

    def memory(correlation, followed=True, batch=64):
        first, second = (at_lead(contract.make_pair(spec, batch=batch, seed=seed), 1.0) for seed in (0, 1))
        z, new = torch.randn(2, *first.target.values.shape, generator=torch_generator(5))
        after = correlation * z + (1 - correlation**2) ** 0.5 * new
        examples = [(targets_from(first, z), targets_from(second, after))] if followed else []
        model.conclude([first], torch.zeros(1, *spec.grid.shape, dtype=torch.bool), examples)
        return float(model.memory), int((first.target.mask & second.target.mask).sum())

    assert memory(0.8)[0] == pytest.approx(0.8, abs=0.1)
    assert memory(0.3)[0] == pytest.approx(0.3, abs=0.1)
    assert memory(-0.5)[0] == 0.0  # noise is never turned round
    assert memory(0.8, followed=False)[0] == 0.0
    found, twice = memory(1.0, batch=2)
    assert found == pytest.approx(twice / (twice + 11), rel=0.02)  # so few are believed in part


def test_patches_are_a_rearrangement():
    """Through the identity, folding cells into channels and back changes nothing, on even and on ragged grids."""
    for shape in ((8, 8), (7, 9)):
        x = torch.randn(2, 3, *shape)
        torch.testing.assert_close(in_patches(torch.nn.Identity(), x, 2), x)


def test_coordinates_tell_cells_apart_and_wrap_where_the_grid_does():
    closed = coordinate_channels(contract.make_spec(periodic=False)).flatten(1)
    wrapped = coordinate_channels(contract.make_spec(periodic=True))
    assert len(torch.unique(closed, dim=1).T) == closed.shape[1]
    step_inside = (wrapped[:, 1] - wrapped[:, 0]).norm()
    step_across = (wrapped[:, 0] - wrapped[:, -1]).norm()
    torch.testing.assert_close(step_inside, step_across)


def test_coordinates_tell_nothing_along_an_axis_on_which_the_world_repeats_itself():
    box = Grid.box(32, 16, 1.0)
    for shifts, cells in (((0, 0), 32 * 16), ((16, 0), 16), ((0, 1), 32)):
        told = torch.unique(coordinate_channels(Spec(box, shifts=shifts)).flatten(1).T.round(decimals=4), dim=0)
        assert len(told) == cells
    assert len(coordinate_channels(Spec(box, shifts=(16, 1)))) == 0


@pytest.mark.parametrize(("model", "net"), [(Solid, "encoder"), (SolidOnepass, "generator"), (SolidPaper, "net")])
def test_position_says_nothing_before_training_and_readings_do(model, net):
    """What the first layer hears of a new network is the same wherever its cells are said to be."""
    made = contract.build(model, contract.make_spec(periodic=False), coordinates=True).eval()
    heard = []
    getattr(made, net).stem.register_forward_hook(lambda module, inputs, output: heard.append(output))
    source = contract.make_pair(made.spec, batch=2, seed=0).source

    def first_heard(query):
        heard.clear()
        made.sample(query, 1, MemberNoise(0, range(2), range(1)))
        return heard[0]

    before, doubled = first_heard(source), first_heard(replace(source, values=2 * source.values))
    made.place += 10
    torch.testing.assert_close(first_heard(source), before)
    assert not torch.allclose(doubled, before)
