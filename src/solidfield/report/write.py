"""The report's folder: scores.json, every figure as PNG, and report.html, which holds them all. Whole, or not there."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

from matplotlib import rc_context

from ..disk import atomic, refuse_existing
from .figures import pictures
from .findings import Findings
from .page import page

SCORES, PAGE = "scores.json", "report.html"


def refuse_report(out: Path) -> None:
    """A folder that holds anything is refused before any work is done."""
    refuse_existing(out, "remove it or choose another folder with --out")


def write_report(
    findings: Findings,
    out: Path | str,
    command: str = "",  # that makes the same report again
    above: float | None = None,  # threshold of the exceedance map; None: the readings' upper tenth
) -> Path:  # of the page
    """Write the folder: whole, or not at all."""
    out = Path(out)
    refuse_report(out)
    with atomic(out) as new:
        new.mkdir()
        images = []
        with rc_context({"text.parse_math": False}):  # a name with dollars is a name, not a formula
            for picture in pictures(findings, above):
                buffer = BytesIO()
                picture.figure.savefig(buffer, format="png")
                (new / f"{picture.name}.png").write_bytes(buffer.getvalue())
                images.append((picture.section, picture.caption, picture.alt, buffer.getvalue()))
        scores = {"verdict": findings.verdict.to_json(), **findings.table.to_json()}
        (new / SCORES).write_text(json.dumps(scores, indent=1, allow_nan=False), encoding="utf-8")
        (new / PAGE).write_text(page(findings.table, findings.verdict, images, command), encoding="utf-8")
    return out / PAGE
