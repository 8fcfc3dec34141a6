"""Places as points in one column, as geometry files and open portals write them:

    time, pm, geometry                          time, pm, lat, lon
    08:00, 31, POINT (8.62 50.11)        ->     08:00, 31, 50.11, 8.62

The first number is that along x. Points of a GeoDataFrame in a projection are lengths, y and x.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .columns import by_name
from .names import LATITUDES, LONGITUDES, ROLES
from .records import Batch, Columns, Header, Source

BEGIN = r"(?i)^\s*(?:SRID=\d+;)?\s*POINT\s*Z?\s*\("
NUMBER = r"([+-]?[\d.]+(?:e[+-]?\d+)?)"
POINT = rf"{BEGIN}\s*{NUMBER}\s+{NUMBER}(?:\s+[^()]*)?\)\s*$"
AXES = {"y": LATITUDES, "x": LONGITUDES}
NO_POINT = "not a point, such as POINT (8.62 50.11)"


def by_points(source: Source, columns: Mapping[str, str] | None) -> Source:
    """The readings with a column for each coordinate; as they are where these have columns, or no column has points."""
    given = {ROLES.get(role.lower(), "") for role in columns or {}}
    own = any(role in given or by_name(source.headers, names, role) for role, names in AXES.items())
    found = [header.name for header in source.headers if re.match(BEGIN, header.text)]
    return source if own or len(found) != 1 else Points(source, found[0])


class Points:
    """The table with the coordinates of a column of points."""

    def __init__(self, source: Source, column: str):
        self.source, self.column = source, column
        self.name, self.notes, self.fraction = source.name, source.notes, 0.0
        projected = getattr(getattr(getattr(source, "frame", None), "crs", None), "is_projected", False)
        self.axes = ("y", "x") if projected else ("lat", "lon")
        self.headers = (*(h for h in source.headers if h.name != column), *(Header(axis, True) for axis in self.axes))
        self.notes.append(f"places are the points in column '{column}'")

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        names = only or columns.used()
        asked = [name for name in names if name not in self.axes]
        pointed = len(asked) < len(names)
        for batch in self.source.batches(columns, rows, [*asked, self.column] if pointed else asked):
            self.fraction = self.source.fraction
            yield self._with_axes(batch, asked) if pointed else batch

    def _with_axes(self, batch: Batch, asked: Sequence[str]) -> Batch:
        column = pd.Series(batch.data[self.column]).reset_index(drop=True)
        texts = column.astype(object).where(column.notna(), "").astype(str)
        parts = texts.str.extract(POINT).apply(pd.to_numeric, errors="coerce").to_numpy()  # (n, 2) x, y
        known = np.isfinite(parts).all(1)
        wrong = np.flatnonzero(~known)
        faults = [(int(batch.row[i]), self.column, texts.iloc[i][:200], NO_POINT) for i in wrong]
        data: dict[str, Any] = {name: batch.data[name][known] for name in asked}
        data |= {axis: parts[known, 1 - at] for at, axis in enumerate(self.axes)}
        return Batch(batch.row[known], data, [*batch.faults, *faults], batch.decimal)
