"""The files of a table, and the one thing they decide together: whether 3/4/2023 is in March or in April."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import SolidError
from .dates import AMBIGUOUS, SHORT, evidence, together, year_is_first
from .records import Batch, Columns, Source
from .times import TimeFormat

CHUNK = 524_288  # rows: some 60 MB with everything that is made of them; with fewer, threads wait for each other
SAMPLE = 1000  # rows of each file that are looked at when it is opened


@dataclass(frozen=True)
class Part:
    """One file of the table: where it comes from, what its columns are, how its times are read, its first rows."""

    source: Source
    columns: Columns
    form: TimeFormat
    head: Batch | None  # None: it holds no rows


def read_head(source: Source, columns: Columns, only: Sequence[str] | None = None) -> Batch | None:
    """The first rows, read once for all who want to look at them; `only`: of these columns."""
    return next((batch for batch in source.batches(columns, SAMPLE, only) if len(batch.row)), None)


def settle_dates(parts: Sequence[Part], notes: list[str]) -> list[Part]:
    """Day or month first, from the evidence of each whole file; a file that cannot tell follows the others."""
    orders: list[str | None] = []
    undecided: list[int] = []
    for position, part in enumerate(parts):
        order, date = part.form.order, part.columns.time.split("+")[0]
        slashed = part.head is not None and evidence(part.head.data[date]).found  # do the first look like 3/4/2023?
        if order is None and part.form.pattern is None and slashed:
            dates = part.source.batches(replace(part.columns, time=date), CHUNK, [date])
            seen = together(evidence(batch.data[date]) for batch in dates)
            day, month = seen.day, seen.month
            order = "dayfirst" if day and not month else "monthfirst" if month and not day else None
            year = year_is_first(seen.short) if seen.short else False
            if year is None and seen.hyphens:
                raise SolidError(f"dates of {part.source.name} are ambiguous: {SHORT}")
            if year:
                order = "yearfirst"
                notes.append("dates like 24-02-01 are read year first, as the order of all dates shows")
            elif day and month:
                notes.append(f"{part.source.name} mixes day-first and month-first dates: undecidable ones are refused")
            elif order is None:
                undecided.append(position)
            else:
                notes.append(f"dates like 3/4/2023 are read {order.replace('first', '')} first, as later dates show")
        orders.append(order)
    known = {order for order in orders if order}
    if undecided and len(known) != 1:
        raise SolidError(f"dates of {parts[undecided[0]].source.name} are ambiguous: {AMBIGUOUS}")
    for position in undecided:
        orders[position] = next(iter(known))
    return [replace(part, form=replace(part.form, order=order)) for part, order in zip(parts, orders, strict=True)]
