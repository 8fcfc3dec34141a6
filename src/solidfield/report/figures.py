"""The figures of a report, each with a caption that says what to look for and a text for those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import plot
from ..scores.metrics import Cells
from .findings import Evidence, Findings
from .truth import groups_of
from .verdict import FEW, HIGHEST, LOWEST, call_of, main_region
from .words import REGIONS, labelled, span

STRETCHES = 6  # days that a series shows
TALL = 0.9  # quantile of the training readings that counts as high unless a threshold is given


@dataclass(frozen=True)
class Picture:
    name: str  # of its file, without ending
    section: str
    figure: Figure
    caption: str
    alt: str


def pictures(findings: Findings, above: float | None = None) -> Iterator[Picture]:
    """All figures, lead by lead, variable by variable."""
    results, store = findings.results, findings.store
    for evidence, at_lead in zip(findings.evidence, results["leads"], strict=True):
        for c, variable in enumerate(store.variables):
            own = next(iter(at_lead["models"]))
            if variable not in at_lead["models"][own]["variables"]:
                continue
            tag = f"lead{at_lead['lead']}" + (f"-{c + 1}" if len(store.variables) > 1 else "")
            yield _models(results, at_lead, variable, tag)
            yield _scene(findings, evidence, c, tag, above)
            if len(evidence.members[own]) > 1:
                yield _calibration(findings, evidence, at_lead, c, tag)
            yield from _bins(results, at_lead, variable, tag)
            if c == 0 and len(evidence.probes) and len(evidence.own.probes) > 1:
                yield _series(findings, evidence, tag)
    for variable in results["rolled"]["variables"] if "rolled" in results else ():
        place = f"-{store.variables.index(variable) + 1}" if len(store.variables) > 1 else ""
        yield _rolled(results, variable, f"rolled{place}")
    for c, variable in enumerate(store.variables):
        yield _taught(findings, c, f"taught-{c + 1}" if len(store.variables) > 1 else "taught", variable)


def _models(results: dict[str, Any], at_lead: dict[str, Any], variable: str, tag: str) -> Picture:
    tables = {name: model["variables"][variable]["regions"] for name, model in at_lead["models"].items()}
    own = next(iter(tables))
    regions = {
        REGIONS[region]: {name: table[region]["crps"] for name, table in tables.items()}
        for region in tables[own]
        if region != "never_supervised"  # nearly the held-out cells again; the table has it
    }
    call = call_of(at_lead, variable)
    return Picture(
        f"{tag}-models",
        "models",
        plot.models_figure(regions, results["variables"][variable], f"{variable}, {at_lead['ahead']}: who errs least"),
        f"{variable}, {at_lead['ahead']}: error (CRPS) of every model by kind of held-out reading; farther left is "
        "better, bars are 95 % intervals.",
        f"Dots of the CRPS of {', '.join(tables)} for {', '.join(regions)}; the best rival of {own} is "
        f"{call['best_rival'] or 'not drawn'}.",
    )


def _scene(findings: Findings, evidence: Evidence, c: int, tag: str, above: float | None) -> Picture:
    store, variable, units = findings.store, findings.store.variables[c], findings.store.units[c]
    pair = store.batch(evidence.held.examples[evidence.picture : evidence.picture + 1])
    given, later = (
        np.where(side.mask[0, c].numpy(), side.values[0, c].numpy(), np.nan) for side in (pair.source, pair.target)
    )
    threshold = _high(findings, c) if above is None else above
    when = "" if evidence.held.times is None else f", {_stamp(evidence.held.times[evidence.picture])}"
    figure = plot.scene(
        evidence.own.picture[:, c],
        given,
        later,
        store.grid,
        threshold,
        labelled(variable, units),
        f"{variable}, {evidence.ahead}{when}",
    )
    return Picture(
        f"{tag}-maps",
        "maps",
        figure,
        f"The test scene with the most held-out readings{when}. Maps of {variable} share one colour scale; spread and "
        "error share another, so an honest map has large errors only where its spread is large.",
        "Six maps: readings given, predicted mean, held-out readings, predicted spread, error at the held-out "
        f"readings, chance of more than {threshold:.3g} {units}.",
    )


def _high(findings: Findings, c: int) -> float:
    store = findings.store
    _, flat, values = store.readings_of("target", store.split("train"))
    return float(np.quantile(values[flat // store.grid.cells == c], TALL))


def _calibration(findings: Findings, evidence: Evidence, at_lead: dict[str, Any], c: int, tag: str) -> Picture:
    held, variable = evidence.held, findings.store.variables[c]
    region = main_region(at_lead, variable)
    rows = held.regions[region] & (held.channel == c) & np.isfinite(held.distance)
    members = next(iter(evidence.members.values()))[:, rows]
    cells = Cells(members, held.values[rows], np.arange(int(rows.sum())), int(rows.sum()))
    figure = plot.reliability_figure(
        cells,
        held.distance[rows],
        held.group[rows],
        findings.store.units[c],
        findings.results["distance_units"],
        f"{variable}, {evidence.ahead}: is the uncertainty honest?",
        "reading",
    )
    return Picture(
        f"{tag}-calibration",
        "calibration",
        figure,
        f"{REGIONS[region].capitalize()}. Honest uncertainty has flat ranks, coverage and error on the dashed lines, "
        "and spread equal to error at every distance. A valley in the ranks means too sure, a hill too unsure.",
        "Four panels: histogram of the readings' ranks, coverage against nominal level, error against spread, error "
        "and spread against distance to the nearest sensor.",
    )


def _bins(results: dict[str, Any], at_lead: dict[str, Any], variable: str, tag: str) -> Iterator[Picture]:
    tables = {name: model["variables"][variable] for name, model in at_lead["models"].items()}
    first, units, unit = next(iter(tables.values())), results["variables"][variable], results["distance_units"]
    what = {
        "by_distance": ("distance", f"distance to a sensor [{unit}]", "with distance to the nearest sensor"),
        "by_hour": ("hour", "hour of day (local)", "by hour of day"),
    }
    for cut, (section, axis, words) in what.items():
        if not first.get(cut):
            continue
        rows = {name: table[cut] for name, table in tables.items()}
        labels = [str(row["hour"]) if cut == "by_hour" else span(row) for row in first[cut]]
        figure = plot.bins_figure(
            rows, labels, axis, units, f"{variable}, {at_lead['ahead']}: {words}", (LOWEST, HIGHEST)
        )
        few = sum(row["readings"] < FEW for row in first[cut])
        yield Picture(
            f"{tag}-{section}",
            section,
            figure,
            f"{variable}, {at_lead['ahead']}: error and honesty {words}. Bars are 95 % intervals"
            + (f"; {few} of {len(labels)} bins have fewer than {FEW} readings and say little." if few else "."),
            f"Three panels {words}: CRPS of every model, share of readings inside 90 % intervals, number of readings.",
        )


def _rolled(results: dict[str, Any], variable: str, name: str) -> Picture:
    rows: dict[str, list[dict[str, Any]]] = {}
    steps = results["rolled"]["steps"]
    for at_step in steps:
        for model, found in at_step["models"].items():
            score = found["variables"][variable]["regions"]["all"]
            rows.setdefault(model, []).append(score | {"coverage": score["coverage"]["0.9"]})
    words = "several steps ahead"
    figure = plot.bins_figure(
        rows,
        [at_step["ahead"].removesuffix(" ahead") for at_step in steps],
        "ahead",
        results["variables"][variable],
        f"{variable}, {words}",
        (LOWEST, HIGHEST),
    )
    return Picture(
        name,
        "rolled",
        figure,
        f"{variable}: error and honesty {words}, every model rolled forward from the same readings. Bars are 95 % "
        "intervals.",
        "Three panels by time ahead: CRPS of every model, share of readings inside 90 % intervals, number of readings.",
    )


def _series(findings: Findings, evidence: Evidence, tag: str) -> Picture:
    """The stretches with most readings at the probed places."""
    held, store, probes = evidence.held, findings.store, evidence.probes
    group = groups_of(store, held.examples)  # (N,)
    at_probe = (held.channel == 0) & np.isin(held.cell, probes)
    readings = np.full((len(held.examples), len(probes)), np.nan)
    places = {int(cell): s for s, cell in enumerate(probes)}
    readings[held.case[at_probe], [places[int(cell)] for cell in held.cell[at_probe]]] = held.values[at_probe]
    labels, counts = np.unique(group[held.case[at_probe]], return_counts=True)
    kept = np.sort(labels[np.argsort(-counts, kind="stable")][:STRETCHES])
    rows = np.flatnonzero(np.isin(group, kept))
    starts = [int(np.flatnonzero(group[rows] == label)[0]) for label in kept]
    names = [f"trajectory {label}" for label in kept]
    if held.times is not None:
        names = [str(held.times[rows[start]].astype("datetime64[D]")) for start in starts]
    W, kind = store.grid.shape[1], "held-out sensor" if "held_sensors" in held.regions else "cell"
    grid = store.grid
    titles = [f"{kind} at {grid.axes[0]} {grid.y[p // W]:.4g}, {grid.axes[1]} {grid.x[p % W]:.4g}" for p in probes]
    figure = plot.series_figure(
        np.quantile(evidence.own.probes[:, rows], [0.05, 0.5, 0.95], axis=0),
        readings[rows],
        titles,
        sorted(zip(starts, names, strict=True)),
        store.units[0] or store.variables[0],
        f"{store.variables[0]}, {evidence.ahead}: predicted and read",
    )
    return Picture(
        f"{tag}-series",
        "series",
        figure,
        f"Predictions {evidence.ahead} at places with the most held-out readings. One reading in ten may lie outside "
        "the band; more, or many in a row, means it is too narrow there.",
        f"Time series of {store.variables[0]} at {len(probes)} places: 90 % band, median and readings.",
    )


def _taught(findings: Findings, c: int, name: str, variable: str) -> Picture:
    held = {REGIONS[kind]: mask for kind, mask in findings.store.held.items()}
    never = findings.run.never_supervised[c].numpy()
    return Picture(
        name,
        "taught",
        plot.taught(never, held, findings.store.grid, f"{variable}: where the model was taught"),
        "Grey cells never had a training reading: the map there is carried over from elsewhere. Held-out cells were "
        "kept from the model on purpose, to be judged by.",
        f"Map of the cells where training readings of {variable} taught the model, of held-out cells, and of cells "
        "never taught.",
    )


def _stamp(time: np.datetime64) -> str:
    return str(time.astype("datetime64[m]")).replace("T", " ")
