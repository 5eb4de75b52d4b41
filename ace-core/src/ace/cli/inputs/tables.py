"""Splits a table (CSV, TSV) into its rows, each of which is a record with the names of the header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple

from ace.cli.console import counted, size_text
from ace.cli.inputs.problems import LARGEST_RECORD

__all__ = ["BadRow", "Row", "TableFormat", "TableRows", "row_record", "table_format"]

_SUFFIXES: Final = {".csv": ",;\t|", ".tsv": "\t,;|", ".tab": "\t,;|"}
"""Which files are tables by their name, and their delimiters, the likeliest first."""
_ROWS_LOOKED_AT: Final = 20
_LONGEST_NAME: Final = 60
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_FURTHER_NAMES: Final = ("ground_truth", "target", "expected", "label", "id", "success", "skill_ids")


class TableFormat(NamedTuple):
    """How the rows of a table are written."""

    delimiter: str
    """What separates the fields."""
    skips_blanks: bool
    """Whether blanks after a delimiter belong to it."""
    names: tuple[str, ...]
    """The fields, in order. Usual names of a trace are in their usual spelling, and no two are equal."""


class Row(NamedTuple):
    """A row: where its bytes are, and what they are."""

    line: int
    start: int
    data: bytes


class BadRow(NamedTuple):
    """A row that cannot be read."""

    line: int
    reason: str


def table_format(head: bytes, suffix: str, *, is_whole: bool) -> TableFormat | None:
    """Return how the rows of a file are written; None if it is not a table.

    A file is a table if its name says so, or if its first line has at least two usual names of a trace and the next
    line has as many fields.

    Args:
        head: The beginning of the file.
        suffix: The ending of its name, in lower case.
        is_whole: Whether the head is the whole file.

    Example:
        >>> table_format(b"Task;Final Answer;Note\\n2+2?;4;\\n", ".csv", is_whole=True).names
        ('task', 'final_answer', 'Note')
        >>> table_format(b"one, two\\nthree, four\\n", ".txt", is_whole=True) is None
        True
    """
    text = head.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "backslashreplace")
    candidates = [_tried(text, delimiter, is_whole=is_whole) for delimiter in _SUFFIXES.get(suffix, ",;\t|")]
    found = max(candidates, key=lambda candidate: (candidate.agreeing, len(candidate.format.names)))
    if suffix in _SUFFIXES:
        return found.format if found.format.names else None
    usual = len(_usual_names() & set(found.format.names))
    return found.format if usual >= 2 and found.agreeing else None  # one alone may be a word of a text


def row_record(data: bytes, table: TableFormat) -> Mapping[str, object]:
    """Return the record that the bytes of a row hold.

    Args:
        data: The row.
        table: How it is written.

    Raises:
        ValueError: It is not a row of this table.

    Example:
        >>> row_record(b'2+2?,"[1, 2]"\\n', TableFormat(",", False, ("task", "steps")))
        {'task': '2+2?', 'steps': [1, 2]}
    """
    _allow_large_fields()
    try:
        fields = next(_reader(_lines_in(data.decode("utf-8", "backslashreplace")), table), [])
    except csv.Error as error:
        raise ValueError(str(error)) from error
    return {name: _value(name, field) for name, field in zip(table.names, fields, strict=True)}


class TableRows:
    """The rows of an open file after its header.

    Args:
        table: How its rows are written.
        size: Where the table ends; what is appended to the file meanwhile is not read.
    """

    def __init__(self, file: BinaryIO, table: TableFormat, size: int) -> None:
        self._file = file
        self._table = table
        self._size = size
        self._line = 0
        self._end = 0
        self._first_line = 1
        self._start = 0
        self._resume_at = 0

    def __iter__(self) -> Iterator[Row | BadRow]:
        """Yield the rows; blank lines are skipped.

        A row that cannot be read ends with its first line: a quotation mark that was never closed would otherwise
        take in all the rows after it.
        """
        _allow_large_fields()
        self._file.seek(0)
        reader = _reader(self._lines(), self._table)
        while True:
            self._first_line, self._start = self._line + 1, self._end
            try:
                fields = next(reader)
            except StopIteration:
                return
            except (csv.Error, _TooLargeError) as error:
                yield BadRow(self._first_line, str(error))
                self._line, self._end = self._first_line, self._resume_at
                self._file.seek(self._end)
                reader = _reader(self._lines(), self._table)
                continue
            if self._first_line == 1 or not fields:
                continue
            if len(fields) != len(self._table.names):
                counts = f"{counted(len(fields), 'field')}, the header has {len(self._table.names)}"
                yield BadRow(self._first_line, f"the row has {counts}")
                continue
            yield Row(self._first_line, self._start, self._bytes())

    def _lines(self) -> Iterator[str]:
        """Yield lines as the reader wants them, and keep count of where they are."""
        while self._end < self._size and (line := self._file.readline(LARGEST_RECORD + 1)):
            self._line += 1
            is_too_large = self._end - self._start + len(line) > LARGEST_RECORD
            self._end += len(line)
            while is_too_large and not line.endswith(b"\n") and (line := self._file.readline(LARGEST_RECORD)):
                self._end += len(line)
            if self._line == self._first_line:
                self._resume_at = self._end
            if is_too_large:
                raise _TooLargeError(f"the row is larger than {size_text(LARGEST_RECORD)}")
            if self._end == len(line):
                line = line.removeprefix(_BYTE_ORDER_MARK)
            yield line.decode("utf-8", "backslashreplace")

    def _bytes(self) -> bytes:
        """Return the bytes of the row that was just read; the reader has not read any further line."""
        self._file.seek(self._start)
        return self._file.read(self._end - self._start)


class _TooLargeError(Exception):
    pass


class _Tried(NamedTuple):
    format: TableFormat
    agreeing: int
    """How many of the first rows have as many fields as the header, if that has more than one."""


def _tried(text: str, delimiter: str, *, is_whole: bool) -> _Tried:
    lines = _lines_in(text)
    if not is_whole:
        lines = lines[:-1] or lines  # the head may end inside the last one
    first = lines[0] if lines else ""
    skips_blanks = (
        delimiter in first and f"{delimiter} " in first and first.count(delimiter) == first.count(f"{delimiter} ")
    )
    table = TableFormat(delimiter, skips_blanks, ())
    rows: list[list[str]] = []
    try:
        for row in _reader(lines, table):
            rows.append(row)
            if len(rows) > _ROWS_LOOKED_AT:
                break
    except csv.Error:  # a bad row among the first ones; it is reported when it is read
        pass
    header = rows[0] if rows else []
    agreeing = sum(len(row) == len(header) for row in rows[1:]) if len(header) > 1 else 0
    return _Tried(table._replace(names=_names(header)), agreeing)


def _names(header: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the fields: usual ones in their usual spelling, each name once."""
    usual = _usual_names()
    names: dict[str, None] = {}  # in order; the header may have 100,000 fields
    for place, cell in enumerate(header, 1):
        plain = re.sub(r"[\s_-]+", "_", cell.strip().lower())
        name = plain if plain in usual else cell.strip()[:_LONGEST_NAME] or f"column {place}"
        while name in names:
            name = f"{name} (column {place})"
        names[name] = None
    return tuple(names)


def _usual_names() -> set[str]:
    from ace.logs.trace import ALIASES

    return {*(name for names in ALIASES.values() for name in names), *_FURTHER_NAMES}


def _value(name: str, field: str) -> object:
    """Return what a field holds: steps may be written as JSON, and success as a word."""
    from ace.logs.plain import parsed_json
    from ace.logs.trace import ALIASES

    if name == "success" and field.strip().lower() in ("true", "false"):
        return field.strip().lower() == "true"
    steps = parsed_json(field) if name in ALIASES["steps"] else None
    return steps if isinstance(steps, list) else field


def _reader(lines: Iterator[str] | Sequence[str], table: TableFormat) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter=table.delimiter, skipinitialspace=table.skips_blanks, strict=True)


def _lines_in(text: str) -> list[str]:
    """Return the lines with their line feeds; nothing else ends a line, as in the file."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _allow_large_fields() -> None:
    # The limit is one for the whole process. By default a longer field ends the reading of its table.
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_RECORD))
