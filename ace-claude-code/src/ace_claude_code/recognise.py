"""Recognises records of Claude Code. This is called for every record, so it imports little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from ace.integrations import head_records, trace_head

__all__ = ["recognise"]

_LINES_LOOKED_AT = 200


def recognise(trace: object) -> float:
    """Return the probability that a trace is a transcript or a stream of Claude Code, from 0 to 1.

    Args:
        trace: A record, or the beginning of a file: bytes, a text, a path, or parsed records.

    Example:
        >>> recognise('{"type": "system", "subtype": "init", "session_id": "a", "claude_code_version": "2.1.329"}')
        0.95
        >>> recognise({"question": "2+2?"}), recognise("hello")
        (0.0, 0.0)
    """
    return max(map(_score_of_record, _records(trace)), default=0.0)


def _records(trace: object) -> Iterator[Mapping[str, object]]:
    head = trace_head(trace)
    if head is not None:
        yield from head_records(head, _LINES_LOOKED_AT)
    elif isinstance(trace, Iterable) and not isinstance(trace, Mapping):
        yield from (record for record in islice(trace, _LINES_LOOKED_AT) if isinstance(record, Mapping))


def _score_of_record(record: Mapping[str, object]) -> float:
    kind = record.get("type")
    if kind == "system" and record.get("subtype") == "init" and "claude_code_version" in record:
        return 0.95
    if kind == "result" and "session_id" in record and "is_error" in record:
        return 0.9
    if kind in ("user", "assistant") and isinstance(record.get("message"), Mapping):
        if "sessionId" in record and "parentUuid" in record:
            return 0.95
        if "session_id" in record and "parent_tool_use_id" in record:
            return 0.9
    return 0.0
