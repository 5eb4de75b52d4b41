"""Reads sessions from all kinds of sources: events, texts, files, exports and databases."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ace.integrations import Record, checked_arguments, text_in
from ace_openclaw.reading.captured import is_captured_turn, sessions_of_captured_turns
from ace_openclaw.reading.compressed import decompressed
from ace_openclaw.reading.database import read_database
from ace_openclaw.reading.exported import BRANCH_FILE, is_exported, read_exported, session_of_export
from ace_openclaw.reading.json_lines import Lines, read_lines
from ace_openclaw.reading.session import SessionReadError, StoredSession, session_of_events

__all__ = ["SessionSource", "is_sidecar", "read_session", "read_sessions"]

SessionSource = StoredSession | str | bytes | os.PathLike[str] | Mapping[str, object] | Iterable[Mapping[str, object]]
"""A session, its events, an exported session, captured turns, or the path or content of a file that holds them."""

_SQLITE = b"SQLite format 3\x00"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


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
        return _of_records([source], ["1"], 0, "")
    if isinstance(source, str) and (not source.strip() or "\n" in source or source.lstrip().startswith("{")):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, bytes):
        return _of_bytes(source, "")
    if isinstance(source, str | os.PathLike):
        return _of_path(Path(source))
    items = list(source)
    return _of_records(items, [str(number) for number in range(1, len(items) + 1)], 0, "")


def is_sidecar(record: Record) -> bool:
    """Return whether a record is part of a trajectory file, which does not contain a conversation of its own."""
    return "traceSchema" in record


def _of_path(path: Path) -> list[StoredSession]:
    try:
        if path.is_dir():
            if (path / BRANCH_FILE).exists():
                return [read_exported(path)]
            raise SessionReadError(f"{path} is a folder without {BRANCH_FILE}; give a session file in it")
        if path.name == BRANCH_FILE:
            return [read_exported(path)]
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
        if start == _SQLITE:
            return read_database(path)
        return _of_bytes(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise SessionReadError(
            f"no such file: {str(path)!r}; OpenClaw keeps its sessions in ~/.openclaw/agents/AGENT"
        ) from None
    except OSError as error:
        raise SessionReadError(f"{path} cannot be read: {error.strerror}") from error


def _of_bytes(data: bytes, source: str) -> list[StoredSession]:
    if data.startswith(_ZSTANDARD):
        try:
            data = decompressed(data)
        except ValueError as error:
            raise SessionReadError(f"{source + ': ' if source else ''}{error}") from error
    whole = _whole(data)
    if whole is not None:
        return _of_records([whole], ["1"], 0, source)
    lines = read_lines(data)
    return _of_records(lines.records, lines.numbers, lines.skipped, source, lines)


def _whole(data: bytes) -> Record | None:
    """Return the object of a file that is one JSON object on several lines, such as an export."""
    if b'"entries"' not in data:
        return None
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _of_records(
    records: Sequence[Record], places: Sequence[str], skipped: int, source: str, lines: Lines | None = None
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
    session = session_of_events(records, places=places, skipped_lines=skipped, source=source)
    if not session.session_id and not any(_is_event(event) for event in session.events):
        if not objects and not skipped:
            raise SessionReadError(f"{where}no events of OpenClaw found: it is empty")
        problem = f" ({lines.problem})" if lines is not None and lines.problem else ""
        raise SessionReadError(
            f"{where}no events of OpenClaw found, but {len(objects)} other records and {skipped} lines "
            f"without a JSON object{problem}"
        )
    return [session]


def _is_turn(record: object) -> bool:
    return isinstance(record, Mapping) and is_captured_turn(record)


def _is_event(event: Record) -> bool:
    return text_in(event, "type") in ("message", "model_change", "thinking_level_change", "compaction", "custom")


def _named(source: object) -> str:
    return f"{source}: " if isinstance(source, os.PathLike) else ""
