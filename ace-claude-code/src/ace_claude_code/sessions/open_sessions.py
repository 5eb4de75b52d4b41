"""The sessions that have started and not ended, so that lost ones are learned from later.

Each has a file in the folder `open` of the state, from the hook at its start to the hook at its end. If the file still
exists when Claude Code no longer runs, the session was lost. Two hooks may find it at the same time and queue it twice,
which is harmless, because each of its turns is only learned from once.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ace.integrations import JobQueue, append_line, list_in, number_in, replace_file, text_in

__all__ = [
    "PRIVATE_VARIABLE",
    "OpenSession",
    "forget_open_session",
    "is_private_session",
    "note_open_session",
    "note_private_session",
    "note_shown_skills",
    "open_session",
    "queue_lost_sessions",
]

PRIVATE_VARIABLE = "ACE_PRIVATE"
"""The environment variable that makes a session private, so that nothing is learned from it."""
_PRIVATE_FILE = "private-sessions.txt"

_IDLE_SECONDS = 600.0
"""The time without new lines after which a session is learned from, although it may continue; later turns follow."""
_KEPT_SECONDS = 7 * 86_400.0
"""The time after which a session that was never stored is forgotten."""


@dataclass(frozen=True)
class OpenSession:
    """A session that has started."""

    transcript: str
    session_id: str
    process: int
    """The process id of Claude Code; on systems other than POSIX, that of a shell."""
    seen_bytes: int = 0
    """The size of its transcript when it was queued; later turns are queued again."""
    shown_skill_ids: tuple[str, ...] = ()
    """The ids of the skills that it got since it was started, resumed or compacted."""


def note_open_session(state: Path, session: OpenSession) -> None:
    """Record that a session was started or resumed."""
    replace_file(_path(state, session.session_id), json.dumps(asdict(session)).encode())


def open_session(state: Path, session_id: str) -> OpenSession | None:
    """Return the record of a session; None if it is not open.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    return _read(_path(state, session_id))


def note_shown_skills(state: Path, session_id: str, skill_ids: Sequence[str]) -> None:
    """Record the skills that a session got. Only its own hooks call this, one after the other.

    Args:
        state: The folder of the state.
        session_id: The session.
        skill_ids: The skills.
    """
    session = open_session(state, session_id)
    if session is not None:  # otherwise it is private, and nothing is recorded
        note_open_session(state, replace(session, shown_skill_ids=(*session.shown_skill_ids, *skill_ids)))


def forget_open_session(state: Path, session_id: str) -> None:
    """Remove the record of a session that has ended.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    _path(state, session_id).unlink(missing_ok=True)


def queue_lost_sessions(state: Path, *, besides: str) -> None:
    """Queue the sessions that were lost or idle for a long time.

    Args:
        state: The folder of the state.
        besides: The calling session, which is not lost.
    """
    for path, session in _open_sessions(state):
        if session.session_id == besides:
            continue
        is_running = _is_running(session.process)
        try:
            found = Path(session.transcript).stat()
        except FileNotFoundError:  # it has no messages yet, or Claude Code has deleted it
            if not is_running or time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink(missing_ok=True)
            continue
        is_idle = time.time() - found.st_mtime > _IDLE_SECONDS
        if is_running and not is_idle:
            continue
        if found.st_size > session.seen_bytes:
            JobQueue(state).add({"transcript": session.transcript, "session_id": session.session_id})
        if is_running:
            note_open_session(state, replace(session, seen_bytes=found.st_size))
        else:
            path.unlink(missing_ok=True)


def note_private_session(state: Path, session_id: str) -> None:
    """Record that a session is private, so that nothing is ever learned from it.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    append_line(state / _PRIVATE_FILE, session_id)
    forget_open_session(state, session_id)


def is_private_session(state: Path, session_id: str) -> bool:
    """Return whether a session was started as a private one.

    Args:
        state: The folder of the state.
        session_id: The session.
    """
    try:
        return session_id in (state / _PRIVATE_FILE).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:  # there was none so far
        return False


def _path(state: Path, session_id: str) -> Path:
    return state / "open" / f"{re.sub(r'[^A-Za-z0-9-]', '_', session_id)[:100]}.json"


def _open_sessions(state: Path) -> Iterator[tuple[Path, OpenSession]]:
    for path in sorted((state / "open").glob("*.json")):
        session = _read(path)
        if session is not None:
            yield path, session


def _read(path: Path) -> OpenSession | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (
        FileNotFoundError,
        ValueError,
    ):  # it has just ended, or a crash truncated the file
        return None
    if not isinstance(data, dict):
        return None
    return OpenSession(
        transcript=text_in(data, "transcript"),
        session_id=text_in(data, "session_id"),
        process=int(number_in(data, "process") or 0),
        seen_bytes=int(number_in(data, "seen_bytes") or 0),
        shown_skill_ids=tuple(str(id) for id in list_in(data, "shown_skill_ids")),
    )


def _is_running(process: int) -> bool:
    if process <= 0 or os.name != "posix":  # elsewhere, this check would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to another user, so the process id was reused
        return False
    return True
