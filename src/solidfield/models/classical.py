"""The simple methods that practitioners use, behind the interface of the networks.

    climatology   the law of the training targets, readings ignored; cells are drawn independently
    persistence   the last reading of the nearest sensor; at lead 0 the same map is called `nearest`
    idw, rbf      inverse distance and thin-plate spline; power and smoothing have the least absolute error on
                  training targets, for each lead by itself (at lead 0 the smoothing is then 0 or near it)

Several channels are treated independently. What `fit` finds is kept in buffers, so a run folder holds it; a
query whose lead was not fitted uses the setting of the closest one. Kriging has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from ..fields import Pair, Source, restrict
from ..forecast import Fitted, Spec
from ..noise import Noise
from ..theory.covariance import collect, mean_field
from ..theory.interpolate import Interpolator, interpolate, inverse_distance, nearest, radial_basis

NODES = 1025  # quantiles kept of the climatology: fine enough for a 99.9 % interval
TARGETS = 4000  # readings that choose a setting, for each lead; from at least 16 training pairs


def adopt_shapes(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Before loading: give each buffer the shape it was saved with (the number of leads is the data's)."""
    for name, buffer in module.named_buffers(recurse=False):
        saved = state.get(prefix + name)
        if saved is not None and saved.shape != buffer.shape:
            setattr(module, name, torch.empty(saved.shape, dtype=buffer.dtype, device=buffer.device))


class Climatology(Fitted):
    """A mean (constant, by row, column or cell: see `mean_field`) plus a draw from all residuals."""

    name = "climatology"
    reference = "the historical distribution of the readings"
    mean: Tensor  # (C, H, W)
    quantiles: Tensor  # (C, NODES), at equally spaced probabilities from 0 to 1

    def __init__(self, spec: Spec):
        super().__init__(spec)
        normal = torch.special.ndtri(torch.linspace(0, 1, NODES).clamp(1e-4, 1 - 1e-4))
        self.register_buffer("mean", torch.zeros(spec.channels, *spec.grid.shape))
        self.register_buffer("quantiles", normal.repeat(spec.channels, 1))

    def fit(self, batches: Iterable[Pair]) -> None:
        target = collect(batches).target
        for c in range(self.spec.channels):
            values, mask = target.values[:, c], target.mask[:, c]
            if mask.any():
                mean = mean_field(values, mask).float()
                ranked = (values - mean)[mask].sort().values
                self.mean[c], self.quantiles[c] = mean, _lookup(ranked, torch.linspace(0, 1, NODES))

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        probability = torch.special.ndtr(noise(source.values.shape[1:]))
        draws = [_lookup(table, probability[:, :, c]) for c, table in enumerate(self.quantiles)]
        return self.mean + torch.stack(draws, 2)


def _lookup(
    table: Tensor,  # (n,) values at equally spaced probabilities
    probability: Tensor,  # (...)
) -> Tensor:  # (...)
    place = probability.to(table.dtype) * (len(table) - 1)
    low = place.floor().long().clamp(max=max(len(table) - 2, 0))
    high = (low + 1).clamp(max=len(table) - 1)
    return torch.lerp(table[low], table[high], place - low)


class Persistence(Fitted):
    """The last reading of the nearest sensor, whatever the lead."""

    name = "persistence"
    reference = "the last reading, carried forward"
    stochastic = False

    def fit(self, batches: Iterable[Pair]) -> None:
        """Nothing to estimate."""

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        return _repeat(interpolate(source, nearest, self.spec.grid), members)


class Nearest(Persistence):
    """The reading of the nearest sensor: the same map as persistence, under its name for reconstruction."""

    name = "nearest"
    reference = "Voronoi (Thiessen) interpolation, Thiessen 1911"


class InverseDistance(Fitted):
    """Shepard's weighted mean; the power is fitted."""

    name = "idw"
    reference = "Shepard 1968, A two-dimensional interpolation function for irregularly-spaced data"
    stochastic = False
    POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    leads: Tensor  # (L,)
    powers: Tensor  # (L, C)

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.register_buffer("leads", torch.zeros(1))
        self.register_buffer("powers", torch.full((1, spec.channels), 2.0))
        self.register_load_state_dict_pre_hook(adopt_shapes)

    def fit(self, batches: Iterable[Pair]) -> None:
        methods = [partial(inverse_distance, power=power) for power in self.POWERS]
        self.leads, best = _choose(collect(batches), methods, self.spec)
        self.powers = torch.tensor(self.POWERS)[best]

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        field = _by_lead(source, lambda q: partial(inverse_distance, power=q), self.leads, self.powers, self.spec)
        return _repeat(field, members)


class RadialBasis(Fitted):
    """Thin-plate spline; the smoothing is fitted."""

    name = "rbf"
    reference = "Duchon 1977, Splines minimizing rotation-invariant semi-norms; scipy's RBFInterpolator"
    stochastic = False
    SMOOTHINGS = (0.0, 0.3, 3.0, 30.0, 300.0)  # beside r^2 log r, r in cells: 0.3 is slight, 300 nearly a plane
    leads: Tensor  # (L,)
    smoothings: Tensor  # (L, C)

    def __init__(self, spec: Spec):
        super().__init__(spec)
        self.register_buffer("leads", torch.zeros(1))
        self.register_buffer("smoothings", torch.zeros(1, spec.channels))
        self.register_load_state_dict_pre_hook(adopt_shapes)

    def fit(self, batches: Iterable[Pair]) -> None:
        methods = [partial(radial_basis, smoothing=smoothing) for smoothing in self.SMOOTHINGS]
        self.leads, best = _choose(collect(batches), methods, self.spec)
        self.smoothings = torch.tensor(self.SMOOTHINGS)[best]

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:  # (K, B, C, H, W)
        field = _by_lead(source, lambda q: partial(radial_basis, smoothing=q), self.leads, self.smoothings, self.spec)
        return _repeat(field, members)


def _choose(
    pair: Pair, methods: Sequence[Interpolator], spec: Spec
) -> tuple[Tensor, Tensor]:  # (L,) leads, (L, C) positions of the methods with the least absolute error
    leads = pair.source.lead.unique().float()
    best = []
    for lead in leads:
        rows = (pair.source.lead == lead).nonzero()[:, 0]
        each = float(pair.target.mask[rows].sum()) / (len(rows) * spec.channels)
        trials = min(len(rows), max(16, int(TARGETS / max(each, 1.0))))
        rows = rows[torch.linspace(0, len(rows) - 1, trials).long()]
        source, values, mask = pair.source[rows], pair.target.values[rows], pair.target.mask[rows]
        fields = [interpolate(source, method, spec.grid) for method in methods]
        errors = [restrict((field - values).abs(), mask).sum((0, 2, 3)) for field in fields]  # each (C,)
        best.append(torch.stack(errors).argmin(0))
    return leads, torch.stack(best)


def _by_lead(
    source: Source,
    method: Callable[[float], Interpolator],
    leads: Tensor,  # (L,)
    settings: Tensor,  # (L, C)
    spec: Spec,
) -> Tensor:  # (B, C, H, W)
    """Each query and channel with the setting of the closest fitted lead."""
    closest = (source.lead[:, None] - leads).abs().argmin(1)  # (B,)
    field = torch.zeros_like(source.values)
    for b, c in product(range(field.shape[0]), range(field.shape[1])):
        apply = method(float(settings[closest[b], c]))
        field[b, c] = apply(source.values[b, c], source.mask[b, c], spec.grid.periodic, spec.grid.spacing)
    return field


def _repeat(field: Tensor, members: int) -> Tensor:  # (B, C, H, W) -> (K, B, C, H, W), members alike
    return field.expand(members, *field.shape)
