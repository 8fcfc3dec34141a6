"""Tables of results, for the terminal and, written from stored results alone, for a page: `solid bench report`.

A page marks the place of a table by a line `<!-- table NAME -->` and its end by `<!-- end -->`; what stands between is
replaced. NAME is the stem of a file in results/, so every number on the page has a file with its provenance behind it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ...errors import SolidError
from .. import costs
from .figures import flow_figure, gaussian_figure
from .real_brief import real_tables

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows

PLACE = re.compile(r"<!-- table (?P<name>[\w/-]+) -->\n.*?<!-- end -->", re.DOTALL)
GAUSSIAN = ("crps", "spread", "spread_correlation", "coverage", "block_crps", "block_spread", "energy", "roughness")
GAUSSIAN_TITLES = (
    *("CRPS", "spread", "its map's correlation", "90 % covers", "block CRPS", "block spread", "energy score"),
    *("roughness", "error at sensors", "100 members: GMACs", "seconds"),
)
FLOW_TITLES = (
    *("CRPS", "spread / skill", "90 % covers", "block CRPS", "block spread / skill", "energy score"),
    *("roughness / truth", "100 members: GMACs", "seconds"),
)


FIGURES = {"gaussian": gaussian_figure, "flow": flow_figure}  # drawn beside the tables of these results


def write_tables(page: Path, results: Path) -> list[str]:
    """Replace every marked table of the page; returns the names of those written."""
    if not page.is_file():
        raise SolidError(f"no page at {page}; name a Markdown file with table markers")
    written: list[str] = []

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        path = results / f"{name}.json"
        if not path.is_file():
            raise SolidError(f"{page} wants the table '{name}' but {path} is not there; run that study first")
        stored = json.loads(path.read_text())
        written.append(name)
        about = stored["provenance"]
        where = f"commit {about['commit'][:10]}, {about['date'][:10]}, {about['machine']}"
        origin = f"`{about['command']}`, seed {about['seed']}, {where}."
        body = "\n\n".join(_markdown(table) for table in tables(stored["result"]))
        picture = ""
        if name in FIGURES:
            image = page.parent / "images" / f"{name}.png"
            image.parent.mkdir(exist_ok=True)
            FIGURES[name](stored["result"]).savefig(image)
            picture = f"![{name}: the table above as a figure](images/{name}.png)\n\n"
        return f"<!-- table {name} -->\n{body}\n\n{picture}{origin}\n<!-- end -->"

    text = PLACE.sub(table, page.read_text())
    page.write_text(text)
    return written


def tables(result: dict[str, Any]) -> list[Table]:
    """The tables of a result, for a page and for a terminal alike."""
    if "costs" in result:
        return [costs.table(result["costs"], result["members"])]
    if "parts" in result:
        return real_tables(result)
    if any(title.startswith("lead ") for title in result):
        return [table(title, entries) for title, entries in result.items() for table in (_gaussian, _by_distance)]
    if all(isinstance(entry, dict) and "structure" in entry for entry in result.values()):
        return [_flow(result)]
    return [(("measured", "value"), [(name, f"{value:.4g}") for name, value in result.items()])]


def _gaussian(title: str, entries: dict[str, Any]) -> Table:
    rows = []
    for name, entry in entries.items():
        cells = [_estimate(entry[key]) for key in GAUSSIAN]
        rows.append((_named(name, entry), *cells, f"{entry['error_at_sensors']:.3f}", *_cost(entry)))
    return (title, *GAUSSIAN_TITLES), rows


def _by_distance(title: str, entries: dict[str, Any]) -> Table:
    """Spread over the exact one, and coverage, by distance to the nearest sensor."""
    bins = [f"from {bin['from']:g} cells" for bin in next(iter(entries.values()))["by_distance"]]
    header = (f"{title}: spread, coverage", *bins)
    rows = []
    for name, entry in entries.items():
        cells = [f"{bin['spread']['mean']:.2f}, {bin['coverage']['mean']:.3f}" for bin in entry["by_distance"]]
        rows.append((_named(name, entry), *cells))
    return header, rows


def _flow(entries: dict[str, Any]) -> Table:
    rows = []
    for name, entry in entries.items():
        joint = entry["structure"]
        rough = f"{joint['roughness']['members'] / joint['roughness']['truth']:.3f}"
        values = (entry["crps"], entry["spread_skill"], entry["coverage"], joint["block_crps_scaled"])
        joined = (joint["block_spread_skill"], joint["energy_score_scaled"])
        rows.append((_named(name, entry), *map(_estimate, (*values, *joined)), rough, *_cost(entry)))
    return ("0.4 time units ahead", *FLOW_TITLES), rows


def _estimate(value: dict[str, float] | None) -> str:
    return "-" if value is None else f"{value['mean']:.3f} ± {value['error']:.3f}"


def _named(name: str, entry: dict[str, Any]) -> str:
    return f"{name} (leaks)" if entry.get("leaks") else name


def _cost(entry: dict[str, Any]) -> tuple[str, str]:
    cost = entry.get("cost_of_100_members")
    return ("-", "-") if cost is None else (f"{cost['gmacs']:.3g}", f"{cost['seconds']:.3g}")


def _markdown(table: Table) -> str:
    header, rows = table
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
