"""Reads sessions from all kinds of sources: events, texts, files, exports and databases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ace.integrations import Record, checked_arguments, text_in
from ace.logs import NotALogError, Source, file_source, live_source, text_source
from ace_openclaw.reading.captured import is_captured_turn, sessions_of_captured_turns
from ace_openclaw.reading.database import read_database
from ace_openclaw.reading.exported import BRANCH_FILE, is_exported, read_exported, session_of_export
from ace_openclaw.reading.session import SessionReadError, StoredSession, session_of_events

__all__ = ["SessionSource", "is_sidecar", "read_session", "read_sessions", "sessions_of_source"]

SessionSource = StoredSession | str | bytes | os.PathLike[str] | Mapping[str, object] | Iterable[Mapping[str, object]]
"""A session, its events, an exported session, captured turns, or the path or content of a file that holds them."""


@checked_arguments()
def read_session(source: SessionSource) -> StoredSession:
    """Read the only session of a source.

    Raises:
        SessionReadError: The source does not contain exactly one session.
    """
    sessions = read_sessions(source)
    if len(sessions) == 1:
        return sessions[0]
    if not sessions:
        raise SessionReadError(f"{_named(source)}no session found")
    raise SessionReadError(
        f"{_named(source)}there are {len(sessions)} sessions here; give one of those that read_sessions returns, "
        "or have the runner OpenClaw learn from all"
    )


@checked_arguments()
def read_sessions(source: SessionSource) -> list[StoredSession]:
    """Read all sessions of a source.

    Args:
        source: Events, a path, the content of a file, an exported session, or captured turns. The path is that of a
            session file up to release 2026.7, of the database of an agent from 2026.8 on, of an export, or of the
            file of captured turns.

    Raises:
        SessionReadError: The file does not exist, or does not contain a session of OpenClaw.

    Example:
        >>> text = '{"type": "session", "version": 3, "id": "a"}\\n{"type": "mess'
        >>> [session] = read_sessions(text)
        >>> session.session_id, session.skipped_lines
        ('a', 1)
    """
    if isinstance(source, StoredSession):
        return [source]
    if isinstance(source, Mapping):
        return sessions_of_source(live_source([source]))
    if isinstance(source, str) and (not source.strip() or "\n" in source or source.lstrip().startswith("{")):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, bytes):
        return sessions_of_source(text_source(source, ""))
    if isinstance(source, str | os.PathLike):
        return _of_path(Path(source))
    return sessions_of_source(live_source(list(source)))


def sessions_of_source(source: Source) -> list[StoredSession]:
    """Return the sessions of a source.

    Args:
        source: A file, a folder with an export, a database, or records in memory.

    Raises:
        SessionReadError: It does not contain a session of OpenClaw.
    """
    if source.shape == "sqlite":
        return read_database(source.path)
    if source.shape == "folder" or source.path.name == BRANCH_FILE:
        return [read_exported(source.path)]
    records = list(source.records())
    name = "" if source.shape == "live" else str(source.path)
    return _of_records(
        [record.value for record in records],
        [str(record.line) for record in records],
        sum(problem.count for problem in source.problems),
        name,
        next((str(problem) for problem in source.problems), ""),
    )


def is_sidecar(record: Record) -> bool:
    """Return whether a record is part of a trajectory file, which does not contain a conversation of its own."""
    return "traceSchema" in record


def _of_path(path: Path) -> list[StoredSession]:
    try:
        if path.is_dir() and not (path / BRANCH_FILE).exists():
            raise SessionReadError(f"{path} is a folder without {BRANCH_FILE}; give a session file in it")
        return sessions_of_source(file_source(path))
    except FileNotFoundError:
        raise SessionReadError(
            f"no such file: {str(path)!r}; OpenClaw keeps its sessions in ~/.openclaw/agents/AGENT"
        ) from None
    except OSError as error:
        raise SessionReadError(f"{path} cannot be read: {error.strerror}") from error
    except NotALogError as error:
        raise SessionReadError(f"{path}: no events of OpenClaw found: it is {error}") from error


def _of_records(
    records: Sequence[Record], places: Sequence[str], skipped: int, source: str, problem: str
) -> list[StoredSession]:
    anything: Sequence[object] = records  # a caller may pass something that is not an object
    objects = [record for record in anything if isinstance(record, Mapping)]
    where = f"{source}: " if source else ""
    if any(is_sidecar(record) for record in objects):
        beside = source.replace(".trajectory.jsonl", ".jsonl") if source.endswith(".trajectory.jsonl") else ""
        raise SessionReadError(
            f"{where}this is a trajectory file, which repeats a session; give the session itself"
            f"{f', {beside}' if beside else ''}"
        )
    if len(objects) == 1 and is_exported(objects[0]):
        return [session_of_export(objects[0], source=source)]
    captured = [(record, place) for record, place in zip(records, places, strict=True) if _is_turn(record)]
    if captured:
        turns, spots = zip(*captured, strict=True)
        passed_over = skipped + len(records) - len(captured)
        return sessions_of_captured_turns(turns, source=source, places=spots, skipped_lines=passed_over)
    starts = _starts(records)
    if len(starts) > 1:
        ends = [*starts[1:], len(records)]
        return [
            session_of_events(
                records[start:end], places=places[start:end], skipped_lines=0 if start else skipped, source=source
            )
            for start, end in zip([0, *starts[1:]], ends, strict=True)
        ]
    session = session_of_events(records, places=places, skipped_lines=skipped, source=source)
    if not session.session_id and not any(_is_event(event) for event in session.events):
        if not objects and not skipped:
            raise SessionReadError(f"{where}no events of OpenClaw found: it is empty")
        raise SessionReadError(
            f"{where}no events of OpenClaw found, but {len(objects)} other records and {skipped} lines "
            f"without a JSON object{f' ({problem})' if problem else ''}"
        )
    return [session]


def _starts(records: Sequence[object]) -> list[int]:
    """Return the places of the headers of sessions; one that is repeated begins none."""
    found: dict[str, int] = {}
    for at, record in enumerate(records):
        if isinstance(record, Mapping) and record.get("type") == "session":
            found.setdefault(text_in(record, "id"), at)
    return list(found.values())


def _is_turn(record: object) -> bool:
    return isinstance(record, Mapping) and is_captured_turn(record)


def _is_event(event: Record) -> bool:
    return text_in(event, "type") in ("message", "model_change", "thinking_level_change", "compaction", "custom")


def _named(source: object) -> str:
    return f"{source}: " if isinstance(source, os.PathLike) else ""
