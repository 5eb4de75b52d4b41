"""Reads the database in which OpenClaw 2026.8 and later stores the sessions of an agent, without writing to it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ace_openclaw.reading.compressed import decompressed
from ace_openclaw.reading.session import SessionReadError, StoredSession, session_of_events

__all__ = ["NEWEST_SCHEMA", "read_database", "schema_note", "session_keys"]

NEWEST_SCHEMA = 23
"""The newest schema that this reader was tested with."""

_SECONDS_TO_WAIT = 3.0
_COLUMNS = {"session_id", "seq", "event_json"}


def read_database(path: Path, session_id: str | None = None) -> list[StoredSession]:
    """Read the sessions of a database, oldest first. OpenClaw may write to it at the same time.

    Args:
        path: The file `openclaw-agent.sqlite`.
        session_id: The only session to read; by default all.

    Raises:
        SessionReadError: It is not a database of OpenClaw, it stays locked, or its schema is not supported.
        OSError: The file cannot be read.
    """
    path.stat()  # sqlite's own error would not say which file is missing
    try:
        return _read(path, session_id)
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise SessionReadError(
                f"{path} was locked by another program for more than {_SECONDS_TO_WAIT:.0f} seconds; try again later"
            ) from error
        raise SessionReadError(f"{path} cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise SessionReadError(f"{path} is not a database of OpenClaw, or it is damaged: {error}") from error


def schema_note(path: Path) -> str:
    """Return a warning if the schema of a database is newer than `NEWEST_SCHEMA`, and an empty text otherwise.

    Args:
        path: The file.
    """
    try:
        with contextlib.closing(_opened(path)) as database:
            version = _version(database)
    except sqlite3.Error:  # reading the sessions reports the error
        return ""
    if version <= NEWEST_SCHEMA:
        return ""
    return (
        f"{path} has schema {version}, but this release of ace-openclaw was tested with schemas up to {NEWEST_SCHEMA}; "
        "events that it does not recognise are skipped. Update ace-openclaw"
    )


def session_keys(path: Path) -> dict[str, str]:
    """Return the names of the sessions of a database by id; empty if it cannot be read.

    Args:
        path: The file.
    """
    try:
        with contextlib.closing(_opened(path)) as database:
            return {session_id: key for session_id, (key, _) in _windows(database).items() if key}
    except (OSError, sqlite3.Error):  # reading the sessions reports the error
        return {}


def _read(path: Path, session_id: str | None) -> list[StoredSession]:
    for _ in range(3):
        at_rest, before = _is_at_rest(path), _state(path)
        with contextlib.closing(_opened(path)) as database:
            sessions = list(_sessions(database, path, session_id))
        # A file that was read as immutable must not have changed meanwhile.
        if not at_rest or (_is_at_rest(path) and _state(path) == before):
            return sessions
    raise SessionReadError(f"{path} changed each time while it was being read; try again later")


def _is_at_rest(path: Path) -> bool:
    """Return whether a database in write-ahead mode has no log at the moment, so that all data is in the file."""
    with path.open("rb") as file:
        head = file.read(20)
    return head[18:20] == b"\x02\x02" and not path.with_name(f"{path.name}-wal").exists()


def _state(path: Path) -> tuple[int, int]:
    """Return the modification time and the size of a file, which change whenever it is written."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _opened(path: Path) -> sqlite3.Connection:
    # Without a write-ahead log, a normal reader would create one and leave it behind.
    mode = "mode=ro&immutable=1" if _is_at_rest(path) else "mode=ro"
    database = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=_SECONDS_TO_WAIT)
    database.execute("pragma query_only = on")
    return database


def _sessions(database: sqlite3.Connection, path: Path, only: str | None) -> Iterator[StoredSession]:
    database.execute("begin")  # read a consistent snapshot
    columns = _columns(database, "transcript_events")
    if not columns >= _COLUMNS:
        raise SessionReadError(
            f"{path} (schema {_version(database)}) has no table of events that this release can read; update "
            "ace-openclaw, or run 'openclaw sessions export-trajectory' and learn from the exported file"
        )
    known = _windows(database)
    agent_id = path.parent.parent.name if path.parent.name == "agent" else ""
    order = "min(created_at)" if "created_at" in columns else "min(rowid)"
    ids = [
        str(row[0])
        for row in database.execute(f"select session_id from transcript_events group by session_id order by {order}")
    ]
    blobs = "event_zstd" if "event_zstd" in columns else "null"
    for session_id in ids:
        if only is not None and session_id != only:
            continue
        rows = database.execute(
            f"select seq, event_json, {blobs} from transcript_events where session_id = ? order by seq", (session_id,)
        )
        places, events = [], []
        for number, text, blob in rows:
            places.append(str(number))
            events.append(_event(text, blob))
        key, status = known.get(session_id, ("", ""))
        yield session_of_events(
            events,
            places=places,
            source=str(path),
            session_id=session_id,
            session_key=key,
            agent_id=agent_id,
            status=status,
        )


def _event(text: object, blob: object) -> object:
    """Return the event of a row; None if it has none."""
    try:
        data = decompressed(blob) if isinstance(blob, bytes) else text
        return json.loads(data) if isinstance(data, str | bytes) else None
    except (ValueError, RecursionError):
        return None


def _windows(database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Return the key and the status of each session, if the database has them."""
    columns = _columns(database, "session_windows")
    if not columns >= {"session_id", "session_key"}:
        return {}
    status = "status" if "status" in columns else "null"
    rows = database.execute(f"select session_id, session_key, {status} from session_windows")
    return {str(row[0]): (str(row[1] or ""), str(row[2] or "")) for row in rows}


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in database.execute(f"pragma table_info({table})")}


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("pragma user_version").fetchone()[0])
