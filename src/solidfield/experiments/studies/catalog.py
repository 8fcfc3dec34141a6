"""Which cells each study shows, at each scale, and in which order they are worth running.

Study 1 asks every model at 10 % and the main ones at 4 and 40 %; study 2 varies data and size; study 3 looks at
spread; study 4 at lambda and filling; study 5 at where the sensors are; `between` at times never trained on. The
tables of a study compare cells of one budget.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...models import MODELS, SIMPLE, THE_NINE, model_class
from ...worlds.scenarios import PAPER_SCENARIOS, Scenario
from ..schemes import PAPER
from .measure import StudyCell
from .scale import Scale

DENSITIES = (0.04, 0.10, 0.40)
OURS = ("solid", "solid-paper", "oracle", "solid-onepass")
STRONG = ("unet", "ffno", "oformer", "unet-mixture")  # the lowest at 10 % with a mask channel: asked at 4 and 40 %, too
NINE = tuple(model.name for model in THE_NINE)
CLASSICAL = tuple(model.name for model in SIMPLE)
LAMBDAS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
OVERLAP = 0.5  # of the ablation: with disjoint masks lambda does nothing
FILLINGS = ("none", "nearest", "rbf")
FEW = 0.1  # of the training trajectories
SIZES: dict[str, dict[str, dict[str, Any]]] = {  # beside the scale's own size; below 3 M parameters at laptop scale
    "solid": {"small": {"base": 8, "features": 8}, "large": {"base": 32, "features": 32}},
    "unet": {"small": {"width": 16}, "large": {"width": 64}},
    "ffno": {"small": {"width": 16}, "large": {"width": 64}},
    "infty-diff": {"small": {"width": 8}, "large": {"width": 20}},
}
# Chosen by the pilots of the 10 % column (its stored cells say so, and a test compares) and taken over by all others.
TUNED: dict[str, dict[str, float]] = {
    "laptop": {
        "solid": 3e-3,
        "solid-paper": 3e-3,
        "oracle": 1e-3,
        "solid-onepass": 3e-3,
        "unet-mixture + mask": 3e-3,
        "unet + mask": 3e-3,
        "ffno + mask": 3e-3,
        "oformer + mask": 1e-3,
        "infty-diff + mask": 3e-4,
    }
}
# Three seeds of the 10 % column at rest: the paper's scheme, the strongest rival of the short column, and `solid`.
SEEDED = ("solid-paper", "unet-mixture + mask", "solid")
SEEDS = (0, 1, 2)
SMOKE_MODELS = ("solid", "solid-paper", "oracle", "unet", "infty-diff", "kriging", "persistence", "climatology")


def cells(study: str, scale: Scale, strong: Sequence[str] = STRONG) -> list[StudyCell]:
    """The cells of a study, the most important first."""
    every = forecasting(scale, strong) if study == "forecasting" else MAKERS[study](scale)
    chosen = [cell for cell in every if scale.size != "smoke" or _in_smoke(cell)]
    return list({cell.key: cell for cell in chosen}.values())


def all_cells(scale: Scale, strong: Sequence[str] = STRONG) -> list[StudyCell]:
    """Every cell once: the 10 % column first, then what needs no training, then study by study."""
    first = [cell for cell in cells("forecasting", scale, strong) if cell.scenario == random(0.10)]
    order = ("uncertainty", "between", "forecasting", "ablation", "patterns", "efficiency")
    rest = [cell for study in order for cell in cells(study, scale, strong)]
    return list({cell.key: cell for cell in [*first, *rest]}.values())


def _in_smoke(cell: StudyCell) -> bool:
    """A few cells of every kind: enough to show that each study runs."""
    amounts = (0.10, 0.40, 6) if cell.label == "solid" else (0.10,)
    name = "oracle" if cell.leaks else cell.model
    return (
        name in SMOKE_MODELS
        and cell.scenario.amount in amounts
        and cell.options.get("lam", 0.05) in (0.0, 0.05)
        and cell.options.get("fill") != "nearest"
        and not cell.label.endswith("large")
        and cell.window == 1  # whose prior takes longer than all the others
        and (cell.model != "infty-diff" or cell.key == make(cell.scale, fair("infty-diff"), random(0.10)).key)  # dear
        and (cell.scenario.amount != 0.40 or cell.scenario.regime == "instance")
    )


def random(density: float, overlap: float = 0.0) -> Scenario:
    return Scenario("random", density, "instance", overlap=overlap)


def make(
    scale: Scale,
    label: str,
    scenario: Scenario,
    extra: dict[str, Any] | None = None,
    short: bool = False,
    **fields: Any,
) -> StudyCell:
    """A cell by the name of a model or scheme; a trailing ` + mask` gives a rival the mask and the wrap-around."""
    name, plus, _ = label.partition(" + mask")
    model = "solid-paper" if name == "oracle" else name.split(",")[0]
    family = model_class(model).family
    if family == "classical":
        return StudyCell(scale, scenario, label, model, **fields)
    options: dict[str, Any] = {"size": scale.size}
    if model == "solid-paper" and scale.size == "laptop":
        options = dict(PAPER)  # what `solid` knows of the box, this one knows, too
    if model == "solid" and scale.size == "smoke":
        options["copula"] = "independent"  # the dearest part of a run of four steps
    if name == "oracle":
        options["oracle"] = True
    if takes(model, "mask_channel"):
        options["mask_channel"] = bool(plus)
    if plus and takes(model, "periodic"):  # convolutions that can wrap around; the others know the box already
        options["periodic"] = True
    budget: dict[str, Any] = {"minutes": scale.minutes, "steps": scale.steps, "rates": scale.rates_of(family)}
    rate = TUNED.get(scale.name, {}).get(label.split(",")[0])
    chooses = scenario == random(0.10) and extra is None and not short and fields.get("share", 1.0) == 1.0
    if rate is not None and not chooses:
        budget = {**scale.given, "rates": (rate,)}
    if short:
        budget["minutes"] = scale.short
    return StudyCell(scale, scenario, label, model, options | (extra or {}), **budget, **fields)


def takes(name: str, option: str) -> bool:
    return name in MODELS and option in inspect.signature(MODELS[name]).parameters


def fair(name: str) -> str:
    """The label of a rival that is given the mask."""
    return f"{name} + mask" if takes(name, "mask_channel") else name


def modern() -> list[str]:
    """Rivals that the paper lacks, with the mask: whatever else is in the list of models."""
    return [fair(name) for name in MODELS if name not in (*OURS, *NINE, *CLASSICAL)]


def at_every_density(strong: Sequence[str] = STRONG) -> list[str]:
    """Labels of the models that are asked at 4 and 40 %, too."""
    return [*OURS, *CLASSICAL, *(fair(name) for name in strong)]


def forecasting(scale: Scale, strong: Sequence[str]) -> list[StudyCell]:
    nine = [*(fair(name) for name in NINE), *NINE]
    at_10 = [make(scale, label, random(0.10)) for label in [*OURS[:3], *CLASSICAL, *OURS[3:], *modern(), *nine]]
    main = at_every_density(strong)
    others = [make(scale, label, random(d), short=True) for d in DENSITIES if d != 0.10 for label in main]
    return at_10 + others


def at_rest() -> list[str]:
    """Labels of the long column."""
    return [*modern(), *(fair(name) for name in NINE), "oracle", "solid-paper", "solid"]


def rest(scale: Scale, minutes: float) -> list[StudyCell]:
    """The 10 % column with a long budget: one seed of each before other seeds, and `solid` last of all."""
    once = [long(scale, label, minutes) for label in at_rest()]
    again = [long(scale, label, minutes, seed) for label in SEEDED for seed in SEEDS[1:]]
    return [cell for cell in once if cell.label != "solid"] + again[:-2] + [once[-1], *again[-2:]]


def long(scale: Scale, label: str, minutes: float, seed: int = 0) -> StudyCell:
    cell = make(replace(scale, minutes=minutes, steps=None), label, random(0.10), seed=seed)
    game = model_class(cell.model).family == "adversarial"  # has half the time
    return replace(cell, minutes=minutes / 2) if game else cell


def efficiency(scale: Scale) -> list[StudyCell]:
    here = random(0.10)
    full = [make(scale, fair(name), here) for name in SIZES]
    few = [make(scale, fair(name), here, share=FEW) for name in [*SIZES, "kriging"]]
    sized = [
        make(scale, f"{fair(name)}, {size}", here, extra)
        for name, sizes in SIZES.items()
        for size, extra in sizes.items()
    ]
    return [*full, make(scale, "kriging", here), *few, *sized]


def uncertainty(scale: Scale) -> list[StudyCell]:
    shown = ("solid", "solid-paper", "oracle", "solid-onepass", fair("unet-mixture"), fair("infty-diff"), "kriging")
    rolled = make(scale, "solid", random(0.10), rollout=scale.rollout)
    return [rolled, *(make(scale, label, random(0.10)) for label in shown), direct(scale)]


def direct(scale: Scale) -> StudyCell:
    """All steps learned together from four frames: nine leads, in five times the time that one has."""
    cell = make(scale, "solid, window of 4", random(0.10), {}, rollout=scale.rollout, window=4)
    return cell if cell.minutes is None else replace(cell, minutes=5 * cell.minutes)


def ablation(scale: Scale) -> list[StudyCell]:
    here = random(0.10, overlap=OVERLAP)
    lambdas = [make(scale, f"solid, lambda {lam:g}", here, {"lam": lam}, short=True) for lam in LAMBDAS]
    filled = [
        make(scale, f"solid, {_filling(fill)}", here, {"prior": "none", "fill": fill}, short=True) for fill in FILLINGS
    ]
    return lambdas + filled


def _filling(fill: str) -> str:
    return "no filling" if fill == "none" else f"{fill} filling"


def patterns(scale: Scale) -> list[StudyCell]:
    return [make(scale, "solid", scenario, short=True) for scenario in twelve(scale).values()]


def twelve(scale: Scale) -> dict[str, Scenario]:
    """The paper's scenarios with blocks of an eighth of this grid: as many blocks, the same share of the cells."""
    return {name: replace(s, block=scale.block) if s.pattern == "block" else s for name, s in PAPER_SCENARIOS.items()}


def between(scale: Scale) -> list[StudyCell]:
    labels = ("solid", "kriging", "persistence")
    here = [make(scale, label, random(0.10)) for label in labels]
    return [*here, *(replace(cell, split="between") for cell in here)]


MAKERS = {make.__name__: make for make in (efficiency, uncertainty, ablation, patterns, between)}
STUDIES = ("forecasting", *MAKERS)
