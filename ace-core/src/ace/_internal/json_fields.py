"""The type of JSON values, and reading objects and heads of files without a guaranteed structure, of other programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = [
    "HEAD_SIZE",
    "JsonValue",
    "Record",
    "head_records",
    "list_in",
    "mapping_in",
    "number_in",
    "text_in",
    "trace_head",
]

JsonValue = str | int | float | None | list["JsonValue"] | dict[str, "JsonValue"]
"""A JSON value. (A bool is an int.)"""

Record = Mapping[str, object]
"""One JSON object, such as a line of a stored session."""


def text_in(record: Record, *names: str) -> str:
    """Return the first field that holds a text, or an empty text.

    Args:
        record: The object.
        *names: The fields to look into, in order.

    Example:
        >>> text_in({"sessionId": "a"}, "session_id", "sessionId")
        'a'
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def mapping_in(record: Record, *names: str) -> Record:
    """Return the first field that holds an object, or an empty one.

    Args:
        record: The object.
        *names: The fields to look into, in order.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, (dict, Mapping)):  # a plain check answers sooner than that of the abstract class
            return value
    return {}


def list_in(record: Record, *names: str) -> list[object]:
    """Return the first field that holds a list, or an empty one.

    Args:
        record: The object.
        *names: The fields to look into, in order.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, list):
            return value
    return []


def number_in(record: Record, *names: str) -> float | None:
    """Return the first field that holds a number, or None.

    Args:
        record: The object.
        *names: The fields to look into, in order.
    """
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None


HEAD_SIZE: Final = 64 * 1024
"""The number of bytes of a file that are read."""


def trace_head(trace: object, suffixes: tuple[str, ...] = (".jsonl",)) -> bytes | None:
    """Return the beginning of a trace that is bytes, a text, or a file; None for any other object.

    The result is empty for a file that cannot be read; the reader of the trace reports the error.

    Args:
        trace: The argument of `TraceConverterSpec.recognises`.
        suffixes: A text without line breaks that ends in one of them is the path of a file.

    Example:
        >>> trace_head('{"type": "user"}'), trace_head("no-such-file.jsonl"), trace_head({"type": "user"})
        (b'{"type": "user"}', b'', None)
    """
    if isinstance(trace, str) and trace.endswith(suffixes) and "\n" not in trace and trace.lstrip()[:1] != "{":
        trace = Path(trace)
    if isinstance(trace, os.PathLike):
        try:
            with Path(trace).open("rb") as file:
                return file.read(HEAD_SIZE)
        except (OSError, ValueError):
            return b""
    if isinstance(trace, str):
        return trace[:HEAD_SIZE].encode("utf-8", "surrogatepass")
    return trace if isinstance(trace, bytes) else None


def head_records(head: bytes, most: int = 50) -> Iterator[Record]:
    """Yield the JSON objects among the first lines of a file; other lines are skipped.

    Args:
        head: The beginning of the file, which may end within a line.
        most: The maximum number of lines.

    Example:
        >>> list(head_records(b'{"type": "user"}\\nno JSON\\n{"type": "assis'))
        [{'type': 'user'}]
    """
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n", most)[:most]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # it was cut, or it is from a file of another kind
            continue
        if isinstance(record, dict):
            yield record
