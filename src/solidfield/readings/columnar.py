"""Tables that come in columns: Parquet files in batches, pandas DataFrames in slices.

Line numbers are those the table would have as CSV: the header is line 1, the first row line 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import SolidError
from .names import split_units
from .records import Batch, Columns, Header

SAMPLE = 1000  # fields that tell what a column of text holds
# As Arrow calls them.
NUMBERS = frozenset(("double", "float", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"))
TIMES = frozenset(("timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"))


class FrameSource:
    """A DataFrame; index levels with a name, and an index of times, are columns like the others."""

    def __init__(self, frame: pd.DataFrame):
        self.name = "DataFrame"
        self.notes: list[str] = []
        self.fraction = 0.0
        if isinstance(frame.index, pd.DatetimeIndex) and frame.index.name is None:
            frame = frame.rename_axis("time")
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
        if frame.empty:
            raise SolidError("the DataFrame has no rows; give one reading per row")
        self.frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        twice = self.frame.columns[self.frame.columns.duplicated()]
        if len(twice):
            raise SolidError(f"the DataFrame has more than one column '{twice[0]}'; rename them")
        self.headers = tuple(
            Header(name, _is_number(column.dtype), split_units(name)[1], text=_first_text(column))
            for name, column in self.frame.items()
        )

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        for start in range(0, len(self.frame), rows):
            part = self.frame.iloc[start : start + rows]
            data = {name: part[name].reset_index(drop=True) for name in only or columns.used()}
            self.fraction = start / len(self.frame)
            yield Batch(np.arange(start + 2, start + 2 + len(part)), data)


class ParquetSource:
    """A Parquet file, batch by batch."""

    def __init__(self, path: Path):
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise SolidError(f"reading {path} needs pyarrow; install it with: pip install pyarrow") from None
        self.name = str(path)
        self.notes: list[str] = []
        self.fraction = 0.0
        try:
            self.file = parquet.ParquetFile(path, pre_buffer=False)  # else Arrow keeps all that was read
        except Exception as error:  # whatever Arrow makes of bytes that are something else
            raise _damaged(self.name, error) from None
        if self.file.metadata.num_rows == 0:
            raise SolidError(f"{path} has no rows")
        schema = self.file.schema_arrow
        types = schema.empty_table().to_pandas().reset_index()
        self.headers = tuple(
            Header(f.name, _is_number(types[f.name].dtype) or "decimal" in str(f.type), _units(f)) for f in schema
        )

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = list(only or columns.used())
        total, start = self.file.metadata.num_rows, 0
        group = self.file.metadata.row_group(0).num_rows
        # Equal parts of a row group, or whole ones: Arrow copies a batch that lies in two.
        rows = math.ceil(group / math.ceil(group / rows)) if group > rows else rows // max(group, 1) * max(group, 1)
        try:
            # Columns in threads of Arrow's own took half as long again of both cores together; so did a thread ahead
            # of the one that `grid` reads in: two cores have room for two.
            for part in self.file.iter_batches(batch_size=rows, columns=names, use_threads=False):
                data = {name: _column(part.column(name)) for name in names}
                self.fraction = start / total
                yield Batch(np.arange(start + 2, start + 2 + part.num_rows), data)
                start += part.num_rows
        except OSError as error:
            raise _damaged(self.name, error) from None


def _column(column: Any) -> np.ndarray | pd.Series:
    """Numbers and times of which none is missing stay where Arrow put them; the rest pandas knows how to read."""
    if column.null_count == 0 and str(column.type) in NUMBERS:
        return column.to_numpy()
    if column.null_count == 0 and str(column.type) in TIMES:
        return pd.Series(column.to_numpy(), copy=False)
    series = column.to_pandas()
    if series.dtype == object and "decimal" in str(column.type):
        return series.astype(float)
    return series


def _units(field: Any) -> str:
    metadata = field.metadata or {}
    return metadata.get(b"units", b"").decode("utf-8", "replace") or split_units(field.name)[1]


def _first_text(column: pd.Series) -> str:
    """Of a column of text, which may be meant as numbers: it is said, for whoever made the frame can tell."""
    texts = column.head(SAMPLE if column.dtype.kind == "O" else 0).dropna()
    return str(texts.iloc[0])[:40] if len(texts) else ""


def _is_number(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _damaged(name: str, error: Exception) -> SolidError:
    return SolidError(
        f"{name} is no readable Parquet file ({str(error).splitlines()[0][:120]}); copy or write it again"
    )
