"""A text file, plain or gzipped, as blocks of whole lines, at constant memory.

A line is a record: a quote that is not closed on its own line is a fault of that line alone, so a stray one cannot
swallow the thousands of readings behind it. A line longer than LINE_LIMIT is an error (one gigantic line must not fill
the memory), and so is a gzip file that expands more than EXPANSION_LIMIT-fold: both are what a decompression bomb
looks like, and neither is a table of readings.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import SolidError
from .dialect import tabbed

LINE_LIMIT = 1 << 20  # bytes; a record of readings has some hundreds
EXPANSION_LIMIT = 250  # a table of readings compresses 3- to 30-fold
EXPANSION_FREE = 8 << 20  # bytes that may come out before the ratio is judged: small files of zeros are harmless
NEWLINE = 10


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The bytes of the text, and the file on disk they come from (the same one, unless it is gzipped)."""
    try:
        with open(path, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if zipped:
                with gzip.GzipFile(fileobj=raw) as text:
                    yield text, raw  # type: ignore[misc]
            else:
                yield raw, raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SolidError(f"{path} is damaged or cut short ({error}); copy or download it again") from None
    except OSError as error:
        raise SolidError(f"cannot read {path}: {error.strerror or error}") from None


def blocks(
    path: Path,
    rows: int,
    encoding: str = "utf-8",
    old_mac: bool = False,  # lines end in a carriage return alone
    spaced: bool = False,  # spaces separate columns: they become tabs
) -> Iterator[tuple[bytes, int, float]]:
    """(lines as UTF-8 bytes that end in a newline, line number of the first, share of the file read so far).

    A block holds at most `rows` lines; the header is among the first block's.
    """
    size = max(1, path.stat().st_size)
    amount = int(np.clip(64 * rows, 1 << 16, 1 << 22))
    rest, line, total = b"", 1, 0
    plain = tabbed if spaced else bytes
    with opened(path) as (text, raw):
        while piece := text.read(amount):
            if total == 0:
                piece = piece.removeprefix(b"\xef\xbb\xbf")  # a byte-order mark
            total += len(piece)
            if text is not raw and total > EXPANSION_FREE and total > EXPANSION_LIMIT * max(1, raw.tell()):
                raise SolidError(
                    f"{path} expands more than {EXPANSION_LIMIT}-fold, like a decompression bomb; "
                    "if it is sound, unpack it yourself and give the plain file"
                )
            if old_mac:
                piece = piece.replace(b"\r", b"\n")
            if encoding != "utf-8":
                piece = piece.decode(encoding).encode()
            rest += piece
            ends = np.flatnonzero(np.frombuffer(rest, np.uint8) == NEWLINE) + 1
            if len(rest) - (ends[-1] if len(ends) else 0) > LINE_LIMIT:
                raise SolidError(
                    f"{path}: line {line + len(ends)} is longer than {LINE_LIMIT:,} bytes; "
                    "this is no table of readings, or its lines have lost their ends"
                )
            done = 0
            for first in range(0, len(ends), rows):
                last = min(first + rows, len(ends))
                end = int(ends[last - 1])
                yield plain(rest[done:end]), line, min(1.0, raw.tell() / size)
                line, done = line + last - first, end
            rest = rest[done:]
    if rest:
        yield plain(rest + b"\n"), line, 1.0


def lines_in(block: bytes) -> int:
    """How many lines end in it; four times as fast as bytes.count, which stops at each of them."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == NEWLINE))


def fields_of(block: bytes, separator: str, count: int, which: int) -> np.ndarray | None:
    """(n,) bytes of one field where every line has `count` plain fields and this one always the same length.

    A time column of fixed width is then read straight from the bytes: three times faster than through strings.
    """
    block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    if b'"' in block or b"\r" in block:
        return None
    signs = np.frombuffer(block, np.uint8)
    marks = np.flatnonzero((signs == ord(separator)) | (signs == NEWLINE))
    ends_line = signs[marks] == NEWLINE
    if len(marks) % count or not ends_line[count - 1 :: count].all():
        return None
    if len(marks) // count != np.count_nonzero(ends_line):
        return None
    ends = marks.reshape(-1, count)  # of each field
    starts = ends[:, which - 1] + 1 if which else np.concatenate([[0], ends[:-1, -1] + 1])
    lengths = ends[:, which] - starts
    width = int(lengths[0])
    if not 8 <= width <= 40 or (lengths != width).any():
        return None
    windows = np.lib.stride_tricks.sliding_window_view(signs, width)
    return np.ascontiguousarray(windows[starts]).view(f"S{width}")[:, 0]
