"""The laws that every forecaster obeys, one function a law, stated through the interface of `forecast.py`
alone.

A test file parametrises them over its models:

    @pytest.mark.parametrize("model", MODELS)
    def test_every_parameter_learns(model):
        contract.every_parameter_learns(model)

Models are built at their `smoke` size with fixed initial weights. Forecasters fitted in closed form are
fitted to the scene first, and the laws about losses and gradients say nothing about them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from solidfield.fields import Pair, Source, Target
from solidfield.forecast import Fitted, Forecaster, Spec
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.noise import MemberNoise

SHAPES = ((64, 64), (32, 32), (21, 20))
SMALL = (12, 12)
POISON = (1e30, float("nan"))


# ---- scenes


def make_spec(shape: tuple[int, int] = SMALL, periodic: bool = True, channels: int = 1, covariates: int = 0) -> Spec:
    height, width = shape
    return Spec(Grid(shape, (1.0 / height, 1.0 / width), periodic=(periodic, periodic)), channels, covariates)


def easy_fields(spec: Spec, batch: int, seed: int) -> Tensor:  # (B, C, H, W)
    """A level and one long wave, both random: a handful of sensors determine the field."""
    height, width = spec.grid.shape
    level, wave = torch.randn(2, batch, spec.channels, 1, 1, generator=torch_generator(seed, "fields"))
    y = torch.arange(height)[:, None] / height
    return level + 0.5 * wave * torch.cos(2 * math.pi * y).expand(height, width)


def make_pair(spec: Spec, sensors: str = "some", batch: int = 3, seed: int = 0, poison: float = 0.0) -> Pair:
    """An easy world observed at `some` (a quarter, at most 256), `one`, `all` or `none` of the cells."""
    height, width = spec.grid.shape
    shape = (batch, spec.channels, height, width)
    order = torch.rand(shape, generator=torch_generator(seed, "sensors")).flatten(2).argsort(2).argsort(2)
    count = {"some": min(height * width // 4, 256), "one": 1, "all": height * width, "none": 0}[sensors]
    m_i = (order < count).unflatten(2, spec.grid.shape)
    m_o = torch.rand(shape, generator=torch_generator(seed, "targets")) < 1 / 3
    field = easy_fields(spec, batch, seed)
    covariates = None
    if spec.covariates:
        covariates = torch.randn(batch, spec.covariates, *spec.grid.shape, generator=torch_generator(seed, "known"))
    source = Source.of(torch.where(m_i, field, poison), m_i, torch.ones(batch), covariates)
    return Pair(source, Target.of(torch.where(m_o, field, poison), m_o))


def build(model: type[Forecaster], spec: Spec, batches: int = 4, **options: Any) -> Forecaster:
    """The model at its smoke size, its initial weights a function of nothing; fitted to `batches` if it has no loss."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = model(spec, **(model.SIZES["smoke"] | options))
    if isinstance(made, Fitted):
        made.fit([make_pair(spec, batch=16, seed=seed) for seed in range(batches)])
    return made


def evaluated(model: Forecaster, source: Source, members: range = range(2), seed: int = 0) -> Tensor:
    """Members (K, B, C, H, W) of a model as it is used: evaluation mode, no gradients."""
    model.eval()
    with torch.no_grad():
        return model.sample(source, len(members), MemberNoise(seed, range(len(source)), members))


def losses(model: Forecaster, pair: Pair, seed: int = 0) -> Iterator[Tensor]:
    """Each objective's loss in turn, with the randomness of one training step; none if fitted."""
    if isinstance(model, Fitted):
        return
    model.train()
    for objective in model.objectives():
        with torch.random.fork_rng():
            torch.manual_seed(seed)  # dropout alone reads it
            loss = objective.loss(pair, torch_generator(seed, "loss"))
        yield loss


def descend(model: Forecaster, batches: list[Pair], lr: float) -> dict[str, Tensor]:
    """Adam on every objective in turn; returns the summed size of each parameter's gradient."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    sizes = {name: torch.zeros(()) for name, parameter in model.named_parameters() if parameter.requires_grad}
    objectives = model.objectives()
    optimisers = [torch.optim.Adam(objective.parameters, lr=lr, betas=objective.betas) for objective in objectives]
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for step, pair in enumerate(batches):
            for objective, optimiser in zip(objectives, optimisers, strict=True):
                model.zero_grad()
                objective.loss(pair, torch_generator(step, "loss")).backward()
                for parameter in objective.parameters:
                    if parameter.grad is not None:
                        sizes[names[parameter]] += parameter.grad.abs().sum()
                torch.nn.utils.clip_grad_norm_(objective.parameters, 1.0)
                optimiser.step()
    return sizes


# ---- laws


def finite_on(model: type[Forecaster], shape: tuple[int, int], wraps: bool, **options: Any) -> None:
    """One sensor, no sensor, all sensors: the losses and the members are finite and have the right shape."""
    spec = make_spec(shape, wraps)
    made = build(model, spec, batches=1, **options)
    for sensors, batch in (("one", 2), ("none", 2), ("all", 1)):  # thousands of sensors are dear to some
        pair = make_pair(spec, sensors, batch)
        for loss in losses(made, pair):
            assert loss.shape == ()
            assert torch.isfinite(loss), sensors
        members = evaluated(made, pair.source)
        assert members.shape == (2, batch, 1, *shape)
        assert torch.isfinite(members).all(), sensors


def mixed_batch_is_finite(model: type[Forecaster]) -> None:
    """A row without any sensor or any target beside ordinary ones: losses and gradients stay finite."""
    spec = make_spec()
    made = build(model, spec)
    pair = make_pair(spec)
    some = torch.tensor([True, False, True])[:, None, None, None]
    m_i, m_o = pair.source.mask & some, pair.target.mask & ~some.roll(1, 0)
    pair = Pair(Source.of(pair.source.values, m_i, pair.source.lead), Target.of(pair.target.values, m_o))
    for loss in losses(made, pair):
        made.zero_grad()
        loss.backward()
        assert torch.isfinite(loss)
        assert all(torch.isfinite(p.grad).all() for p in made.parameters() if p.grad is not None)
    assert torch.isfinite(evaluated(made, pair.source)).all()


def every_parameter_learns(model: type[Forecaster], **options: Any) -> None:
    """Each trainable parameter meets a gradient within a few steps (some start behind a zero)."""
    spec = make_spec(channels=2, covariates=1)
    made = build(model, spec, **options)
    if isinstance(made, Fitted):
        return
    sizes = descend(made, [make_pair(spec, seed=seed) for seed in range(3)], lr=1e-3)
    assert [name for name, size in sizes.items() if not size > 0] == []


def blind_off_the_masks(model: type[Forecaster]) -> None:
    """1e30 and NaN at every unobserved cell: losses, gradients and members keep their bits."""
    spec = make_spec()
    made = build(model, spec)

    def outcome(poison: float) -> list[Tensor]:
        pair = make_pair(spec, poison=poison)
        found = []
        for loss in losses(made, pair):
            made.zero_grad()
            loss.backward()
            found += [loss.detach(), *(p.grad.clone() for p in made.parameters() if p.grad is not None)]
        return [*found, evaluated(made, pair.source)]

    state = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    clean = outcome(0.0)
    for poison in POISON:
        made.load_state_dict(state)  # running statistics and the like move in training mode
        for a, b in zip(clean, outcome(poison), strict=True):
            assert torch.equal(a, b)


def same_input_same_output(model: type[Forecaster]) -> None:
    """Equal generators, equal losses; equal noise, equal members; nothing reads global random state."""
    spec = make_spec()
    made = build(model, spec)
    pair = make_pair(spec)
    for a, b in zip(losses(made, pair), losses(made, pair), strict=True):
        assert torch.equal(a, b)
    first = evaluated(made, pair.source)
    torch.rand(7)
    assert torch.equal(first, evaluated(made, pair.source))


def members_are_their_own(model: type[Forecaster]) -> None:
    """Members differ exactly if the model is stochastic; member k does not depend on its neighbours."""
    spec = make_spec()
    made = build(model, spec)
    if not isinstance(made, Fitted):
        descend(made, [make_pair(spec, seed=seed) for seed in range(2)], lr=1e-3)  # off any zero-initialised head
    source = make_pair(spec).source
    members = evaluated(made, source, range(4))
    alone = evaluated(made, source, range(2, 3))
    torch.testing.assert_close(members[2:3], alone, rtol=1e-4, atol=1e-5)
    for a, b in pairwise(members):
        assert torch.equal(a, b) != made.stochastic


def round_trip(model: type[Forecaster]) -> None:
    """Weights saved and loaded into a fresh model, which started elsewhere, give the same members."""
    spec = make_spec()
    made, other = build(model, spec), build(model, spec)
    if not isinstance(made, Fitted):
        descend(made, [make_pair(spec)], lr=1e-2)
    source = make_pair(spec, seed=1).source
    data = safetensors.torch.save({name: t.contiguous() for name, t in made.state_dict().items()})
    other.load_state_dict(safetensors.torch.load(data))
    assert torch.equal(evaluated(made, source), evaluated(other, source))


def reads_channels_and_covariates(model: type[Forecaster], **options: Any) -> None:
    """Several variables and known channels: shapes are right, and the members depend on both."""
    spec = make_spec(channels=2, covariates=3)
    made = build(model, spec, **options)
    if not isinstance(made, Fitted):
        descend(made, [make_pair(spec, seed=seed) for seed in range(3)], lr=1e-3)
    source = make_pair(spec).source
    members = evaluated(made, source)
    assert members.shape == (2, 3, 2, *SMALL)
    assert source.covariates is not None
    for c in range(2):
        raised = source.values.clone()
        raised[:, c] += 1.0
        others = evaluated(made, Source.of(raised, source.mask, source.lead, source.covariates))
        assert not torch.equal(members[:, :, c], others[:, :, c])
        if isinstance(made, Fitted):  # a closed form takes the variables one by one
            assert torch.equal(members[:, :, 1 - c], others[:, :, 1 - c])
    other_known = Source.of(source.values, source.mask, source.lead, source.covariates + 1.0)
    assert torch.equal(members, evaluated(made, other_known)) == isinstance(made, Fitted)  # which reads no channels


def learns_an_easy_world(model: type[Forecaster], steps: int, lr: float, left: float = 0.4, **options: Any) -> None:
    """A short training lowers the loss, and leaves at most so much of climatology's variance on held-out targets."""
    spec = make_spec((8, 8))
    made = build(model, spec, **options)
    held_out = make_pair(spec, batch=64, seed=-1)
    target = held_out.target

    @torch.no_grad()
    def held_out_loss() -> float:
        return float(torch.stack([loss for seed in range(4) for loss in losses(made, held_out, seed)]).mean())

    if not isinstance(made, Fitted):
        batches = [make_pair(spec, batch=16, seed=seed) for seed in range(steps)]
        made.prepare(batches)
        falls = len(made.objectives()) == 1  # the losses of a game need not
        before = held_out_loss() if falls else math.inf
        descend(made, batches, lr)
        assert not falls or held_out_loss() < before
    mean = evaluated(made, held_out.source, range(8 if made.stochastic else 1)).mean(0)
    error = (mean - target.values)[target.mask].square().mean()
    climatology = target.values[target.mask].var()
    assert error < left * climatology, f"{float(error):.3f} against {float(climatology):.3f}"
