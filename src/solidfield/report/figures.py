"""The figures of a report, each with a caption that says what to look for and a text for those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ..clock import as_text
from ..grid import nearest_turn
from ..plot.comparison import bins_figure, models_figure, series_figure
from ..plot.fields import scene, taught
from ..plot.reliability import reliability_figure
from ..scores.metrics import Cells
from ..scores.table import Lead, Score, ScoreTable
from .calls import FEW, HIGHEST, LOWEST, call_of, main_region, rolled_variables
from .findings import Evidence, Findings
from .targets import Targets
from .words import REGIONS, distinct, labelled, span

UNREAD = {"held_sensors", "set_aside"}  # regions of places whose record was hidden
STRETCHES = 6  # days that a series shows


@dataclass(frozen=True)
class Picture:
    name: str  # of its file, without ending
    section: str
    figure: Figure
    caption: str
    alt: str


def pictures(findings: Findings, above: float | None = None) -> Iterator[Picture]:
    """All figures, lead by lead, variable by variable."""
    table, run = findings.table, findings.run
    several = len(run.variables) > 1
    for evidence in findings.evidence:
        own = next(iter(evidence.members))
        for c, variable in enumerate(run.variables):
            if not table.select(variable=variable, lead=evidence.lead.lead):
                continue
            tag = f"lead{evidence.lead.lead}" + (f"-{c + 1}" if several else "")
            yield _models(table, evidence.lead, variable, tag)
            yield _scene(findings, evidence, c, tag, above)
            if len(evidence.members[own]) > 1:
                yield _calibration(findings, evidence, c, tag)
            yield from _bins(table, evidence.lead, variable, tag)
            if len(evidence.own.probes) > 1 and np.any(evidence.probes // run.grid.cells == c):
                yield _series(findings, evidence, c, tag)
    for variable in rolled_variables(table):
        yield _rolled(table, variable, "rolled" + (f"-{run.variables.index(variable) + 1}" if several else ""))
    for c, variable in enumerate(run.variables):
        yield _taught(findings, c, f"taught-{c + 1}" if several else "taught", variable)


def _models(table: ScoreTable, lead: Lead, variable: str, tag: str) -> Picture:
    own, *_ = names = table.models(lead.lead)
    regions = {
        REGIONS[score.region]: {
            one.model: one["crps"] for one in table.select(variable=variable, lead=lead.lead, region=score.region)
        }
        for score in distinct(table.select(model=own, variable=variable, lead=lead.lead))
        if score.region != "never_supervised"  # nearly the held-out cells again; the table has it
    }
    call = call_of(table, lead, variable)
    best = call.best.model if call and call.best else "not drawn"
    return Picture(
        f"{tag}-models",
        "models",
        models_figure(regions, table.variables[variable], f"{variable}, {lead.ahead}: who errs least"),
        f"{variable}, {lead.ahead}: error (CRPS) of every model by kind of held-out reading; farther left is "
        "better, bars are 95 % intervals.",
        f"Dots of the CRPS of {', '.join(names)} for {', '.join(regions)}; the best rival of {own} is {best}.",
    )


def _scene(findings: Findings, evidence: Evidence, c: int, tag: str, above: float | None) -> Picture:
    run, variable, units = findings.run, findings.run.variables[c], findings.run.units[c]
    threshold = findings.high[c] if above is None else above
    times = evidence.targets.times
    when = "" if times is None else f", {_stamp(times[evidence.picture])}"
    figure = scene(
        evidence.own.picture[:, c],
        evidence.given[c],
        evidence.later[c],
        run.grid,
        threshold,
        labelled(variable, units),
        f"{variable}, {evidence.lead.ahead}{when}",
        shown=None if evidence.own.shown is None else evidence.own.shown[:, c],
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


def _calibration(findings: Findings, evidence: Evidence, c: int, tag: str) -> Picture:
    targets, variable = evidence.targets, findings.run.variables[c]
    region = main_region(findings.table, evidence.lead, variable)
    figure = reliability(
        targets,
        next(iter(evidence.members.values())),
        targets.regions[region] & (targets.channel == c),
        findings.run.units[c],
        findings.table.about["distance_units"],
        f"{variable}, {evidence.lead.ahead}: is the uncertainty honest?",
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


def reliability(
    targets: Targets,
    members: np.ndarray,  # (K, P)
    rows: np.ndarray,  # (P,) bool, the targets to judge by
    units: str,
    distance_units: str,
    title: str,
) -> Figure:
    """Every reading is a case of its own; of a dense truth a scene is one."""
    case = targets.scene[rows] if targets.dense else np.arange(int(rows.sum()))
    cells = Cells(members[:, rows], targets.values[rows], case, int(case.max()) + 1)
    what = "truth" if targets.dense else "reading"
    group, away = targets.group[rows], targets.distance[rows]
    return reliability_figure(cells, away, group, units, distance_units, title, what)


def _bins(table: ScoreTable, lead: Lead, variable: str, tag: str) -> Iterator[Picture]:
    unit = table.about["distance_units"]
    what = {
        "distance": (f"distance to a sensor [{unit}]", "with distance to the nearest sensor"),
        "hour": (f"hour of day ({table.about['data']['clock']})", "by hour of day"),
    }
    for kind, (axis, words) in what.items():
        found = table.select(variable=variable, lead=lead.lead, bins=kind)
        if not found or (kind == "hour" and len({score.bin for score in found}) == 1):  # of days there is one hour
            continue
        rows: dict[str, list[Score]] = {}
        for score in found:
            rows.setdefault(score.model, []).append(score)
        first = next(iter(rows.values()))
        bins = [score.bin for score in first if score.bin is not None]
        labels = [f"{bin.low:.0f}" if kind == "hour" else span(bin.low, bin.high) for bin in bins]
        title = f"{variable}, {lead.ahead}: {words}"
        figure = bins_figure(rows, labels, axis, table.variables[variable], title, (LOWEST, HIGHEST))
        few = sum(score.cells < FEW for score in first)
        yield Picture(
            f"{tag}-{kind}",
            kind,
            figure,
            f"{variable}, {lead.ahead}: error and honesty {words}. Bars are 95 % intervals"
            + (f"; {few} of {len(labels)} bins have fewer than {FEW} readings and say little." if few else "."),
            f"Three panels {words}: CRPS of every model, share of readings inside 90 % intervals, number of readings.",
        )


def _rolled(table: ScoreTable, variable: str, name: str) -> Picture:
    rows: dict[str, list[Score]] = {}
    for score in table.select(variable=variable, region="all", rolled=True):
        rows.setdefault(score.model, []).append(score)
    words = "several steps ahead"
    labels = [lead.ahead.removesuffix(" ahead") for lead in table.leads if lead.rolled]
    title, units = f"{variable}, {words}", table.variables[variable]
    return Picture(
        name,
        "rolled",
        bins_figure(rows, labels, "ahead", units, title, (LOWEST, HIGHEST)),
        f"{variable}: error and honesty {words}, every model rolled forward from the same readings. Bars are 95 % "
        "intervals.",
        "Three panels by time ahead: CRPS of every model, share of readings inside 90 % intervals, number of readings.",
    )


def _series(findings: Findings, evidence: Evidence, c: int, tag: str) -> Picture:
    """The stretches with most readings at the probed places."""
    targets, run, grid = evidence.targets, findings.run, findings.run.grid
    here = np.flatnonzero(evidence.probes // grid.cells == c)
    probes, group, variable = evidence.probes[here] % grid.cells, targets.groups, run.variables[c]
    at_probe = (targets.channel == c) & np.isin(targets.cell, probes)
    readings = np.full((len(targets.examples), len(probes)), np.nan)
    places = {int(cell): s for s, cell in enumerate(probes)}
    cells = [places[int(cell)] for cell in targets.cell[at_probe]]
    readings[targets.scene[at_probe], cells] = targets.values[at_probe]
    labels, counts = np.unique(group[targets.scene[at_probe]], return_counts=True)
    chosen = np.sort(labels[np.argsort(-counts, kind="stable")][:STRETCHES])
    rows = np.flatnonzero(np.isin(group, chosen))
    starts = [int(np.flatnonzero(group[rows] == label)[0]) for label in chosen]
    names = [f"trajectory {label}" for label in chosen]
    if targets.times is not None:
        times = [targets.times[rows[start]] for start in starts]
        names = [str(time.astype("datetime64[D]")) for time in times]
        if len(set(names)) < len(names):  # several stretches of a day
            names = [_stamp(time) for time in times]
    unread = any((at_probe & mask).any() for name, mask in targets.regions.items() if name in UNREAD)
    W, kind = grid.shape[1], "held-out sensor" if unread else "cell"
    x = nearest_turn(grid.x, 0.0) if grid.axes == ("lat", "lon") else grid.x  # beyond the dateline as maps name it
    titles = [f"{kind} at {grid.axes[0]} {grid.y[p // W]:.6g}, {grid.axes[1]} {x[p % W]:.6g}" for p in probes]
    figure = series_figure(
        np.quantile(evidence.own.probes[:, rows][:, :, here], [0.05, 0.5, 0.95], axis=0),
        readings[rows],
        titles,
        sorted(zip(starts, names, strict=True)),
        run.units[c] or variable,
        f"{variable}, {evidence.lead.ahead}: predicted and read",
    )
    return Picture(
        f"{tag}-series",
        "series",
        figure,
        f"Predictions {evidence.lead.ahead} at places with the most held-out readings. One reading in ten may lie "
        "outside the band; more, or many in a row, means it is too narrow there.",
        f"Time series of {variable} at {len(probes)} places: 90 % band, median and readings.",
    )


def _taught(findings: Findings, c: int, name: str, variable: str) -> Picture:
    held = {REGIONS[kind]: mask for kind, mask in findings.held.items()}
    never = findings.run.never_supervised[c].numpy()
    return Picture(
        name,
        "taught",
        taught(never, held, findings.run.grid, f"{variable}: where the model was taught"),
        "Grey cells never had a training reading: the map there is carried over from elsewhere. Held-out cells were "
        "kept from the model on purpose, to be judged by.",
        f"Map of the cells where training readings of {variable} taught the model, of held-out cells, and of cells "
        "never taught.",
    )


def _stamp(time: np.datetime64) -> str:
    return as_text(time).replace("T", " ")
