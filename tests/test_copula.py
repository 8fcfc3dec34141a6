"""The joint law: marginals are exactly N(0, 1), samples have the correlation that was fitted, padding never wraps."""

import math

import pytest
import torch

from solidfield.fields import Source
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.noise import MemberNoise
from solidfield.theory.copula import COPULAS, Latents, Torus, channel_mixing, make_copula
from solidfield.theory.gaussian import between

PERIODIC = Grid.box(12, 12, 1.0)
CLOSED = Grid((9, 11))


def a_source(grid, sensors=6, lead=1.0, channels=1):
    mask = torch.zeros(1, channels, *grid.shape, dtype=torch.bool)
    cells = torch.randperm(grid.cells, generator=torch_generator(0, "cells"))[:sensors]
    mask.flatten(2)[:, :, cells] = True
    return Source.of(torch.ones(1, channels, *grid.shape), mask, torch.tensor([lead]))


def some_copula(name, grid, channels=1):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        copula = make_copula(name, grid, channels)
        for parameter in copula.parameters():
            parameter.data += 0.5 * torch.randn_like(parameter)
    return copula.requires_grad_(False)


@pytest.mark.parametrize("grid", [PERIODIC, CLOSED], ids=["periodic", "closed"])
@pytest.mark.parametrize("name", COPULAS)
def test_marginals_are_standard_normal_and_samples_have_the_stated_correlation(name, grid):
    copula, source = some_copula(name, grid), a_source(grid)
    K = 4000
    z = copula(source, MemberNoise(0, [0], range(K)))[:, 0, 0].flatten(1)  # (K, cells)
    free = ~source.mask.flatten()
    assert (z.mean(0)[free].abs() < 5 / math.sqrt(K)).all()
    assert ((z.var(0)[free] - 1).abs() < 6 * math.sqrt(2 / K)).all()
    cells = free.nonzero()[:, 0][::7]
    sensors = source.mask.flatten().nonzero()[:, 0]
    latents = Latents(torch.zeros(len(cells)), cells, sensors, 1.0)
    stated = copula.correlation(latents)
    found = torch.corrcoef(z[:, cells].T)
    assert (found - stated).abs().max() < 6 / math.sqrt(K)


@pytest.mark.parametrize("name", COPULAS)
def test_correlation_is_a_correlation(name):
    copula = some_copula(name, CLOSED)
    cells = torch.arange(0, CLOSED.cells, 2)
    rho = copula.correlation(Latents(torch.zeros(len(cells)), cells, torch.tensor([1, 35]), 0.0))
    torch.testing.assert_close(rho.diagonal(), torch.ones(len(cells)), atol=1e-4, rtol=0)
    torch.testing.assert_close(rho, rho.T)
    assert torch.linalg.eigvalsh(rho).min() > -1e-4


def test_kernels_are_the_closed_form_and_do_not_wrap_on_a_closed_axis():
    torus = Torus(Grid((40, 40)), (3.0,))  # padded by 18 cells
    lag = torch.arange(20)
    torch.testing.assert_close(torus.kernels[0, 0, :20], torch.exp(-(lag**2) / (4 * 3.0**2)), atol=1e-4, rtol=0)
    corner = between(torus.table, torch.tensor([0]), torch.tensor([39]))  # the far end of the same row
    assert corner.abs().max() < 1e-3


def test_conditioning_leaves_nothing_at_an_exact_sensor_and_the_prior_far_away():
    copula = some_copula("conditioned", Grid((24, 24)))
    copula.log_nu.fill_(-6.0)
    copula.logits.fill_(-20.0)
    copula.logits[:, 4] = 20.0  # a single scale of 1.8 cells
    sensor, near, far = 10 * 24 + 10, 10 * 24 + 11, 22 * 24 + 22
    pair = torch.tensor([near, near + 24])
    away = torch.tensor([far, far - 24])
    conditioned = copula.correlation(Latents(torch.zeros(2), pair, torch.tensor([sensor]), 0.0))[0, 1]
    free = copula.correlation(Latents(torch.zeros(2), away, torch.tensor([sensor]), 0.0))[0, 1]
    torch.testing.assert_close(free, torch.tensor(math.exp(-1 / (4 * 1.8**2))), atol=1e-3, rtol=0)
    k = math.exp(-1 / (4 * 1.8**2))  # neighbours of the sensor and of one another
    d = math.exp(-2 / (4 * 1.8**2))  # the diagonal neighbour
    exact = (k - k * d) / math.sqrt((1 - k**2) * (1 - d**2))
    torch.testing.assert_close(conditioned, torch.tensor(exact), atol=2e-3, rtol=0)


@pytest.mark.parametrize("name", ["stationary", "conditioned"])
def test_a_known_dependence_is_recovered_from_sparse_latents(name):
    """Fields smoothed at 1.8 cells, seen at 20 cells each: the fitted correlation of neighbours must be theirs."""
    torus = Torus(PERIODIC, (1.8,))
    generator = torch_generator(3)
    examples = []
    for _ in range(80):
        z = torus.smooth(torch.randn(12, 12, generator=generator), torus.spectra[0]).flatten()
        cells = torch.randperm(144, generator=generator)[:20]
        examples.append(Latents(z[cells], cells, torch.tensor([], dtype=torch.long), 1.0))
    copula = make_copula(name, PERIODIC, 1)
    copula.fit(examples, steps=150)
    copula.requires_grad_(False)
    two = Latents(torch.zeros(2), torch.tensor([40, 41]), torch.tensor([], dtype=torch.long), 1.0)
    assert abs(float(copula.correlation(two)[0, 1]) - math.exp(-1 / (4 * 1.8**2))) < 0.06


def test_channels_are_mixed_to_their_correlation_and_stay_standard_normal():
    generator = torch_generator(4)
    g = torch.randn(5000, 2, generator=generator)
    together = torch.stack([g[:, 0], 0.8 * g[:, 0] + 0.6 * g[:, 1]], dim=-1)
    mixing = channel_mixing([together])
    torch.testing.assert_close(mixing @ mixing.T, torch.tensor([[1.0, 0.8], [0.8, 1.0]]), atol=0.03, rtol=0)
    torch.testing.assert_close((mixing**2).sum(1), torch.ones(2))


def test_reconstruction_and_forecast_have_their_own_dependence():
    copula = some_copula("stationary", PERIODIC)
    weights = copula.weights(torch.tensor([0.0, 1.0, 2.0]))
    assert not torch.allclose(weights[0], weights[1])
    torch.testing.assert_close(weights[1], weights[2])
