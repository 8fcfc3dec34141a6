"""The cost of an ensemble at the paper's size: 100 members of a 64 x 64 field, `solid` against DDIM-50 of
`solid-paper`.

Multiply-accumulates are counted (`costs.py`), times are measured in one run. The chain is
linear in its members: it is timed on four of them, which share a batch, and scaled; a hundred would take minutes
and show the same. A step of a rollout draws one member from each of many states: by a table of each law it would take
several times as long as by the quantiles alone, at laptop size. Eight leads by their direct laws are timed against
the rollout of the same network, and of one without a window, at both sizes and in CPU time; of a rollout, ten members
are timed and scaled, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from solidfield.experiments.costs import sampling_cost
from solidfield.fields import Source, Window
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.models import build
from solidfield.noise import MemberNoise
from solidfield.prediction.ensemble import rollout
from solidfield.worlds.scenarios import scenario_masks

CHAIN_MEMBERS, ROLLED_MEMBERS, MEMBERS = 4, 10, 100


def scene(side: int = 64, queries: int = 1) -> Source:
    mask, _ = scenario_masks("random", 0.1, "instance", (side, side), 0, 0)
    masks = torch.from_numpy(mask).expand(queries, 1, side, side)
    return Source.of(torch.randn(queries, 1, side, side), masks, torch.ones(queries))


def step_by_tables(law: str, states: int = 32) -> float:
    """The time of a rollout's step by tables over that by quantiles alone, the least of three each."""
    model = build("solid", Spec(Grid.box(32, 32, 1.0)), {"size": "laptop", "law": law}).eval()
    source, seconds = scene(32, states), {"sample": [0.0] * 3, "sample_few": [0.0] * 3}
    for way, times in seconds.items():
        for attempt in range(3):
            start = time.perf_counter()
            getattr(model, way)(source, 1, MemberNoise(0, range(states), range(1)))
            times[attempt] = time.perf_counter() - start
    return min(seconds["sample"]) / min(seconds["sample_few"])


def ahead(size: str, side: int, leads: int = 8, window: int = 4) -> dict[str, float]:
    """CPU seconds of 100 members at eight leads: direct, the same model rolled out, and one without a window."""
    grid = Grid.box(side, side, 1.0)
    masks = [scenario_masks("random", 0.1, "instance", grid.shape, index, 0)[0] for index in range(window)]
    mask = torch.from_numpy(np.stack(masks))[None, :, None]
    frames = Window.of(torch.randn(mask.shape), mask)
    earlier = frames.map(lambda part: part[:, 1:])
    source = Source(frames.values[:, 0], mask[:, 0], torch.ones(1), None, earlier)
    windowed, plain = (build("solid", Spec(grid, window=w), {"size": size}).eval() for w in (window, 1))
    alone = Source(source.values, source.mask, source.lead)
    asked = range(1, leads + 1)
    ways: dict[str, Callable[[MemberNoise], object]] = {
        "direct": lambda noise: windowed.sample_leads(source, asked, noise.size[0], noise),
        "rollout_same_run": lambda noise: rollout(windowed, source, noise, leads),
        "rollout_one_frame": lambda noise: rollout(plain, alone, noise, leads),
    }
    seconds = {}
    for name, way in ways.items():
        few = MEMBERS if name == "direct" else ROLLED_MEMBERS
        way(MemberNoise(0, [0], range(1)))  # tables are made once
        start = time.process_time()
        way(MemberNoise(0, [0], range(few)))
        seconds[name] = (time.process_time() - start) * MEMBERS / few
    told = {f"ahead_{size}_{name}_seconds": value for name, value in seconds.items()}
    over = {f"ahead_{size}_{name}_over_direct": value / seconds["direct"] for name, value in seconds.items()}
    return told | {name: value for name, value in over.items() if "rollout" in name}


def main() -> dict[str, float]:
    torch.manual_seed(0)
    source, spec = scene(), Spec(Grid.box(64, 64, 1.0))
    result: dict[str, float] = {}
    chain = build("solid-paper", spec, {"size": "paper"}).eval()
    macs, seconds = sampling_cost(chain, source, CHAIN_MEMBERS).values()
    scale = MEMBERS / CHAIN_MEMBERS
    result |= {"paper_gmacs": macs * scale, "paper_seconds": seconds * scale}
    print(f"solid-paper, DDIM-50, 100 members: {macs * scale:,.0f} GMACs, {seconds * scale:,.0f} s (timed on four)")
    for law in ("mixture", "diffusion"):
        model = build("solid", spec, {"size": "paper", "law": law}).eval()
        macs, seconds = sampling_cost(model, source, MEMBERS, repeats=3).values()
        many = sampling_cost(model, source, 10 * MEMBERS, repeats=3)["seconds"]
        result |= {
            f"{law}_gmacs": macs,
            f"{law}_seconds": seconds,
            f"{law}_fewer_macs": result["paper_gmacs"] / macs,
            f"{law}_less_time": result["paper_seconds"] / seconds,
            f"{law}_seconds_1000_over_100": many / seconds,
            f"{law}_rollout_step_by_tables": step_by_tables(law),
        }
        print(
            f"solid, {law}: {macs:.1f} GMACs ({result[f'{law}_fewer_macs']:,.0f} x fewer), {seconds:.2f} s "
            f"({result[f'{law}_less_time']:,.0f} x less), 1,000 members take {many / seconds:.2f} x the time of 100, "
            f"a rollout's step by tables {result[f'{law}_rollout_step_by_tables']:.1f} x that by quantiles"
        )
    result |= (times := ahead("laptop", 32) | ahead("paper", 64))
    print("100 members x 8 leads: " + ", ".join(f"{name} {value:.3g}" for name, value in times.items()))
    return result


if __name__ == "__main__":
    main()
