"""solid check: the data doctor on a table of readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..readings.doctor.coverage import Candidate
from ..readings.doctor.diagnose import Diagnosis
from ..readings.doctor.findings import Finding
from ..readings.intake import check as check_table
from . import reading, show


@reading.takes("columns", "timezone", "dates", "units", "name", "places")
def check(
    files: reading.FilesArgument,
    *,
    how: dict[str, Any],
    refused: reading.RefusedOption = None,
    figure: show.FigureOption = None,
    json: show.JsonOption = False,
) -> None:
    """Say what is wrong with readings, how to grid them, and what can be learned from them."""
    with show.progress("checking", str(files[0]), json) as update:
        found = check_table(files, refused=refused, progress=update, **how)
    if figure is not None:
        from ..plot.readings import check_figure  # figures are slow to import, and most checks draw none

        show.save_figure(check_figure(found), figure)
    if json:
        show.as_json(found.as_dict())
        return
    print_diagnosis(found)
    for what, path in (("refused", refused), ("figure", figure)):
        if path is not None:
            show.line(what, str(path))


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
                *(show.short(v) for v in five),
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
