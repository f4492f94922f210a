"""The lines of ``.csv`` and ``.tsv`` text: how many cells each has, before pandas reads it."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
from collections.abc import Iterable, Iterator

from multimargin.data.file_bytes import buffered, opened_bytes

_EMPTY = " \t\r\n"  # a line of these is none to pandas
_LONGEST_CELL = 2**31 - 1  # which the csv module has to be told; for all, and not back: others may be reading


class TableError(ValueError):
    """A table that cannot be used; the message names the file, the column and the row."""


class CutShort(TableError):
    """It ends in the middle of a line."""


def check_lines(path, kind: str, content: bytes | None = None) -> str:
    """What is odd about lines with fewer cells than the header, for which pandas takes empty ones; of a file, or its
    content.

    Raises
    ------
    CutShort
        If the last line is such a one and does not even end.
    """
    packed = opened_bytes(path) if content is None else contextlib.nullcontext(io.BytesIO(content))
    columns, short, first = 0, 0, 0
    with packed as file:
        text = io.TextIOWrapper(buffered(file), "utf-8-sig", newline="")
        last = [""]
        for number, cells in _counted(_remembered(text, last), "\t" if kind == "tsv" else ","):
            columns = columns or cells
            if cells < columns:
                short, first, here = short + 1, first or number, number
    if short and here == number and not last[0].endswith(("\n", "\r")):
        raise CutShort(
            f"{path}: ends in line {number}, with {cells} of the header's {columns} columns: it was cut short"
        )
    lines = f"{short} lines have" if short > 1 else "a line has"
    return (
        f"{path}: {lines} fewer cells than the header, first line {first}; the others count as empty" if short else ""
    )


def _remembered(lines: Iterable[str], last: list[str]) -> Iterator[str]:
    """The lines; ``last`` has the last one."""
    for last[0] in lines:
        yield last[0]


def _counted(lines: Iterator[str], separator: str) -> Iterator[tuple[int, int]]:
    """The number of each line that is not empty, and its cells. From the first quote on, in which there may be
    separators and ends of lines, cell by cell."""
    for number, line in enumerate(lines, 1):
        if '"' in line:
            csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
            rest, before = csv.reader(itertools.chain((line,), lines), delimiter=separator), 0
            for values in rest:
                if len(values) > 1 or "".join(values).strip(_EMPTY):
                    yield number + before, len(values)
                before = rest.line_num
            return
        cells = line.count(separator) + 1
        if cells > 1 or line.strip(_EMPTY):
            yield number, cells
