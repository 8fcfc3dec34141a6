"""A record on disk: a Zarr group of its arrays, with checksums, that appears only when complete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SolidError
from ..grid import Grid
from ..questions.record import Record
from .ragged import Growing, appearing, label, load, read_label

KIND, VERSION = "record", 1
ARRAYS = {
    "offsets": "<i8",
    "cells": "<i8",
    "values": "<f4",
    "split": "|i1",
    "stretch": "<i4",
    "errors": "<f4",
    "calendar": "<f4",
    "static": "<f4",
}


def write_record(path: str | Path, record: Record, about: Mapping[str, Any] | None = None) -> None:
    """Write a record in one step; `about` is plain JSON that stays with it (hold-out, columns, units)."""
    with appearing(Path(path), KIND) as group:
        checksums = {}
        arrays = {name: getattr(record, name) for name in ARRAYS} | {"domain": record.grid.domain}
        for name, values in arrays.items():
            if values is None:
                continue
            array = Growing(group, name, ARRAYS.get(name, "|b1"), values.shape[1:])
            array.add(values)
            array.flush(everything=True)
            checksums[name] = array.checksum.hexdigest()
        attributes = {
            "grid": record.grid.as_dict(),
            "variables": list(record.variables),
            "units": list(record.units) or [""] * len(record.variables),
            "start": record.start,
            "step": record.step,
            "about": dict(about or {}),
        }
        label(group, KIND, VERSION, attributes | {"checksums": checksums})


def open_record(path: str | Path) -> tuple[Record, dict[str, Any]]:
    """A record and what is said about it; every byte is checked."""
    path = Path(path)
    attributes = read_label(path, KIND, VERSION)
    try:
        found: dict[str, Any] = {name: load(path, name, sha) for name, sha in attributes["checksums"].items()}
        grid = Grid.from_dict(attributes["grid"], found.pop("domain", None))
        found["units"], found["start"] = tuple(attributes["units"]), float(attributes["start"])
        found["step"], about = float(attributes["step"]), attributes["about"]
        return Record(grid, tuple(attributes["variables"]), **found), about
    except (KeyError, TypeError, ValueError) as error:
        raise SolidError(f"{path} is damaged ({error}); write it anew") from None
