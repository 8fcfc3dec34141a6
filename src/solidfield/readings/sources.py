"""The files or objects behind what the user gave, with the role of each of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from ..errors import SolidError
from .arrays import ArraySource
from .columnar import FrameSource, ParquetSource
from .columns import find_columns
from .csvfile import CsvSource
from .parameters import by_parameter
from .place_table import placed
from .points import by_points
from .records import Columns, Source

# A new kind of file: a class that is a `Source` (records.py), and its endings here.
OPENERS: dict[str, Callable[[Path], Source]] = {
    **dict.fromkeys((".csv", ".txt", ".tsv", ".dat", ".csv.gz", ".txt.gz", ".tsv.gz"), CsvSource),
    ".parquet": ParquetSource,
    **dict.fromkeys((".nc", ".nc4", ".cdf", ".zarr"), ArraySource.open),
}

Found = tuple[Source, Columns]


def open_sources(
    source: Any, columns: Mapping[str, str] | None, places: Mapping[str, Any] | None = None
) -> tuple[list[Found], list[str]]:
    """The files or objects behind what the user gave; of a folder or a glob, those that are tables of readings."""
    how = columns, places
    source = source.to_pandas() if hasattr(source, "to_pandas") and not _is_array(source) else source  # polars, Arrow
    if isinstance(source, pd.DataFrame):
        return [_with_columns(FrameSource(source), *how)], []
    if _is_array(source):
        return [_with_columns(ArraySource(source), *how)], []
    if isinstance(source, (str, Path)):
        path = Path(source)
        if path.is_dir() and path.suffix != ".zarr":
            return _sift(sorted(p for p in path.iterdir() if _suffix(p) in OPENERS), str(path), *how)
        if not path.exists() and any(sign in str(path) for sign in "*?["):
            return _sift(sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))), str(path), *how)
        return [_with_columns(open_file(path), *how)], []
    paths = list(source) if isinstance(source, (list, tuple)) else [source]
    if not paths:
        raise SolidError("no file of readings given")
    odd = [type(path).__name__ for path in paths if not isinstance(path, (str, Path))]
    if odd:
        raise SolidError(
            f"no readings in an object of type {odd[0]}; give a path, several, a DataFrame or an xarray object"
        )
    return [_with_columns(open_file(Path(path)), *how) for path in paths], []


def _is_array(source: Any) -> bool:
    return isinstance(source, (xr.Dataset, xr.DataArray))


def _with_columns(source: Source, columns: Mapping[str, str] | None, places: Mapping[str, Any] | None) -> Found:
    source, columns = by_parameter(by_points(source, columns), columns)
    if places is not None:
        source, columns = placed(source, columns, places)
    return source, find_columns(source.headers, columns, source.name)


def open_file(path: Path) -> Source:
    if not path.exists():
        raise SolidError(f"there is no file {path}; check the path")
    if _suffix(path) not in OPENERS:
        ways = "save a spreadsheet as CSV, unpack an archive"
        raise SolidError(f"cannot tell what {path} is by its name; end it in {', '.join(OPENERS)} ({ways})")
    return OPENERS[_suffix(path)](path)


def _suffix(path: Path) -> str:
    return "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _sift(
    paths: Sequence[Path], where: str, columns: Mapping[str, str] | None, places: Mapping[str, Any] | None
) -> tuple[list[Found], list[str]]:
    kept: list[Found] = []
    notes: list[str] = []
    for path in paths:
        try:
            kept.append(_with_columns(open_file(path), columns, places))
        except SolidError as error:
            notes.append(f"{path.name} is left out: {str(error).removeprefix(f'{path}: ')}")
    if not kept:
        raise SolidError(f"no table of readings in {where}" + (f" ({notes[0]})" if notes else "; check the path"))
    return kept, notes
