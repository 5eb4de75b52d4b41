"""Finds files whose lines are the events of one session, and which no plugin has claimed.

It looks for what the events of all agents have in common, and does not know any format: formats belong to plugins.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ace.cli.inputs.content import HEAD_SIZE
from ace.cli.inputs.stored_record import StoredRecord
from ace.runners import RecordedTrace

__all__ = ["event_files"]

_LINES_LOOKED_AT: Final = 50
_FEWEST: Final = 3
_IDS: Final = ("uuid", "id")
_PARENTS: Final = ("parentUuid", "parentId", "parent_uuid", "parent_id")
_SESSIONS: Final = ("sessionId", "session_id", "conversationId", "conversation_id", "threadId", "thread_id")
_OF_TRACES: Final = frozenset({"question", "task", "input", "query", "prompt", "messages", "feedback", "ground_truth"})


def event_files(traces: Sequence[RecordedTrace]) -> list[str]:
    """Return the names of the files whose lines were taken as traces but are probably the events of one session.

    Args:
        traces: What was found.
    """
    lines: Counter[str] = Counter()
    names: dict[str, str] = {}
    for trace in traces:
        record = trace.record
        if isinstance(record, StoredRecord) and record.form == "json":
            lines[record.path] += 1
            names.setdefault(record.path, trace.place.rpartition("#")[0])
    return [names[path] for path, count in lines.items() if count >= _FEWEST and _are_events(list(_head(path)))]


def _head(path: str) -> Iterator[Mapping[str, object]]:
    with Path(path).open("rb") as file:
        head = file.read(HEAD_SIZE)
    for line in head.split(b"\n")[:_LINES_LOOKED_AT]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # the head ends in it, or it has been reported
            continue
        if isinstance(record, dict):
            yield record


def _are_events(records: Sequence[Mapping[str, object]]) -> bool:
    """Whether most records follow one another, or belong to one session, and are not traces by themselves."""
    traces = sum(bool(_OF_TRACES & record.keys()) for record in records)
    if len(records) < _FEWEST or traces * 2 > len(records):
        return False
    ids = {_text(record, _IDS) for record in records} - {""}
    linked = sum(_text(record, _PARENTS) in ids for record in records)
    sessions = Counter(_text(record, _SESSIONS) for record in records)
    del sessions[""]
    return max(linked, *sessions.values(), 0) * 2 > len(records)


def _text(record: Mapping[str, object], names: Sequence[str]) -> str:
    return next((value for name in names if isinstance(value := record.get(name), str)), "")
