"""Kriging and its covariance against closed forms, and calibrated on a world whose posterior is known."""

import math

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from solidfield.errors import SolidError
from solidfield.fields import Pair, Source, Target
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.models.kriging import Kriging
from solidfield.noise import MemberNoise
from solidfield.theory import likelihood
from solidfield.theory.covariance import TorusCovariance, from_spectra, moments, offsets, torus
from solidfield.theory.likelihood import refine

SIDE = 16
BOX = Grid.box(SIDE, SIDE, 1.0)


pytestmark = pytest.mark.usefixtures("one_thread")


def advected(lead: float = 1.0) -> TorusCovariance:
    """An anisotropic spectrum; one step moves the field by (1, 2) cells and damps its small scales."""
    k = torch.fft.fftfreq(SIDE, 1 / SIDE).double()
    ky, kx = torch.meshgrid(k, k, indexing="ij")
    spectrum = (1 + 0.3 * ky**2 + 0.1 * kx**2) ** -2.0
    spectrum = spectrum / spectrum.mean()
    phase = torch.polar(torch.ones_like(ky), -2 * math.pi * (ky + 2 * kx) * lead / SIDE)
    phase = torch.where((ky.abs() == SIDE / 2) | (kx.abs() == SIDE / 2), phase.real + 0j, phase)
    return from_spectra(spectrum, {lead: spectrum * phase * torch.exp(-0.02 * (ky**2 + kx**2))})


def world(count: int, covariance: TorusCovariance, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of frames, each (N, H, W) float64, drawn by Cholesky from the dense joint law."""
    joint = dense(covariance, 1.0)  # (2 P, 2 P)
    root = torch.linalg.cholesky(joint + 1e-9 * torch.eye(len(joint), dtype=joint.dtype))
    white = torch.randn(count, len(joint), generator=torch_generator(seed, "world"), dtype=torch.float64)
    first, second = (white @ root.T).view(count, 2, SIDE, SIDE).unbind(1)
    return first, second


def dense(covariance: TorusCovariance, lead: float) -> torch.Tensor:  # (2 P, 2 P): source cells, then target cells
    cells = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    index = offsets(cells, cells, (SIDE, SIDE))
    c, x = covariance.kernel.flatten()[index], covariance.at(lead).flatten()[index]
    return torch.cat([torch.cat([c, x], 1), torch.cat([x.T, c], 1)])


def posterior(covariance: TorusCovariance, lead: float, values: torch.Tensor, mask: torch.Tensor):  # (P,), (P, P)
    """The textbook conditional of a joint normal law."""
    joint, seen = dense(covariance, lead), mask.flatten().nonzero()[:, 0]
    size = SIDE * SIDE
    k, x = joint[seen][:, seen], joint[seen][:, size:]
    weights = torch.linalg.solve(k, x).T  # (P, n)
    return weights @ values.flatten()[seen].double(), joint[size:, size:] - weights @ x


def sparse(first, second, share=0.12, lead=1.0, seed=0) -> Pair:
    score = torch.rand(first.shape, generator=torch_generator(seed, "masks"))[:, None]
    source = Source.of(first.float()[:, None], score < share, torch.full((len(first),), lead))
    return Pair(source, Target.of(second.float()[:, None], score > 1 - share))


def set_up(covariance: TorusCovariance, grid: Grid = BOX, **options) -> Kriging:
    model = Kriging(Spec(grid), **options)
    model.kernel, model.cross, model.leads = covariance.kernel[None], covariance.cross[None], covariance.leads
    return model


@pytest.mark.parametrize("lead", [0.0, 1.0])
def test_kriging_is_the_dense_gaussian_conditional(lead):
    covariance = advected()
    pair = sparse(*world(1, covariance), lead=lead)
    mean, std = set_up(covariance).posterior(pair.source)
    exact, spread = posterior(covariance, lead, pair.source.values[0, 0], pair.source.mask[0, 0])
    off = slice(None) if lead else (~pair.source.mask[0, 0]).flatten()
    torch.testing.assert_close(mean.flatten().double()[off], exact[off], atol=1e-5, rtol=0)
    torch.testing.assert_close(std.flatten().double()[off], spread.diagonal().sqrt()[off], atol=1e-5, rtol=0)


@pytest.mark.parametrize("lead", [0.0, 0.5, 1.0])
def test_members_have_the_posteriors_mean_and_covariance(lead):
    """4,000 members: each entry of their covariance within five standard errors of the closed form."""
    covariance = advected()
    pair = sparse(*world(1, covariance), lead=lead)
    members = set_up(covariance).sample(pair.source, 4000, MemberNoise(0, [0], range(4000)))[:, 0, 0].flatten(1)
    exact, spread = posterior(covariance, lead, pair.source.values[0, 0], pair.source.mask[0, 0])
    scale = (spread.diagonal().clamp(min=0)).sqrt()
    assert ((members.double().mean(0) - exact).abs() <= 5 * scale / math.sqrt(4000) + 1e-3).all()
    sample = torch.cov(members.double().T)
    error = torch.sqrt((torch.outer(scale**2, scale**2) + spread**2) / 4000)
    assert ((sample - spread).abs() <= 5.5 * error + 1e-3).all()


def test_readings_are_honoured_exactly_or_up_to_their_error():
    covariance = advected()
    pair = sparse(*world(2, covariance), lead=0.0)
    mask, noise = pair.source.mask, MemberNoise(0, range(2), range(200))
    members = set_up(covariance).sample(pair.source, 200, noise)
    assert torch.equal(members[:, mask], pair.source.values[mask].expand(200, -1))
    mean, _ = set_up(covariance).posterior(pair.source)
    torch.testing.assert_close(mean[mask], pair.source.values[mask], atol=1e-4, rtol=0)
    members = set_up(covariance, obs_std=0.3).sample(pair.source, 200, MemberNoise(0, range(2), range(200)))
    mean, std = set_up(covariance, obs_std=0.3).posterior(pair.source)
    assert (std[mask] < 0.3).all()
    assert float(members.std(0)[mask].mean()) == pytest.approx(float(std[mask].mean()), rel=0.05)
    assert float((members.mean(0) - mean).abs().max()) < 5 / math.sqrt(200)


def test_without_sensors_the_prior_remains():
    covariance = advected()
    nothing = torch.zeros(1, 1, SIDE, SIDE)
    source = Source.of(nothing, nothing.bool(), torch.ones(1))
    mean, std = set_up(covariance).posterior(source)
    assert torch.equal(mean, nothing)
    torch.testing.assert_close(std, torch.ones_like(std))
    members = set_up(covariance).sample(source, 500, MemberNoise(0, [0], range(500)))
    assert float(members.std()) == pytest.approx(1.0, abs=0.03)


def test_off_the_torus_it_is_scikit_learns_gaussian_process():
    """21 x 20 cells that do not wrap, a Gaussian kernel of 3 cells, 60 readings with errors."""
    grid = Grid((21, 20))
    height, width = torus(grid)
    y, x = (torch.minimum(torch.arange(n), n - torch.arange(n)).double() for n in (height, width))
    kernel = torch.exp(-0.5 * (y[:, None] ** 2 + x[None, :] ** 2) / 9)
    model = set_up(TorusCovariance(kernel, torch.zeros(0, height, width).double(), torch.zeros(0)), grid, obs_std=0.1)
    generator = torch_generator("sklearn")
    mask = torch.zeros(420, dtype=torch.bool)
    mask[torch.randperm(420, generator=generator)[:60]] = True
    mask = mask.view(1, 1, 21, 20)
    source = Source.of(torch.randn(1, 1, 21, 20, generator=generator), mask, torch.zeros(1))
    process = GaussianProcessRegressor(RBF(3.0), alpha=0.01, optimizer=None)
    process.fit(mask[0, 0].nonzero().numpy(), source.values[mask].double().numpy())
    mean, std = process.predict(np.indices((21, 20)).reshape(2, -1).T, return_std=True)
    ours, spread = model.posterior(source)
    np.testing.assert_allclose(ours.flatten().numpy(), mean, atol=1e-5)
    np.testing.assert_allclose(spread.flatten().numpy(), std, atol=1e-5)


def test_em_climbs_the_likelihood_and_stays_valid():
    """Each round gains on held-out readings; S >= 0 and |R| <= S everywhere, for three leads at once."""
    covariance = advected()
    first, second = world(240, covariance)
    parts = [sparse(first[:80], first[:80], 0.1, 0.0), sparse(first[80:], second[80:], 0.1, 1.0)]
    parts.append(sparse(first[:80], second[:80].roll(3, 2), 0.1, 2.5))
    pair = Pair(
        Source(*(torch.cat([getattr(p.source, name) for p in parts]) for name in ("values", "mask", "lead"))),
        Target(*(torch.cat([getattr(p.target, name) for p in parts]) for name in ("values", "mask"))),
    )
    guess = moments(pair, BOX)
    scores = [refine(guess, pair, rounds=rounds)[1] for rounds in (0, 1, 3)]
    assert scores[0] < scores[1] < scores[2]
    fitted, _ = refine(guess, pair, rounds=3)
    assert fitted.leads.tolist() == [1.0, 2.5]
    for lead in (0.0, 0.3, 1.0, 2.0, 2.5):
        spectrum, cross = torch.fft.fft2(fitted.kernel).real, torch.fft.fft2(fitted.at(lead)).abs()
        assert (spectrum > 0).all()
        assert (cross <= spectrum * (1 + 1e-6) + 1e-9).all()
    with pytest.raises(SolidError, match=r"up to 2\.5, asked for 3"):
        fitted.at(3.0)


def test_em_sees_the_whole_field_as_the_sample_spectrum(monkeypatch):
    """With every cell read there is nothing to infer: one EM step is the periodogram, whatever the guess."""
    covariance = advected()
    first, _ = world(60, covariance)
    everything = torch.ones(60, 1, SIDE, SIDE, dtype=torch.bool)
    source = Source.of(first.float()[:, None], everything, torch.zeros(60))
    pair = Pair(source, Target.of(source.values, everything))
    monkeypatch.setattr(likelihood, "READINGS", SIDE * SIDE)
    examples = likelihood.readings(pair, 0.0, (SIDE, SIDE))
    step = likelihood._step(covariance, [examples], 0.0)
    spread = torch.linspace(0, 59, len(examples)).long()
    periodogram = torch.fft.fft2(source.values[spread, 0].double()).abs().square().mean(0) / SIDE**2
    torch.testing.assert_close(torch.fft.fft2(step.kernel).real, periodogram, rtol=1e-3, atol=1e-4)


def test_fitted_to_sparse_pairs_it_is_nearly_the_exact_posterior():
    """400 pairs with 12 % of the cells: CRPS within 3 % of the exact posterior's, spread equal to skill, and
    the fitted cross-covariance peaks where advection carries the field."""
    covariance = advected()
    model = Kriging(Spec(BOX))
    model.fit(sparse(*(frame[rows] for frame in world(400, covariance))) for rows in (slice(0, 150), slice(150, 400)))
    assert divmod(int(model.cross[0, 0].argmax()), SIDE) == (1, 2)
    first, second = world(60, covariance, seed=1)
    pair = sparse(first, second, seed=1)
    mean, std = (x[:, 0].flatten(1).double() for x in model.posterior(pair.source))
    laws = [posterior(covariance, 1.0, pair.source.values[b, 0], pair.source.mask[b, 0]) for b in range(60)]
    best = torch.stack([law[0] for law in laws]), torch.stack([law[1].diagonal().sqrt() for law in laws])
    truth = second.flatten(1)
    assert crps(mean, std, truth) < 1.03 * crps(*best, truth)
    assert float((std.square().mean() / (mean - truth).square().mean()).sqrt()) == pytest.approx(1.0, abs=0.07)
    inside = ((truth - mean).abs() < 1.645 * std).double().mean()
    assert float(inside) == pytest.approx(0.9, abs=0.02)


def crps(mean: torch.Tensor, std: torch.Tensor, truth: torch.Tensor) -> float:
    """Of a normal law, in closed form."""
    z = (truth - mean) / std
    density = torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return float((std * (z * (2 * torch.special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi))).mean())


def test_a_mean_by_row_enters_the_forecast():
    """Where nothing is read the forecast is the row's own mean."""
    rows = torch.linspace(-2, 2, SIDE)[:, None].double()
    first, second = world(200, advected())
    model = Kriging(Spec(BOX))
    model.fit([sparse(0.5 * first + rows, 0.5 * second + rows)])
    nothing = torch.zeros(1, 1, SIDE, SIDE)
    mean, std = model.posterior(Source.of(nothing, nothing.bool(), torch.ones(1)))
    torch.testing.assert_close(mean[0, 0].double(), rows.expand(SIDE, SIDE), atol=0.25, rtol=0)
    assert float(std.mean()) == pytest.approx(0.5, abs=0.1)
