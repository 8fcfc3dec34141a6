"""A law per cell: value and latent are inverse, tables equal the full sampler, known distributions are learned."""

import math

import pytest
import torch

from solidfield.keys import torch_generator
from solidfield.laws import LAWS, NODES, DiffusionLaw, MixtureLaw, interpolate
from solidfield.sample import dpmpp
from solidfield.schedule import linear


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
    z = NODES[15 + torch.randint(61, (50,), generator=generator)]  # at nodes a table is exact
    both = torch.stack([z, z], dim=-1)[None]  # (1, P, C)
    with torch.no_grad():
        values = interpolate(law.table(features), both)[0][torch.arange(50), channel]
        back = law.latent(features, values, channel)
    torch.testing.assert_close(back, z, atol=5e-3, rtol=0)


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
    loss = law.loss(features, values, torch.zeros(6, dtype=torch.long), torch_generator(0))
    torch.testing.assert_close(loss.double(), -density.log(), rtol=1e-5, atol=1e-5)


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


def test_a_gaussian_is_its_own_flow():
    """With g = 0 the diffusion law is exactly N(m, s^2): the latent is the z-score and the table a straight line."""
    law = DiffusionLaw(4)
    features, values = torch.randn(10, 4), torch.randn(10)
    m, s, _ = law.parts(features)
    with torch.no_grad():
        z = law.latent(features, values, torch.zeros(10, dtype=torch.long))
        torch.testing.assert_close(z, ((values - m[:, 0]) / s[:, 0]))
        torch.testing.assert_close(law.table(features)[:, 0], m + s * NODES)


def test_the_loss_at_a_gaussian_is_least_at_its_own_location():
    """Denoising is consistent: among Gaussian laws of one scale the true location has the smallest expected loss."""
    law = DiffusionLaw(1, levels=64)
    values = 0.7 + 0.3 * torch.randn(1000, generator=torch_generator(2))
    law.base[2].weight.data.zero_()

    def loss(m, s):
        law.base[2].bias.data = torch.tensor([m, math.log(math.expm1(s - 0.01))])
        with torch.no_grad():
            each = law.loss(torch.zeros(1000, 1), values, torch.zeros(1000, dtype=torch.long), torch_generator(3))
        return float(each.mean())

    best = loss(0.7, 0.3)
    assert best < loss(0.8, 0.3)
    assert best < loss(0.6, 0.3)


def test_the_gaussian_part_in_closed_form_changes_nothing_but_noise():
    """Draw by draw, both forms of the likelihood weights differ by what does not depend on g."""
    features, values, channel = torch.randn(40, 4), torch.randn(40), torch.zeros(40, dtype=torch.long)
    differences = []
    for scale in (0.0, 1.0, 3.0):
        law = some_law("diffusion", channels=1)
        law.out.weight.data *= scale
        law.out.bias.data *= scale
        losses = []
        for law.closed in (True, False):
            losses.append(law.loss(features, values, channel, torch_generator(8)))
        differences.append(losses[0] - losses[1])
    torch.testing.assert_close(differences[1], differences[0], atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(differences[2], differences[0], atol=1e-3, rtol=1e-4)


def test_tables_equal_the_full_sampler():
    """The tabulated flow in theta is the probability flow that many DPM-Solver++ steps of the same denoiser follow."""
    law = some_law("diffusion", channels=1, steps=8)
    features = torch.randn(30, 4, generator=torch_generator(4))
    with torch.no_grad():
        parts = tuple(part[:, 0] for part in law.parts(features))
        schedule = linear()
        z = torch.linspace(-2, 2, 30)

        def denoise(x, tau):
            return law.denoise(x, schedule.log_snr(tau).to(x).expand_as(x), parts)

        alpha, sigma = (float(a) for a in schedule.alpha_sigma(float(schedule.T)))
        start = alpha * parts[0] + torch.sqrt((alpha * parts[1]) ** 2 + sigma**2) * z  # v = z at the schedule's end
        chain = dpmpp(denoise, schedule, lambda shape: start, z.shape, steps=200, order=3)
        table = interpolate(law.table(features), z[None, :, None])[0, :, 0]
    scale = parts[1]
    assert ((chain - table).abs() / scale).max() < 0.02


@pytest.mark.parametrize("name", LAWS)
def test_a_skewed_law_is_learned(name):
    """exp(z/2) is not Gaussian: its quantiles must come out within a few percent of its width, and the loss, being a
    likelihood, must come down to its entropy, log(sqrt(2 pi e) / 2), but for the constant that both leave out."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        law = LAWS[name](1, **({"closed": True} if name == "diffusion" else {}))
        optimiser = torch.optim.Adam(law.parameters(), 1e-2)
        for step in range(400):
            optimiser.param_groups[0]["lr"] = 1e-2 * (1 - step / 400)
            generator = torch_generator(5, step)
            values = torch.exp(0.5 * torch.randn(256, generator=generator)) - 1
            loss = law.loss(torch.ones(256, 1), values, torch.zeros(256, dtype=torch.long), generator).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    z = torch.tensor([-1.28, -0.67, 0.0, 0.67, 1.28])
    with torch.no_grad():
        learned = interpolate(law.table(torch.ones(1, 1)), z[:, None, None])[:, 0, 0]
        values = torch.exp(0.5 * torch.randn(20_000, generator=torch_generator(6))) - 1
        loss = law.loss(torch.ones(20_000, 1), values, torch.zeros(20_000, dtype=torch.long), torch_generator(7))
    torch.testing.assert_close(learned, torch.exp(0.5 * z) - 1, atol=0.06, rtol=0)
    assert float(loss.mean()) == pytest.approx(0.5 + math.log(0.5), abs=0.03)


def test_nothing_is_read_but_the_cell_itself(law):
    """Permuting the other cells leaves a cell's loss unchanged: there is no neighbour in it."""
    features, values, channel = torch.randn(8, 4), torch.randn(8), torch.zeros(8, dtype=torch.long)
    changed = values.clone()
    changed[1:] += 1
    a = law.loss(features, values, channel, torch_generator(6))
    b = law.loss(features, changed, channel, torch_generator(6))
    torch.testing.assert_close(a[0], b[0])
    assert (a[1:] != b[1:]).all()


def test_mixture_is_the_same_for_far_values_on_either_side():
    law = MixtureLaw(4)
    far = torch.tensor([-50.0, 50.0])
    with torch.no_grad():
        z = law.latent(torch.zeros(2, 4), far, torch.zeros(2, dtype=torch.long))
    assert torch.isfinite(z).all()
    assert z[0] < -7 < 7 < z[1]
