"""The tables of a report: models beside each other where it counts, the run by kind of held-out reading, step by step.

Every metric of the registry that has a heading is a column; one that nobody could measure is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scores.estimate import Estimate
from ..scores.registry import METRICS, Metric, Value
from ..scores.table import Lead, Score, ScoreTable
from .calls import call_of, main_region, rolled_variables
from .markup import table as markup
from .words import REGIONS, distinct, percent


def tables(table: ScoreTable) -> list[str]:
    return [
        made
        for lead in table.leads
        if not lead.rolled
        for variable in table.variables
        if table.select(variable=variable, lead=lead.lead)
        for made in (_models_table(table, lead, variable), _regions_table(table, lead, variable))
    ]


def rolled_tables(table: ScoreTable) -> list[str]:
    """Step by step: the run, and the CRPS of its rivals."""
    made, leads = [], [lead for lead in table.leads if lead.rolled]
    for variable in rolled_variables(table):
        found = [table.select(variable=variable, lead=at.lead, region="all", rolled=True) for at in leads]
        header, cells = columns([own for own, *_ in found], table.variables[variable])
        rows = [
            (at.ahead, f"{own.cells:,}", *row, *(f"{rival['crps'].mean:.3g}" for rival in rivals))
            for at, (own, *rivals), row in zip(leads, found, cells, strict=True)
        ]
        heading = ("ahead", "readings", *header, *(f"CRPS of {rival.model}" for rival in found[0][1:]))
        caption = f"{variable}, rolled forward from {leads[0].scenes} of {leads[0].scenes_in_all} test scenes"
        made.append(markup(caption, heading, rows))
    return made


def _models_table(table: ScoreTable, lead: Lead, variable: str) -> str:
    region, units = main_region(table, lead, variable), table.variables[variable]
    at: dict[str, Any] = {"variable": variable, "lead": lead.lead, "region": region}
    found, gaps = table.select(**at), {gap.rival: gap.difference for gap in table.compared(**at)}
    header, cells = columns(found, units)
    rows = [
        (score.model, *row, f"{score.scaled('crps').mean:.3f}", interval(gaps.get(score.model), signed=True))
        for score, row in zip(found, cells, strict=True)
    ]
    caption = (
        f"{variable}, {lead.ahead}: {found[0].cells:,} readings, {REGIONS[region]}, {lead.scenes} of "
        f"{lead.scenes_in_all} test scenes"
    )
    return markup(
        caption, ("model", *header, "CRPS in standard deviations", "this run minus it, CRPS (95 %)"), rows, own=0
    )


def _regions_table(table: ScoreTable, lead: Lead, variable: str) -> str:
    units, own = table.variables[variable], table.models(lead.lead)[0]
    found = distinct(table.select(model=own, variable=variable, lead=lead.lead))
    header, cells = columns(found, units)
    rows = []
    for score, row in zip(found, cells, strict=True):
        call = call_of(table, lead, variable, score.region)
        best, gap = (call.best.model, call.gap.difference) if call and call.best and call.gap else ("-", None)
        rows.append((REGIONS[score.region], f"{score.cells:,}", *row, best, interval(gap, signed=True)))
    heading = ("where", "readings", *header, "best rival there", "this run minus it, CRPS (95 %)")
    return markup(f"{variable}, {lead.ahead}: {own} by kind of held-out reading", heading, rows)


def columns(
    scores: Sequence[Score], units: str = "", scaled: bool = False
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and cells of every metric that has a heading and a value in any row; the first has its interval."""
    shown = [
        metric
        for name, metric in METRICS.items()
        if metric.label and any(score.metrics.get(name) is not None for score in scores)
    ]
    heading = tuple(
        metric.label
        + (f" {units}" if units and metric.power and not scaled else "")
        + (" (95 %)" if place == 0 else "")
        for place, metric in enumerate(shown)
    )
    rows = [
        tuple(
            cell(metric, score.scaled(metric.name) if scaled else score.metrics.get(metric.name), bar=place == 0)
            for place, metric in enumerate(shown)
        )
        for score in scores
    ]
    return heading, rows


def cell(metric: Metric, value: Value | None, bar: bool = False) -> str:
    if not isinstance(value, Estimate):
        return "-"
    if metric.share:
        return percent(value.mean, 1)
    return interval(value) if bar else f"{value.mean:.3g}"


def interval(estimate: Estimate | None, signed: bool = False) -> str:
    if estimate is None:
        return "-"
    form = "+.3g" if signed else ".3g"
    middle = format(estimate.mean, form)
    if not estimate.has_bar:
        return middle
    return f"{middle} ({format(estimate.low, form)} to {format(estimate.high, form)})"
