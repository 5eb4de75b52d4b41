"""Splits one file into its records."""

from __future__ import annotations

import codecs
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from ace.cli.console import size_text
from ace.cli.inputs.problems import LARGEST_INPUT, LARGEST_RECORD, InputProblem, not_a_file, reason_of, too_large
from ace.cli.inputs.stored_record import Part, PartsHash, RecordForm, StoredRecord, parsed_record
from ace.cli.inputs.tables import BadRow, TableFormat, TableRows, table_format
from ace.protocols.trace_converters import AmbiguousTraceError, TraceConverter, find_trace_converter
from ace.runners import RecordedTrace

__all__ = ["HEAD_SIZE", "Found", "foreign_kind", "list_elements", "split_file"]

_Content = Literal["empty", "lines", "list", "object", "text"]

HEAD_SIZE: Final = 64 * 1024
_LINE_SUFFIXES = (".jsonl", ".ndjson")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_LINES_LOOKED_AT = 10
_LEAST_OBJECTS = 2
_COMMENTS = (b"#", b"//")
_PAGE_BEGINS = (b"<!doctype html", b"<html")
_SIGNATURES: Final = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"SQLite format 3\x00", "an SQLite database"),
)

_LONGEST_SHOWN = 40

Found = RecordedTrace | InputProblem
PartsOf = Callable[[object], Sequence[tuple[str | None, object]]]

_CHUNK: Final = 1024 * 1024
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
# Only the end of a value is needed. Numbers of any length can be read as floats; `int` refuses long ones.
_DECODER: Final = json.JSONDecoder(parse_int=float)


def foreign_kind(head: bytes) -> str | None:
    """Return the type of a file that cannot be a trace, such as an image or an HTML page; None for other text.

    Args:
        head: The beginning of the file.

    Example:
        >>> foreign_kind(b"GIF89a..."), foreign_kind(b"<html>502</html>"), foreign_kind("naïve".encode())
        ('a GIF image', 'an HTML page', None)
    """
    named = next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)
    if named is not None:
        return named
    if head.startswith(_UTF_16):
        return None
    if head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:20].lower().startswith(_PAGE_BEGINS):
        return "an HTML page"
    text = head.decode("utf-8", "replace")
    strange = sum(character == "\ufffd" or (character < " " and character not in "\t\n\r\f\x1b") for character in text)
    return "binary data" if "\x00" in text or strange * 10 > len(text) else None


def _recognised(head: bytes, suffix: str, *, is_whole: bool) -> _Content:
    """Return the form of a text file.

    Args:
        head: The beginning of the file.
        suffix: The ending of its name, in lower case.
        is_whole: Whether the head is the whole file.

    Example:
        >>> _recognised(b'{"task": 1}\\n{"task": 2}\\n', ".log", is_whole=True)
        'lines'
        >>> _recognised(b'[{"role": "user"}]', "", is_whole=True), _recognised(b"[INFO] go", ".log", is_whole=True)
        ('list', 'text')
    """
    body = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not body:
        return "empty" if is_whole else "text"
    if suffix in _LINE_SUFFIXES or _holds_lines(body, is_whole=is_whole):
        return "lines"
    if body[:1] not in b"{[":
        # Alone in a file, `null` is JSON whatever the file is called; nothing can be learned from it.
        return "object" if suffix == ".json" or (is_whole and _is_json(body)) else "text"
    if suffix != ".json" and not _begins_json(body):
        return "text"
    return "list" if body[:1] == b"[" else "object"


def _holds_lines(body: bytes, *, is_whole: bool) -> bool:
    """Whether most of the first lines are JSON objects or lists; one line alone is a document."""
    lines = body.split(b"\n")
    if not is_whole:
        lines = lines[:-1]  # the head may end inside of it
    lines = [line for line in lines if line.strip()]
    looked_at = lines[:_LINES_LOOKED_AT]
    is_one_document = is_whole and len(looked_at) == 1
    return (not is_one_document and sum(map(_is_record, looked_at)) * 2 > len(looked_at)) or _ends_in_objects(lines)


def _ends_in_objects(lines: Sequence[bytes]) -> bool:
    """Whether lines of another kind are followed by JSON objects only, which make up most of the text.

    Comments do not count. Otherwise, an agent may have printed its results at the end of its log, which is one trace.
    """
    others = list(itertools.takewhile(lambda line: not _is_object(line), lines))
    objects = lines[len(others) :]
    if len(objects) < _LEAST_OBJECTS or not all(map(_is_object, objects)):
        return False
    text = [line for line in others if not line.lstrip().startswith(_COMMENTS)]
    return sum(map(len, objects)) > sum(map(len, text))


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body, parse_int=float)  # `int` refuses long numbers
    except (ValueError, RecursionError):
        return False
    return True


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _is_object(line: bytes) -> bool:
    return line.lstrip()[:1] == b"{" and _is_record(line)


def _begins_json(body: bytes) -> bool:
    """Whether the text after the first bracket can be a record; `[2026-01-01] go` and `[INFO] go` are text."""
    after = body[1:].lstrip()[:1]
    return after in (b'"}' if body[:1] == b"{" else b'{["]')


def split_file(path: str, name: str, max_bytes: int = LARGEST_INPUT) -> Iterator[Found]:
    """Yield the records of a file, and the problems of the parts that are not records.

    Args:
        path: The file.
        name: Its name in places, which differs from the path if the file is a copy.
        max_bytes: The maximum size of a file, in bytes.
    """
    try:
        with open(path, "rb", opener=_opened_at_once) as file:
            other = not_a_file(os.fstat(file.fileno()).st_mode)
            if other:
                yield InputProblem(name, other)
            else:
                yield from _File(file, path, name, max_bytes).split()
    except OSError as error:
        yield InputProblem(name, reason_of(error))


def _opened_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, in case a pipe has replaced it since it was found."""
    return os.open(path, flags | os.O_NONBLOCK)


class _File:
    """One open file."""

    def __init__(self, file: BinaryIO, path: str, name: str, max_bytes: int) -> None:
        self._file = file
        self._path = path
        self._name = name
        self._max_bytes = max_bytes
        self._size = file.seek(0, 2)
        file.seek(0)

    def split(self) -> Iterator[Found]:
        if self._size == 0:
            yield InputProblem(self._name, "the file is empty")
            return
        if self._size > self._max_bytes:
            yield InputProblem(self._name, too_large(self._size, self._max_bytes))
            return
        head = self._head()
        try:
            converter = find_trace_converter(head)
        except AmbiguousTraceError as error:
            yield InputProblem(self._name, str(error))
            return
        if converter is not None and converter.parts is not None:
            yield from self._traces_of_parts(converter, converter.parts, head)
            return
        if converter is not None:
            digest = _hash_of(self._file)
            yield RecordedTrace(StoredRecord(self._path, 0, self._size, "file", digest), self._name)
            return
        foreign = foreign_kind(head)
        if foreign is not None:
            yield InputProblem(self._name, f"{foreign}, not a trace")
            return
        suffix = Path(self._name).suffix.lower()
        is_whole = len(head) == self._size
        content = _recognised(head, suffix, is_whole=is_whole)
        table = table_format(head, suffix, is_whole=is_whole) if content == "text" else None
        yield from self._split_as(content) if table is None else self._rows(table)

    def _head(self) -> bytes:
        """Return the beginning of the file, with its first line as a whole unless that is too long."""
        head = self._file.read(HEAD_SIZE)
        return head if b"\n" in head else head + self._file.readline(LARGEST_RECORD)

    def _traces_of_parts(self, converter: TraceConverter, parts: PartsOf, head: bytes) -> Iterator[Found]:
        """Yield a record for each trace of a claimed file, whose parts may be in several lines."""
        traces: dict[object, _PartedTrace] = {}
        has_problems = False
        for start, data, number in self._values(head):
            place = f"{self._name}#{number}" if number else self._name
            value = self._value(data, "json", place) if isinstance(data, bytes) else data
            if isinstance(value, InputProblem) or isinstance(data, InputProblem):
                assert isinstance(value, InputProblem)
                has_problems = True
                yield value
                continue
            for index, (key, part) in enumerate(parts(value)):
                if isinstance(part, ValueError):
                    has_problems = True
                    yield InputProblem(place, str(part))
                    continue
                where = f"{number}.{index + 1}" if number and index else str(number or index + 1)
                own = "" if converter.place is None else converter.place(part)
                trace = traces.setdefault((start, index) if key is None else key, _PartedTrace(where, own))
                trace.parts.append(Part(start, len(data), index))
                trace.digest.update(part)
        if not traces and not has_problems:
            yield InputProblem(self._name, f"the trace converter {converter.name!r} found nothing to learn from in it")
        for trace in traces.values():
            place = trace.own_place or (self._name if len(traces) == 1 else f"{self._name}#{trace.place}")
            first = trace.parts[0]
            digest = trace.digest.hexdigest()
            yield RecordedTrace(
                StoredRecord(
                    *(self._path, first.start, first.length, "parts", digest),
                    parts=tuple(trace.parts),
                    converter=converter.name,
                ),
                place,
            )

    def _values(self, head: bytes) -> Iterator[tuple[int, bytes | InputProblem, int]]:
        """Yield where each JSON value begins, its bytes, and its number; the number of a whole document is 0."""
        content = _recognised(head, Path(self._name).suffix.lower(), is_whole=len(head) == self._size)
        self._file.seek(0)
        if content == "lines":
            for number, (start, line) in enumerate(_lines_of(self._file, self._size), 1):
                if line is None:
                    place = f"{self._name}#{number}"
                    yield start, InputProblem(place, f"the line is longer than {size_text(LARGEST_RECORD)}"), number
                elif line.strip():
                    yield start, line, number
        elif self._size <= LARGEST_RECORD:
            yield 0, self._file.read(self._size), 0
        elif content == "list":
            number = 0
            try:
                for number, element in enumerate(list_elements(self._file, head.index(b"[")), 1):
                    yield element.start, element.data, number
            except _BrokenListError as error:
                yield 0, InputProblem(f"{self._name}#{number + 1}", str(error)), number + 1
        else:
            yield 0, self._too_large(), 0

    def _split_as(self, content: _Content) -> Iterator[Found]:
        if content == "empty":
            yield InputProblem(self._name, "the file contains only whitespace")
        elif content == "lines":
            yield from self._lines()
        elif content == "list":
            yield from self._list()
        else:
            yield self._whole("json" if content == "object" else "text")

    def _rows(self, table: TableFormat) -> Iterator[Found]:
        has_rows = False
        for row in TableRows(self._file, table, self._size):
            has_rows = True
            place = f"{self._name}#{row.line}"
            if isinstance(row, BadRow):
                yield InputProblem(place, row.reason)
                continue
            here = self._file.tell()
            yield self._record(row.start, row.data, "row", place, table)
            self._file.seek(here)
        if not has_rows:
            yield InputProblem(self._name, "a table without rows")

    def _whole(self, form: RecordForm) -> Found:
        if self._size > LARGEST_RECORD:
            return self._too_large()
        self._file.seek(0)
        return self._record(0, self._file.read(), form, self._name)

    def _too_large(self) -> InputProblem:
        return InputProblem(
            self._name, f"one record of {size_text(self._size)}; the limit is {size_text(LARGEST_RECORD)}"
        )

    def _lines(self) -> Iterator[Found]:
        if self._is_conversation():
            yield from (found for found in self._line_records() if isinstance(found, InputProblem))
            yield self._whole("message_lines")
        else:
            yield from self._line_records()

    def _line_records(self) -> Iterator[Found]:
        self._file.seek(0)
        for number, (start, line) in enumerate(_lines_of(self._file, self._size), 1):
            place = f"{self._name}#{number}"
            if line is None:
                yield InputProblem(place, f"the line is longer than {size_text(LARGEST_RECORD)}")
            elif line.strip():
                yield self._record(start, line, "json", place)

    def _is_conversation(self) -> bool:
        """Whether each line that can be read is one message of one conversation."""
        from ace.logs.messages import is_message

        self._file.seek(0)
        messages = 0
        for _, line in _lines_of(self._file, self._size):
            try:
                value = json.loads(line) if line else None
            except (ValueError, RecursionError):
                continue
            if value is not None and not (isinstance(value, dict) and is_message(value)):
                return False
            messages += value is not None
        return messages > 0

    def _list(self) -> Iterator[Found]:
        """Yield the elements as records, or the list as one record if it is a conversation."""
        self._file.seek(0)
        elements = enumerate(list_elements(self._file, self._head().index(b"[")), 1)
        number = 0
        is_broken = False
        try:
            for number, element in elements:
                if number == 1 and self._is_message(element.data):
                    yield self._whole("json")
                    return
                yield self._element(number, element)
        except _BrokenListError as error:
            is_broken = True
            yield InputProblem(f"{self._name}#{number + 1}", str(error))
        if number == 0 and not is_broken:
            yield InputProblem(self._name, "the list is empty")

    @staticmethod
    def _is_message(data: bytes) -> bool:
        from ace.logs.messages import is_message

        try:
            return is_message(json.loads(data))
        except (ValueError, RecursionError):  # `_record` says what is wrong with it
            return False

    def _element(self, number: int, element: _Element) -> Found:
        place = f"{self._name}#{number}"
        if len(element.data) > LARGEST_RECORD:
            return InputProblem(place, f"the record is larger than {size_text(LARGEST_RECORD)}")
        return self._record(element.start, element.data, "json", place)

    def _record(self, start: int, data: bytes, form: RecordForm, place: str, table: TableFormat | None = None) -> Found:
        value = self._value(data, form, place, table)
        if isinstance(value, InputProblem):
            return value
        digest = hashlib.sha256(data).hexdigest()
        return RecordedTrace(StoredRecord(self._path, start, len(data), form, digest, table), place)

    def _value(
        self, data: bytes, form: RecordForm, place: str, table: TableFormat | None = None
    ) -> dict[str, object] | list[object] | str | InputProblem:
        """Return the value of a record, or the reason why it is not a trace."""
        try:
            value = parsed_record(data, form, self._path, table)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
            return InputProblem(place, f"truncated, or not JSON: {error.msg} ({where})")
        except UnicodeDecodeError as error:
            return InputProblem(place, f"not UTF-8 (byte {error.start})")
        except RecursionError:
            return InputProblem(place, "nested too deeply")
        except ValueError:  # what `int` says of a number with thousands of digits
            return InputProblem(place, "a number has too many digits")
        if not isinstance(value, dict | list | str):
            return InputProblem(place, f"{_short(json.dumps(value))} is not a trace")
        if not value or (table is not None and isinstance(value, dict) and not any(value.values())):
            return InputProblem(place, "the record is empty")
        return value


class _PartedTrace:
    """A trace whose parts are being collected."""

    def __init__(self, place: str, own_place: str) -> None:
        self.place = place
        self.own_place = own_place
        self.parts: list[Part] = []
        self.digest = PartsHash()


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _hash_of(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(1024 * 1024):
        digest.update(chunk)
    return digest.hexdigest()


def _lines_of(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield where each line begins, and the line; None in place of one that is too long.

    Only a line feed ends a line of JSONL. What is appended to the file meanwhile is not read: a log that grows faster
    than it is read would have no end.
    """
    start = 0
    if file.read(3) != b"\xef\xbb\xbf":
        file.seek(0)
    else:
        start = 3
    while start < size and (line := file.readline(LARGEST_RECORD + 1)):
        length = len(line)
        whole: bytes | None = line.rstrip(b"\r\n")
        if length > LARGEST_RECORD and not line.endswith(b"\n"):
            whole = None
            while rest := file.readline(LARGEST_RECORD):
                length += len(rest)
                if rest.endswith(b"\n"):
                    break
        yield start, whole
        start += length


class _Element(NamedTuple):
    """An element of the list: the position of its first byte, and its bytes."""

    start: int
    data: bytes


class _BrokenListError(ValueError):
    """The rest of the list cannot be read."""


def list_elements(file: BinaryIO, start: int) -> Iterator[_Element]:
    """Yield the elements of a JSON list.

    Args:
        start: Where its `[` is.

    Raises:
        BrokenListError: The rest is not JSON, is truncated, or is one element that is too large.
    """
    reader = _Window(file, start + 1)
    first = True
    while True:
        mark = reader.next_character()
        if mark == "]":
            return
        if not first:
            if mark != ",":
                raise _BrokenListError(
                    f"a comma is missing at byte {reader.position}" if mark else "the list is truncated"
                )
            reader.skip(1)
            mark = reader.next_character()
        if not mark:
            raise _BrokenListError("the list is truncated")
        yield reader.element()
        first = False


class _Window:
    """The part of the file that is in memory, as text; each byte is examined as few times as possible."""

    def __init__(self, file: BinaryIO, position: int) -> None:
        self._file = file
        file.seek(position)
        # Bytes that are not UTF-8 are preserved, so that positions stay those of the file.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self.position = position
        """The position of the next byte in the file."""

    def skip(self, count: int) -> None:
        """Skip characters of one byte each."""
        self._at += count
        self.position += count

    def next_character(self) -> str:
        """Skip whitespace and return the next character; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self.skip(0 if blanks is None else blanks.end() - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on(_CHUNK):
                return ""

    def element(self) -> _Element:
        """Read the JSON value that begins here."""
        while True:
            end = self._end_of_value()
            # A number may continue in the next chunk, also after its decimal point or exponent.
            if end is not None and self._text[end : end + 1] not in ("", *".eE"):
                found = _Element(self.position, self._text[self._at : end].encode("utf-8", "surrogateescape"))
                self._at = end
                self.position += len(found.data)
                return found
            length = len(self._text) - self._at
            if length > LARGEST_RECORD:
                raise _BrokenListError(f"an element is broken, or larger than {size_text(LARGEST_RECORD)}")
            if not self._read_on(max(_CHUNK, length)):
                raise _BrokenListError("the list is truncated, or an element is not JSON")

    def _end_of_value(self) -> int | None:
        """Return where the JSON value that begins here ends; None if it is incomplete."""
        try:
            return _DECODER.raw_decode(self._text, self._at)[1]
        except ValueError:
            return None
        except RecursionError as error:
            raise _BrokenListError("nested too deeply") from error

    def _read_on(self, size: int) -> bool:
        """Read more of the file, and drop what has been processed; return whether there was any more."""
        data = self._file.read(size)
        more = self._decoder.decode(data, final=not data)
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(data or more)
