"""Configuration: frozen, validated records with a reason beside each default, read from TOML presets.

A preset has one table per step of the data's way: [world], [scenario], [model], [train], [predict]. Unknown keys and
wrong types are errors that name the key. The library below takes ordinary arguments; only the command line and `fit`
read these records.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import SolidError

PRESETS = ("smoke", "laptop", "paper", "paper-large")


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorldConfig(Record):
    """What to simulate (`solid simulate`)."""

    kind: Literal["navier-stokes", "gaussian"] = "navier-stokes"
    trajectories: int = Field(1000, gt=0)
    frames: int = Field(50, gt=0)
    grid: int = Field(64, ge=4, le=4096)  # cells along each axis of the stored fields; more take gigabytes a frame
    side: float = Field(6.283185307179586, gt=0)  # 2 pi: the paper's box
    spacing: float = Field(0.1, gt=0)  # time between frames; the paper gives none, see docs/decisions.md
    warmup: float = Field(
        10.0, ge=0
    )  # time before the first frame, so that the forcing rules and not the initial field
    seed: int = 0


class ScenarioConfig(Record):
    """Where it is measured (`solid observe`)."""

    pattern: Literal["random", "block"] = "random"
    amount: float = Field(0.1, gt=0)  # a density for `random`, a number of blocks for `block`
    regime: Literal["global", "instance"] = "instance"
    block: int = Field(8, gt=0)  # side of a block in cells
    overlap: float = Field(0.0, ge=0, le=1)  # share of the measured cells that are both source and target
    leads: tuple[int, ...] = (1,)  # 0 reconstructs, 1 forecasts the next even frame
    window: int = Field(1, gt=0)  # frames that an example knows: its source, and those before it
    validation: float = Field(0.05, ge=0, lt=1)  # shares of the trajectories
    test: float = Field(0.1, ge=0, lt=1)
    seed: int = 0


class ModelConfig(Record):
    """Which model; `options` are the model's own and are checked by it."""

    name: str = "solid-paper"
    options: dict[str, Any] = {}


class TrainConfig(Record):
    """How to train (`solid train`)."""

    steps: int = Field(2000, gt=0)
    minutes: float | None = Field(None, gt=0)  # a budget; replaces `steps` once the speed is known
    clock: Literal["wall", "cpu"] = "wall"  # what `minutes` counts: time passed, or time computing on all cores
    batch: int = Field(64, gt=0)
    optimiser: Literal["adamw", "muon"] = "adamw"  # the paper's; models of sets learn faster by muon
    lr: float = Field(2e-4, gt=0)  # the paper's table
    lr_end: float = Field(0.0, ge=0)  # where the cosine ends
    warmup: int = Field(100, ge=0)  # steps of linear warm-up
    weight_decay: float = Field(1e-4, ge=0)  # the paper's table
    clip: float = Field(1.0, gt=0)  # the paper's max-norm
    ema: float = Field(0.999, ge=0, lt=1)  # decay of the averaged weights that are validated, saved and used
    shifts: bool = True  # roll examples along the translations under which the store says the world is invariant
    thin: float = Field(0.0, ge=0, le=1)  # share of the examples of a batch whose sensors are thinned ...
    thin_most: float = Field(0.5, ge=0, lt=1)  # ... by a random part of at most this share
    validate_every: int = Field(200, gt=0)
    validation_examples: int = Field(64, gt=0)  # held-out examples scored at each validation
    validation_members: int = Field(8, gt=1)
    patience: int | None = Field(None, gt=0)  # validations without a better CRPS before stopping; None: never early
    checkpoint_every: int = Field(200, gt=0)
    seed: int = 0
    devices: int = Field(1, gt=0)
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"


class PredictConfig(Record):
    """How to draw ensembles (`solid predict`)."""

    members: int = Field(100, gt=0)  # the paper's K
    steps: int = Field(1, gt=0)  # leads of a rollout
    scenes: int | None = Field(None, gt=0)  # examples to predict; None: all of the split
    quantiles: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    max_memory: float = Field(4.0, gt=0)  # GiB that drawing may take
    seed: int = 0


class Config(Record):
    world: WorldConfig = WorldConfig()
    scenario: ScenarioConfig = ScenarioConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    predict: PredictConfig = PredictConfig()


R = TypeVar("R", bound=BaseModel)


def load_config(preset: str | Path | None = None, overrides: tuple[str, ...] = ()) -> Config:
    """A preset by name or a TOML file by path, then `table.key=value` overrides, in that order.

    Parameters
    ----------
    preset : str or path, optional
        "smoke", "laptop", "paper", "paper-large", or a TOML file. Default: the defaults of the records.
    overrides : tuple of str, default ()
        Such as "train.steps=100"; values are TOML.

    Returns
    -------
    Config
        Frozen, with the tables `world`, `scenario`, `model`, `train` and `predict`.

    Raises
    ------
    SolidError
        If a key is unknown or a value is not allowed; the message names it.

    Examples
    --------
    >>> load_config("smoke", ("train.steps=7",)).train.steps
    7
    """
    plain = _read(preset) if preset is not None else {}
    for item in overrides:
        _override(plain, item)
    return checked(Config, plain, where=str(preset or "the defaults"))


def checked(record: type[R], plain: dict[str, Any], where: str) -> R:
    """Validate plain values into a record; the first fault becomes a one-line error that names the key."""
    try:
        return record.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise SolidError(f"unknown key '{name}' in {where}; {_nearest(record, first['loc'])}") from None
        raise SolidError(f"'{name}' in {where}: {first['msg'].lower()}, got {first['input']!r}") from None


def _nearest(record: type[BaseModel], location: tuple[int | str, ...]) -> str:
    for part in location[:-1]:
        record = record.model_fields[str(part)].annotation  # type: ignore[assignment]
    return "known here: " + ", ".join(sorted(record.model_fields))


def _read(preset: str | Path) -> dict[str, Any]:
    if preset in PRESETS:
        text = files("solidfield").joinpath("presets", f"{preset}.toml").read_text()
    elif Path(preset).is_file():
        text = Path(preset).read_text()
    else:
        raise SolidError(f"preset '{preset}' is neither a file nor one of {', '.join(PRESETS)}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SolidError(f"{preset} is not valid TOML: {error}") from None


def _override(plain: dict[str, Any], item: str) -> None:
    name, equals, text = item.partition("=")
    *tables, last = name.strip().split(".")
    if not equals or not tables:
        raise SolidError(f"--set {item}: write table.key=value, for instance --set train.steps=500")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    for table in tables:
        plain = plain.setdefault(table, {})
    plain[last] = value
