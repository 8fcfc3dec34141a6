"""What the first lines of a text file tell: where the table begins, its columns, and what separates them.

Words above the header are passed over. Columns may be separated by spaces alone, as loggers and Fortran write them:
runs of spaces are tabs then, and where a time of one column has its clock behind a space, it is two. A header may be
the last of the lines that begin with #.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .names import TIMES, plain

SEPARATORS = ",;\t|"
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
DATE, CLOCK = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"), re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?Z?")
LOOKED_AT = 50  # lines that tell whether spaces separate columns
SPACES, ENDS = re.compile(rb"[ \t]+"), re.compile(rb"(?m)^\t|\t(?=\r?$)")


@dataclass(frozen=True)
class Dialect:
    header: int  # its position among the lines
    names: list[str]  # of the columns
    separator: str
    spaced: bool = False  # runs of spaces are one separator: `tabbed` makes tabs of them


def dialect_of(lines: Sequence[str]) -> Dialect | None:  # None: there is no line
    told = [i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    if not told:
        return None
    first = told[0]
    above = [i for i in range(first) if lines[i].startswith("#")]
    if above and (found := _under_a_sign(lines, above[-1], first)) is not None:
        return found
    header = _table_begins(lines, first)
    separator = separator_of(lines[header])
    if not _count(lines[header], separator):
        names = lines[header].split()
        rows = [line for line in lines[header + 1 :][:LOOKED_AT] if line.strip()]
        if '"' in "".join(rows):
            fields = list(csv.reader(rows, delimiter=" ", skipinitialspace=True))
            separator = " " if _spaced(names, fields) == names else separator
        elif (spaced := _spaced(names, [line.split() for line in rows])) is not None:
            return Dialect(header, spaced, "\t", spaced=True)
    (names, *_) = csv.reader([lines[header]], delimiter=separator, skipinitialspace=True)
    return Dialect(header, [name.strip() for name in names], separator)


def tabbed(block: bytes) -> bytes:
    """Lines with a tab for every run of spaces.

    >>> tabbed(b"  1.5   2 3 \\n4 5\\t6\\r\\n")
    b'1.5\\t2\\t3\\n4\\t5\\t6\\r\\n'
    """
    return ENDS.sub(b"", SPACES.sub(b"\t", block))


def separator_of(line: str) -> str:
    return max(SEPARATORS, key=lambda sign: _count(line, sign))


def _count(line: str, sign: str) -> int:
    """How often, outside of quotes."""
    return re.sub(r'"[^"]*"', "", line).count(sign)


def _table_begins(lines: Sequence[str], first: int) -> int:
    """The header's position: behind lines of words about the table, where one of columns and rows like it follow."""

    def columns(line: str) -> tuple[int, str]:
        sign = separator_of(line)
        return _count(line, sign), sign

    told = [(i, columns(line)) for i, line in enumerate(lines) if i >= first and line.strip()]
    if told[0][1][0] > 1:
        return first
    for (i, own), *like in zip(told, told[1:], told[2:], strict=False):
        if own[0] > 1 and all(other == own for _, other in like):
            return i
    return first


def _under_a_sign(lines: Sequence[str], header: int, first: int) -> Dialect | None:
    """A header behind #, above a first row of numbers and as many columns as it has names."""
    title, row = lines[header].lstrip("# \t"), lines[first]
    separator = separator_of(row)
    if _count(row, separator):
        fields, names = row.split(separator), [name.strip() for name in title.split(separator)]
        whole = names if len(names) == len(fields) else None
    else:
        fields, names = row.split(), title.split()
        whole = _spaced(names, [line.split() for line in lines[first:][:LOOKED_AT] if line.strip()])
    headed = any(plain(field) in TIMES for field in fields)  # a header whose numbers are those of stations
    if whole is None or headed or sum(bool(NUMBER.fullmatch(field)) for field in fields) < 2:
        return None
    spaced = not _count(row, separator)
    return Dialect(header, whole, "\t" if spaced else separator, spaced)


def _spaced(names: list[str], rows: Sequence[list[str]]) -> list[str] | None:
    """The names of columns that spaces separate, with a time that is two of them; None where they do not.

    >>> _spaced(["time", "lat", "pm"], [["2024-01-01", "07:30", "50.1", "3"]] * 2)
    ['date', 'time', 'lat', 'pm']
    """
    if len(names) < 3 or not rows or len({len(row) for row in rows}) > 1:
        return None
    if len(rows[0]) == len(names):
        return names
    at = next((i for i, name in enumerate(names) if plain(name) in TIMES), -1)
    if len(rows[0]) != len(names) + 1 or at < 0:
        return None
    split = all(DATE.fullmatch(row[at]) and CLOCK.fullmatch(row[at + 1]) for row in rows)
    return [*names[:at], "date", "time", *names[at + 1 :]] if split else None
