"""What the doctor counts over every row while they stream by."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from ..records import Refused, Rows
from ..rows import NO_NUMBER, NO_VALUE
from ..table import Table
from .findings import EXAMPLES, Finding, Tally, limits_of
from .reservoir import Keeper

AGAIN = 5  # times that a word must be there to stand for no value
TEXTS = 1000  # different ones of refused fields that are counted
UNSET = np.datetime64("1971-01-01", "ns")  # clocks that lost their time count from 1970


class Counts:
    """What is counted over every row."""

    def __init__(self, table: Table, keeper: Keeper):
        self.table, self.keeper = table, keeper
        self.files = tuple(str(name) for name in table.files)
        self.rows = 0
        self.reasons: Counter[str] = Counter()
        self.refused: defaultdict[str, list[Refused]] = defaultdict(list)  # by reason, the first ones
        self.texts: Counter[tuple[str, str]] = Counter()  # what they say, by reason, as long as that is little
        self.named = False
        self.span: tuple[np.datetime64, np.datetime64] | None = None
        variables = len(table.variables)
        self.count = np.zeros(variables, int)
        self.low, self.high = np.full(variables, np.inf), np.full(variables, -np.inf)
        self.limits = [limits_of(*about) for about in zip(table.variables, table.units, strict=True)]
        self.impossible = [Tally() for _ in self.limits]
        self.unset = Tally()

    def add(self, rows: Rows) -> None:
        if len(rows.row) == 0:
            return
        self.rows += len(rows.row)
        self.named |= rows.sensor is not None
        ends = rows.time.min(), rows.time.max()
        self.span = ends if self.span is None else (min(self.span[0], ends[0]), max(self.span[1], ends[1]))
        known = np.isfinite(rows.values)
        self.count += known.sum(0)
        self.low = np.fmin(self.low, np.where(known, rows.values, np.inf).min(0))
        self.high = np.fmax(self.high, np.where(known, rows.values, -np.inf).max(0))
        for v, (low, high) in enumerate(self.limits):
            self.impossible[v].add(
                known[:, v] & ~((rows.values[:, v] >= low) & (rows.values[:, v] <= high)), rows, self.files
            )
        self.unset.add(rows.time < UNSET, rows, self.files)
        self.keeper.add(rows)

    def refuse(self, refusals: list[Refused], write: Callable[[Refused], None]) -> None:
        for one in refusals:
            self.reasons[one.reason] += 1
            if len(self.texts) < TEXTS or (one.reason, one.text) in self.texts:
                self.texts[one.reason, one.text] += 1
            if len(self.refused[one.reason]) < EXAMPLES:
                self.refused[one.reason].append(one)
            write(one)

    def findings(self) -> list[Finding]:
        """Those that need one row at a time."""
        found = self._refusals()
        for name, units, (low, high), tally in zip(
            self.table.variables, self.table.units, self.limits, self.impossible, strict=True
        ):
            sides = (("--drop-below", low), ("--drop-above", high))
            options = " ".join(f"{option} {at:g}" for option, at in sides if np.isfinite(at))
            found += tally.finding(
                "impossible",
                "fault",
                f"{name}: {{n}} readings cannot be ({f'{low:g} .. {high:g} {units}'.strip()} is possible)",
                f"`solid grid {options}` drops and lists them; if they are in other units, convert them first",
            )
        if 2 * self.unset.count < self.rows:  # else it is an old record
            found += self.unset.finding(
                "unset-clock",
                "fault",
                "{n} readings are dated 1970 or before: a clock that lost its time",
                "drop those rows; their time cannot be known",
            )
        return found

    def _refusals(self) -> list[Finding]:
        """Fields that cannot be read, and apart from them empty ones, which networks write while a sensor is silent."""
        others = Counter({reason: n for reason, n in self.reasons.items() if reason != NO_VALUE})
        count, empty, found = others.total(), self.reasons[NO_VALUE], []
        if count:
            words = {reason: self._word(reason, n) for reason, n in others.items()}
            strange = count - sum(n for _, n in words.values())  # a word that comes again and again means no value
            severity = "fault" if 20 * strange > self.rows else "doubt" if 1000 * strange > self.rows else "note"
            most = ", ".join(
                f"{reason} ({n:,}{f', {words[reason][1]:,} times {words[reason][0]!r}' if words[reason][1] else ''})"
                for reason, n in others.most_common(3)
            )
            remedy = "they are left out of the grid; --refused FILE.csv lists every one with its row, text and reason"
            text = f"{count:,} fields cannot be read: {most}"
            found.append(Finding("refused", severity, text, count, self._first(others), remedy))
        if empty:
            remedy = "nothing: they are left out, and gaps are reconstructed"
            found.append(
                Finding("no-value", "note", f"{empty:,} rows hold no value", empty, self._first([NO_VALUE]), remedy)
            )
        return found

    def _word(self, reason: str, count: int) -> tuple[str, int]:
        """What most of the fields say that are refused for a reason, and how many; nothing where they differ."""
        said = Counter({text: n for (why, text), n in self.texts.items() if why == reason and text})
        text, n = next(iter(said.most_common(1)), ("", 0))
        return (text, n) if n >= AGAIN and 2 * n > count and reason.startswith(NO_NUMBER) else ("", 0)

    def _first(self, reasons: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Where the first of these stand."""
        return tuple(sorted((one.file, one.row) for reason in reasons for one in self.refused[reason])[:EXAMPLES])
