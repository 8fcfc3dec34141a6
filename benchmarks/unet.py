"""Training steps per second of our UNet against diffusers' of the same size, and of the pieces that differ.

Same parameters, same batch, dropout 0.1 and AdamW for both; the two take turns, and the best time of each
counts, since what else runs on the machine can only add. Goal: at least 1.2 x on a CPU. The pieces are timed
forwards and backwards: periodic padding by concatenation against circular `F.pad`, upsampling in one
transposed convolution against nearest upsampling and a convolution, and dropout.

Most of a step is 3 x 3 convolutions that run near the peak of the processor in both, which bounds what can be
won. Tried and left out: channels_last (no gain over forwards and backwards), fused attention (slower at few
cells and 8 channels a head), Winograd convolutions (1.5 x at 128 channels, but an error of 1e-5 a layer).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from diffusers import UNet2DModel
from torch import Tensor, nn

from solidfield.keys import torch_generator
from solidfield.models.solid_paper import SolidPaper
from solidfield.nn.layers import Conv3, Dropout, Up, wrap
from solidfield.nn.unet import UNet

SIZES = {  # name: (options, side of the grid, batch, turns)
    "paper": (SolidPaper.SIZES["paper"], 64, 4, 5),
    "laptop": (SolidPaper.SIZES["laptop"], 32, 32, 12),
    "narrow": ({"base": 16, "multipliers": (1, 2, 2), "blocks": 1}, 32, 16, 30),
}


def best_of(turns: int, *runs: Callable[[], object]) -> list[float]:
    """Seconds of each run: the best of several turns, after one to warm up."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(turns + 1):
        for run, kept in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if turn:
                kept.append(time.perf_counter() - start)
    return [min(kept) for kept in times]


def their_unet(base: int, multipliers: Sequence[int], blocks: int, attention_levels: Sequence[int] = (2,)) -> nn.Module:
    levels = range(len(multipliers))
    return UNet2DModel(
        in_channels=3,
        out_channels=1,
        block_out_channels=tuple(base * m for m in multipliers),
        layers_per_block=blocks,
        down_block_types=tuple("AttnDownBlock2D" if k in attention_levels else "DownBlock2D" for k in levels),
        up_block_types=tuple("AttnUpBlock2D" if k in attention_levels else "UpBlock2D" for k in reversed(levels)),
        dropout=0.1,
        norm_num_groups=min(32, base // 2),
    )


def training_step(net: nn.Module, call: Callable[[], Tensor]) -> Callable[[], None]:
    optimiser = torch.optim.AdamW(net.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        call().square().mean().backward()
        optimiser.step()

    return step


def compare_networks(results: dict[str, float]) -> None:
    for name, (options, side, batch, turns) in SIZES.items():
        x = torch.randn(batch, 3, side, side, generator=torch_generator("benchmark unet"))
        tau = torch.linspace(1, 1000, batch)
        ours, theirs = UNet(3, 1, **options), their_unet(**options)
        count = sum(p.numel() for p in ours.parameters())
        assert count == sum(p.numel() for p in theirs.parameters())
        mine, other = best_of(
            turns,
            training_step(ours, lambda net=ours, x=x, tau=tau: net(x, tau)),
            training_step(theirs, lambda net=theirs, x=x, tau=tau: net(x, tau).sample),
        )
        results[f"{name}_ours_steps_per_s"], results[f"{name}_diffusers_steps_per_s"] = 1 / mine, 1 / other
        results[f"{name}_ratio"] = other / mine
        print(
            f"UNet {name}, {count:,} parameters, {side} x {side}, batch {batch}: "
            f"{1 / mine:.2f} training steps/s, diffusers {1 / other:.2f}: {other / mine:.2f} x"
        )


def compare_pieces(results: dict[str, float]) -> None:
    both = (True, True)
    fine = torch.randn(4, 64, 64, 64, generator=torch_generator("fine"), requires_grad=True)
    coarse = torch.randn(4, 128, 32, 32, generator=torch_generator("coarse"), requires_grad=True)
    up, conv, drop = Up(128, (False, False)), Conv3(128, 128, (False, False)), Dropout(0.1)

    def whole(result: Tensor) -> None:
        result.backward(torch.ones_like(result))

    pieces: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "periodic padding": (
            lambda: whole(wrap(fine, both)),
            lambda: whole(F.pad(fine, (1, 1, 1, 1), mode="circular")),
        ),
        "upsampling": (
            lambda: whole(up(coarse)),
            lambda: whole(conv(F.interpolate(coarse, scale_factor=2.0, mode="nearest"))),
        ),
        "dropout": (
            lambda: whole(drop(fine * 1)),
            lambda: whole(F.dropout(fine * 1, 0.1)),
        ),
    }
    for name, (ours, plain) in pieces.items():
        mine, other = best_of(15, ours, plain)
        results[f"{name.replace(' ', '_')}_ratio"] = other / mine
        print(f"{name}: {1e3 * mine:.2f} ms, plain {1e3 * other:.2f} ms: {other / mine:.2f} x")


def main() -> dict[str, float]:
    results: dict[str, float] = {"threads": torch.get_num_threads()}
    compare_pieces(results)
    compare_networks(results)
    return results


if __name__ == "__main__":
    main()
