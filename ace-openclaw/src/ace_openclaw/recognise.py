"""Tells whether a record is of OpenClaw; light, as it is asked about every record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

__all__ = ["score"]

_LINES_LOOKED_AT = 50
_HEAD_SIZE = 64 * 1024
_ROLES = ("user", "assistant", "toolResult")


def score(trace: object) -> float:
    """Return how surely a trace is of OpenClaw, from 0 to 1.

    Args:
        trace: A record, or the head of a file: bytes, a text, a path, or parsed records.

    Example:
        >>> score('{"type": "session", "version": 4, "id": "a", "timestamp": "2026-11-21T07:12:45Z", "cwd": "/"}')
        0.95
        >>> score({"question": "2+2?"}), score("hello")
        (0.0, 0.0)
    """
    if isinstance(trace, os.PathLike):
        trace = _head(Path(trace))
    if isinstance(trace, str):
        trace = trace.encode("utf-8", "surrogatepass") if trace.lstrip()[:1] == "{" else _head_of_named(trace)
    if isinstance(trace, bytes):
        if trace.startswith(b"SQLite format 3\x00"):
            return 0.9 if b"transcript_events" in trace else 0.0
        if b'"entries"' in trace and b'"header"' in trace and b'"leafId"' in trace:
            return 0.9
        trace = list(_parsed(trace))
    if isinstance(trace, Mapping):
        trace = [trace]
    if not isinstance(trace, Iterable):
        return 0.0
    records = [record for record in islice(trace, _LINES_LOOKED_AT) if isinstance(record, Mapping)]
    return max(map(_score_of_record, records), default=0.0)


def _parsed(data: bytes) -> Iterator[object]:
    for number, line in enumerate(data.split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]):
        start = line.find(b"{")
        try:
            yield json.loads(line[start:] if number == 0 and start > 0 else line)
        except (ValueError, RecursionError):  # a line that was cut, or somebody else's file
            continue


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_SIZE)
    except (OSError, ValueError):  # no file: then it is not ours, and whoever reads it says what is wrong
        return b""


def _head_of_named(text: str) -> bytes:
    return _head(Path(text)) if text.endswith((".jsonl", ".sqlite")) and "\n" not in text else b""


def _score_of_record(record: Mapping[object, object]) -> float:
    kind, message, header = record.get("type"), record.get("message"), record.get("header")
    if kind == "session" and "version" in record and "cwd" in record and "sessionId" not in record:
        return 0.95
    if kind == "message" and isinstance(message, Mapping) and message.get("role") in _ROLES:
        return 0.9
    if record.get("traceSchema") == "openclaw-trajectory":  # claimed, so that reading it says what to give instead
        return 0.9
    if isinstance(record.get("messages"), list) and {"sessionId", "sessionKey", "success"} <= record.keys():
        return 0.9
    if isinstance(header, Mapping) and header.get("type") == "session" and "entries" in record:
        return 0.9
    return 0.0
