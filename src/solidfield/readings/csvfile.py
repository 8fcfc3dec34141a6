"""Tables as text: CSV with any of the usual separators, decimal points or commas, plain or gzipped.

The file is read in blocks of whole lines (blocks.py). Numbers are parsed by pandas' C reader; only where a column
holds something that is no number does it come back as text, and only then is it looked at field by field. Lines with
too many fields, unclosed quotes and the like are faults of their line, never of the file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..engine import each_ahead
from ..errors import SolidError
from .blocks import LINE_LIMIT, blocks, fields_of, lines_in, opened
from .dialect import NUMBER, dialect_of
from .names import TIMES, plain, split_units
from .records import Batch, Columns, Header

SAMPLE = 500  # lines that tell the dialect and which columns are numbers
SEARCH = 65_536  # lines at a time, where a column says nothing in those
LIMITED = re.compile(r"\s*[<>≤≥]?" + NUMBER.pattern)  # a number, or what is known to be below or above one
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
TOO_MANY = "more fields than the header has"
# What pandas takes for a missing value; the slow path takes the same.
MISSING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
     "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
csv.field_size_limit(LINE_LIMIT)  # the reader's own limit is below that of a line, and ends a file in silence


class CsvSource:
    """One CSV file: its dialect found from its first lines, its rows on demand."""

    def __init__(self, path: Path):
        self.name = str(path)
        self.path = path
        self.notes: list[str] = []
        self.fraction = 0.0
        head = self._head()
        lines = head.split("\n")
        dialect = dialect_of(lines)
        if dialect is None:
            raise SolidError(f"{path} is empty; give a table with a header line and one reading per line")
        above = sum(bool(line.strip()) and not line.startswith("#") for line in lines[: dialect.header])
        if above:
            self.notes.append(f"{path.name}: its first {dialect.header} lines hold no table and are left out")
        names, self.separator, self.spaced = dialect.names, dialect.separator, dialect.spaced
        self.header_end = dialect.header + 1  # its line number
        rows = lines[self.header_end :]
        if self.spaced:
            rows = ["\t".join(line.split()) for line in rows]
        sample = _records(csv.reader(rows, delimiter=self.separator, skipinitialspace=True))
        self._refuse_odd(names, sample)
        fields = [[row[i].strip() for row in sample if i < len(row) and row[i].strip()] for i in range(len(names))]
        commas = sum(bool(DECIMAL_COMMA.fullmatch(text)) for column in fields for text in column)
        points = sum("." in text and bool(NUMBER.fullmatch(text)) for column in fields for text in column)
        self.decimal = "," if commas > points else "."
        if self.decimal == ",":
            self.notes.append(f"{path.name}: numbers are read with decimal commas")
        numbers = re.compile(LIMITED.pattern.replace(r"\.", ",")) if self.decimal == "," else LIMITED
        silent = [i for i, column in enumerate(fields) if not any(text not in MISSING for text in column)]
        later = self._later(silent, len(names)) if silent else {}
        self.headers = tuple(
            header_of(name, later.get(i, column), split_units(name)[1], numbers)
            for i, (name, column) in enumerate(zip(names, fields, strict=True))
        )

    def _head(self) -> str:
        with opened(self.path) as (text, _):
            first = text.read(1 << 16)
            while first.count(b"\n") + first.count(b"\r") < 3 and len(first) <= LINE_LIMIT:  # lines are long
                if not (more := text.read(1 << 16)):
                    break
                first += more
        if not first.strip():
            raise SolidError(f"{self.path} is empty; give a table with a header line and one reading per line")
        if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise SolidError(f"{self.path} is encoded as UTF-16; save it as UTF-8")
        if b"\0" in first:
            raise SolidError(f"{self.path} is no text file; give CSV, CSV.gz, Parquet, NetCDF or Zarr")
        first = first.removeprefix(b"\xef\xbb\xbf")
        self.old_mac = b"\n" not in first and b"\r" in first
        whole = first if len(first) % (1 << 16) else first[: first.rfind(b"\r" if self.old_mac else b"\n") + 1] or first
        try:
            self.encoding, head = "utf-8", whole.decode("utf-8")
        except UnicodeDecodeError:
            self.encoding, head = "latin-1", whole.decode("latin-1")
            self.notes.append(f"{self.path.name}: read as Latin-1, for it is not UTF-8")
        return head.replace("\r\n", "\n").replace("\r", "\n")

    def _later(self, silent: Sequence[int], width: int) -> dict[int, list[str]]:
        """The first fields of columns that say nothing in the sample: the sensors of one kind may come last."""
        found: dict[int, list[str]] = {}
        for block, line, _ in blocks(self.path, SEARCH, self.encoding, self.old_mac, self.spaced):
            below = block.split(b"\n", max(0, self.header_end - line + 1))[-1]
            left = [i for i in silent if i not in found]
            with suppress(pd.errors.ParserError, pd.errors.EmptyDataError):  # lines that `batches` will speak of
                frame = pd.read_csv(
                    io.BytesIO(below),
                    sep=self.separator,
                    header=None,
                    names=range(width),
                    usecols=left,
                    dtype="str",
                    index_col=False,
                    skipinitialspace=True,
                    on_bad_lines="skip",
                    encoding_errors="backslashreplace",
                )
                said = {i: frame[i].dropna().head(SAMPLE).tolist() for i in left}
                found |= {i: texts for i, texts in said.items() if texts}
            if len(found) == len(silent):
                break
        return found

    def _refuse_odd(self, names: list[str], sample: list[list[str]]) -> None:
        if len(names) == 1:
            raise SolidError(
                f"{self.path}: no separator found in the header '{names[0][:80]}'; "
                "separate the columns by commas, semicolons, tabs, | or spaces"
            )
        headed = any(plain(name) in TIMES for name in names)  # then the numbers are those of stations
        if sum(bool(NUMBER.fullmatch(name)) for name in names) > 1 and not headed:
            raise SolidError(f"{self.path}: the first line holds numbers; give the file a header with column names")
        twice = [name for name in names if name and names.count(name) > 1]
        if twice:
            raise SolidError(f"{self.path} has more than one column '{twice[0]}'; rename them")
        if not any(sample) and self.path.stat().st_size > LINE_LIMIT:
            raise SolidError(f"{self.path}: its first line of readings is longer than {LINE_LIMIT:,} bytes; shorten it")
        if not any(sample):
            raise SolidError(f"{self.path} has a header and no rows")
        wrong = sum(len(row) > len(names) and any(row[len(names) :]) for row in sample)
        if self.separator == "," and 2 * wrong > len(sample):
            raise SolidError(
                f"{self.path}: most lines have more fields than the header's {len(names)}; "
                "if its numbers have decimal commas, separate the columns by semicolons"
            )

    def batches(self, columns: Columns, rows: int, only: Sequence[str] | None = None) -> Iterator[Batch]:
        self.fraction = 0.0
        names = only or columns.used()

        def parse(piece: tuple[bytes, int, float]) -> tuple[Batch | None, float]:
            block, line, fraction = piece
            if line <= self.header_end:
                block, line = block.split(b"\n", self.header_end - line + 1)[-1], self.header_end + 1
            return self._parse(block, line, columns, names) if block.strip() else None, fraction

        for batch, fraction in each_ahead(parse, blocks(self.path, rows, self.encoding, self.old_mac, self.spaced)):
            if batch is not None:
                yield batch
            self.fraction = fraction

    def _parse(self, block: bytes, line: int, columns: Columns, names: Sequence[str]) -> Batch:
        position = {header.name: i for i, header in enumerate(self.headers)}
        count, width = lines_in(block), len(self.headers)
        data: dict[str, Any] = {}
        if columns.time in names and not self.headers[position[columns.time]].numeric:
            fixed = fields_of(block, self.separator, width, position[columns.time])
            if fixed is not None:
                data[columns.time] = fixed
        plain = bool(data)  # every line has a time, and as many fields as the header
        wanted = {name: position[name] for name in names if name not in data}
        if plain and not wanted:
            return Batch(np.arange(line, line + count), data, [], self.decimal)
        frame = None if _open_quote(block) else self._read(block, wanted, columns, spare=not plain)
        if frame is None or len(frame) != count:
            return self._parse_lines(block, line, {name: position[name] for name in names})
        data |= {name: frame[i] for name, i in wanted.items()}
        row = np.arange(line, line + count)
        if plain:
            return Batch(row, data, [], self.decimal)
        spare = frame[width].notna().to_numpy()
        empty = frame.isna().all(axis=1).to_numpy()
        if not (spare.any() or empty.any()):
            return Batch(row, data, [], self.decimal)
        lines = block.split(b"\n")
        blank = np.array([bool(empty[i]) and not lines[i].strip() for i in range(count)])
        faults = [(int(row[i]), "", _show(lines[i]), TOO_MANY) for i in np.flatnonzero(spare)]
        keep = ~spare & ~blank
        return Batch(row[keep], {name: column[keep] for name, column in data.items()}, faults, self.decimal)

    def _read(self, block: bytes, wanted: dict[str, int], columns: Columns, spare: bool) -> pd.DataFrame | None:
        """The columns, and if asked one more behind the last: whatever stands there is a field too many."""
        width = len(self.headers) + spare
        widest = (self.separator * (width - 1) + "\n").encode()  # makes pandas expect the last column in every block
        texts = {i: "str" for name, i in wanted.items() if self._text(name, columns)}
        try:
            frame = pd.read_csv(
                io.BytesIO(widest + block),
                sep=self.separator,
                decimal=self.decimal,
                header=None,
                names=range(width),
                usecols=[*wanted.values(), width - 1] if spare else list(wanted.values()),
                dtype=texts,
                index_col=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                low_memory=False,
                encoding_errors="backslashreplace",
            )
        except pd.errors.ParserError:
            return None
        return frame.iloc[1:].reset_index(drop=True)

    def _text(self, name: str, columns: Columns) -> bool:
        """Is the column text whatever it holds: a sensor's name, a time that is not counted in seconds?"""
        numeric = next(header.numeric for header in self.headers if header.name == name)
        return name == columns.sensor or (name in columns.time.split("+") and ("+" in columns.time or not numeric))

    def _parse_lines(self, block: bytes, line: int, wanted: dict[str, int]) -> Batch:
        """Line by line, each on its own: slow, and safe from whatever the lines around it hold."""
        row: list[int] = []
        fields: list[list[str]] = []
        faults: list[tuple[int, str, str, str]] = []
        for number, content in enumerate(block.split(b"\n")[:-1], line):
            text = content.decode("utf-8", "backslashreplace").rstrip("\r")
            if not text.strip():
                continue
            try:
                record = next(csv.reader([text], delimiter=self.separator, skipinitialspace=True, strict=True))
            except (csv.Error, StopIteration):
                faults.append((number, "", _show(content), "a quote that is not closed on its line"))
                continue
            if any(record[len(self.headers) :]):
                faults.append((number, "", _show(content), TOO_MANY))
                continue
            row.append(number)
            missing = [""] * (len(self.headers) - len(record))
            fields.append(record[: len(self.headers)] + missing)  # empty fields beyond the header are nothing
        table = np.array(fields, dtype=object).reshape(-1, max(1, len(self.headers)))
        data = {name: pd.Series(table[:, i]).replace(list(MISSING), np.nan) for name, i in wanted.items()}
        return Batch(np.array(row, dtype=np.int64), data, faults, self.decimal)


def _open_quote(block: bytes) -> bool:
    """Does a line have an odd number of quotes?"""
    if b'"' not in block:
        return False
    signs = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(signs == ord("\n"))
    before = np.searchsorted(np.flatnonzero(signs == ord('"')), ends)
    return bool((np.diff(before, prepend=0) % 2).any())


def _records(reader: Any) -> list[list[str]]:
    """The first rows, as far as they can be taken apart."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in reader:
            rows.append(row)
            if len(rows) == SAMPLE:
                break
    return [row for row in rows if row]


def header_of(name: str, fields: Sequence[str], units: str, kind: re.Pattern[str] = LIMITED) -> Header:
    """Of a column whose first fields are these: are most of those that say anything numbers?

    >>> header_of("pm", ["<5", "7.1", "NA", "off"], "").numeric, header_of("pm", ["7.1 ug", "8 ug"], "").text
    (True, '7.1 ug')
    """
    said = [text for text in fields if text.strip() not in MISSING]
    numeric = 2 * sum(bool(kind.fullmatch(text)) for text in said) > len(said)
    return Header(name, numeric, units, text="" if numeric or not said else said[0][:40])


def _show(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace").strip()[:200]
