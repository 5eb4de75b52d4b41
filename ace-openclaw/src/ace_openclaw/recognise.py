"""Recognises records of OpenClaw. This is called for every record, so it imports little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from ace.integrations import head_records, trace_head
from ace_openclaw.reading.json_lines import without_stray_start

__all__ = ["recognise"]

_LINES_LOOKED_AT = 50
_ROLES = ("user", "assistant", "toolResult")


def recognise(trace: object) -> float:
    """Return the probability that a trace is a session of OpenClaw, from 0 to 1.

    Args:
        trace: A record, or the beginning of a file: bytes, a text, a path, or parsed records.

    Example:
        >>> recognise('{"type": "session", "version": 4, "id": "a", "timestamp": "2026-11-21T07:12:45Z", "cwd": "/"}')
        0.95
        >>> recognise({"question": "2+2?"}), recognise("hello")
        (0.0, 0.0)
    """
    head = trace_head(trace, (".jsonl", ".sqlite"))
    if head is None:
        return max(map(_score_of_record, _records(trace)), default=0.0)
    if head.startswith(b"SQLite format 3\x00"):
        return 0.9 if b"transcript_events" in head else 0.0
    if b'"entries"' in head and b'"header"' in head and b'"leafId"' in head:
        return 0.9
    first, line_end, rest = head.partition(b"\n")
    records = head_records(without_stray_start(first) + line_end + rest, _LINES_LOOKED_AT)
    return max(map(_score_of_record, records), default=0.0)


def _records(trace: object) -> Iterator[Mapping[str, object]]:
    items = [trace] if isinstance(trace, Mapping) else trace
    for record in islice(items, _LINES_LOOKED_AT) if isinstance(items, Iterable) else ():
        if isinstance(record, Mapping):
            yield record


def _score_of_record(record: Mapping[str, object]) -> float:
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
