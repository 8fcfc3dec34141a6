"""The files of a table, and the one thing they decide together: whether 3/4/2023 is in March or in April."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import SolidError
from .records import Batch, Columns, Source
from .times import AMBIGUOUS, Clock, evidence

CHUNK = 262_144  # rows: some 30 MB with everything that is made of them
SAMPLE = 1000  # rows of each file that are looked at when it is opened


@dataclass(frozen=True)
class Part:
    """One file of the table: where it comes from, what its columns are, how its times are read."""

    source: Source
    columns: Columns
    clock: Clock


def settle_dates(parts: Sequence[Part], notes: list[str]) -> list[Part]:
    """Day or month first, from the evidence of each whole file; a file that cannot tell follows the others."""
    orders: list[str | None] = []
    undecided: list[int] = []
    for position, part in enumerate(parts):
        clock, order = part.clock, part.clock.order
        if clock.order is None and clock.pattern is None and _slashed(part):
            seen = [evidence(batch.data[part.columns.time.split("+")[0]]) for batch in _dates(part, CHUNK)]
            day, month = any(s[1] for s in seen), any(s[2] for s in seen)
            order = "dayfirst" if day and not month else "monthfirst" if month and not day else None
            if day and month:
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
    return [replace(part, clock=replace(part.clock, order=order)) for part, order in zip(parts, orders, strict=True)]


def _dates(part: Part, rows: int) -> Iterator[Batch]:
    names = part.columns.time.split("+")[:1]
    yield from part.source.batches(replace(part.columns, time=names[0]), rows, names)


def _slashed(part: Part) -> bool:
    """Do the first dates look like 3/4/2023?"""
    return any(evidence(batch.data[part.columns.time.split("+")[0]])[0] for batch in first(_dates(part, SAMPLE)))


def first(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The first batch that holds rows."""
    for batch in batches:
        if len(batch.row):
            yield batch
            return
