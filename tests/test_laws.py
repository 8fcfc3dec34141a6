"""A law per cell: value and latent are inverse, tables equal the full sampler, known distributions are learned."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import norm

from solidfield.errors import SolidError
from solidfield.keys import torch_generator
from solidfield.theory.diffusion_law import SPARSE, DiffusionLaw
from solidfield.theory.law import NODES, Observed, interpolate
from solidfield.theory.laws import LAWS
from solidfield.theory.mixture_law import MixtureLaw
from solidfield.theory.sample import dpmpp
from solidfield.theory.schedule import linear


def some_law(name, channels=2, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        law = LAWS[name](4, channels, **options)
        for parameter in law.parameters():  # away from the Gaussian start
            parameter.data += 0.2 * torch.randn_like(parameter)
    return law


@pytest.fixture(params=LAWS)
def law(request):
    return some_law(request.param)


def test_latent_and_value_are_inverse(law):
    generator = torch_generator(0, "inverse")
    features = torch.randn(50, 4, generator=generator)
    channel = torch.arange(50) % 2
    z = NODES[::SPARSE][5 + torch.randint(20, (50,), generator=generator)]  # there a table is exact
    both = torch.stack([z, z], dim=-1)[None]  # (1, P, C)
    with torch.no_grad():
        values = interpolate(law.table(features), both)[0][torch.arange(50), channel]
        back = law.latent(Observed(features, values, channel))
    close = 5e-3 if isinstance(law, MixtureLaw) else 2e-2  # a flow ends between nodes, where the table is linear
    torch.testing.assert_close(back, z, atol=close, rtol=0)


def test_value_is_the_inverse_of_latent(law):
    generator = torch_generator(0, "value")
    far = 4.0 if isinstance(law, MixtureLaw) else 2.5  # beyond, this law's flow leaves what a mixture can tell apart
    features, z = torch.randn(400, 4, generator=generator), torch.linspace(-far, far, 400)
    with torch.no_grad():
        values = law.value(features, z[None, :, None].expand(1, 400, 2))[0]  # (P, C)
        for channel in range(2):
            back = law.latent(Observed(features, values[:, channel], torch.full((400,), channel)))
            torch.testing.assert_close(back, z, atol=1e-3 if isinstance(law, MixtureLaw) else 5e-2, rtol=0)


def test_a_law_that_does_not_depart_is_the_normal_one_and_halfway_it_still_has_its_inverse(law):
    generator = torch_generator(0, "departure")
    features, z = torch.randn(400, 4, generator=generator), torch.linspace(-2.5, 2.5, 400)
    channel, latents = torch.arange(400) % 2, z[None, :, None].expand(1, 400, 2)
    with torch.no_grad():
        none, half, all_the_way = (torch.full((400,), far) for far in (0.0, 0.5, 1.0))
        torch.testing.assert_close(law.value(features, latents, none), latents.contiguous(), atol=1e-4, rtol=0)
        torch.testing.assert_close(law.value(features, latents, all_the_way), law.value(features, latents))
        values = law.value(features, latents, half)[0][torch.arange(400), channel]
        back = law.latent(Observed(features, values, channel, departure=half))
        torch.testing.assert_close(back, z, atol=1e-3 if isinstance(law, MixtureLaw) else 5e-2, rtol=0)
        normal = law.crps(Observed(features, z, channel, departure=none))
        closed = z * (2 * torch.special.ndtr(z) - 1) + (2 / math.pi) ** 0.5 * (-(z**2) / 2).exp() - math.pi**-0.5
        torch.testing.assert_close(normal, closed, atol=1e-4, rtol=0)


def test_value_and_table_are_one_map(law):
    generator = torch_generator(0, "one map")
    features, z = torch.randn(50, 4, generator=generator), torch.randn(7, 50, 2, generator=generator)
    with torch.no_grad():
        table, itself = law.table(features), law.value(features, z)
    width = table[..., 55] - table[..., 35]  # two standard deviations
    apart = (interpolate(table, z) - itself).abs() / width
    assert apart.quantile(0.99) < 0.01  # not in the gap between two modes, which a table crosses in a straight line


def test_value_finds_the_quantile_between_modes_far_apart():
    """Narrow components with wide gaps between them, where Newton's method alone would jump about."""
    law = some_law("mixture", channels=1)
    generator = torch_generator(0, "modes")
    raw = torch.randn(2000, 1, 3, generator=generator)
    parts = (1.5 * raw).log_softmax(-1), 2 * raw.roll(1, 0), 0.01 + torch.rand(2000, 1, 3, generator=generator) ** 2
    law.parts = lambda features, departure: parts
    z = 1.3 * torch.randn(1, 2000, 1, generator=generator)
    found = law.value(torch.zeros(2000, 4), z)[0, :, 0]
    log_pi, mu, s = (part[:, 0].double() for part in parts)
    below = (log_pi.exp() * torch.special.ndtr((found[:, None].double() - mu) / s)).sum(-1)
    torch.testing.assert_close(below, torch.special.ndtr(z[0, :, 0].double()), atol=1e-5, rtol=0)


def test_a_far_tail_is_that_of_its_widest_component():
    """Where one component alone is left, Q(z) is its own quantile at the share of it that lies beyond."""
    law = MixtureLaw(1, 1, 2)
    with torch.no_grad():
        law.head[-1].weight.zero_()
        law.head[-1].bias.copy_(torch.tensor([0.0, -0.5, 0.0, 0.0, 0.5, 1.0]))  # equal weights, another spread each
    _, mu, s = (part[0, 0].double() for part in law.parts(torch.zeros(1, 1)))
    z = torch.linspace(5, 9, 41)
    found = law.value(torch.zeros(1, 1), torch.stack([z, -z]).flatten()[:, None, None])[:, 0, 0].double()
    beyond = torch.from_numpy(norm.ppf(2 * norm.cdf(-z.double().numpy())))  # the wide one has half of the weight
    assert torch.allclose(found[:41], mu[1] - s[1] * beyond, atol=2e-3)
    assert torch.allclose(found[41:], mu[1] + s[1] * beyond, atol=0.02)  # the other's mean is lower, it is nearly gone
    assert (found[:41].diff() > 0).all()


def test_tables_increase_so_quantiles_never_cross(law):
    with torch.no_grad():
        table = law.table(torch.randn(200, 4, generator=torch_generator(0, "monotone")))
    assert (table.diff(dim=-1) >= 0).all()


def test_interpolation_is_exact_at_nodes_and_linear_beyond():
    table = (3 * NODES + 1).expand(2, 1, -1)
    latents = torch.tensor([-7.0, NODES[3], 0.05, 8.0])[:, None, None].expand(4, 2, 1)
    torch.testing.assert_close(interpolate(table, latents), 3 * latents + 1)


def test_mixture_loss_is_the_negative_log_likelihood():
    law = some_law("mixture", channels=1)
    features, values = torch.randn(6, 4), torch.randn(6)
    log_pi, mu, s = (part[:, 0].double() for part in law.parts(features))
    density = (log_pi.exp() * torch.exp(-0.5 * ((values[:, None] - mu) / s) ** 2) / s).sum(-1)
    loss = law.loss(Observed(features, values, torch.zeros(6, dtype=torch.long)), torch_generator(0))
    torch.testing.assert_close(loss.double(), -density.log(), rtol=1e-5, atol=1e-5)


def test_mixture_crps_is_the_integral_of_its_definition():
    law = some_law("mixture", channels=1).double()
    features, values = torch.randn(6, 4, generator=torch_generator(0, "crps")).double(), torch.linspace(-3, 3, 6)
    observed = Observed(features, values.double(), torch.zeros(6, dtype=torch.long))
    log_pi, mu, s = law.of(observed)
    x = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    below = (log_pi.exp()[:, None] * torch.special.ndtr((x[:, None] - mu[:, None]) / s[:, None])).sum(-1)
    integral = torch.trapezoid((below - (x >= values[:, None]).double()) ** 2, x)
    torch.testing.assert_close(law.crps(observed), integral, atol=2e-3, rtol=1e-3)


def test_mixture_quantiles_match_brute_force():
    law = some_law("mixture", channels=1)
    features = torch.randn(20, 4, generator=torch_generator(1))
    with torch.no_grad():
        table = law.table(features)[:, 0].double()
        log_pi, mu, s = (part[:, 0, None].double() for part in law.parts(features))
    below = (log_pi.exp() * torch.special.ndtr((table[..., None] - mu) / s)).sum(-1)
    inside = NODES.abs() < 4
    torch.testing.assert_close(
        below[:, inside], torch.special.ndtr(NODES.double())[inside].expand(20, -1), atol=2e-5, rtol=0
    )


def test_a_diffusion_begins_as_its_mixture():
    """With g = 0 the flow is the identity: loss, latent and table are the mixture's."""
    law = DiffusionLaw(4)
    features, values, channel = torch.randn(10, 4), torch.randn(10), torch.zeros(10, dtype=torch.long)
    with torch.no_grad():
        torch.testing.assert_close(
            law.loss(Observed(features, values, channel), torch_generator(0)),
            law.mixture.loss(Observed(features, values, channel), torch_generator(0)),
        )
        torch.testing.assert_close(
            law.latent(Observed(features, values, channel)), law.mixture.latent(Observed(features, values, channel))
        )
        torch.testing.assert_close(law.table(features), law.mixture.table(features), atol=1e-5, rtol=1e-5)


def test_the_denoising_objective_is_a_likelihood():
    """The mixture says N(0, 1), the truth is N(0, 1/4): the best g is known, and it lowers the loss by KL exactly.

    y ~ N(0, q^2) noised is v ~ N(0, w), w = q^2 cos^2 + sin^2, and E[zeta | v] = (1 - q^2) sin cos v / w.
    """
    q, law = 0.5, DiffusionLaw(1, components=1, levels=256)
    last = law.mixture.head[2]
    last.weight.data.zero_()
    last.bias.data = torch.tensor([0.0, 0.0, math.log(math.expm1(1 - 0.01))])  # mean 0, standard deviation 1

    def best(v, theta, condition):
        sin, cos = theta.sin(), theta.cos()
        return (1 - q**2) * sin * cos * v / (q**2 * cos**2 + sin**2)

    values = q * torch.randn(4000, generator=torch_generator(2))
    channel = torch.zeros(4000, dtype=torch.long)
    with torch.no_grad():
        before = law.loss(Observed(torch.zeros(4000, 1), values, channel), torch_generator(3)).mean()
        law.velocity = best
        after = law.loss(Observed(torch.zeros(4000, 1), values, channel), torch_generator(3)).mean()
    gain = -math.log(q) - 0.5 + 0.5 * q**2  # KL of N(0, q^2) from N(0, 1)
    assert float(before - after) == pytest.approx(gain, abs=0.02)


def test_tables_equal_the_full_sampler():
    """The tabulated flow in theta is the probability flow that many DPM-Solver++ steps of the same denoiser follow."""
    law = some_law("diffusion", channels=1)
    features = torch.randn(30, 4, generator=torch_generator(4))
    with torch.no_grad():
        condition = law.conditions(features)[:, 0]
        schedule = linear()
        z = torch.linspace(-2, 2, 30)

        def denoise(y, tau):
            return law.denoise(y, schedule.log_snr(tau).to(y).expand_as(y), condition)

        chain = dpmpp(denoise, schedule, lambda shape: z, z.shape, steps=200, order=3)
        exact = interpolate(law.mixture.table(features), chain[None, :, None])[0, :, 0]
        table = law.table(features)
        drawn = interpolate(table, z[None, :, None])[0, :, 0]
        one = NODES.abs().argsort()[1:3]  # the width of a law: between its quantiles at -0.1 and 0.1, times 5
        scale = 5 * (table[:, 0, one].amax(-1) - table[:, 0, one].amin(-1))
    assert (chain - z).abs().max() > 0.1  # the flow moves something
    assert ((exact - drawn).abs() / scale).max() < 0.03


@pytest.mark.parametrize("name", LAWS)
def test_a_skewed_law_is_learned(name):
    """exp(z/2) is not Gaussian: its quantiles must come out within a few percent of its width, and the loss, being a
    likelihood, must come down to its entropy, log(sqrt(2 pi e) / 2), but for the constant that both leave out."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        # One Gaussian cannot be skewed: what is learned beyond it is the head's.
        law = LAWS[name](1, **({"components": 1, "levels": 4} if name == "diffusion" else {}))
        optimiser = torch.optim.Adam(law.parameters(), 1e-2)
        for step in range(400):
            optimiser.param_groups[0]["lr"] = 1e-2 * (1 - step / 400)
            generator = torch_generator(5, step)
            values = torch.exp(0.5 * torch.randn(256, generator=generator)) - 1
            loss = law.loss(Observed(torch.ones(256, 1), values, torch.zeros(256, dtype=torch.long)), generator).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    z = torch.tensor([-1.28, -0.67, 0.0, 0.67, 1.28])
    with torch.no_grad():
        learned = interpolate(law.table(torch.ones(1, 1)), z[:, None, None])[:, 0, 0]
        values = torch.exp(0.5 * torch.randn(20_000, generator=torch_generator(6))) - 1
        loss = law.loss(
            Observed(torch.ones(20_000, 1), values, torch.zeros(20_000, dtype=torch.long)), torch_generator(7)
        )
    torch.testing.assert_close(learned, torch.exp(0.5 * z) - 1, atol=0.08, rtol=0)
    assert float(loss.mean()) == pytest.approx(0.5 + math.log(0.5), abs=0.03)


def test_nothing_is_read_but_the_cell_itself(law):
    """Permuting the other cells leaves a cell's loss unchanged: there is no neighbour in it."""
    features, values, channel = torch.randn(8, 4), torch.randn(8), torch.zeros(8, dtype=torch.long)
    changed = values.clone()
    changed[1:] += 1
    a = law.loss(Observed(features, values, channel), torch_generator(6))
    b = law.loss(Observed(features, changed, channel), torch_generator(6))
    torch.testing.assert_close(a[0], b[0])
    assert (a[1:] != b[1:]).all()


def test_mixture_is_the_same_for_far_values_on_either_side():
    law = MixtureLaw(4)
    far = torch.tensor([-50.0, 50.0])
    with torch.no_grad():
        z = law.latent(Observed(torch.zeros(2, 4), far, torch.zeros(2, dtype=torch.long)))
    assert torch.isfinite(z).all()
    assert z[0] < -7 < 7 < z[1]


def test_few_levels_estimate_the_same_objective_and_leave_the_features_to_the_mixture():
    few, many = (some_law("diffusion", channels=1, levels=levels) for levels in (0.25, 2000))
    features = torch.randn(8, 4, generator=torch_generator(1)).requires_grad_()
    values, channel = torch.randn(8, generator=torch_generator(2)), torch.zeros(8, dtype=torch.long)
    observed = Observed(features, values, channel)
    draws = torch.stack([few.loss(observed, torch_generator(3, n)).mean() for n in range(2000)])
    exact = many.loss(observed, torch_generator(4)).mean()
    mixture = few.mixture.loss(observed, torch_generator(5)).mean()
    error = 4 * draws.std() / 2000**0.5
    assert (draws.mean() - exact).abs() < error < 0.5 * (exact - mixture).abs()
    of_law, of_mixture = (torch.autograd.grad(loss, features)[0] for loss in (exact, mixture))
    torch.testing.assert_close(of_law, of_mixture)


@pytest.mark.parametrize(("options", "message"), [({"weight": "snr"}, "weight 'snr'"), ({"levels": 0}, "levels = 0")])
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(SolidError, match=message):
        DiffusionLaw(3, **options)


@pytest.mark.parametrize("name", LAWS)
def test_a_law_can_begin_close_to_the_standard_normal(name):
    torch.manual_seed(0)
    law = LAWS[name](8)
    law.begin_as_normal()
    with torch.no_grad():
        values = law.table(torch.randn(200, 8))[:, 0]
    assert (values - NODES).abs()[:, 25:66].max() < 0.35  # within two standard deviations


def test_a_pool_is_the_mixture_of_its_networks_laws():
    """Its parts are theirs with a share of the weight each, its CRPS at most the mean of theirs; each learns alone."""
    generator = torch_generator(0, "pool")
    pool, alone = some_law("mixture", networks=2), [MixtureLaw(2, 2), MixtureLaw(2, 2)]
    for head, law in zip(pool.head.each, alone, strict=True):
        law.head.load_state_dict(head.state_dict())
    features, values = torch.randn(60, 4, generator=generator), torch.randn(60, generator=generator)
    channel, error = torch.arange(60) % 2, torch.rand(60, generator=generator)
    read = Observed(features, values, channel, error)
    each = [(law, replace(read, features=own)) for law, own in zip(alone, features.chunk(2, -1), strict=True)]
    mean = sum(law.crps(own) for law, own in each) / 2
    torch.testing.assert_close(pool.train().crps(read), mean)
    assert (pool.eval().crps(read) <= mean + 1e-6).all()
    torch.testing.assert_close(pool.loss(read, generator), sum(law.loss(own, generator) for law, own in each) / 2)
    below = sum(torch.special.ndtr(law.latent(own)) for law, own in each) / 2
    torch.testing.assert_close(torch.special.ndtr(pool.latent(read)), below)


def test_shares_say_who_learns_and_who_answers():
    generator = torch_generator(0, "shares")
    pool, first = some_law("mixture", networks=2), MixtureLaw(2, 2)
    first.head.load_state_dict(pool.head.each[0].state_dict())
    features, values = torch.randn(30, 4, generator=generator), torch.randn(30, generator=generator)
    channel, error = torch.arange(30) % 2, torch.rand(30, generator=generator)
    own, all_to_first = features[:, :2], torch.tensor([[1.0, 0.0]]).expand(30, 2)
    told = (values, channel, error)
    torch.testing.assert_close(pool.latent(Observed(features, *told, all_to_first)), first.latent(Observed(own, *told)))
    for mode in (True, False):
        found = pool.train(mode).crps(Observed(features, *told, all_to_first))
        torch.testing.assert_close(found, first.crps(Observed(own, *told)))
    pool.loss(Observed(features, *told, 1 - all_to_first), generator).sum().backward()
    silent, learner = ([w.grad.abs().max() for w in head.parameters()] for head in pool.head.each)
    assert max(silent) == 0 < min(learner)


def test_a_network_of_a_pool_learns_nothing_of_the_others():
    pool = some_law("mixture", networks=2)
    features = torch.randn(20, 4, requires_grad=True)
    values, channel = torch.randn(20), torch.zeros(20, dtype=torch.long)
    pool.crps(Observed(features, values, channel)).sum().backward()
    own = features.grad.clone()
    other = features.detach().clone()
    other[:, 2:] += 1.0
    other.requires_grad_()
    pool.crps(Observed(other, values, channel)).sum().backward()
    torch.testing.assert_close(other.grad[:, :2], own[:, :2])
