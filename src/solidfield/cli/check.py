"""solid check: the data doctor on a table of readings."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure

from ..disk import replace
from ..errors import SolidError
from ..plot import readings as plot_readings
from ..readings import open_table
from ..readings.doctor.coverage import Candidate
from ..readings.doctor.diagnose import Diagnosis, diagnose
from ..readings.doctor.findings import Finding
from . import show
from .grid import parse_columns


def check(
    files: Annotated[list[Path], typer.Argument(help="Readings: CSV, CSV.gz, Parquet, NetCDF, Zarr, or a folder.")],
    columns: Annotated[
        str | None, typer.Option(metavar="ROLE=NAME,...", help="Roles: time, y, x, value, sensor, error.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Of times without an offset: Asia/Kolkata or +05:30.")] = None,
    date_format: Annotated[str | None, typer.Option(help="dayfirst, monthfirst or a pattern: %d.%m.%Y %H:%M.")] = None,
    units: Annotated[str | None, typer.Option(help="Of the values, where the file does not say.")] = None,
    refused: Annotated[Path | None, typer.Option(help="CSV of every field refused, with the reason.")] = None,
    figure: Annotated[Path | None, typer.Option(help="One page of pictures: .png, .pdf or .svg.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Say what is wrong with readings, how to grid them, and what can be learned from them."""
    source: Any = files[0] if len(files) == 1 else files
    table = open_table(source, columns=parse_columns(columns), timezone=timezone, units=units, dates=date_format)
    with show.progress("checking", table.name, json) as update:
        found = diagnose(
            table, refused=refused, progress=lambda rows: update(round(1000 * table.fraction), 1000, f"{rows:,} rows")
        )
    if figure is not None:
        save_figure(plot_readings.check_figure(found), figure)
    if json:
        show.as_json(found.as_dict())
        return
    print_diagnosis(found)
    for what, path in (("refused", refused), ("figure", figure)):
        if path is not None:
            show.line(what, str(path))


def save_figure(figure: Figure, path: Path) -> None:
    """Draw in memory, then put the file in place in one step."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "pdf", "svg"):
        raise SolidError(f"cannot draw {path}: end the name in .png, .pdf or .svg")
    content = io.BytesIO()
    figure.savefig(content, format=kind)
    replace(path, content.getvalue())


def print_diagnosis(found: Diagnosis) -> None:
    who = {"sensor": f"{found.sensors:,} sensors", "place": f"{found.sensors:,} places", "none": "moving readings"}
    show.line("rows", f"{found.rows:,} read, {found.refused:,} fields refused; {who[found.identity]}")
    if found.rows:
        often = f", usually one in {found.interval:g} s" if found.interval else ""
        show.line("time", f"{found.first} .. {found.last}{often}")
    if found.box is not None:
        south, west, north, east = found.box
        show.line("place", f"{south:g} .. {north:g}, {west:g} .. {east:g}")
    for note in found.notes:
        show.line("note", note)
    print()
    header = ("variable", "readings", "missing", "lowest", "5 %", "median", "95 %", "highest")
    numbers = [(s, (s.low, s.q05, s.median, s.q95, s.high)) for s in found.statistics]
    show.table(
        header,
        [
            (
                f"{s.name} [{s.units}]" if s.units else s.name,
                f"{s.count:,}",
                f"{s.missing:,}",
                *(f"{v:.4g}" for v in five),
            )
            for s, five in numbers
        ],
    )
    print()
    if not found.findings:
        show.line("findings", "none")
    for finding in found.findings:
        show.line(finding.severity.upper() if finding.severity == "fault" else finding.severity, finding.text)
        if finding.examples:
            show.line("", f"rows: {_rows(finding)}")
        show.line("", f"do: {finding.remedy}")
    if found.candidates:
        print()
        header = ("grid", "cells", "frames", "with readings", "cells seen", "pairs", "overlap", "never visited")
        show.table(header, [_candidate(c, found.chosen) for c in found.candidates])
        print()
    if found.chosen is not None:
        show.line("suggested", f"solid grid --cell {found.chosen.cell} --every {found.chosen.every}: {found.reason}")
    else:
        show.line("suggested", found.reason)
    for text in found.outlook:
        show.line("outlook", text)


def _rows(finding: Finding) -> str:
    """Rows by file: a.csv 3, 7; b.csv 12; and more where there are."""
    by_file: dict[str, list[str]] = {}
    for file, row in finding.examples:
        by_file.setdefault(Path(file).name, []).append(str(row))
    text = "; ".join(f"{file} {', '.join(rows)}" for file, rows in by_file.items())
    return text + (" ..." if finding.count > len(finding.examples) else "")


def _candidate(one: Candidate, chosen: Candidate | None) -> tuple[str, ...]:
    return (
        f"{'* ' if one == chosen else '  '}{one.cell}, {one.every}",
        f"{one.shape[0]} x {one.shape[1]}",
        f"{one.frames:,}",
        f"{one.filled:,}",
        f"{100 * one.share:.1f} %",
        f"{one.pairs:,}",
        "-" if one.overlap != one.overlap else f"{100 * one.overlap:.0f} %",
        f"{one.never:,}",
    )
