"""The paper's model: its size, its strictness, its oracle, and its members."""

import dataclasses
import math
from functools import partial

import pytest
import torch
from torch import Tensor

import contract
from solidfield.errors import SolidError
from solidfield.fields import OraclePair, Pair, Source, Target, restrict
from solidfield.forecast import Spec
from solidfield.grid import Grid
from solidfield.keys import torch_generator
from solidfield.models.solid_paper import SolidPaper
from solidfield.noise import MemberNoise
from solidfield.theory.sample import temperature
from solidfield.theory.schedule import linear

TINY = {"base": 8, "multipliers": (1, 2), "blocks": 1, "attention_levels": (), "dropout": 0.0, "steps": 4}
SPEC = Spec(Grid((6, 5)))


def tiny(spec: Spec = SPEC, **options: object) -> SolidPaper:
    model = SolidPaper(spec, **(TINY | options))  # type: ignore[arg-type]
    generator = torch_generator("tiny")
    for p in model.parameters():
        p.data += 0.1 * torch.randn(p.shape, generator=generator)
    return model


def example(spec: Spec = SPEC, batch: int = 3) -> tuple[Pair, Tensor]:
    """A pair, and the dense field that its target was taken from."""
    generator = torch_generator("example")
    shape = (batch, spec.channels, *spec.grid.shape)
    now, later = torch.randn(2, *shape, generator=generator)
    m_i, m_o = torch.rand(2, *shape, generator=generator) < 0.3
    covariates = torch.randn(batch, spec.covariates, *spec.grid.shape, generator=generator) if spec.covariates else None
    return Pair(Source.of(now, m_i, torch.ones(batch), covariates), Target.of(later, m_o)), later


@pytest.mark.parametrize("shape", contract.SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_finite_on_the_grids_of_the_paper(shape: tuple[int, int]) -> None:
    contract.finite_on(SolidPaper, shape, True, periodic="auto")


def test_sizes() -> None:
    def count(size: str) -> int:
        return SolidPaper(Spec(Grid((64, 64))), **SolidPaper.SIZES[size]).parameter_count()

    assert count("paper") == 8_950_913
    assert 35e6 < count("paper-large") < 37e6
    assert count("smoke") < 0.2e6
    assert count("laptop") < 1.1e6


def test_loss_is_a_pure_function_of_pair_and_generator() -> None:
    model, (pair, _) = tiny(), example()
    losses = [model.loss(pair, torch_generator(seed)).item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_loss_starts_at_the_variance_of_the_noise() -> None:
    """A fresh network answers zero, so the loss is the mean of eps^2 over the targets: 1 up to chance."""
    pair, _ = example(batch=400)
    model = SolidPaper(SPEC, **(TINY | {"lam": 0.0}))  # type: ignore[arg-type]
    assert abs(model.loss(pair, torch_generator(0)).item() - 1) < 5 * math.sqrt(2 / (400 * 9))


def test_a_velocity_is_another_name_for_the_noise() -> None:
    """With v = alpha eps - sigma x_0, sigma x_tau + alpha v is eps, at every level."""
    model = tiny(predict="velocity")
    x_0, eps = torch.randn(2, 5, 1, 6, 5, generator=torch_generator("velocity"))
    tau = torch.tensor([1.0, 10.0, 300.0, 900.0, 1000.0])
    alpha, sigma = (s.float()[:, None, None, None] for s in model.schedule.alpha_sigma(tau))
    answer = alpha * eps - sigma * x_0
    torch.testing.assert_close(model.noise_in(answer, alpha * x_0 + sigma * eps, tau), eps, atol=1e-5, rtol=0)


def test_strict_x_tau_is_pure_noise_off_the_target_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (pair, later) = tiny(), example()
    seen: dict[str, Tensor] = {}

    def spy(key: str, x_tau: Tensor, source: Source, tau: Tensor, known: Tensor) -> Tensor:
        seen[key], seen["tau"] = x_tau, tau
        return x_tau

    monkeypatch.setattr(model, "denoise", partial(spy, "strict"))
    model.loss(pair, torch_generator(4))
    nothing = dataclasses.replace(pair, target=Target(torch.zeros_like(later), pair.target.mask))
    monkeypatch.setattr(model, "denoise", partial(spy, "noise"))
    model.loss(nothing, torch_generator(4))
    signal = seen["strict"] - seen["noise"]
    alpha = linear().alpha_sigma(seen["tau"])[0].float().view(-1, 1, 1, 1)
    assert (signal[~pair.target.mask] == 0).all()
    torch.testing.assert_close(signal, alpha * restrict(later, pair.target.mask), atol=1e-6, rtol=1e-5)


def test_oracle_leaks_says_so_and_takes_nothing_else() -> None:
    pair, later = example()
    strict, oracle = tiny(), tiny(oracle=True)
    assert (strict.leaks, oracle.leaks) == (False, True)
    loss = oracle.loss(OraclePair(pair, later), torch_generator(0))
    assert loss != oracle.loss(OraclePair(pair, later + 1), torch_generator(0))
    with pytest.raises(SolidError, match="oracle=false"):
        oracle.loss(pair, torch_generator(0))
    with pytest.raises(SolidError, match="oracle=true"):
        strict.loss(OraclePair(pair, later), torch_generator(0))


def test_members_do_not_depend_on_how_they_are_drawn() -> None:
    model, (pair, _) = tiny().eval(), example(batch=2)
    with torch.no_grad():
        whole = model.sample(pair.source, 3, MemberNoise(0, [10, 11], [0, 1, 2]))
        part = model.sample(pair.source[1:2], 2, MemberNoise(0, [11], [1, 2]))
    assert whole.shape == (3, 2, 1, 6, 5)
    torch.testing.assert_close(part, whole[1:, 1:], atol=2e-4, rtol=1e-4)  # rounding, magnified by 1 / alpha_T
    assert (whole[0] - whole[1]).abs().mean() > 0.1


def test_several_variables_covariates_and_periodic_axes() -> None:
    spec = Spec(Grid((8, 4), periodic=(True, False)), channels=2, covariates=3)
    model, (pair, _) = tiny(spec, periodic="auto"), example(spec)
    assert model.net.periodic == (True, False)
    assert tiny(spec).net.periodic == (False, False)
    assert model.net.stem.in_channels == 9
    assert model.loss(pair, torch_generator(0)).isfinite()
    assert model.sample(pair.source, 2, MemberNoise(0, range(3), range(2))).shape == (2, 3, 2, 8, 4)
    with pytest.raises(SolidError, match="covariates"):
        model.loss(
            dataclasses.replace(pair, source=dataclasses.replace(pair.source, covariates=None)),
            torch_generator(0),
        )


def test_temper_widens_the_first_noise() -> None:
    model = tiny(temper=True, sampler="dpmpp", steps=12)
    assert model.temperature == temperature(model.sampler, model.schedule) != 1
    assert tiny().temperature == 1


@pytest.mark.parametrize(
    "options", [{"lam": -1.0}, {"schedule": "x"}, {"sampler": "x"}, {"periodic": "yes"}, {"clip": 0.0}]
)
def test_nonsense_is_refused(options: dict) -> None:
    with pytest.raises(SolidError, match=r"choose|must"):
        tiny(**options)
