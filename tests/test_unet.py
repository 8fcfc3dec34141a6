"""The UNet is the paper's network, works on any grid, and wraps around exactly where it can."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solidfield.errors import SolidError
from solidfield.keys import torch_generator
from solidfield.nn.layers import Attention, Conv3, Dropout, Up, group_norm, sinusoid, wrap
from solidfield.nn.unet import UNet, fit


def randomise(net: nn.Module, *key: int) -> nn.Module:
    """Weights away from the zeros that residual branches start with, as a pure function of the key."""
    generator = torch_generator("test_unet", *key)
    for name, p in net.named_parameters():
        gain = "norm" in name and name.endswith("weight")
        fan = p[0].numel() if p.ndim > 1 else 100
        p.data = torch.randn(p.shape, generator=generator) * fan**-0.5 + float(gain)
    return net.eval()


def small(**options: object) -> UNet:
    chosen: dict = {"base": 8, "multipliers": (1, 2, 2), "blocks": 1, "head_dim": 4, **options}
    net = UNet(3, 2, **chosen)
    randomise(net, 0)
    return net


def diffusers_name(name: str) -> str:
    """Where a weight of ours stands in diffusers' UNet2DModel."""
    for ours, theirs in {
        "embed.0": "time_embedding.linear_1",
        "embed.2": "time_embedding.linear_2",
        "stem": "conv_in",
        "head": "conv_out",
        "norm": "conv_norm_out",
    }.items():
        if name.startswith(ours):
            return name.replace(ours, theirs, 1)
    way, *rest = name.split(".")
    if way == "middle":
        place, (step, piece, *rest) = "mid_block", rest
    else:
        level, kind, *rest = rest
        place = f"{way}_blocks.{level}"
        if kind == "resize":
            return f"{place}.{way}samplers.0.conv.{rest[0]}"
        step, piece, *rest = rest
    tail = ".".join(rest)
    if piece == "attention":
        return f"{place}.attentions.{step}." + tail.replace("norm", "group_norm").replace("out", "to_out.0")
    return f"{place}.resnets.{step}." + tail.replace("shift", "time_emb_proj").replace("skip", "conv_shortcut")


def copy_from(theirs: nn.Module, ours: UNet) -> None:
    state = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, weight in ours.named_parameters():
            there = diffusers_name(name)
            if ".qkv." in there:
                parts = [state.pop(there.replace("qkv", f"to_{letter}")) for letter in "qkv"]
                weight.copy_(torch.cat(parts).view_as(weight))
            else:
                weight.copy_(state.pop(there).view_as(weight))
    assert not state  # every weight of theirs was used, once


def test_has_the_papers_parameter_count() -> None:
    assert sum(p.numel() for p in UNet(3, 1).parameters()) == 8_950_913


@pytest.mark.parametrize("side", [64, 24])
def test_equals_diffusers_weight_for_weight(side: int) -> None:
    diffusers = pytest.importorskip("diffusers", reason="the independent UNet is in the test extra")
    theirs = diffusers.UNet2DModel(
        in_channels=3,
        out_channels=1,
        block_out_channels=(64, 128, 128, 128),
        layers_per_block=2,
        down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"),
        dropout=0.1,
    )
    randomise(theirs, 1)
    ours = UNet(3, 1).eval()
    copy_from(theirs, ours)
    x = torch.randn(1, 3, side, side, generator=torch_generator(side))
    tau = torch.tensor([871.0])
    with torch.no_grad():
        mine, reference = ours(x, tau), theirs(x, tau).sample
        exact = ours.double()(x.double(), tau) - theirs.double()(x.double(), tau).sample
    assert reference.std() > 0.1
    assert (mine - reference).abs().max() < 1e-5 * reference.abs().max()
    assert exact.abs().max() < 1e-12 * reference.abs().max()  # what is left above is rounding and nothing else


@pytest.mark.parametrize("shape", [(21, 20), (5, 3), (1, 1), (16, 12)])
@pytest.mark.parametrize("periodic", [(False, False), (True, False), (True, True)])
def test_any_grid(shape: tuple[int, int], periodic: tuple[bool, bool]) -> None:
    net = small(periodic=periodic)
    y = net(torch.randn(2, 3, *shape, generator=torch_generator(0)), torch.tensor([1.0, 500.0]))
    assert y.shape == (2, 2, *shape)
    assert y.isfinite().all()


def test_padding_is_zeros_beyond_an_edge_and_the_field_itself_around_a_periodic_axis() -> None:
    x = torch.arange(1.0, 7.0).view(1, 1, 2, 3)
    padded, start = fit(x, 4, (False, True))
    assert start == (1, 0)
    assert padded[0, 0].tolist() == [[0, 0, 0, 0], [1, 2, 3, 1], [4, 5, 6, 4], [0, 0, 0, 0]]
    same, start = fit(padded, 4, (True, True))
    assert same is padded
    assert start == (0, 0)


def test_periodic_network_commutes_with_shifts_by_whole_coarse_cells() -> None:
    net, tau = small(periodic=(True, True)), torch.tensor([40.0])
    x = torch.randn(1, 3, 16, 12, generator=torch_generator(2))
    moved = net(x.roll((4, -8), (2, 3)), tau)
    torch.testing.assert_close(moved, net(x, tau).roll((4, -8), (2, 3)), atol=2e-5, rtol=1e-5)
    closed = small(periodic=(False, False))
    assert (closed(x.roll(4, 2), tau) - closed(x, tau).roll(4, 2)).abs().max() > 1e-2


@pytest.mark.parametrize("periodic", [(False, False), (True, True), (False, True)])
def test_up_is_nearest_upsampling_then_a_convolution(periodic: tuple[bool, bool]) -> None:
    up, plain = Up(4, periodic), Conv3(4, 4, periodic)
    plain.load_state_dict(up.state_dict())
    x = torch.randn(2, 4, 3, 5, generator=torch_generator(3))
    torch.testing.assert_close(up(x), plain(F.interpolate(x, scale_factor=2.0, mode="nearest")))


def test_wrap_equals_circular_padding() -> None:
    x = torch.randn(2, 3, 4, 5, generator=torch_generator(4))
    assert torch.equal(wrap(x, (True, True)), F.pad(x, (1, 1, 1, 1), mode="circular"))
    assert torch.equal(wrap(x, (False, True)), F.pad(x, (1, 1, 0, 0), mode="circular"))
    assert wrap(x, (False, False)) is x


def test_both_ways_of_attention_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention(16, 8, 32)
    randomise(attention, 5)
    x = torch.randn(2, 16, 4, 6, generator=torch_generator(5))
    explicit = attention(x)
    monkeypatch.setattr("solidfield.nn.layers.FEW_TOKENS", 0)
    torch.testing.assert_close(attention(x), explicit, atol=1e-5, rtol=1e-5)


def test_dropout_has_the_right_rate_scale_and_gradient() -> None:
    x = torch.ones(401, 499, requires_grad=True)  # not a multiple of four: the last word of bits is cut
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y = Dropout(0.1)(x * 1)
    kept = (y != 0).float()
    assert abs(kept.mean().item() - 0.9) < 4 * (0.09 / x.numel()) ** 0.5
    torch.testing.assert_close(y, kept / 0.9)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(Dropout(0.1).eval()(x), x)


def test_dropout_is_a_function_of_the_seed() -> None:
    net, x = small(dropout=0.5).train(), torch.ones(1, 3, 8, 8)

    def run(seed: int) -> torch.Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return net(x, torch.tensor([5.0]))

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def test_encoder_without_time() -> None:
    net = small(time=False)
    assert not any("shift" in name or "embed" in name for name, _ in net.named_parameters())
    assert net(torch.zeros(1, 3, 8, 8)).shape == (1, 2, 8, 8)
    with pytest.raises(SolidError, match="takes none"):
        net(torch.zeros(1, 3, 8, 8), torch.tensor([1.0]))
    with pytest.raises(SolidError, match="needs tau"):
        small()(torch.zeros(1, 3, 8, 8))


def test_tau_matters_and_may_be_fractional() -> None:
    net, x = small(), torch.ones(1, 3, 8, 8)
    whole, between = net(x, torch.tensor([7.0])), net(x, torch.tensor([7.5]))
    assert 1e-4 < (whole - between).abs().max() < (whole - net(x, torch.tensor([900.0]))).abs().max()
    assert sinusoid(torch.tensor([0.0]), 6).tolist() == [[1, 1, 1, 0, 0, 0]]


def test_groups_adapt_to_width() -> None:
    assert [group_norm(c).num_groups for c in (1, 2, 16, 24, 32, 64, 128, 192)] == [
        1,
        1,
        8,
        12,
        16,
        32,
        32,
        32,
    ]


def test_nonsense_is_refused_with_a_remedy() -> None:
    with pytest.raises(SolidError, match="attention_levels"):
        UNet(1, 1, base=8, multipliers=(1, 2), attention_levels=(2,))
    with pytest.raises(SolidError, match="even base"):
        UNet(1, 1, base=7)
    with pytest.raises(SolidError, match="head_dim"):
        UNet(1, 1, base=6, multipliers=(1,), attention_levels=())
    with pytest.raises(SolidError, match="dropout"):
        Dropout(1.0)
