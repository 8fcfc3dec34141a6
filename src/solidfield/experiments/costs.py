"""What a model costs, counted in multiply-accumulates (MACs), beside what the paper's table says it costs.

    pass        one denoising step of a diffusion model, one member of one query of any other
    ensemble    cost(K) = cost(1) + (K - 1) (cost(2) - cost(1)); for a diffusion model that of K states in one
                pass, times the passes of its sampler, and K times the cost of its noise

Both are exact: members are drawn independently of one another, so what they do not share is the same for each. MACs are
half of the floating-point operations of matrix products, convolutions and attention (PyTorch's counter) and of what it
does not know: 5 N log2 N operations for a complex Fourier transform of N points, half of that for a real one; n^3 / 3
for a Cholesky factor, n^2 for each column that a triangle of it solves. Arithmetic on single elements is not counted.

A count depends on shapes alone. A model that never looks at its readings is counted without computing anything, on
tensors without contents; one that reads lists of sensors is run once, with sensors at 5 % of the cells as in the paper.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from ..disk import read_json
from ..errors import SolidError
from ..fields import Source
from ..forecast import Forecaster, Spec
from ..grid import Grid
from ..keys import torch_generator
from ..models import MODELS, SIZES, build
from ..models.denoising import Denoising
from ..noise import MemberNoise, Noise
from .store import rounded
from .text import Table, whole

STORED = Path(__file__).parent / "stored"  # counts that are shown at once, and counted again by `solid models --count`
SENSORS = 0.05  # share of the cells that are read
MEMBERS = 100
Shape = Sequence[int]

# The paper's Table 3 (appendix, "Compute and model size"): parameters, and "GFLOPs" per forward pass or per denoising
# step. They are MACs: they agree with ours for the networks that can be rebuilt to the last parameter.
PAPER_TABLE: dict[str, tuple[int, float]] = {
    "solid-paper": (8_950_913, 5.919),
    "unet": (466_593, 0.397),
    "ffno": (535_746, 0.771),
    "oformer": (2_662_849, 6.682),
    "omnifield": (10_272_327, 9.966),
    "scent": (28_988_739, 20.351),
    "stylegan3": (76_320_261, 10_473.0),
    "inr-gan": (55_300_000, 2_147.0),
    "infty-diff": (40_909_722, 6.790),
    "ddo": (11_103_780, 23.723),
}


@dataclass(frozen=True)
class Cost:
    """One row of the table."""

    family: str
    reference: str
    parameters: int
    gmacs_pass: float
    gmacs_ensemble: float
    mask_channel: bool | None  # is the mask an input? None: the model leaves no choice
    paper_parameters: int | None
    paper_gmacs: float | None


# ---- counting


def _real_transform(real: Shape, dim: Shape) -> float:
    return 2.5 * math.prod(real) * math.log2(max(1, math.prod(real[d] for d in dim)))


_aten = torch.ops.aten
UNKNOWN_TO_TORCH: dict[Any, Callable[..., float]] = {  # operations by shapes
    _aten._fft_r2c: lambda x, dim, *_, **__: _real_transform(x, dim),
    _aten._fft_c2r: lambda x, dim, *_, out_shape, **__: _real_transform(out_shape, dim),
    _aten._fft_c2c: lambda x, dim, *_, **__: 2 * _real_transform(x, dim),
    _aten.linalg_cholesky_ex: lambda a, *_, **__: math.prod(a) * a[-1] / 3,
    _aten.linalg_solve_triangular: lambda a, b, *_, **__: math.prod(b) * a[-1],
    _aten.cholesky_solve: lambda b, a, *_, **__: 2 * math.prod(b) * a[-1],
    _aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
}


@torch.no_grad()
def gmacs(run: Callable[[], Any]) -> float:
    """Multiply-accumulates of what `run` computes, in thousand millions."""
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter:
        run()
    return counter.get_total_flops() / 2e9


def pass_cost(model: Forecaster, source: Source) -> float:
    """GMACs of one pass for the first query."""
    one = source[:1]
    if isinstance(model, Denoising):
        return _step_cost(model, one)
    return gmacs(lambda: model.sample(one, 1, _noise(one, 1)))


def ensemble_cost(model: Forecaster, source: Source, members: int = MEMBERS) -> float:
    """GMACs of an ensemble of the first query."""
    one = source[:1]
    if isinstance(model, Denoising):
        calls = 0

        def denoise(x: Tensor, tau: float) -> Tensor:
            nonlocal calls
            calls += 1
            return x

        noise, shape = _noise(one, 1), one.values.shape[1:]
        colouring = gmacs(lambda: model.sampler(denoise, model.schedule, lambda s: model.colour(noise(s)), shape))
        first, two = (_step_cost(model, one.map(lambda t, k=k: t.repeat_interleave(k, 0))) for k in (1, 2))  # type: ignore[misc]
        return members * colouring + calls * (first + (members - 1) * (two - first))
    first, two = (gmacs(lambda k=k: model.sample(one, k, _noise(one, k))) for k in (1, 2))  # type: ignore[misc]
    return first + (members - 1) * (two - first)


def _step_cost(model: Denoising, source: Source) -> float:
    """GMACs of one denoising step of all queries, at one noise level."""
    return gmacs(lambda: model.denoise(source.values, source, torch.ones_like(source.lead)))


def _noise(source: Source, members: int) -> Noise:
    """White noise, or on tensors without contents its shape."""
    if source.values.is_meta:
        return lambda shape: source.values.new_empty(members, len(source), *shape)
    return MemberNoise(0, range(len(source)), range(members), source.values.device)


def sampling_cost(model: Forecaster, source: Source, members: int = MEMBERS, repeats: int = 1) -> dict[str, float]:
    """GMACs and seconds to draw an ensemble of the first query."""
    counted, one, times = ensemble_cost(model, source, members), source[:1], []
    with torch.no_grad():
        for _ in range(repeats):
            start = time.perf_counter()
            model.sample(one, members, MemberNoise(0, [0], range(members)))
            times.append(time.perf_counter() - start)
    return {"gmacs": counted, "seconds": min(times)}


# ---- the table


def survey(
    size: str = "paper", cells: int = 64, members: int = MEMBERS, names: Iterable[str] | None = None
) -> dict[str, Cost]:
    """Models at a size, all of them unless some are named, on a periodic grid of cells x cells."""
    if size not in SIZES:
        raise SolidError(f"no size is called '{size}'; choose one of {', '.join(SIZES)}")
    spec = Spec(Grid.box(cells, cells, 1.0))
    return {name: _surveyed(name, spec, size, members) for name in (MODELS if names is None else names)}


def known_costs(size: str, cells: int) -> dict[str, dict[str, Any]]:  # model -> its row
    """Every model's row: as stored, or counted now where none is stored for this size and grid."""
    found: dict[str, dict[str, Any]] = {}
    for path in STORED.glob("*.json"):
        stored = read_json(path)["result"]
        if (stored["size"], stored["grid"], stored["members"]) == (size, cells, MEMBERS):
            found = stored["costs"]
    missing = [name for name in MODELS if name not in found]
    counted = rounded({name: asdict(cost) for name, cost in survey(size, cells, names=missing).items()})
    return {name: (found | counted)[name] for name in MODELS}


def _surveyed(name: str, spec: Spec, size: str, members: int) -> Cost:
    options = {"size": size if size in MODELS[name].SIZES else "paper"}
    as_in_paper = options["size"] == "paper" and spec.grid.shape == (64, 64)
    for device in ("meta", "cpu"):
        model = build(name, spec, options).eval().to(device)
        source = example(spec).map(lambda tensor, device=device: tensor.to(device))  # type: ignore[misc]
        with suppress(RuntimeError):  # without contents there is nothing to look at
            one, many = pass_cost(model, source), ensemble_cost(model, source, members)
            break
    paper = PAPER_TABLE.get(name) if as_in_paper else None
    return Cost(
        family=model.family,
        reference=model.reference,
        parameters=model.parameter_count(),
        gmacs_pass=one,
        gmacs_ensemble=many,
        mask_channel=model.mask_channel,
        paper_parameters=paper[0] if paper else None,
        paper_gmacs=paper[1] if paper else None,
    )


def example(spec: Spec) -> Source:
    """One query with sensors at a share of the cells, one step ahead."""
    shape = (1, spec.channels, *spec.grid.shape)
    generator = torch_generator("cost")
    places = torch.rand(shape, generator=generator).flatten().argsort()[: round(SENSORS * math.prod(shape))]
    mask = torch.zeros(math.prod(shape), dtype=torch.bool).index_fill(0, places, True).view(shape)
    return Source.of(torch.randn(shape, generator=generator), mask, torch.ones(1))


def table(
    costs: Mapping[str, Mapping[str, Any]],  # rows of `survey` as plain values
    members: int,
) -> Table:
    """For a terminal and for a page; columns of the paper's numbers only where there are any."""
    paper = any(cost["paper_parameters"] for cost in costs.values())
    titles = ("parameters", "GMACs a pass")
    named = [name for title in titles for name in ((title, "in the paper") if paper else (title,))]
    rows = []
    for name, cost in costs.items():
        parameters = (whole(cost["parameters"]), whole(cost["paper_parameters"]))
        passes = (_short(cost["gmacs_pass"]), _short(cost["paper_gmacs"]))
        numbers = (*parameters, *passes) if paper else (parameters[0], passes[0])
        mask = {None: "-", True: "on", False: "off"}[cost["mask_channel"]]
        ensemble = _short(cost["gmacs_ensemble"])
        rows.append((name, cost["family"], mask, *numbers, ensemble, cost["reference"]))
    return ("model", "family", "mask channel", *named, f"GMACs of {members} members", "reference"), rows


def _short(number: float | None) -> str:
    """Three digits; nothing counted is no number."""
    if not number:
        return "-"
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
