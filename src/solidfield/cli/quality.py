"""solid quality: sensors whose readings sit outside what the others imply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..disk import atomic, refuse_existing, replace
from ..plot import readings as plot_readings
from ..quality.ranking import LEAST, LEVEL, Quality
from ..quality.ranking import quality as rank_sensors
from . import show


def quality(
    frames: Annotated[Path, typer.Argument(help="Sparse frames (solid grid), or a table of readings.")],
    out: Annotated[Path, typer.Option(help="New folder for sensors.csv, readings.csv and sensors.png.")],
    variable: Annotated[str | None, typer.Option(help="Which variable, where there are several.")] = None,
    model: Annotated[str, typer.Option(help="kriging, or the folder of a trained run.")] = "kriging",
    transform: Annotated[str, typer.Option(help="none, or log for positive quantities.")] = "none",
    most: Annotated[int | None, typer.Option(help="Frames to judge by, at most.")] = None,
    least: Annotated[int, typer.Option(help="Readings that a sensor needs to be judged.")] = LEAST,
    level: Annotated[float, typer.Option(help="Chance of any false alarm among sound sensors.")] = LEVEL,
    json: show.JsonOption = False,
) -> None:
    """Hide each sensor from its frames, reconstruct it from the others, and rank sensors by how far they are off."""
    refuse_existing(out, "choose another folder")
    with show.progress("judging", str(frames), json) as update:
        found = rank_sensors(
            frames, variable, model, transform=transform, most=most, least=least, level=level, progress=update
        )
    with atomic(out) as part:
        replace(part / "sensors.csv", found.sensors.to_csv(index=False).encode())
        replace(part / "readings.csv", found.readings.to_csv(index=False).encode())
        show.save_figure(plot_readings.quality_figure(found), part / "sensors.png")
    if json:
        show.as_json(summary(found, out))
        return
    print_ranking(found)
    show.line("written", f"{out / 'sensors.csv'}   {out / 'readings.csv'}   {out / 'sensors.png'}")


def summary(found: Quality, out: Path) -> dict[str, object]:
    return {
        "out": str(out),
        "variable": found.variable,
        "units": found.units,
        "model": found.model,
        "transform": found.transform,
        "level": found.level,
        "suspects": int(found.sensors["suspect"].sum()),
        "sensors": found.sensors.to_dict("records"),
    }


def print_ranking(found: Quality, most: int = 10) -> None:
    suspects = int(found.sensors["suspect"].sum())
    show.line(
        "sensors",
        f"{len(found.sensors):,} judged by {len(found.readings):,} hidden readings; {suspects:,} out of line "
        f"(chance of any false alarm {100 * found.level:g} %)",
    )
    bias = "bias" if found.transform == "none" else "bias [%]"
    header = ("sensor (y, x)", "readings", bias, "offset, shrunk", "spread ratio", "outside 99 %", "p", "verdict")
    scale = 1.0 if found.transform == "none" else 100.0
    rows = [
        (
            f"{row.y:g}, {row.x:g}",
            f"{row.readings:,}",
            f"{scale * row.bias:+.3g}",
            f"{scale * row.offset:+.3g} ± {scale * row.offset_std:.2g}" if row.offset_std else "none",
            f"{row.spread:.2f}",
            f"{100 * row.outside:.1f} %",
            f"{row.p:.2g}",
            row.verdict,
        )
        for row in found.sensors.head(max(most, suspects)).itertuples()
    ]
    show.table(header, rows)
