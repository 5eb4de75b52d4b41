"""Tells whether a record is of Claude Code; light, as it is asked about every record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

__all__ = ["score"]

_LINES_LOOKED_AT = 200
_HEAD_SIZE = 64 * 1024


def score(trace: object) -> float:
    """Return how surely a trace is a transcript or a stream of Claude Code, from 0 to 1.

    Args:
        trace: A record, or the head of a file: bytes, a text, a path, or parsed records.

    Example:
        >>> score('{"type": "system", "subtype": "init", "session_id": "a", "claude_code_version": "2.1.329"}')
        0.95
        >>> score({"question": "2+2?"}), score("hello")
        (0.0, 0.0)
    """
    return max(map(_score_of_record, islice(_records(trace), _LINES_LOOKED_AT)), default=0.0)


def _records(trace: object) -> Iterator[Mapping[object, object]]:
    if isinstance(trace, os.PathLike):
        trace = _head(Path(trace))
    if isinstance(trace, str):
        trace = trace.encode("utf-8", "surrogatepass") if trace.lstrip()[:1] == "{" else _head_of_named(trace)
    if isinstance(trace, bytes):
        trace = _parsed(trace)
    if isinstance(trace, Mapping) or not isinstance(trace, Iterable):
        return
    for record in islice(trace, _LINES_LOOKED_AT):
        if isinstance(record, Mapping):
            yield record


def _parsed(data: bytes) -> list[object]:
    records = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]:
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):  # a line that was cut, or somebody else's file
            continue
    return records


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_SIZE)
    except (OSError, ValueError):  # no file: then it is not ours, and whoever reads it says what is wrong
        return b""


def _head_of_named(text: str) -> bytes:
    return _head(Path(text)) if text.endswith(".jsonl") and "\n" not in text else b""


def _score_of_record(record: Mapping[object, object]) -> float:
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
