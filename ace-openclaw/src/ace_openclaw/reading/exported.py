"""Reads the files of `openclaw sessions export-trajectory`."""

from __future__ import annotations

import json
from pathlib import Path

from ace.integrations import Record, list_in, mapping_in, text_in
from ace.logs import file_source
from ace_openclaw.reading.session import SessionReadError, StoredSession, session_of_events

__all__ = ["BRANCH_FILE", "is_exported", "read_exported", "session_of_export"]

BRANCH_FILE = "session-branch.json"
EVENTS_FILE = "events.jsonl"


def is_exported(record: Record) -> bool:
    """Return whether a record is the branch of an exported session."""
    return isinstance(record.get("entries"), list) and mapping_in(record, "header").get("type") == "session"


def read_exported(path: Path) -> StoredSession:
    """Read an exported session.

    Args:
        path: The folder of the export, or its `session-branch.json`.

    Raises:
        SessionReadError: It is not an export, or it is broken.
        OSError: It cannot be read.
    """
    file = path / BRANCH_FILE if path.is_dir() else path
    try:
        record = json.loads(file.read_bytes())
    except ValueError as error:
        raise SessionReadError(f"{file} is not JSON ({error}); export the session again") from None
    if not isinstance(record, dict) or not is_exported(record):
        raise SessionReadError(f"{file} holds no 'header' and 'entries' of a session; export the session again")
    beside = file.with_name(EVENTS_FILE)
    if not beside.exists() or all(isinstance(entry, dict) for entry in list_in(record, "entries")):
        return session_of_export(record, source=str(file))
    # Of a longer session, the branch holds the beginning only; the events beside it are whole.
    source = file_source(beside)
    lines = [line for line in source.records() if isinstance(line.value, dict)]
    events = [mapping_in(record, "header"), *(_entry(line.value) for line in lines)]
    return session_of_events(
        [event for event in events if event],
        places=["0", *(str(line.line) for line, event in zip(lines, events[1:], strict=True) if event)],
        skipped_lines=sum(problem.count for problem in source.problems),
        source=str(beside),
        leaf_id=text_in(record, "leafId"),
    )


def _entry(record: Record) -> Record:
    """Return the event of the session that an exported event represents; an empty object if there is none."""
    if record.get("source") != "transcript" or record.get("type") == "tool.call":  # a call is in its answer, too
        return {}
    kind = text_in(record, "type")
    data = mapping_in(record, "data")
    own = {
        "id": text_in(record, "entryId"),
        "parentId": text_in(record, "parentEntryId"),
        "timestamp": record.get("ts"),
    }
    if "message" in data:
        return {"type": "message", "message": data["message"], **own}
    return {**data, "type": kind.removeprefix("session."), **own}


def session_of_export(record: Record, *, source: str = "") -> StoredSession:
    """Return the session of an export.

    Args:
        record: The object in `session-branch.json`.
        source: Its file.
    """
    events = [mapping_in(record, "header"), *list_in(record, "entries")]
    return session_of_events(events, source=source, leaf_id=text_in(record, "leafId"))
