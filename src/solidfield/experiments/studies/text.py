"""How tables of the studies are written: CRPS in standard deviations of the field, errors over scenes.

`missing` marks a cell that the study wants and that is not stored, `-` what does not exist or was not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from .shelf import Result, score

MISSING = "missing"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [tuple(header), tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, digits: int = 3, missing: str = MISSING) -> str:
    return missing if value is None else f"{value:.{digits}f}"


def small(value: float | None, missing: str = MISSING) -> str:
    return missing if value is None else f"{value:.3g}"


def mean_of(estimate: dict[str, float] | None, digits: int = 2) -> str:
    """The mean of a stored estimate with an error bar."""
    return "-" if estimate is None else f"{estimate['mean']:.{digits}f}"


def with_error(result: Result | None, region: str = "off", missing: str = MISSING) -> str:
    """The CRPS of a region and its standard error."""
    found = score(result, "crps", region)
    return missing if found is None else f"{found['mean']:.3f} ± {found['error']:.3f}"


def named(label: str) -> str:
    return f"{label} (leaks)" if label == "oracle" else label


def unknown(what: str) -> str:
    return f"Not all cells for {what} are stored yet, so nothing is said about it."
