"""How tables and sentences of all experiments are written.

`missing` marks a cell that a table wants and that is not stored, `-` what does not exist or was not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
MISSING = "missing"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [tuple(header), tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, digits: int = 3, missing: str = MISSING) -> str:
    return missing if value is None else f"{value:.{digits}f}"


def ratio(a: float | None, b: float | None, digits: int = 2, missing: str = MISSING) -> str:
    """a / b, where both are known."""
    return f"{a / b:.{digits}f}" if a and b else missing


def small(value: float | None, missing: str = MISSING) -> str:
    return missing if value is None else f"{value:.3g}"


def whole(value: int | None) -> str:
    return f"{value:,}" if value else "-"


def mean_of(estimate: Mapping[str, Any] | None, digits: int = 2) -> str:
    """The mean of a stored estimate with an error bar."""
    return "-" if estimate is None else f"{estimate['mean']:.{digits}f}"


def with_error(estimate: Mapping[str, Any] | None, missing: str = "-") -> str:
    return missing if estimate is None else f"{estimate['mean']:.3f} ± {estimate['error']:.3f}"


def named(label: str, leaks: bool | None = None) -> str:
    return f"{label} (leaks)" if (label == "oracle" if leaks is None else leaks) else label


def unknown(what: str) -> str:
    return f"Not all cells for {what} are stored yet, so nothing is said about it."
