"""A record that stays on the disk until a model needs it, so that memory does not grow with the input."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from ace.cli.inputs.tables import TableFormat, row_record
from ace.protocols.trace_converters import (
    TraceConverter,
    register_trace_converter,
    trace_converters,
    unregister_trace_converter,
)

__all__ = [
    "ChangedRecordError",
    "Part",
    "PartsHash",
    "RecordForm",
    "StoredRecord",
    "parsed_record",
    "readable_records",
]

logger = logging.getLogger(__name__)

RecordForm = Literal["json", "message_lines", "text", "row", "file", "parts"]
"""How the bytes are read: a JSON value, one chat message a line, text, a row of a table, by a plugin that takes the
file, or by a plugin that tells which parts of the file belong to one trace."""


class ChangedRecordError(ValueError):
    """The file has changed since its records were counted."""


class Part(NamedTuple):
    """Where one part of a trace is: the bytes of a JSON value, and the number of the part in that value."""

    start: int
    length: int
    number: int


class StoredRecord(Mapping[str, str]):
    """The place of a record in a file. Other code identifies the record by its hash.

    Args:
        path: The file.
        start: The offset of its first byte.
        length: Its size in bytes.
        form: How the bytes are parsed.
        sha256: The hash of the bytes.
        table: The table that a row belongs to.
        parts: For the form "parts", the places of all parts; start and length are those of the first one.
        converter: For the form "parts", the name of the trace converter that splits a value.
    """

    __slots__ = ("_converter", "_form", "_length", "_parts", "_path", "_sha256", "_start", "_table")

    def __init__(
        self,
        path: str,
        start: int,
        length: int,
        form: RecordForm,
        sha256: str,
        table: TableFormat | None = None,
        *,
        parts: tuple[Part, ...] = (),
        converter: str = "",
    ) -> None:
        self._path = path
        self._start = start
        self._length = length
        self._form = form
        self._sha256 = sha256
        self._table = table
        self._parts = parts
        self._converter = converter

    def __getitem__(self, name: str) -> str:
        if name != "sha256":
            raise KeyError(name)
        return self._sha256

    def __iter__(self) -> Iterator[str]:
        yield "sha256"

    def __len__(self) -> int:
        return 1

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def form(self) -> RecordForm:
        """How the bytes are read."""
        return self._form

    @property
    def converter(self) -> str:
        """The name of the converter that found the record in its file; empty if none did."""
        return self._converter

    def load(self) -> object:
        """Return the record itself.

        Raises:
            ChangedRecordError: The record in the file has changed.
            OSError: The file cannot be read any more.
        """
        if self._form == "file":
            return Path(self._path)
        if self._form == "parts":
            return self._joined_parts()
        with Path(self._path).open("rb") as file:
            file.seek(self._start)
            data = file.read(self._length)
        if hashlib.sha256(data).hexdigest() != self._sha256:
            raise self._changed()
        return parsed_record(data, self._form, self._path, self._table)

    def _joined_parts(self) -> object:
        modified = Path(self._path).stat().st_mtime_ns
        try:
            found = [
                _parts_at(self._path, part.start, part.length, modified, self._converter)[part.number][1]
                for part in self._parts
            ]
        except (ValueError, IndexError) as error:
            raise self._changed() from error
        if PartsHash(found).hexdigest() != self._sha256:
            raise self._changed()
        return found[0] if len(found) == 1 else found

    def _changed(self) -> ChangedRecordError:
        return ChangedRecordError(f"{self._path} was changed during the run; start again")


class PartsHash:
    """The hash that names a record of several parts, wherever in a file they are."""

    def __init__(self, parts: Iterable[object] = ()) -> None:
        self._digest = hashlib.sha256()
        for part in parts:
            self.update(part)

    def update(self, part: object) -> None:
        """Add the next part, a JSON value."""
        self._digest.update(json.dumps(part).encode())

    def hexdigest(self) -> str:
        """Return the hash of the parts so far."""
        return self._digest.hexdigest()


@functools.lru_cache(maxsize=4)  # a document may hold many traces, and is parsed for each of them
def _parts_at(path: str, start: int, length: int, modified: int, converter: str) -> Sequence[tuple[str | None, object]]:
    """Return the parts of the JSON value at a place of a file that was modified at this time."""
    [found] = [known for known in trace_converters() if known.name == converter]
    assert found.parts is not None
    with Path(path).open("rb") as file:
        file.seek(start)
        data = file.read(length)
    return found.parts(parsed_record(data, "json", path))


def parsed_record(data: bytes, form: RecordForm, path: str, table: TableFormat | None = None) -> object:
    """Return the record that some bytes hold.

    Args:
        data: The bytes of the record.
        form: How they are read.
        path: Their file.
        table: The table that a row belongs to.

    Raises:
        ValueError: They do not hold such a record.
    """
    if form == "file":
        return Path(path)
    if form == "json":
        return json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    if form == "message_lines":
        return list(_messages(data))
    if table is not None:
        return row_record(data, table)
    from ace.logs.plain import decoded

    return decoded(data)


def _messages(data: bytes) -> Iterator[object]:
    """Yield the messages; a line that is none has been reported."""
    for line in data.split(b"\n"):
        try:
            yield json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            continue


@contextmanager
def readable_records() -> Iterator[None]:
    """Let the trace reader look through stored records, while a run needs it."""
    warned: set[str] = set()

    def converted(trace: object) -> Mapping[str, object]:
        from ace.logs.trace import read_trace

        assert isinstance(trace, StoredRecord)
        record = read_trace(trace.load())
        passed_over = _passed_over(record["rest"].get("metadata")) if trace.form == "file" else ""
        if passed_over and trace.path not in warned:  # a trace is read again in the next epoch
            warned.add(trace.path)
            logger.warning("%s: skipped %s", trace.path, passed_over)
        return {**record}

    converter = TraceConverter(
        name="stored_record", recognises=lambda trace: float(isinstance(trace, StoredRecord)), convert=converted
    )
    register_trace_converter(converter)
    try:
        yield
    finally:
        unregister_trace_converter(converter.name)


def _passed_over(metadata: object) -> str:
    """Return what the reader of a plugin reports to have skipped in a file; empty if it skipped nothing."""
    if not isinstance(metadata, Mapping):
        return ""
    lines, types = metadata.get("skipped_lines"), metadata.get("unknown_types")
    parts = [f"{lines} lines without a record"] if isinstance(lines, int) and lines else []
    if isinstance(types, Mapping) and types:
        count = sum(number for number in types.values() if isinstance(number, int))
        parts.append(f"{count} records of unknown types ({', '.join(map(str, types))})")
    return " and ".join(parts)
