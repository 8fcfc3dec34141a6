"""The four generative rivals: sizes, and the laws of the method that each one stands for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.signal
import torch
from torch import Tensor

import contract
from solidfield.errors import SolidError
from solidfield.forecast import Forecaster, Spec
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.models import stylegan3
from solidfield.models.adversarial import Adversarial
from solidfield.models.ddo import DDO
from solidfield.models.denoising import FieldDenoising
from solidfield.models.infty_diff import InftyDiff
from solidfield.models.inr_gan import FMM, INRGAN, enlarge, log_waves
from solidfield.models.stylegan3 import StyleGAN3
from solidfield.nn.filters import kaiser_lowpass, leaky, resample, resample_matrix
from solidfield.nn.points import Bridge, SparseBlock, bilinear_matrix
from solidfield.nn.spectral import FieldFilter, SpectralConv2d, axis_basis, mollifier, random_field, spectral_norm
from solidfield.nn.style import with_spread
from solidfield.noise import MemberNoise
from solidfield.theory.sample import leading

RIVALS = [StyleGAN3, INRGAN, InftyDiff, DDO]
GAMES = [StyleGAN3, INRGAN]
DENOISERS = [InftyDiff, DDO]
each_rival = pytest.mark.parametrize("model", RIVALS, ids=lambda model: model.name)
each_game = pytest.mark.parametrize("model", GAMES, ids=lambda model: model.name)
each_denoiser = pytest.mark.parametrize("model", DENOISERS, ids=lambda model: model.name)


def normal(*shape: int, key: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch_generator(key, "test"))


# ---- the contract, where an option changes the network (test_contract.py has the rest)


@each_rival
def test_the_contract_holds_with_a_mask_channel(model: type[Forecaster]):
    contract.every_parameter_learns(model, mask_channel=True)
    contract.reads_channels_and_covariates(model, mask_channel=True)


@each_game
def test_spatial_condition_obeys_the_contract(model: type[Forecaster]):
    contract.every_parameter_learns(model, spatial=True, beta=1.0)
    contract.finite_on(model, (21, 20), False, spatial=True)


@each_rival
def test_builds_on_a_grid_with_a_domain(model: type[Forecaster]):
    spec = Spec(Grid((21, 20), domain=np.ones((21, 20), bool)))
    assert torch.isfinite(contract.evaluated(contract.build(model, spec), contract.make_pair(spec).source)).all()


# ---- sizes


PAPER_SPEC = Spec(Grid.box(64, 64, 2 * math.pi))


@pytest.mark.parametrize(
    ("model", "count", "tolerance"),
    [
        (StyleGAN3, 76_320_261, 0.002),
        (INRGAN, 55_300_000, 0.002),
        (InftyDiff, 40_909_722, 0),
        (DDO, 11_103_780, 2e-5),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_paper_size_has_the_paper_count(model: type[Forecaster], count: int, tolerance: float):
    with torch.device("meta"):
        made = model(PAPER_SPEC, **model.SIZES["paper"])
    assert abs(made.parameter_count() - count) <= tolerance * count


def test_ddo_with_a_mask_channel_has_the_count_of_its_release():
    with torch.device("meta"):
        assert DDO(PAPER_SPEC, mask_channel=True).parameter_count() == 11_103_617


def test_the_games_have_the_reference_generator_and_discriminator():
    """StyleGAN3-T at 64 x 64 is 37.77 M + 26.49 M; the condition adds an embedding and wider input."""
    with torch.device("meta"):
        made = StyleGAN3(PAPER_SPEC)
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in made.named_children()}
    assert counts == {
        "encoder": 11_673_024,
        "discriminator": 26_489_345,
        "generator": 37_767_173 + 262_656 + 262_144,
    }


@each_rival
def test_laptop_size_is_small(model: type[Forecaster]):
    made = model(Spec(Grid.box(32, 32, math.pi)), **model.SIZES["laptop"])
    assert 0.1e6 < made.parameter_count() < 1e6


# ---- the game


@each_game
def test_the_objectives_share_no_parameter_and_cover_all(model: type[Adversarial]):
    made = contract.build(model, contract.make_spec())
    judge, maker = made.objectives()
    assert (judge.name, maker.name) == ("discriminator", "generator")
    assert not set(judge.parameters) & set(maker.parameters)
    assert {*judge.parameters, *maker.parameters} == set(made.parameters())


@each_game
def test_each_side_moves_itself_only(model: type[Adversarial]):
    """A backward pass of one objective leaves no gradient on the other side."""
    spec = contract.make_spec()
    made = contract.build(model, spec)
    sides = made.objectives()
    for mine, theirs in (sides, sides[::-1]):
        made.zero_grad()
        mine.loss(contract.make_pair(spec), torch_generator(0)).backward()
        assert all(p.grad is None for p in theirs.parameters)


@each_game
def test_penalty_gradient_is_zero_off_the_targets(model: type[Adversarial]):
    spec = contract.make_spec()
    made = contract.build(model, spec)
    pair = contract.make_pair(spec)
    slope = made.slope(pair, torch.arange(len(pair)))
    assert torch.equal(slope[~pair.target.mask], torch.zeros_like(slope[~pair.target.mask]))
    assert (slope[pair.target.mask] != 0).any()


@each_game
def test_losses_are_their_formulas(model: type[Adversarial]):
    """Non-saturating terms, the penalty, and the masked L1, written out with the logits."""
    spec = contract.make_spec()
    made = contract.build(model, spec, gamma=3.0, beta=2.0).eval()
    pair = contract.make_pair(spec, batch=4)
    source, target = pair.source, pair.target
    z = torch.randn(4, made.style, generator=torch_generator(5))
    fake = made.generator(z, *made.encoder(source.values))

    def logits(values: Tensor) -> Tensor:
        m_o, m_i = target.mask.float(), source.mask.float()
        return made.discriminator(torch.cat([m_o * values, m_o, source.values, m_i], dim=1))

    per_example = ((fake - target.values).abs() * target.mask).sum((1, 2, 3)) / target.mask.sum((1, 2, 3))
    maker = torch.log1p(torch.exp(-logits(fake))).mean() + 2.0 * per_example.mean()
    torch.testing.assert_close(made.loss(pair, torch_generator(5)), maker)

    values = target.values.clone().requires_grad_()
    slope = torch.autograd.grad(logits(values).sum(), values)[0]
    judge = torch.log1p(torch.exp(logits(fake))).mean() + torch.log1p(torch.exp(-logits(target.values))).mean()
    judge = judge + 1.5 * slope.square().sum((1, 2, 3)).mean()  # all four rows are one group
    torch.testing.assert_close(made.discriminator_loss(pair, torch_generator(5)), judge)


def test_minibatch_spread_is_the_mean_standard_deviation():
    x = normal(8, 3, 2, 2)
    rows = with_spread(x)
    assert torch.equal(rows[:, :3], x)
    for b in range(8):
        group = x[[b % 2, b % 2 + 2, b % 2 + 4, b % 2 + 6]]
        assert torch.allclose(rows[b, 3], group.std(dim=0, unbiased=False).mean(), atol=1e-5)


# ---- filters and StyleGAN3


@pytest.mark.parametrize(
    ("taps", "cutoff", "width", "rate"), [(12, 2.0, 4.6, 32), (24, 6.0, 3.0, 64), (19, 0.5, 0.23, 2)]
)
def test_lowpass_is_scipys_kaiser_design(taps: int, cutoff: float, width: float, rate: float):
    ours = kaiser_lowpass(taps, cutoff, width, rate)
    np.testing.assert_allclose(ours, scipy.signal.firwin(taps, cutoff, width=width, fs=rate), atol=1e-12)


def test_lowpass_passes_the_band_and_stops_the_rest():
    """40 taps, 2 wide around a cutoff of 8 at rate 64: within 1 % below 7, under 1 % above 9."""
    frequency, response = scipy.signal.freqz(kaiser_lowpass(81, 8.0, 2.0, 64.0), worN=2048, fs=64.0)
    gain = np.abs(response)
    assert np.abs(gain[frequency < 7] - 1).max() < 0.01
    assert gain[frequency > 9].max() < 0.01


@pytest.mark.parametrize(("up", "down", "padding"), [(2, 1, (5, 6)), (1, 2, (3, 3)), (4, 2, (-2, 7)), (2, 2, (0, 0))])
def test_resampling_matrix_is_upfirdn(up: int, down: int, padding: tuple[int, int]):
    taps = kaiser_lowpass(8, 1.0, 1.0, 8.0)
    x = np.random.Generator(np.random.Philox(0)).standard_normal(11)
    raised = np.zeros(11 * up)
    raised[::up] = up * x
    first, last = padding
    raised = np.pad(raised, (max(first, 0), max(last, 0)))[max(-first, 0) : len(raised) + max(last, 0) + max(first, 0)]
    expected = np.convolve(raised, taps, mode="valid")[::down]
    np.testing.assert_allclose(resample_matrix(11, taps, up, down, padding).numpy() @ x, expected, atol=1e-6)


@pytest.mark.parametrize("boundary", ["wrap", "reflect"])
def test_resampling_keeps_a_constant(boundary):
    taps = kaiser_lowpass(19, 0.5, 0.23, 2.0)
    halved = resample_matrix(12, taps, down=2, padding=(9, 9), boundary=boundary)
    doubled = resample_matrix(6, taps, up=2, padding=(9, 9), boundary=boundary)
    assert halved.shape == (6, 12)
    torch.testing.assert_close(halved.sum(1), torch.ones(6))
    torch.testing.assert_close(doubled.sum(1), torch.ones(12), rtol=0, atol=0.02)  # ripple of the pass band


def test_moving_the_waves_moves_the_field(monkeypatch: pytest.MonkeyPatch):
    """Alias-free synthesis: moving the input frame by one cell of the field, half a cell of the first layers,
    moves the field; with the non-linearity at the layer's own rate the same network fails by far."""
    spec = contract.make_spec((32, 32))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        generator = stylegan3.Generator(spec, stylegan3.layer_table(spec, 6, 16, 32768, 10), 16, ()).eval()
    z, c = normal(2, 16), normal(2, 16, key=1)

    @torch.no_grad()
    def error() -> float:
        fields = []
        for shift in (0.0, 1 / 32):
            generator.input.frame.bias[2:] = torch.tensor([0.0, shift])
            fields.append(generator(z, c, []))
        still, moved = fields[0][..., 4:-4, 4:-5], fields[1][..., 4:-4, 5:-4]
        return float((still - moved).square().mean().sqrt() / still.std())

    filtered = error()
    monkeypatch.setattr(
        stylegan3, "filtered_leaky", lambda x, up, down: resample(resample(leaky(x), up, up), down, down)
    )
    plain = error()
    assert filtered < 1e-3
    assert filtered < 0.05 * plain


def test_layer_table_is_the_references():
    """14 layers at 64 x 64: geometric cutoffs from 2 to 32, the last two critical, margins of 10."""
    table = stylegan3.layer_table(PAPER_SPEC, 14, 512, 32768, 10)
    assert len(table) == 15
    np.testing.assert_allclose([b.cutoff for b in table], [2 * 16 ** min(i / 12, 1) for i in range(15)])
    stops = [2**2.1 * (2**5.3 / 2**2.1) ** min(i / 12, 1) for i in range(15)]
    rates = [next(rate for rate in (16, 32, 64) if rate >= min(2 * stop, 64)) for stop in stops]
    assert [b.rate for b in table] == rates
    assert [b.size for b in table] == [rate + 20 for rate in rates[:-2]] + [64, 64]
    assert [b.channels for b in table] == [512] * 14 + [1]


# ---- INR-GAN


def test_modulated_weights_are_their_formula():
    """W'_oi = W_oi (1 + sum_k A_ok B_ki / sqrt(r)), rows of unit length, by loops."""
    layer = FMM(3, 4, 2, 5)
    w = normal(2, 5)
    made = layer.modulated(w)
    for b in range(2):
        code = layer.hyper(w)[b].tolist()
        for o in range(4):
            row = []
            for i in range(3):
                product = sum(code[o * 2 + k] * code[8 + k * 3 + i] for k in range(2))
                row.append(float(layer.weight[o, i].detach()) * (1 + product / math.sqrt(2)))
            length = math.sqrt(sum(v * v for v in row))
            torch.testing.assert_close(made[b, o], torch.tensor([v / length for v in row]), atol=1e-5, rtol=1e-4)


def test_a_cell_is_a_function_of_its_coordinate():
    """No spatial convolution: permuting what is known of the cells permutes the field alike."""
    spec = contract.make_spec((8, 8))
    made = contract.build(INRGAN, spec, scales=1)
    stage = made.generator.stages[0]
    w, order = normal(2, 16), torch.randperm(64, generator=torch_generator(0))
    with torch.no_grad():
        field = stage(None, w, [])[1].flatten(2)
        for known in (stage.waves, stage.constants):
            known.copy_(known.flatten(1)[:, order].view_as(known))
        torch.testing.assert_close(stage(None, w, [])[1].flatten(2), field[..., order])


def test_coordinate_waves_wrap_around_and_tell_cells_apart():
    waves = log_waves(16, 16)
    assert waves.shape == (2 * 4 * 4, 16, 16)
    flat = waves.flatten(1).T
    assert torch.cdist(flat, flat).add(torch.eye(256) * 9).min() > 0.1
    assert torch.equal(enlarge(torch.tensor([[[[1.0, 2.0]]]]), (1, 3)), torch.tensor([[[[1.0, 1.0, 2.0]]]]))


# ---- fields in the frequency domain


@pytest.mark.parametrize("size", [1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_waves_of_an_axis_are_orthonormal(size: int, periodic: bool):
    rows, omega = axis_basis(size, periodic)
    np.testing.assert_allclose(rows @ rows.T, np.eye(size), atol=1e-12)
    assert (np.diff(omega) >= 0).all()


def test_mollifier_is_the_explicit_dct():
    """Multiply DCT-II coefficient (i, j) by exp(-(i^2 / s_y^2 + j^2 / s_x^2) / 2), s = size / (pi std)."""
    grid = Grid((6, 5))
    x = normal(6, 5)
    dct = [
        np.array(
            [
                [math.sqrt((1 if k == 0 else 2) / n) * math.cos(math.pi * k * (2 * j + 1) / (2 * n)) for j in range(n)]
                for k in range(n)
            ]
        )
        for n in grid.shape
    ]
    i, j = np.arange(6)[:, None], np.arange(5)[None, :]
    gain = np.exp(-0.5 * ((i * math.pi * 1.3 / 6) ** 2 + (j * math.pi * 1.3 / 5) ** 2))
    expected = dct[0].T @ (gain * (dct[0] @ x.numpy() @ dct[1].T)) @ dct[1]
    np.testing.assert_allclose(FieldFilter(grid, mollifier(1.3))(x).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("spectrum", ["matern", "rbf"])
@pytest.mark.parametrize("periodic", [(True, True), (False, True), (False, False)])
def test_random_field_has_its_covariance(spectrum: str, periodic: tuple[bool, bool]):
    """Sample covariance of 20,000 draws against Q' diag(g^2) Q; mean variance 1; stationary if it wraps."""
    grid = Grid((5, 6), periodic=periodic)
    field = FieldFilter(grid, random_field(spectrum, 1.5, 2.5))
    operator = field(torch.eye(30).view(30, 5, 6)).flatten(1)  # symmetric: the square root of the covariance
    exact = operator.T @ operator
    draws = field(normal(20_000, 5, 6)).flatten(1)
    torch.testing.assert_close(draws.T @ draws / len(draws), exact, rtol=0, atol=0.06)
    assert abs(float(exact.diagonal().mean()) - 1) < 1e-5
    if all(periodic):
        rolled = exact.view(5, 6, 5, 6).roll((1, 2, 1, 2), (0, 1, 2, 3)).reshape(30, 30)
        torch.testing.assert_close(rolled, exact, rtol=0, atol=1e-5)


def test_spectral_convolution_is_an_explicit_dft():
    """Sum over the kept modes of R_k c_k e^{i k p}, c_k the Fourier coefficients, by loops."""
    conv = SpectralConv2d(2, 1, (4, 4))
    with torch.no_grad():
        conv.point.weight.zero_()
    x = normal(1, 2, 6, 7).double()
    conv = conv.double()
    p = [(a, b) for a in range(6) for b in range(7)]

    def wave(ky: int, kx: int) -> Tensor:
        return torch.tensor(
            [complex(math.cos(t), math.sin(t)) for t in (2 * math.pi * (ky * a / 6 + kx * b / 7) for a, b in p)]
        )

    total = torch.zeros(42, dtype=torch.complex128)
    for row, ky in enumerate((0, 1, -2, -1)):
        for kx in (0, 1, 2):
            c = torch.stack([(x[0, i].flatten() * wave(ky, kx).conj()).mean() for i in range(2)])
            weight = torch.complex(conv.weight[0, row, kx], conv.weight[1, row, kx])[:, 0]
            term = (c * weight).sum() * wave(ky, kx)
            total += term if kx == 0 else term + term.conj()  # a real field has the mirrored column too
    torch.testing.assert_close(conv(x)[0, 0].flatten(), total.real, atol=1e-6, rtol=1e-5)


def test_spectral_norm_gives_unit_power_and_drops_high_modes():
    x = 5 * normal(2, 4, 8, 8)
    out = spectral_norm(x, (4, 4), groups=2)
    torch.testing.assert_close(out.unflatten(1, (2, 2)).square().mean((2, 3, 4)), torch.ones(2, 2), rtol=0, atol=1e-4)
    assert torch.fft.rfft2(out)[..., 3:].abs().max() < 1e-4


# ---- infinity-Diff


@pytest.mark.parametrize("shape", [(16, 16), (21, 20)])
def test_cells_to_grid_to_cells_is_the_identity(shape: tuple[int, int]):
    """Exactly where the grids coincide; where they do not, a linear field survives away from the edge."""
    grid = Grid(shape)
    nodes = (16, 16) if shape == (16, 16) else (24, 24)
    bridge = Bridge(grid, nodes, neighbours=3)
    everywhere = torch.ones(1, 1, *shape, dtype=torch.bool)
    x = normal(1, 2, *shape)
    if bridge.same:
        bridge.same = False  # take the long way
        torch.testing.assert_close(bridge.spread(bridge.gather(x, everywhere)), x)
    else:
        ramp = torch.arange(float(shape[0]))[:, None].expand(1, 1, *shape)
        back = bridge.spread(bridge.gather(ramp, everywhere))
        assert (back - ramp)[..., 2:-2, 2:-2].abs().max() < 0.5


def test_nearest_cells_of_a_set_by_brute_force():
    """Inverse-square weights of the three nearest, distances across the seam of a periodic axis."""
    grid = Grid((8, 8), periodic=(True, False))
    bridge = Bridge(grid, (8, 8), neighbours=3)
    points = torch.rand(1, 1, 8, 8, generator=torch_generator(3)) < 0.2
    x = normal(1, 1, 8, 8)
    out = bridge.gather(x, points)[0, 0]
    chosen = points[0, 0].nonzero().tolist()
    for a in range(8):
        for b in range(8):
            near = sorted(
                (min(abs(a - i), 8 - abs(a - i)) ** 2 + (b - j) ** 2, float(x[0, 0, i, j])) for i, j in chosen
            )
            if near[2][0] == near[3][0]:
                continue  # a tie may be broken either way
            weights = [1 / max(d, 1e-16) for d, _ in near[:3]]
            expected = sum(w * v for w, (_, v) in zip(weights, near[:3], strict=True)) / sum(weights)
            assert abs(float(out[a, b]) - expected) < 1e-4


def test_sparse_operator_sees_its_set_only():
    """What stands at other cells changes nothing at the cells of the set."""
    block = SparseBlock(4, 0, 3, 8, (True, False))
    m = (torch.rand(1, 1, 6, 6, generator=torch_generator(1)) < 0.5).float()
    x, embedding = normal(1, 4, 6, 6), normal(1, 8)
    density = torch.full_like(m, 0.5)
    one, other = (block(x + junk * (1 - m), embedding, m, density) for junk in (0.0, 100.0))
    assert torch.equal(one * m, other * m)


def test_bilinear_rows_are_averages():
    for periodic in (True, False):
        matrix = bilinear_matrix(21, 24, periodic)
        torch.testing.assert_close(matrix.sum(1), torch.ones(21))
        torch.testing.assert_close(bilinear_matrix(5, 5, periodic), torch.eye(5))


# ---- denoising with a field as noise


@each_denoiser
def test_members_start_from_the_coloured_noise(model: type[FieldDenoising], monkeypatch: pytest.MonkeyPatch):
    """A denoiser that finds no noise leaves the first state, divided by its alpha."""
    spec = contract.make_spec()
    made = contract.build(model, spec)
    monkeypatch.setattr(made, "denoise", lambda x_tau, source, tau: torch.zeros_like(x_tau))
    source = contract.make_pair(spec).source
    members = contract.evaluated(made, source)
    white = MemberNoise(0, range(3), range(2))((1, 12, 12))
    first = leading(made.schedule, 5)[0]
    alpha = float(made.schedule.alpha_sigma(first)[0])
    torch.testing.assert_close(members, made.filter(white) / alpha, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "options"), [(InftyDiff, {}), (DDO, {"state": "observed"})], ids=["infty-diff", "ddo"]
)
def test_state_is_read_where_it_is_known(model: type[FieldDenoising], options: dict[str, str]):
    spec = contract.make_spec()
    made = contract.build(model, spec, **options).eval()
    pair = contract.make_pair(spec)
    m_o, tau = pair.target.mask, torch.tensor([10.0, 300.0, 900.0])
    x_tau = normal(3, 1, 12, 12)
    one, other = (made.denoise(torch.where(m_o, x_tau, junk), pair.source, tau, m_o) for junk in (0.0, 1e30))
    assert torch.equal(one[m_o], other[m_o])


def test_ddo_refuses_unknown_words():
    for options in ({"state": "dense"}, {"spectrum": "pink"}):
        with pytest.raises(SolidError, match=next(iter(options.values()))):
            contract.build(DDO, contract.make_spec(), **options)
