"""Reads the rows of tables: CSV with any delimiter, with or without the line `sep=;` that Excel writes."""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections import deque
from collections.abc import Iterator, Sequence
from io import BufferedReader
from typing import Final, NamedTuple

from ace.logs.damage import BAD_ROW, Damage
from ace.logs.head import Record
from ace.logs.json_values import decode
from ace.logs.opening import decoded

__all__ = ["TABLE_SUFFIXES", "TableFormat", "table_format", "table_records"]

TABLE_SUFFIXES: Final = {".csv": ",;\t|", ".tsv": "\t,;|", ".tab": "\t,;|"}
"""Which files are tables by their name, and their delimiters, the likeliest first."""
_DELIMITERS: Final = ",;\t|"
_SEPARATOR_LINE: Final = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_NAME: Final = re.compile(r"[^\W\d][\w .()/-]{0,59}")
_ROWS_LOOKED_AT: Final = 20
_LARGEST_ROW: Final = 16 * 1024 * 1024


class TableFormat(NamedTuple):
    """How the rows of a table are written."""

    delimiter: str
    """What separates the cells."""
    skips_blanks: bool
    """Whether blanks after a delimiter belong to it."""
    names: tuple[str, ...]
    """The cells of the header, no two of which are equal."""
    has_separator_line: bool
    """Whether the first line names the delimiter."""


def table_format(start: str, suffix: str, *, is_whole: bool) -> TableFormat | None:
    """Return how the rows of a table are written; None for other text.

    The delimiter is the one with which most rows have as many cells as the header. Unless its name says so, a file is a
    table only if all rows have, and the cells of the header are names.

    Args:
        start: The beginning of the file.
        suffix: The ending of its name, in lower case.
        is_whole: Whether this is all of it.

    Example:
        >>> table_format("Task;Answer\\n2+2?;4\\n", "", is_whole=True).names
        ('Task', 'Answer')
        >>> table_format("one, two\\nthree, four\\n", ".txt", is_whole=True) is None
        True
    """
    line = _SEPARATOR_LINE.match(start)
    if line:
        return _tried(start[line.end() :], line[1], is_whole=is_whole).format._replace(has_separator_line=True)
    candidates = [_tried(start, delimiter, is_whole=is_whole) for delimiter in TABLE_SUFFIXES.get(suffix, _DELIMITERS)]
    found = max(candidates, key=lambda candidate: (candidate.agreeing, len(candidate.format.names)))
    if suffix in TABLE_SUFFIXES:
        return found.format if found.format.names else None
    is_sure = found.agreeing and found.agreeing == found.rows and not found.format.skips_blanks
    return found.format if is_sure and all(map(_NAME.fullmatch, found.format.names)) else None


class _Tried(NamedTuple):
    format: TableFormat
    rows: int
    """How many rows were looked at."""
    agreeing: int
    """How many of them have as many cells as the header, if that has more than one."""


def _tried(start: str, delimiter: str, *, is_whole: bool) -> _Tried:
    lines = _LINE.findall(start)
    if not is_whole:
        lines = lines[:-1] or lines  # the last one may be cut
    first = lines[0] if lines else ""
    skips_blanks = delimiter in first and first.count(delimiter) == first.count(f"{delimiter} ")
    table = TableFormat(delimiter, skips_blanks, (), has_separator_line=False)
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):  # a damaged row; it is reported when it is read
        rows += itertools.islice(filter(None, _reader(iter(lines), table)), _ROWS_LOOKED_AT + 1)
    header = rows[0] if rows else []
    agreeing = sum(len(row) == len(header) for row in rows[1:]) if len(header) > 1 else 0
    return _Tried(table._replace(names=_names(header)), len(rows) - 1, agreeing)


def _names(header: Sequence[str]) -> tuple[str, ...]:
    names: dict[str, None] = {}  # in order; the header may have 100,000 cells
    for place, cell in enumerate(header, 1):
        name = cell.strip() or f"column {place}"
        while name in names:
            name = f"{name} (column {place})"
        names[name] = None
    return tuple(names)


def _reader(lines: Iterator[str], table: TableFormat) -> Iterator[list[str]]:
    # The limit is one for the whole process. By default a longer cell ends the reading of its table.
    csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_ROW))
    return csv.reader(lines, delimiter=table.delimiter, skipinitialspace=table.skips_blanks, strict=True)


def table_records(file: BufferedReader, table: TableFormat, damage: Damage) -> Iterator[Record]:
    """Yield the rows after the header as dicts. Cells are texts, unless they hold a JSON object or list.

    Args:
        file: The open file.
        table: How its rows are written.
        damage: Where rows that cannot be read are noted.
    """
    yield from _Rows(file, table, damage).records()


class _Rows:
    def __init__(self, file: BufferedReader, table: TableFormat, damage: Damage) -> None:
        self._file = file
        self._table = table
        self._damage = damage
        self._line = 0
        self._row: list[bytes] = []
        """The lines of the row that is being read."""
        self._waiting: deque[bytes] = deque()

    def records(self) -> Iterator[Record]:
        skipped = 2 if self._table.has_separator_line else 1
        while True:
            self._row = []
            try:
                cells = next(_reader(self._lines(), self._table), None)
            except csv.Error:
                # A quotation mark that is never closed would otherwise take in all rows after it.
                self._waiting.extendleft(reversed(self._row[1:]))
                self._row = self._row[:1]
                cells = ["damaged"] * (len(self._table.names) + 1)
            if cells is None:
                return
            first = self._line + 1
            self._line += len(self._row)
            if skipped:
                skipped -= bool(cells)
                continue
            if not cells:
                continue
            while len(cells) > len(self._table.names) and not cells[-1]:
                cells.pop()  # Excel fills up all rows to the longest one
            if len(cells) != len(self._table.names):
                self._damage.note(BAD_ROW, first)
                continue
            yield Record(dict(zip(self._table.names, map(_value, cells), strict=True)), first)

    def _lines(self) -> Iterator[str]:
        size = 0
        while line := self._waiting.popleft() if self._waiting else self._file.readline(_LARGEST_ROW):
            self._row.append(line)
            size += len(line)
            if size >= _LARGEST_ROW:
                raise csv.Error("the row is too large")
            yield decoded(line, self._damage, self._line + len(self._row))


def _value(cell: str) -> object:
    if cell[:1] not in ("{", "["):
        return cell
    try:
        value, end = decode(cell, 0)
    except ValueError:
        return cell
    return cell if cell[end:].strip() else value
