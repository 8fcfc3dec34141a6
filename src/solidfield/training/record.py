"""What a finished run folder holds, as one frozen record: the model, its scaling and grid, and where they came from.

`RunRecord.open(folder)` reads it; `folder.py` says what the files are and writes them. The public `Run` (`run.py`) is
this record with the verbs of prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from ..clock import Clock, zone
from ..disk import read_json, read_tensors
from ..errors import SolidError
from ..forecast import Spec
from ..grid import Grid
from ..models import build
from ..models.solid_set import SolidSet
from ..pairs.covariates import Recipe
from ..pairs.records import readings_kept
from ..pairs.scaling import Scaling
from ..questions.record import Record
from ..readings.names import is_taken

RUN, WEIGHTS, CELLS, LOG, STATE = "run.json", "weights.safetensors", "cells.safetensors", "log.jsonl", "state"
READINGS = "readings.safetensors"
PAIRS = "pairs.zarr"


class Told(BaseModel):
    """Errors of readings, as `readings/error_table.py` has them."""

    by: str
    of: dict[str, dict[str, float]]


class HowRead(BaseModel):
    """What a run remembers of how its readings were read, for new ones."""

    timezone: str | None = None
    columns: dict[str, str] | None = None
    dates: str | None = None
    units: str | None = None
    name: str | None = None
    drop_above: float | None = None
    errors: Told | None = None


# Of a run folder; raised whenever the weights of any model change names or shapes (`tests/test_checkpoint.py` sees it).
# A run of an earlier format is opened as long as its weights still fit.
FORMAT = 8
Document = dict[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """A trained model and what it takes to use it on data in physical units."""

    path: Path
    model: Any  # a Forecaster, or a model of sets; in evaluation mode, on the CPU
    scaling: Scaling
    grid: Grid
    variables: tuple[str, ...]
    units: tuple[str, ...]
    never_supervised: Tensor  # (C, H, W) bool: no training target ever taught the model about this cell
    leaks: bool  # was it trained on dense truth? then every result must say so
    info: Document  # run.json: provenance, settings, history
    recipe: Recipe | None = None  # of the covariates
    static: np.ndarray | None = None  # (S, H, W) static covariates, where there is a recipe

    @property
    def step(self) -> float:
        """Time between two leads: seconds where times are instants."""
        return float(self.info["data"]["step"])

    @property
    def epoch(self) -> str | None:
        """Since when times count; None where they are a simulation's own."""
        return self.info["data"].get("epoch")

    def readings(self) -> tuple[Record, dict[str, np.ndarray]]:
        """What a run of questions was trained on and is judged by, and the cells that were held, (H, W) bool each."""
        if READINGS not in self.info["files"]:
            raise SolidError(f"{self.path} kept no readings to be judged by; train it again from its readings")
        tensors = read_tensors(self.path / READINGS, self.info["files"][READINGS])
        about = {"grid": self.grid, "variables": self.variables, "units": self.units, "static": self.static}
        data = self.info["data"]
        return readings_kept(tensors, about | {"start": data["start"], "step": data["step"]})

    @property
    def clock(self) -> Clock | None:
        """When its frames are; None where times are a simulation's own."""
        plain = self.info["data"].get("clock")
        return Clock.from_dict({"every_ns": round(self.step * 1e9), **plain}) if plain else None

    @property
    def reading(self) -> dict[str, Any]:
        """How the readings were read (`fit`); of a run of an earlier version, the zone of its calendar alone."""
        zone = "UTC" if self.recipe is None else self.recipe.timezone
        return self.info.get("reading") or {"timezone": None if zone == "UTC" else zone}

    @property
    def zone(self) -> str:
        """Of times that name none: the one the readings were read with."""
        return self.reading.get("timezone") or "UTC"

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open a finished run for use."""
        path = Path(path)
        if not (path / RUN).is_file():
            raise SolidError(f"{path} is not a run folder ({RUN} is missing); `solid train` makes one")
        info = read_json(path / RUN)
        if info.get("format") not in range(1, FORMAT + 1):
            raise SolidError(f"the run {path} was {_trained_by(info)}")
        try:
            run = cls._read(path, info)
            run._check()
        except SolidError:
            raise
        except Exception as error:  # a hash is no proof: whoever changes a file can change its hash, too
            why = " ".join(f"{type(error).__name__}: {error}".split())[:160]
            raise SolidError(f"{path} says what no run can ({why}); copy it again or train anew") from None
        return run

    def _check(self) -> None:
        """What later work relies on, looked at once."""
        count, data = len(self.variables), self.info["data"]
        HowRead.model_validate(self.reading)
        sound = {
            "scaling": self.scaling.sound(count),
            "recipe": self.recipe is None or self.recipe.sound(count),
            "leaks": isinstance(self.leaks, bool),
            "units": len(self.units) == count,
            "step": 0 <= self.step < np.inf,
            "leads": all(lead > -data.get("window", 1) for lead in data["leads"]),
            "variables": not any(is_taken(name, self.variables) for name in self.variables),
            "versions": self.info["versions"]["solidfield"] and self.info["config_hash"] and data["fingerprint"],
            "clock": self.clock is None or (self.clock.every > 0 and zone(self.zone)),
        }
        for name, good in sound.items():
            if not good:
                raise ValueError(f"wrong {name}")

    @classmethod
    def _read(cls, path: Path, info: Document) -> Self:
        if not info["finished"]:
            raise SolidError(f"the run {path} has not finished training; resume it to the end before using it")
        data = info["data"]
        cells = read_tensors(path / CELLS, info["files"][CELLS])
        domain = cells["domain"].numpy() if "domain" in cells else None
        grid = Grid.from_dict(data["grid"], domain)
        if cells["never_supervised"].shape != (len(data["variables"]), *grid.shape):
            raise ValueError("its cells are not those of its grid")
        with torch.random.fork_rng(devices=[]):  # its initial weights are thrown away: disturb nobody's stream
            model = _built(info, grid, cells.get("static"))
        weights = read_tensors(path / WEIGHTS, info["files"][WEIGHTS])
        try:
            model.load_state_dict(weights)
        except RuntimeError:
            why = "copy it again" if info["format"] == FORMAT else f"it was {_trained_by(info)}"
            raise SolidError(f"the weights in {path} do not fit model '{model.name}': {why}") from None
        return cls(
            path=path,
            model=model.eval().requires_grad_(False),
            scaling=Scaling.from_dict(info["scaling"]),
            grid=grid,
            variables=tuple(data["variables"]),
            units=tuple(data["units"]),
            never_supervised=cells["never_supervised"],
            leaks=info["model"]["leaks"],
            info=info,
            recipe=Recipe.from_dict(data["recipe"]) if "recipe" in data else None,
            static=cells["static"].numpy() if "static" in cells else None,
        )


def _trained_by(info: Document) -> str:
    return f"trained by format {info.get('format')}, this is {FORMAT}; train again"


def _built(info: Document, grid: Grid, static: Tensor | None) -> Any:
    """The model of a run, with weights that are yet to be read."""
    data, name, options = info["data"], info["model"]["name"], info["model"]["options"]
    if name == SolidSet.name:
        return SolidSet(grid, len(data["variables"]), calendar=data["calendar"], static=static, **options)
    shifts = data.get("shifts", (0, 0))
    window = data.get("window", 1)
    spec = Spec(grid, len(data["variables"]), data["covariates"], (shifts[0], shifts[1]), window)
    return build(name, spec, options)
